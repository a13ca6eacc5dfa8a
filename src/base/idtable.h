/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_BASE_IDTABLE_H
#define VB_BASE_IDTABLE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Theory of operation
 *
 * A table from small numbers to objects, for handles, QP numbers and keys. Numbers
 * are handed out in a circle, so that one just released is the last to come back
 * and a stale number names nothing for as long as possible. A number is
 * index + first. Look-ups of different tables never share a lock.
 */
struct vb_idtable {
	pthread_mutex_t lock;
	void **slots;	   /* capacity entries, NULL where free */
	uint32_t capacity; /* grows by doubling up to limit */
	uint32_t limit;	   /* most objects at a time */
	uint32_t first;	   /* number of slot 0 */
	uint32_t next;	   /* where the search for a free slot begins */
	uint32_t used;
};

/** vb_idtable_init() - Make an empty table in the caller's memory
 * @first:  Number of the first slot
 * @limit:  Most objects the table may hold, at least 1
 */
void vb_idtable_init(struct vb_idtable *table, uint32_t first, uint32_t limit);

/** vb_idtable_reserve() - Hand numbers out in a larger circle from the beginning
 * @capacity: Numbers that are used before the first one comes back; at least 1
 * @begin:  Where in the circle to begin
 * Return:  0, -ENOMEM
 */
int vb_idtable_reserve(struct vb_idtable *table, uint32_t capacity, uint32_t begin);

/** vb_idtable_fini() - Free what the table allocated; the objects are the caller's */
void vb_idtable_fini(struct vb_idtable *table);

/** vb_idtable_add() - Give an object a number
 * @object: Not NULL
 * @id:     Receives the number
 * Context: any thread; locks the table
 * Return:  0, -ENOSPC when @limit objects are in, -ENOMEM
 */
int vb_idtable_add(struct vb_idtable *table, void *object, uint32_t *id);

/** vb_idtable_lookup() - The object of a number
 * Return:  the object, or NULL for a number that names none
 */
void *vb_idtable_lookup(struct vb_idtable *table, uint32_t id);

/** vb_idtable_visit() - Call a function on the object of a number
 * @visit:  Runs with the table locked: what it does is over before the object can be
 *          taken out, and it must not touch the table
 * Return:  false for a number that names none
 */
bool vb_idtable_visit(struct vb_idtable *table, uint32_t id, void (*visit)(void *object, void *arg),
		      void *arg);

/** vb_idtable_remove() - Take an object out; its number is free again
 * Return:  the object, or NULL for a number that names none
 */
void *vb_idtable_remove(struct vb_idtable *table, uint32_t id);

/** vb_idtable_count() - How many objects are in */
uint32_t vb_idtable_count(struct vb_idtable *table);

/** vb_idtable_each() - Call a function on every object until it returns non-zero
 * Context: the table stays locked meanwhile: @visit must not touch it
 * Return:  what the last call returned, 0 when all were visited
 */
int vb_idtable_each(struct vb_idtable *table, int (*visit)(void *object, void *arg), void *arg);

#endif

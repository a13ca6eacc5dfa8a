/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/idtable.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 64

void vb_idtable_init(struct vb_idtable *table, uint32_t first, uint32_t limit)
{
	memset(table, 0, sizeof(*table));
	pthread_mutex_init(&table->lock, NULL);
	table->first = first;
	table->limit = limit;
}

void vb_idtable_fini(struct vb_idtable *table)
{
	free(table->slots);
	pthread_mutex_destroy(&table->lock);
	memset(table, 0, sizeof(*table));
}

/* Grow before the circle closes, so that numbers stay unused for long. */
static int grow(struct vb_idtable *table)
{
	uint32_t capacity = table->capacity ? table->capacity * 2 : FIRST_CAPACITY;
	void **slots;

	if (capacity > table->limit || capacity < table->capacity)
		capacity = table->limit;
	if (capacity == table->capacity)
		return 0;
	slots = realloc(table->slots, capacity * sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	memset(slots + table->capacity, 0, (capacity - table->capacity) * sizeof(*slots));
	table->next = table->capacity;
	table->slots = slots;
	table->capacity = capacity;
	return 0;
}

int vb_idtable_reserve(struct vb_idtable *table, uint32_t capacity, uint32_t begin)
{
	int err = 0;

	pthread_mutex_lock(&table->lock);
	while (!err && table->capacity < capacity && table->capacity < table->limit)
		err = grow(table);
	if (!err)
		table->next = begin % table->capacity;
	pthread_mutex_unlock(&table->lock);
	return err;
}

static int add_locked(struct vb_idtable *table, void *object, uint32_t *id)
{
	int err;

	if (table->used >= table->limit)
		return -ENOSPC;
	if (table->used >= table->capacity / 2) {
		err = grow(table);
		if (err && table->used >= table->capacity)
			return err;
	}
	while (table->slots[table->next % table->capacity])
		table->next++;
	table->next %= table->capacity;
	table->slots[table->next] = object;
	*id = table->first + table->next;
	table->next = (table->next + 1) % table->capacity;
	table->used++;
	return 0;
}

int vb_idtable_add(struct vb_idtable *table, void *object, uint32_t *id)
{
	int err;

	pthread_mutex_lock(&table->lock);
	err = add_locked(table, object, id);
	pthread_mutex_unlock(&table->lock);
	return err;
}

static void **slot_of(struct vb_idtable *table, uint32_t id)
{
	uint32_t index = id - table->first;

	return id >= table->first && index < table->capacity ? &table->slots[index] : NULL;
}

void *vb_idtable_lookup(struct vb_idtable *table, uint32_t id)
{
	void **slot;
	void *object;

	pthread_mutex_lock(&table->lock);
	slot = slot_of(table, id);
	object = slot ? *slot : NULL;
	pthread_mutex_unlock(&table->lock);
	return object;
}

bool vb_idtable_visit(struct vb_idtable *table, uint32_t id, void (*visit)(void *object, void *arg),
		      void *arg)
{
	void **slot;
	void *object;

	pthread_mutex_lock(&table->lock);
	slot = slot_of(table, id);
	object = slot ? *slot : NULL;
	if (object)
		visit(object, arg);
	pthread_mutex_unlock(&table->lock);
	return object != NULL;
}

void *vb_idtable_remove(struct vb_idtable *table, uint32_t id)
{
	void **slot;
	void *object;

	pthread_mutex_lock(&table->lock);
	slot = slot_of(table, id);
	object = slot ? *slot : NULL;
	if (object) {
		*slot = NULL;
		table->used--;
	}
	pthread_mutex_unlock(&table->lock);
	return object;
}

uint32_t vb_idtable_count(struct vb_idtable *table)
{
	uint32_t used;

	pthread_mutex_lock(&table->lock);
	used = table->used;
	pthread_mutex_unlock(&table->lock);
	return used;
}

int vb_idtable_each(struct vb_idtable *table, int (*visit)(void *object, void *arg), void *arg)
{
	int ret = 0;

	pthread_mutex_lock(&table->lock);
	for (uint32_t i = 0; i < table->capacity && !ret; i++)
		if (table->slots[i])
			ret = visit(table->slots[i], arg);
	pthread_mutex_unlock(&table->lock);
	return ret;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_RDMACM_RSOCKET_TABLE_H
#define VB_RDMACM_RSOCKET_TABLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/spin.h"

/*
 * Theory of operation
 *
 * Which socket a descriptor is, for this process. Pages of entries are made as descriptors
 * need them and never go; an entry is read, and its reference taken, under a lock that
 * few descriptors share. A child made by fork starts with a table of its own, since
 * connections stay with the parent.
 */

struct vb_rs;
struct vb_rs_service;

#define VB_RS_TABLE_PAGES 1024
#define VB_RS_TABLE_SLOTS 1024
#define VB_RS_TABLE_LOCKS 64

struct vb_rs_page {
	struct vb_rs *entries[VB_RS_TABLE_SLOTS];
};

/* All that belongs to one process. */
struct vb_rs_process {
	const uint8_t *guard; /* reads 0 in a child */
	_Atomic(struct vb_rs_page *) pages[VB_RS_TABLE_PAGES];
	struct vb_spin locks[VB_RS_TABLE_LOCKS];
	pthread_mutex_t service_lock;
	struct vb_rs_service *service; /* NULL: does not run */
	int service_users;
};

/** vb_rs_process_get() - This process's table, made where there is none
 * Return:  NULL with errno ENOMEM
 */
struct vb_rs_process *vb_rs_process_get(void);

/** vb_rs_table_put() - Enter a socket under its descriptor; the table takes the reference
 *
 * Where the number still has an entry, the program closed it with close(): that socket is
 * let go.
 * Return:  0, or -1 with errno (ENOMEM; EMFILE: the number is beyond the table)
 */
int vb_rs_table_put(struct vb_rs_process *process, int fd, struct vb_rs *rs);

/** vb_rs_table_find() - The socket of a descriptor with a reference
 * Return:  NULL where it is none of this process's
 */
struct vb_rs *vb_rs_table_find(int fd);

/** vb_rs_table_take() - Take the entry out; its reference goes to the caller
 * Return:  NULL where there is none
 */
struct vb_rs *vb_rs_table_take(int fd);

#endif

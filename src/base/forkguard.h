/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_BASE_FORKGUARD_H
#define VB_BASE_FORKGUARD_H

#include <pthread.h>
#include <stdint.h>

/*
 * Theory of operation
 *
 * What a process opened is not its child's. A page that the kernel zeroes in a child
 * (MADV_WIPEONFORK) tells the two apart at the cost of one load, also after a raw
 * clone(); where the kernel lacks it, a pthread_atfork handler zeroes the page. Each
 * process that asks anew gets a page of its own, while old pointers keep reading 0.
 * The same kind of page holds the library's process-wide locks: a zeroed mutex is an
 * unlocked one, so a child never waits for a thread that exists in its parent only.
 */

/** vb_fork_guard() - A byte that reads 1 in this process and 0 in its children
 * Context: any thread
 * Return:  the byte, valid while the process lives; NULL for want of memory
 */
const uint8_t *vb_fork_guard(void);

enum vb_fork_lock {
	VB_FORK_LOCK_DEVICES,  /* host/discover.c */
	VB_FORK_LOCK_ADAPTER,  /* the process's part of the adapter */
	VB_FORK_LOCK_SETTINGS, /* base/settings.c */
	VB_FORK_LOCK_CM,       /* rdmacm: channels and events */
	VB_FORK_LOCK_CM_DEVICES,
	VB_FORK_LOCK_COUNT
};

/** vb_fork_lock() - A process-wide mutex that is free in a child made by fork
 * Return:  the mutex, never NULL
 */
pthread_mutex_t *vb_fork_lock(enum vb_fork_lock which);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_RDMACM_RSOCKET_WAITER_H
#define VB_RDMACM_RSOCKET_WAITER_H

#include <stdatomic.h>
#include <stdbool.h>

/*
 * Theory of operation
 *
 * A thread that waits for sockets sleeps in poll() on the descriptors that tell of
 * completions, and on one of its own, through which others wake it: the thread that
 * handled a completion another waits for, rclose(), or the service. It puts itself into
 * the list of each socket it waits for, looks, arms, looks again, and sleeps.
 */

struct vb_rs_waiter {
	int fd;		      /* an eventfd */
	_Atomic int signaled; /* it was written to since the waiter last looked */
};

struct vb_rs_link {
	struct vb_rs_link *next;
	struct vb_rs_link **at; /* what points to it; NULL: in no list */
	struct vb_rs_waiter *waiter;
};

struct vb_rs_links {
	struct vb_rs_link *first;
};

/** vb_rs_waiter_init() - Get a descriptor to be woken through. Return: 0, or -1 with errno */
int vb_rs_waiter_init(struct vb_rs_waiter *waiter);

void vb_rs_waiter_fini(struct vb_rs_waiter *waiter);

/** vb_rs_waiter_clear() - Woken: before the conditions are looked at again */
void vb_rs_waiter_clear(struct vb_rs_waiter *waiter);

/* The list is protected by its socket's lock. */
void vb_rs_link_add(struct vb_rs_links *links, struct vb_rs_link *link,
		    struct vb_rs_waiter *waiter);
void vb_rs_link_remove(struct vb_rs_link *link);

/** vb_rs_links_wake() - Wake everybody in the list; they stay in it */
void vb_rs_links_wake(struct vb_rs_links *links);

#endif

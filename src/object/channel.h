/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_OBJECT_CHANNEL_H
#define VB_OBJECT_CHANNEL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

/* A completion channel: the program's end of a pipe, and the end that is written to. */
struct vb_channel {
	struct ibv_comp_channel ibv; /* refcnt: CQs on it, under the context's mutex */
	int write_fd;
	_Atomic bool armed; /* a CQ of it was: from then on we write to it */
	uint32_t handle;
	pthread_mutex_t lock; /* readers of records, and purging them */
};

static inline struct vb_channel *vb_channel_of(struct ibv_comp_channel *channel)
{
	return (struct vb_channel *)(void *)channel;
}

#endif

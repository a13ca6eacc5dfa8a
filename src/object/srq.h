/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_OBJECT_SRQ_H
#define VB_OBJECT_SRQ_H

#include <infiniband/verbs.h>

#include "object/pd.h"
#include "object/rq.h"

struct vb_srq {
	struct ibv_srq ibv;
	struct vb_rq rq;
	uint32_t handle;		/* copy: the public one may be overwritten */
	_Atomic uint32_t users;		/* QPs that receive from it: not 0, busy */
	_Atomic uint32_t events_handed; /* asynchronous events given out */
	_Atomic uint32_t limit;		/* armed limit, 0 not armed */
	_Atomic uint64_t armed_head;	/* receives taken when it was armed */
};

static inline struct vb_srq *vb_srq_of(struct ibv_srq *srq)
{
	return (struct vb_srq *)(void *)srq;
}

#endif

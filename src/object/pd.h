/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_OBJECT_PD_H
#define VB_OBJECT_PD_H

#include <stdatomic.h>

#include <infiniband/verbs.h>

struct vb_pd {
	struct ibv_pd ibv;
	uint32_t index;		/* in the numbers of PDs */
	uint32_t number;	/* adapter-wide: what keys and QPs are compared by */
	_Atomic uint32_t users; /* MRs and QPs in it; not 0: busy */
};

static inline struct vb_pd *vb_pd_of(struct ibv_pd *pd)
{
	return (struct vb_pd *)(void *)pd;
}

#endif

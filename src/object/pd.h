/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_OBJECT_PD_H
#define VB_OBJECT_PD_H

#include <stdatomic.h>

#include <infiniband/verbs.h>

struct vb_td {
	struct ibv_td ibv;
	uint32_t handle;
	_Atomic uint32_t users; /* parent domains that name it */
};

/*
 * A protection domain, or one of the two forms that stand for one: a parent domain
 * (`base` set) and an imported PD (`original` set). Both carry the number of what
 * they stand for, and numbers are what access checks compare: so they are
 * interchangeable with it everywhere.
 */
struct vb_pd {
	struct ibv_pd ibv;
	uint32_t index;		/* in the numbers of PDs */
	uint32_t number;	/* adapter-wide: what keys and QPs are compared by */
	_Atomic uint32_t users; /* objects in it; not 0: busy */
	struct vb_pd *base;	/* a parent domain's PD */
	struct vb_td *td;	/* a parent domain's thread domain, or NULL */
	struct vb_pd *original; /* an imported PD's */
};

static inline struct vb_pd *vb_pd_of(struct ibv_pd *pd)
{
	return (struct vb_pd *)(void *)pd;
}

/** vb_pd_hold() - Count an object in a PD, or with -1 out of it
 * @pd:     Passed vb_check_object(), or is held already
 */
static inline void vb_pd_hold(struct vb_pd *pd, int by)
{
	for (; pd; pd = pd->original)
		atomic_fetch_add(&pd->users, (uint32_t)by);
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_VERBS_DM_H
#define VB_VERBS_DM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include <infiniband/verbs.h>

/* Device memory: pages of this process, which only the verbs and RDMA reach. */
struct vb_dm {
	struct ibv_dm ibv;
	void *map; /* what was mapped */
	size_t map_bytes;
	uint8_t *addr; /* first byte, aligned as asked for */
	size_t length;
	_Atomic uint32_t users; /* MRs on it */
	struct vb_dm *original; /* an imported one's */
	bool unlisted;		/* made in a child of fork, where the context's tables are stale */
};

static inline struct vb_dm *vb_dm_of(struct ibv_dm *dm)
{
	return (struct vb_dm *)(void *)dm;
}

/* The verbs ibv_alloc_dm, ibv_free_dm, ibv_reg_dm_mr, and the two in struct ibv_dm. */
struct ibv_dm *vb_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr);
int vb_free_dm(struct ibv_dm *dm);
struct ibv_mr *vb_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length,
			    unsigned int access);
int vb_memcpy_to_dm(struct ibv_dm *dm, uint64_t offset, const void *from, size_t length);
int vb_memcpy_from_dm(void *to, struct ibv_dm *dm, uint64_t offset, size_t length);

#endif

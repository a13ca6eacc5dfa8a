/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_OBJECT_MR_H
#define VB_OBJECT_MR_H

#include <stdatomic.h>
#include <stdbool.h>

#include <infiniband/verbs.h>

struct vb_buf;
struct vb_dm;
struct vb_pd;

/* The access flags of this device; the optional ones (bits 20-29) are always taken. */
#define VB_MR_ACCESS                                                                               \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND |                 \
	 IBV_ACCESS_HUGETLB)

#define VB_MR_REMOTE (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

/* What made the region. Only those from ibv_reg_mr can be re-registered. */
enum vb_mr_kind {
	VB_MR_MEMORY, /* ibv_reg_mr and its relatives */
	VB_MR_NULL,   /* ibv_alloc_null_mr: no memory at all */
	VB_MR_DM,     /* ibv_reg_dm_mr */
	VB_MR_BUF,    /* ibv_reg_buf_mr */
};

struct vb_mr {
	struct ibv_mr ibv;
	struct vb_pd *pd;
	enum vb_mr_kind kind;
	uint64_t addr;	 /* virtual address of the first byte; ibv.addr is what programs see */
	uint64_t iova;	 /* what SGEs and peers call the first byte */
	uint32_t access; /* IBV_ACCESS_* without the optional bits, and VB_KEY_NULL */
	uint32_t index;	 /* row in the key tables */
	uint32_t number; /* adapter-wide number of the row: key >> 8 */
	uint64_t path;	 /* where the file's name is published, 0 nowhere */
	uint64_t path_bytes;
	struct vb_dm *dm;	/* of VB_MR_DM */
	struct vb_buf *buf;	/* of VB_MR_BUF */
	struct vb_mr *original; /* an imported MR's; this struct is then no region itself */
	_Atomic uint32_t users; /* what depends on the region: memory windows bound to it */
};

static inline struct vb_mr *vb_mr_of(struct ibv_mr *mr)
{
	return (struct vb_mr *)(void *)mr;
}

/** vb_mr_implicit() - Does a registration mean the whole address space?
 * Spec:    man ibv_reg_mr(3): ON_DEMAND, address 0, length SIZE_MAX
 */
bool vb_mr_implicit(const void *addr, size_t length, unsigned int access);

/** vb_mr_check_access() - The rules of access flags alone
 * Return:  0, or the errno of the rule that was broken
 */
int vb_mr_check_access(unsigned int access);

/** vb_mr_check() - The rules of registration that need no look at the memory
 * @addr:   First byte
 * @length: Bytes
 * @iova:   What the first byte will be called
 * @access: IBV_ACCESS_* as the program gave it
 * @max:    max_mr_size
 * Return:  0, or the errno of the rule that was broken
 * Spec:    man ibv_reg_mr(3)
 */
int vb_mr_check(const void *addr, size_t length, uint64_t iova, unsigned int access, uint64_t max);

/** vb_mr_access_text() - Names of access flags, "LOCAL_WRITE|REMOTE_READ" */
const char *vb_mr_access_text(unsigned int access, char *text, size_t size);

#endif

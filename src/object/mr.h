/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_OBJECT_MR_H
#define VB_OBJECT_MR_H

#include <infiniband/verbs.h>

struct vb_pd;

/* The access flags of this device; the optional ones (bits 20-29) are always taken. */
#define VB_MR_ACCESS                                                                               \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED)

#define VB_MR_REMOTE (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

struct vb_mr {
	struct ibv_mr ibv;
	struct vb_pd *pd;
	uint64_t iova;	 /* what SGEs and peers call the first byte */
	uint32_t access; /* IBV_ACCESS_* without the optional bits */
	uint32_t index;	 /* row in the key tables */
	uint32_t number; /* adapter-wide number of the row: key >> 8 */
	uint64_t path;	 /* where the file's name is published, 0 nowhere */
	uint64_t path_bytes;
};

static inline struct vb_mr *vb_mr_of(struct ibv_mr *mr)
{
	return (struct vb_mr *)(void *)mr;
}

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

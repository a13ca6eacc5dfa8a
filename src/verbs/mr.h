/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_VERBS_MR_H
#define VB_VERBS_MR_H

#include "object/context.h"
#include "object/mr.h"
#include "object/pd.h"

/* What the verbs that make regions share; used by the files about memory only. */

/** vb_mr_check_memory() - Is the memory there, with the rights that the flags need?
 * @addr:   First byte
 * @length: Bytes
 * @access: IBV_ACCESS_*; nothing is looked at where it says ON_DEMAND
 * Return:  0, or the errno of the rule that was broken
 */
int vb_mr_check_memory(void *addr, size_t length, unsigned int access);

/** vb_mr_check_offset() - Address and iova agree within a page
 * Return:  0, or the errno of the rule that was broken
 */
int vb_mr_check_offset(const void *addr, uint64_t iova, unsigned int access);

/** vb_mr_make() - Make the object of a region that passed every check
 * @want:   ibv.addr, ibv.length, kind, addr, iova, access, dm, buf
 * Return:  the region, or NULL with errno by rule
 */
struct ibv_mr *vb_mr_make(struct vb_context *ctx, struct vb_pd *pd, const struct vb_mr *want);

/** vb_reg_mr() - ibv_reg_mr and its relatives */
struct ibv_mr *vb_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			 unsigned int access);

/** vb_alloc_null_mr() - ibv_alloc_null_mr */
struct ibv_mr *vb_alloc_null_mr(struct ibv_pd *pd);

/** vb_advise_mr() - ibv_advise_mr */
int vb_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		 struct ibv_sge *sg_list, uint32_t num_sge);

#endif

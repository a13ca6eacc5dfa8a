/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_ENGINE_OBJECTS_H
#define VB_ENGINE_OBJECTS_H

#include "engine/engine.h"
#include "object/mr.h"

/*
 * Where objects meet what is shared: numbers, rows, rings. The verbs layer has checked
 * the rules and owns handles and dependency counts. All of these return 0 or a negative
 * errno and change nothing when they fail.
 */

/** vb_engine_cq_create() - Number, row and ready set of a CQ
 * @channel_fd: Write end of the channel's pipe, -1 without channel
 */
int vb_engine_cq_create(struct vb_engine *engine, struct vb_cq *cq, int channel_fd);

/** vb_engine_cq_destroy() - The opposite; no QP uses the CQ any more */
void vb_engine_cq_destroy(struct vb_engine *engine, struct vb_cq *cq);

/** vb_engine_cq_arm() - Ask for one event
 * @solicited: Only for solicited receives and errors
 */
void vb_engine_cq_arm(struct vb_cq *cq, bool solicited);

/** vb_engine_mr_create() - Number, keys and published row of an MR
 * @mr:     ibv.addr, ibv.length, iova, access and pd are set; lkey and rkey are filled
 */
int vb_engine_mr_create(struct vb_engine *engine, struct vb_mr *mr);

/** vb_engine_mr_destroy() - Make the keys dead and wait for accesses under way
 * Context: may wait up to VB_ACCESS_BOUND_NS for a peer that stopped inside an access
 */
void vb_engine_mr_destroy(struct vb_engine *engine, struct vb_mr *mr);

/** vb_engine_qp_create() - Queues, number and rows of a QP in RESET
 * @qp:     ibv fields, cap and sq_sig_all are set; qp_num and cap are filled
 */
int vb_engine_qp_create(struct vb_engine *engine, struct vb_qp *qp);

/** vb_engine_qp_destroy() - The opposite; completions not polled yet vanish */
void vb_engine_qp_destroy(struct vb_engine *engine, struct vb_qp *qp);

/** vb_engine_qp_modify() - Carry out a modify that passed the checks
 * @attr:   New values
 * @mask:   IBV_QP_* bits
 * @own_gid: Of ah_attr.grh.sgid_index, where IBV_QP_AV is in the mask
 * @local:  The destination GID is an address of this host
 * Context: the QP's lock is held
 */
int vb_engine_qp_modify(struct vb_engine *engine, struct vb_qp *qp, const struct ibv_qp_attr *attr,
			int mask, const union ibv_gid *own_gid, bool local);

#endif

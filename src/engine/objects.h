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

/** vb_engine_cq_resize() - Give a CQ another number of entries
 * Return:  false when more completions than that wait to be polled
 */
bool vb_engine_cq_resize(struct vb_cq *cq, int cqe);

/** vb_engine_cq_destroy() - The opposite; no QP uses the CQ any more */
void vb_engine_cq_destroy(struct vb_engine *engine, struct vb_cq *cq);

/** vb_engine_cq_arm() - Ask for one event
 * @solicited: Only for solicited receives and errors
 *
 * Where completions wait that came while the CQ was not armed, the event is raised at once, as
 * adapters do that compare the consumer's index at arming: a program that takes some completions
 * for an event, and then waits for the next event, is not left waiting.
 */
void vb_engine_cq_arm(struct vb_engine *engine, struct vb_cq *cq, bool solicited);

/** vb_engine_mr_create() - Number, keys and published row of an MR
 * @mr:     ibv.addr, ibv.length, kind, addr, iova, access and pd are set; lkey and rkey are
 *          filled
 */
int vb_engine_mr_create(struct vb_engine *engine, struct vb_mr *mr);

/** vb_engine_mr_change() - Make an MR what @want says
 * It gets new keys where what they lead to changes. Accesses under way end or fail.
 * @want:   ibv.addr, ibv.length, ibv.pd, addr, iova, access, pd; checked before
 * Context: as vb_engine_mr_destroy()
 */
void vb_engine_mr_change(struct vb_engine *engine, struct vb_mr *mr, const struct vb_mr *want);

/** vb_engine_mr_destroy() - Make the keys dead and wait for accesses under way
 * Context: may wait up to VB_ACCESS_BOUND_NS for a peer that stopped inside an access
 */
void vb_engine_mr_destroy(struct vb_engine *engine, struct vb_mr *mr);

enum vb_advise {
	VB_ADVISE_OK,
	VB_ADVISE_KEY, /* names no region */
	VB_ADVISE_TAG, /* names a region by a key it had before, or by its rkey */
	VB_ADVISE_PD,  /* of another PD */
	VB_ADVISE_NOT_ON_DEMAND,
	VB_ADVISE_WRITE, /* LOCAL_WRITE is missing */
	VB_ADVISE_RANGE, /* outside the region, or not mapped */
	VB_ADVISE_NO_MEMORY,
};

/** vb_engine_mr_advise() - Check one element of a prefetch, and carry it out
 * @pd:     Number of the PD
 * @sge:    As in a work request
 * @fetch:  Also make the pages present
 */
enum vb_advise vb_engine_mr_advise(struct vb_engine *engine, uint32_t pd,
				   enum ibv_advise_mr_advice advice, const struct ibv_sge *sge,
				   bool fetch);

/** vb_engine_srq_create() - Queue and rings of an SRQ
 * @max_wr: Receives that may be outstanding
 * @max_sge: Elements of one
 */
int vb_engine_srq_create(struct vb_engine *engine, struct vb_srq *srq, uint32_t max_wr,
			 uint32_t max_sge);

/** vb_engine_srq_destroy() - The opposite; no QP uses the SRQ any more */
void vb_engine_srq_destroy(struct vb_engine *engine, struct vb_srq *srq);

/** vb_engine_srq_arm() - Raise one event when fewer than @limit receives are left
 * @limit:  0 disarms
 */
void vb_engine_srq_arm(struct vb_srq *srq, uint32_t limit);

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
 * @reach:  Where the destination GID is, likewise
 * Context: the QP's lock is held
 */
int vb_engine_qp_modify(struct vb_engine *engine, struct vb_qp *qp, const struct ibv_qp_attr *attr,
			int mask, const union ibv_gid *own_gid, enum vb_reach reach);

#endif

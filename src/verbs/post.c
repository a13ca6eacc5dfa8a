/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "engine/lost.h"
#include "engine/receive.h"
#include "engine/requester.h"
#include "object/device.h"
#include "object/qp_table.h"
#include "verbs/check.h"
#include "verbs/post.h"
#include "verbs/qp.h"

int vb_sq_full(const struct vb_qp *qp, uint64_t index)
{
	const struct vb_sq *sq = &qp->sq;
	uint64_t freed = atomic_load_explicit(&sq->freed, memory_order_acquire);

	if (index - freed < qp->cap.max_send_wr)
		return 0;
	if (sq->signaled <= freed && !qp->sq_sig_all)
		return vb_fail(VB_RULE_POST_SEND_UNSIGNALED,
			       "qp#0x%x: %u posted, none of them signaled", qp->ibv.qp_num,
			       qp->cap.max_send_wr);
	return vb_fail(VB_RULE_POST_SEND_FULL, "qp#0x%x: %llu posted, %llu of them completed",
		       qp->ibv.qp_num, (unsigned long long)(index - freed),
		       (unsigned long long)(atomic_load(&sq->next) - freed));
}

int vb_inline_check(const struct vb_qp *qp, uint64_t length)
{
	return length > qp->cap.max_inline_data
		       ? vb_fail(VB_RULE_POST_SEND_INLINE,
				 "qp#0x%x: %llu bytes, max_inline_data %u", qp->ibv.qp_num,
				 (unsigned long long)length, qp->cap.max_inline_data)
		       : 0;
}

static int check_send(const struct vb_qp *qp, const struct ibv_send_wr *wr)
{
	const unsigned int flags = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED |
				   IBV_SEND_INLINE | IBV_SEND_IP_CSUM;

	if ((unsigned)wr->opcode > IBV_WR_ATOMIC_FETCH_AND_ADD)
		return vb_fail(VB_RULE_POST_SEND_OPCODE, "qp#0x%x %s: opcode %d", qp->ibv.qp_num,
			       vb_qp_type_name(qp->ibv.qp_type), (int)wr->opcode);
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->cap.max_send_sge)
		return vb_fail(VB_RULE_POST_SEND_SGE, "qp#0x%x: num_sge %d, max_send_sge %u",
			       qp->ibv.qp_num, wr->num_sge, qp->cap.max_send_sge);
	if (wr->send_flags & ~flags)
		return vb_fail(VB_RULE_POST_SEND_FLAGS, "qp#0x%x: send_flags 0x%x", qp->ibv.qp_num,
			       wr->send_flags);
	if (wr->send_flags & IBV_SEND_INLINE && wr->opcode >= IBV_WR_RDMA_READ)
		return vb_fail(VB_RULE_POST_SEND_INLINE_READ, "qp#0x%x: opcode %d", qp->ibv.qp_num,
			       (int)wr->opcode);
	return 0;
}

/* The data of an inline request is taken now: the program may reuse its buffer. */
static int copy_inline(const struct vb_qp *qp, struct vb_swqe *wqe, const struct ibv_send_wr *wr)
{
	uint8_t *to = vb_swqe_inline(qp, wqe);
	int err = vb_inline_check(qp, wqe->length);

	if (err)
		return err;
	for (int i = 0; i < wr->num_sge; i++) {
		memcpy(to, (const void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
		to += wr->sg_list[i].length;
	}
	wqe->inline_length = (uint32_t)wqe->length;
	wqe->num_sge = 0;
	return 0;
}

void vb_set_datagram(const struct vb_qp *qp, struct vb_swqe *wqe, struct ibv_ah *ah, uint32_t qpn,
		     uint32_t qkey)
{
	wqe->remote_qpn = qpn & 0xffffff;
	wqe->remote_qkey = qkey;
	wqe->bad_ah = !ah || ah->pd->context != qp->ibv.context ||
		      vb_pd_of(ah->pd)->number != vb_qp_pd(qp)->number;
	if (!wqe->bad_ah)
		wqe->path = vb_ah_of(ah)->path;
}

static int fill(const struct vb_qp *qp, struct vb_swqe *wqe, const struct ibv_send_wr *wr)
{
	wqe->wr_id = wr->wr_id;
	wqe->opcode = wr->opcode;
	wqe->flags = wr->send_flags;
	wqe->imm = wr->imm_data;
	wqe->num_sge = wr->num_sge;
	wqe->length = 0;
	wqe->inline_length = 0;
	for (int i = 0; i < wr->num_sge; i++)
		wqe->length += wr->sg_list[i].length;
	if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wqe->remote_addr = wr->wr.atomic.remote_addr;
		wqe->rkey = wr->wr.atomic.rkey;
		wqe->compare_add = wr->wr.atomic.compare_add;
		wqe->swap = wr->wr.atomic.swap;
	} else if (qp->ibv.qp_type == IBV_QPT_UD) {
		wqe->rkey = 0;
		vb_set_datagram(qp, wqe, wr->wr.ud.ah, wr->wr.ud.remote_qpn, wr->wr.ud.remote_qkey);
	} else if (wr->opcode != IBV_WR_SEND && wr->opcode != IBV_WR_SEND_WITH_IMM) {
		wqe->remote_addr = wr->wr.rdma.remote_addr;
		wqe->rkey = wr->wr.rdma.rkey;
	} else {
		wqe->rkey = 0;
	}
	if (wr->send_flags & IBV_SEND_INLINE)
		return copy_inline(qp, wqe, wr);
	if (wr->num_sge)
		memcpy(wqe->sge, wr->sg_list, (size_t)wr->num_sge * sizeof(wqe->sge[0]));
	return 0;
}

int vb_send_state(const struct vb_qp *qp)
{
	enum ibv_qp_state state = (enum ibv_qp_state)atomic_load(&qp->state);

	if (state == IBV_QPS_RTS)
		return 0;
	/* Then all are in ERR. */
	if (vb_engine_lost(vb_engine_of(qp)))
		return vb_fail(VB_RULE_DEVICE_LOST, "ibv_post_send qp#0x%x", qp->ibv.qp_num);
	if (state <= IBV_QPS_RTR && vb_context_of(qp->ibv.context)->device->strict_states)
		return vb_fail(VB_RULE_POST_SEND_STATE, "qp#0x%x: %s", qp->ibv.qp_num,
			       vb_qp_state_name(state));
	if (state == IBV_QPS_RESET)
		vb_explain(VB_RULE_POST_SEND_RESET, "qp#0x%x", qp->ibv.qp_num);
	return 0;
}

static int recv_state(const struct vb_qp *qp)
{
	if (vb_context_of(qp->ibv.context)->device->strict_states)
		return vb_fail(VB_RULE_POST_RECV_STATE, "qp#0x%x: RESET", qp->ibv.qp_num);
	vb_explain(VB_RULE_POST_RECV_RESET, "qp#0x%x", qp->ibv.qp_num);
	return 0;
}

/* Put the list into the send queue up to the first bad request. */
static int queue_sends(struct vb_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	struct vb_sq *sq = &qp->sq;
	uint64_t index = atomic_load_explicit(&sq->posted, memory_order_relaxed);
	bool keep = atomic_load(&qp->state) != IBV_QPS_RESET;
	int err = vb_send_state(qp);

	if (err)
		*bad_wr = wr;
	for (; wr && !err; wr = wr->next) {
		err = check_send(qp, wr);
		if (!err)
			err = vb_sq_full(qp, index);
		if (!err)
			err = fill(qp, vb_sq_slot(sq, index), wr);
		if (err) {
			*bad_wr = wr;
			break;
		}
		if (!keep)
			continue; /* taken, and never run */
		index++;
		if (qp->sq_sig_all || wr->send_flags & IBV_SEND_SIGNALED)
			sq->signaled = index;
	}
	atomic_store_explicit(&sq->posted, index, memory_order_release);
	return err;
}

int vb_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	struct vb_context *ctx = vb_context_of(ibv->context);
	struct vb_qp *qp = vb_qp_of(ibv);
	int err;

	if (!vb_context_alive(ctx)) {
		*bad_wr = wr;
		return vb_fail(VB_RULE_FORKED, "ibv_post_send qp#0x%x", ibv->qp_num);
	}
	pthread_mutex_lock(&qp->lock);
	err = queue_sends(qp, wr, bad_wr);
	pthread_mutex_unlock(&qp->lock);
	vb_requester_posted(ctx->engine, qp);
	return err;
}

static int post_one_recv(struct vb_context *ctx, struct vb_qp *qp, const struct ibv_recv_wr *wr)
{
	if (qp->srq)
		return vb_fail(VB_RULE_POST_RECV_SRQ, "qp#0x%x", qp->ibv.qp_num);
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->cap.max_recv_sge)
		return vb_fail(VB_RULE_POST_RECV_SGE, "qp#0x%x: num_sge %d, max_recv_sge %u",
			       qp->ibv.qp_num, wr->num_sge, qp->cap.max_recv_sge);
	if (atomic_load(&qp->state) == IBV_QPS_RESET)
		return recv_state(qp);
	if (vb_receive_post(qp->rq, wr))
		return vb_fail(VB_RULE_POST_RECV_FULL, "qp#0x%x: max_recv_wr %u", qp->ibv.qp_num,
			       qp->cap.max_recv_wr);
	/* In ERR it flushes at once. */
	if (atomic_load(&qp->flush_recv))
		vb_receive_point_at(ctx->engine, qp);
	return 0;
}

int vb_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct vb_context *ctx = vb_context_of(ibv->context);
	struct vb_qp *qp = vb_qp_of(ibv);
	int err = 0;

	if (!vb_context_alive(ctx))
		err = vb_fail(VB_RULE_FORKED, "ibv_post_recv qp#0x%x", ibv->qp_num);
	else if (vb_engine_lost(ctx->engine))
		err = vb_fail(VB_RULE_DEVICE_LOST, "ibv_post_recv qp#0x%x", ibv->qp_num);
	for (; wr && !err; wr = wr->next) {
		err = post_one_recv(ctx, qp, wr);
		if (err)
			break;
	}
	if (err)
		*bad_wr = wr;
	return err;
}

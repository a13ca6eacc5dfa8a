/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting by function calls (man ibv_wr_post(3)). Between ibv_wr_start and
 * ibv_wr_complete or ibv_wr_abort the QP's private lock is held. Requests are built in
 * the free slots of the send queue and counted in `staged`; complete makes them posted,
 * all or none. The first error of the batch is kept for complete to return.
 */
#include <errno.h>
#include <string.h>

#include "base/rules.h"
#include "engine/requester.h"
#include "object/context.h"
#include "verbs/newer.h"
#include "verbs/post.h"
#include "verbs/qp.h"

static void wr_start(struct ibv_qp_ex *ex)
{
	struct vb_qp *qp = vb_qp_of_ex(ex);

	if (!vb_context_alive(vb_context_of(qp->ibv.context)))
		return;
	pthread_mutex_lock(&qp->lock);
	qp->sq.staged = atomic_load_explicit(&qp->sq.posted, memory_order_relaxed);
	qp->build_signaled = qp->sq.signaled;
	qp->build_error = 0;
	qp->building = NULL;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	struct vb_qp *qp = vb_qp_of_ex(ex);

	if (!vb_context_alive(vb_context_of(qp->ibv.context)))
		return;
	qp->building = NULL;
	pthread_mutex_unlock(&qp->lock);
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct vb_qp *qp = vb_qp_of_ex(ex);
	struct vb_context *ctx = vb_context_of(qp->ibv.context);
	int err;

	if (!vb_context_alive(ctx))
		return vb_fail(VB_RULE_FORKED, "ibv_wr_complete qp#0x%x", qp->ibv.qp_num);
	err = qp->build_error;
	if (!err)
		err = vb_send_state(qp);
	/* As with ibv_post_send: what is posted in RESET is taken and never run. */
	if (!err && atomic_load(&qp->state) != IBV_QPS_RESET) {
		qp->sq.signaled = qp->build_signaled;
		atomic_store_explicit(&qp->sq.posted, qp->sq.staged, memory_order_release);
	}
	qp->building = NULL;
	pthread_mutex_unlock(&qp->lock);
	if (err)
		errno = err;
	else
		vb_requester_posted(ctx->engine, qp);
	return err;
}

/* The slot of a new request, or NULL when the batch has failed already or fails here. */
static struct vb_swqe *begin(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint64_t op)
{
	struct vb_qp *qp = vb_qp_of_ex(ex);
	struct vb_swqe *wqe;

	qp->building = NULL;
	if (qp->build_error)
		return NULL;
	if (!(qp->send_ops & op))
		qp->build_error = vb_fail(VB_RULE_WR_OPCODE, "qp#0x%x: opcode %d", qp->ibv.qp_num,
					  (int)opcode);
	else
		qp->build_error = vb_sq_full(qp, qp->sq.staged);
	if (qp->build_error)
		return NULL;
	wqe = vb_sq_slot(&qp->sq, qp->sq.staged++);
	wqe->wr_id = ex->wr_id;
	wqe->flags = ex->wr_flags;
	wqe->opcode = opcode;
	wqe->rkey = 0;
	wqe->imm = 0;
	wqe->length = 0;
	wqe->inline_length = 0;
	wqe->num_sge = 0;
	wqe->bad_ah = true; /* UD: until it is set */
	if (qp->sq_sig_all || ex->wr_flags & IBV_SEND_SIGNALED)
		qp->build_signaled = qp->sq.staged;
	qp->building = wqe;
	return wqe;
}

static struct vb_swqe *begin_rdma(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint64_t op,
				  uint32_t rkey, uint64_t remote_addr)
{
	struct vb_swqe *wqe = begin(ex, opcode, op);

	if (wqe) {
		wqe->rkey = rkey;
		wqe->remote_addr = remote_addr;
	}
	return wqe;
}

static void wr_send(struct ibv_qp_ex *ex)
{
	begin(ex, IBV_WR_SEND, IBV_QP_EX_WITH_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm_data)
{
	struct vb_swqe *wqe = begin(ex, IBV_WR_SEND_WITH_IMM, IBV_QP_EX_WITH_SEND_WITH_IMM);

	if (wqe)
		wqe->imm = imm_data;
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	begin_rdma(ex, IBV_WR_RDMA_WRITE, IBV_QP_EX_WITH_RDMA_WRITE, rkey, remote_addr);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			      __be32 imm_data)
{
	struct vb_swqe *wqe = begin_rdma(ex, IBV_WR_RDMA_WRITE_WITH_IMM,
					 IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, rkey, remote_addr);

	if (wqe)
		wqe->imm = imm_data;
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	begin_rdma(ex, IBV_WR_RDMA_READ, IBV_QP_EX_WITH_RDMA_READ, rkey, remote_addr);
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			      uint64_t compare, uint64_t swap)
{
	struct vb_swqe *wqe = begin_rdma(ex, IBV_WR_ATOMIC_CMP_AND_SWP,
					 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, rkey, remote_addr);

	if (wqe) {
		wqe->compare_add = compare;
		wqe->swap = swap;
	}
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
				uint64_t add)
{
	struct vb_swqe *wqe = begin_rdma(ex, IBV_WR_ATOMIC_FETCH_AND_ADD,
					 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, rkey, remote_addr);

	if (wqe) {
		wqe->compare_add = add;
		wqe->swap = 0;
	}
}

/* Builders of operations that the device does not offer: the batch fails. */
static void refuse(struct ibv_qp_ex *ex, const char *what)
{
	struct vb_qp *qp = vb_qp_of_ex(ex);

	qp->building = NULL;
	if (!qp->build_error)
		qp->build_error =
			vb_fail(VB_RULE_NOT_SUPPORTED, "%s qp#0x%x", what, qp->ibv.qp_num);
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
		       const struct ibv_mw_bind_info *info)
{
	refuse(ex, "ibv_wr_bind_mw");
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	refuse(ex, "ibv_wr_local_inv");
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	refuse(ex, "ibv_wr_send_inv");
}

static void wr_send_tso(struct ibv_qp_ex *ex, void *hdr, uint16_t hdr_sz, uint16_t mss)
{
	refuse(ex, "ibv_wr_send_tso");
}

static void wr_atomic_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			    const void *data)
{
	refuse(ex, "ibv_wr_atomic_write");
}

static void wr_flush(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, size_t len,
		     uint8_t type, uint8_t level)
{
	refuse(ex, "ibv_wr_flush");
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t srqn)
{
	refuse(ex, "ibv_wr_set_xrc_srqn");
}

/* The request a setter works on, or NULL: then the batch has failed. */
static struct vb_swqe *current(struct vb_qp *qp)
{
	if (!qp->building && !qp->build_error)
		qp->build_error = vb_fail(VB_RULE_WR_SETTER, "qp#0x%x", qp->ibv.qp_num);
	return qp->build_error ? NULL : qp->building;
}

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	struct vb_swqe *wqe = current(vb_qp_of_ex(ex));

	if (wqe)
		vb_set_datagram(vb_qp_of_ex(ex), wqe, ah, qpn, qkey);
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t num_sge, const struct ibv_sge *list)
{
	struct vb_qp *qp = vb_qp_of_ex(ex);
	struct vb_swqe *wqe = current(qp);

	if (!wqe)
		return;
	if (num_sge > qp->cap.max_send_sge) {
		qp->build_error =
			vb_fail(VB_RULE_POST_SEND_SGE, "qp#0x%x: num_sge %zu, max_send_sge %u",
				qp->ibv.qp_num, num_sge, qp->cap.max_send_sge);
		return;
	}
	wqe->num_sge = (int)num_sge;
	wqe->length = 0;
	for (size_t i = 0; i < num_sge; i++) {
		wqe->sge[i] = list[i];
		wqe->length += list[i].length;
	}
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = {.addr = addr, .length = length, .lkey = lkey};

	wr_set_sge_list(ex, 1, &sge);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t num_buf,
				    const struct ibv_data_buf *list)
{
	struct vb_qp *qp = vb_qp_of_ex(ex);
	struct vb_swqe *wqe = current(qp);
	uint64_t length = 0;
	uint8_t *to;

	if (!wqe)
		return;
	if (wqe->opcode >= IBV_WR_RDMA_READ) {
		qp->build_error = vb_fail(VB_RULE_POST_SEND_INLINE_READ, "qp#0x%x: opcode %d",
					  qp->ibv.qp_num, (int)wqe->opcode);
		return;
	}
	/* A sum that wrapped would pass: stop as soon as it is too long. */
	for (size_t i = 0; i < num_buf && length <= qp->cap.max_inline_data; i++)
		length = list[i].length > qp->cap.max_inline_data ? UINT32_MAX
								  : length + list[i].length;
	qp->build_error = vb_inline_check(qp, length);
	if (qp->build_error)
		return;
	to = vb_swqe_inline(qp, wqe);
	for (size_t i = 0; i < num_buf; i++) {
		memcpy(to, list[i].addr, list[i].length);
		to += list[i].length;
	}
	wqe->length = length;
	wqe->inline_length = (uint32_t)length;
	wqe->num_sge = 0;
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	struct ibv_data_buf buf = {.addr = addr, .length = length};

	wr_set_inline_data_list(ex, 1, &buf);
}

void vb_wr_ops_fill(struct vb_qp *qp)
{
	struct ibv_qp_ex *ex = &qp->ibv_ex;
	typedef void (*flush_fn)(struct ibv_qp_ex *, uint32_t, uint64_t, size_t, uint8_t, uint8_t);

	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
	ex->wr_send = wr_send;
	ex->wr_send_imm = wr_send_imm;
	ex->wr_rdma_write = wr_rdma_write;
	ex->wr_rdma_write_imm = wr_rdma_write_imm;
	ex->wr_rdma_read = wr_rdma_read;
	ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
	ex->wr_bind_mw = wr_bind_mw;
	ex->wr_local_inv = wr_local_inv;
	ex->wr_send_inv = wr_send_inv;
	ex->wr_send_tso = wr_send_tso;
	ex->wr_atomic_write = wr_atomic_write;
	*(flush_fn *)(void *)(qp->room + VB_QP_EX_WR_FLUSH) = wr_flush;
	ex->wr_set_ud_addr = wr_set_ud_addr;
	ex->wr_set_xrc_srqn = wr_set_xrc_srqn;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
}

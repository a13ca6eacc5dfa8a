/* SPDX-License-Identifier: BSD-2-Clause */
/* Creation, states and end of a QP as peers see it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/objects.h"
#include "engine/receive.h"
#include "engine/requester.h"
#include "engine/rings.h"
#include "engine/sort.h"
#include "engine/wire.h"
#include "host/access.h"
#include "host/words.h"

/* Write what peers read. Between lock and unlock of the word. */
static void publish(struct vb_qp *qp)
{
	const struct vb_rq *rq = qp->rq;
	struct vb_pub_qp row = {
		.qpn = qp->ibv.qp_num,
		.type = qp->ibv.qp_type,
		.pd = vb_qp_pd(qp)->number,
		.access = qp->attr.qp_access_flags,
		.dest_qpn = qp->attr.dest_qp_num,
		.qkey = qp->attr.qkey,
		.path_mtu = (uint8_t)qp->attr.path_mtu,
		.min_rnr_timer = qp->attr.min_rnr_timer,
		.max_dest_rd_atomic = qp->attr.max_dest_rd_atomic,
		.recv_cq = vb_cq_of(qp->ibv.recv_cq)->index,
		.recv_bit = qp->recv_bit,
		.rq_size = rq->size,
		.rq_stride = rq->wqe_stride,
		.rq_max_sge = rq->max_sge,
		.rq_pd = rq->pd,
		.rq_shared = rq->shared,
		.bounce_slots = rq->bounce_slots,
		.rq_counters = rq->counters_at,
		.rq_head = rq->head_at,
		.rq_wqes = rq->wqes,
		.rq_arrivals = rq->arrivals,
		.bounce = rq->bounce,
		.bounce_words = rq->bounce_words_at,
	};

	memcpy(row.own_gid, qp->own_gid.raw, sizeof(row.own_gid));
	memcpy(row.dest_gid, qp->attr.ah_attr.grh.dgid.raw, sizeof(row.dest_gid));
	vb_row_write(qp->pub, &row, sizeof(row));
}

static int take_rows(struct vb_adapter *a, struct vb_qp *qp)
{
	int err = vb_adapter_new_index(a, VB_NUMBER_QP, &qp->index, &qp->ibv.qp_num);

	if (err)
		return err;
	qp->pub = vb_adapter_pub_qp(a, qp->index);
	qp->mbx = vb_adapter_mbx_qp(a, qp->index);
	if (qp->pub && qp->mbx)
		return 0;
	vb_adapter_free_index(a, VB_NUMBER_QP, qp->index);
	return -ENOMEM;
}

/* A fresh row: nothing of the number's last QP is left in it. */
static void init_rows(struct vb_qp *qp)
{
	qp->epoch = vb_qpw_epoch(atomic_load(&qp->mbx->word)) + 1;
	vb_qpw_lock(&qp->mbx->word, qp->epoch, &qp->seq);
	publish(qp);
	vb_qpw_unlock(&qp->mbx->word, qp->epoch, &qp->seq, VB_QPW_DOWN);
}

static int enter_tables(struct vb_engine *engine, struct vb_qp *qp)
{
	int err = vb_cq_reserve(vb_cq_of(qp->ibv.send_cq), qp->sq.mask + 1);

	if (err)
		return err;
	err = vb_receive_join(qp);
	if (!err) {
		err = vb_sparse_set(&engine->qps, qp->index, qp);
		if (!err)
			return 0;
		vb_receive_leave(qp);
	}
	vb_cq_release(vb_cq_of(qp->ibv.send_cq), qp->sq.mask + 1);
	return err;
}

/* Its own receive queue, or its SRQ's. */
static int init_receive(struct vb_engine *engine, struct vb_qp *qp)
{
	bool several = qp->ibv.qp_type == IBV_QPT_UD;
	int err = vb_rq_init(&qp->own_rq, qp->srq ? 0 : qp->cap.max_recv_wr, qp->cap.max_recv_sge,
			     vb_qp_pd(qp)->number, several);

	qp->rq = qp->srq ? &qp->srq->rq : &qp->own_rq;
	qp->inbox = VB_NO_RECEIVE;
	qp->sq.patience = VB_PATIENCE;
	if (err)
		return err;
	err = vb_rings_alloc(engine->adapter, &qp->own_rq);
	if (err)
		vb_rq_fini(&qp->own_rq);
	return err;
}

int vb_engine_qp_create(struct vb_engine *engine, struct vb_qp *qp)
{
	int err = vb_qp_sq_init(qp);

	if (err)
		return err;
	err = init_receive(engine, qp);
	if (err)
		goto no_receive;
	err = take_rows(engine->adapter, qp);
	if (err)
		goto no_rows;
	err = enter_tables(engine, qp);
	if (err)
		goto no_tables;
	atomic_store(&qp->sq.deadline_ns, VB_NEVER);
	qp->attr.qp_state = IBV_QPS_RESET;
	init_rows(qp);
	return 0;
no_tables:
	vb_adapter_free_index(engine->adapter, VB_NUMBER_QP, qp->index);
no_rows:
	vb_rings_free(engine->adapter, &qp->own_rq);
	vb_rq_fini(&qp->own_rq);
no_receive:
	free(qp->sq.slots);
	return err;
}

/* Make the QP silent with a new epoch, and wait for messages under way. Rings that a
 * peer stopped in the middle may still write to are marked, never to be used again. */
static void take_down(struct vb_engine *engine, struct vb_qp *qp)
{
	qp->epoch = (qp->epoch + 1) & 0xffffff;
	vb_qpw_lock(&qp->mbx->word, qp->epoch, &qp->seq);
	vb_qpw_unlock(&qp->mbx->word, qp->epoch, &qp->seq, VB_QPW_DOWN);
	if (!vb_access_wait(engine->adapter, qp->ibv.qp_num, 0, VB_ACCESS_BOUND_NS))
		qp->rq->dirty = true;
}

/* Completions of sends that nobody will poll. */
static void drop_sends(struct vb_qp *qp)
{
	struct vb_cq *cq = vb_cq_of(qp->ibv.send_cq);
	uint64_t dropped = vb_cq_purge(cq, qp);

	vb_spin_lock(&cq->lock);
	vb_cq_uncount(cq->pub, dropped);
	vb_spin_unlock(&cq->lock);
}

void vb_engine_qp_destroy(struct vb_engine *engine, struct vb_qp *qp)
{
	vb_requester_hold(qp);
	atomic_store(&qp->state, IBV_QPS_RESET);
	atomic_store(&qp->sq.next, atomic_load(&qp->sq.posted));
	vb_requester_release(engine, qp);
	take_down(engine, qp);
	vb_engine_forget(engine, qp);
	vb_sparse_set(&engine->qps, qp->index, NULL);
	vb_grace_wait(&engine->grace);
	vb_receive_forget(engine, qp);
	vb_receive_leave(qp);
	/* A section that was open, or a poller, may have asked for one more run. */
	vb_engine_forget(engine, qp);
	vb_grace_wait(&engine->grace);
	drop_sends(qp);
	vb_cq_release(vb_cq_of(qp->ibv.send_cq), qp->sq.mask + 1);
	if (!qp->own_rq.dirty)
		vb_rings_free(engine->adapter, &qp->own_rq);
	vb_adapter_free_index(engine->adapter, VB_NUMBER_QP, qp->index);
	vb_peer_put(qp->peer);
	vb_wire_disconnect(engine, qp);
	vb_rq_fini(&qp->own_rq);
	free(qp->sq.slots);
}

/* RESET: everything posted vanishes, attributes return to zero. */
static int reset(struct vb_engine *engine, struct vb_qp *qp)
{
	take_down(engine, qp);
	vb_engine_forget(engine, qp);
	atomic_store(&qp->sq.next, atomic_load(&qp->sq.posted));
	qp->sq.waiting = false;
	qp->sq.drained_told = false;
	qp->sq.signaled = 0;
	qp->first_error_told = false;
	qp->comm_est_told = false;
	drop_sends(qp);
	/* After the purge: no poller takes a completion of before any more. */
	atomic_store(&qp->sq.freed, atomic_load(&qp->sq.posted));
	vb_receive_forget(engine, qp);
	if (qp->own_rq.dirty) {
		if (vb_rings_alloc(engine->adapter, &qp->own_rq))
			return -ENOMEM;
		qp->own_rq.dirty = false;
	}
	memset(&qp->attr, 0, sizeof(qp->attr));
	vb_peer_put(qp->peer);
	qp->peer = NULL;
	vb_wire_disconnect(engine, qp);
	return 0;
}

static enum vb_qpw_state word_state(int state)
{
	switch (state) {
	case IBV_QPS_RTR:
	case IBV_QPS_RTS:
	case IBV_QPS_SQD:
		return VB_QPW_READY;
	case IBV_QPS_ERR:
		return VB_QPW_ERROR;
	default:
		return VB_QPW_DOWN;
	}
}

/* Publish new attributes under the word; a message a peer failed us with meanwhile is kept. */
static void republish(struct vb_qp *qp, int to, int mask)
{
	uint64_t old = vb_qpw_lock(&qp->mbx->word, qp->epoch, &qp->seq);

	publish(qp);
	if (mask & IBV_QP_RQ_PSN)
		vb_psnw_set(&qp->mbx->psn, qp->epoch, qp->attr.rq_psn);
	if (vb_qpw_state(old) == VB_QPW_FAILED && vb_qpw_epoch(old) == (qp->epoch & 0xffffff))
		atomic_store(&qp->mbx->word,
			     vb_qpw_make(qp->epoch, ++qp->seq, vb_qpw_cause(old), VB_QPW_FAILED));
	else
		vb_qpw_unlock(&qp->mbx->word, qp->epoch, &qp->seq, word_state(to));
}

static void apply(struct vb_engine *engine, struct vb_qp *qp, const struct ibv_qp_attr *attr,
		  int mask, int to)
{
	vb_qp_apply(qp, attr, mask);
	if (mask & IBV_QP_SQ_PSN)
		qp->sq.psn = vb_psn(qp->attr.sq_psn);
	if (mask & (IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY))
		vb_rc_budget_init(&qp->sq.budget, qp->attr.timeout, qp->attr.retry_cnt,
				  qp->attr.rnr_retry);
	if (to == IBV_QPS_RTR)
		vb_engine_start(engine);
	if (to != IBV_QPS_SQD)
		qp->sq.drained_told = false;
	republish(qp, to, mask);
	if (vb_reach_by_packets(qp->reach))
		vb_wire_connect(engine, qp, to);
	/* A datagram may come from anywhere. */
	if (qp->ibv.qp_type == IBV_QPT_UD && to == IBV_QPS_RTR)
		vb_wire_start(engine);
	atomic_store(&qp->state, to);
}

int vb_engine_qp_modify(struct vb_engine *engine, struct vb_qp *qp, const struct ibv_qp_attr *attr,
			int mask, const union ibv_gid *own_gid, enum vb_reach reach)
{
	int from = atomic_load(&qp->state);
	int to = mask & IBV_QP_STATE ? (int)attr->qp_state : from;
	int err = 0;

	vb_requester_hold(qp);
	if (to == IBV_QPS_RESET) {
		atomic_store(&qp->state, IBV_QPS_RESET);
		err = reset(engine, qp);
	} else if (to == IBV_QPS_ERR) {
		if (from != IBV_QPS_ERR)
			vb_requester_error(engine, qp);
	} else {
		if (mask & IBV_QP_AV) {
			qp->own_gid = *own_gid;
			qp->reach = reach;
		}
		apply(engine, qp, attr, mask, to);
	}
	vb_requester_release(engine, qp);
	/* What was posted before RTS, or while drained, runs now. */
	if (to == IBV_QPS_RTS || to == IBV_QPS_SQD)
		vb_requester_run(engine, qp, VB_RUN_BUDGET, false);
	return err;
}

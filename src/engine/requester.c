/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation
 *
 * A send queue is run by one thread at a time, whoever is there first: `run` says
 * BUSY. A second thread sets AGAIN and returns; the first one loops. Whoever is BUSY also
 * owns the QP's state, so a message and a change of state never overlap.
 *
 * A message within the host is one call of the local carrier. Its verdict becomes a
 * completion, a wait, or the QP's end (transport/rc_budget).
 */
#include "engine/requester.h"

#include <sched.h>
#include <string.h>

#include "base/rules.h"
#include "carrier/local.h"
#include "engine/datagram.h"
#include "engine/explain.h"
#include "engine/receive.h"
#include "engine/stats.h"
#include "engine/wire.h"
#include "host/access.h"
#include "host/async.h"
#include "host/liveness.h"
#include "host/memory.h"
#include "host/notify.h"
#include "host/words.h"
#include "object/device.h"
#include "object/qp_table.h"

/* How long a receiver without receives is waited for where nothing is acknowledged. */
#define PACE_NS 50000u
/* How many of these looks a receiver gets where rnr_retry is spent. */
#define RNR_LOOKS (VB_RNR_MOMENT_NS / PACE_NS)

/* Answers "not ready" in a row before the next question waits longer. */
#define RNR_STREAK 32u

/* What an opcode is in the transport and in the completion. */
static const struct {
	enum vb_msg_kind kind;
	enum ibv_wc_opcode wc;
	bool imm;
} opcodes[] = {
	[IBV_WR_RDMA_WRITE] = {VB_MSG_WRITE, IBV_WC_RDMA_WRITE, false},
	[IBV_WR_RDMA_WRITE_WITH_IMM] = {VB_MSG_WRITE, IBV_WC_RDMA_WRITE, true},
	[IBV_WR_SEND] = {VB_MSG_SEND, IBV_WC_SEND, false},
	[IBV_WR_SEND_WITH_IMM] = {VB_MSG_SEND, IBV_WC_SEND, true},
	[IBV_WR_RDMA_READ] = {VB_MSG_READ, IBV_WC_RDMA_READ, false},
	[IBV_WR_ATOMIC_CMP_AND_SWP] = {VB_MSG_CMP_SWP, IBV_WC_COMP_SWAP, false},
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = {VB_MSG_FETCH_ADD, IBV_WC_FETCH_ADD, false},
};

static void raise_event(struct vb_qp *qp, enum ibv_event_type type)
{
	vb_async_post(vb_context_of(qp->ibv.context), type, qp->handle);
}

static bool reads_back(enum vb_msg_kind kind)
{
	return kind == VB_MSG_READ || kind == VB_MSG_CMP_SWP || kind == VB_MSG_FETCH_ADD;
}

static void push(struct vb_engine *engine, struct vb_qp *qp, struct vb_swqe *wqe, uint64_t index,
		 enum vb_wc_status status, uint32_t vendor_err)
{
	struct vb_cq *cq = vb_cq_of(qp->ibv.send_cq);
	struct vb_cqe cqe = {
		.wr_id = wqe->wr_id,
		.time_ns = cq->timestamps ? vb_now_ns() : 0,
		.status = (enum ibv_wc_status)status,
		.opcode = opcodes[wqe->opcode].wc,
		.vendor_err = vendor_err,
		.byte_len = reads_back(opcodes[wqe->opcode].kind) ? (uint32_t)wqe->length : 0,
		.qp_num = qp->ibv.qp_num,
		.qp = qp,
		.sq_index = index,
	};

	if (status)
		vb_stat_failure(engine->adapter, status);
	vb_cq_push(cq, &cqe);
	if (vb_cq_count(cq->mbx, cq->pub))
		vb_receive_overrun(engine, cq);
	vb_notify(engine->adapter->self, cq->index, status != VB_WC_SUCCESS);
}

/* The completion of the request that runs, which went well; once. */
static void tell_done(struct vb_engine *engine, struct vb_qp *qp)
{
	struct vb_sq *sq = &qp->sq;
	uint64_t index = atomic_load(&sq->next);
	struct vb_swqe *wqe = vb_sq_slot(sq, index);

	if (sq->told)
		return;
	sq->told = true;
	if (qp->sq_sig_all || wqe->flags & IBV_SEND_SIGNALED)
		push(engine, qp, wqe, index, VB_WC_SUCCESS, 0);
}

void vb_requester_arrived(void *arg)
{
	struct vb_qp *qp = arg;

	tell_done(vb_context_of(qp->ibv.context)->engine, qp);
}

static void flush_sends(struct vb_engine *engine, struct vb_qp *qp)
{
	struct vb_sq *sq = &qp->sq;
	uint64_t posted = atomic_load_explicit(&sq->posted, memory_order_acquire);

	for (uint64_t i = atomic_load(&sq->next); i < posted; i++) {
		push(engine, qp, vb_sq_slot(sq, i), i, VB_WC_WR_FLUSH_ERR, 0);
		vb_explain_flush(qp, vb_sq_slot(sq, i)->wr_id);
	}
	atomic_store(&sq->next, posted);
}

/* Has one of the QP's CQs been overrun? */
static bool cq_failed(struct vb_engine *engine, const struct vb_qp *qp)
{
	struct ibv_cq *cqs[] = {qp->ibv.send_cq, qp->ibv.recv_cq};
	bool failed = false;

	for (int i = 0; i < 2; i++) {
		struct vb_cq *cq = vb_cq_of(cqs[i]);

		if (!atomic_load_explicit(&cq->mbx->overrun, memory_order_relaxed))
			continue;
		vb_receive_overrun(engine, cq);
		failed = true;
	}
	return failed;
}

/* A peer's message broke a rule: what it found is in the word. */
static void tell_failed_by_peer(struct vb_engine *engine, struct vb_qp *qp, uint64_t word)
{
	enum vb_verdict verdict =
		vb_qpw_cause(word) < VB_V_COUNT ? vb_qpw_cause(word) : VB_V_OP_SRQ;
	enum vb_event event = vb_verdict_row(verdict)->event;

	vb_explain_responder(qp, verdict);
	vb_stat_add(engine->adapter, VB_STAT_RESP_ERROR, 1);
	if (event != VB_EVENT_NONE)
		raise_event(qp, (enum ibv_event_type)event);
}

static bool failed_by_peer(const struct vb_qp *qp, uint64_t word)
{
	/* Another epoch: scribbled. */
	return vb_qpw_state(word) == VB_QPW_FAILED && vb_qpw_epoch(word) == (qp->epoch & 0xffffff);
}

void vb_requester_error(struct vb_engine *engine, struct vb_qp *qp)
{
	uint64_t old = vb_qpw_lock(&qp->mbx->word, qp->epoch, &qp->seq);

	vb_qpw_unlock(&qp->mbx->word, qp->epoch, &qp->seq, VB_QPW_ERROR);
	atomic_store(&qp->state, IBV_QPS_ERR);
	qp->sq.waiting = false;
	/* A message under way may still be writing into a receive that is about to flush. */
	vb_access_wait(engine->adapter, qp->ibv.qp_num, 0, VB_ACCESS_BOUND_NS);
	if (qp->wire)
		vb_wire_error(engine, qp);
	flush_sends(engine, qp);
	vb_receive_flush(engine, qp);
	/* Whoever moves the QP: what a peer did to it before is told. */
	if (failed_by_peer(qp, old))
		tell_failed_by_peer(engine, qp, old);
	/* Nothing will take a receive for this QP any more. */
	if (qp->srq)
		raise_event(qp, IBV_EVENT_QP_LAST_WQE_REACHED);
}

/* The first failure of a QP: the request completes with it, the rest flushes. */
static void fail(struct vb_engine *engine, struct vb_qp *qp, enum vb_wc_status status,
		 uint32_t vendor_err)
{
	struct vb_sq *sq = &qp->sq;
	uint64_t index = atomic_load(&sq->next);
	struct vb_swqe *wqe = vb_sq_slot(sq, index);

	qp->first_error_told = true;
	qp->first_error_wr_id = wqe->wr_id;
	qp->first_error_status = (int)status;
	push(engine, qp, wqe, index, status, vendor_err);
	atomic_store(&sq->next, index + 1);
	if (qp->ibv.qp_type == IBV_QPT_RC) {
		vb_requester_error(engine, qp);
		return;
	}
	/* Without acknowledgements only the send side ends: receiving goes on. */
	atomic_store(&qp->state, IBV_QPS_SQE);
	flush_sends(engine, qp);
}

void vb_requester_done(struct vb_engine *engine, struct vb_qp *qp)
{
	qp->sq.told = false;
	tell_done(engine, qp);
	atomic_fetch_add(&qp->sq.next, 1);
}

void vb_requester_fail(struct vb_engine *engine, struct vb_qp *qp, enum vb_wc_status status)
{
	vb_explain_answer(qp, vb_sq_slot(&qp->sq, atomic_load(&qp->sq.next))->wr_id, status);
	fail(engine, qp, status, 0);
}

enum vb_wc_status vb_local_side(struct vb_engine *engine, struct vb_qp *qp, struct vb_swqe *wqe,
				struct iovec *iov, struct vb_payload *payload)
{
	bool writes = reads_back(opcodes[wqe->opcode].kind);
	enum vb_sge_fault fault;
	int bad = 0;

	payload->iov = iov;
	payload->fault = false;
	payload->careful = false;
	if (wqe->inline_length) {
		iov[0].iov_base = vb_swqe_inline(qp, wqe);
		iov[0].iov_len = wqe->inline_length;
		payload->n = 1;
		return VB_WC_SUCCESS;
	}
	fault = vb_keys_resolve(&engine->keys, vb_qp_pd(qp)->number, wqe->sge, wqe->num_sge, writes,
				iov, &payload->n, &bad);
	payload->careful = vb_keys_careful(&engine->keys, wqe->sge, wqe->num_sge);
	if (!fault)
		return VB_WC_SUCCESS;
	vb_explain_local(qp, wqe, bad, fault);
	payload->fault = true;
	payload->n = 0;
	return writes ? VB_WC_SUCCESS : VB_WC_LOC_PROT_ERR;
}

enum vb_wc_status vb_requester_check(const struct vb_qp *qp, const struct vb_swqe *wqe)
{
	uint32_t max = vb_context_of(qp->ibv.context)->device->max_msg_sz;
	enum vb_msg_kind kind = opcodes[wqe->opcode].kind;

	if (qp->ibv.qp_type != IBV_QPT_RC && reads_back(kind)) {
		vb_explain(VB_RULE_WC_OPCODE, "qp#0x%x %s wr_id=0x%llx: opcode %d", qp->ibv.qp_num,
			   vb_qp_type_name(qp->ibv.qp_type), (unsigned long long)wqe->wr_id,
			   (int)wqe->opcode);
		return VB_WC_LOC_QP_OP_ERR;
	}
	if (reads_back(kind) && !qp->attr.max_rd_atomic) {
		vb_explain(VB_RULE_WC_NO_RD_ATOMIC, "qp#0x%x wr_id=0x%llx: max_rd_atomic is 0",
			   qp->ibv.qp_num, (unsigned long long)wqe->wr_id);
		return VB_WC_LOC_QP_OP_ERR;
	}
	if ((kind == VB_MSG_CMP_SWP || kind == VB_MSG_FETCH_ADD) && wqe->length != 8) {
		vb_explain(VB_RULE_WC_ATOMIC_LENGTH, "qp#0x%x wr_id=0x%llx: %llu bytes",
			   qp->ibv.qp_num, (unsigned long long)wqe->wr_id,
			   (unsigned long long)wqe->length);
		return VB_WC_LOC_LEN_ERR;
	}
	if (wqe->length > max) {
		vb_explain(VB_RULE_WC_MSG_LENGTH, "qp#0x%x wr_id=0x%llx: %llu bytes, max_msg_sz %u",
			   qp->ibv.qp_num, (unsigned long long)wqe->wr_id,
			   (unsigned long long)wqe->length, max);
		return VB_WC_LOC_LEN_ERR;
	}
	return VB_WC_SUCCESS;
}

/* The process of the peer QP, found at the first message and again after it died. */
static struct vb_peer *find_peer(struct vb_engine *engine, struct vb_qp *qp)
{
	if (qp->peer && vb_peer_dead(qp->peer)) {
		vb_peer_put(qp->peer);
		qp->peer = NULL;
	}
	if (!qp->peer && qp->reach == VB_REACH_LOCAL &&
	    vb_peer_get(engine->adapter, qp->attr.dest_qp_num >> VB_BLOCK_BITS, &qp->peer))
		qp->peer = NULL;
	/* A peer whose engine could not start leaves no word of its death. */
	if (qp->peer && !vb_peer_has_engine(qp->peer) && vb_peer_check(qp->peer)) {
		vb_peer_put(qp->peer);
		qp->peer = NULL;
	}
	return qp->peer;
}

void vb_requester_describe(const struct vb_qp *qp, const struct vb_swqe *wqe, struct vb_msg *msg)
{
	uint32_t mtu = 128u << qp->attr.path_mtu;

	*msg = (struct vb_msg){
		.kind = opcodes[wqe->opcode].kind,
		.with_imm = opcodes[wqe->opcode].imm,
		.solicited = wqe->flags & IBV_SEND_SOLICITED,
		.psn = qp->sq.psn,
		.src = {.has_qpn = true, .has_gid = true, .qpn = qp->ibv.qp_num},
		.remote_addr = wqe->remote_addr,
		.rkey = wqe->rkey,
		.length = wqe->length,
		.imm = wqe->imm,
		.compare_add = wqe->compare_add,
		.swap = wqe->swap,
	};
	memcpy(msg->src.gid, qp->own_gid.raw, sizeof(msg->src.gid));
	msg->npkts = msg->kind == VB_MSG_CMP_SWP || msg->kind == VB_MSG_FETCH_ADD
			     ? 1
			     : vb_psn_count(wqe->length, mtu);
}

/* Hand the message to its carrier. */
static enum vb_wc_status execute(struct vb_engine *engine, struct vb_qp *qp, struct vb_swqe *wqe,
				 struct vb_msg *msg, struct vb_msg_result *res)
{
	struct iovec iov[VB_MAX_SGE];
	struct vb_payload payload;
	struct vb_peer *peer;
	struct vb_msg sent; /* *msg, with the payload, which ends with this call */
	struct vb_local_request request = {
		.msg = &sent,
		.qpn = qp->attr.dest_qp_num,
		.arrived = vb_requester_arrived,
		.arrived_arg = qp,
	};
	enum vb_wc_status status = vb_local_side(engine, qp, wqe, iov, &payload);

	if (status)
		return status;
	request.service = qp->ibv.qp_type == IBV_QPT_UC ? VB_SERVICE_UC : VB_SERVICE_RC;
	vb_requester_describe(qp, wqe, msg);
	sent = *msg;
	sent.payload = &payload;
	peer = find_peer(engine, qp);
	if (!peer) {
		memset(res, 0, sizeof(*res));
		res->verdict = VB_V_DROP_NO_QP;
		return VB_WC_SUCCESS;
	}
	vb_local_send(peer, &request, res);
	/* Its mailbox goes on taking messages when it is dead and somebody overwrote the word
	 * that would say so: then it is found out where its receives end. */
	if (res->verdict == VB_V_RNR && vb_peer_check(peer))
		res->verdict = VB_V_DROP_DEAD;
	if (res->verdict == VB_V_ACCEPTED &&
	    (msg->kind == VB_MSG_CMP_SWP || msg->kind == VB_MSG_FETCH_ADD) &&
	    vb_memory_scatter(payload.iov, payload.n, &res->old, sizeof(res->old),
			      payload.careful) < 0)
		return VB_WC_LOC_PROT_ERR;
	return VB_WC_SUCCESS;
}

static void wait_until(struct vb_engine *engine, struct vb_qp *qp, const struct vb_sq_step *step)
{
	struct vb_sq *sq = &qp->sq;

	sq->waiting = true;
	sq->wait = step->kind;
	sq->wait_status = step->status;
	sq->wait_ns = step->deadline_ns;
	if (step->deadline_ns != VB_NEVER)
		vb_engine_wake_at(engine, qp, step->deadline_ns);
}

/* Without acknowledgements a message is done when it has been sent. A receiver that runs but
 * has not posted receives again yet is given a moment, as a link with flow control
 * would: its receives decide the pace. One that uses the moment up loses the message, and those
 * that follow at once, until it takes one again. */
static struct vb_sq_step unacked_step(struct vb_sq *sq, const struct vb_msg_result *res)
{
	enum vb_verdict verdict = res->verdict;
	struct vb_sq_step next = {.kind = VB_STEP_DONE};
	uint64_t now;

	if (verdict == VB_V_ACCEPTED) {
		sq->patience = VB_PATIENCE;
		return next;
	}
	if (verdict == VB_V_DROP_BUSY)
		return (struct vb_sq_step){.kind = VB_STEP_RETRY_AT, .deadline_ns = res->again_ns};
	if (vb_verdict_is(verdict, VB_VC_LOCAL))
		return (struct vb_sq_step){.kind = VB_STEP_FAIL, .status = VB_WC_LOC_PROT_ERR};
	if (!res->recv_before || !sq->patience)
		return next;
	sq->patience--;
	now = vb_now_ns();
	return (struct vb_sq_step){.kind = VB_STEP_RETRY_AT, .deadline_ns = now + PACE_NS};
}

/* Another process is inside an atomic on this memory: it takes microseconds, unless it was
 * stopped there. Then the ack timer runs as for any silent peer. */
static bool try_soon(struct vb_sq *sq, enum vb_msg_kind kind, enum vb_verdict verdict,
		     struct vb_sq_step *next)
{
	uint64_t now;

	if (verdict != VB_V_DROP_GONE || (kind != VB_MSG_CMP_SWP && kind != VB_MSG_FETCH_ADD)) {
		sq->busy_until_ns = 0;
		return false;
	}
	now = vb_now_ns();
	if (!sq->busy_until_ns)
		sq->busy_until_ns = vb_timer_after(now, vb_timer_ack_ns(sq->budget.timeout));
	if (now >= sq->busy_until_ns) {
		sq->busy_until_ns = 0;
		return false;
	}
	*next = (struct vb_sq_step){.kind = VB_STEP_RETRY_AT, .deadline_ns = now + PACE_NS};
	return true;
}

/* A receiver that has not been ready for long is asked less often: its timer is the
 * shortest wait, not the longest. Where rnr_retry counts, it counts as the program expects. */
static void ask_less_often(struct vb_sq *sq, enum vb_verdict verdict, struct vb_sq_step *next)
{
	uint32_t doublings;
	uint64_t extra;

	if (verdict != VB_V_RNR) {
		sq->rnr_streak = 0;
		return;
	}
	sq->rnr_streak++;
	if (sq->budget.rnr_retry != VB_RNR_FOREVER || sq->rnr_streak < RNR_STREAK)
		return;
	doublings = sq->rnr_streak / RNR_STREAK;
	extra = 10000ull << (doublings < 8 ? doublings : 8);
	next->deadline_ns += extra;
}

/* A moment likewise before a receiver that has taken messages is given up as not ready: two
 * programs that share a processor fall behind by whole time slices, which no adapter's peer does.
 * Programs that allow no retry (rnr_retry 0) rely on a receiver that keeps up. */
static bool last_moment(struct vb_sq *sq, const struct vb_msg_result *res, struct vb_sq_step *next)
{
	if (res->verdict == VB_V_ACCEPTED)
		sq->patience = VB_PATIENCE;
	if (res->verdict != VB_V_RNR || sq->budget.rnr_left || !res->recv_before ||
	    sq->budget.rnr_retry == VB_RNR_FOREVER || sq->patience <= VB_PATIENCE - RNR_LOOKS)
		return false;
	sq->patience--;
	*next = (struct vb_sq_step){.kind = VB_STEP_RETRY_AT, .deadline_ns = vb_now_ns() + PACE_NS};
	return true;
}

static struct vb_sq_step next_step(struct vb_qp *qp, const struct vb_msg *msg,
				   const struct vb_msg_result *res)
{
	struct vb_sq_step next;

	if (qp->ibv.qp_type != IBV_QPT_RC)
		return unacked_step(&qp->sq, res);
	if (res->verdict != VB_V_ACCEPTED && try_soon(&qp->sq, msg->kind, res->verdict, &next))
		return next;
	if (last_moment(&qp->sq, res, &next))
		return next;
	vb_rc_sq_verdict(&qp->sq.budget, res->verdict, res->rnr_timer,
			 res->verdict == VB_V_ACCEPTED ? 0 : vb_now_ns(), &next);
	ask_less_often(&qp->sq, res->verdict, &next);
	return next;
}

/* One message. Returns its bytes, or -1 when the queue stopped. */
static int64_t step(struct vb_engine *engine, struct vb_qp *qp)
{
	struct vb_sq *sq = &qp->sq;
	uint64_t index = atomic_load(&sq->next);
	struct vb_swqe *wqe = vb_sq_slot(sq, index);
	enum vb_wc_status status = vb_requester_check(qp, wqe);
	uint64_t length = wqe->length; /* a completed request's slot is the program's again */
	struct vb_msg_result res;
	struct vb_sq_step todo;
	struct vb_msg msg;
	uint32_t token;

	sq->told = false;
	if (!status) {
		token = vb_grace_enter(&engine->grace);
		if (qp->ibv.qp_type == IBV_QPT_UD)
			status = vb_datagram_send(engine, qp, wqe, &msg, &res);
		else
			status = execute(engine, qp, wqe, &msg, &res);
		vb_grace_leave(&engine->grace, token);
	}
	if (status) {
		fail(engine, qp, status, 0);
		return -1;
	}
	todo = next_step(qp, &msg, &res);
	if (!res.as_packet)
		vb_stat_message(engine->adapter, &msg, qp->ibv.qp_type == IBV_QPT_RC, res.verdict);
	else if (!res.verdict)
		vb_stat_add(engine->adapter, VB_STAT_SENDS, 1);
	if (todo.kind == VB_STEP_DONE) {
		if (res.verdict)
			vb_explain_verdict(qp, wqe, &res, &todo);
		sq->psn = vb_psn_add(sq->psn, msg.npkts);
		tell_done(engine, qp);
		atomic_store_explicit(&sq->next, index + 1, memory_order_release);
		return (int64_t)length;
	}
	if (qp->ibv.qp_type == IBV_QPT_RC)
		vb_explain_verdict(qp, wqe, &res, &todo);
	if (todo.kind == VB_STEP_FAIL)
		fail(engine, qp, todo.status, res.verdict);
	else
		wait_until(engine, qp, &todo);
	return -1;
}

/* Is the queue still waiting? Ends a wait that is over. */
static bool waits(struct vb_engine *engine, struct vb_qp *qp)
{
	struct vb_sq *sq = &qp->sq;

	if (!sq->waiting)
		return false;
	if (sq->wait_ns == VB_NEVER)
		return true;
	if (vb_now_ns() < sq->wait_ns) {
		vb_engine_wake_at(engine, qp, sq->wait_ns);
		return true;
	}
	sq->waiting = false;
	if (sq->wait != VB_STEP_FAIL_AT)
		return false;
	fail(engine, qp, sq->wait_status, 0);
	return true;
}

static void tell_drained(struct vb_qp *qp)
{
	if (qp->sq.drained_told || !qp->attr.en_sqd_async_notify)
		return;
	qp->sq.drained_told = true;
	raise_event(qp, IBV_EVENT_SQ_DRAINED);
}

static void work(struct vb_engine *engine, struct vb_qp *qp, uint64_t budget, bool first)
{
	struct vb_sq *sq = &qp->sq;

	if (qp->srq)
		vb_receive_limit(qp->srq);
	for (;;) {
		int state = atomic_load(&qp->state);
		uint64_t word = atomic_load(&qp->mbx->word);
		uint64_t next = atomic_load(&sq->next);
		bool more = next < atomic_load_explicit(&sq->posted, memory_order_acquire);
		int64_t bytes;
		bool begun;

		if (failed_by_peer(qp, word) && state != IBV_QPS_ERR && state != IBV_QPS_RESET) {
			vb_requester_error(engine, qp);
			return;
		}
		if (state != IBV_QPS_ERR && state != IBV_QPS_RESET && cq_failed(engine, qp)) {
			vb_requester_error(engine, qp);
			raise_event(qp, IBV_EVENT_QP_FATAL);
			return;
		}
		if ((state == IBV_QPS_ERR || state == IBV_QPS_SQE) && more)
			flush_sends(engine, qp);
		/* SQD begins nothing; a message that waits has begun, and is ended. */
		if (qp->wire &&
		    (state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD)) {
			if (!vb_wire_work(engine, qp) && state == IBV_QPS_SQD)
				tell_drained(qp);
			return;
		}
		begun = sq->waiting;
		if (state == IBV_QPS_SQD && !begun)
			tell_drained(qp);
		if ((state != IBV_QPS_RTS && !(state == IBV_QPS_SQD && begun)) || !more ||
		    waits(engine, qp))
			return;
		if (!first && !begun && vb_sq_slot(sq, next)->length > budget) {
			vb_engine_wake_at(engine, qp, 0);
			return;
		}
		first = false;
		bytes = step(engine, qp);
		if (bytes < 0)
			return;
		budget -= (uint64_t)bytes < budget ? (uint64_t)bytes : budget;
	}
}

void vb_requester_run(struct vb_engine *engine, struct vb_qp *qp, uint64_t budget, bool first)
{
	for (;;) {
		int seen = VB_RUN_IDLE;

		if (atomic_compare_exchange_strong(&qp->run, &seen, VB_RUN_BUSY))
			break;
		if (seen == VB_RUN_AGAIN ||
		    atomic_compare_exchange_strong(&qp->run, &seen, VB_RUN_AGAIN))
			return;
	}
	for (;;) {
		int busy = VB_RUN_BUSY;

		work(engine, qp, budget, first);
		if (atomic_compare_exchange_strong(&qp->run, &busy, VB_RUN_IDLE))
			return;
		atomic_store(&qp->run, VB_RUN_BUSY);
	}
}

bool vb_requester_settle(struct vb_engine *engine, struct vb_qp *qp)
{
	bool waiting;

	vb_requester_run(engine, qp, VB_RUN_BUDGET, false);
	vb_requester_hold(qp);
	waiting = qp->wire ? vb_wire_busy(qp) : qp->sq.waiting;
	vb_requester_release(engine, qp);
	return waiting;
}

void vb_requester_hold(struct vb_qp *qp)
{
	for (int tries = 0;; tries++) {
		int idle = VB_RUN_IDLE;

		if (atomic_compare_exchange_strong(&qp->run, &idle, VB_RUN_BUSY))
			return;
		if (tries % 64 == 63)
			sched_yield();
		else
			vb_pause();
	}
}

void vb_requester_release(struct vb_engine *engine, struct vb_qp *qp)
{
	int busy = VB_RUN_BUSY;

	if (atomic_compare_exchange_strong(&qp->run, &busy, VB_RUN_IDLE))
		return;
	atomic_store(&qp->run, VB_RUN_IDLE);
	vb_requester_run(engine, qp, VB_RUN_BUDGET, false);
}

void vb_requester_posted(struct vb_engine *engine, struct vb_qp *qp)
{
	vb_requester_run(engine, qp, VB_RUN_BUDGET, false);
	if (qp->ibv.qp_type != IBV_QPT_RC)
		vb_wire_turn(engine);
}

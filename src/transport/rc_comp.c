/* SPDX-License-Identifier: BSD-2-Clause */
#include <stddef.h>

#include "transport/rc_comp.h"

/* One response on its way. */
struct answer {
	struct vb_rc_sq *sq;
	const struct vb_rc_wqe *ring;
	const struct vb_req_env *env;
	void *ctx;
	const struct vb_packet *pkt;
	const struct vb_op_row *op;
	struct vb_psn psn;
	uint64_t now_ns;
};

/* The oldest work request with something unacknowledged, or NULL. */
static const struct vb_rc_wqe *oldest(const struct answer *a, uint32_t *index)
{
	const struct vb_rc_sq *sq = a->sq;

	for (uint32_t i = sq->head; i != sq->started; i++) {
		const struct vb_rc_wqe *wqe = &a->ring[i & sq->attr.ring_mask];

		if (!vb_psn_before(wqe->last, sq->una)) {
			*index = i & sq->attr.ring_mask;
			return wqe;
		}
	}
	return NULL;
}

/* Of what is to be sent again, some was only late. */
static void skip_acknowledged(const struct answer *a)
{
	struct vb_rc_sq *sq = a->sq;
	const struct vb_rc_wqe *wqe = &a->ring[sq->cursor & sq->attr.ring_mask];

	if (sq->cursor != sq->started &&
	    vb_psn_before(vb_psn_add(wqe->first, sq->cursor_pkt), sq->una))
		vb_rc_sq_go_back(sq, a->ring);
}

static void progress(const struct answer *a, struct vb_psn una)
{
	struct vb_rc_sq *sq = a->sq;

	/* Where an answer was lost, waiting for it says little; where none was ever timed, it is
	 * all that is known. */
	if (sq->probes && sq->rtt.mean_ns)
		vb_rc_rtt_forget(&sq->rtt);
	vb_rc_rtt_acked(&sq->rtt, una, a->now_ns);
	vb_rc_window_acked(&sq->window, (uint32_t)vb_psn_diff(una, sq->una), una);
	sq->una = una;
	skip_acknowledged(a);
	sq->gone_back = false;
	vb_rc_budget_progress(&sq->budget);
	sq->last_rnr_ns = 0;
	if (sq->rnr_wait)
		return;
	if (vb_rc_sq_in_flight(sq))
		vb_rc_sq_arm(sq, a->now_ns);
	else
		vb_rc_sq_disarm(sq);
}

/* Everything before @end is acknowledged, unless a READ or atomic among it still
 * lacks its response. Returns false then: that response was lost. */
static bool acknowledge(const struct answer *a, struct vb_psn end)
{
	struct vb_rc_sq *sq = a->sq;
	struct vb_psn limit = end;

	for (uint32_t i = sq->head; sq->rd_atomic && i != sq->started; i++) {
		const struct vb_rc_wqe *wqe = &a->ring[i & sq->attr.ring_mask];

		if (!vb_psn_before(wqe->first, end))
			break;
		if (wqe->kind < VB_MSG_READ || vb_psn_before(wqe->last, sq->una))
			continue;
		limit = vb_psn_before(sq->una, wqe->first) ? wqe->first : sq->una;
		break;
	}
	if (vb_psn_before(sq->una, limit))
		progress(a, limit);
	return vb_psn_eq(limit, end);
}

static void send_again(const struct answer *a)
{
	struct vb_rc_sq *sq = a->sq;

	sq->gone_back = true;
	vb_rc_window_lost(&sq->window, sq->sent);
	vb_rc_sq_disarm(sq);
	vb_rc_sq_go_back(sq, a->ring);
}

/* A packet or response was lost: send again from una, once per gap. */
static enum vb_verdict again(const struct answer *a, enum vb_verdict verdict)
{
	struct vb_rc_sq *sq = a->sq;

	if (sq->gone_back || sq->rnr_wait)
		return VB_V_ACK_STALE;
	if (!vb_rc_budget_retry(&sq->budget)) {
		vb_rc_sq_fail(sq, VB_WC_RETRY_EXC_ERR);
		return verdict;
	}
	send_again(a);
	return verdict;
}

static enum vb_verdict fail(const struct answer *a, enum vb_verdict verdict,
			    enum vb_wc_status status)
{
	vb_rc_sq_fail(a->sq, status);
	return verdict;
}

static enum vb_verdict on_ack(const struct answer *a)
{
	struct vb_rc_sq *sq = a->sq;
	struct vb_psn probed = sq->una;
	uint32_t probes = sq->probes;
	bool whole = acknowledge(a, vb_psn_add(a->psn, 1));

	if (!whole)
		return again(a, VB_V_ACK_EARLY);
	/* Only the probe is new to the peer: what followed had been there before, and is lost. A
	 * peer that was merely away acknowledges more, unless packet by packet: it may be one, and
	 * so no retry is spent. */
	if (sq->probes < probes && vb_psn_before(sq->una, sq->probe_end) &&
	    vb_psn_eq(sq->una, vb_psn_add(probed, 1)) && !sq->gone_back && !sq->rnr_wait)
		send_again(a);
	return VB_V_ACCEPTED;
}

/* Of a request that has ended, or one that this very answer acknowledges. */
static bool peer_took(const struct answer *a)
{
	const struct vb_rc_sq *sq = a->sq;

	for (uint32_t i = sq->head; i != sq->started && !sq->peer_took; i++) {
		const struct vb_rc_wqe *wqe = &a->ring[i & sq->attr.ring_mask];

		if (!vb_psn_before(wqe->last, sq->una))
			return false;
		if (vb_rc_takes_receive(wqe))
			return true;
	}
	return sq->peer_took;
}

/* rnr_retry is spent. A receiver that has taken messages gets a moment more. */
static bool last_moment(const struct answer *a)
{
	struct vb_rc_sq *sq = a->sq;

	if (!peer_took(a))
		return false;
	if (!sq->last_rnr_ns)
		sq->last_rnr_ns = a->now_ns + VB_RNR_MOMENT_NS;
	return a->now_ns < sq->last_rnr_ns;
}

static enum vb_verdict on_rnr(const struct answer *a)
{
	struct vb_rc_sq *sq = a->sq;

	if (!acknowledge(a, a->psn))
		return again(a, VB_V_ACK_EARLY);
	if (sq->rnr_wait)
		return VB_V_ACK_STALE;
	if (!vb_rc_budget_rnr(&sq->budget) && !last_moment(a))
		return fail(a, VB_V_RNR, VB_WC_RNR_RETRY_EXC_ERR);
	sq->rnr_wait = true;
	vb_rc_sq_disarm(sq);
	sq->deadline_ns = vb_timer_after(a->now_ns, vb_timer_rnr_ns(a->pkt->aeth_value));
	return VB_V_RNR;
}

/* The verdict a NAK code stands for; which of its causes it was, only the peer knows. */
static enum vb_verdict nak_verdict(uint8_t code)
{
	switch (code) {
	case VB_NAK_INV_REQ:
		return VB_V_PEER_INV_REQ;
	case VB_NAK_REM_ACCESS:
		return VB_V_PEER_ACCESS;
	case VB_NAK_REM_OP:
		return VB_V_PEER_OP;
	default:
		return VB_V_BAD_RESPONSE;
	}
}

static enum vb_verdict on_nak(const struct answer *a)
{
	uint8_t code = a->pkt->aeth_value;

	if (!acknowledge(a, a->psn))
		return again(a, VB_V_ACK_EARLY);
	if (code == VB_NAK_SEQ)
		return again(a, VB_V_NAK_SEQ);
	return fail(a, nak_verdict(code), vb_nak_status(code));
}

static bool read_fits(const struct answer *a, const struct vb_rc_wqe *wqe, uint64_t offset)
{
	uint64_t left = wqe->length - offset, mtu = a->sq->attr.path_mtu;
	bool last = vb_psn_eq(a->psn, wqe->last);

	if (vb_op_is_last(a->op) != vb_psn_eq(vb_psn_add(a->psn, 1), wqe->asked))
		return false;
	/* In the middle a response may begin anew: it was asked for again. */
	if (vb_psn_eq(a->psn, wqe->first) && !vb_op_is_first(a->op))
		return false;
	return a->pkt->payload_len == (last ? left : mtu);
}

/* A response with data: it acknowledges all before it, and must be the one due. */
static enum vb_verdict on_data(const struct answer *a)
{
	const struct vb_rc_wqe *wqe;
	uint64_t offset = 0, old = a->pkt->atomic_orig;
	const void *bytes = &old;
	uint32_t index = 0, len = sizeof(old);
	enum vb_verdict v;

	if (!acknowledge(a, a->psn))
		return again(a, VB_V_ACK_EARLY);
	wqe = oldest(a, &index);
	if (!wqe)
		return VB_V_ACK_STALE;
	if (a->op->kind == VB_OP_ATOMIC_ACK) {
		if (!vb_rc_is_atomic(wqe->kind))
			return fail(a, VB_V_BAD_RESPONSE, VB_WC_BAD_RESP_ERR);
	} else {
		offset = (uint64_t)vb_psn_diff(a->psn, wqe->first) * a->sq->attr.path_mtu;
		if (wqe->kind != VB_MSG_READ || !read_fits(a, wqe, offset))
			return fail(a, VB_V_BAD_RESPONSE, VB_WC_BAD_RESP_ERR);
		bytes = a->pkt->payload;
		len = a->pkt->payload_len;
	}
	v = len ? vb_rc_check_copy(a->env->scatter(a->ctx, index, offset, bytes, len), true)
		: VB_V_ACCEPTED;
	if (v)
		return fail(a, VB_V_LOCAL_PROT, VB_WC_LOC_PROT_ERR);
	progress(a, vb_psn_add(a->psn, 1));
	return VB_V_ACCEPTED;
}

static enum vb_verdict dispatch(const struct answer *a)
{
	struct vb_rc_sq *sq = a->sq;

	/* Numbers outside of what is under way: an echo, or a peer that is out of step. */
	if (vb_psn_before(a->psn, sq->una))
		return VB_V_ACK_STALE;
	if (!vb_psn_before(a->psn, sq->sent))
		return VB_V_ACK_BEYOND;
	if (a->op->kind != VB_OP_ACK && a->pkt->aeth_type == VB_AETH_ACK)
		return on_data(a);
	if (a->op->kind != VB_OP_ACK)
		return VB_V_DROP_MALFORMED;
	switch (a->pkt->aeth_type) {
	case VB_AETH_ACK:
		return on_ack(a);
	case VB_AETH_RNR:
		return on_rnr(a);
	case VB_AETH_NAK:
		return on_nak(a);
	default:
		return VB_V_DROP_MALFORMED;
	}
}

enum vb_verdict vb_rc_comp_packet(struct vb_rc_sq *sq, const struct vb_rc_wqe *ring,
				  const struct vb_resp_qp *qp, const struct vb_req_env *env,
				  void *ctx, const struct vb_packet *pkt,
				  const struct vb_source *src, uint64_t now_ns, struct vb_out *out)
{
	struct answer a = {.sq = sq,
			   .ring = ring,
			   .env = env,
			   .ctx = ctx,
			   .pkt = pkt,
			   .op = vb_op_row(pkt->opcode),
			   .psn = vb_psn(pkt->psn),
			   .now_ns = now_ns};
	enum vb_verdict v;

	if (!a.op || a.op->service != VB_SVC_RC || vb_op_is_request(a.op))
		return VB_V_DROP_MALFORMED;
	if (sq->attr.service != VB_SVC_RC)
		return VB_V_DROP_TYPE;
	if (sq->state == VB_SQ_ERR)
		return VB_V_DROP_STATE;
	if ((v = vb_rc_check_peer(qp, src)))
		return v;
	v = dispatch(&a);
	vb_rc_sq_retire(sq, ring, out);
	return v;
}

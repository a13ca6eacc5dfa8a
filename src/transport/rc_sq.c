/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <string.h>

#include "transport/rc_sq.h"

void vb_rc_sq_init(struct vb_rc_sq *sq, const struct vb_rc_sq_attr *attr)
{
	memset(sq, 0, sizeof(*sq));
	sq->attr = *attr;
	sq->una = sq->next = sq->sent = attr->psn;
	vb_rc_sq_disarm(sq);
	vb_rc_budget_init(&sq->budget, attr->timeout, attr->retry_cnt, attr->rnr_retry);
	vb_rc_window_init(&sq->window, attr->window);
}

void vb_rc_sq_retune(struct vb_rc_sq *sq, uint8_t max_rd_atomic, uint8_t timeout, uint8_t retry_cnt,
		     uint8_t rnr_retry)
{
	struct vb_rc_sq_attr *attr = &sq->attr;

	attr->max_rd_atomic = max_rd_atomic;
	attr->timeout = timeout;
	attr->retry_cnt = retry_cnt;
	attr->rnr_retry = rnr_retry;
	vb_rc_budget_init(&sq->budget, timeout, retry_cnt, rnr_retry);
}

void vb_rc_sq_posted(struct vb_rc_sq *sq)
{
	assert(sq->tail - sq->head <= sq->attr.ring_mask);
	sq->tail++;
}

void vb_rc_sq_go_back(struct vb_rc_sq *sq, const struct vb_rc_wqe *ring)
{
	uint32_t i = sq->head;

	/* Completed ones that found no room yet are stepped over. */
	while (i != sq->started && vb_psn_before(ring[i & sq->attr.ring_mask].last, sq->una))
		i++;
	vb_rc_rtt_forget(&sq->rtt);
	sq->cursor = i;
	sq->cursor_pkt = 0;
	if (i != sq->started)
		sq->cursor_pkt = (uint32_t)vb_psn_diff(sq->una, ring[i & sq->attr.ring_mask].first);
}

static void set_probe(struct vb_rc_sq *sq, uint64_t now_ns)
{
	uint64_t ack_ns = vb_timer_ack_ns(sq->budget.timeout);

	sq->probe_ns = vb_timer_after(now_ns, vb_rc_rtt_patience(&sq->rtt, ack_ns));
	if (sq->probe_ns >= sq->deadline_ns)
		sq->probe_ns = VB_NEVER;
}

void vb_rc_sq_disarm(struct vb_rc_sq *sq)
{
	sq->deadline_ns = sq->probe_ns = VB_NEVER;
	sq->probes = 0;
	sq->probe = false;
}

void vb_rc_sq_arm(struct vb_rc_sq *sq, uint64_t now_ns)
{
	vb_rc_sq_disarm(sq);
	sq->deadline_ns = vb_timer_after(now_ns, vb_timer_ack_ns(sq->budget.timeout));
	set_probe(sq, now_ns);
}

/* The ack timer has ended. */
static void silence(struct vb_rc_sq *sq, const struct vb_rc_wqe *ring)
{
	sq->gone_back = false;
	if (!vb_rc_budget_retry(&sq->budget)) {
		vb_rc_sq_fail(sq, VB_WC_RETRY_EXC_ERR);
		return;
	}
	vb_rc_window_silent(&sq->window, sq->sent);
	vb_rc_sq_go_back(sq, ring);
}

enum vb_sq_timer vb_rc_sq_timer(struct vb_rc_sq *sq, const struct vb_rc_wqe *ring, uint64_t now_ns)
{
	if (sq->state == VB_SQ_ERR || now_ns < vb_rc_sq_next_ns(sq))
		return VB_TIMER_RUNS;
	if (now_ns < sq->deadline_ns) {
		sq->probe = true;
		sq->probes++;
		vb_rc_rtt_probed(&sq->rtt);
		set_probe(sq, now_ns);
		return VB_TIMER_PROBE;
	}
	vb_rc_sq_disarm(sq);
	if (!sq->rnr_wait) {
		silence(sq, ring);
		return VB_TIMER_SILENCE;
	}
	sq->rnr_wait = false;
	sq->gone_back = false;
	vb_rc_sq_go_back(sq, ring);
	return VB_TIMER_RNR;
}

bool vb_rc_sq_marked(struct vb_rc_sq *sq)
{
	if (sq->state == VB_SQ_ERR || !vb_rc_sq_in_flight(sq))
		return false;
	return vb_rc_window_marked(&sq->window, sq->sent);
}

void vb_rc_sq_fail(struct vb_rc_sq *sq, enum vb_wc_status status)
{
	if (sq->state == VB_SQ_ERR)
		return;
	sq->state = VB_SQ_ERR;
	sq->status = status;
	vb_rc_sq_disarm(sq);
	sq->rnr_wait = false;
}

static enum vb_wc_opcode wc_opcode(enum vb_msg_kind kind)
{
	static const enum vb_wc_opcode opcode[] = {
		[VB_MSG_SEND] = VB_WC_OP_SEND,		 [VB_MSG_WRITE] = VB_WC_OP_RDMA_WRITE,
		[VB_MSG_READ] = VB_WC_OP_RDMA_READ,	 [VB_MSG_CMP_SWP] = VB_WC_OP_COMP_SWAP,
		[VB_MSG_FETCH_ADD] = VB_WC_OP_FETCH_ADD,
	};

	return opcode[kind];
}

static void complete(struct vb_rc_sq *sq, const struct vb_rc_wqe *wqe, enum vb_wc_status status,
		     struct vb_out *out)
{
	struct vb_out_sent *sent = &vb_out_add(out, VB_OUT_SENT)->sent;

	sent->wqe = sq->head & sq->attr.ring_mask;
	sent->wr_id = wqe->wr_id;
	sent->status = status;
	sent->opcode = wc_opcode(wqe->kind);
	sent->byte_len = (uint32_t)wqe->length;
	sent->signaled = wqe->signaled;
	if (sq->head != sq->started && (wqe->kind == VB_MSG_READ || vb_rc_is_atomic(wqe->kind)))
		sq->rd_atomic--;
	if (sq->head == sq->started)
		sq->started++;
	if (sq->cursor == sq->head) {
		sq->cursor++;
		sq->cursor_pkt = 0;
	}
	sq->head++;
}

bool vb_rc_sq_retire(struct vb_rc_sq *sq, const struct vb_rc_wqe *ring, struct vb_out *out)
{
	while (sq->head != sq->tail) {
		const struct vb_rc_wqe *wqe = &ring[sq->head & sq->attr.ring_mask];

		if (sq->head != sq->started && vb_psn_before(wqe->last, sq->una)) {
			if (!vb_out_room(out))
				return true;
			sq->peer_took |= vb_rc_takes_receive(wqe);
			complete(sq, wqe, VB_WC_SUCCESS, out);
			continue;
		}
		/* What came before a work request that cannot be sent has ended. */
		if (sq->blocked && sq->head == sq->started)
			vb_rc_sq_fail(sq, sq->status);
		if (sq->state != VB_SQ_ERR)
			break;
		if (vb_out_room(out) < 2)
			return true;
		/* Without acknowledgements only the send side ends. */
		if (sq->status != VB_WC_WR_FLUSH_ERR && sq->attr.service != VB_SVC_UC)
			vb_out_add(out, VB_OUT_QP_ERR);
		complete(sq, wqe, sq->status, out);
		sq->status = VB_WC_WR_FLUSH_ERR;
	}
	if (sq->state == VB_SQ_DRAIN && sq->drain_event && sq->head == sq->started) {
		if (!vb_out_room(out))
			return true;
		vb_out_event(out, VB_EVENT_SQ_DRAINED);
		sq->drain_event = false;
	}
	return false;
}

void vb_rc_sq_drain(struct vb_rc_sq *sq, bool drain, bool event)
{
	if (sq->state == VB_SQ_ERR)
		return;
	sq->state = drain ? VB_SQ_DRAIN : VB_SQ_RTS;
	sq->drain_event = drain && event;
}

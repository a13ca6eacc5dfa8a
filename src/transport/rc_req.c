/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/rc_req.h"

static bool is_response_bound(enum vb_msg_kind kind)
{
	return kind == VB_MSG_READ || vb_rc_is_atomic(kind);
}

static bool is_acknowledged(const struct vb_rc_sq *sq)
{
	return sq->attr.service != VB_SVC_UC;
}

static uint32_t count_of(const struct vb_rc_sq *sq, const struct vb_rc_wqe *wqe)
{
	return vb_rc_is_atomic(wqe->kind) ? 1 : vb_psn_count(wqe->length, sq->attr.path_mtu);
}

/* The work request at started ends here with @status once those before it have ended. */
static bool block(struct vb_rc_sq *sq, enum vb_wc_status status)
{
	sq->blocked = true;
	sq->status = status;
	return false;
}

/* Number the work request at cursor, which never began. */
static bool start(struct vb_rc_sq *sq, struct vb_rc_wqe *wqe, const struct vb_req_env *env,
		  void *ctx)
{
	uint32_t n = count_of(sq, wqe);

	if (sq->state != VB_SQ_RTS)
		return false;
	if (is_response_bound(wqe->kind) && sq->attr.max_rd_atomic == 0)
		return block(sq, VB_WC_LOC_QP_OP_ERR);
	if (wqe->length > VB_MAX_MSG)
		return block(sq, VB_WC_LOC_LEN_ERR);
	if (!vb_rc_sq_may_start(wqe->kind, wqe->fence, sq->rd_atomic, sq->attr.max_rd_atomic))
		return false;
	/* Numbers under way must stay comparable. */
	if (vb_rc_sq_in_flight(sq) && vb_psn_diff(sq->next, sq->una) + (int64_t)n > VB_PSN_HALF / 2)
		return false;
	if (!env->check_local(ctx, sq->cursor & sq->attr.ring_mask))
		return block(sq, VB_WC_LOC_PROT_ERR);
	wqe->first = sq->next;
	wqe->last = vb_psn_add(sq->next, n - 1);
	wqe->asked = wqe->first;
	sq->next = vb_psn_add(sq->next, n);
	sq->started++;
	if (is_response_bound(wqe->kind))
		sq->rd_atomic++;
	return true;
}

static void fill_extension(const struct vb_rc_wqe *wqe, uint64_t offset, struct vb_packet *hdr)
{
	hdr->va = wqe->remote_addr + offset;
	hdr->rkey = wqe->rkey;
	hdr->dma_len = (uint32_t)(wqe->length - offset);
	hdr->compare = wqe->compare_add;
	hdr->swap_add = wqe->kind == VB_MSG_CMP_SWP ? wqe->swap : wqe->compare_add;
	hdr->imm = wqe->imm;
	hdr->inv_rkey = wqe->inv_rkey;
	if (wqe->kind == VB_MSG_FETCH_ADD)
		hdr->compare = 0;
}

static enum vb_op_pos position(uint32_t pkt, uint32_t count)
{
	return (enum vb_op_pos)((pkt == 0 ? VB_POS_FIRST : 0) |
				(pkt == count - 1 ? VB_POS_LAST : 0));
}

static void ask_for_ack(struct vb_rc_sq *sq, enum vb_op_pos pos, struct vb_packet *hdr)
{
	if (!is_acknowledged(sq))
		return;
	sq->unasked++;
	hdr->ack_req = (pos & VB_POS_LAST) || sq->unasked >= (sq->window.size + 3) / 4;
	if (hdr->ack_req)
		sq->unasked = 0;
}

/* How many packets a READ asks for from its packet @pkt on. Without a sign of congestion a piece
 * is long, since between two of them nothing comes for a round trip. */
static uint32_t read_piece(const struct vb_rc_sq *sq, const struct vb_rc_wqe *wqe, uint32_t pkt,
			   uint32_t count)
{
	const struct vb_rc_window *w = &sq->window;
	struct vb_psn psn = vb_psn_add(wqe->first, pkt);
	uint64_t piece = 4 * (uint64_t)w->max;

	/* Again: the end stays, or the peer would not know the request. */
	if (vb_psn_before(psn, wqe->asked))
		return (uint32_t)vb_psn_diff(wqe->asked, psn);
	if (w->size < w->max)
		piece = w->size - (uint32_t)vb_psn_diff(psn, sq->una);
	return count - pkt < piece ? count - pkt : (uint32_t)piece;
}

/* One packet of the work request at cursor. */
static void emit(struct vb_rc_sq *sq, struct vb_rc_wqe *wqe, uint64_t now_ns, struct vb_out *out)
{
	struct vb_out_packet *p = &vb_out_add(out, VB_OUT_PACKET)->packet;
	uint32_t count = count_of(sq, wqe), pkt = sq->cursor_pkt;
	uint32_t n = wqe->kind == VB_MSG_READ ? read_piece(sq, wqe, pkt, count) : 1;
	uint64_t offset = (uint64_t)pkt * sq->attr.path_mtu;
	bool whole = is_response_bound(wqe->kind);
	enum vb_op_extra extra = wqe->with_imm	 ? VB_EXTRA_IMM
				 : wqe->with_inv ? VB_EXTRA_INV
						 : VB_EXTRA_NONE;
	enum vb_op_pos pos = whole ? VB_POS_ONLY : position(pkt, count);
	struct vb_psn psn = vb_psn_add(wqe->first, pkt), after = vb_psn_add(psn, n);

	vb_op_find(sq->attr.service, (enum vb_op_kind)wqe->kind, pos, whole ? VB_EXTRA_NONE : extra,
		   &p->hdr.opcode);
	p->hdr.pkey = sq->attr.pkey;
	p->hdr.migreq = true; /* the migrated state: there is no other path */
	p->hdr.dest_qpn = sq->attr.dest_qpn;
	p->hdr.psn = psn.v;
	p->hdr.solicited = wqe->solicited && (pos & VB_POS_LAST);
	fill_extension(wqe, offset, &p->hdr);
	/* A READ is asked for from the first byte that is missing. */
	if (wqe->kind == VB_MSG_READ) {
		wqe->asked = after;
		if (pkt + n < count)
			p->hdr.dma_len = n * sq->attr.path_mtu;
	}
	if (!whole) {
		uint64_t left = wqe->length - offset;

		p->hdr.payload_len =
			(uint32_t)(left < sq->attr.path_mtu ? left : sq->attr.path_mtu);
		p->from = p->hdr.payload_len ? VB_PAYLOAD_WQE : VB_PAYLOAD_NONE;
		p->wqe = sq->cursor & sq->attr.ring_mask;
		p->offset = offset;
	}
	ask_for_ack(sq, pos, &p->hdr);
	if (vb_psn_before(sq->sent, after)) {
		sq->sent = after;
		if (p->hdr.ack_req)
			vb_rc_rtt_sent(&sq->rtt, after, now_ns);
	}
	if (!is_acknowledged(sq) && (pos & VB_POS_LAST))
		sq->una = after;
	sq->cursor_pkt = pkt + n;
	if (sq->cursor_pkt == count) {
		sq->cursor++;
		sq->cursor_pkt = 0;
	}
}

/* Whether the packet at cursor may leave now. */
static bool ready(struct vb_rc_sq *sq, struct vb_rc_wqe *ring, const struct vb_req_env *env,
		  void *ctx)
{
	struct vb_rc_wqe *wqe = vb_rc_sq_wqe(sq, ring, sq->cursor);
	struct vb_psn psn;

	if (sq->state == VB_SQ_ERR || sq->rnr_wait || sq->cursor == sq->tail)
		return false;
	if (sq->blocked && sq->cursor == sq->started)
		return false;
	if (!is_acknowledged(sq))
		return sq->cursor != sq->started || start(sq, wqe, env, ctx);
	psn = sq->cursor == sq->started ? sq->next : vb_psn_add(wqe->first, sq->cursor_pkt);
	if (vb_psn_diff(psn, sq->una) >= (int64_t)sq->window.size)
		return false;
	if (sq->cursor != sq->started && wqe->kind == VB_MSG_READ && sq->cursor_pkt &&
	    !vb_psn_before(psn, wqe->asked) && !vb_psn_eq(psn, sq->una))
		return false;
	return sq->cursor != sq->started || start(sq, wqe, env, ctx);
}

/* The oldest packet once more, out of turn. */
static void send_probe(struct vb_rc_sq *sq, struct vb_rc_wqe *ring, uint64_t now_ns,
		       struct vb_out *out)
{
	uint32_t cursor = sq->cursor, cursor_pkt = sq->cursor_pkt;
	struct vb_rc_rtt rtt = sq->rtt;
	struct vb_out_record *r = &out->records[out->count];

	if (sq->probes == 1)
		sq->probe_end = sq->sent;
	vb_rc_sq_go_back(sq, ring);
	/* A response that stopped in the middle: no packet after the lost ones showed the gap. */
	if (sq->probes == 1 && sq->cursor_pkt &&
	    vb_rc_sq_wqe(sq, ring, sq->cursor)->kind == VB_MSG_READ)
		vb_rc_window_lost(&sq->window, sq->sent);
	emit(sq, vb_rc_sq_wqe(sq, ring, sq->cursor), now_ns, out);
	r->packet.hdr.ack_req = true;
	sq->cursor = cursor;
	sq->cursor_pkt = cursor_pkt;
	/* A later one goes on being timed: how else would it learn that it had no patience? */
	if (!vb_psn_eq(rtt.end, vb_psn_add(sq->una, 1)))
		sq->rtt = rtt;
}

bool vb_rc_req_run(struct vb_rc_sq *sq, struct vb_rc_wqe *ring, const struct vb_req_env *env,
		   void *ctx, uint64_t now_ns, uint32_t budget, struct vb_out *out)
{
	if (vb_rc_sq_retire(sq, ring, out))
		return true;
	if (sq->probe) {
		if (budget == 0 || !vb_out_room(out))
			return true;
		budget--;
		sq->probe = false;
		send_probe(sq, ring, now_ns, out);
	}
	while (ready(sq, ring, env, ctx)) {
		if (budget == 0 || !vb_out_room(out))
			return true;
		budget--;
		emit(sq, vb_rc_sq_wqe(sq, ring, sq->cursor), now_ns, out);
		if (is_acknowledged(sq) && sq->deadline_ns == VB_NEVER)
			vb_rc_sq_arm(sq, now_ns);
	}
	if (is_acknowledged(sq) && (!sq->blocked || sq->state == VB_SQ_ERR))
		return false;
	return vb_rc_sq_retire(sq, ring, out);
}

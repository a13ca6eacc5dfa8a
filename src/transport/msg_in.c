/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/msg_in.h"

_Static_assert((int)VB_OP_SEND == (int)VB_MSG_SEND && (int)VB_OP_WRITE == (int)VB_MSG_WRITE &&
		       (int)VB_OP_READ == (int)VB_MSG_READ &&
		       (int)VB_OP_CMP_SWP == (int)VB_MSG_CMP_SWP &&
		       (int)VB_OP_FETCH_ADD == (int)VB_MSG_FETCH_ADD,
	       "the requests' kinds are the messages' kinds");

static enum vb_msg_kind kind_of(const struct vb_msg_step *s)
{
	return (enum vb_msg_kind)s->op->kind;
}

/* ---- checks that only packets need ---- */

/* First, middle, last: in the order of one message. */
static enum vb_verdict check_sequence(const struct vb_msg_step *s)
{
	const struct vb_msg_in *msg = s->msg;

	if (vb_op_is_first(s->op) == msg->in_message)
		return VB_V_INV_OP_SEQ;
	return msg->in_message && msg->kind != kind_of(s) ? VB_V_INV_OP_SEQ : VB_V_ACCEPTED;
}

/* Full packets but for the last, which is not empty unless it is the only one. */
static enum vb_verdict check_packet_length(const struct vb_msg_step *s)
{
	uint32_t len = s->pkt->payload_len, mtu = s->qp->path_mtu;

	if (!s->op->payload)
		return VB_V_ACCEPTED;
	if (!vb_op_is_last(s->op))
		return len == mtu ? VB_V_ACCEPTED : VB_V_INV_PACKET_LEN;
	if (len > mtu || (len == 0 && !vb_op_is_first(s->op)))
		return VB_V_INV_PACKET_LEN;
	return VB_V_ACCEPTED;
}

/* A WRITE's packets add up to what its first announced. */
static enum vb_verdict check_total(const struct vb_msg_step *s)
{
	uint64_t end = s->msg->offset + s->pkt->payload_len;

	if (kind_of(s) != VB_MSG_WRITE)
		return VB_V_ACCEPTED;
	if (vb_op_is_last(s->op))
		return end == s->msg->total ? VB_V_ACCEPTED : VB_V_INV_MSG_LEN;
	return end < s->msg->total ? VB_V_ACCEPTED : VB_V_INV_MSG_LEN;
}

/* ---- the pipeline ---- */

uint64_t vb_msg_in_announced(const struct vb_msg_step *s)
{
	if (vb_rc_is_atomic(kind_of(s)))
		return 8;
	if (kind_of(s) == VB_MSG_SEND)
		return s->msg->offset + s->pkt->payload_len;
	return vb_op_is_first(s->op) ? s->pkt->dma_len : s->msg->total;
}

static enum vb_verdict take(struct vb_msg_step *s)
{
	struct vb_msg_in *msg = s->msg;
	enum vb_verdict v;

	if (!vb_rc_needs_recv(kind_of(s), s->op->extra == VB_EXTRA_IMM))
		return VB_V_ACCEPTED;
	if (!msg->has_recv) {
		if ((v = vb_rc_check_take(s->env->take_recv(s->ctx, &msg->recv))))
			return v;
		msg->has_recv = true;
	}
	return VB_V_ACCEPTED;
}

static enum vb_verdict length(const struct vb_msg_step *s)
{
	const struct vb_msg_in *msg = s->msg;
	uint64_t announced = vb_msg_in_announced(s);
	uint64_t scattered = kind_of(s) == VB_MSG_SEND ? announced : 0;
	enum vb_verdict v;

	if ((v = check_packet_length(s)) || (v = vb_rc_check_msg_length(kind_of(s), announced)) ||
	    (v = check_total(s)))
		return v;
	if (!msg->has_recv)
		return VB_V_ACCEPTED;
	if ((v = vb_rc_check_recv_length(&msg->recv, scattered)))
		return v;
	return vb_rc_check_recv_sges(&msg->recv, scattered);
}

static enum vb_verdict resolve(const struct vb_msg_step *s, struct vb_target *target)
{
	struct vb_msg_in *msg = s->msg;
	enum vb_verdict v;

	if (kind_of(s) == VB_MSG_SEND)
		return VB_V_ACCEPTED;
	if (vb_op_is_first(s->op)) {
		msg->rkey = s->pkt->rkey;
		msg->va = s->pkt->va;
	}
	if ((v = vb_rc_check_alignment(kind_of(s), msg->va)))
		return v;
	return vb_rc_resolve(s->qp, s->env, s->ctx, kind_of(s), msg->rkey, msg->va,
			     vb_msg_in_announced(s), target);
}

static enum vb_verdict execute(struct vb_msg_step *s, const struct vb_target *target)
{
	const struct vb_packet *pkt = s->pkt;
	enum vb_msg_kind kind = kind_of(s);
	bool send = kind == VB_MSG_SEND, swap = kind == VB_MSG_CMP_SWP;
	struct vb_place to = {.target = send ? NULL : target, .recv = send ? &s->msg->recv : NULL};
	enum vb_copy copy = VB_COPY_OK;

	if (vb_rc_is_atomic(kind))
		copy = s->env->atomic(s->ctx, target,
				      swap ? VB_ATOMIC_CMP_SWP : VB_ATOMIC_FETCH_ADD,
				      swap ? pkt->compare : pkt->swap_add, pkt->swap_add, &s->old);
	else if (kind != VB_MSG_READ && pkt->payload_len)
		copy = s->env->copy_in(s->ctx, &to, s->msg->offset, pkt->payload, pkt->payload_len);
	return vb_rc_check_copy(copy, send);
}

static enum vb_verdict invalidate(const struct vb_msg_step *s)
{
	struct vb_key key;
	enum vb_verdict v;
	bool known;

	if (s->op->extra != VB_EXTRA_INV)
		return VB_V_ACCEPTED;
	known = s->env->lookup_key(s->ctx, s->pkt->inv_rkey, &key);
	if ((v = vb_rc_check_invalidate(s->qp, known, &key)))
		return v;
	return vb_rc_check_copy(s->env->invalidate(s->ctx, &key), false);
}

enum vb_verdict vb_msg_in_packet(struct vb_msg_step *s)
{
	struct vb_msg_in *msg = s->msg;
	struct vb_target target;
	enum vb_verdict v;

	s->old = 0;
	if ((v = check_sequence(s)))
		return v;
	if ((v = vb_rc_check_kind(kind_of(s))) || (v = vb_rc_check_qp_access(s->qp, kind_of(s))) ||
	    (v = vb_rc_check_rd_atomic(s->qp, kind_of(s), s->busy)))
		return v;
	if (vb_op_is_first(s->op)) {
		msg->kind = kind_of(s);
		msg->offset = 0;
		msg->total = s->pkt->dma_len;
	}
	if ((v = take(s)) || (v = length(s)) || (v = resolve(s, &target)) ||
	    (v = execute(s, &target)))
		return v;
	return invalidate(s);
}

bool vb_msg_in_advance(const struct vb_msg_step *s, struct vb_out *out)
{
	struct vb_msg_in *msg = s->msg;

	msg->offset += s->pkt->payload_len;
	msg->in_message = !vb_op_is_last(s->op);
	if (!msg->in_message && msg->has_recv)
		vb_msg_in_end_recv(msg, s->qp, VB_WC_SUCCESS, s->pkt, out);
	return !msg->in_message;
}

void vb_msg_in_end_recv(struct vb_msg_in *msg, const struct vb_resp_qp *qp,
			enum vb_wc_status status, const struct vb_packet *pkt, struct vb_out *out)
{
	struct vb_out_received *r = &vb_out_add(out, VB_OUT_RECEIVED)->received;
	const struct vb_op_row *op = pkt ? vb_op_row(pkt->opcode) : NULL;

	r->recv = msg->recv;
	vb_rc_recv_completion(&r->completion, qp, status, msg->kind, msg->offset);
	if (op && op->extra != VB_EXTRA_NONE) {
		bool imm = op->extra == VB_EXTRA_IMM;

		r->completion.flags = imm ? VB_WC_WITH_IMM : VB_WC_WITH_INV;
		r->completion.imm_or_key = imm ? pkt->imm : pkt->inv_rkey;
	}
	r->completion.solicited = pkt && pkt->solicited;
	msg->has_recv = false;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "transport/rc_msg.h"

/* One message on its way through the checks. */
struct run {
	const struct vb_resp_qp *qp;
	const struct vb_resp_env *env;
	void *ctx;
	const struct vb_msg *msg;
	struct vb_msg_result *res;
	struct vb_recv recv;
};

static enum vb_verdict admit(const struct run *r)
{
	const struct vb_msg *msg = r->msg;
	enum vb_verdict v;

	if ((v = vb_rc_check_qp(r->qp)) || (v = vb_rc_check_peer(r->qp, &msg->src)) ||
	    (v = vb_rc_check_psn(r->qp->epsn, msg->psn)))
		return v;
	if ((v = vb_rc_check_kind(msg->kind)) || (v = vb_rc_check_qp_access(r->qp, msg->kind)))
		return v;
	return vb_rc_check_rd_atomic(r->qp, msg->kind, 0);
}

static enum vb_verdict length(const struct run *r)
{
	const struct vb_msg *msg = r->msg;
	enum vb_verdict v;

	if ((v = vb_rc_check_msg_length(msg->kind, msg->length)))
		return v;
	return vb_rc_check_packets(r->qp, msg->kind, msg->length, msg->npkts);
}

static enum vb_verdict take(struct run *r)
{
	uint64_t scattered = r->msg->kind == VB_MSG_SEND ? r->msg->length : 0;
	enum vb_verdict v;

	if (!vb_rc_needs_recv(r->msg->kind, r->msg->with_imm))
		return VB_V_ACCEPTED;
	v = vb_rc_check_take(r->env->take_recv(r->ctx, &r->recv));
	if (v)
		return v;
	r->res->recv_taken = true;
	if ((v = vb_rc_check_recv_length(&r->recv, scattered)))
		return v;
	return vb_rc_check_recv_sges(&r->recv, scattered);
}

static enum vb_verdict resolve(struct run *r)
{
	const struct vb_msg *msg = r->msg;
	enum vb_verdict v;

	if (msg->kind == VB_MSG_SEND)
		return VB_V_ACCEPTED;
	if ((v = vb_rc_check_alignment(msg->kind, msg->remote_addr)))
		return v;
	return vb_rc_resolve(r->qp, r->env, r->ctx, msg->kind, msg->rkey, msg->remote_addr,
			     msg->length, &r->res->target);
}

static enum vb_verdict execute(struct run *r)
{
	const struct vb_msg *msg = r->msg;
	struct vb_place to = {.target = &r->res->target};
	bool send = msg->kind == VB_MSG_SEND;
	enum vb_copy copy = VB_COPY_OK;

	if (vb_rc_is_atomic(msg->kind)) {
		enum vb_atomic kind =
			msg->kind == VB_MSG_CMP_SWP ? VB_ATOMIC_CMP_SWP : VB_ATOMIC_FETCH_ADD;

		copy = r->env->atomic(r->ctx, &r->res->target, kind, msg->compare_add, msg->swap,
				      &r->res->old);
	} else if (msg->length && msg->kind == VB_MSG_READ) {
		copy = r->env->copy_out(r->ctx, &r->res->target, 0, msg->payload, msg->length);
	} else if (msg->length) {
		if (send)
			to = (struct vb_place){.recv = &r->recv};
		copy = r->env->copy_in(r->ctx, &to, 0, msg->payload, msg->length);
	}
	return vb_rc_check_copy(copy, send);
}

static enum vb_verdict invalidate(struct run *r)
{
	struct vb_key key;
	enum vb_verdict v;
	bool known;

	if (!r->msg->with_inv)
		return VB_V_ACCEPTED;
	known = r->env->lookup_key(r->ctx, r->msg->inv_rkey, &key);
	if ((v = vb_rc_check_invalidate(r->qp, known, &key)))
		return v;
	return vb_rc_check_copy(r->env->invalidate(r->ctx, &key), false);
}

static enum vb_verdict complete(struct run *r, enum vb_wc_status status)
{
	const struct vb_msg *msg = r->msg;
	struct vb_recv_completion c;

	if (!r->res->recv_taken)
		return VB_V_ACCEPTED;
	vb_rc_recv_completion(&c, r->qp, status, msg->kind, msg->length);
	c.solicited = msg->solicited;
	if (msg->with_imm || msg->with_inv) {
		c.flags = msg->with_imm ? VB_WC_WITH_IMM : VB_WC_WITH_INV;
		c.imm_or_key = msg->with_imm ? msg->imm : msg->inv_rkey;
	}
	return r->env->complete(r->ctx, &r->recv, &c) ? VB_V_ACCEPTED : VB_V_DROP_GONE;
}

static enum vb_verdict run(struct run *r)
{
	bool one_packet = r->msg->npkts <= 1;
	enum vb_verdict v;

	if ((v = admit(r)))
		return v;
	if (one_packet && (v = take(r)))
		return v;
	if ((v = length(r)) || (v = resolve(r)))
		return v;
	if (!one_packet && (v = take(r)))
		return v;
	if ((v = execute(r)) || (v = invalidate(r)))
		return v;
	return complete(r, VB_WC_SUCCESS);
}

static bool is_nak(enum vb_verdict verdict)
{
	return vb_verdict_is(verdict, VB_VC_NAK);
}

enum vb_verdict vb_rc_resp_message(const struct vb_resp_qp *qp, const struct vb_resp_env *env,
				   void *ctx, const struct vb_msg *msg, struct vb_msg_result *res)
{
	return vb_resp_message(qp, env, ctx, msg, is_nak, res);
}

enum vb_verdict vb_resp_message(const struct vb_resp_qp *qp, const struct vb_resp_env *env,
				void *ctx, const struct vb_msg *msg,
				bool (*fails)(enum vb_verdict verdict), struct vb_msg_result *res)
{
	struct run r = {.qp = qp, .env = env, .ctx = ctx, .msg = msg, .res = res};
	const struct vb_verdict_row *row;

	memset(res, 0, sizeof(*res));
	res->epsn = qp->epsn;
	res->msn = qp->msn;
	res->event = VB_EVENT_NONE;
	res->verdict = run(&r);
	row = vb_verdict_row(res->verdict);
	if (res->verdict == VB_V_ACCEPTED) {
		res->epsn = vb_psn_add(msg->psn, msg->npkts);
		res->msn = (qp->msn + 1) & VB_PSN_MASK;
		res->comm_est = qp->state == VB_QPS_RTR && !qp->comm_est;
	} else if (res->verdict == VB_V_RNR) {
		res->rnr_timer = qp->min_rnr_timer;
	} else if (fails(res->verdict)) {
		res->target_err = true;
		if (!res->recv_taken)
			res->event = row->event;
	}
	if (res->target_err)
		complete(&r, row->recv);
	return res->verdict;
}

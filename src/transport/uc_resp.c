/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/uc_resp.h"

#include "transport/unacked_msg.h"

static void drop_message(struct vb_msg_in *msg)
{
	msg->in_message = false;
	msg->has_recv = false;
}

/* A first packet begins a message whatever was before it; others continue the one they belong
 * to, without a gap. */
static enum vb_verdict check_place(struct vb_msg_in *msg, struct vb_resp_qp *qp,
				   const struct vb_packet *pkt, const struct vb_op_row *op)
{
	bool expected = pkt->psn == qp->epsn.v;

	qp->epsn = vb_psn_add(vb_psn(pkt->psn), 1);
	if (!expected || vb_op_is_first(op))
		drop_message(msg);
	return vb_op_is_first(op) || msg->in_message ? VB_V_ACCEPTED : VB_V_DROP_BROKEN;
}

static enum vb_verdict refuse(struct vb_msg_in *msg, struct vb_resp_qp *qp, enum vb_verdict v,
			      struct vb_out *out)
{
	if (vb_unacked_own_fault(v) && msg->has_recv) {
		qp->state = VB_QPS_ERR;
		vb_out_add(out, VB_OUT_QP_ERR);
		vb_msg_in_end_recv(msg, qp, vb_verdict_row(v)->recv, NULL, out);
		msg->in_message = false;
		return v;
	}
	drop_message(msg);
	return vb_unacked_verdict(v);
}

enum vb_verdict vb_uc_resp_packet(struct vb_msg_in *msg, struct vb_resp_qp *qp,
				  const struct vb_resp_env *env, void *ctx,
				  const struct vb_packet *pkt, const struct vb_source *src,
				  struct vb_out *out)
{
	struct vb_msg_step step = {.msg = msg,
				   .qp = qp,
				   .env = env,
				   .ctx = ctx,
				   .pkt = pkt,
				   .op = vb_op_row(pkt->opcode)};
	enum vb_verdict v;

	if (qp->type != VB_QPT_UC)
		return VB_V_DROP_TYPE;
	if ((v = vb_rc_check_state(qp)) || (v = vb_rc_check_peer(qp, src)))
		return v;
	if (!step.op || step.op->service != VB_SVC_UC)
		return VB_V_DROP_MALFORMED;
	if ((v = check_place(msg, qp, pkt, step.op)))
		return v;
	if ((v = vb_msg_in_packet(&step)))
		return refuse(msg, qp, v, out);
	if (vb_msg_in_advance(&step, out))
		qp->msn = (qp->msn + 1) & VB_PSN_MASK;
	if (qp->state == VB_QPS_RTR && !qp->comm_est) {
		qp->comm_est = true;
		vb_out_event(out, VB_EVENT_COMM_EST);
	}
	return VB_V_ACCEPTED;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/unacked_msg.h"

#include <string.h>

enum vb_verdict vb_unacked_verdict(enum vb_verdict verdict)
{
	if (verdict == VB_V_RNR)
		return VB_V_DROP_NO_RECV;
	return vb_verdict_is(verdict, VB_VC_NAK) ? VB_V_DROP_ACCESS : verdict;
}

bool vb_unacked_own_fault(enum vb_verdict verdict)
{
	return verdict == VB_V_INV_RECV_LEN || verdict == VB_V_OP_RECV_PROT ||
	       verdict == VB_V_OP_SRQ;
}

enum vb_verdict vb_uc_resp_message(const struct vb_resp_qp *qp, const struct vb_resp_env *env,
				   void *ctx, const struct vb_msg *msg, struct vb_msg_result *res)
{
	struct vb_resp_qp as_rc = *qp;

	memset(res, 0, sizeof(*res));
	res->event = VB_EVENT_NONE;
	if (qp->type != VB_QPT_UC)
		return res->verdict = VB_V_DROP_TYPE;
	if (msg->kind != VB_MSG_SEND && msg->kind != VB_MSG_WRITE)
		return res->verdict = VB_V_DROP_MALFORMED;
	as_rc.type = VB_QPT_RC;
	as_rc.epsn = msg->psn;
	vb_resp_message(&as_rc, env, ctx, msg, vb_unacked_own_fault, res);
	res->event = VB_EVENT_NONE;
	res->target_err = res->target_err && res->recv_taken;
	if (!res->target_err)
		res->verdict = vb_unacked_verdict(res->verdict);
	return res->verdict;
}

static enum vb_verdict check_datagram(const struct vb_resp_qp *qp, uint32_t qkey,
				      const struct vb_msg *msg, uint32_t msg_qkey)
{
	enum vb_verdict v;

	if (qp->type != VB_QPT_UD)
		return VB_V_DROP_TYPE;
	if ((v = vb_rc_check_state(qp)))
		return v;
	if (msg_qkey != qkey)
		return VB_V_DROP_QKEY;
	return msg->kind == VB_MSG_SEND ? VB_V_ACCEPTED : VB_V_DROP_MALFORMED;
}

/* Take a receive and put the datagram into it. */
static enum vb_verdict deliver(const struct vb_resp_env *env, void *ctx, const struct vb_msg *msg,
			       struct vb_recv *recv, struct vb_msg_result *res)
{
	struct vb_place to = {.recv = recv};
	enum vb_verdict v = vb_rc_check_take(env->take_recv(ctx, recv));

	if (v)
		return vb_unacked_verdict(v);
	if (vb_rc_check_recv_length(recv, msg->length))
		return VB_V_DROP_RECV_LEN;
	res->recv_taken = true;
	if ((v = vb_rc_check_recv_sges(recv, msg->length)))
		return v;
	return vb_rc_check_copy(env->copy_in(ctx, &to, 0, msg->payload, msg->length), true);
}

enum vb_verdict vb_ud_resp_message(const struct vb_resp_qp *qp, uint32_t qkey,
				   const struct vb_resp_env *env, void *ctx,
				   const struct vb_msg *msg, uint32_t msg_qkey,
				   struct vb_msg_result *res)
{
	struct vb_recv_completion completion;
	struct vb_recv recv;

	memset(res, 0, sizeof(*res));
	res->event = VB_EVENT_NONE;
	res->verdict = check_datagram(qp, qkey, msg, msg_qkey);
	if (res->verdict)
		return res->verdict;
	res->verdict = deliver(env, ctx, msg, &recv, res);
	res->target_err = vb_verdict_is(res->verdict, VB_VC_NAK);
	if (res->verdict && !res->target_err)
		return res->verdict;
	vb_rc_recv_completion(&completion, qp,
			      res->target_err ? vb_verdict_row(res->verdict)->recv : VB_WC_SUCCESS,
			      VB_MSG_SEND, msg->length);
	completion.src_qpn = msg->src.qpn;
	completion.solicited = msg->solicited;
	completion.flags =
		VB_WC_GRH | (msg->with_imm ? VB_WC_WITH_IMM : 0) | (msg->ipv4 ? VB_WC_IPV4 : 0);
	completion.imm_or_key = msg->with_imm ? msg->imm : 0;
	if (!env->complete(ctx, &recv, &completion) && !res->target_err)
		res->verdict = VB_V_DROP_GONE;
	return res->verdict;
}

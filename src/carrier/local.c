/* SPDX-License-Identifier: BSD-2-Clause */
#include "carrier/local.h"

#include <string.h>

#include "host/access.h"
#include "host/liveness.h"
#include "host/words.h"
#include "transport/unacked_msg.h"

static enum vb_verdict respond(struct vb_target_call *c, const struct vb_resp_qp *qp,
			       const struct vb_local_request *request, struct vb_msg_result *res)
{
	switch (request->service) {
	case VB_SERVICE_RC:
		return vb_rc_resp_message(qp, &vb_target_env, c, request->msg, res);
	case VB_SERVICE_UC:
		return vb_uc_resp_message(qp, &vb_target_env, c, request->msg, res);
	default:
		return vb_ud_resp_message(qp, c->row.qkey, &vb_target_env, c, request->msg,
					  request->qkey, res);
	}
}

static void run(struct vb_target_call *c, const struct vb_local_request *request,
		struct vb_msg_result *res)
{
	struct vb_resp_qp qp;

	if (!vb_target_read(c, request->qpn)) {
		res->verdict = VB_V_DROP_NO_QP;
		return;
	}
	vb_target_describe(c, request->qpn, &qp);
	respond(c, &qp, request, res);
	res->recv_before =
		(res->verdict == VB_V_DROP_NO_RECV || res->verdict == VB_V_RNR) && c->index;
	/* A receive that several may take was taken for this message and not used. */
	if (c->taken && c->row.rq_shared)
		vb_arrival_void(&c->arrival->word, c->taken);
	if (res->verdict == VB_V_ACCEPTED && request->service == VB_SERVICE_RC)
		vb_psnw_advance(&c->mbx->psn, vb_qpw_epoch(c->word), qp.epsn.v, res->epsn.v);
	else if (res->target_err)
		vb_target_fail(c, res->verdict);
}

enum vb_verdict vb_local_send(struct vb_peer *p, const struct vb_local_request *request,
			      struct vb_msg_result *res)
{
	struct vb_target_call c;
	int ticket;

	c.peer = p;
	c.payload = request->msg->payload;
	c.arrived = request->arrived;
	c.arrived_arg = request->arrived_arg;
	c.taken = 0;
	c.index = 0;
	memset(res, 0, sizeof(*res));
	res->event = VB_EVENT_NONE;
	if (vb_peer_dead(p))
		return res->verdict = VB_V_DROP_DEAD;
	ticket = vb_access_begin(p->adapter, p, request->qpn, request->msg->rkey);
	if (ticket < 0)
		return res->verdict = VB_V_DROP_BUSY;
	VB_STEP(ACCESS_ANNOUNCED);
	run(&c, request, res);
	vb_access_end(p->adapter, ticket);
	return res->verdict;
}

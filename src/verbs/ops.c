/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/ops.h"

#include "verbs/cq.h"
#include "verbs/poll.h"
#include "verbs/qp.h"
#include "verbs/query.h"

#undef ibv_query_port

void vb_ops_fill(struct vb_context *ctx)
{
	struct ibv_context_ops *ops = &ctx->vctx.context.ops;

	ops->_compat_query_device = ibv_query_device;
	ops->_compat_query_port = ibv_query_port;
	ops->poll_cq = vb_poll_cq;
	ops->req_notify_cq = vb_req_notify_cq;
	ops->post_send = vb_post_send;
	ops->post_recv = vb_post_recv;
	ctx->vctx.create_cq_ex = vb_create_cq_ex;
	ctx->vctx.create_qp_ex = vb_create_qp_ex;
	ctx->vctx.query_port = vb_query_port_sized;
	ctx->vctx.query_device_ex = vb_query_device_ex;
	ctx->vctx.query_rt_values = vb_query_rt_values;
}

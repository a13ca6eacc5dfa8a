/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/ops.h"

#include "verbs/query.h"

#undef ibv_query_port

void vb_ops_fill(struct vb_context *ctx)
{
	struct ibv_context_ops *ops = &ctx->vctx.context.ops;

	ops->_compat_query_device = ibv_query_device;
	ops->_compat_query_port = ibv_query_port;
	ctx->vctx.query_port = vb_query_port_sized;
	ctx->vctx.query_device_ex = vb_query_device_ex;
	ctx->vctx.query_rt_values = vb_query_rt_values;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/ops.h"

#include "verbs/cq.h"
#include "verbs/dm.h"
#include "verbs/domain.h"
#include "verbs/mr.h"
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
	ops->post_srq_recv = vb_post_srq_recv;
	ctx->vctx.create_srq_ex = vb_create_srq_ex;
	ctx->vctx.get_srq_num = vb_get_srq_num;
	ctx->vctx.advise_mr = vb_advise_mr;
	ctx->vctx.alloc_null_mr = vb_alloc_null_mr;
	ctx->vctx.alloc_dm = vb_alloc_dm;
	ctx->vctx.free_dm = vb_free_dm;
	ctx->vctx.reg_dm_mr = vb_reg_dm_mr;
	ctx->vctx.alloc_td = vb_alloc_td;
	ctx->vctx.dealloc_td = vb_dealloc_td;
	ctx->vctx.alloc_parent_domain = vb_alloc_parent_domain;
	ctx->vctx.create_cq_ex = vb_create_cq_ex;
	ctx->vctx.create_qp_ex = vb_create_qp_ex;
	ctx->vctx.query_port = vb_query_port_sized;
	ctx->vctx.query_device_ex = vb_query_device_ex;
	ctx->vctx.query_rt_values = vb_query_rt_values;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include <infiniband/verbs.h>

#include "base/rules.h"
#include "object/context.h"
#include "verbs/newer.h"
#include "verbs/unsupported.h"

/* The exported function, not the macro in front of it. */
#undef ibv_query_port

/* OBJECT: a slot that returns a pointer. CODE: one that returns an errno value. */
#define OBJECT(type, slot, ...)                                                                    \
	static struct type *slot(__VA_ARGS__)                                                      \
	{                                                                                          \
		return vb_fail_null(VB_RULE_NOT_SUPPORTED, "ibv_" #slot);                          \
	}
#define CODE(slot, ...)                                                                            \
	static int slot(__VA_ARGS__)                                                               \
	{                                                                                          \
		return vb_fail(VB_RULE_NOT_SUPPORTED, "ibv_" #slot);                               \
	}

/* clang-format off */

/* struct ibv_context_ops */
OBJECT(ibv_mw, alloc_mw, struct ibv_pd *pd, enum ibv_mw_type type)
CODE(bind_mw, struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *mw_bind)
CODE(dealloc_mw, struct ibv_mw *mw)
CODE(req_notify_cq, struct ibv_cq *cq, int solicited_only)

/* struct verbs_context */
CODE(query_port, struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *port_attr,
     size_t port_attr_len)
CODE(advise_mr, struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
     struct ibv_sge *sg_list, uint32_t num_sges)
OBJECT(ibv_mr, alloc_null_mr, struct ibv_pd *pd)
CODE(read_counters, struct ibv_counters *counters, uint64_t *counters_value, uint32_t ncounters,
     uint32_t flags)
CODE(attach_counters_point_flow, struct ibv_counters *counters,
     struct ibv_counter_attach_attr *attr, struct ibv_flow *flow)
OBJECT(ibv_counters, create_counters, struct ibv_context *context,
       struct ibv_counters_init_attr *init_attr)
CODE(destroy_counters, struct ibv_counters *counters)
OBJECT(ibv_mr, reg_dm_mr, struct ibv_pd *pd, struct ibv_dm *dm, uint64_t dm_offset, size_t length,
       unsigned int access)
OBJECT(ibv_dm, alloc_dm, struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
CODE(free_dm, struct ibv_dm *dm)
CODE(modify_flow_action_esp, struct ibv_flow_action *action, struct ibv_flow_action_esp_attr *attr)
CODE(destroy_flow_action, struct ibv_flow_action *action)
OBJECT(ibv_flow_action, create_flow_action_esp, struct ibv_context *context,
       struct ibv_flow_action_esp_attr *attr)
CODE(modify_qp_rate_limit, struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr)
OBJECT(ibv_pd, alloc_parent_domain, struct ibv_context *context,
       struct ibv_parent_domain_init_attr *attr)
CODE(dealloc_td, struct ibv_td *td)
OBJECT(ibv_td, alloc_td, struct ibv_context *context, struct ibv_td_init_attr *init_attr)
CODE(modify_cq, struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
CODE(destroy_rwq_ind_table, struct ibv_rwq_ind_table *rwq_ind_table)
OBJECT(ibv_rwq_ind_table, create_rwq_ind_table, struct ibv_context *context,
       struct ibv_rwq_ind_table_init_attr *init_attr)
CODE(destroy_wq, struct ibv_wq *wq)
CODE(modify_wq, struct ibv_wq *wq, struct ibv_wq_attr *wq_attr)
OBJECT(ibv_wq, create_wq, struct ibv_context *context, struct ibv_wq_init_attr *wq_init_attr)
CODE(query_rt_values, struct ibv_context *context, struct ibv_values_ex *values)
OBJECT(ibv_cq_ex, create_cq_ex, struct ibv_context *context, struct ibv_cq_init_attr_ex *init_attr)
CODE(query_device_ex, struct ibv_context *context, const struct ibv_query_device_ex_input *input,
     struct ibv_device_attr_ex *attr, size_t attr_size)
CODE(destroy_flow, struct ibv_flow *flow)
OBJECT(ibv_flow, create_flow, struct ibv_qp *qp, struct ibv_flow_attr *flow_attr)
OBJECT(ibv_qp, open_qp, struct ibv_context *context, struct ibv_qp_open_attr *attr)
OBJECT(ibv_qp, create_qp_ex, struct ibv_context *context,
       struct ibv_qp_init_attr_ex *qp_init_attr_ex)
CODE(get_srq_num, struct ibv_srq *srq, uint32_t *srq_num)
OBJECT(ibv_srq, create_srq_ex, struct ibv_context *context,
       struct ibv_srq_init_attr_ex *srq_init_attr_ex)
OBJECT(ibv_xrcd, open_xrcd, struct ibv_context *context, struct ibv_xrcd_init_attr *xrcd_init_attr)
CODE(close_xrcd, struct ibv_xrcd *xrcd)

/* clang-format on */

static int poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)
{
	return -vb_fail(VB_RULE_NOT_SUPPORTED, "ibv_poll_cq");
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	*bad_wr = wr;
	return vb_fail(VB_RULE_NOT_SUPPORTED, "ibv_post_srq_recv");
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	*bad_wr = wr;
	return vb_fail(VB_RULE_NOT_SUPPORTED, "ibv_post_send");
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	*bad_wr = wr;
	return vb_fail(VB_RULE_NOT_SUPPORTED, "ibv_post_recv");
}

static int post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *op, struct ibv_ops_wr **bad_op)
{
	*bad_op = op;
	return vb_fail(VB_RULE_NOT_SUPPORTED, "ibv_post_srq_ops");
}

static void fill_context_ops(struct ibv_context_ops *ops)
{
	memset(ops, 0, sizeof(*ops));
	/* Programs of before 2007 call these two through the slots. */
	ops->_compat_query_device = ibv_query_device;
	ops->_compat_query_port = ibv_query_port;
	ops->alloc_mw = alloc_mw;
	ops->bind_mw = bind_mw;
	ops->dealloc_mw = dealloc_mw;
	ops->poll_cq = poll_cq;
	ops->req_notify_cq = req_notify_cq;
	ops->post_srq_recv = post_srq_recv;
	ops->post_send = post_send;
	ops->post_recv = post_recv;
}

static void fill_verbs_context(struct verbs_context *vctx)
{
	vctx->query_port = query_port;
	vctx->advise_mr = advise_mr;
	vctx->alloc_null_mr = alloc_null_mr;
	vctx->read_counters = read_counters;
	vctx->attach_counters_point_flow = attach_counters_point_flow;
	vctx->create_counters = create_counters;
	vctx->destroy_counters = destroy_counters;
	vctx->reg_dm_mr = reg_dm_mr;
	vctx->alloc_dm = alloc_dm;
	vctx->free_dm = free_dm;
	vctx->modify_flow_action_esp = modify_flow_action_esp;
	vctx->destroy_flow_action = destroy_flow_action;
	vctx->create_flow_action_esp = create_flow_action_esp;
	vctx->modify_qp_rate_limit = modify_qp_rate_limit;
	vctx->alloc_parent_domain = alloc_parent_domain;
	vctx->dealloc_td = dealloc_td;
	vctx->alloc_td = alloc_td;
	vctx->modify_cq = modify_cq;
	vctx->post_srq_ops = post_srq_ops;
	vctx->destroy_rwq_ind_table = destroy_rwq_ind_table;
	vctx->create_rwq_ind_table = create_rwq_ind_table;
	vctx->destroy_wq = destroy_wq;
	vctx->modify_wq = modify_wq;
	vctx->create_wq = create_wq;
	vctx->query_rt_values = query_rt_values;
	vctx->create_cq_ex = create_cq_ex;
	vctx->query_device_ex = query_device_ex;
	vctx->ibv_destroy_flow = destroy_flow;
	vctx->ibv_create_flow = create_flow;
	/* Programs linked with libibverbs 1.1.8 find the two flow functions here. */
	vctx->ABI_placeholder1 = (void (*)(void))create_flow;
	vctx->ABI_placeholder2 = (void (*)(void))destroy_flow;
	vctx->open_qp = open_qp;
	vctx->create_qp_ex = create_qp_ex;
	vctx->get_srq_num = get_srq_num;
	vctx->create_srq_ex = create_srq_ex;
	vctx->open_xrcd = open_xrcd;
	vctx->close_xrcd = close_xrcd;
}

void vb_ops_fill_unsupported(struct vb_context *ctx)
{
	fill_context_ops(&ctx->vctx.context.ops);
	fill_verbs_context(&ctx->vctx);
	/* Later slots, which only exported functions reach: the functions themselves. */
	VB_CTX_SLOT(ctx, VB_SLOT_ALLOC_DMAH) = (void *)ibv_alloc_dmah;
	VB_CTX_SLOT(ctx, VB_SLOT_DEALLOC_DMAH) = (void *)ibv_dealloc_dmah;
	VB_CTX_SLOT(ctx, VB_SLOT_REG_MR_EX) = (void *)ibv_reg_mr_ex;
	VB_CTX_SLOT(ctx, VB_SLOT_DM_EXPORT_DMABUF_FD) = (void *)ibv_dm_export_dmabuf_fd;
	VB_CTX_SLOT(ctx, VB_SLOT_ALLOC_BUF) = (void *)ibv_alloc_buf;
	VB_CTX_SLOT(ctx, VB_SLOT_FREE_BUF) = (void *)ibv_free_buf;
}

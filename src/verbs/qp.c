/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/qp.h"

#include <stdlib.h>
#include <string.h>

#include "engine/mcast.h"
#include "engine/objects.h"
#include "engine/requester.h"
#include "host/async.h"
#include "host/discover.h"
#include "host/words.h"
#include "object/device.h"
#include "object/qp_table.h"
#include "verbs/check.h"
#include "engine/reach.h"

/* The CQs and the PD must be live objects of this context. */
static int check_parents(struct vb_context *ctx, struct ibv_pd *pd,
			 const struct ibv_qp_init_attr *attr)
{
	struct ibv_cq *cqs[] = {attr->send_cq, attr->recv_cq};
	int err = vb_check_usable(ctx, "ibv_create_qp");

	if (err)
		return err;
	if (!pd)
		return vb_fail(VB_RULE_CREATE_QP_PD, "pd=NULL");
	if (pd->context != &ctx->vctx.context)
		return vb_fail(VB_RULE_OTHER_CONTEXT, "PD");
	err = vb_check_object(ctx, &ctx->pds, pd->handle, pd, "PD");
	for (int i = 0; i < 2 && !err; i++) {
		if (!cqs[i])
			return vb_fail(VB_RULE_CREATE_QP_CQ, "send_cq=%p recv_cq=%p",
				       (void *)cqs[0], (void *)cqs[1]);
		if (cqs[i]->context != &ctx->vctx.context)
			return vb_fail(VB_RULE_OTHER_CONTEXT, "CQ");
		err = vb_check_object(ctx, &ctx->cqs, cqs[i]->handle, cqs[i], "CQ");
	}
	if (err || !attr->srq)
		return err;
	if (attr->srq->context != &ctx->vctx.context)
		return vb_fail(VB_RULE_OTHER_CONTEXT, "SRQ");
	return vb_check_object(ctx, &ctx->srqs, attr->srq->handle, attr->srq, "SRQ");
}

/* Programs rely on it without asking: what a list of elements takes, inline data may take too
 * (as rxe has it, and adapters by the way they are made). */
static uint32_t inline_room(const struct vb_device *device, const struct ibv_qp_cap *cap)
{
	uint32_t list = cap->max_send_sge * (uint32_t)sizeof(struct ibv_sge);

	if (list > device->max_inline_data)
		list = device->max_inline_data;
	return list > cap->max_inline_data ? list : cap->max_inline_data;
}

static void init_public(struct vb_qp *qp, struct vb_context *ctx, struct ibv_pd *pd,
			const struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *ibv = &qp->ibv;

	ibv->context = &ctx->vctx.context;
	ibv->qp_context = attr->qp_context;
	ibv->pd = pd;
	ibv->send_cq = attr->send_cq;
	ibv->recv_cq = attr->recv_cq;
	ibv->srq = attr->srq;
	ibv->state = IBV_QPS_RESET;
	ibv->qp_type = attr->qp_type;
	pthread_mutex_init(&ibv->mutex, NULL);
	pthread_cond_init(&ibv->cond, NULL);
	pthread_mutex_init(&qp->lock, NULL);
	qp->cap = attr->cap;
	qp->cap.max_inline_data = inline_room(ctx->device, &attr->cap);
	if (attr->srq) {
		qp->srq = vb_srq_of(attr->srq);
		qp->cap.max_recv_wr = 0;
		qp->cap.max_recv_sge = 0;
	}
	qp->sq_sig_all = attr->sq_sig_all != 0;
}

static void fini_public(struct vb_qp *qp)
{
	pthread_mutex_destroy(&qp->ibv.mutex);
	pthread_cond_destroy(&qp->ibv.cond);
	pthread_mutex_destroy(&qp->lock);
	free(qp);
}

/* How many completions may come at a time: more than the CQ has entries is allowed, and
 * the usual cause of an overrun later. */
static void count_demand(struct vb_qp *qp, bool more)
{
	struct vb_cq *cqs[] = {vb_cq_of(qp->ibv.send_cq), vb_cq_of(qp->ibv.recv_cq)};
	uint32_t demand[] = {qp->cap.max_send_wr, qp->cap.max_recv_wr};

	for (int i = 0; i < 2; i++) {
		if (!more) {
			atomic_fetch_sub(&cqs[i]->demand, demand[i]);
			continue;
		}
		atomic_fetch_add(&cqs[i]->demand, demand[i]);
		if (atomic_load(&cqs[i]->demand) > (uint64_t)cqs[i]->ibv.cqe)
			vb_explain(VB_RULE_CQ_SMALL,
				   "cq#%u has %d entries; the queues of its QPs add up to %llu",
				   cqs[i]->ibv.handle, cqs[i]->ibv.cqe,
				   (unsigned long long)atomic_load(&cqs[i]->demand));
	}
}

static void count_parents(struct vb_qp *qp, int by)
{
	count_demand(qp, by > 0);
	vb_pd_hold(vb_qp_pd(qp), by);
	atomic_fetch_add(&vb_cq_of(qp->ibv.send_cq)->users, (uint32_t)by);
	atomic_fetch_add(&vb_cq_of(qp->ibv.recv_cq)->users, (uint32_t)by);
	if (qp->srq)
		atomic_fetch_add(&qp->srq->users, (uint32_t)by);
}

static struct vb_qp *create(struct vb_context *ctx, struct ibv_pd *pd,
			    struct ibv_qp_init_attr *attr)
{
	const struct vb_device *dev = ctx->device;
	struct vb_qp *qp;

	if (check_parents(ctx, pd, attr) ||
	    vb_qp_check_init(attr, &dev->attr.orig_attr, dev->max_inline_data))
		return NULL;
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return vb_fail_null(VB_RULE_NO_MEMORY, "QP");
	init_public(qp, ctx, pd, attr);
	if (vb_engine_qp_create(ctx->engine, qp)) {
		fini_public(qp);
		return vb_fail_null(VB_RULE_NO_MEMORY, "QP: number, queues or rings");
	}
	if (vb_idtable_add(&ctx->qps, qp, &qp->handle)) {
		vb_engine_qp_destroy(ctx->engine, qp);
		fini_public(qp);
		return vb_fail_null(VB_RULE_QP_LIMIT, "max_qp=%d", dev->attr.orig_attr.max_qp);
	}
	qp->ibv.handle = qp->handle;
	count_parents(qp, 1);
	attr->cap = qp->cap;
	return qp;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct vb_qp *qp = create(vb_context_of(pd->context), pd, attr);

	return qp ? &qp->ibv : NULL;
}

/* Operations that ibv_create_qp_ex may ask for, by type. */
static uint64_t send_ops(enum ibv_qp_type type)
{
	const uint64_t ud = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
	const uint64_t uc = ud | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
	const uint64_t rc = uc | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
			    IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;

	return type == IBV_QPT_UD ? ud : type == IBV_QPT_UC ? uc : rc;
}

/* Flags that it may ask for. */
static uint32_t create_flags(enum ibv_qp_type type)
{
	return type == IBV_QPT_UD ? IBV_QP_CREATE_BLOCK_SELF_MCAST_LB : 0;
}

static int check_ex(const struct ibv_qp_init_attr_ex *attr)
{
	const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS |
			       IBV_QP_INIT_ATTR_CREATE_FLAGS;

	if (attr->comp_mask & ~known)
		return vb_fail(VB_RULE_NOT_SUPPORTED, "ibv_create_qp_ex comp_mask=0x%x",
			       attr->comp_mask);
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD))
		return vb_fail(VB_RULE_CREATE_QP_PD, "comp_mask=0x%x", attr->comp_mask);
	if (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS &&
	    attr->create_flags & ~create_flags(attr->qp_type))
		return vb_fail(VB_RULE_NOT_SUPPORTED, "ibv_create_qp_ex create_flags=0x%x",
			       attr->create_flags);
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS &&
	    attr->send_ops_flags & ~send_ops(attr->qp_type))
		return vb_fail(VB_RULE_CREATE_QP_OPS, "send_ops_flags=0x%llx, offered 0x%llx",
			       (unsigned long long)attr->send_ops_flags,
			       (unsigned long long)send_ops(attr->qp_type));
	return 0;
}

struct ibv_qp *vb_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	struct vb_qp *qp;

	if (check_ex(attr))
		return NULL;
	/* The extended struct begins with the plain one. */
	qp = create(vb_context_of(context), attr->pd, (struct ibv_qp_init_attr *)(void *)attr);
	if (!qp)
		return NULL;
	/* Nobody knows of the QP yet. */
	qp->block_self = attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS &&
			 attr->create_flags & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) {
		qp->is_ex = true;
		qp->send_ops = attr->send_ops_flags;
		vb_wr_ops_fill(qp);
	}
	return &qp->ibv;
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *ibv)
{
	return vb_qp_of(ibv)->is_ex ? &vb_qp_of(ibv)->ibv_ex : NULL;
}

/* Find our own GID, and where the destination is. */
static int resolve_path(struct vb_context *ctx, const struct vb_qp *qp,
			const struct ibv_qp_attr *attr, union ibv_gid *own, enum vb_reach *reach)
{
	const struct ibv_global_route *grh = &attr->ah_attr.grh;
	struct vb_gid_entry entry;

	if (vb_device_gid(ctx->device, attr->ah_attr.port_num, grh->sgid_index, &entry) ||
	    !entry.used)
		return vb_fail(VB_RULE_MODIFY_QP_SGID, "qp#0x%x: sgid_index=%u of %u",
			       qp->ibv.qp_num, grh->sgid_index, ctx->device->gid_tbl_len);
	memcpy(own->raw, entry.raw, sizeof(own->raw));
	*reach = vb_reach(ctx->device, grh->dgid.raw, entry.type);
	if (*reach == VB_REACH_NONE)
		vb_explain(VB_RULE_MODIFY_QP_UNREACHABLE,
			   "qp#0x%x %s: dgid is no entry of this port's GID table", qp->ibv.qp_num,
			   vb_qp_type_name(qp->ibv.qp_type));
	return 0;
}

static int modify(struct vb_context *ctx, struct vb_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	const struct ibv_device_attr *limits = &ctx->device->attr.orig_attr;
	struct vb_port_facts port = {.attr.active_mtu = IBV_MTU_4096};
	union ibv_gid own = qp->own_gid;
	enum vb_reach reach = qp->reach;
	bool to_rtr = mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RTR;
	int err;

	if (mask & IBV_QP_PATH_MTU || to_rtr)
		vb_device_port(ctx->device, VB_PORT, &port);
	err = vb_qp_check_modify(qp, attr, mask, limits, port.attr.active_mtu);
	if (!err && mask & IBV_QP_AV)
		err = resolve_path(ctx, qp, attr, &own, &reach);
	if (err)
		return err;
	/* A datagram is limited by the port, not by a path. */
	if (to_rtr && qp->ibv.qp_type == IBV_QPT_UD)
		qp->attr.path_mtu = port.attr.active_mtu;
	if (mask & IBV_QP_DEST_QPN)
		reach = vb_reach_process(ctx, reach, attr->dest_qp_num);
	if (vb_engine_qp_modify(ctx->engine, qp, attr, mask, &own, reach))
		return vb_fail(VB_RULE_NO_MEMORY, "qp#0x%x", qp->ibv.qp_num);
	return 0;
}

int ibv_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
	struct vb_context *ctx = vb_context_of(ibv->context);
	struct vb_qp *qp = vb_qp_of(ibv);
	int err = vb_check_object(ctx, &ctx->qps, ibv->handle, qp, "QP");

	if (err)
		return err;
	pthread_mutex_lock(&qp->lock);
	err = modify(ctx, qp, attr, mask);
	if (!err && mask & IBV_QP_STATE)
		ibv->state = attr->qp_state;
	pthread_mutex_unlock(&qp->lock);
	return err;
}

int ibv_query_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask,
		 struct ibv_qp_init_attr *init)
{
	struct vb_context *ctx = vb_context_of(ibv->context);
	struct vb_qp *qp = vb_qp_of(ibv);
	int err = vb_check_object(ctx, &ctx->qps, ibv->handle, qp, "QP");
	int64_t psn;
	bool begun;

	if (err)
		return err;
	/* A peer's message may have failed the QP a moment ago. */
	begun = vb_requester_settle(ctx->engine, qp);
	pthread_mutex_lock(&qp->lock);
	*attr = qp->attr;
	attr->qp_state = attr->cur_qp_state = (enum ibv_qp_state)atomic_load(&qp->state);
	attr->cap = qp->cap;
	attr->sq_draining = attr->qp_state == IBV_QPS_SQD && begun;
	if (attr->qp_state >= IBV_QPS_RTS)
		attr->sq_psn = qp->sq.psn.v;
	psn = vb_psnw_get(&qp->mbx->psn, qp->epoch);
	if (attr->qp_state >= IBV_QPS_RTR && psn >= 0)
		attr->rq_psn = (uint32_t)psn;
	pthread_mutex_unlock(&qp->lock);
	*init = (struct ibv_qp_init_attr){.qp_context = ibv->qp_context,
					  .send_cq = ibv->send_cq,
					  .recv_cq = ibv->recv_cq,
					  .srq = ibv->srq,
					  .cap = qp->cap,
					  .qp_type = ibv->qp_type,
					  .sq_sig_all = qp->sq_sig_all};
	ibv->state = attr->qp_state;
	return 0;
}

static void wait_for_acks(struct vb_qp *qp)
{
	struct ibv_qp *ibv = &qp->ibv;

	pthread_mutex_lock(&ibv->mutex);
	while (ibv->events_completed != atomic_load(&qp->events_handed)) {
		vb_explain(VB_RULE_DESTROY_WAITS, "qp#0x%x: %u asynchronous events got, %u acked",
			   ibv->qp_num, atomic_load(&qp->events_handed), ibv->events_completed);
		pthread_cond_wait(&ibv->cond, &ibv->mutex);
	}
	pthread_mutex_unlock(&ibv->mutex);
}

int ibv_destroy_qp(struct ibv_qp *ibv)
{
	struct vb_context *ctx = vb_context_of(ibv->context);
	struct vb_qp *qp = vb_qp_of(ibv);
	int err = vb_check_known(ctx, &ctx->qps, ibv->handle, qp, "QP");
	uint32_t groups;

	if (err)
		return err;
	groups = vb_mcast_attached(ctx->engine, qp);
	if (groups)
		return vb_fail(VB_RULE_BUSY,
			       "ibv_destroy_qp qp#0x%x: attached to %u multicast groups",
			       ibv->qp_num, groups);
	if (vb_idtable_remove(&ctx->qps, ibv->handle) != qp)
		return vb_fail(VB_RULE_BAD_HANDLE, "QP handle %u", ibv->handle);
	vb_engine_qp_destroy(ctx->engine, qp);
	vb_async_purge(ctx, VB_ASYNC_QP, qp->handle);
	wait_for_acks(qp);
	count_parents(qp, -1);
	fini_public(qp);
	return 0;
}

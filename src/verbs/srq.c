/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>

#include "engine/objects.h"
#include "engine/receive.h"
#include "host/async.h"
#include "object/device.h"
#include "verbs/check.h"
#include "verbs/qp.h"

static int check(struct vb_context *ctx, struct ibv_pd *pd, const struct ibv_srq_attr *attr)
{
	const struct ibv_device_attr *limits = &ctx->device->attr.orig_attr;
	int err = vb_check_object(ctx, &ctx->pds, pd->handle, pd, "PD");

	if (err)
		return err;
	if (!attr->max_wr || attr->max_wr > (uint32_t)limits->max_srq_wr ||
	    attr->max_sge > (uint32_t)limits->max_srq_sge)
		return vb_fail(VB_RULE_CREATE_SRQ_SIZE, "max_wr=%u of 1..%d, max_sge=%u of 0..%d",
			       attr->max_wr, limits->max_srq_wr, attr->max_sge,
			       limits->max_srq_sge);
	return 0;
}

static struct vb_srq *new_srq(struct ibv_pd *pd, const struct ibv_srq_init_attr *init)
{
	struct vb_srq *srq = calloc(1, sizeof(*srq));

	if (!srq)
		return NULL;
	srq->ibv.context = pd->context;
	srq->ibv.srq_context = init->srq_context;
	srq->ibv.pd = pd;
	pthread_mutex_init(&srq->ibv.mutex, NULL);
	pthread_cond_init(&srq->ibv.cond, NULL);
	return srq;
}

static void free_srq(struct vb_srq *srq)
{
	pthread_mutex_destroy(&srq->ibv.mutex);
	pthread_cond_destroy(&srq->ibv.cond);
	free(srq);
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
	struct vb_context *ctx = vb_context_of(pd->context);
	struct vb_srq *srq;

	if (check(ctx, pd, &init->attr))
		return NULL;
	srq = new_srq(pd, init);
	if (!srq)
		return vb_fail_null(VB_RULE_NO_MEMORY, "SRQ");
	if (vb_engine_srq_create(ctx->engine, srq, init->attr.max_wr, init->attr.max_sge)) {
		free_srq(srq);
		return vb_fail_null(VB_RULE_NO_MEMORY, "SRQ: queue or rings");
	}
	if (vb_idtable_add(&ctx->srqs, srq, &srq->handle)) {
		vb_engine_srq_destroy(ctx->engine, srq);
		free_srq(srq);
		return vb_fail_null(VB_RULE_SRQ_LIMIT, "max_srq=%d",
				    ctx->device->attr.orig_attr.max_srq);
	}
	srq->ibv.handle = srq->handle;
	vb_pd_hold(vb_pd_of(pd), 1);
	init->attr.max_wr = srq->rq.max_wr;
	init->attr.max_sge = srq->rq.max_sge;
	return &srq->ibv;
}

struct ibv_srq *vb_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	const uint32_t known = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;

	if (attr->comp_mask & ~known ||
	    (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE && attr->srq_type != IBV_SRQT_BASIC))
		return vb_fail_null(VB_RULE_CREATE_SRQ_TYPE, "comp_mask=0x%x srq_type=%d",
				    attr->comp_mask, (int)attr->srq_type);
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || attr->pd->context != context)
		return vb_fail_null(VB_RULE_CREATE_QP_PD, "comp_mask=0x%x", attr->comp_mask);
	/* The extended struct begins with the plain one. */
	return ibv_create_srq(attr->pd, (struct ibv_srq_init_attr *)(void *)attr);
}

int vb_get_srq_num(struct ibv_srq *srq, uint32_t *num)
{
	return vb_fail(VB_RULE_SRQ_NUMBER, "srq#%u is a basic one", srq->handle);
}

/* Everything is checked before anything is changed. */
static int check_modify(struct vb_context *ctx, const struct vb_srq *srq,
			const struct ibv_srq_attr *attr, int mask)
{
	uint32_t limit = (uint32_t)ctx->device->attr.orig_attr.max_srq_wr;
	uint32_t max_wr = mask & IBV_SRQ_MAX_WR ? attr->max_wr : srq->rq.max_wr;

	if (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
		return vb_fail(VB_RULE_MODIFY_SRQ_MASK, "mask=0x%x", mask);
	if (!max_wr || max_wr > limit)
		return vb_fail(VB_RULE_MODIFY_SRQ_SIZE, "srq#%u: max_wr=%u of 1..%u", srq->handle,
			       max_wr, limit);
	if (mask & IBV_SRQ_LIMIT && attr->srq_limit > max_wr)
		return vb_fail(VB_RULE_MODIFY_SRQ_LIMIT, "srq_limit=%u max_wr=%u", attr->srq_limit,
			       max_wr);
	return 0;
}

static int resize(struct vb_srq *srq, uint32_t max_wr)
{
	int err = vb_rq_resize(&srq->rq, max_wr);

	if (err == -EINVAL)
		return vb_fail(VB_RULE_MODIFY_SRQ_SIZE, "srq#%u: max_wr=%u, %u are outstanding",
			       srq->handle, max_wr, atomic_load(&srq->rq.outstanding));
	if (err)
		return vb_fail(VB_RULE_NOT_SUPPORTED,
			       "ibv_modify_srq IBV_SRQ_MAX_WR=%u: more slots than it has", max_wr);
	return 0;
}

int ibv_modify_srq(struct ibv_srq *ibv, struct ibv_srq_attr *attr, int mask)
{
	struct vb_context *ctx = vb_context_of(ibv->context);
	struct vb_srq *srq = vb_srq_of(ibv);
	int err = vb_check_object(ctx, &ctx->srqs, ibv->handle, srq, "SRQ");

	if (!err)
		err = check_modify(ctx, srq, attr, mask);
	if (!err && mask & IBV_SRQ_MAX_WR)
		err = resize(srq, attr->max_wr);
	if (err)
		return err;
	if (mask & IBV_SRQ_LIMIT)
		vb_engine_srq_arm(srq, attr->srq_limit);
	return 0;
}

int ibv_query_srq(struct ibv_srq *ibv, struct ibv_srq_attr *attr)
{
	struct vb_context *ctx = vb_context_of(ibv->context);
	struct vb_srq *srq = vb_srq_of(ibv);
	int err = vb_check_object(ctx, &ctx->srqs, ibv->handle, srq, "SRQ");

	if (err)
		return err;
	attr->max_wr = srq->rq.max_wr;
	attr->max_sge = srq->rq.max_sge;
	attr->srq_limit = atomic_load(&srq->limit);
	return 0;
}

static void wait_for_acks(struct vb_srq *srq)
{
	struct ibv_srq *ibv = &srq->ibv;

	pthread_mutex_lock(&ibv->mutex);
	while (ibv->events_completed != atomic_load(&srq->events_handed)) {
		vb_explain(VB_RULE_DESTROY_WAITS, "srq#%u: %u asynchronous events got, %u acked",
			   srq->handle, atomic_load(&srq->events_handed), ibv->events_completed);
		pthread_cond_wait(&ibv->cond, &ibv->mutex);
	}
	pthread_mutex_unlock(&ibv->mutex);
}

int ibv_destroy_srq(struct ibv_srq *ibv)
{
	struct vb_context *ctx = vb_context_of(ibv->context);
	struct vb_srq *srq = vb_srq_of(ibv);
	int err = vb_check_known(ctx, &ctx->srqs, ibv->handle, srq, "SRQ");

	if (err)
		return err;
	if (atomic_load(&srq->users))
		return vb_fail(VB_RULE_BUSY, "ibv_destroy_srq srq#%u: %u QPs receive from it",
			       srq->handle, atomic_load(&srq->users));
	if (vb_idtable_remove(&ctx->srqs, ibv->handle) != srq)
		return vb_fail(VB_RULE_BAD_HANDLE, "SRQ handle %u", ibv->handle);
	vb_async_purge(ctx, VB_ASYNC_SRQ, srq->handle);
	wait_for_acks(srq);
	vb_engine_srq_destroy(ctx->engine, srq);
	vb_pd_hold(vb_pd_of(ibv->pd), -1);
	free_srq(srq);
	return 0;
}

static int post_one(struct vb_srq *srq, const struct ibv_recv_wr *wr)
{
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > srq->rq.max_sge)
		return vb_fail(VB_RULE_POST_SRQ_SGE, "srq#%u: num_sge %d, max_sge %u", srq->handle,
			       wr->num_sge, srq->rq.max_sge);
	vb_receive_limit(srq);
	if (vb_receive_post(&srq->rq, wr))
		return vb_fail(VB_RULE_POST_SRQ_FULL, "srq#%u: max_wr %u", srq->handle,
			       srq->rq.max_wr);
	return 0;
}

int vb_post_srq_recv(struct ibv_srq *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct vb_srq *srq = vb_srq_of(ibv);
	int err = vb_check_usable(vb_context_of(ibv->context), "ibv_post_srq_recv");

	for (; wr && !err; wr = wr->next) {
		err = post_one(srq, wr);
		if (err)
			break;
	}
	if (err)
		*bad_wr = wr;
	return err;
}

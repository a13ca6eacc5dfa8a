/* SPDX-License-Identifier: BSD-2-Clause */
#include <fcntl.h>
#include <stdlib.h>

#include "engine/objects.h"
#include "host/async.h"
#include "object/device.h"
#include "object/pd.h"
#include "verbs/channel.h"
#include "verbs/check.h"
#include "verbs/cq.h"
#include "verbs/poll.h"

/* What ibv_wc_read_* can give. */
#define WC_FLAGS                                                                                   \
	(IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |                             \
	 IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)

static int check_domain(struct vb_context *ctx, const struct ibv_cq_init_attr_ex *attr)
{
	struct vb_pd *pd = attr->parent_domain ? vb_pd_of(attr->parent_domain) : NULL;
	int err;

	if (!pd)
		return vb_fail(VB_RULE_CREATE_CQ_DOMAIN, "parent_domain=NULL");
	err = vb_check_object(ctx, &ctx->pds, pd->ibv.handle, pd, "PD");
	if (err)
		return err;
	return pd->base ? 0
			: vb_fail(VB_RULE_CREATE_CQ_DOMAIN, "pd#%u is no parent domain",
				  pd->ibv.handle);
}

static int check(struct vb_context *ctx, const struct ibv_cq_init_attr_ex *attr)
{
	const uint32_t known = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
	uint32_t max = (uint32_t)ctx->device->attr.orig_attr.max_cqe;
	int err = vb_check_usable(ctx, "ibv_create_cq");

	if (err)
		return err;
	if (attr->wc_flags & ~(uint64_t)WC_FLAGS)
		return vb_fail(VB_RULE_CREATE_CQ_FLAGS, "wc_flags=0x%llx, offered 0x%llx",
			       (unsigned long long)attr->wc_flags, (unsigned long long)WC_FLAGS);
	if (attr->comp_mask & ~known)
		return vb_fail(VB_RULE_NOT_SUPPORTED, "ibv_create_cq_ex comp_mask=0x%x",
			       attr->comp_mask);
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS &&
	    attr->flags & ~(uint32_t)(IBV_CREATE_CQ_ATTR_SINGLE_THREADED |
				      IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN))
		return vb_fail(VB_RULE_NOT_SUPPORTED, "ibv_create_cq_ex flags=0x%x", attr->flags);
	if (attr->cqe < 1 || attr->cqe > max)
		return vb_fail(VB_RULE_CREATE_CQ_CQE, "cqe=%d, max_cqe=%u", (int)attr->cqe, max);
	if (attr->comp_vector >= ctx->device->num_comp_vectors)
		return vb_fail(VB_RULE_CREATE_CQ_VECTOR, "comp_vector=%d, num_comp_vectors=%u",
			       (int)attr->comp_vector, ctx->device->num_comp_vectors);
	if (attr->channel && attr->channel->context != &ctx->vctx.context)
		return vb_fail(VB_RULE_OTHER_CONTEXT, "completion channel");
	return attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD ? check_domain(ctx, attr) : 0;
}

static void init_public(struct vb_cq *cq, struct vb_context *ctx,
			const struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_cq *ibv = &cq->ibv;

	ibv->context = &ctx->vctx.context;
	ibv->channel = attr->channel;
	ibv->cq_context = attr->cq_context;
	ibv->cqe = (int)attr->cqe;
	pthread_mutex_init(&ibv->mutex, NULL);
	pthread_cond_init(&ibv->cond, NULL);
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD)
		cq->domain = vb_pd_of(attr->parent_domain);
	cq->wc_flags = (uint32_t)attr->wc_flags;
	cq->timestamps = attr->wc_flags & (IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
					   IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK);
	cq->ignore_overrun = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS &&
			     attr->flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
}

/* A channel's pipe must hold a record of each of its CQs. */
static bool channel_has_room(struct ibv_comp_channel *channel)
{
	int fd, size;

	if (!channel || channel->refcnt < 2048)
		return true;
	fd = vb_channel_of(channel)->write_fd;
	size = fcntl(fd, F_GETPIPE_SZ);
	/* Two records a CQ: one may be there twice. */
	if (size >= (channel->refcnt + 1) * 16)
		return true;
	return fcntl(fd, F_SETPIPE_SZ, size * 4) > size;
}

static void count_on_channel(struct ibv_comp_channel *channel, int by)
{
	if (!channel)
		return;
	pthread_mutex_lock(&channel->context->mutex);
	channel->refcnt += by;
	pthread_mutex_unlock(&channel->context->mutex);
}

static struct vb_cq *create(struct vb_context *ctx, const struct ibv_cq_init_attr_ex *attr)
{
	struct vb_cq *cq;
	int fd = attr->channel ? vb_channel_of(attr->channel)->write_fd : -1;

	if (check(ctx, attr))
		return NULL;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return vb_fail_null(VB_RULE_NO_MEMORY, "CQ");
	if (!channel_has_room(attr->channel)) {
		free(cq);
		return vb_fail_null(VB_RULE_CREATE_CQ_LIMIT, "the channel's pipe cannot grow");
	}
	init_public(cq, ctx, attr);
	if (vb_idtable_add(&ctx->cqs, cq, &cq->ibv.handle)) {
		free(cq);
		return vb_fail_null(VB_RULE_CREATE_CQ_LIMIT, "max_cq=%d",
				    ctx->device->attr.orig_attr.max_cq);
	}
	if (vb_engine_cq_create(ctx->engine, cq, fd)) {
		vb_idtable_remove(&ctx->cqs, cq->ibv.handle);
		free(cq);
		return vb_fail_null(VB_RULE_CREATE_CQ_LIMIT, "no number or no memory is left");
	}
	count_on_channel(attr->channel, 1);
	vb_pd_hold(cq->domain, 1);
	return cq;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int comp_vector)
{
	/* A negative number becomes one beyond every limit. */
	struct ibv_cq_init_attr_ex attr = {.cqe = (uint32_t)cqe,
					   .cq_context = cq_context,
					   .channel = channel,
					   .comp_vector = (uint32_t)comp_vector,
					   .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct vb_cq *cq = create(vb_context_of(context), &attr);

	return cq ? &cq->ibv : NULL;
}

struct ibv_cq_ex *vb_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	struct vb_cq *cq = create(vb_context_of(context), attr);

	if (!cq)
		return NULL;
	vb_poll_ex_fill(cq);
	return &cq->ibv_ex;
}

int ibv_resize_cq(struct ibv_cq *ibv, int cqe)
{
	struct vb_context *ctx = vb_context_of(ibv->context);
	int max = ctx->device->attr.orig_attr.max_cqe;
	int err = vb_check_object(ctx, &ctx->cqs, ibv->handle, ibv, "CQ");

	if (err)
		return err;
	if (cqe < 1 || cqe > max || !vb_engine_cq_resize(vb_cq_of(ibv), cqe))
		return vb_fail(VB_RULE_RESIZE_CQ_SMALL, "cq#%u: cqe=%d, max_cqe=%d", ibv->handle,
			       cqe, max);
	return 0;
}

int vb_req_notify_cq(struct ibv_cq *ibv, int solicited_only)
{
	struct vb_context *ctx = vb_context_of(ibv->context);
	struct vb_cq *cq = vb_cq_of(ibv);
	int err = vb_check_known(ctx, &ctx->cqs, ibv->handle, cq, "CQ");

	if (err)
		return err;
	if (!ibv->channel)
		return 0;
	vb_channel_arm(vb_channel_of(ibv->channel));
	vb_engine_cq_arm(ctx->engine, cq, solicited_only != 0);
	return 0;
}

/* Wait until the program has acknowledged every event it was handed. */
static void wait_for_acks(struct vb_cq *cq)
{
	struct ibv_cq *ibv = &cq->ibv;

	pthread_mutex_lock(&ibv->mutex);
	while (ibv->comp_events_completed != atomic_load(&cq->handed) ||
	       ibv->async_events_completed != atomic_load(&cq->async_handed)) {
		vb_explain(VB_RULE_DESTROY_WAITS,
			   "cq#%u: %u completion events got, %u acked; %u asynchronous, %u acked",
			   ibv->handle, atomic_load(&cq->handed), ibv->comp_events_completed,
			   atomic_load(&cq->async_handed), ibv->async_events_completed);
		pthread_cond_wait(&ibv->cond, &ibv->mutex);
	}
	pthread_mutex_unlock(&ibv->mutex);
}

int ibv_destroy_cq(struct ibv_cq *ibv)
{
	struct vb_context *ctx = vb_context_of(ibv->context);
	struct vb_cq *cq = vb_cq_of(ibv);
	int err = vb_check_known(ctx, &ctx->cqs, ibv->handle, cq, "CQ");

	if (err)
		return err;
	if (atomic_load(&cq->users))
		return vb_fail(VB_RULE_BUSY, "ibv_destroy_cq cq#%u: %u QPs complete here",
			       ibv->handle, atomic_load(&cq->users));
	vb_idtable_remove(&ctx->cqs, ibv->handle);
	vb_engine_cq_destroy(ctx->engine, cq);
	if (ibv->channel)
		vb_channel_purge(vb_channel_of(ibv->channel), cq->index);
	vb_async_purge(ctx, VB_ASYNC_CQ, ibv->handle);
	wait_for_acks(cq);
	count_on_channel(ibv->channel, -1);
	vb_pd_hold(cq->domain, -1);
	pthread_mutex_destroy(&ibv->mutex);
	pthread_cond_destroy(&ibv->cond);
	free(cq);
	return 0;
}

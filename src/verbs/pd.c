/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>

#include "engine/engine.h"
#include "object/ah.h"
#include "object/cq.h"
#include "object/device.h"
#include "object/mr.h"
#include "object/pd.h"
#include "object/qp.h"
#include "object/srq.h"
#include "verbs/check.h"
#include "verbs/import.h"

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct vb_context *ctx = vb_context_of(context);
	struct vb_pd *pd;
	uint32_t index;

	if (vb_check_usable(ctx, "ibv_alloc_pd"))
		return NULL;
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return vb_fail_null(VB_RULE_NO_MEMORY, "PD");
	pd->ibv.context = context;
	if (vb_adapter_new_index(ctx->adapter, VB_NUMBER_PD, &index, &pd->number)) {
		free(pd);
		return vb_fail_null(VB_RULE_PD_LIMIT, "no number is free");
	}
	pd->index = index;
	if (vb_idtable_add(&ctx->pds, pd, &pd->ibv.handle)) {
		vb_adapter_free_index(ctx->adapter, VB_NUMBER_PD, index);
		free(pd);
		return vb_fail_null(VB_RULE_PD_LIMIT, "max_pd=%d",
				    ctx->device->attr.orig_attr.max_pd);
	}
	return &pd->ibv;
}

/* The live objects behind a busy PD, as many as fit. */
struct census {
	const struct vb_pd *pd;
	char text[256];
	size_t length;
};

static void note(struct census *census, const char *kind, uint32_t number)
{
	if (census->length < sizeof(census->text))
		census->length += (size_t)snprintf(census->text + census->length,
						   sizeof(census->text) - census->length,
						   " %s#0x%x", kind, number);
}

static int note_mr(void *object, void *arg)
{
	struct vb_mr *mr = object;
	struct census *census = arg;

	if (mr->pd == census->pd)
		note(census, "mr", mr->ibv.lkey);
	return 0;
}

static int note_qp(void *object, void *arg)
{
	struct vb_qp *qp = object;
	struct census *census = arg;

	if (vb_qp_pd(qp) == census->pd)
		note(census, "qp", qp->ibv.qp_num);
	return 0;
}

static int note_ah(void *object, void *arg)
{
	struct vb_ah *ah = object;
	struct census *census = arg;

	if (vb_pd_of(ah->ibv.pd) == census->pd)
		note(census, "ah", ah->ibv.handle);
	return 0;
}

static int note_srq(void *object, void *arg)
{
	struct vb_srq *srq = object;
	struct census *census = arg;

	if (vb_pd_of(srq->ibv.pd) == census->pd)
		note(census, "srq", srq->handle);
	return 0;
}

static int note_cq(void *object, void *arg)
{
	struct vb_cq *cq = object;
	struct census *census = arg;

	if (cq->domain == census->pd)
		note(census, "cq", cq->ibv.handle);
	return 0;
}

/* Parent domains of it. */
static int note_pd(void *object, void *arg)
{
	struct vb_pd *pd = object;
	struct census *census = arg;

	if (pd->base == census->pd)
		note(census, "parent-domain", pd->ibv.handle);
	return 0;
}

static int busy(struct vb_context *ctx, const struct vb_pd *pd)
{
	struct census census = {.pd = pd};

	if (vb_explain_on()) {
		vb_idtable_each(&ctx->mrs, note_mr, &census);
		vb_idtable_each(&ctx->qps, note_qp, &census);
		vb_idtable_each(&ctx->ahs, note_ah, &census);
		vb_idtable_each(&ctx->srqs, note_srq, &census);
		vb_idtable_each(&ctx->cqs, note_cq, &census);
		vb_idtable_each(&ctx->pds, note_pd, &census);
	}
	return vb_fail(VB_RULE_BUSY, "ibv_dealloc_pd pd#%u: %u live objects:%s", pd->ibv.handle,
		       atomic_load(&pd->users), census.text);
}

int ibv_dealloc_pd(struct ibv_pd *ibv)
{
	struct vb_context *ctx = vb_context_of(ibv->context), *owner;
	struct vb_pd *pd = vb_pd_of(ibv), *domain;
	int err = vb_check_known(ctx, &ctx->pds, ibv->handle, pd, "PD");

	if (err)
		return err;
	domain = pd->original ? pd->original : pd;
	owner = vb_context_of(domain->ibv.context);
	if (atomic_load(&domain->users))
		return busy(owner, domain);
	vb_idtable_remove(&owner->pds, ibv->handle);
	if (!domain->base)
		vb_adapter_free_index(ctx->adapter, VB_NUMBER_PD, domain->index);
	vb_pd_hold(domain->base, -1);
	if (domain->td)
		atomic_fetch_sub(&domain->td->users, 1);
	vb_import_end(ctx, pd, domain);
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/objects.h"
#include "verbs/check.h"
#include "verbs/mr.h"

/*
 * There is no device to prepare: prefetching is to have the pages present, so that the
 * message that uses them takes no page fault. It is done before the call returns, with
 * or without FLUSH; without FLUSH memory that is not there is no failure, as it is
 * found out too late to say so on an adapter.
 */

static int refuse(enum vb_advise what, const struct ibv_sge *sge, uint32_t i)
{
#define DETAILS                                                                                    \
	"sge %u: lkey=0x%x addr=0x%llx length=%u", i, sge->lkey, (unsigned long long)sge->addr,    \
		sge->length
	switch (what) {
	case VB_ADVISE_OK:
		return 0;
	case VB_ADVISE_KEY:
		return vb_fail(VB_RULE_ADVISE_MR_KEY, DETAILS);
	case VB_ADVISE_TAG:
		return vb_fail(VB_RULE_ADVISE_MR_TAG, DETAILS);
	case VB_ADVISE_PD:
		return vb_fail(VB_RULE_ADVISE_MR_PD, DETAILS);
	case VB_ADVISE_NOT_ON_DEMAND:
		return vb_fail(VB_RULE_ADVISE_MR_NOT_ON_DEMAND, DETAILS);
	case VB_ADVISE_WRITE:
		return vb_fail(VB_RULE_ADVISE_MR_WRITE, DETAILS);
	case VB_ADVISE_NO_MEMORY:
		return vb_fail(VB_RULE_NO_MEMORY, DETAILS);
	default:
		return vb_fail(VB_RULE_ADVISE_MR_RANGE, DETAILS);
	}
#undef DETAILS
}

int vb_advise_mr(struct ibv_pd *ibv, enum ibv_advise_mr_advice advice, uint32_t flags,
		 struct ibv_sge *sg_list, uint32_t num_sge)
{
	struct vb_context *ctx = vb_context_of(ibv->context);
	struct vb_pd *pd = vb_pd_of(ibv);
	enum vb_advise what;
	int err = vb_check_object(ctx, &ctx->pds, ibv->handle, pd, "PD");

	if (err)
		return err;
	if ((unsigned int)advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return vb_fail(VB_RULE_ADVISE_MR_ADVICE, "advice=%u", (unsigned int)advice);
	if (flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH || !num_sge || !sg_list)
		return vb_fail(VB_RULE_ADVISE_MR_FLAGS, "flags=0x%x num_sge=%u", flags, num_sge);
	/* All are checked before anything is done. */
	for (uint32_t i = 0; i < num_sge; i++) {
		what = vb_engine_mr_advise(ctx->engine, pd->number, advice, &sg_list[i], false);
		if (what)
			return refuse(what, &sg_list[i], i);
	}
	for (uint32_t i = 0; i < num_sge; i++) {
		what = vb_engine_mr_advise(ctx->engine, pd->number, advice, &sg_list[i], true);
		if (what && flags & IBV_ADVISE_MR_FLAG_FLUSH)
			return refuse(what, &sg_list[i], i);
	}
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/objects.h"
#include "object/device.h"
#include "verbs/check.h"
#include "verbs/mr.h"

/*
 * Re-registration keeps the object and its handle. With a new translation it gets new
 * keys, so that an access through the old ones fails rather than reaching the new memory;
 * a change of PD or rights keeps them, as adapters do and programs expect. Where it is
 * refused nothing has changed: the man page allows less (IBV_REREG_MR_ERR_CMD: the region
 * should not be used), the kernel's checks do the same.
 */

/* Explain, and give the verb's own code; errno is the rule's. */
#define fail_as(code, ...) (vb_fail(__VA_ARGS__), (code))

static int check_input(const struct vb_mr *mr, int flags, struct ibv_pd *pd, void *addr,
		       size_t length, int access)
{
	if (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED)
		return fail_as(IBV_REREG_MR_ERR_INPUT, VB_RULE_REREG_MR_FLAGS, "flags=0x%x",
			       (unsigned int)flags);
	if (mr->kind != VB_MR_MEMORY || mr->original)
		return fail_as(IBV_REREG_MR_ERR_INPUT, VB_RULE_REREG_MR_KIND, "mr#%u lkey=0x%x",
			       mr->ibv.handle, mr->ibv.lkey);
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION && (!addr || !length))
		return fail_as(IBV_REREG_MR_ERR_INPUT, VB_RULE_REREG_MR_INPUT,
			       "CHANGE_TRANSLATION addr=%p length=%zu", addr, length);
	if (flags & IBV_REREG_MR_CHANGE_PD && !pd)
		return fail_as(IBV_REREG_MR_ERR_INPUT, VB_RULE_REREG_MR_INPUT,
			       "CHANGE_PD without a PD");
	if (access && !(flags & IBV_REREG_MR_CHANGE_ACCESS))
		return fail_as(IBV_REREG_MR_ERR_INPUT, VB_RULE_REREG_MR_INPUT,
			       "access=0x%x without CHANGE_ACCESS", (unsigned int)access);
	if (!flags)
		return fail_as(IBV_REREG_MR_ERR_CMD, VB_RULE_REREG_MR_NOTHING, "flags=0");
	return 0;
}

/* What the region will be, checked as a registration would be. */
static int check_result(struct vb_context *ctx, int flags, struct vb_mr *want)
{
	int err = vb_check_object(ctx, &ctx->pds, want->ibv.pd->handle, want->pd, "PD");

	if (!err)
		err = vb_mr_check(want->ibv.addr, want->ibv.length, want->iova, want->access,
				  ctx->device->attr.orig_attr.max_mr_size);
	if (!err && flags & (IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS))
		err = vb_mr_check_memory(want->ibv.addr, want->ibv.length, want->access);
	return err ? IBV_REREG_MR_ERR_CMD : 0;
}

int ibv_rereg_mr(struct ibv_mr *ibv, int flags, struct ibv_pd *pd, void *addr, size_t length,
		 int access)
{
	struct vb_context *ctx = vb_context_of(ibv->context);
	struct vb_mr *mr = vb_mr_of(ibv), want;
	struct vb_pd *old;
	int err;

	if (vb_check_object(ctx, &ctx->mrs, ibv->handle, mr, "MR"))
		return IBV_REREG_MR_ERR_CMD;
	err = check_input(mr, flags, pd, addr, length, access);
	if (err)
		return err;
	if (atomic_load(&mr->users))
		return fail_as(IBV_REREG_MR_ERR_CMD, VB_RULE_BUSY,
			       "ibv_rereg_mr mr#%u lkey=0x%x: %u memory windows", ibv->handle,
			       ibv->lkey, atomic_load(&mr->users));
	want = (struct vb_mr){.ibv = *ibv, .pd = mr->pd, .addr = mr->addr, .iova = mr->iova};
	want.access = mr->access;
	if (flags & IBV_REREG_MR_CHANGE_PD) {
		want.ibv.pd = pd;
		want.pd = vb_pd_of(pd);
	}
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		want.access = (unsigned int)access;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		want.ibv.addr = addr;
		want.ibv.length = length;
		want.addr = want.iova = (uintptr_t)addr;
	}
	/* What follows from the flag follows whichever of the two changed. */
	if (want.access & IBV_ACCESS_ZERO_BASED)
		want.iova = 0;
	else if (mr->access & IBV_ACCESS_ZERO_BASED)
		want.iova = want.addr;
	err = check_result(ctx, flags, &want);
	if (err)
		return err;
	want.access &= VB_MR_ACCESS;
	old = mr->pd;
	vb_pd_hold(want.pd, 1);
	vb_engine_mr_change(ctx->engine, mr, &want);
	vb_pd_hold(old, -1);
	return 0;
}

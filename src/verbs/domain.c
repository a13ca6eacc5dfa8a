/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/domain.h"

#include <stdlib.h>

#include "object/device.h"
#include "object/pd.h"
#include "verbs/check.h"

/*
 * A thread domain is a token: leaving locks out would save some nanoseconds and turn a
 * program's mistake into corruption. The allocators of a parent domain are for buffers
 * that a driver shares with its adapter. There are none here: rings lie in the segment
 * that other processes map, which no memory of the program can replace. So they are taken
 * and never called, which the man page leaves to the driver.
 */

#define ALLOCATORS		   IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS
#define PD_CONTEXT		   IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT
#define ALLOW_CC_UNPROTECTED_ALLOC (1u << 2) /* newer than the installed header */

struct ibv_td *vb_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
	struct vb_context *ctx = vb_context_of(context);
	struct vb_td *td;

	if (vb_check_usable(ctx, "ibv_alloc_td"))
		return NULL;
	if (attr->comp_mask)
		return vb_fail_null(VB_RULE_COMP_MASK, "ibv_alloc_td comp_mask=0x%x",
				    attr->comp_mask);
	td = calloc(1, sizeof(*td));
	if (!td)
		return vb_fail_null(VB_RULE_NO_MEMORY, "thread domain");
	td->ibv.context = context;
	if (vb_idtable_add(&ctx->tds, td, &td->handle)) {
		free(td);
		return vb_fail_null(VB_RULE_NO_MEMORY, "thread domain");
	}
	return &td->ibv;
}

static struct vb_td *td_of(struct ibv_td *td)
{
	return (struct vb_td *)(void *)td;
}

int vb_dealloc_td(struct ibv_td *ibv)
{
	struct vb_context *ctx = vb_context_of(ibv->context);
	struct vb_td *td = td_of(ibv);
	int err = vb_check_known(ctx, &ctx->tds, td->handle, td, "thread domain");

	if (err)
		return err;
	if (atomic_load(&td->users))
		return vb_fail(VB_RULE_BUSY, "ibv_dealloc_td td#%u: %u parent domains", td->handle,
			       atomic_load(&td->users));
	vb_idtable_remove(&ctx->tds, td->handle);
	free(td);
	return 0;
}

static int check_parent(struct vb_context *ctx, const struct ibv_parent_domain_init_attr *attr)
{
	const uint32_t known = ALLOCATORS | PD_CONTEXT | ALLOW_CC_UNPROTECTED_ALLOC;
	struct vb_pd *pd = attr->pd ? vb_pd_of(attr->pd) : NULL;
	int err = vb_check_usable(ctx, "ibv_alloc_parent_domain");

	if (err)
		return err;
	if (attr->comp_mask & ~known)
		return vb_fail(VB_RULE_COMP_MASK, "ibv_alloc_parent_domain comp_mask=0x%x",
			       attr->comp_mask);
	if (!pd)
		return vb_fail(VB_RULE_PARENT_DOMAIN_PD, "pd=NULL");
	err = vb_check_object(ctx, &ctx->pds, pd->ibv.handle, pd, "PD");
	if (err)
		return err;
	if (pd->base)
		return vb_fail(VB_RULE_PARENT_DOMAIN_PD, "pd#%u is a parent domain of pd#%u",
			       pd->ibv.handle, pd->base->ibv.handle);
	if (attr->comp_mask & ALLOCATORS && (!attr->alloc || !attr->free))
		return vb_fail(VB_RULE_PARENT_DOMAIN_CALLBACKS, "alloc %s, free %s",
			       attr->alloc ? "set" : "NULL", attr->free ? "set" : "NULL");
	if (attr->td)
		return vb_check_object(ctx, &ctx->tds, td_of(attr->td)->handle, attr->td,
				       "thread domain");
	return 0;
}

struct ibv_pd *vb_alloc_parent_domain(struct ibv_context *context,
				      struct ibv_parent_domain_init_attr *attr)
{
	struct vb_context *ctx = vb_context_of(context);
	struct vb_pd *parent;

	if (check_parent(ctx, attr))
		return NULL;
	parent = calloc(1, sizeof(*parent));
	if (!parent)
		return vb_fail_null(VB_RULE_NO_MEMORY, "parent domain");
	parent->ibv.context = context;
	parent->base = vb_pd_of(attr->pd);
	parent->number = parent->base->number;
	if (attr->td)
		parent->td = td_of(attr->td);
	if (vb_idtable_add(&ctx->pds, parent, &parent->ibv.handle)) {
		free(parent);
		return vb_fail_null(VB_RULE_PD_LIMIT, "max_pd=%d",
				    ctx->device->attr.orig_attr.max_pd);
	}
	vb_pd_hold(parent->base, 1);
	if (parent->td)
		atomic_fetch_add(&parent->td->users, 1);
	return &parent->ibv;
}

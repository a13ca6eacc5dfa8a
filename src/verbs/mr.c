/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "engine/objects.h"
#include "host/regmem.h"
#include "object/device.h"
#include "object/pd.h"
#include "verbs/check.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/* What an adapter would have needed. */
static void note_memlock(size_t length)
{
	struct rlimit limit;

	if (!vb_explain_on() || getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur >= length)
		return;
	vb_explain(VB_RULE_REG_MR_MEMLOCK, "%zu KiB registered, RLIMIT_MEMLOCK is %llu KiB",
		   length / 1024, (unsigned long long)limit.rlim_cur / 1024);
}

static struct vb_mr *new_mr(struct vb_pd *pd, void *addr, size_t length, uint64_t iova,
			    unsigned int access)
{
	struct vb_mr *mr = calloc(1, sizeof(*mr));

	if (!mr)
		return NULL;
	mr->ibv.context = pd->ibv.context;
	mr->ibv.pd = &pd->ibv;
	mr->ibv.addr = addr;
	mr->ibv.length = length;
	mr->pd = pd;
	mr->iova = iova;
	mr->access = access & VB_MR_ACCESS;
	return mr;
}

static int check(struct vb_context *ctx, struct vb_pd *pd, void *addr, size_t length, uint64_t iova,
		 unsigned int access)
{
	int err = vb_check_object(ctx, &ctx->pds, pd->ibv.handle, pd, "PD");

	if (!err)
		err = vb_mr_check(addr, length, iova, access,
				  ctx->device->attr.orig_attr.max_mr_size);
	if (err)
		return err;
	if (!(access & IBV_ACCESS_ZERO_BASED) && (iova ^ (uintptr_t)addr) & 0xfff)
		return vb_fail(VB_RULE_REG_MR_OFFSET, "addr=%p iova=0x%llx", addr,
			       (unsigned long long)iova);
	err = vb_regmem_check(addr, length, access & IBV_ACCESS_LOCAL_WRITE);
	if (err == -ENOMEM)
		return vb_fail(VB_RULE_NO_MEMORY, "addr=%p length=%zu", addr, length);
	if (err)
		return vb_fail(VB_RULE_REG_MR_MEMORY, "addr=%p length=%zu%s", addr, length,
			       access & IBV_ACCESS_LOCAL_WRITE ? ", to be written" : "");
	return 0;
}

static struct ibv_mr *reg_mr(struct ibv_pd *ibv, void *addr, size_t length, uint64_t iova,
			     unsigned int access)
{
	struct vb_context *ctx = vb_context_of(ibv->context);
	struct vb_pd *pd = vb_pd_of(ibv);
	struct vb_mr *mr;

	if (access & IBV_ACCESS_ZERO_BASED)
		iova = 0;
	if (check(ctx, pd, addr, length, iova, access))
		return NULL;
	mr = new_mr(pd, addr, length, iova, access);
	if (!mr)
		return vb_fail_null(VB_RULE_NO_MEMORY, "MR");
	if (vb_idtable_add(&ctx->mrs, mr, &mr->ibv.handle)) {
		free(mr);
		return vb_fail_null(VB_RULE_REG_MR_LIMIT, "max_mr=%d",
				    ctx->device->attr.orig_attr.max_mr);
	}
	if (vb_engine_mr_create(ctx->engine, mr)) {
		vb_idtable_remove(&ctx->mrs, mr->ibv.handle);
		free(mr);
		return vb_fail_null(VB_RULE_REG_MR_LIMIT, "no key or no memory is left");
	}
	atomic_fetch_add(&pd->users, 1);
	note_memlock(length);
	return &mr->ibv;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return reg_mr(pd, addr, length, (uintptr_t)addr, (unsigned int)access);
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			       int access)
{
	return reg_mr(pd, addr, length, iova, (unsigned int)access);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				unsigned int access)
{
	return reg_mr(pd, addr, length, iova, access);
}

int ibv_dereg_mr(struct ibv_mr *ibv)
{
	struct vb_context *ctx = vb_context_of(ibv->context);
	struct vb_mr *mr = vb_mr_of(ibv);
	int err = vb_check_object(ctx, &ctx->mrs, ibv->handle, mr, "MR");

	if (err)
		return err;
	if (vb_idtable_remove(&ctx->mrs, ibv->handle) != mr)
		return vb_fail(VB_RULE_BAD_HANDLE, "MR handle %u", ibv->handle);
	vb_engine_mr_destroy(ctx->engine, mr);
	atomic_fetch_sub(&mr->pd->users, 1);
	free(mr);
	return 0;
}

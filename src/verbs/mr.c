/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/mr.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "engine/objects.h"
#include "host/regmem.h"
#include "object/device.h"
#include "verbs/buf.h"
#include "verbs/check.h"
#include "verbs/dm.h"
#include "verbs/import.h"

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

int vb_mr_check_memory(void *addr, size_t length, unsigned int access)
{
	int err;

	if (access & IBV_ACCESS_HUGETLB && !vb_regmem_huge(addr, length))
		return vb_fail(VB_RULE_REG_MR_HUGETLB, "addr=%p length=%zu: no huge pages", addr,
			       length);
	if (access & IBV_ACCESS_ON_DEMAND)
		return 0;
	err = vb_regmem_check(addr, length, access & IBV_ACCESS_LOCAL_WRITE);
	if (err == -ENOMEM)
		return vb_fail(VB_RULE_NO_MEMORY, "addr=%p length=%zu", addr, length);
	if (err)
		return vb_fail(VB_RULE_REG_MR_MEMORY, "addr=%p length=%zu%s", addr, length,
			       access & IBV_ACCESS_LOCAL_WRITE ? ", to be written" : "");
	return 0;
}

int vb_mr_check_offset(const void *addr, uint64_t iova, unsigned int access)
{
	if (!(access & IBV_ACCESS_ZERO_BASED) && (iova ^ (uintptr_t)addr) & 0xfff)
		return vb_fail(VB_RULE_REG_MR_OFFSET, "addr=%p iova=0x%llx", addr,
			       (unsigned long long)iova);
	return 0;
}

static struct vb_mr *new_mr(struct vb_pd *pd, const struct vb_mr *want)
{
	struct vb_mr *mr = calloc(1, sizeof(*mr));

	if (!mr)
		return NULL;
	mr->ibv.context = pd->ibv.context;
	mr->ibv.pd = &pd->ibv;
	mr->ibv.addr = want->ibv.addr;
	mr->ibv.length = want->ibv.length;
	mr->pd = pd;
	mr->kind = want->kind;
	mr->addr = want->addr;
	mr->iova = want->iova;
	mr->access = want->access & (VB_MR_ACCESS | VB_KEY_NULL);
	mr->dm = want->dm;
	mr->buf = want->buf;
	return mr;
}

struct ibv_mr *vb_mr_make(struct vb_context *ctx, struct vb_pd *pd, const struct vb_mr *want)
{
	struct vb_mr *mr = new_mr(pd, want);

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
	vb_pd_hold(pd, 1);
	return &mr->ibv;
}

static int check(struct vb_context *ctx, struct vb_pd *pd, void *addr, size_t length, uint64_t iova,
		 unsigned int access)
{
	int err = vb_check_object(ctx, &ctx->pds, pd->ibv.handle, pd, "PD");

	if (!err)
		err = vb_mr_check(addr, length, iova, access,
				  ctx->device->attr.orig_attr.max_mr_size);
	if (!err)
		err = vb_mr_check_offset(addr, iova, access);
	return err ? err : vb_mr_check_memory(addr, length, access);
}

struct ibv_mr *vb_reg_mr(struct ibv_pd *ibv, void *addr, size_t length, uint64_t iova,
			 unsigned int access)
{
	struct vb_context *ctx = vb_context_of(ibv->context);
	struct vb_mr want = {.ibv = {.addr = addr, .length = length}, .access = access};
	struct ibv_mr *mr;

	want.addr = (uintptr_t)addr;
	want.iova = access & IBV_ACCESS_ZERO_BASED ? 0 : iova;
	if (check(ctx, vb_pd_of(ibv), addr, length, want.iova, access))
		return NULL;
	mr = vb_mr_make(ctx, vb_pd_of(ibv), &want);
	if (mr && !(access & IBV_ACCESS_ON_DEMAND))
		note_memlock(length);
	return mr;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return vb_reg_mr(pd, addr, length, (uintptr_t)addr, (unsigned int)access);
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			       int access)
{
	return vb_reg_mr(pd, addr, length, iova, (unsigned int)access);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				unsigned int access)
{
	return vb_reg_mr(pd, addr, length, iova, access);
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				 int fd, int access)
{
	return vb_fail_null(VB_RULE_DMABUF, "fd=%d offset=%llu length=%zu", fd,
			    (unsigned long long)offset, length);
}

struct ibv_mr *vb_alloc_null_mr(struct ibv_pd *ibv)
{
	struct vb_context *ctx = vb_context_of(ibv->context);
	struct vb_pd *pd = vb_pd_of(ibv);
	struct vb_mr want = {.ibv = {.length = SIZE_MAX},
			     .kind = VB_MR_NULL,
			     .access = IBV_ACCESS_LOCAL_WRITE | VB_KEY_NULL};

	if (vb_check_object(ctx, &ctx->pds, ibv->handle, pd, "PD"))
		return NULL;
	return vb_mr_make(ctx, pd, &want);
}

int ibv_dereg_mr(struct ibv_mr *ibv)
{
	struct vb_context *ctx = vb_context_of(ibv->context);
	struct vb_mr *mr = vb_mr_of(ibv);
	int err = vb_check_known(ctx, &ctx->mrs, ibv->handle, mr, "MR");
	struct vb_context *owner;
	struct vb_mr *region;

	if (err)
		return err;
	region = mr->original ? mr->original : mr;
	if (atomic_load(&region->users))
		return vb_fail(VB_RULE_BUSY, "ibv_dereg_mr mr#%u lkey=0x%x: %u memory windows",
			       ibv->handle, ibv->lkey, atomic_load(&region->users));
	owner = vb_context_of(region->ibv.context);
	if (vb_idtable_remove(&owner->mrs, ibv->handle) != region)
		return vb_fail(VB_RULE_BAD_HANDLE, "MR handle %u", ibv->handle);
	/* The owner may be closed already; the engine is that of every context. */
	vb_engine_mr_destroy(ctx->engine, region);
	vb_pd_hold(region->pd, -1);
	if (region->dm)
		atomic_fetch_sub(&region->dm->users, 1);
	if (region->buf)
		vb_buf_put(region->buf);
	vb_import_end(ctx, mr, region);
	return 0;
}

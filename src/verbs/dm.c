/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/dm.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "object/device.h"
#include "verbs/check.h"
#include "verbs/import.h"
#include "verbs/mr.h"
#include "verbs/newer.h"

#define PAGE 4096ull

/*
 * Device memory needs nothing of what a child of fork must not touch, and rdma-core's
 * tests allocate some there in the parent's context: it is the one thing that works.
 */

/* The access flags that a region of device memory may have. */
#define DM_ACCESS (IBV_ACCESS_LOCAL_WRITE | VB_MR_REMOTE | IBV_ACCESS_ZERO_BASED)
#define OPTIONAL  0x3ff00000u

/* Take bytes off what the device has left. */
static bool reserve(struct vb_device *dev, size_t length)
{
	uint64_t used = atomic_load(&dev->dm_used);

	do {
		if (length > dev->attr.max_dm_size - used)
			return false;
	} while (!atomic_compare_exchange_weak(&dev->dm_used, &used, used + length));
	return true;
}

static bool map_pages(struct vb_dm *dm, size_t length, uint32_t log_align)
{
	uint64_t align = log_align > 12 ? 1ull << log_align : PAGE;

	dm->length = length;
	dm->map_bytes = (length + PAGE - 1) / PAGE * PAGE + (align - PAGE);
	dm->map = mmap(NULL, dm->map_bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (dm->map == MAP_FAILED)
		return false;
	dm->addr = (uint8_t *)dm->map + (-(uintptr_t)dm->map & (align - 1));
	return true;
}

static struct vb_dm *new_dm(struct ibv_context *context, const struct ibv_alloc_dm_attr *attr)
{
	struct vb_context *ctx = vb_context_of(context);
	struct vb_dm *dm = calloc(1, sizeof(*dm));

	if (!dm)
		return NULL;
	if (!map_pages(dm, attr->length, attr->log_align_req)) {
		free(dm);
		return NULL;
	}
	dm->ibv.context = context;
	dm->ibv.memcpy_to_dm = vb_memcpy_to_dm;
	dm->ibv.memcpy_from_dm = vb_memcpy_from_dm;
	dm->ibv.comp_mask = IBV_DM_MASK_HANDLE;
	dm->unlisted = !vb_context_alive(ctx);
	if (!dm->unlisted && vb_idtable_add(&ctx->dms, dm, &dm->ibv.handle)) {
		munmap(dm->map, dm->map_bytes);
		free(dm);
		return NULL;
	}
	return dm;
}

struct ibv_dm *vb_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
{
	struct vb_context *ctx = vb_context_of(context);
	struct vb_dm *dm;

	if (vb_check_device(ctx, "ibv_alloc_dm"))
		return NULL;
	if (attr->comp_mask)
		return vb_fail_null(VB_RULE_COMP_MASK, "ibv_alloc_dm comp_mask=0x%x",
				    attr->comp_mask);
	if (!attr->length || attr->length > ctx->device->attr.max_dm_size ||
	    attr->log_align_req > 31)
		return vb_fail_null(VB_RULE_DM_LENGTH,
				    "length=%zu log_align_req=%u max_dm_size=%llu", attr->length,
				    attr->log_align_req,
				    (unsigned long long)ctx->device->attr.max_dm_size);
	if (!reserve(ctx->device, attr->length))
		return vb_fail_null(VB_RULE_DM_FULL, "length=%zu of %llu, %llu in use",
				    attr->length, (unsigned long long)ctx->device->attr.max_dm_size,
				    (unsigned long long)atomic_load(&ctx->device->dm_used));
	dm = new_dm(context, attr);
	if (!dm) {
		atomic_fetch_sub(&ctx->device->dm_used, attr->length);
		return vb_fail_null(VB_RULE_NO_MEMORY, "device memory of %zu bytes", attr->length);
	}
	return &dm->ibv;
}

static int check_dm(struct ibv_dm *ibv)
{
	struct vb_context *ctx = vb_context_of(ibv->context);

	if (vb_dm_of(ibv)->unlisted)
		return 0;
	return vb_check_known(ctx, &ctx->dms, ibv->handle, ibv, "DM");
}

int vb_free_dm(struct ibv_dm *ibv)
{
	struct vb_context *ctx = vb_context_of(ibv->context);
	struct vb_dm *dm = vb_dm_of(ibv), *memory;
	int err = check_dm(ibv);

	if (err)
		return err;
	memory = dm->original ? dm->original : dm;
	if (atomic_load(&memory->users))
		return vb_fail(VB_RULE_BUSY, "ibv_free_dm dm#%u: %u memory regions", ibv->handle,
			       atomic_load(&memory->users));
	if (!memory->unlisted)
		vb_idtable_remove(&vb_context_of(memory->ibv.context)->dms, ibv->handle);
	munmap(memory->map, memory->map_bytes);
	atomic_fetch_sub(&ctx->device->dm_used, memory->length);
	vb_import_end(ctx, dm, memory);
	return 0;
}

/* The device memory behind a struct, or NULL: errno by rule. */
static struct vb_dm *copy_check(struct ibv_dm *ibv, uint64_t offset, size_t length, int *err)
{
	struct vb_dm *dm = vb_dm_of(ibv);

	*err = check_dm(ibv);
	if (!*err)
		*err = vb_check_device(vb_context_of(ibv->context), "device memory");
	if (*err)
		return NULL;
	if (dm->original)
		dm = dm->original;
	if (length > dm->length || offset > dm->length - length) {
		*err = vb_fail(VB_RULE_DM_RANGE, "dm#%u offset=%llu length=%zu of %zu", ibv->handle,
			       (unsigned long long)offset, length, dm->length);
		return NULL;
	}
	if ((offset | length) & 3) {
		*err = vb_fail(VB_RULE_DM_ALIGN, "dm#%u offset=%llu length=%zu", ibv->handle,
			       (unsigned long long)offset, length);
		return NULL;
	}
	return dm;
}

int vb_memcpy_to_dm(struct ibv_dm *ibv, uint64_t offset, const void *from, size_t length)
{
	int err;
	struct vb_dm *dm = copy_check(ibv, offset, length, &err);

	if (dm)
		memcpy(dm->addr + offset, from, length);
	return err;
}

int vb_memcpy_from_dm(void *to, struct ibv_dm *ibv, uint64_t offset, size_t length)
{
	int err;
	struct vb_dm *dm = copy_check(ibv, offset, length, &err);

	if (dm)
		memcpy(to, dm->addr + offset, length);
	return err;
}

struct ibv_mr *vb_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *ibv, uint64_t offset, size_t length,
			    unsigned int access)
{
	struct vb_context *ctx = vb_context_of(pd->context);
	struct vb_mr want = {.ibv = {.length = length}, .kind = VB_MR_DM};
	struct vb_dm *dm = vb_dm_of(ibv);
	char text[160];
	struct ibv_mr *mr;

	if (vb_check_object(ctx, &ctx->pds, pd->handle, pd, "PD") || check_dm(ibv))
		return NULL;
	if (ibv->context != pd->context)
		return vb_fail_null(VB_RULE_OTHER_CONTEXT, "ibv_reg_dm_mr dm#%u pd#%u", ibv->handle,
				    pd->handle);
	if (!(access & IBV_ACCESS_ZERO_BASED) || access & ~(DM_ACCESS | OPTIONAL))
		return vb_fail_null(VB_RULE_REG_DM_ACCESS, "access=%s",
				    vb_mr_access_text(access, text, sizeof(text)));
	if (vb_mr_check_access(access))
		return NULL;
	if (dm->original)
		dm = dm->original;
	if (length > dm->length || offset > dm->length - length)
		return vb_fail_null(VB_RULE_REG_DM_RANGE, "dm#%u offset=%llu length=%zu of %zu",
				    ibv->handle, (unsigned long long)offset, length, dm->length);
	want.addr = (uintptr_t)dm->addr + offset;
	want.access = access;
	want.dm = dm;
	atomic_fetch_add(&dm->users, 1);
	mr = vb_mr_make(ctx, vb_pd_of(pd), &want);
	if (!mr)
		atomic_fetch_sub(&dm->users, 1);
	return mr;
}

int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm)
{
	return vb_fail_minus1(VB_RULE_NOT_SUPPORTED, "ibv_dm_export_dmabuf_fd dm#%u", dm->handle);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/buf.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "verbs/check.h"
#include "verbs/mr.h"
#include "verbs/newer.h"

#define PAGE 4096ull

static struct vb_buf *buf_of(struct ibv_buf *buf)
{
	return (struct vb_buf *)(void *)buf;
}

void vb_buf_put(struct vb_buf *buf)
{
	if (atomic_fetch_sub(&buf->refs, 1) != 1)
		return;
	munmap(buf->addr, buf->map_bytes);
	free(buf);
}

void *ibv_alloc_buf(struct ibv_pd *ibv, size_t size, struct ibv_buf **out)
{
	struct vb_context *ctx = vb_context_of(ibv->context);
	struct vb_pd *pd = vb_pd_of(ibv);
	struct vb_buf *buf;
	void *addr;

	if (vb_check_object(ctx, &ctx->pds, ibv->handle, pd, "PD"))
		return NULL;
	if (!size)
		return vb_fail_null(VB_RULE_BUF_SIZE, "size=0");
	buf = calloc(1, sizeof(*buf));
	if (!buf || size > SIZE_MAX - PAGE) {
		free(buf);
		return vb_fail_null(VB_RULE_NO_MEMORY, "buffer of %zu bytes", size);
	}
	buf->map_bytes = (size + PAGE - 1) / PAGE * PAGE;
	addr = mmap(NULL, buf->map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
	if (addr == MAP_FAILED) {
		free(buf);
		return vb_fail_null(VB_RULE_NO_MEMORY, "buffer of %zu bytes", size);
	}
	buf->pd = pd;
	buf->addr = addr;
	buf->length = size;
	atomic_store(&buf->refs, 1);
	vb_pd_hold(pd, 1);
	*out = (struct ibv_buf *)(void *)buf;
	return addr;
}

void ibv_free_buf(struct ibv_buf *ibv)
{
	struct vb_buf *buf = buf_of(ibv);

	vb_pd_hold(buf->pd, -1);
	/* A region on it keeps the memory: what is registered must not vanish. */
	vb_buf_put(buf);
}

static struct ibv_mr *reg_buf(struct ibv_pd *pd, struct vb_buf *buf, void *addr, size_t length,
			      uint64_t iova, unsigned int access)
{
	struct vb_context *ctx = vb_context_of(pd->context);
	struct vb_mr want = {.ibv = {.addr = addr, .length = length}, .kind = VB_MR_BUF};
	uint64_t offset = (uintptr_t)addr - (uintptr_t)buf->addr;
	struct ibv_mr *mr;

	if (vb_check_object(ctx, &ctx->pds, pd->handle, pd, "PD"))
		return NULL;
	if (buf->pd != vb_pd_of(pd))
		return vb_fail_null(VB_RULE_BUF_PD, "pd#%u, the buffer's pd#%u", pd->handle,
				    buf->pd->ibv.handle);
	want.iova = access & IBV_ACCESS_ZERO_BASED ? 0 : iova;
	if (vb_mr_check(addr, length, want.iova, access, UINT64_MAX) ||
	    vb_mr_check_offset(addr, want.iova, access))
		return NULL;
	if ((uintptr_t)addr < (uintptr_t)buf->addr || length > buf->length ||
	    offset > buf->length - length)
		return vb_fail_null(VB_RULE_BUF_RANGE, "addr=%p length=%zu, the buffer %p of %zu",
				    addr, length, (void *)buf->addr, buf->length);
	if (vb_mr_check_memory(addr, length, access))
		return NULL;
	want.addr = (uintptr_t)addr;
	want.access = access;
	want.buf = buf;
	atomic_fetch_add(&buf->refs, 1);
	mr = vb_mr_make(ctx, vb_pd_of(pd), &want);
	if (!mr)
		vb_buf_put(buf);
	return mr;
}

struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
			      int access)
{
	return reg_buf(pd, buf_of(buf), addr, length, (uintptr_t)addr, (unsigned int)access);
}

int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf)
{
	return vb_fail_minus1(VB_RULE_BUF_DMABUF, "buffer %p", (void *)buf_of(buf)->addr);
}

static int check_fields(uint64_t mask)
{
	const uint64_t known = VB_REG_MR_MASK_IOVA | VB_REG_MR_MASK_ADDR | VB_REG_MR_MASK_FD |
			       VB_REG_MR_MASK_FD_OFFSET | VB_REG_MR_MASK_DMAH | VB_REG_MR_MASK_BUF;
	const uint64_t of_fd = VB_REG_MR_MASK_FD_OFFSET | VB_REG_MR_MASK_IOVA;
	bool addr = mask & VB_REG_MR_MASK_ADDR, fd = mask & VB_REG_MR_MASK_FD;

	if (mask & ~known)
		return vb_fail(VB_RULE_REG_MR_EX_NOT_OFFERED, "comp_mask=0x%llx",
			       (unsigned long long)mask);
	if (addr == fd || (fd && (mask & of_fd) != of_fd) ||
	    (addr && mask & VB_REG_MR_MASK_FD_OFFSET) || (mask & VB_REG_MR_MASK_BUF && !addr))
		return vb_fail(VB_RULE_REG_MR_EX_FIELDS, "comp_mask=0x%llx",
			       (unsigned long long)mask);
	if (fd || mask & VB_REG_MR_MASK_DMAH)
		return vb_fail(VB_RULE_REG_MR_EX_NOT_OFFERED, "comp_mask=0x%llx: %s",
			       (unsigned long long)mask, fd ? "a dma-buf" : "a DMA handle");
	return 0;
}

struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *ibv)
{
	const struct vb_mr_init_attr *attr = (const struct vb_mr_init_attr *)(const void *)ibv;
	unsigned int access = (unsigned int)attr->access;
	uint64_t iova;

	if (check_fields(attr->comp_mask))
		return NULL;
	iova = attr->comp_mask & VB_REG_MR_MASK_IOVA ? attr->iova : (uintptr_t)attr->addr;
	if (attr->comp_mask & VB_REG_MR_MASK_BUF)
		return reg_buf(pd, buf_of(attr->buf), attr->addr, attr->length, iova, access);
	return vb_reg_mr(pd, attr->addr, attr->length, iova, access);
}

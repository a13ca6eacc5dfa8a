/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "base/forkguard.h"
#include "base/rules.h"
#include "engine/lost.h"
#include "host/discover.h"
#include "host/eventpipe.h"
#include "object/context.h"
#include "verbs/attach.h"
#include "verbs/import.h"
#include "verbs/ops.h"
#include "verbs/unsupported.h"

/* Handles are numbered from 1: programs print 0 for "none". */
#define FIRST_HANDLE 1

#undef ibv_get_device_list

struct ibv_device **ibv_get_device_list(int *num_devices)
{
	struct ibv_device **list;
	size_t count;
	int err;

	if (num_devices)
		*num_devices = 0;
	err = vb_devices(&count);
	if (err)
		return vb_fail_null(VB_RULE_DEVICE_LIST_SHORTAGE, "interfaces: %s", strerror(-err));
	list = calloc(count + 1, sizeof(*list));
	if (!list)
		return vb_fail_null(VB_RULE_DEVICE_LIST_SHORTAGE, "a list of %zu devices", count);
	for (size_t i = 0; i < count; i++) {
		struct vb_device *dev = vb_device_at(i);

		atomic_fetch_add(&dev->refs, 1);
		list[i] = &dev->ibv;
	}
	if (num_devices)
		*num_devices = (int)count;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	for (size_t i = 0; list && list[i]; i++)
		if (vb_device_is(list[i]))
			atomic_fetch_sub(&vb_device_of(list[i])->refs, 1);
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

__be64 ibv_get_device_guid(struct ibv_device *device)
{
	return vb_device_of(device)->attr.orig_attr.node_guid;
}

int ibv_get_device_index(struct ibv_device *device)
{
	return (int)vb_device_of(device)->index;
}

/* A descriptor that stands for the context: its inode is nobody else's. It has no
 * size, so that no limit on file sizes matters. */
static int make_cmd_fd(void)
{
	int fd = memfd_create("verbena-context", MFD_CLOEXEC);

	return fd >= 0 ? fd : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

static int open_descriptors(struct vb_context *ctx, int cmd_fd)
{
	struct ibv_context *context = &ctx->vctx.context;
	int fds[2];

	context->cmd_fd = cmd_fd >= 0 ? cmd_fd : make_cmd_fd();
	if (context->cmd_fd < 0)
		return -1;
	if (vb_eventpipe_create(fds)) {
		if (cmd_fd < 0)
			close(context->cmd_fd);
		return -1;
	}
	context->async_fd = fds[0];
	ctx->async_write_fd = fds[1];
	return 0;
}

static void close_descriptors(struct vb_context *ctx, bool cmd_fd)
{
	if (cmd_fd)
		close(ctx->vctx.context.cmd_fd);
	close(ctx->vctx.context.async_fd);
	close(ctx->async_write_fd);
}

static void init_tables(struct vb_context *ctx)
{
	const struct ibv_device_attr *attr = &ctx->device->attr.orig_attr;

	vb_idtable_init(&ctx->pds, FIRST_HANDLE, (uint32_t)attr->max_pd);
	vb_idtable_init(&ctx->mrs, FIRST_HANDLE, (uint32_t)attr->max_mr);
	vb_idtable_init(&ctx->cqs, FIRST_HANDLE, (uint32_t)attr->max_cq);
	vb_idtable_init(&ctx->qps, FIRST_HANDLE, (uint32_t)attr->max_qp);
	vb_idtable_init(&ctx->ahs, FIRST_HANDLE, (uint32_t)attr->max_ah);
	vb_idtable_init(&ctx->srqs, FIRST_HANDLE, (uint32_t)attr->max_srq);
	/* No attribute limits channels: descriptors do. Bytes limit device memory. */
	vb_idtable_init(&ctx->channels, FIRST_HANDLE, 1u << 20);
	vb_idtable_init(&ctx->dms, FIRST_HANDLE, 1u << 20);
	vb_idtable_init(&ctx->tds, FIRST_HANDLE, 1u << 20);
}

static void fini_tables(struct vb_context *ctx)
{
	vb_idtable_fini(&ctx->pds);
	vb_idtable_fini(&ctx->mrs);
	vb_idtable_fini(&ctx->cqs);
	vb_idtable_fini(&ctx->qps);
	vb_idtable_fini(&ctx->channels);
	vb_idtable_fini(&ctx->dms);
	vb_idtable_fini(&ctx->tds);
	vb_idtable_fini(&ctx->ahs);
	vb_idtable_fini(&ctx->srqs);
}

static void init_public(struct vb_context *ctx)
{
	struct ibv_context *context = &ctx->vctx.context;

	context->device = &ctx->device->ibv;
	context->num_comp_vectors = (int)ctx->device->num_comp_vectors;
	context->abi_compat = (void *)UINTPTR_MAX;
	pthread_mutex_init(&context->mutex, NULL);
	ctx->vctx.sz = VB_CTX_SIZE;
	vb_ops_fill_unsupported(ctx);
	vb_ops_fill(ctx);
}

void vb_context_put(struct vb_context *ctx)
{
	if (atomic_fetch_sub(&ctx->refs, 1) != 1)
		return;
	if (ctx->origin)
		vb_context_put(ctx->origin);
	vb_import_free(ctx);
	fini_tables(ctx);
	pthread_mutex_destroy(&ctx->import_lock);
	pthread_mutex_destroy(&ctx->vctx.context.mutex);
	free(ctx);
}

static struct vb_context *new_context(struct vb_device *device)
{
	struct vb_context *ctx = calloc(1, sizeof(*ctx));

	if (!ctx)
		return NULL;
	ctx->device = device;
	ctx->fork_guard = vb_fork_guard();
	if (!ctx->fork_guard) {
		free(ctx);
		return NULL;
	}
	pthread_mutex_init(&ctx->import_lock, NULL);
	atomic_store(&ctx->refs, 1);
	return ctx;
}

struct ibv_context *vb_context_open(struct vb_device *device, int cmd_fd, struct vb_context *origin)
{
	const char *name = device->ibv.name;
	struct vb_context *ctx = new_context(device);
	int err;

	if (!ctx)
		return vb_fail_null(VB_RULE_OPEN_MEMORY, "%s", name);
	if (open_descriptors(ctx, cmd_fd)) {
		pthread_mutex_destroy(&ctx->import_lock);
		free(ctx);
		return vb_fail_null(VB_RULE_OPEN_DESCRIPTORS, "%s", name);
	}
	init_tables(ctx);
	init_public(ctx);
	err = vb_context_attach(ctx);
	if (err) {
		close_descriptors(ctx, cmd_fd < 0);
		vb_context_put(ctx);
		return err == -EMFILE || err == -ENFILE
			       ? vb_fail_null(VB_RULE_OPEN_DESCRIPTORS, "%s", name)
			       : vb_fail_null(VB_RULE_OPEN_MEMORY, "%s: %s", name, strerror(-err));
	}
	if (vb_engine_lost(ctx->engine)) {
		vb_context_detach(ctx);
		close_descriptors(ctx, cmd_fd < 0);
		vb_context_put(ctx);
		return vb_fail_null(VB_RULE_DEVICE_LOST, "ibv_open_device %s", name);
	}
	ctx->origin = origin;
	atomic_fetch_add(&device->refs, 1);
	return &ctx->vctx.context;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	if (!vb_device_is(device))
		return vb_fail_null(VB_RULE_DEVICE_UNKNOWN, "device=%p", (void *)device);
	return vb_context_open(vb_device_of(device), -1, NULL);
}

int ibv_close_device(struct ibv_context *context)
{
	struct vb_context *ctx = vb_context_of(context);

	/* What a child inherited is its parent's: only the child's copies go. */
	if (vb_context_alive(ctx))
		vb_context_detach(ctx);
	atomic_fetch_sub(&ctx->device->refs, 1);
	close_descriptors(ctx, true);
	vb_context_put(ctx);
	return 0;
}

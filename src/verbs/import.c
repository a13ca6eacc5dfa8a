/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/import.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/engine.h"
#include "object/device.h"
#include "object/mr.h"
#include "object/pd.h"
#include "verbs/attach.h"
#include "verbs/check.h"
#include "verbs/dm.h"
#include "verbs/newer.h"

/* ---- the list of a context ---- */

bool vb_import_valid(const struct vb_context *ctx, uint32_t handle, const void *object)
{
	struct vb_context *mine = (struct vb_context *)(uintptr_t)ctx;
	struct vb_idtable *table = NULL;
	const void *original = NULL;

	pthread_mutex_lock(&mine->import_lock);
	for (struct vb_import *at = mine->imports; at; at = at->next)
		if (at->object == object && at->handle == handle) {
			table = at->table;
			original = at->original;
			break;
		}
	pthread_mutex_unlock(&mine->import_lock);
	return table && vb_idtable_lookup(table, handle) == original;
}

static void list(struct vb_context *ctx, struct vb_import *entry)
{
	pthread_mutex_lock(&ctx->import_lock);
	entry->next = ctx->imports;
	ctx->imports = entry;
	pthread_mutex_unlock(&ctx->import_lock);
}

/* Take an object off the list; NULL where it is not on it. */
static struct vb_import *unlist(struct vb_context *ctx, const void *object)
{
	struct vb_import *found = NULL;

	pthread_mutex_lock(&ctx->import_lock);
	for (struct vb_import **at = &ctx->imports; *at; at = &(*at)->next)
		if ((*at)->object == object) {
			found = *at;
			*at = found->next;
			break;
		}
	pthread_mutex_unlock(&ctx->import_lock);
	return found;
}

void vb_import_end(struct vb_context *ctx, void *object, void *original)
{
	struct vb_import *entry;

	if (object == original) {
		free(object);
		return;
	}
	/* Whoever made the original still holds its struct. */
	entry = unlist(ctx, object);
	free(object);
	entry->object = NULL;
	list(ctx->origin ? ctx->origin : ctx, entry);
}

void vb_import_free(struct vb_context *ctx)
{
	struct vb_import *next;

	for (struct vb_import *at = ctx->imports; at; at = next) {
		next = at->next;
		free(at->object ? at->object : at->original);
		free(at);
	}
	ctx->imports = NULL;
}

/* ---- contexts ---- */

struct wanted {
	struct stat st;
	struct vb_context *found;
};

/* Contexts are told apart by the file behind their descriptor. */
static int same_file(struct vb_context *ctx, void *arg)
{
	struct wanted *wanted = arg;
	struct stat st;

	if (fstat(ctx->vctx.context.cmd_fd, &st) || st.st_ino != wanted->st.st_ino ||
	    st.st_dev != wanted->st.st_dev)
		return 0;
	wanted->found = ctx->origin ? ctx->origin : ctx;
	atomic_fetch_add(&wanted->found->refs, 1);
	return 1;
}

static bool of_another_process(int fd)
{
	char path[64], name[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, name, sizeof(name) - 1);
	name[n < 0 ? 0 : n] = 0;
	return strstr(name, "memfd:verbena-context") != NULL;
}

struct ibv_context *ibv_import_device(int cmd_fd)
{
	struct wanted wanted = {0};
	struct ibv_context *context;

	if (fstat(cmd_fd, &wanted.st))
		return vb_fail_null(VB_RULE_IMPORT_FD, "cmd_fd=%d is not open", cmd_fd);
	vb_engine_each_context(same_file, &wanted);
	if (!wanted.found)
		return of_another_process(cmd_fd)
			       ? vb_fail_null(VB_RULE_IMPORT_PROCESS, "cmd_fd=%d", cmd_fd)
			       : vb_fail_null(VB_RULE_IMPORT_FD, "cmd_fd=%d", cmd_fd);
	context = vb_context_open(wanted.found->device, cmd_fd, wanted.found);
	if (!context)
		vb_context_put(wanted.found);
	return context;
}

/* ---- objects ---- */

struct copying {
	void *object;
	void *original;
	void (*fill)(void *object, const void *original);
};

/* With the table locked: the original cannot go meanwhile. */
static void copy_struct(void *original, void *arg)
{
	struct copying *copy = arg;

	copy->fill(copy->object, original);
	copy->original = original;
}

/* A struct of its own for an object of the origin. */
static void *import(struct vb_context *ctx, size_t table_at, uint32_t handle, size_t size,
		    const char *kind, void (*fill)(void *object, const void *original))
{
	struct vb_context *origin = ctx->origin ? ctx->origin : ctx;
	struct vb_idtable *table = (struct vb_idtable *)(void *)((uint8_t *)origin + table_at);
	struct vb_import *entry = calloc(1, sizeof(*entry));
	struct copying copy = {.object = calloc(1, size), .fill = fill};

	if (!entry || !copy.object) {
		free(entry);
		free(copy.object);
		return vb_fail_null(VB_RULE_NO_MEMORY, "imported %s", kind);
	}
	if (!vb_idtable_visit(table, handle, copy_struct, &copy)) {
		free(entry);
		free(copy.object);
		return vb_fail_null(VB_RULE_IMPORT_HANDLE, "%s handle %u", kind, handle);
	}
	*entry = (struct vb_import){
		.object = copy.object,
		.original = copy.original,
		.handle = handle,
		.table = table,
	};
	list(ctx, entry);
	return copy.object;
}

static void unimport(struct ibv_context *context, void *object)
{
	struct vb_import *entry = unlist(vb_context_of(context), object);

	if (!entry)
		return;
	free(entry);
	free(object);
}

/* Objects made with an imported PD outlive it: they know their PD by its struct, so it
 * stays until the context ends. */
static void unimport_pd(struct ibv_context *context, struct vb_pd *pd)
{
	struct vb_context *ctx = vb_context_of(context);
	struct vb_import *entry;

	if (!atomic_load(&pd->users)) {
		unimport(context, pd);
		return;
	}
	entry = unlist(ctx, pd);
	if (!entry)
		return;
	entry->object = NULL;
	entry->original = pd;
	list(ctx, entry);
}

static void fill_pd(void *object, const void *original)
{
	struct vb_pd *pd = object, *from = (struct vb_pd *)(uintptr_t)original;

	pd->ibv.handle = from->ibv.handle;
	pd->index = from->index;
	pd->number = from->number;
	pd->base = from->base;
	pd->original = from;
}

struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t pd_handle)
{
	struct vb_context *ctx = vb_context_of(context);
	struct vb_pd *pd;

	if (vb_check_usable(ctx, "ibv_import_pd"))
		return NULL;
	pd = import(ctx, offsetof(struct vb_context, pds), pd_handle, sizeof(*pd), "PD", fill_pd);
	if (!pd)
		return NULL;
	pd->ibv.context = context;
	return &pd->ibv;
}

void ibv_unimport_pd(struct ibv_pd *pd)
{
	unimport_pd(pd->context, vb_pd_of(pd));
}

static void fill_mr(void *object, const void *original)
{
	struct vb_mr *mr = object, *from = (struct vb_mr *)(uintptr_t)original;

	mr->ibv.handle = from->ibv.handle;
	mr->ibv.length = from->ibv.length;
	mr->ibv.lkey = from->ibv.lkey;
	mr->ibv.rkey = from->ibv.rkey;
	mr->original = from;
}

struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t mr_handle)
{
	struct vb_context *ctx = vb_context_of(pd->context);
	struct vb_mr *mr;

	if (vb_check_object(ctx, &ctx->pds, pd->handle, pd, "PD"))
		return NULL;
	mr = import(ctx, offsetof(struct vb_context, mrs), mr_handle, sizeof(*mr), "MR", fill_mr);
	if (!mr)
		return NULL;
	mr->ibv.context = pd->context;
	mr->ibv.pd = pd;
	return &mr->ibv;
}

void ibv_unimport_mr(struct ibv_mr *mr)
{
	unimport(mr->context, mr);
}

static void fill_dm(void *object, const void *original)
{
	struct vb_dm *dm = object, *from = (struct vb_dm *)(uintptr_t)original;

	dm->ibv.memcpy_to_dm = from->ibv.memcpy_to_dm;
	dm->ibv.memcpy_from_dm = from->ibv.memcpy_from_dm;
	dm->ibv.comp_mask = from->ibv.comp_mask;
	dm->ibv.handle = from->ibv.handle;
	dm->original = from;
}

struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t dm_handle)
{
	struct vb_context *ctx = vb_context_of(context);
	struct vb_dm *dm;

	if (vb_check_usable(ctx, "ibv_import_dm"))
		return NULL;
	dm = import(ctx, offsetof(struct vb_context, dms), dm_handle, sizeof(*dm), "DM", fill_dm);
	if (!dm)
		return NULL;
	dm->ibv.context = context;
	return &dm->ibv;
}

void ibv_unimport_dm(struct ibv_dm *dm)
{
	unimport(dm->context, dm);
}

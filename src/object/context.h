/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_OBJECT_CONTEXT_H
#define VB_OBJECT_CONTEXT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "base/idtable.h"

struct vb_device;
struct vb_adapter;
struct vb_engine;

/* Bytes before struct ibv_context in the newest struct verbs_context known
 * (rdma-core 65). New members are added at the front, so a program only ever
 * looks back as far as its own headers say. */
#define VB_CTX_FRONT 368
/* What `sz` says: the size of that newest struct. */
#define VB_CTX_SIZE (VB_CTX_FRONT + sizeof(struct ibv_context))

/*
 * The context behind a struct ibv_context. The public struct is the last member
 * of struct verbs_context; slots newer than the installed header stand before it.
 */
struct vb_context {
	void *newer_slots[(VB_CTX_FRONT - offsetof(struct verbs_context, context)) / 8];
	struct verbs_context vctx;

	struct vb_device *device;   /* holds a reference */
	struct vb_adapter *adapter; /* the process's part of the adapter, shared by its contexts */
	struct vb_engine *engine;   /* runs this context's work, shared like the adapter */
	const uint8_t *fork_guard;  /* reads 0 in a child made by fork */
	int async_write_fd;	    /* other end of context.async_fd */

	struct vb_context *next;   /* of the same engine, under its list's lock */
	_Atomic uint32_t refs;	   /* 1, and one for each import of it */
	struct vb_context *origin; /* what it is an import of, NULL nothing; holds a reference */
	pthread_mutex_t import_lock;
	struct vb_import *imports; /* objects imported into it */

	/* Live objects by handle; each table locks itself. */
	struct vb_idtable pds, mrs, cqs, qps, channels, ahs, srqs, dms, tds;
};

/* The op slot that stands @before bytes in front of the ibv_context (abi.md 2.1). */
#define VB_CTX_SLOT(ctx, before) (*(void **)(void *)((uint8_t *)&(ctx)->vctx.context - (before)))

static inline struct vb_context *vb_context_of(struct ibv_context *context)
{
	return (struct vb_context *)(void *)((uint8_t *)context -
					     offsetof(struct vb_context, vctx.context));
}

/* False in a child made by fork: what the parent opened must not be touched there. */
static inline int vb_context_alive(const struct vb_context *ctx)
{
	return *(const volatile uint8_t *)ctx->fork_guard != 0;
}

#endif

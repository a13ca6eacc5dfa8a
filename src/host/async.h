/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_HOST_ASYNC_H
#define VB_HOST_ASYNC_H

#include <stdint.h>

#include <infiniband/verbs.h>

#include "object/context.h"

/*
 * Theory of operation
 *
 * The asynchronous events of a context stand in a pipe whose read end is
 * context->async_fd, as records of the kernel's own form. A record names its object
 * by handle, never by address: whoever takes it looks the handle up, so a record
 * that is stale or was scribbled by the program does no harm.
 */

/* As the kernel writes it (struct ib_uverbs_async_event_desc). */
struct vb_async_record {
	uint64_t element; /* handle of the object, or number of the port */
	uint32_t type;	  /* enum ibv_event_type */
	uint32_t reserved;
};

/* What an event is about. */
enum vb_async_kind {
	VB_ASYNC_CQ,
	VB_ASYNC_QP,
	VB_ASYNC_SRQ,
	VB_ASYNC_WQ,
	VB_ASYNC_PORT,
	VB_ASYNC_DEVICE,
	VB_ASYNC_UNKNOWN
};

/** vb_async_kind() - What an event of a type is about
 * @type:   Any number
 */
enum vb_async_kind vb_async_kind(uint32_t type);

/** vb_async_post() - Queue an event
 * @element: Handle of the object, or number of the port
 * Context: any thread; never blocks; errno is kept
 * Return:  0, -EAGAIN where the program left some 4000 events unread: the event is lost
 */
int vb_async_post(struct vb_context *ctx, enum ibv_event_type type, uint64_t element);

/** vb_async_purge() - Remove the unread events of an object that goes away
 * @kind:   What it is
 * @handle: Its handle, already taken out of the context's table
 * Context: any thread; never blocks. Events of others keep their order
 */
void vb_async_purge(struct vb_context *ctx, enum vb_async_kind kind, uint32_t handle);

#endif

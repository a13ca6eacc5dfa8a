/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/async.h"

#include <assert.h>
#include <errno.h>
#include <sys/ioctl.h>
#include <unistd.h>

static_assert(sizeof(struct vb_async_record) == 16, "the kernel's form");

/* Newer than the installed header: speed of the device changed. */
#define EVENT_DEVICE_SPEED_CHANGE 20

enum vb_async_kind vb_async_kind(uint32_t type)
{
	switch (type) {
	case IBV_EVENT_CQ_ERR:
		return VB_ASYNC_CQ;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return VB_ASYNC_QP;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		return VB_ASYNC_SRQ;
	case IBV_EVENT_WQ_FATAL:
		return VB_ASYNC_WQ;
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
	case IBV_EVENT_GID_CHANGE:
		return VB_ASYNC_PORT;
	case IBV_EVENT_DEVICE_FATAL:
	case EVENT_DEVICE_SPEED_CHANGE:
		return VB_ASYNC_DEVICE;
	default:
		return VB_ASYNC_UNKNOWN;
	}
}

static int put(const struct vb_context *ctx, const struct vb_async_record *record)
{
	ssize_t n;

	do
		n = write(ctx->async_write_fd, record, sizeof(*record));
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof(*record) ? 0 : -EAGAIN;
}

int vb_async_post(struct vb_context *ctx, enum ibv_event_type type, uint64_t element)
{
	const struct vb_async_record record = {.element = element, .type = type};
	int saved = errno;
	int err = put(ctx, &record);

	errno = saved;
	return err;
}

void vb_async_purge(struct vb_context *ctx, enum vb_async_kind kind, uint32_t handle)
{
	struct vb_async_record record;
	int saved = errno;
	int bytes = 0;

	/* Every record that is in now goes round once. The descriptor reads too, and does
	 * not block: a thread in ibv_get_async_event may be faster. */
	if (ioctl(ctx->async_write_fd, FIONREAD, &bytes))
		bytes = 0;
	for (; bytes >= (int)sizeof(record); bytes -= (int)sizeof(record)) {
		if (read(ctx->async_write_fd, &record, sizeof(record)) != (ssize_t)sizeof(record))
			break;
		if (vb_async_kind(record.type) != kind || record.element != handle)
			put(ctx, &record);
	}
	errno = saved;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "base/rules.h"
#include "host/async.h"
#include "object/context.h"
#include "object/cq.h"
#include "object/device.h"
#include "object/qp.h"

/* Runs with the table locked: an object that a thread is destroying is either found
 * here first, and then waits for this event to be acknowledged, or not at all. */
static void hand_out_cq(void *object, void *event)
{
	struct vb_cq *cq = object;

	atomic_fetch_add(&cq->async_handed, 1);
	((struct ibv_async_event *)event)->element.cq = &cq->ibv;
}

static void hand_out_qp(void *object, void *event)
{
	struct vb_qp *qp = object;

	atomic_fetch_add(&qp->events_handed, 1);
	((struct ibv_async_event *)event)->element.qp = &qp->ibv;
}

static void hand_out_srq(void *object, void *event)
{
	struct vb_srq *srq = object;

	atomic_fetch_add(&srq->events_handed, 1);
	((struct ibv_async_event *)event)->element.srq = &srq->ibv;
}

/* False for a record that names nothing alive. */
static bool resolve(struct vb_context *ctx, const struct vb_async_record *record,
		    struct ibv_async_event *event)
{
	struct ibv_async_event found = {.event_type = (enum ibv_event_type)record->type};
	bool alive = false;

	switch (vb_async_kind(record->type)) {
	case VB_ASYNC_CQ:
		alive = record->element <= UINT32_MAX &&
			vb_idtable_visit(&ctx->cqs, (uint32_t)record->element, hand_out_cq, &found);
		break;
	case VB_ASYNC_QP:
		alive = record->element <= UINT32_MAX &&
			vb_idtable_visit(&ctx->qps, (uint32_t)record->element, hand_out_qp, &found);
		break;
	case VB_ASYNC_SRQ:
		alive = record->element <= UINT32_MAX &&
			vb_idtable_visit(&ctx->srqs, (uint32_t)record->element, hand_out_srq,
					 &found);
		break;
	case VB_ASYNC_PORT:
		alive = record->element >= 1 &&
			record->element <= ctx->device->attr.orig_attr.phys_port_cnt;
		found.element.port_num = (int)record->element;
		break;
	case VB_ASYNC_DEVICE:
		alive = true;
		break;
	default:
		break;
	}
	if (alive)
		*event = found;
	return alive;
}

static int read_failed(const struct ibv_context *context, ssize_t n)
{
	int fd = context->async_fd;

	if (n < 0 && errno == EAGAIN)
		return vb_fail_minus1(VB_RULE_ASYNC_EMPTY, "async_fd=%d", fd);
	if (n < 0 && errno == EINTR)
		return vb_fail_minus1(VB_RULE_ASYNC_SIGNAL, "async_fd=%d", fd);
	return vb_fail_minus1(VB_RULE_ASYNC_FD, "async_fd=%d read=%zd: %s", fd, n,
			      n < 0 ? strerror(errno) : "not a record");
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	struct vb_context *ctx = vb_context_of(context);
	struct vb_async_record record;
	ssize_t n;

	if (!vb_context_alive(ctx))
		return vb_fail_minus1(VB_RULE_FORKED, "ibv_get_async_event %s",
				      ctx->device->ibv.name);
	do {
		n = read(context->async_fd, &record, sizeof(record));
		if (n != (ssize_t)sizeof(record))
			return read_failed(context, n);
	} while (!resolve(ctx, &record, event));
	return 0;
}

static void acknowledge(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed)
{
	pthread_mutex_lock(mutex);
	++*completed;
	pthread_cond_broadcast(cond);
	pthread_mutex_unlock(mutex);
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	struct ibv_cq *cq = event->element.cq;
	struct ibv_qp *qp = event->element.qp;
	struct ibv_srq *srq = event->element.srq;

	switch (vb_async_kind(event->event_type)) {
	case VB_ASYNC_CQ:
		acknowledge(&cq->mutex, &cq->cond, &cq->async_events_completed);
		break;
	case VB_ASYNC_QP:
		acknowledge(&qp->mutex, &qp->cond, &qp->events_completed);
		break;
	case VB_ASYNC_SRQ:
		acknowledge(&srq->mutex, &srq->cond, &srq->events_completed);
		break;
	default:
		break;
	}
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/rules.h"
#include "rdmacm/rsocket/service.h"
#include "rdmacm/rsocket/stream.h"

/*
 * Theory of operation
 *
 * A connection is made step by step, each on the event of the one before, in the service
 * thread; rconnect() starts the first and, if it may wait, waits for the last. A step that
 * times out is tried again with twice the time.
 */

#define FIRST_TIMEOUT_MS 1000
#define TRIES		 4

int vb_stream_bind(struct vb_stream *st, const union vb_rs_addr *addr)
{
	int ret;

	pthread_mutex_lock(&st->rs.lock);
	if (st->state != VB_STREAM_INIT) {
		ret = vb_fail_minus1(VB_RULE_RSOCKET_BOUND, "rbind fd=%d", st->rs.fd);
	} else {
		union vb_rs_addr copy = *addr;

		ret = rdma_bind_addr(st->id, &copy.sa);
		if (!ret)
			st->state = VB_STREAM_BOUND;
	}
	pthread_mutex_unlock(&st->rs.lock);
	return ret;
}

static void fail(struct vb_stream *st, int err)
{
	st->state = VB_STREAM_FAILED;
	st->rs.error = err ? err : ECONNABORTED;
	vb_stream_changed(st);
}

static int resolve_addr(struct vb_stream *st)
{
	st->state = VB_STREAM_ADDR;
	return rdma_resolve_addr(st->id, NULL, &st->peer.sa, FIRST_TIMEOUT_MS << st->tries++);
}

static int resolve_route(struct vb_stream *st)
{
	st->state = VB_STREAM_ROUTE;
	/* A route the program gave is as good as one found. */
	if (st->route && !st->tries &&
	    !rdma_set_option(st->id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, st->route,
			     st->route_bytes)) {
		st->tries++;
		return 0;
	}
	return rdma_resolve_route(st->id, FIRST_TIMEOUT_MS << st->tries++);
}

static int request(struct vb_stream *st)
{
	uint8_t data[VB_RS_CONN_BYTES];
	struct rdma_conn_param param = {
		.private_data = data,
		.private_data_len = sizeof(data),
		.flow_control = 1,
		.retry_count = 7,
		.rnr_retry_count = 7,
	};

	if (vb_stream_open(st))
		return -1;
	vb_stream_describe(st, data);
	st->state = VB_STREAM_CM;
	return rdma_connect(st->id, &param);
}

static bool try_again(const struct vb_stream *st, const struct rdma_cm_event *event)
{
	return event->status == -ETIMEDOUT && st->tries < TRIES;
}

static int errno_of(const struct rdma_cm_event *event)
{
	if (event->event == RDMA_CM_EVENT_REJECTED)
		return ECONNREFUSED;
	if (event->status < 0)
		return -event->status;
	return event->event == RDMA_CM_EVENT_UNREACHABLE ? ETIMEDOUT : ECONNABORTED;
}

static void connected(struct vb_stream *st, const struct rdma_cm_event *event)
{
	if (!vb_stream_learn(st, event->param.conn.private_data,
			     event->param.conn.private_data_len)) {
		fail(st, ECONNREFUSED);
		return;
	}
	st->state = VB_STREAM_CONNECTED;
	/* Also gives the peer the second half of the buffer. */
	vb_stream_progress(st);
}

/* What came before the end lies in the completion queue: it counts. */
static void disconnected(struct vb_stream *st)
{
	vb_stream_progress(st);
	vb_stream_break(st, 0);
}

static void opening_event(struct vb_stream *st, struct rdma_cm_event *event)
{
	int ret = 0;

	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		st->tries = 0;
		ret = resolve_route(st);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		ret = request(st);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		connected(st, event);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
		if (try_again(st, event))
			ret = resolve_addr(st);
		else
			fail(st, errno_of(event));
		break;
	case RDMA_CM_EVENT_ROUTE_ERROR:
		if (try_again(st, event))
			ret = resolve_route(st);
		else
			fail(st, errno_of(event));
		break;
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		fail(st, errno_of(event));
		break;
	default:
		break;
	}
	if (ret)
		fail(st, errno);
}

void vb_stream_cm_event(struct vb_stream *st, struct rdma_cm_event *event)
{
	enum vb_stream_state state;

	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		vb_stream_requested(st, event);
		return;
	}
	pthread_mutex_lock(&st->rs.lock);
	state = st->state;
	if (state == VB_STREAM_ADDR || state == VB_STREAM_ROUTE || state == VB_STREAM_CM)
		opening_event(st, event);
	else if (state == VB_STREAM_CONNECTED && (event->event == RDMA_CM_EVENT_DISCONNECTED ||
						  event->event == RDMA_CM_EVENT_DEVICE_REMOVAL))
		disconnected(st);
	pthread_mutex_unlock(&st->rs.lock);
	if (state == VB_STREAM_ACCEPTING)
		vb_stream_accept_event(st, event);
}

static int start_connect(struct vb_stream *st, const union vb_rs_addr *addr)
{
	switch (st->state) {
	case VB_STREAM_INIT:
	case VB_STREAM_BOUND:
		break;
	case VB_STREAM_ADDR:
	case VB_STREAM_ROUTE:
	case VB_STREAM_CM:
	case VB_STREAM_ACCEPTING:
		/* A blocking call that was interrupted goes on where it is. */
		if (vb_rs_nonblocking(&st->rs, 0))
			return vb_fail_minus1(VB_RULE_RSOCKET_CONNECTING, "rconnect fd=%d",
					      st->rs.fd);
		return 0;
	case VB_STREAM_CONNECTED:
	case VB_STREAM_ENDED:
		return vb_fail_minus1(VB_RULE_RSOCKET_CONNECTED, "rconnect fd=%d", st->rs.fd);
	case VB_STREAM_FAILED:
		if (st->rs.error) {
			errno = st->rs.error;
			st->rs.error = 0;
			return -1;
		}
		return vb_fail_minus1(VB_RULE_RSOCKET_STATE, "rconnect fd=%d: connecting failed",
				      st->rs.fd);
	case VB_STREAM_LISTENING:
		return vb_fail_minus1(VB_RULE_RSOCKET_STATE, "rconnect fd=%d: it listens",
				      st->rs.fd);
	}
	st->peer = *addr;
	st->tries = 0;
	if (resolve_addr(st)) {
		fail(st, errno);
		st->rs.error = 0;
		return -1;
	}
	return 0;
}

int vb_stream_connect(struct vb_stream *st, const union vb_rs_addr *addr)
{
	int ret;

	pthread_mutex_lock(&st->rs.lock);
	ret = start_connect(st, addr);
	if (!ret)
		ret = vb_rs_wait(&st->rs, vb_stream_opened, vb_rs_nonblocking(&st->rs, 0), 0);
	else
		goto out;
	if (ret) {
		if (errno == EAGAIN)
			errno = EINPROGRESS;
	} else if (st->state == VB_STREAM_FAILED) {
		errno = st->rs.error;
		st->rs.error = 0;
		ret = -1;
	}
out:
	pthread_mutex_unlock(&st->rs.lock);
	return ret;
}

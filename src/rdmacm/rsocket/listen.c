/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "base/rules.h"
#include "rdmacm/rsocket/service.h"
#include "rdmacm/rsocket/stream.h"

/*
 * Theory of operation
 *
 * A request is answered when it comes, by the service thread, with a new stream that
 * stands in its listener's list until raccept() takes it; so a peer's connect ends
 * although the program has not come to raccept() yet, as with TCP. What the listener was
 * set to at that moment is what the new stream has. With backlog streams in the list
 * further requests are rejected.
 *
 * A child's and its listener's lock are never held together.
 */

#define BACKLOG_MAX 4096

int vb_stream_listen(struct vb_stream *st, int backlog)
{
	int ret = 0;

	if (backlog <= 0 || backlog > BACKLOG_MAX)
		backlog = BACKLOG_MAX;
	pthread_mutex_lock(&st->rs.lock);
	if (st->state == VB_STREAM_LISTENING) {
		st->backlog = backlog;
	} else if (st->state != VB_STREAM_BOUND && st->state != VB_STREAM_INIT) {
		ret = vb_fail_minus1(VB_RULE_RSOCKET_STATE, "rlisten fd=%d: it has a peer",
				     st->rs.fd);
	} else if (st->state == VB_STREAM_INIT) {
		/* As the system does: any address, a port that is free. */
		union vb_rs_addr any = {.sa.sa_family = (sa_family_t)st->rs.domain};

		ret = rdma_bind_addr(st->id, &any.sa);
		if (!ret)
			st->state = VB_STREAM_BOUND;
	}
	if (!ret && st->state == VB_STREAM_BOUND) {
		enum vb_stream_state before = st->state;

		/* Requests may come before the call returns. */
		st->backlog = backlog;
		st->state = VB_STREAM_LISTENING;
		ret = rdma_listen(st->id, backlog);
		if (ret)
			st->state = before;
	}
	pthread_mutex_unlock(&st->rs.lock);
	return ret;
}

void vb_stream_refuse(struct rdma_cm_id *id)
{
	id->context = NULL;
	rdma_reject(id, NULL, 0);
	rdma_destroy_id(id);
}

static struct vb_stream *new_child(struct vb_stream *listener, struct rdma_cm_event *event)
{
	struct vb_stream *child;

	pthread_mutex_lock(&listener->rs.lock);
	if (listener->state != VB_STREAM_LISTENING || listener->rs.closed ||
	    listener->n_children >= listener->backlog) {
		pthread_mutex_unlock(&listener->rs.lock);
		return NULL;
	}
	pthread_mutex_unlock(&listener->rs.lock);
	child = vb_stream_create(listener->rs.process, listener->rs.domain);
	if (!child)
		return NULL;
	pthread_mutex_lock(&listener->rs.lock);
	child->rs.conf = listener->rs.conf;
	child->rs.options = listener->rs.options;
	child->rs.linger = listener->rs.linger;
	child->rs.keepalive_s = listener->rs.keepalive_s;
	child->want_keepalive = vb_rs_flag(&listener->rs, VB_RS_KEEPALIVE);
	pthread_mutex_unlock(&listener->rs.lock);
	child->state = VB_STREAM_ACCEPTING;
	child->id = event->id;
	event->id->context = child;
	if (vb_stream_open(child) || !vb_stream_learn(child, event->param.conn.private_data,
						      event->param.conn.private_data_len)) {
		/* The caller refuses; the id is not the child's any more. */
		vb_stream_release(child);
		child->id = NULL;
		vb_rs_put(&child->rs);
		return NULL;
	}
	return child;
}

static bool add_child(struct vb_stream *listener, struct vb_stream *child)
{
	bool added;

	pthread_mutex_lock(&listener->rs.lock);
	added = !listener->rs.closed;
	if (added) {
		child->next = listener->children;
		listener->children = child;
		listener->n_children++;
		child->listed = true;
		atomic_fetch_add(&listener->rs.refs, 1);
		child->listener = listener;
	}
	pthread_mutex_unlock(&listener->rs.lock);
	return added;
}

/* Take a child out of the list; its reference goes to the caller. Listener's lock held. */
static bool unlist(struct vb_stream *listener, struct vb_stream *child)
{
	struct vb_stream **at = &listener->children;

	if (!child->listed)
		return false;
	while (*at != child)
		at = &(*at)->next;
	*at = child->next;
	child->next = NULL;
	child->listed = false;
	listener->n_children--;
	if (child->ready)
		listener->n_ready--;
	return true;
}

static int answer(struct vb_stream *child, struct rdma_cm_event *event)
{
	struct rdma_conn_param param = event->param.conn;
	uint8_t data[VB_RS_CONN_BYTES];

	vb_stream_describe(child, data);
	param.private_data = data;
	param.private_data_len = sizeof(data);
	param.flow_control = 1;
	param.rnr_retry_count = 7;
	return rdma_accept(child->id, &param);
}

static void child_failed(struct vb_stream *listener, struct vb_stream *child)
{
	bool listed;

	pthread_mutex_lock(&listener->rs.lock);
	listed = unlist(listener, child);
	pthread_mutex_unlock(&listener->rs.lock);
	/* The caller has a reference of its own. */
	if (listed)
		vb_rs_put(&child->rs);
}

void vb_stream_requested(struct vb_stream *listener, struct rdma_cm_event *event)
{
	struct vb_stream *child = new_child(listener, event);

	if (!child) {
		vb_stream_refuse(event->id);
		return;
	}
	/* rclose() of the listener may let go of the child at any time. */
	atomic_fetch_add(&child->rs.refs, 1);
	if (!add_child(listener, child)) {
		rdma_reject(child->id, NULL, 0);
		vb_rs_put(&child->rs);
	} else if (answer(child, event)) {
		rdma_reject(child->id, NULL, 0);
		child_failed(listener, child);
	}
	vb_rs_put(&child->rs);
}

/* The listener of a child that may be in its list, with a reference. */
static struct vb_stream *listener_of(struct vb_stream *child)
{
	struct vb_stream *listener;

	pthread_mutex_lock(&child->rs.lock);
	listener = child->listener;
	if (listener)
		atomic_fetch_add(&listener->rs.refs, 1);
	pthread_mutex_unlock(&child->rs.lock);
	return listener;
}

static void child_connected(struct vb_stream *listener, struct vb_stream *child)
{
	pthread_mutex_lock(&child->rs.lock);
	child->state = VB_STREAM_CONNECTED;
	vb_stream_progress(child);
	pthread_mutex_unlock(&child->rs.lock);
	pthread_mutex_lock(&listener->rs.lock);
	if (child->listed) {
		child->ready = true;
		listener->n_ready++;
		/* Each is an edge of its own. */
		listener->rs.in_moves++;
		vb_stream_changed(listener);
		vb_rs_links_wake(&listener->rs.waiting);
	}
	pthread_mutex_unlock(&listener->rs.lock);
}

void vb_stream_accept_event(struct vb_stream *child, struct rdma_cm_event *event)
{
	struct vb_stream *listener = listener_of(child);

	if (!listener)
		return;
	switch (event->event) {
	case RDMA_CM_EVENT_ESTABLISHED:
		child_connected(listener, child);
		break;
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		child_failed(listener, child);
		break;
	default:
		break;
	}
	vb_rs_put(&listener->rs);
}

static void forget_listener(struct vb_stream *child)
{
	struct vb_stream *listener;

	pthread_mutex_lock(&child->rs.lock);
	listener = child->listener;
	child->listener = NULL;
	pthread_mutex_unlock(&child->rs.lock);
	if (listener)
		vb_rs_put(&listener->rs);
}

/* The oldest that is connected: the list begins with the newest. */
static struct vb_stream *oldest_ready(struct vb_stream *listener)
{
	struct vb_stream *found = NULL;

	for (struct vb_stream *child = listener->children; child; child = child->next)
		if (child->ready)
			found = child;
	return found;
}

struct vb_stream *vb_stream_accept(struct vb_stream *st)
{
	struct vb_stream *child = NULL;

	pthread_mutex_lock(&st->rs.lock);
	if (st->state != VB_STREAM_LISTENING)
		vb_fail(VB_RULE_RSOCKET_NOT_LISTENING, "raccept fd=%d", st->rs.fd);
	else if (!vb_rs_wait_limited(&st->rs, vb_stream_readable, vb_rs_nonblocking(&st->rs, 0),
				     st->rs.recv_wait_ns)) {
		child = oldest_ready(st);
		unlist(st, child);
		vb_stream_changed(st);
	}
	pthread_mutex_unlock(&st->rs.lock);
	if (child)
		forget_listener(child);
	return child;
}

void vb_stream_stop_listening(struct vb_stream *st)
{
	struct vb_stream *child;

	for (;;) {
		pthread_mutex_lock(&st->rs.lock);
		child = st->children;
		if (child)
			unlist(st, child);
		pthread_mutex_unlock(&st->rs.lock);
		if (!child)
			return;
		forget_listener(child);
		vb_stream_close(child);
		vb_rs_put(&child->rs);
	}
}

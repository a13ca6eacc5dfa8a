/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion channels. A record in the pipe names a CQ and one of its armings; it becomes
 * an event only when that arming is one whose event was not delivered yet, so records
 * that come twice, are stale, or were scribbled are passed over.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/engine.h"
#include "engine/receive.h"
#include "host/eventpipe.h"
#include "host/notify.h"
#include "host/words.h"
#include "object/channel.h"
#include "object/device.h"
#include "verbs/check.h"
#include "verbs/channel.h"

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct vb_context *ctx = vb_context_of(context);
	struct vb_channel *channel;
	int fds[2];

	if (vb_check_usable(ctx, "ibv_create_comp_channel"))
		return NULL;
	channel = calloc(1, sizeof(*channel));
	if (!channel)
		return vb_fail_null(VB_RULE_NO_MEMORY, "completion channel");
	if (vb_eventpipe_begin(fds)) {
		free(channel);
		return vb_fail_null(VB_RULE_CHANNEL_DESCRIPTORS, "%s", context->device->name);
	}
	if (vb_idtable_add(&ctx->channels, channel, &channel->handle)) {
		close(fds[0]);
		close(fds[1]);
		free(channel);
		return vb_fail_null(VB_RULE_NO_MEMORY, "completion channel");
	}
	channel->ibv.context = context;
	channel->ibv.fd = fds[0];
	channel->write_fd = fds[1];
	pthread_mutex_init(&channel->lock, NULL);
	return &channel->ibv;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *ibv)
{
	struct vb_context *ctx = vb_context_of(ibv->context);
	struct vb_channel *channel = vb_channel_of(ibv);
	int refcnt;

	if (vb_check_alive(ctx, "ibv_destroy_comp_channel"))
		return errno;
	pthread_mutex_lock(&ibv->context->mutex);
	refcnt = ibv->refcnt;
	if (!refcnt)
		vb_idtable_remove(&ctx->channels, channel->handle);
	pthread_mutex_unlock(&ibv->context->mutex);
	if (refcnt)
		return vb_fail(VB_RULE_BUSY, "ibv_destroy_comp_channel fd=%d: %d CQs use it",
			       ibv->fd, refcnt);
	vb_peer_event_forget(ctx->adapter->self, channel->write_fd);
	close(ibv->fd);
	close(channel->write_fd);
	pthread_mutex_destroy(&channel->lock);
	free(channel);
	return 0;
}

/* The arming a record was written for, with the upper bits the record has no room for. */
static uint64_t arming_of(const struct vb_cq *cq, uint64_t record)
{
	return cq->arm_seq - ((cq->arm_seq - record) & VB_EVENT_SEQ_MASK);
}

/* Is this the first record of an arming? Two readers may come to two records in either
 * order, so the armings before the last are remembered too. */
static bool first_record(struct vb_cq *cq, uint64_t seq)
{
	uint64_t behind = cq->event_seq - seq;

	if (seq > cq->arm_seq)
		return false;
	if (seq > cq->event_seq) {
		uint64_t ahead = seq - cq->event_seq;

		cq->event_seen = ahead < 64 ? cq->event_seen << ahead | 1 : 1;
		cq->event_seq = seq;
		return true;
	}
	if (behind >= 64 || cq->event_seen & 1ull << behind)
		return false;
	cq->event_seen |= 1ull << behind;
	return true;
}

/* Turn a record into an event. NULL for one that is no event, unless @anyway: then the
 * CQ only must be there. */
static struct vb_cq *deliver(struct vb_engine *engine, struct ibv_comp_channel *channel,
			     uint64_t record, bool anyway)
{
	uint32_t token = vb_grace_enter(&engine->grace);
	struct vb_cq *cq = vb_sparse_get(&engine->cqs, (uint32_t)(record >> VB_EVENT_SEQ_BITS));
	bool event = false;
	uint64_t seq;

	if (cq && cq->ibv.channel == channel) {
		vb_spin_lock(&cq->lock);
		seq = arming_of(cq, record);
		event = first_record(cq, seq) || anyway;
		if (event)
			atomic_fetch_add(&cq->handed, 1);
		vb_spin_unlock(&cq->lock);
	}
	vb_grace_leave(&engine->grace, token);
	return event ? cq : NULL;
}

/* Would the next read wait? A program that has seen the descriptor readable does not
 * expect that: it is given an event with nothing behind it, which polling finds out. */
static bool would_wait(int fd)
{
	struct pollfd in = {.fd = fd, .events = POLLIN};
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && !(flags & O_NONBLOCK) && poll(&in, 1, 0) == 0;
}

static int read_failed(const struct ibv_comp_channel *channel, ssize_t n)
{
	if (n < 0 && errno == EAGAIN)
		return vb_fail_minus1(VB_RULE_CHANNEL_EMPTY, "fd=%d", channel->fd);
	if (n < 0 && errno == EINTR)
		return vb_fail_minus1(VB_RULE_CHANNEL_SIGNAL, "fd=%d", channel->fd);
	return vb_fail_minus1(VB_RULE_CHANNEL_FD, "fd=%d: %s", channel->fd,
			      n < 0 ? strerror(errno) : "not a record");
}

/* A CQ of the channel that will raise no event though completions wait in it. */
static int hint_unarmed(void *object, void *arg)
{
	struct vb_cq *cq = object;
	uint64_t waiting;

	if (cq->ibv.channel != arg || vb_arm_state(atomic_load(&cq->mbx->arm)) != VB_ARM_NONE)
		return 0;
	waiting = atomic_load(&cq->mbx->added) - atomic_load(&cq->pub->removed);
	if (waiting)
		vb_explain(
			VB_RULE_WAIT_UNARMED,
			"channel fd=%d is waited on: cq#%u holds %llu completions and is not armed",
			cq->ibv.channel->fd, cq->ibv.handle, (unsigned long long)waiting);
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	struct vb_context *ctx = vb_context_of(channel->context);
	struct vb_cq *found = NULL;
	uint64_t record;
	ssize_t n;

	if (vb_check_alive(ctx, "ibv_get_cq_event"))
		return -1;
	if (vb_explain_on() &&
	    poll(&(struct pollfd){.fd = channel->fd, .events = POLLIN}, 1, 0) == 0)
		vb_idtable_each(&ctx->cqs, hint_unarmed, channel);
	while (!found) {
		n = read(channel->fd, &record, sizeof(record));
		if (n != (ssize_t)sizeof(record))
			return read_failed(channel, n);
		found = deliver(ctx->engine, channel, record, false);
		if (!found && would_wait(channel->fd))
			found = deliver(ctx->engine, channel, record, true);
	}
	*cq = &found->ibv;
	*cq_context = found->ibv.cq_context;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += nevents;
	pthread_cond_signal(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}

void vb_channel_arm(struct vb_channel *channel)
{
	if (atomic_load_explicit(&channel->armed, memory_order_relaxed))
		return;
	vb_eventpipe_finish(channel->write_fd);
	atomic_store_explicit(&channel->armed, true, memory_order_relaxed);
}

void vb_channel_purge(struct vb_channel *channel, uint32_t cq_index)
{
	uint64_t records[512];
	size_t kept = 0;
	char path[64];
	int fd;

	/* Nothing was ever written to it. */
	if (!atomic_load(&channel->armed))
		return;

	/* A non-blocking descriptor of our own: the program's may block, and other
	 * threads may be reading. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", channel->ibv.fd);
	fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return; /* a stale record is passed over when it is read */
	pthread_mutex_lock(&channel->lock);
	while (kept < sizeof(records) / sizeof(records[0]) &&
	       read(fd, &records[kept], sizeof(records[0])) == sizeof(records[0]))
		if (records[kept] >> VB_EVENT_SEQ_BITS != cq_index)
			kept++;
	for (size_t i = 0; i < kept; i++)
		if (write(channel->write_fd, &records[i], sizeof(records[0])) < 0)
			break;
	pthread_mutex_unlock(&channel->lock);
	close(fd);
}

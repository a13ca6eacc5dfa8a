/* SPDX-License-Identifier: BSD-2-Clause */
/* Event channels, and the events in them. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "rdmacm/cm.h"

/* How often a thread that took the last event may be waited for. */
#define RETURNS 1000

static struct cm_channel *channels;

static struct cm_channel *channel_of(struct rdma_event_channel *channel)
{
	return (struct cm_channel *)(void *)channel;
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct cm_device *devices;
	struct cm_channel *c;
	int n = cm_devices(&devices);

	if (!n)
		return NULL;
	/* Or the first connection would wait for what all need. */
	for (int i = 0; i < n; i++) {
		vb_agent_ready(devices[i].verbs);
		cm_device_pd(&devices[i]);
	}
	vb_explain_on();
	c = calloc(1, sizeof(*c));
	if (!c)
		return vb_fail_null(VB_RULE_CM_MEMORY, "an event channel");
	c->last = &c->first;
	c->alive = vb_fork_guard();
	/* Not a pipe: what is removed from the queue must not stay readable. */
	c->channel.fd = eventfd(0, EFD_CLOEXEC);
	if (c->channel.fd < 0) {
		free(c);
		return vb_fail_null(VB_RULE_CM_DESCRIPTORS, "an event channel: %s",
				    strerror(errno));
	}
	cm_event_spare();
	cm_lock();
	c->next = channels;
	channels = c;
	cm_unlock();
	return &c->channel;
}

/* Under the lock. */
static struct cm_channel **place_of(const struct rdma_event_channel *channel)
{
	struct cm_channel **at = &channels;

	while (*at && &(*at)->channel != channel)
		at = &(*at)->next;
	return at;
}

bool cm_channel_usable(const struct rdma_event_channel *channel, const char *call)
{
	bool there;

	if (!channel) {
		vb_fail(VB_RULE_CM_ARGUMENT, "%s: channel is NULL", call);
		return false;
	}
	cm_lock();
	there = *place_of(channel) != NULL;
	cm_unlock();
	if (!there) {
		vb_fail(VB_RULE_CM_ARGUMENT, "%s: channel %p is none, or not any more", call,
			(const void *)channel);
		return false;
	}
	if (!cm_alive(((const struct cm_channel *)(const void *)channel)->alive)) {
		vb_fail(VB_RULE_FORKED, "%s: channel fd=%d", call, channel->fd);
		return false;
	}
	return true;
}

/* Programs destroy the channel while a thread of theirs is about to wait for the next event
 * (rping): the kernel's thread would wait inside by then, for ever, and not be told. */
static void let_return(struct cm_channel *c)
{
	for (int i = 0; i < RETURNS; i++) {
		bool out;

		cm_lock();
		out = c->given && !c->inside && !pthread_equal(c->to, pthread_self());
		cm_unlock();
		if (!out)
			return;
		sched_yield();
	}
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	struct cm_channel *c = channel_of(channel), **at;
	struct cm_event *events, *event;
	bool alive, used;
	int fd;

	if (!channel)
		return;
	alive = cm_alive(c->alive);
	if (alive)
		let_return(c);
	cm_lock();
	at = place_of(channel);
	if (*at)
		*at = (*at)->next;
	events = c->first;
	c->first = NULL;
	c->last = &c->first;
	c->gone = true;
	fd = channel->fd;
	/* A thread of the parent's never leaves. */
	used = c->inside && alive;
	cm_unlock();
	while ((event = events)) {
		events = event->next;
		cm_event_free(event);
	}
	close(fd);
	if (!used)
		free(c);
}

/* Under the lock, as the next one. A channel that is there stays until its last user leaves. */
static bool enter(struct cm_channel *c)
{
	if (!*place_of(&c->channel) || !cm_alive(c->alive))
		return false;
	c->inside++;
	return true;
}

/* True: it was destroyed meanwhile, and must not be touched any more. */
static bool leave(struct cm_channel *c)
{
	bool gone = c->gone;

	if (!--c->inside && gone)
		free(c);
	return gone;
}

/* ---- The queue, under the lock ---- */

/* The descriptor holds 1 exactly while something is there, so that neither call waits. */
static void tell_readable(struct cm_channel *c)
{
	uint64_t one = 1;

	if (write(c->channel.fd, &one, sizeof(one)) < 0)
		return;
}

static void tell_empty(struct cm_channel *c)
{
	uint64_t value;

	if (!c->first && read(c->channel.fd, &value, sizeof(value)) < 0)
		return;
}

static void put(struct cm_channel *c, struct cm_event *event)
{
	bool was_empty = !c->first;

	event->next = NULL;
	*c->last = event;
	c->last = &event->next;
	if (was_empty)
		tell_readable(c);
}

static struct cm_event *get(struct cm_channel *c)
{
	struct cm_event *event = c->first;

	if (!event)
		return NULL;
	c->first = event->next;
	if (!c->first)
		c->last = &c->first;
	tell_empty(c);
	return event;
}

/* Somebody has it from now on. */
static void give_out(struct cm_event *event, struct cm_id *counts)
{
	event->counts = counts;
	counts->given_out++;
	event->next_out = counts->out;
	event->at_out = &counts->out;
	if (counts->out)
		counts->out->at_out = &event->next_out;
	counts->out = event;
}

/* Returns where somebody waits for it, or NULL. */
static uint32_t *take_back(struct cm_event *event)
{
	struct cm_id *counts = event->counts;

	*event->at_out = event->next_out;
	if (event->next_out)
		event->next_out->at_out = event->at_out;
	counts->given_out--;
	return counts->awaited ? &counts->given_out : NULL;
}

/* Not under the lock: who acknowledges an event of an id that somebody destroys goes on to wait for
 * the next one, and has to be there before its channel is gone. The id may be gone by now; its
 * address is all that counts. */
static void wake(uint32_t *given_out)
{
	syscall(SYS_futex, given_out, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Take those out that are an id's. */
static struct cm_event *take_out(struct cm_channel *c, const struct cm_id *id)
{
	struct cm_event *out = NULL, **end = &out, **at = &c->first;
	bool was_empty = !c->first;

	while (*at) {
		struct cm_event *event = *at;

		if (event->counts != id && event->id != id) {
			at = &event->next;
			continue;
		}
		*at = event->next;
		event->next = NULL;
		*end = event;
		end = &event->next;
	}
	c->last = at;
	if (!was_empty)
		tell_empty(c);
	return out;
}

static bool is_request(const struct cm_event *event)
{
	return event->event.event == RDMA_CM_EVENT_CONNECT_REQUEST;
}

struct cm_event *cm_channel_forget(struct cm_id *id)
{
	struct cm_event *events, *requests = NULL;

	cm_lock();
	events = take_out(channel_of(id->id.channel), id);
	cm_unlock();
	while (events) {
		struct cm_event *event = events;

		events = event->next;
		if (is_request(event) && event->id != id) {
			event->next = requests;
			requests = event;
		} else {
			cm_event_free(event);
		}
	}
	return requests;
}

/* ---- Events ---- */

void cm_event_post(struct cm_event *event)
{
	cm_lock();
	/* The listener may have moved since its child was made. */
	if (is_request(event))
		event->id->id.channel = event->counts->id.channel;
	put(channel_of(event->counts->id.channel), event);
	cm_unlock();
}

int cm_event_report(struct cm_id *id, int type, int status)
{
	struct cm_event *event = cm_event_new(id, type, status);

	if (!event)
		return -1;
	cm_event_post(event);
	return 0;
}

/* The library's own part of an event. */
static void act_on(struct cm_event *event)
{
	switch (event->event.event) {
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		cm_reply_arrived(event);
		break;
	case RDMA_CM_EVENT_REJECTED:
		cm_qp_error(event->id);
		break;
	case RDMA_CM_EVENT_MULTICAST_JOIN:
		cm_joined(event);
		break;
	default:
		break;
	}
}

/* Who waits in the kernel on a channel that another thread destroys goes on waiting. */
static void wait_for_ever(void)
{
	for (;;)
		pause();
}

/* Until it is readable: 0. -1: it does not wait, or a signal ended the call, as it ends the system
 * call of the real library. 1: there is no such descriptor. */
static int wait_readable(int fd)
{
	struct pollfd readable = {.fd = fd, .events = POLLIN};
	int flags = fcntl(fd, F_GETFL);

	if (flags >= 0 && flags & O_NONBLOCK)
		return vb_fail_minus1(VB_RULE_CM_NO_EVENT, "channel fd=%d", fd);
	if (poll(&readable, 1, -1) < 0)
		return -1;
	return flags < 0 || readable.revents & POLLNVAL;
}

/* Until there is an event, which is the caller's then; NULL: errno says why not. Gives the lock
 * back. */
static struct cm_event *wait_event(struct cm_channel *c)
{
	struct cm_event *event = NULL;
	int end = 0, err, fd = c->channel.fd;
	bool gone;

	while (!end && !c->gone && !(event = get(c))) {
		cm_unlock();
		end = wait_readable(fd);
		cm_lock();
	}
	if (event) {
		give_out(event, event->counts);
		/* As in the kernel: what the program has is not in the backlog, answered or not. */
		if (is_request(event))
			cm_uncount(event->id);
		c->given = true;
		c->to = pthread_self();
	}
	err = errno;
	gone = leave(c);
	cm_unlock();
	if (!event && end >= 0 && (gone || end))
		wait_for_ever();
	errno = err;
	return event;
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **out)
{
	struct cm_channel *c = channel_of(channel);
	struct cm_event *event;

	if (!out)
		return vb_fail_minus1(VB_RULE_CM_ARGUMENT, "event is NULL");
	cm_lock();
	if (!channel || !enter(c)) {
		cm_unlock();
		/* Another of this address may be there by now. */
		if (cm_channel_usable(channel, "rdma_get_cm_event"))
			vb_fail(VB_RULE_CM_ARGUMENT, "channel %p is another", (void *)channel);
		return -1;
	}
	event = wait_event(c);
	if (!event)
		return -1;
	act_on(event);
	cm_explain_padded(event);
	*out = &event->event;
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *acked)
{
	struct cm_event *event = (struct cm_event *)(void *)acked;

	if (!event)
		return vb_fail_minus1(VB_RULE_CM_ARGUMENT, "event is NULL");
	if (!event->counts)
		return vb_fail_minus1(VB_RULE_CM_ARGUMENT, "event %p was acknowledged before",
				      (void *)acked);
	if (cm_alive(event->counts->alive)) {
		uint32_t *given_out;

		cm_lock();
		given_out = take_back(event);
		cm_unlock();
		if (given_out)
			wake(given_out);
	}
	cm_event_free(event);
	return 0;
}

void cm_wait_acked(struct cm_id *id, const char *call)
{
	cm_lock();
	id->awaited = true;
	if (id->given_out)
		cm_explain_unacked(id, call);
	while (id->given_out) {
		uint32_t n = id->given_out;

		cm_unlock();
		syscall(SYS_futex, &id->given_out, FUTEX_WAIT_PRIVATE, n, NULL, NULL, 0);
		cm_lock();
	}
	id->awaited = false;
	cm_unlock();
}

/* ---- Moving ---- */

/* Under the lock. Nobody has the ids of queued requests yet: they go with their listener, and
 * what has happened to them since. */
static void move(struct cm_id *id, struct rdma_event_channel *channel)
{
	struct cm_event *events = take_out(channel_of(id->id.channel), id);

	id->id.channel = channel;
	while (events) {
		struct cm_event *event = events;

		events = event->next;
		put(channel_of(channel), event);
		if (is_request(event) && event->id != id)
			move(event->id, channel);
	}
}

int rdma_migrate_id(struct rdma_cm_id *rid, struct rdma_event_channel *channel)
{
	struct cm_id *id = cm_id_of(rid);
	struct rdma_event_channel *before, *own = NULL;
	bool was_sync;

	if (!cm_usable(rid, "rdma_migrate_id") ||
	    (channel && !cm_channel_usable(channel, "rdma_migrate_id")))
		return -1;
	before = rid->channel;
	was_sync = id->sync;
	if (!channel) {
		own = rdma_create_event_channel();
		if (!own)
			return -1;
		channel = own;
	}
	if (id->id.event)
		rdma_ack_cm_event(id->id.event);
	id->id.event = NULL;
	cm_lock();
	id->sync = own != NULL;
	move(id, channel);
	cm_unlock();
	cm_wait_acked(id, "rdma_migrate_id");
	if (was_sync)
		rdma_destroy_event_channel(before);
	return 0;
}

void cm_move_request(struct cm_id *id, struct rdma_event_channel *channel,
		     struct rdma_cm_event *request)
{
	struct cm_event *event = (struct cm_event *)(void *)request;
	uint32_t *given_out;

	cm_lock();
	move(id, channel);
	id->sync = true;
	given_out = take_back(event);
	give_out(event, id);
	id->id.event = request;
	cm_unlock();
	wake(given_out);
}

int rdma_write_cm_event(struct rdma_cm_id *rid, enum rdma_cm_event_type type, int status,
			uint64_t arg)
{
	struct cm_event *event;

	if (!cm_usable(rid, "rdma_write_cm_event"))
		return -1;
	if ((int)type != VB_CM_EVENT_USER)
		return vb_fail_minus1(VB_RULE_CM_ARGUMENT, "event=%d, want RDMA_CM_EVENT_USER",
				      (int)type);
	event = cm_event_new(cm_id_of(rid), (int)type, status);
	if (!event)
		return -1;
	/* Newer headers call this place param.arg. */
	memcpy(&event->event.param, &arg, sizeof(arg));
	cm_event_post(event);
	return 0;
}

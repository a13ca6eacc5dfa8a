/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/rsocket/repoll.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/rules.h"
#include "rdmacm/newer.h"
#include "rdmacm/rsocket/pollset.h"
#include "rdmacm/rsocket/socket.h"
#include "rdmacm/rsocket/table.h"

/*
 * Theory of operation
 *
 * The descriptor is a kernel's epoll, and ordinary descriptors are in it as usual. What
 * is an rsocket stands in a list of ours. A wait looks at the list, then at the kernel's,
 * and sleeps on both: on the epoll descriptor itself and on what tells of the rsockets'
 * completions.
 *
 * An item holds no reference: like the kernel's it goes when its descriptor is closed. A
 * number that means another socket by then is told apart by the socket's serial number.
 *
 * Edges: a socket counts how often it became readable and writable; an item remembers the
 * counts it told last.
 */

struct item {
	struct item *next;
	int fd;
	uint64_t serial; /* of the socket: the number may mean another one day */
	struct epoll_event event;
	bool off; /* EPOLLONESHOT, told */
	uint64_t in_moves, out_moves;
	bool told; /* something, ever: edge-triggered */
	/* During a wait */
	struct vb_rs *held;
	struct vb_rs_link link;
};

struct repoll {
	struct vb_rs rs;
	struct item *items;
	int n_items;
};

/* A wait's own copy of the list: another thread may change it meanwhile. */
struct snapshot {
	struct item *items;
	int n;
	struct pollfd *sleep; /* items, the epoll descriptor, the waiter */
};

static struct repoll *repoll_of(struct vb_rs *rs)
{
	return (struct repoll *)rs;
}

int repoll_create(int size)
{
	struct vb_rs_process *process = vb_rs_process_get();
	struct repoll *ep;
	int fd;

	if (size <= 0)
		return vb_fail_minus1(VB_RULE_RSOCKET_VALUE, "repoll_create: size=%d", size);
	if (!process)
		return -1;
	ep = calloc(1, sizeof(*ep));
	if (!ep)
		return -1;
	vb_rs_init(&ep->rs, VB_RS_REPOLL, 0);
	fd = epoll_create1(EPOLL_CLOEXEC);
	ep->rs.fd = fd;
	if (fd < 0 || vb_rs_table_put(process, fd, &ep->rs)) {
		vb_rs_put(&ep->rs);
		return -1;
	}
	return fd;
}

void vb_repoll_close(struct vb_rs *rs)
{
	pthread_mutex_lock(&rs->lock);
	rs->closed = true;
	vb_rs_links_wake(&rs->waiting);
	pthread_mutex_unlock(&rs->lock);
}

void vb_repoll_destroy(struct vb_rs *rs)
{
	struct repoll *ep = repoll_of(rs);
	struct item *item;

	while ((item = ep->items)) {
		ep->items = item->next;
		free(item);
	}
	/* Not at rclose(): a wait of another thread sleeps on it. */
	if (rs->fd >= 0)
		close(rs->fd);
	vb_rs_fini(rs);
	free(ep);
}

static struct repoll *lookup(int epfd, const char *what)
{
	struct vb_rs *rs = vb_rs_table_find(epfd);

	if (!rs)
		return vb_fail_null(VB_RULE_RSOCKET_UNKNOWN, "%s epfd=%d", what, epfd);
	if (rs->kind != VB_RS_REPOLL) {
		vb_fail(VB_RULE_RSOCKET_NO_EPOLL, "%s epfd=%d", what, epfd);
		vb_rs_put(rs);
		return NULL;
	}
	return repoll_of(rs);
}

static struct item **find(struct repoll *ep, int fd, const struct vb_rs *rs)
{
	struct item **at = &ep->items;

	while (*at && ((*at)->fd != fd || (*at)->serial != rs->serial))
		at = &(*at)->next;
	return at;
}

static void set_item(struct item *item, const struct epoll_event *event)
{
	item->event = *event;
	item->off = false;
	item->told = false;
}

static int add_item(struct repoll *ep, int fd, const struct vb_rs *rs,
		    const struct epoll_event *event)
{
	struct item *item = calloc(1, sizeof(*item));

	if (!item)
		return -1;
	item->fd = fd;
	item->serial = rs->serial;
	set_item(item, event);
	item->next = ep->items;
	ep->items = item;
	ep->n_items++;
	return 0;
}

static void remove_item(struct repoll *ep, struct item **at)
{
	struct item *item = *at;

	*at = item->next;
	ep->n_items--;
	free(item);
}

/* An entry of a socket that had this number before. */
static void forget_stale(struct repoll *ep, int fd, const struct vb_rs *rs)
{
	for (struct item **at = &ep->items; *at;) {
		if ((*at)->fd == fd && (*at)->serial != rs->serial)
			remove_item(ep, at);
		else
			at = &(*at)->next;
	}
}

static int change(struct repoll *ep, int op, int fd, struct vb_rs *rs,
		  const struct epoll_event *event)
{
	struct item **at;

	forget_stale(ep, fd, rs);
	at = find(ep, fd, rs);
	switch (op) {
	case EPOLL_CTL_ADD:
		if (*at)
			return vb_fail_minus1(VB_RULE_REPOLL_EXISTS, "repoll_ctl fd=%d", fd);
		return add_item(ep, fd, rs, event);
	case EPOLL_CTL_MOD:
	case EPOLL_CTL_DEL:
		if (!*at)
			return vb_fail_minus1(VB_RULE_REPOLL_ABSENT, "repoll_ctl fd=%d", fd);
		if (op == EPOLL_CTL_MOD)
			set_item(*at, event);
		else
			remove_item(ep, at);
		return 0;
	default:
		return vb_fail_minus1(VB_RULE_RSOCKET_VALUE, "repoll_ctl: op=%d", op);
	}
}

int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	struct repoll *ep = lookup(epfd, "repoll_ctl");
	struct vb_rs *rs;
	int ret;

	if (!ep)
		return -1;
	if (op != EPOLL_CTL_DEL && !event) {
		ret = vb_fail_minus1(VB_RULE_RSOCKET_BUFFERS, "repoll_ctl fd=%d: no event", fd);
		vb_rs_put(&ep->rs);
		return ret;
	}
	rs = vb_rs_table_find(fd);
	if (rs && rs->kind != VB_RS_REPOLL) {
		pthread_mutex_lock(&ep->rs.lock);
		ret = change(ep, op, fd, rs, event);
		/* Who waits has the list of before. */
		vb_rs_links_wake(&ep->rs.waiting);
		pthread_mutex_unlock(&ep->rs.lock);
	} else {
		ret = epoll_ctl(ep->rs.fd, op, fd, event);
	}
	if (rs)
		vb_rs_put(rs);
	vb_rs_put(&ep->rs);
	return ret;
}

/* The events an edge-triggered item has to tell: those that moved since. Socket's lock held. */
static uint32_t fresh_edges(struct item *item, const struct vb_rs *rs, uint32_t events)
{
	if (item->told && item->in_moves == rs->in_moves)
		events &= ~(uint32_t)(EPOLLIN | EPOLLRDNORM | EPOLLRDHUP);
	if (item->told && item->out_moves == rs->out_moves)
		events &= ~(uint32_t)(EPOLLOUT | EPOLLWRNORM);
	if (item->told && item->in_moves == rs->in_moves && item->out_moves == rs->out_moves)
		events = 0;
	item->in_moves = rs->in_moves;
	item->out_moves = rs->out_moves;
	item->told = item->told || events;
	return events;
}

/* Return: the events of an item now; *gone: its socket was closed. */
static uint32_t look_at(struct item *item, bool *gone)
{
	struct vb_rs *rs = vb_rs_table_find(item->fd);
	uint32_t events = 0;

	*gone = !rs || rs->serial != item->serial;
	if (!*gone) {
		pthread_mutex_lock(&rs->lock);
		vb_rs_progress(rs);
		if (!rs->closed)
			events = (uint16_t)vb_rs_revents(rs, (short)(item->event.events & 0xffff));
		if (item->event.events & EPOLLET)
			events = fresh_edges(item, rs, events);
		pthread_mutex_unlock(&rs->lock);
	}
	if (rs)
		vb_rs_put(rs);
	return events;
}

/* Return: how many were written to @events. */
static int look(struct repoll *ep, struct epoll_event *events, int most)
{
	struct item **at = &ep->items, *item;
	uint32_t got;
	bool gone = false;
	int n = 0;

	pthread_mutex_lock(&ep->rs.lock);
	while ((item = *at) && n < most) {
		got = item->off ? 0 : look_at(item, &gone);
		if (!item->off && gone) {
			remove_item(ep, at);
			continue;
		}
		at = &item->next;
		if (!got)
			continue;
		events[n] = (struct epoll_event){.events = got, .data = item->event.data};
		n++;
		item->off = item->event.events & EPOLLONESHOT;
	}
	pthread_mutex_unlock(&ep->rs.lock);
	if (n < most) {
		int more = epoll_wait(ep->rs.fd, events + n, most - n, 0);

		if (more < 0 && !n)
			return -1;
		n += more > 0 ? more : 0;
	}
	return n;
}

static int snapshot_init(struct repoll *ep, struct snapshot *shot, struct vb_rs_waiter *waiter)
{
	int i = 0;

	pthread_mutex_lock(&ep->rs.lock);
	shot->n = ep->n_items;
	shot->items = calloc((size_t)shot->n + 1, sizeof(*shot->items));
	shot->sleep = calloc((size_t)shot->n + 2, sizeof(*shot->sleep));
	for (struct item *item = ep->items; item && shot->items && shot->sleep; item = item->next) {
		struct item *copy = &shot->items[i++];

		copy->fd = item->fd;
		copy->held = item->off ? NULL : vb_rs_table_find(item->fd);
	}
	pthread_mutex_unlock(&ep->rs.lock);
	if (!shot->items || !shot->sleep) {
		free(shot->items);
		free(shot->sleep);
		errno = ENOMEM;
		return -1;
	}
	for (i = 0; i < shot->n; i++) {
		struct vb_rs *rs = shot->items[i].held;

		shot->sleep[i].fd = -1;
		if (!rs)
			continue;
		pthread_mutex_lock(&rs->lock);
		vb_rs_link_add(&rs->waiting, &shot->items[i].link, waiter);
		vb_rs_arm(rs);
		shot->sleep[i] = (struct pollfd){.fd = rs->event_fd, .events = POLLIN};
		pthread_mutex_unlock(&rs->lock);
	}
	shot->sleep[shot->n] = (struct pollfd){.fd = ep->rs.fd, .events = POLLIN};
	shot->sleep[shot->n + 1] = (struct pollfd){.fd = waiter->fd, .events = POLLIN};
	return 0;
}

static void snapshot_fini(struct snapshot *shot)
{
	for (int i = 0; i < shot->n; i++) {
		struct vb_rs *rs = shot->items[i].held;

		if (!rs)
			continue;
		pthread_mutex_lock(&rs->lock);
		if (shot->sleep[i].revents)
			vb_rs_drain(rs);
		vb_rs_link_remove(&shot->items[i].link);
		pthread_mutex_unlock(&rs->lock);
		vb_rs_put(rs);
	}
	free(shot->items);
	free(shot->sleep);
}

static bool is_closed(struct repoll *ep)
{
	bool closed;

	pthread_mutex_lock(&ep->rs.lock);
	closed = ep->rs.closed;
	pthread_mutex_unlock(&ep->rs.lock);
	return closed;
}

/* One sleep with the list as it is now. Return: as look(), 0 for "again". */
static int sleep_once(struct repoll *ep, struct epoll_event *events, int most, uint64_t until_ns,
		      struct vb_rs_waiter *waiter, bool *over)
{
	struct snapshot shot;
	int n, slept;

	if (snapshot_init(ep, &shot, waiter))
		return -1;
	n = look(ep, events, most);
	/* Whoever closes it from here on wakes this thread: it is in the list. */
	if (!n && is_closed(ep)) {
		errno = EBADF;
		n = -1;
	}
	if (!n) {
		slept = vb_rs_sleep(shot.sleep, (nfds_t)shot.n + 2, until_ns);
		*over = !slept;
		if (slept < 0)
			n = -1;
		vb_rs_waiter_clear(waiter);
	}
	snapshot_fini(&shot);
	return n;
}

static int wait_for(struct repoll *ep, struct epoll_event *events, int most, uint64_t until_ns)
{
	struct vb_rs_waiter waiter;
	struct vb_rs_link link;
	bool over = false;
	int n = 0;

	if (vb_rs_waiter_init(&waiter))
		return -1;
	pthread_mutex_lock(&ep->rs.lock);
	vb_rs_link_add(&ep->rs.waiting, &link, &waiter);
	pthread_mutex_unlock(&ep->rs.lock);
	while (!n) {
		n = sleep_once(ep, events, most, until_ns, &waiter, &over);
		if (n || over)
			break;
		n = look(ep, events, most);
	}
	pthread_mutex_lock(&ep->rs.lock);
	vb_rs_link_remove(&link);
	pthread_mutex_unlock(&ep->rs.lock);
	vb_rs_waiter_fini(&waiter);
	return n;
}

int repoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout)
{
	struct repoll *ep = lookup(epfd, "repoll_wait");
	uint64_t until;
	int n;

	if (!ep)
		return -1;
	if (maxevents <= 0 || !events) {
		n = vb_fail_minus1(VB_RULE_RSOCKET_VALUE, "repoll_wait: maxevents=%d", maxevents);
	} else {
		until = vb_rs_deadline(timeout);
		n = look(ep, events, maxevents);
		if (!n && until)
			n = wait_for(ep, events, maxevents, until);
	}
	vb_rs_put(&ep->rs);
	return n;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/rsocket/pollset.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include <rdma/rsocket.h>

#include "base/rules.h"
#include "base/spin.h"
#include "rdmacm/rsocket/socket.h"
#include "rdmacm/rsocket/table.h"

/*
 * Theory of operation
 *
 * The set is looked at as a whole: rsockets by their state, the others by poll(). Only if
 * nothing is there does the thread put itself into the list of every rsocket, arm them,
 * look once more and sleep on their event descriptors together with the ordinary ones.
 */

struct entry {
	struct vb_rs *rs; /* a reference; NULL: an ordinary descriptor */
	struct vb_rs_link link;
	int event_fd; /* what the sleep was on */
};

struct set {
	struct pollfd *fds;
	nfds_t n;
	struct entry *entries;
	struct pollfd *sleep; /* one for each, and one more: the waiter's own */
	nfds_t n_rs;
	uint32_t polling_us;
	struct vb_rs_waiter waiter;
};

uint64_t vb_rs_deadline(int timeout_ms)
{
	if (timeout_ms < 0)
		return UINT64_MAX;
	return timeout_ms ? vb_rs_now_ns() + (uint64_t)timeout_ms * 1000000 : 0;
}

int vb_rs_sleep(struct pollfd *fds, nfds_t nfds, uint64_t until_ns)
{
	struct timespec left = {0}, *timeout = &left;
	uint64_t now;

	if (until_ns == UINT64_MAX) {
		timeout = NULL;
	} else if (until_ns && until_ns > (now = vb_rs_now_ns())) {
		left.tv_sec = (time_t)((until_ns - now) / 1000000000);
		left.tv_nsec = (long)((until_ns - now) % 1000000000);
	}
	return ppoll(fds, nfds, timeout, NULL);
}

static int set_init(struct set *set, struct pollfd *fds, nfds_t n)
{
	*set = (struct set){.fds = fds, .n = n};
	set->entries = calloc(n, sizeof(*set->entries));
	set->sleep = calloc(n + 1, sizeof(*set->sleep));
	if (!set->entries || !set->sleep) {
		free(set->entries);
		free(set->sleep);
		errno = ENOMEM;
		return -1;
	}
	for (nfds_t i = 0; i < n; i++) {
		struct vb_rs *rs = fds[i].fd < 0 ? NULL : vb_rs_table_find(fds[i].fd);

		if (rs && rs->kind == VB_RS_REPOLL) {
			vb_rs_put(rs);
			rs = NULL;
		}
		set->entries[i].rs = rs;
		if (rs) {
			set->n_rs++;
			set->polling_us = rs->conf.polling_us;
		}
	}
	return 0;
}

static void set_fini(struct set *set)
{
	for (nfds_t i = 0; i < set->n; i++)
		if (set->entries[i].rs)
			vb_rs_put(set->entries[i].rs);
	free(set->entries);
	free(set->sleep);
}

/* Lock held. */
static short look_at(struct vb_rs *rs, short events)
{
	return rs->closed ? POLLNVAL : vb_rs_revents(rs, events);
}

/* Return: how many have something; the rsockets only. */
static int look_at_rsockets(struct set *set)
{
	int found = 0;

	for (nfds_t i = 0; i < set->n; i++) {
		struct vb_rs *rs = set->entries[i].rs;

		if (!rs)
			continue;
		pthread_mutex_lock(&rs->lock);
		vb_rs_progress(rs);
		set->fds[i].revents = look_at(rs, set->fds[i].events);
		pthread_mutex_unlock(&rs->lock);
		found += set->fds[i].revents != 0;
	}
	return found;
}

static void fill_ordinary(struct set *set)
{
	for (nfds_t i = 0; i < set->n; i++)
		set->sleep[i] = (struct pollfd){.fd = set->entries[i].rs ? -1 : set->fds[i].fd,
						.events = set->fds[i].events};
}

/* What the sleep array says of ordinary descriptors. Return: how many have something. */
static int take_ordinary(struct set *set)
{
	int found = 0;

	for (nfds_t i = 0; i < set->n; i++) {
		if (set->entries[i].rs)
			continue;
		set->fds[i].revents = set->sleep[i].revents;
		found += set->fds[i].revents != 0;
	}
	return found;
}

static int look(struct set *set)
{
	int found = look_at_rsockets(set);

	if (set->n_rs == set->n)
		return found;
	fill_ordinary(set);
	if (poll(set->sleep, set->n, 0) < 0)
		return -1;
	return found + take_ordinary(set);
}

static void join(struct set *set)
{
	for (nfds_t i = 0; i < set->n; i++) {
		struct vb_rs *rs = set->entries[i].rs;

		if (!rs)
			continue;
		pthread_mutex_lock(&rs->lock);
		vb_rs_link_add(&rs->waiting, &set->entries[i].link, &set->waiter);
		pthread_mutex_unlock(&rs->lock);
	}
}

static void leave(struct set *set)
{
	for (nfds_t i = 0; i < set->n; i++) {
		struct vb_rs *rs = set->entries[i].rs;

		if (!rs)
			continue;
		pthread_mutex_lock(&rs->lock);
		vb_rs_link_remove(&set->entries[i].link);
		pthread_mutex_unlock(&rs->lock);
	}
}

static void arm(struct set *set)
{
	fill_ordinary(set);
	for (nfds_t i = 0; i < set->n; i++) {
		struct vb_rs *rs = set->entries[i].rs;

		if (!rs)
			continue;
		pthread_mutex_lock(&rs->lock);
		vb_rs_arm(rs);
		set->sleep[i] = (struct pollfd){.fd = rs->event_fd, .events = POLLIN};
		pthread_mutex_unlock(&rs->lock);
	}
	set->sleep[set->n] = (struct pollfd){.fd = set->waiter.fd, .events = POLLIN};
}

static void drain(struct set *set)
{
	vb_rs_waiter_clear(&set->waiter);
	for (nfds_t i = 0; i < set->n; i++) {
		struct vb_rs *rs = set->entries[i].rs;

		if (!rs || !set->sleep[i].revents)
			continue;
		pthread_mutex_lock(&rs->lock);
		vb_rs_drain(rs);
		pthread_mutex_unlock(&rs->lock);
	}
}

static int wait_for(struct set *set, uint64_t until_ns)
{
	int found, slept;

	if (vb_rs_waiter_init(&set->waiter))
		return -1;
	join(set);
	do {
		arm(set);
		found = look_at_rsockets(set);
		slept = vb_rs_sleep(set->sleep, set->n + 1, found ? 0 : until_ns);
		if (slept < 0 && !found) {
			found = -1;
			break;
		}
		if (slept < 0)
			break;
		found += take_ordinary(set);
		drain(set);
		if (!found)
			found = look_at_rsockets(set);
	} while (!found && slept);
	leave(set);
	vb_rs_waiter_fini(&set->waiter);
	return found;
}

int vb_rs_poll_until(struct pollfd *fds, nfds_t nfds, uint64_t until_ns)
{
	uint64_t spin_until;
	struct set set;
	int found;

	if (set_init(&set, fds, nfds))
		return -1;
	found = look(&set);
	spin_until = vb_rs_now_ns() + (uint64_t)set.polling_us * 1000;
	while (!found && until_ns && set.n_rs && vb_rs_now_ns() < spin_until) {
		vb_pause();
		found = look(&set);
	}
	if (!found && until_ns)
		found = wait_for(&set, until_ns);
	set_fini(&set);
	return found;
}

int rpoll(struct pollfd *fds, nfds_t nfds, int timeout)
{
	struct rlimit limit;

	if (!nfds)
		return poll(fds, 0, timeout);
	if (!fds)
		return vb_fail_minus1(VB_RULE_RSOCKET_BUFFERS, "rpoll: no array");
	if (getrlimit(RLIMIT_NOFILE, &limit) || nfds > limit.rlim_max)
		return vb_fail_minus1(VB_RULE_RSOCKET_VALUE, "rpoll: nfds=%lu", nfds);
	return vb_rs_poll_until(fds, nfds, vb_rs_deadline(timeout));
}

/* The sets as an array of exactly what is asked for. */
static nfds_t to_array(int nfds, const fd_set *r, const fd_set *w, const fd_set *x,
		       struct pollfd *fds)
{
	nfds_t n = 0;

	for (int fd = 0; fd < nfds; fd++) {
		short events = 0;

		if (r && FD_ISSET(fd, r))
			events |= POLLIN;
		if (w && FD_ISSET(fd, w))
			events |= POLLOUT;
		if (x && FD_ISSET(fd, x))
			events |= POLLPRI;
		if (events)
			fds[n++] = (struct pollfd){.fd = fd, .events = events};
	}
	return n;
}

static int from_array(const struct pollfd *fds, nfds_t n, fd_set *r, fd_set *w, fd_set *x)
{
	int found = 0;

	if (r)
		FD_ZERO(r);
	if (w)
		FD_ZERO(w);
	if (x)
		FD_ZERO(x);
	for (nfds_t i = 0; i < n; i++) {
		short wanted = fds[i].events, got = fds[i].revents;

		if ((wanted & POLLIN) && (got & (POLLIN | POLLHUP | POLLERR))) {
			FD_SET(fds[i].fd, r);
			found++;
		}
		if ((wanted & POLLOUT) && (got & (POLLOUT | POLLERR))) {
			FD_SET(fds[i].fd, w);
			found++;
		}
		if ((wanted & POLLPRI) && (got & POLLPRI)) {
			FD_SET(fds[i].fd, x);
			found++;
		}
	}
	return found;
}

static int select_array(struct pollfd *fds, nfds_t n, uint64_t until_ns)
{
	int ret = n ? vb_rs_poll_until(fds, n, until_ns) : vb_rs_sleep(NULL, 0, until_ns);

	for (nfds_t i = 0; i < n && ret > 0; i++)
		if (fds[i].revents & POLLNVAL) {
			errno = EBADF;
			return -1;
		}
	return ret;
}

int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds, struct timeval *timeout)
{
	uint64_t until = UINT64_MAX, now;
	struct pollfd *fds;
	nfds_t n;
	int ret;

	if (nfds < 0 || nfds > FD_SETSIZE ||
	    (timeout &&
	     (timeout->tv_sec < 0 || timeout->tv_usec < 0 || timeout->tv_usec >= 1000000)))
		return vb_fail_minus1(VB_RULE_RSOCKET_VALUE, "rselect: nfds=%d or the timeout",
				      nfds);
	fds = calloc((size_t)nfds + 1, sizeof(*fds));
	if (!fds)
		return -1;
	n = to_array(nfds, readfds, writefds, exceptfds, fds);
	if (timeout) {
		until = (uint64_t)timeout->tv_sec * 1000000000 + (uint64_t)timeout->tv_usec * 1000;
		until = until ? until + vb_rs_now_ns() : 0;
	}
	ret = select_array(fds, n, until);
	if (ret >= 0)
		ret = from_array(fds, n, readfds, writefds, exceptfds);
	free(fds);
	/* Linux says what is left of it. */
	if (timeout && until) {
		now = vb_rs_now_ns();
		now = now < until ? until - now : 0;
		timeout->tv_sec = (time_t)(now / 1000000000);
		timeout->tv_usec = (suseconds_t)(now % 1000000000 / 1000);
	}
	return ret;
}

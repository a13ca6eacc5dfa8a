/* SPDX-License-Identifier: BSD-2-Clause */
/* Waiting: poll, select, epoll. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include <rdma/rsocket.h>

#include "rdmacm/newer.h"
#include "rdmacm/preload/preload.h"

/* The pair of an rsocket; a set of epoll_create() is an ordinary descriptor to poll(). */
static struct vb_pair *get_rsocket(int fd)
{
	struct vb_pair *pair = vb_pair_get(fd);

	if (pair && pair->epoll) {
		vb_pair_put(pair);
		return NULL;
	}
	return pair;
}

static bool is_rsocket(int fd)
{
	struct vb_pair *pair = get_rsocket(fd);

	if (pair)
		vb_pair_put(pair);
	return pair;
}

static bool any_pair(const struct pollfd *fds, nfds_t n)
{
	for (nfds_t i = 0; i < n; i++)
		if (is_rsocket(fds[i].fd))
			return true;
	return false;
}

/* The array with the rsockets in it, each kept for the time of the call. */
static int poll_pairs(struct pollfd *fds, nfds_t n, int timeout)
{
	struct pollfd *copy = calloc(n, sizeof(*copy));
	struct vb_pair **pairs = calloc(n, sizeof(struct vb_pair *));
	int ret = -1;

	if (!copy || !pairs)
		goto out;
	for (nfds_t i = 0; i < n; i++) {
		copy[i] = fds[i];
		pairs[i] = get_rsocket(fds[i].fd);
		if (pairs[i])
			copy[i].fd = pairs[i]->rs;
	}
	ret = rpoll(copy, n, timeout);
	for (nfds_t i = 0; i < n; i++) {
		fds[i].revents = copy[i].revents;
		if (pairs[i])
			vb_pair_put(pairs[i]);
	}
out:
	free(copy);
	free(pairs);
	return ret;
}

int poll(struct pollfd *fds, nfds_t n, int timeout)
{
	return any_pair(fds, n) ? poll_pairs(fds, n, timeout) : vb_real()->poll(fds, n, timeout);
}

int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t room)
{
	return poll(fds, n, timeout);
}

static int to_ms(const struct timespec *limit)
{
	if (!limit)
		return -1;
	if (limit->tv_sec > 2000000)
		return 2000000000;
	return (int)(limit->tv_sec * 1000 + (limit->tv_nsec + 999999) / 1000000);
}

/* The set of a number; not for the libraries below, for which it is the kernel's. */
static struct vb_pair *get_set(int fd, const void *caller)
{
	struct vb_pair *pair = vb_pair_get(fd);

	if (pair && (!pair->epoll || vb_called_by_us(caller))) {
		vb_pair_put(pair);
		return NULL;
	}
	return pair;
}

/* Not in one step with the wait, as the system does it: nearly. */
static void swap_mask(const sigset_t *mask, sigset_t *old)
{
	if (mask)
		pthread_sigmask(SIG_SETMASK, mask, old);
}

int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *limit, const sigset_t *mask)
{
	sigset_t old;
	int ret;

	if (!any_pair(fds, n))
		return vb_real()->ppoll(fds, n, limit, mask);
	swap_mask(mask, &old);
	ret = poll_pairs(fds, n, to_ms(limit));
	swap_mask(mask ? &old : NULL, NULL);
	return ret;
}

int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *limit, const sigset_t *mask,
		size_t room)
{
	return ppoll(fds, n, limit, mask);
}

static bool is_in(int fd, const fd_set *set)
{
	return set && FD_ISSET(fd, set);
}

static bool any_selected(int n, const fd_set *r, const fd_set *w, const fd_set *x)
{
	for (int fd = 0; fd < n && fd < FD_SETSIZE; fd++)
		if ((is_in(fd, r) || is_in(fd, w) || is_in(fd, x)) && is_rsocket(fd))
			return true;
	return false;
}

static nfds_t to_array(int n, const fd_set *r, const fd_set *w, const fd_set *x, struct pollfd *fds)
{
	nfds_t count = 0;

	for (int fd = 0; fd < n; fd++) {
		short events = (short)((is_in(fd, r) ? POLLIN : 0) | (is_in(fd, w) ? POLLOUT : 0) |
				       (is_in(fd, x) ? POLLPRI : 0));

		if (events)
			fds[count++] = (struct pollfd){.fd = fd, .events = events};
	}
	return count;
}

static int from_array(const struct pollfd *fds, nfds_t n, fd_set *r, fd_set *w, fd_set *x)
{
	int found = 0;

	for (nfds_t i = 0; i < n; i++) {
		short wanted = fds[i].events, got = fds[i].revents;
		int fd = fds[i].fd;

		if (wanted & POLLIN) {
			FD_CLR(fd, r);
			if (got & (POLLIN | POLLHUP | POLLERR)) {
				FD_SET(fd, r);
				found++;
			}
		}
		if (wanted & POLLOUT) {
			FD_CLR(fd, w);
			if (got & (POLLOUT | POLLERR)) {
				FD_SET(fd, w);
				found++;
			}
		}
		if (wanted & POLLPRI) {
			FD_CLR(fd, x);
			if (got & POLLPRI) {
				FD_SET(fd, x);
				found++;
			}
		}
	}
	return found;
}

static int select_pairs(int n, fd_set *r, fd_set *w, fd_set *x, int timeout)
{
	struct pollfd *fds;
	nfds_t count;
	int ret;

	if (n < 0 || n > FD_SETSIZE) {
		errno = EINVAL;
		return -1;
	}
	fds = calloc((size_t)n + 1, sizeof(*fds));
	if (!fds)
		return -1;
	count = to_array(n, r, w, x, fds);
	ret = poll_pairs(fds, count, timeout);
	for (nfds_t i = 0; ret > 0 && i < count; i++)
		if (fds[i].revents & POLLNVAL) {
			errno = EBADF;
			ret = -1;
		}
	if (ret >= 0)
		ret = from_array(fds, count, r, w, x);
	free(fds);
	return ret;
}

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

int select(int n, fd_set *r, fd_set *w, fd_set *x, struct timeval *limit)
{
	struct timespec wait;
	uint64_t begin, left;
	int ret;

	if (!any_selected(n, r, w, x))
		return vb_real()->select(n, r, w, x, limit);
	if (!limit)
		return select_pairs(n, r, w, x, -1);
	wait = (struct timespec){.tv_sec = limit->tv_sec, .tv_nsec = limit->tv_usec * 1000};
	begin = now_us();
	ret = select_pairs(n, r, w, x, to_ms(&wait));
	/* Linux says what is left of it. */
	left = (uint64_t)limit->tv_sec * 1000000 + (uint64_t)limit->tv_usec;
	begin = now_us() - begin;
	left = begin < left ? left - begin : 0;
	limit->tv_sec = (time_t)(left / 1000000);
	limit->tv_usec = (suseconds_t)(left % 1000000);
	return ret;
}

int pselect(int n, fd_set *r, fd_set *w, fd_set *x, const struct timespec *limit,
	    const sigset_t *mask)
{
	sigset_t old;
	int ret;

	if (!any_selected(n, r, w, x))
		return vb_real()->pselect(n, r, w, x, limit, mask);
	swap_mask(mask, &old);
	ret = select_pairs(n, r, w, x, to_ms(limit));
	swap_mask(mask ? &old : NULL, NULL);
	return ret;
}

static int create_set(int flags)
{
	struct vb_pair *pair;
	int fd;

	fd = repoll_create(1);
	if (fd < 0)
		return fd;
	if (!(flags & EPOLL_CLOEXEC))
		vb_real()->fcntl(fd, F_SETFD, 0);
	pair = vb_pair_create(fd);
	if (!pair) {
		rclose(fd);
		return -1;
	}
	pair->epoll = true;
	if (vb_pair_enter(fd, pair)) {
		vb_pair_put(pair);
		return -1;
	}
	return fd;
}

int epoll_create1(int flags)
{
	if ((flags & ~EPOLL_CLOEXEC) || vb_called_by_us(__builtin_return_address(0)))
		return vb_real()->epoll_create1(flags);
	return create_set(flags);
}

int epoll_create(int size)
{
	if (size <= 0) {
		errno = EINVAL;
		return -1;
	}
	return create_set(0);
}

int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	struct vb_pair *set = get_set(epfd, __builtin_return_address(0)), *pair;
	int ret;

	if (!set)
		return vb_real()->epoll_ctl(epfd, op, fd, event);
	pair = get_rsocket(fd);
	ret = repoll_ctl(set->rs, op, pair ? pair->rs : fd, event);
	/* A child's, after fork: the kernel's part is what is left of it. */
	if (ret && errno == EBADF)
		ret = vb_real()->epoll_ctl(epfd, op, fd, event);
	if (pair)
		vb_pair_put(pair);
	vb_pair_put(set);
	return ret;
}

int epoll_wait(int epfd, struct epoll_event *events, int most, int timeout)
{
	struct vb_pair *set = get_set(epfd, __builtin_return_address(0));
	int ret;

	if (!set)
		return vb_real()->epoll_wait(epfd, events, most, timeout);
	ret = repoll_wait(set->rs, events, most, timeout);
	if (ret < 0 && errno == EBADF)
		ret = vb_real()->epoll_wait(epfd, events, most, timeout);
	vb_pair_put(set);
	return ret;
}

int epoll_pwait(int epfd, struct epoll_event *events, int most, int timeout, const sigset_t *mask)
{
	sigset_t old;
	int ret;

	if (!vb_is_pair(epfd) || vb_called_by_us(__builtin_return_address(0)))
		return vb_real()->epoll_pwait(epfd, events, most, timeout, mask);
	swap_mask(mask, &old);
	ret = epoll_wait(epfd, events, most, timeout);
	swap_mask(mask ? &old : NULL, NULL);
	return ret;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Sockets: made, named, connected, closed. */
#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>

#include <rdma/rsocket.h>

#include "rdmacm/newer.h"
#include "rdmacm/preload/preload.h"

/* The pair of a new number; where that fails the number stays an ordinary socket. */
static void make_pair(int fd, int domain, int type, int protocol)
{
	int kept = errno, rs = rsocket(domain, type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK), protocol);
	struct vb_pair *pair;

	if (rs >= 0) {
		vb_preload_setup(rs);
		if (type & SOCK_NONBLOCK)
			rfcntl(rs, F_SETFL, O_NONBLOCK);
		pair = vb_pair_create(rs);
		if (!pair)
			rclose(rs);
		else if (vb_pair_enter(fd, pair))
			vb_pair_put(pair);
	}
	errno = kept;
}

int socket(int domain, int type, int protocol)
{
	int fd = vb_real()->socket(domain, type, protocol);

	if (fd >= 0 && vb_wanted(domain, type, protocol) &&
	    !vb_called_by_us(__builtin_return_address(0)))
		make_pair(fd, domain, type, protocol);
	return fd;
}

int bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct vb_pair *pair = vb_pair_get(fd);
	int ret;

	if (!pair)
		return vb_real()->bind(fd, addr, len);
	ret = rbind(pair->rs, addr, len);
	if (!ret && len <= sizeof(pair->local)) {
		memcpy(&pair->local, addr, len);
		pair->local_bytes = len;
		pair->bound = true;
	}
	vb_pair_put(pair);
	return ret;
}

int listen(int fd, int backlog)
{
	struct vb_pair *pair = vb_pair_get(fd);
	int ret;

	if (!pair)
		return vb_real()->listen(fd, backlog);
	ret = rlisten(pair->rs, backlog);
	vb_pair_put(pair);
	return ret;
}

/* The number of an accepted stream: an ordinary socket again. */
static int number_for(int listener, int rs, int flags)
{
	int fd, domain = AF_INET;
	socklen_t len = sizeof(domain);
	struct vb_pair *pair;

	vb_real()->getsockopt(listener, SOL_SOCKET, SO_DOMAIN, &domain, &len);
	fd = vb_real()->socket(domain, SOCK_STREAM | (flags & (SOCK_CLOEXEC | SOCK_NONBLOCK)), 0);
	if (fd < 0)
		return -1;
	pair = vb_pair_create(rs);
	if (pair && !vb_pair_enter(fd, pair)) {
		if (flags & SOCK_NONBLOCK)
			rfcntl(rs, F_SETFL, O_NONBLOCK);
		return fd;
	}
	vb_real()->close(fd);
	/* The caller closes the rsocket. */
	if (pair) {
		pair->rs = -1;
		vb_pair_put(pair);
	}
	return -1;
}

/* Drops the reference. */
static int accept_pair(int fd, struct vb_pair *pair, struct sockaddr *addr, socklen_t *len,
		       int flags)
{
	int rs, ret = -1, err;

	rs = raccept(pair->rs, addr, len);
	if (rs >= 0) {
		ret = number_for(fd, rs, flags);
		if (ret < 0) {
			err = errno;
			rclose(rs);
			errno = err;
		}
	}
	vb_pair_put(pair);
	return ret;
}

int accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	struct vb_pair *pair = vb_pair_get(fd);

	return pair ? accept_pair(fd, pair, addr, len, flags)
		    : vb_real()->accept4(fd, addr, len, flags);
}

int accept(int fd, struct sockaddr *addr, socklen_t *len)
{
	struct vb_pair *pair = vb_pair_get(fd);

	return pair ? accept_pair(fd, pair, addr, len, 0) : vb_real()->accept(fd, addr, len);
}

/* Nobody answers over RDMA: the ordinary socket tries. */
static int connect_ordinary(int fd, struct vb_pair *pair, const struct sockaddr *addr,
			    socklen_t len)
{
	struct vb_pair *left = vb_pair_leave(fd);

	if (left)
		vb_pair_put(left);
	if (pair->bound && vb_real()->bind(fd, (struct sockaddr *)&pair->local, pair->local_bytes))
		return -1;
	return vb_real()->connect(fd, addr, len);
}

int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct vb_pair *pair = vb_pair_get(fd);
	int ret;

	if (!pair)
		return vb_real()->connect(fd, addr, len);
	ret = rconnect(pair->rs, addr, len);
	if (ret && (errno == ECONNREFUSED || errno == ETIMEDOUT || errno == ENODEV ||
		    errno == EADDRNOTAVAIL || errno == ENETUNREACH || errno == EHOSTUNREACH))
		ret = connect_ordinary(fd, pair, addr, len);
	vb_pair_put(pair);
	return ret;
}

int shutdown(int fd, int how)
{
	struct vb_pair *pair = vb_pair_get(fd);
	int ret;

	if (!pair)
		return vb_real()->shutdown(fd, how);
	ret = rshutdown(pair->rs, how);
	vb_pair_put(pair);
	return ret;
}

/* Made by another process, of which this one is a child: nothing below knows it. */
static bool is_inherited(const struct vb_pair *pair)
{
	struct epoll_event none = {0};

	/* Asks for nothing: the descriptor itself is never in it. */
	return repoll_ctl(pair->rs, EPOLL_CTL_DEL, pair->rs, &none) && errno == EBADF;
}

static int close_number(int fd, struct vb_pair *pair)
{
	int ret = vb_real()->close(fd);

	if (pair)
		vb_pair_put(pair);
	return ret;
}

int close(int fd)
{
	/* The entry first: the number may be another thread's the moment it is free. */
	struct vb_pair *pair = vb_pair_leave(fd);
	int ret = 0;

	/* rclose() closes what repoll_create() gave, unless it is a parent's. */
	if (pair && pair->epoll && pair->rs == fd && !is_inherited(pair))
		vb_pair_put(pair);
	else
		ret = close_number(fd, pair);
	return ret;
}

/* @fd became another number of @pair. */
static int enter_copy(int fd, struct vb_pair *pair)
{
	if (fd < 0)
		return fd;
	atomic_fetch_add(&pair->refs, 1);
	if (!vb_pair_enter(fd, pair))
		return fd;
	vb_pair_put(pair);
	vb_real()->close(fd);
	return -1;
}

int dup(int fd)
{
	struct vb_pair *pair = vb_pair_get(fd);
	int copy = vb_real()->dup(fd);

	if (pair) {
		copy = enter_copy(copy, pair);
		vb_pair_put(pair);
	}
	return copy;
}

int dup3(int fd, int number, int flags)
{
	struct vb_pair *pair = vb_pair_get(fd), *before = NULL;
	int copy = vb_real()->dup3(fd, number, flags);

	if (copy >= 0)
		before = vb_pair_leave(number);
	if (before)
		vb_pair_put(before);
	if (pair) {
		copy = enter_copy(copy, pair);
		vb_pair_put(pair);
	}
	return copy;
}

int dup2(int fd, int number)
{
	if (fd == number)
		return vb_real()->dup2(fd, number);
	return dup3(fd, number, 0);
}

static int fcntl_pair(int fd, struct vb_pair *pair, int cmd, void *arg)
{
	int ret = vb_real()->fcntl(fd, cmd, arg);

	if (ret < 0)
		return ret;
	if (cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC)
		return enter_copy(ret, pair);
	if (cmd == F_SETFL)
		rfcntl(pair->rs, F_SETFL, (int)(intptr_t)arg);
	return ret;
}

static int do_fcntl(int fd, int cmd, void *arg)
{
	struct vb_pair *pair = vb_pair_get(fd);
	int ret;

	if (!pair)
		return vb_real()->fcntl(fd, cmd, arg);
	ret = fcntl_pair(fd, pair, cmd, arg);
	vb_pair_put(pair);
	return ret;
}

int fcntl(int fd, int cmd, ...)
{
	va_list args;
	void *arg;

	va_start(args, cmd);
	arg = va_arg(args, void *);
	va_end(args);
	return do_fcntl(fd, cmd, arg);
}

int fcntl64(int fd, int cmd, ...)
{
	va_list args;
	void *arg;

	va_start(args, cmd);
	arg = va_arg(args, void *);
	va_end(args);
	return do_fcntl(fd, cmd, arg);
}

int ioctl(int fd, unsigned long request, ...)
{
	struct vb_pair *pair = vb_pair_get(fd);
	va_list args;
	void *arg;
	int ret;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	ret = vb_real()->ioctl(fd, request, arg);
	if (!pair)
		return ret;
	if (!ret && request == FIONBIO)
		rfcntl(pair->rs, F_SETFL, *(int *)arg ? O_NONBLOCK : 0);
	vb_pair_put(pair);
	return ret;
}

int getpeername(int fd, struct sockaddr *addr, socklen_t *len)
{
	struct vb_pair *pair = vb_pair_get(fd);
	int ret;

	if (!pair)
		return vb_real()->getpeername(fd, addr, len);
	ret = rgetpeername(pair->rs, addr, len);
	vb_pair_put(pair);
	return ret;
}

int getsockname(int fd, struct sockaddr *addr, socklen_t *len)
{
	struct vb_pair *pair = vb_pair_get(fd);
	int ret;

	if (!pair)
		return vb_real()->getsockname(fd, addr, len);
	ret = rgetsockname(pair->rs, addr, len);
	vb_pair_put(pair);
	return ret;
}

/* What rsockets do not know the ordinary socket answers, so that programs go on. */
int getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	struct vb_pair *pair = vb_pair_get(fd);
	int ret;

	if (!pair)
		return vb_real()->getsockopt(fd, level, name, value, len);
	ret = rgetsockopt(pair->rs, level, name, value, len);
	vb_pair_put(pair);
	if (ret && errno == EOPNOTSUPP)
		ret = vb_real()->getsockopt(fd, level, name, value, len);
	return ret;
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	struct vb_pair *pair = vb_pair_get(fd);
	int ret, ordinary;

	if (!pair)
		return vb_real()->setsockopt(fd, level, name, value, len);
	ordinary = vb_real()->setsockopt(fd, level, name, value, len);
	ret = rsetsockopt(pair->rs, level, name, value, len);
	vb_pair_put(pair);
	return ret && errno == EOPNOTSUPP ? ordinary : ret;
}

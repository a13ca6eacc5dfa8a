/* SPDX-License-Identifier: BSD-2-Clause */
#include <poll.h>
#include <stddef.h>
#include <sys/select.h>

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <rdma/rsocket.h>

#include "base/rules.h"
#include "rdmacm/newer.h"

/*
 * Theory of operation
 *
 * Rsockets are not there yet. A program learns it from its first call (ENODEV, as on a machine
 * without a device), so the calls that need an rsocket are never reached with a valid one. The
 * definitions are weak: one of the same name in any other file of this folder replaces it, and then
 * its line here is to be deleted.
 */

#define WEAK __attribute__((weak))
#define REFUSE(type, fail, rule, name, ...)                                                        \
	WEAK type name(__VA_ARGS__)                                                                \
	{                                                                                          \
		return (type)fail(rule, #name);                                                    \
	}
#define FIRST(name, ...) REFUSE(int, vb_fail_minus1, VB_RULE_CM_NO_DEVICE, name, __VA_ARGS__)
#define WITH_FD(type, name, ...)                                                                   \
	REFUSE(type, vb_fail_minus1, VB_RULE_RSOCKET_UNKNOWN, name, __VA_ARGS__)

/* clang-format off */

/* Where programs begin */
FIRST(rsocket, int domain, int type, int protocol)
FIRST(repoll_create, int size)

/* Sockets */
WITH_FD(int, rbind, int socket, const struct sockaddr *addr, socklen_t addrlen)
WITH_FD(int, rlisten, int socket, int backlog)
WITH_FD(int, raccept, int socket, struct sockaddr *addr, socklen_t *addrlen)
WITH_FD(int, rconnect, int socket, const struct sockaddr *addr, socklen_t addrlen)
WITH_FD(int, rshutdown, int socket, int how)
WITH_FD(int, rclose, int socket)
WITH_FD(ssize_t, rrecv, int socket, void *buf, size_t len, int flags)
WITH_FD(ssize_t, rrecvfrom, int socket, void *buf, size_t len, int flags,
	struct sockaddr *src_addr, socklen_t *addrlen)
WITH_FD(ssize_t, rrecvmsg, int socket, struct msghdr *msg, int flags)
WITH_FD(ssize_t, rsend, int socket, const void *buf, size_t len, int flags)
WITH_FD(ssize_t, rsendto, int socket, const void *buf, size_t len, int flags,
	const struct sockaddr *dest_addr, socklen_t addrlen)
WITH_FD(ssize_t, rsendmsg, int socket, const struct msghdr *msg, int flags)
WITH_FD(ssize_t, rread, int socket, void *buf, size_t count)
WITH_FD(ssize_t, rreadv, int socket, const struct iovec *iov, int iovcnt)
WITH_FD(ssize_t, rwrite, int socket, const void *buf, size_t count)
WITH_FD(ssize_t, rwritev, int socket, const struct iovec *iov, int iovcnt)
WITH_FD(int, rgetpeername, int socket, struct sockaddr *addr, socklen_t *addrlen)
WITH_FD(int, rgetsockname, int socket, struct sockaddr *addr, socklen_t *addrlen)
WITH_FD(int, rsetsockopt, int socket, int level, int optname, const void *optval,
	socklen_t optlen)
WITH_FD(int, rgetsockopt, int socket, int level, int optname, void *optval, socklen_t *optlen)
WITH_FD(int, rfcntl, int socket, int cmd, ...)
WITH_FD(off_t, riomap, int socket, void *buf, size_t len, int prot, int flags, off_t offset)
WITH_FD(int, riounmap, int socket, void *buf, size_t len)
WITH_FD(size_t, riowrite, int socket, const void *buf, size_t count, off_t offset, int flags)
WITH_FD(int, repoll_ctl, int epfd, int op, int fd, struct epoll_event *event)
WITH_FD(int, repoll_wait, int epfd, struct epoll_event *events, int maxevents, int timeout)

/* These take ordinary descriptors too, and nothing else can be in the set yet. */
WEAK int rpoll(struct pollfd *fds, nfds_t nfds, int timeout)
{
	return poll(fds, nfds, timeout);
}

WEAK int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds,
		 struct timeval *timeout)
{
	return select(nfds, readfds, writefds, exceptfds, timeout);
}

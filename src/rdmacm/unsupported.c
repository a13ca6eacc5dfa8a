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
 * The connection manager is not there yet. A program learns it from its first call
 * (ENODEV, as on a machine without a device), so the calls that need an id or an rsocket
 * are never reached with a valid one. The definitions are weak: one of the same name in
 * any other file of this folder replaces it, and then its line here is to be deleted.
 */

#define WEAK __attribute__((weak))
#define REFUSE(type, fail, rule, name, ...)                                                        \
	WEAK type name(__VA_ARGS__)                                                                \
	{                                                                                          \
		return (type)fail(rule, #name);                                                    \
	}
#define FIRST(name, ...)   REFUSE(int, vb_fail_minus1, VB_RULE_CM_NO_DEVICE, name, __VA_ARGS__)
#define WITH_ID(name, ...) REFUSE(int, vb_fail_minus1, VB_RULE_NOT_SUPPORTED, name, __VA_ARGS__)
#define WITH_FD(type, name, ...)                                                                   \
	REFUSE(type, vb_fail_minus1, VB_RULE_RSOCKET_UNKNOWN, name, __VA_ARGS__)
#define NONE(name, ...)                                                                            \
	WEAK void name(__VA_ARGS__)                                                                \
	{                                                                                          \
	}

/* clang-format off */

/* Where programs begin */
REFUSE(struct rdma_event_channel *, vb_fail_null, VB_RULE_CM_NO_DEVICE, rdma_create_event_channel,
       void)
FIRST(rdma_create_id, struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
      enum rdma_port_space ps)
FIRST(rdma_create_ep, struct rdma_cm_id **id, struct rdma_addrinfo *res, struct ibv_pd *pd,
      struct ibv_qp_init_attr *qp_init_attr)
FIRST(rdma_getaddrinfo, const char *node, const char *service, const struct rdma_addrinfo *hints,
      struct rdma_addrinfo **res)
FIRST(rsocket, int domain, int type, int protocol)
FIRST(repoll_create, int size)

WEAK struct ibv_context **rdma_get_devices(int *num_devices)
{
	if (num_devices)
		*num_devices = 0;
	return vb_fail_null(VB_RULE_CM_NO_DEVICE, "rdma_get_devices");
}

/* Ids */
NONE(rdma_destroy_event_channel, struct rdma_event_channel *channel)
NONE(rdma_destroy_ep, struct rdma_cm_id *id)
NONE(rdma_destroy_qp, struct rdma_cm_id *id)
NONE(rdma_destroy_srq, struct rdma_cm_id *id)
NONE(rdma_free_devices, struct ibv_context **list)
NONE(rdma_freeaddrinfo, struct rdma_addrinfo *res)
WITH_ID(rdma_destroy_id, struct rdma_cm_id *id)
WITH_ID(rdma_bind_addr, struct rdma_cm_id *id, struct sockaddr *addr)
WITH_ID(rdma_resolve_addr, struct rdma_cm_id *id, struct sockaddr *src_addr,
	struct sockaddr *dst_addr, int timeout_ms)
WITH_ID(rdma_resolve_route, struct rdma_cm_id *id, int timeout_ms)
WITH_ID(rdma_resolve_addrinfo, struct rdma_cm_id *id, const char *node, const char *service,
	const struct rdma_addrinfo *hints)
WITH_ID(rdma_query_addrinfo, struct rdma_cm_id *id, struct rdma_addrinfo **info)
WITH_ID(rdma_create_qp, struct rdma_cm_id *id, struct ibv_pd *pd,
	struct ibv_qp_init_attr *qp_init_attr)
WITH_ID(rdma_create_qp_ex, struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *qp_init_attr)
WITH_ID(rdma_create_srq, struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
WITH_ID(rdma_create_srq_ex, struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
WITH_ID(rdma_connect, struct rdma_cm_id *id, struct rdma_conn_param *conn_param)
WITH_ID(rdma_establish, struct rdma_cm_id *id)
WITH_ID(rdma_listen, struct rdma_cm_id *id, int backlog)
WITH_ID(rdma_get_request, struct rdma_cm_id *listen, struct rdma_cm_id **id)
WITH_ID(rdma_accept, struct rdma_cm_id *id, struct rdma_conn_param *conn_param)
WITH_ID(rdma_reject, struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
WITH_ID(rdma_reject_ece, struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
WITH_ID(rdma_notify, struct rdma_cm_id *id, enum ibv_event_type event)
WITH_ID(rdma_disconnect, struct rdma_cm_id *id)
WITH_ID(rdma_join_multicast, struct rdma_cm_id *id, struct sockaddr *addr, void *context)
WITH_ID(rdma_join_multicast_ex, struct rdma_cm_id *id,
	struct rdma_cm_join_mc_attr_ex *mc_join_attr, void *context)
WITH_ID(rdma_leave_multicast, struct rdma_cm_id *id, struct sockaddr *addr)
WITH_ID(rdma_get_cm_event, struct rdma_event_channel *channel, struct rdma_cm_event **event)
WITH_ID(rdma_ack_cm_event, struct rdma_cm_event *event)
WITH_ID(rdma_write_cm_event, struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
	uint64_t arg)
WITH_ID(rdma_set_option, struct rdma_cm_id *id, int level, int optname, void *optval,
	size_t optlen)
WITH_ID(rdma_migrate_id, struct rdma_cm_id *id, struct rdma_event_channel *channel)
WITH_ID(rdma_init_qp_attr, struct rdma_cm_id *id, struct ibv_qp_attr *qp_attr, int *qp_attr_mask)
WITH_ID(rdma_set_local_ece, struct rdma_cm_id *id, struct ibv_ece *ece)
WITH_ID(rdma_get_remote_ece, struct rdma_cm_id *id, struct ibv_ece *ece)

/* Port 0 is "not bound". */
WEAK __be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	return 0;
}
WEAK __be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
	return 0;
}

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

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rdma/rsocket.h>

#include "base/rules.h"
#include "rdmacm/rsocket/dgram.h"
#include "rdmacm/rsocket/repoll.h"
#include "rdmacm/rsocket/service.h"
#include "rdmacm/rsocket/stream.h"
#include "rdmacm/rsocket/table.h"

#define TYPE_FLAGS (SOCK_NONBLOCK | SOCK_CLOEXEC)

/* A descriptor for a socket, and its entry; the socket goes where that fails. */
static int enter(struct vb_rs_process *process, struct vb_rs *rs)
{
	int fd = eventfd(0, EFD_CLOEXEC);

	rs->fd = fd;
	if (fd >= 0 && !vb_rs_table_put(process, fd, rs))
		return fd;
	if (fd >= 0)
		close(fd);
	rs->fd = -1;
	return -1;
}

static struct vb_rs *create_stream(struct vb_rs_process *process, int domain)
{
	struct vb_stream *st = vb_stream_create(process, domain);

	if (!st)
		return NULL;
	if (rdma_create_id(vb_rs_service_channel(&st->rs), &st->id, &st->rs, RDMA_PS_TCP)) {
		st->id = NULL;
		vb_rs_put(&st->rs);
		return NULL;
	}
	return &st->rs;
}

static struct vb_rs *create_dgram(struct vb_rs_process *process, int domain)
{
	struct vb_dgram *dg = vb_dgram_create(process, domain);

	return dg ? &dg->rs : NULL;
}

int rsocket(int domain, int type, int protocol)
{
	int kind = type & ~TYPE_FLAGS, fd;
	struct vb_rs_process *process;
	struct vb_rs_conf conf;
	struct vb_rs *rs;

	if ((domain != AF_INET && domain != AF_INET6) ||
	    (kind != SOCK_STREAM && kind != SOCK_DGRAM) ||
	    (protocol && protocol != (kind == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP)))
		return vb_fail_minus1(VB_RULE_RSOCKET_TYPE, "domain=%d type=%d protocol=%d", domain,
				      type, protocol);
	process = vb_rs_process_get();
	if (!process)
		return -1;
	vb_rs_conf_read(VB_RS_CONF_DIR, &conf);
	rs = kind == SOCK_STREAM ? create_stream(process, domain) : create_dgram(process, domain);
	if (!rs)
		return -1;
	rs->conf = conf;
	if (type & SOCK_NONBLOCK)
		rs->fd_flags |= O_NONBLOCK;
	fd = enter(process, rs);
	if (fd < 0) {
		if (kind == SOCK_DGRAM)
			vb_dgram_close(vb_dgram_of(rs));
		vb_rs_put(rs);
	}
	return fd;
}

int rbind(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
	struct vb_rs *rs = vb_rs_lookup(socket, "rbind");
	union vb_rs_addr copy;
	int ret;

	if (!rs)
		return -1;
	ret = vb_rs_check_addr("rbind", rs->domain, addr, addrlen, &copy);
	if (!ret)
		ret = rs->kind == VB_RS_STREAM ? vb_stream_bind(vb_stream_of(rs), &copy)
					       : vb_dgram_bind(vb_dgram_of(rs), &copy);
	vb_rs_put(rs);
	return ret;
}

/* A stream, or NULL by rule. */
static struct vb_stream *lookup_stream(int fd, const char *what)
{
	struct vb_rs *rs = vb_rs_lookup(fd, what);

	if (!rs || rs->kind == VB_RS_STREAM)
		return rs ? vb_stream_of(rs) : NULL;
	vb_fail(VB_RULE_RSOCKET_STREAM_ONLY, "%s fd=%d", what, fd);
	vb_rs_put(rs);
	return NULL;
}

int rlisten(int socket, int backlog)
{
	struct vb_stream *st = lookup_stream(socket, "rlisten");
	int ret;

	if (!st)
		return -1;
	ret = vb_stream_listen(st, backlog);
	vb_rs_put(&st->rs);
	return ret;
}

int raccept(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	struct vb_stream *st = lookup_stream(socket, "raccept"), *child;
	int fd = -1;

	if (!st)
		return -1;
	child = vb_stream_accept(st);
	if (child) {
		fd = enter(st->rs.process, &child->rs);
		if (fd < 0) {
			vb_stream_close(child);
			vb_rs_put(&child->rs);
		} else if (addr && addrlen) {
			vb_rs_return_addr(rdma_get_peer_addr(child->id), addr, addrlen);
		}
	}
	vb_rs_put(&st->rs);
	return fd;
}

int rconnect(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
	struct vb_rs *rs = vb_rs_lookup(socket, "rconnect");
	union vb_rs_addr copy;
	int ret;

	if (!rs)
		return -1;
	if (rs->kind == VB_RS_DGRAM) {
		ret = vb_dgram_connect(vb_dgram_of(rs), addr, addrlen);
	} else {
		ret = vb_rs_check_addr("rconnect", rs->domain, addr, addrlen, &copy);
		if (!ret)
			ret = vb_stream_connect(vb_stream_of(rs), &copy);
	}
	vb_rs_put(rs);
	return ret;
}

int rshutdown(int socket, int how)
{
	struct vb_rs *rs = vb_rs_lookup(socket, "rshutdown");
	int ret;

	if (!rs)
		return -1;
	ret = rs->kind == VB_RS_STREAM ? vb_stream_shutdown(vb_stream_of(rs), how)
				       : vb_dgram_shutdown(vb_dgram_of(rs), how);
	vb_rs_put(rs);
	return ret;
}

int rclose(int socket)
{
	struct vb_rs *rs = vb_rs_table_take(socket);
	int fd;

	if (!rs)
		return vb_fail_minus1(VB_RULE_RSOCKET_UNKNOWN, "rclose fd=%d", socket);
	if (rs->kind == VB_RS_REPOLL) {
		vb_repoll_close(rs);
		vb_rs_put(rs);
		return 0;
	}
	pthread_mutex_lock(&rs->lock);
	fd = rs->fd;
	rs->fd = -1;
	pthread_mutex_unlock(&rs->lock);
	if (fd >= 0)
		close(fd);
	if (rs->kind == VB_RS_STREAM)
		vb_stream_close(vb_stream_of(rs));
	else
		vb_dgram_close(vb_dgram_of(rs));
	vb_rs_put(rs);
	return 0;
}

/* All receiving ends here. @msg: name, flags and the like; NULL: nobody asks */
static ssize_t receive(struct vb_rs *rs, const struct iovec *iov, size_t count, int flags,
		       struct msghdr *msg)
{
	ssize_t bytes = vb_rs_iov_bytes("rrecv", iov, count), ret;
	struct vb_rs_cursor to = {.iov = iov, .left = count};
	union vb_rs_addr from = {0};
	int out_flags = 0;

	if (bytes < 0)
		return -1;
	if (rs->kind == VB_RS_DGRAM) {
		ret = vb_dgram_recv(vb_dgram_of(rs), to, (size_t)bytes, flags, &from, &out_flags);
		if (ret >= 0 && msg && msg->msg_name && from.sa.sa_family)
			vb_rs_return_addr(&from.sa, msg->msg_name, &msg->msg_namelen);
		else if (ret >= 0 && msg)
			msg->msg_namelen = 0;
	} else {
		ret = vb_stream_recv(vb_stream_of(rs), to, (size_t)bytes, flags);
		if (ret >= 0 && msg)
			msg->msg_namelen = 0;
	}
	if (ret >= 0 && msg) {
		msg->msg_controllen = 0;
		msg->msg_flags = out_flags;
	}
	return ret;
}

static ssize_t receive_on(int fd, const char *what, const struct iovec *iov, size_t count,
			  int flags, struct msghdr *msg)
{
	struct vb_rs *rs = vb_rs_lookup(fd, what);
	ssize_t ret;

	if (!rs)
		return -1;
	ret = receive(rs, iov, count, flags, msg);
	vb_rs_put(rs);
	return ret;
}

ssize_t rrecv(int socket, void *buf, size_t len, int flags)
{
	struct iovec iov = {.iov_base = buf, .iov_len = len};

	return receive_on(socket, "rrecv", &iov, 1, flags, NULL);
}

ssize_t rrecvfrom(int socket, void *buf, size_t len, int flags, struct sockaddr *src_addr,
		  socklen_t *addrlen)
{
	struct iovec iov = {.iov_base = buf, .iov_len = len};
	struct msghdr msg = {.msg_name = addrlen ? src_addr : NULL,
			     .msg_namelen = addrlen ? *addrlen : 0};
	ssize_t ret = receive_on(socket, "rrecvfrom", &iov, 1, flags, &msg);

	if (ret >= 0 && addrlen)
		*addrlen = msg.msg_namelen;
	return ret;
}

ssize_t rrecvmsg(int socket, struct msghdr *msg, int flags)
{
	if (!msg)
		return vb_fail_minus1(VB_RULE_RSOCKET_BUFFERS, "rrecvmsg fd=%d: no message",
				      socket);
	return receive_on(socket, "rrecvmsg", msg->msg_iov, msg->msg_iovlen, flags, msg);
}

ssize_t rread(int socket, void *buf, size_t count)
{
	return rrecv(socket, buf, count, 0);
}

ssize_t rreadv(int socket, const struct iovec *iov, int iovcnt)
{
	return receive_on(socket, "rreadv", iov, iovcnt < 0 ? SIZE_MAX : (size_t)iovcnt, 0, NULL);
}

/* All sending ends here. @name: NULL: to the peer it is connected to */
static ssize_t send_on(int fd, const char *what, const struct iovec *iov, size_t count, int flags,
		       const struct sockaddr *name, socklen_t name_len)
{
	struct vb_rs *rs = vb_rs_lookup(fd, what);
	struct vb_rs_cursor from = {.iov = iov, .left = count};
	union vb_rs_addr to;
	ssize_t ret;

	if (!rs)
		return -1;
	ret = vb_rs_iov_bytes(what, iov, count);
	if (ret < 0)
		goto out;
	if (rs->kind == VB_RS_STREAM) {
		if (name && vb_stream_of(rs)->state != VB_STREAM_CONNECTED)
			name = NULL;
		ret = name ? vb_fail_minus1(VB_RULE_RSOCKET_CONNECTED, "%s fd=%d", what, fd)
			   : vb_stream_send(vb_stream_of(rs), from, (size_t)ret, flags);
	} else if (name) {
		if (vb_rs_check_addr(what, rs->domain, name, name_len, &to))
			ret = -1;
		else
			ret = vb_dgram_send(vb_dgram_of(rs), from, (size_t)ret, flags, &to);
	} else {
		ret = vb_dgram_send(vb_dgram_of(rs), from, (size_t)ret, flags, NULL);
	}
out:
	vb_rs_put(rs);
	return ret;
}

ssize_t rsend(int socket, const void *buf, size_t len, int flags)
{
	struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};

	return send_on(socket, "rsend", &iov, 1, flags, NULL, 0);
}

ssize_t rsendto(int socket, const void *buf, size_t len, int flags,
		const struct sockaddr *dest_addr, socklen_t addrlen)
{
	struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};

	return send_on(socket, "rsendto", &iov, 1, flags, dest_addr, addrlen);
}

ssize_t rsendmsg(int socket, const struct msghdr *msg, int flags)
{
	if (!msg)
		return vb_fail_minus1(VB_RULE_RSOCKET_BUFFERS, "rsendmsg fd=%d: no message",
				      socket);
	if (msg->msg_control && msg->msg_controllen)
		return vb_fail_minus1(VB_RULE_RSOCKET_CONTROL, "rsendmsg fd=%d: %zu bytes", socket,
				      (size_t)msg->msg_controllen);
	return send_on(socket, "rsendmsg", msg->msg_iov, msg->msg_iovlen, flags,
		       msg->msg_namelen ? msg->msg_name : NULL, msg->msg_namelen);
}

ssize_t rwrite(int socket, const void *buf, size_t count)
{
	return rsend(socket, buf, count, 0);
}

ssize_t rwritev(int socket, const struct iovec *iov, int iovcnt)
{
	return send_on(socket, "rwritev", iov, iovcnt < 0 ? SIZE_MAX : (size_t)iovcnt, 0, NULL, 0);
}

int rgetpeername(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	struct vb_rs *rs = vb_rs_lookup(socket, "rgetpeername");
	struct vb_stream *st;
	int ret = 0;

	if (!rs)
		return -1;
	pthread_mutex_lock(&rs->lock);
	st = vb_stream_of(rs);
	if (!addrlen)
		ret = vb_fail_minus1(VB_RULE_RSOCKET_ADDRESS, "rgetpeername fd=%d: no length",
				     socket);
	else if (rs->kind == VB_RS_DGRAM)
		ret = getpeername(vb_dgram_of(rs)->udp_fd, addr, addrlen);
	else if (st->state != VB_STREAM_CONNECTED && st->state != VB_STREAM_ENDED)
		ret = vb_fail_minus1(VB_RULE_RSOCKET_NOT_CONNECTED, "rgetpeername fd=%d", socket);
	else
		vb_rs_return_addr(rdma_get_peer_addr(st->id), addr, addrlen);
	pthread_mutex_unlock(&rs->lock);
	vb_rs_put(rs);
	return ret;
}

int rgetsockname(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	struct vb_rs *rs = vb_rs_lookup(socket, "rgetsockname");
	union vb_rs_addr none = {0};
	const struct sockaddr *local;
	int ret = 0;

	if (!rs)
		return -1;
	pthread_mutex_lock(&rs->lock);
	if (!addrlen) {
		ret = vb_fail_minus1(VB_RULE_RSOCKET_ADDRESS, "rgetsockname fd=%d: no length",
				     socket);
	} else if (rs->kind == VB_RS_DGRAM) {
		ret = getsockname(vb_dgram_of(rs)->udp_fd, addr, addrlen);
	} else {
		local = rdma_get_local_addr(vb_stream_of(rs)->id);
		if (!local->sa_family) {
			none.sa.sa_family = (sa_family_t)rs->domain;
			local = &none.sa;
		}
		vb_rs_return_addr(local, addr, addrlen);
	}
	pthread_mutex_unlock(&rs->lock);
	vb_rs_put(rs);
	return ret;
}

int rfcntl(int socket, int cmd, ...)
{
	struct vb_rs *rs = vb_rs_lookup(socket, "rfcntl");
	va_list args;
	int param, ret = 0;

	if (!rs)
		return -1;
	va_start(args, cmd);
	param = va_arg(args, int);
	va_end(args);
	switch (cmd) {
	case F_GETFL:
		ret = atomic_load(&rs->fd_flags);
		break;
	case F_SETFL:
		atomic_store(&rs->fd_flags, O_RDWR | (param & (O_NONBLOCK | O_APPEND)));
		break;
	case F_GETFD:
	case F_SETFD:
		ret = fcntl(socket, cmd, param);
		break;
	default:
		ret = vb_fail_minus1(VB_RULE_RSOCKET_FCNTL, "rfcntl fd=%d cmd=%d", socket, cmd);
		break;
	}
	vb_rs_put(rs);
	return ret;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/rsocket/dgram.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/rules.h"
#include "rdmacm/rsocket/service.h"

#define CLOSE_NS 1000000000ull

#define SEEN_IN	  0x1u
#define SEEN_OUT  0x2u
#define SEEN_SENT 0x4u

struct vb_dgram *vb_dgram_create(struct vb_rs_process *process, int domain)
{
	struct vb_dgram *dg = calloc(1, sizeof(*dg));

	if (!dg)
		return NULL;
	vb_rs_init(&dg->rs, VB_RS_DGRAM, domain);
	dg->rd_open = true;
	dg->wr_open = true;
	dg->udp_fd = socket(domain, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	dg->rs.event_fd = epoll_create1(EPOLL_CLOEXEC);
	if (dg->udp_fd < 0 || dg->rs.event_fd < 0 || vb_rs_service_use(process, &dg->rs) ||
	    vb_rs_service_watch(&dg->rs, dg->udp_fd, VB_RS_NEVER)) {
		vb_rs_put(&dg->rs);
		return NULL;
	}
	return dg;
}

void vb_dgram_destroy(struct vb_dgram *dg)
{
	struct vb_dgram_msg *msg;
	struct vb_dgram_qp *qp;

	vb_dgram_peers_free(dg);
	while ((qp = dg->qps)) {
		dg->qps = qp->next;
		vb_dgram_qp_destroy(dg, qp);
	}
	while ((msg = dg->first)) {
		dg->first = msg->next;
		free(msg);
	}
	if (dg->udp_fd >= 0)
		close(dg->udp_fd);
	if (dg->rs.event_fd >= 0)
		close(dg->rs.event_fd);
	vb_rs_fini(&dg->rs);
	free(dg);
}

static bool readable(struct vb_rs *rs)
{
	struct vb_dgram *dg = vb_dgram_of(rs);

	return dg->first || !dg->rd_open || rs->closed || rs->error;
}

/* Some queue pair has no free slot: a peer of it would have to wait. */
static bool writable(struct vb_rs *rs)
{
	struct vb_dgram *dg = vb_dgram_of(rs);

	for (struct vb_dgram_qp *qp = dg->qps; qp; qp = qp->next)
		if (!qp->free)
			return !dg->wr_open || rs->closed;
	return true;
}

static bool all_sent(struct vb_rs *rs)
{
	for (struct vb_dgram_qp *qp = vb_dgram_of(rs)->qps; qp; qp = qp->next)
		if (qp->free != qp->slots)
			return false;
	return true;
}

void vb_dgram_changed(struct vb_dgram *dg)
{
	uint32_t seen = 0, fresh;

	if (readable(&dg->rs))
		seen |= SEEN_IN;
	if (writable(&dg->rs))
		seen |= SEEN_OUT;
	if (all_sent(&dg->rs))
		seen |= SEEN_SENT;
	fresh = seen & ~dg->seen;
	dg->seen = seen;
	if (fresh & SEEN_OUT)
		dg->rs.out_moves++;
	if (fresh && dg->rs.waiting.first)
		vb_rs_links_wake(&dg->rs.waiting);
}

short vb_dgram_revents(struct vb_dgram *dg, short events)
{
	short revents = 0;

	if (readable(&dg->rs))
		revents |= POLLIN | POLLRDNORM;
	if (writable(&dg->rs))
		revents |= POLLOUT | POLLWRNORM;
	if (!dg->rd_open)
		revents |= POLLRDHUP;
	if (!dg->rd_open && !dg->wr_open)
		revents |= POLLHUP;
	if (dg->rs.error)
		revents |= POLLERR;
	return (short)(revents & (events | POLLHUP | POLLERR));
}

/* What the UDP socket heard; told once. Return: 0, or -1 with errno. */
static int take_error(struct vb_dgram *dg)
{
	if (!dg->rs.error)
		return 0;
	errno = dg->rs.error;
	dg->rs.error = 0;
	return -1;
}

int vb_dgram_bind(struct vb_dgram *dg, const union vb_rs_addr *addr)
{
	return bind(dg->udp_fd, &addr->sa, vb_rs_addr_bytes(&addr->sa));
}

int vb_dgram_connect(struct vb_dgram *dg, const struct sockaddr *addr, socklen_t len)
{
	union vb_rs_addr copy;
	int ret;

	if (addr && len >= sizeof(sa_family_t) && addr->sa_family == AF_UNSPEC) {
		ret = connect(dg->udp_fd, addr, len);
		pthread_mutex_lock(&dg->rs.lock);
		if (!ret)
			dg->connected = false;
		pthread_mutex_unlock(&dg->rs.lock);
		return ret;
	}
	if (vb_rs_check_addr("rconnect", dg->rs.domain, addr, len, &copy) ||
	    connect(dg->udp_fd, &copy.sa, vb_rs_addr_bytes(&copy.sa)))
		return -1;
	pthread_mutex_lock(&dg->rs.lock);
	dg->to = copy;
	dg->connected = true;
	pthread_mutex_unlock(&dg->rs.lock);
	return 0;
}

int vb_dgram_shutdown(struct vb_dgram *dg, int how)
{
	if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
		return vb_fail_minus1(VB_RULE_RSOCKET_VALUE, "rshutdown fd=%d: how=%d", dg->rs.fd,
				      how);
	pthread_mutex_lock(&dg->rs.lock);
	if (how != SHUT_WR)
		dg->rd_open = false;
	if (how != SHUT_RD)
		dg->wr_open = false;
	vb_dgram_changed(dg);
	vb_rs_links_wake(&dg->rs.waiting);
	pthread_mutex_unlock(&dg->rs.lock);
	return 0;
}

void vb_dgram_close(struct vb_dgram *dg)
{
	pthread_mutex_lock(&dg->rs.lock);
	/* What is under way lies in buffers that go with the socket. */
	vb_rs_wait(&dg->rs, all_sent, false, vb_rs_now_ns() + CLOSE_NS);
	dg->rd_open = false;
	dg->wr_open = false;
	dg->rs.closed = true;
	vb_rs_links_wake(&dg->rs.waiting);
	pthread_mutex_unlock(&dg->rs.lock);
	vb_rs_service_unwatch(&dg->rs);
}

/* Return: bytes, or -1: EAGAIN where it has to wait, *udp says for which socket. */
static ssize_t send_now(struct vb_dgram *dg, struct vb_rs_cursor *from, size_t bytes,
			const union vb_rs_addr *to, bool *udp)
{
	struct vb_dgram_peer *peer = vb_dgram_peer_get(dg, to);
	size_t header = dg->rs.domain == AF_INET6 ? VB_DS_HDR_V6 : VB_DS_HDR_V4;

	*udp = false;
	if (!peer)
		return -1;
	if (!peer->ah || !peer->qp || bytes + header > peer->qp->most) {
		*udp = true;
		return vb_dgram_udp_send(dg, peer, from, bytes, true);
	}
	if (!peer->qp->free)
		vb_dgram_progress(dg);
	if (!peer->qp->free) {
		errno = EAGAIN;
		return -1;
	}
	return vb_dgram_post(peer, from, bytes) ? -1 : (ssize_t)bytes;
}

static int wait_udp(struct vb_dgram *dg)
{
	struct pollfd fd = {.fd = dg->udp_fd, .events = POLLOUT};
	int ret;

	pthread_mutex_unlock(&dg->rs.lock);
	ret = poll(&fd, 1, -1);
	pthread_mutex_lock(&dg->rs.lock);
	return ret < 0 ? -1 : 0;
}

ssize_t vb_dgram_send(struct vb_dgram *dg, struct vb_rs_cursor from, size_t bytes, int flags,
		      const union vb_rs_addr *to)
{
	bool nonblock = vb_rs_nonblocking(&dg->rs, flags), udp;
	struct vb_rs_cursor again;
	union vb_rs_addr copy;
	ssize_t ret = -1;
	int waited;

	pthread_mutex_lock(&dg->rs.lock);
	if (!to && !dg->connected) {
		vb_fail(VB_RULE_RSOCKET_DESTINATION, "rsend fd=%d", dg->rs.fd);
		goto out;
	}
	copy = to ? *to : dg->to;
	for (;;) {
		if (!dg->wr_open || dg->rs.closed) {
			vb_fail(VB_RULE_RSOCKET_PIPE, "rsend fd=%d: this side shut down",
				dg->rs.fd);
			break;
		}
		if (take_error(dg)) {
			ret = -1;
			break;
		}
		again = from;
		ret = send_now(dg, &again, bytes, &copy, &udp);
		if (ret >= 0 || errno != EAGAIN || nonblock)
			break;
		waited = udp ? wait_udp(dg)
			     : vb_rs_wait_limited(&dg->rs, writable, false, dg->rs.send_wait_ns);
		if (waited)
			break;
	}
out:
	pthread_mutex_unlock(&dg->rs.lock);
	return ret;
}

ssize_t vb_dgram_recv(struct vb_dgram *dg, struct vb_rs_cursor to, size_t bytes, int flags,
		      union vb_rs_addr *from, int *out_flags)
{
	struct vb_dgram_msg *msg = NULL;
	ssize_t ret = 0;
	size_t n;

	*out_flags = 0;
	pthread_mutex_lock(&dg->rs.lock);
	if (vb_rs_wait_limited(&dg->rs, readable, vb_rs_nonblocking(&dg->rs, flags),
			       dg->rs.recv_wait_ns)) {
		ret = -1;
		goto out;
	}
	msg = dg->first;
	if (!msg) {
		ret = dg->rd_open ? take_error(dg) : 0;
		goto out;
	}
	n = msg->bytes < bytes ? msg->bytes : bytes;
	vb_rs_scatter(&to, msg->data, n);
	if (from)
		*from = msg->from;
	if (n < msg->bytes)
		*out_flags |= MSG_TRUNC;
	ret = (flags & MSG_TRUNC) ? (ssize_t)msg->bytes : (ssize_t)n;
	if (flags & MSG_PEEK) {
		msg = NULL;
		goto out;
	}
	dg->first = msg->next;
	if (!dg->first)
		dg->last = NULL;
	dg->n_queued--;
	vb_dgram_changed(dg);
out:
	pthread_mutex_unlock(&dg->rs.lock);
	free(msg);
	return ret;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/rsocket/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <time.h>

#include "base/rules.h"
#include "base/spin.h"
#include "rdmacm/rsocket/dgram.h"
#include "rdmacm/rsocket/repoll.h"
#include "rdmacm/rsocket/service.h"
#include "rdmacm/rsocket/stream.h"
#include "rdmacm/rsocket/table.h"

void vb_rs_init(struct vb_rs *rs, enum vb_rs_kind kind, int domain)
{
	static _Atomic uint64_t serial;

	rs->kind = kind;
	rs->serial = ++serial;
	rs->domain = domain;
	rs->fd = -1;
	rs->event_fd = -1;
	rs->refs = 1;
	rs->fd_flags = O_RDWR;
	pthread_mutex_init(&rs->lock, NULL);
	pthread_mutex_init(&rs->tx_lock, NULL);
	pthread_mutex_init(&rs->rx_lock, NULL);
}

void vb_rs_fini(struct vb_rs *rs)
{
	vb_rs_service_unuse(rs);
	pthread_mutex_destroy(&rs->lock);
	pthread_mutex_destroy(&rs->tx_lock);
	pthread_mutex_destroy(&rs->rx_lock);
}

void vb_rs_put(struct vb_rs *rs)
{
	int kept = errno;

	if (atomic_fetch_sub(&rs->refs, 1) != 1)
		return;
	switch (rs->kind) {
	case VB_RS_STREAM:
		vb_stream_destroy(vb_stream_of(rs));
		break;
	case VB_RS_DGRAM:
		vb_dgram_destroy(vb_dgram_of(rs));
		break;
	case VB_RS_REPOLL:
		vb_repoll_destroy(rs);
		break;
	}
	errno = kept;
}

bool vb_rs_get(struct vb_rs *rs)
{
	int refs = atomic_load(&rs->refs);

	while (refs > 0)
		if (atomic_compare_exchange_weak(&rs->refs, &refs, refs + 1))
			return true;
	return false;
}

struct vb_rs *vb_rs_lookup(int fd, const char *what)
{
	struct vb_rs *rs = vb_rs_table_find(fd);

	if (rs && rs->kind != VB_RS_REPOLL)
		return rs;
	if (rs)
		vb_rs_put(rs);
	return vb_fail_null(VB_RULE_RSOCKET_UNKNOWN, "%s fd=%d", what, fd);
}

void vb_rs_progress(struct vb_rs *rs)
{
	if (rs->kind == VB_RS_STREAM)
		vb_stream_progress(vb_stream_of(rs));
	else if (rs->kind == VB_RS_DGRAM)
		vb_dgram_progress(vb_dgram_of(rs));
}

void vb_rs_arm(struct vb_rs *rs)
{
	if (rs->kind == VB_RS_STREAM)
		vb_stream_arm(vb_stream_of(rs));
	else if (rs->kind == VB_RS_DGRAM)
		vb_dgram_arm(vb_dgram_of(rs));
}

void vb_rs_drain(struct vb_rs *rs)
{
	if (rs->kind == VB_RS_STREAM)
		vb_stream_drain(vb_stream_of(rs));
	else if (rs->kind == VB_RS_DGRAM)
		vb_dgram_drain(vb_dgram_of(rs));
	if (rs->waiting.first)
		vb_rs_arm(rs);
	vb_rs_progress(rs);
}

short vb_rs_revents(struct vb_rs *rs, short events)
{
	if (rs->kind == VB_RS_STREAM)
		return vb_stream_revents(vb_stream_of(rs), events);
	if (rs->kind == VB_RS_DGRAM)
		return vb_dgram_revents(vb_dgram_of(rs), events);
	return 0;
}

uint64_t vb_rs_serve(struct vb_rs *rs, uint64_t now_ns)
{
	if (rs->kind == VB_RS_STREAM)
		return vb_stream_serve(vb_stream_of(rs), now_ns);
	if (rs->kind == VB_RS_DGRAM)
		return vb_dgram_serve(vb_dgram_of(rs), now_ns);
	return 0;
}

/*
 * The socket of an id lives until rdma_destroy_id() returned, which waits for this event to
 * be acknowledged: so it can be looked at, and is left alone if it is on its way out.
 */
struct vb_rs *vb_rs_cm_event(struct rdma_cm_event *event, struct rdma_cm_id **done)
{
	struct rdma_cm_id *id = event->listen_id ? event->listen_id : event->id;
	struct vb_rs *rs = id->context;

	if (!rs || !vb_rs_get(rs)) {
		if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
			vb_stream_refuse(event->id);
		return NULL;
	}
	if (rs->kind == VB_RS_STREAM)
		vb_stream_cm_event(vb_stream_of(rs), event);
	else
		*done = vb_dgram_cm_event(vb_dgram_of(rs), event);
	return rs;
}

uint64_t vb_rs_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int sleep_once(struct vb_rs *rs, struct vb_rs_waiter *waiter, uint64_t until_ns)
{
	struct pollfd fds[2] = {{.fd = waiter->fd, .events = POLLIN},
				{.fd = rs->event_fd, .events = POLLIN}};
	struct timespec left, *timeout = NULL;
	int ret;

	if (until_ns) {
		uint64_t now = vb_rs_now_ns();

		if (now >= until_ns) {
			errno = ETIMEDOUT;
			return -1;
		}
		left.tv_sec = (time_t)((until_ns - now) / 1000000000);
		left.tv_nsec = (long)((until_ns - now) % 1000000000);
		timeout = &left;
	}
	pthread_mutex_unlock(&rs->lock);
	ret = ppoll(fds, 2, timeout, NULL);
	pthread_mutex_lock(&rs->lock);
	vb_rs_waiter_clear(waiter);
	if (fds[1].revents && ret > 0)
		vb_rs_drain(rs);
	return ret < 0 ? -1 : 0;
}

/* Latency: a peer that runs answers sooner than a sleep takes. */
static bool poll_a_while(struct vb_rs *rs, bool (*test)(struct vb_rs *rs))
{
	uint64_t end = vb_rs_now_ns() + (uint64_t)rs->conf.polling_us * 1000;

	do {
		pthread_mutex_unlock(&rs->lock);
		vb_pause();
		pthread_mutex_lock(&rs->lock);
		vb_rs_progress(rs);
		if (test(rs))
			return true;
	} while (!rs->closed && vb_rs_now_ns() < end);
	return false;
}

int vb_rs_wait(struct vb_rs *rs, bool (*test)(struct vb_rs *rs), bool nonblock, uint64_t until_ns)
{
	struct vb_rs_waiter waiter;
	struct vb_rs_link link;
	int ret = 0;

	vb_rs_progress(rs);
	if (test(rs))
		return 0;
	if (nonblock) {
		errno = EAGAIN;
		return -1;
	}
	if (poll_a_while(rs, test))
		return 0;
	if (vb_rs_waiter_init(&waiter))
		return -1;
	vb_rs_link_add(&rs->waiting, &link, &waiter);
	while (!ret) {
		vb_rs_arm(rs);
		vb_rs_progress(rs);
		if (test(rs))
			break;
		if (rs->closed) {
			errno = EBADF;
			ret = -1;
			break;
		}
		ret = sleep_once(rs, &waiter, until_ns);
	}
	vb_rs_link_remove(&link);
	vb_rs_waiter_fini(&waiter);
	return ret;
}

int vb_rs_wait_limited(struct vb_rs *rs, bool (*test)(struct vb_rs *rs), bool nonblock,
		       uint64_t limit_ns)
{
	int ret = vb_rs_wait(rs, test, nonblock, limit_ns ? vb_rs_now_ns() + limit_ns : 0);

	if (ret && errno == ETIMEDOUT)
		errno = EAGAIN;
	return ret;
}

socklen_t vb_rs_addr_bytes(const struct sockaddr *addr)
{
	return addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					   : sizeof(struct sockaddr_in);
}

int vb_rs_check_addr(const char *what, int domain, const struct sockaddr *addr, socklen_t len,
		     union vb_rs_addr *out)
{
	memset(out, 0, sizeof(*out));
	if (!addr || len < sizeof(sa_family_t))
		return vb_fail_minus1(VB_RULE_RSOCKET_ADDRESS, "%s: no address, %u bytes", what,
				      len);
	if (addr->sa_family != domain)
		return vb_fail_minus1(VB_RULE_RSOCKET_FAMILY, "%s: family %d on a socket of %d",
				      what, addr->sa_family, domain);
	if (len < vb_rs_addr_bytes(addr))
		return vb_fail_minus1(VB_RULE_RSOCKET_ADDRESS, "%s: %u bytes of %u", what, len,
				      vb_rs_addr_bytes(addr));
	memcpy(out, addr, vb_rs_addr_bytes(addr));
	return 0;
}

void vb_rs_return_addr(const struct sockaddr *from, struct sockaddr *addr, socklen_t *len)
{
	socklen_t full = vb_rs_addr_bytes(from);

	if (!len)
		return;
	if (addr)
		memcpy(addr, from, *len < full ? *len : full);
	*len = full;
}

ssize_t vb_rs_iov_bytes(const char *what, const struct iovec *iov, size_t count)
{
	size_t sum = 0;

	if (count > IOV_MAX || (count && !iov))
		return vb_fail_minus1(VB_RULE_RSOCKET_BUFFERS, "%s: %zu buffers", what, count);
	for (size_t i = 0; i < count; i++) {
		if (iov[i].iov_len > SSIZE_MAX - sum)
			return vb_fail_minus1(VB_RULE_RSOCKET_BUFFERS, "%s: buffer %zu", what, i);
		sum += iov[i].iov_len;
	}
	return (ssize_t)sum;
}

/* The next piece of the list, at most @bytes; moves on. */
static void *next_piece(struct vb_rs_cursor *cursor, size_t *bytes)
{
	void *piece;

	while (cursor->left && cursor->at == cursor->iov->iov_len) {
		cursor->iov++;
		cursor->left--;
		cursor->at = 0;
	}
	if (!cursor->left) {
		*bytes = 0;
		return NULL;
	}
	piece = (char *)cursor->iov->iov_base + cursor->at;
	if (*bytes > cursor->iov->iov_len - cursor->at)
		*bytes = cursor->iov->iov_len - cursor->at;
	cursor->at += *bytes;
	return piece;
}

void vb_rs_gather(struct vb_rs_cursor *cursor, void *to, size_t bytes)
{
	for (size_t n = bytes; bytes; bytes -= n, to = (char *)to + n, n = bytes) {
		const void *piece = next_piece(cursor, &n);

		if (!n)
			return;
		memcpy(to, piece, n);
	}
}

void vb_rs_scatter(struct vb_rs_cursor *cursor, const void *from, size_t bytes)
{
	for (size_t n = bytes; bytes; bytes -= n, from = (const char *)from + n, n = bytes) {
		void *piece = next_piece(cursor, &n);

		if (!n)
			return;
		memcpy(piece, from, n);
	}
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "base/rules.h"
#include "rdmacm/rsocket/stream.h"

/* Bytes were read: the messages they were in give credits back, their room is free. */
static void consume(struct vb_stream *st, uint32_t bytes)
{
	st->rbuf_at = (st->rbuf_at + bytes) % st->rs.conf.rbuf_bytes;
	st->unread -= bytes;
	st->rbuf_free += bytes;
	while (bytes) {
		uint32_t *message = &st->messages[st->first_message];

		if (*message > bytes) {
			*message -= bytes;
			return;
		}
		bytes -= *message;
		st->first_message = (st->first_message + 1) % st->rs.conf.rq_size;
		st->n_messages--;
		st->read++;
	}
}

/* Nothing to read: an error, told once, or the end (0); EAGAIN: it may still come. */
static ssize_t at_end(struct vb_stream *st)
{
	if (!st->rd_open)
		return 0;
	if (st->rs.error) {
		errno = st->rs.error;
		st->rs.error = 0;
		return -1;
	}
	if (st->peer_done || st->state != VB_STREAM_CONNECTED)
		return 0;
	errno = EAGAIN;
	return -1;
}

/* What is there now. Return: bytes; 0: the end; -1 with errno, EAGAIN for nothing yet. */
static ssize_t recv_some(struct vb_stream *st, struct vb_rs_cursor *to, size_t bytes, bool peek)
{
	uint32_t size = st->rs.conf.rbuf_bytes, at, n, end;
	ssize_t ret;

	pthread_mutex_lock(&st->rs.rx_lock);
	pthread_mutex_lock(&st->rs.lock);
	if (st->unread < bytes)
		vb_stream_progress(st);
	if (!st->unread || !st->rd_open) {
		ret = at_end(st);
		pthread_mutex_unlock(&st->rs.lock);
		goto out;
	}
	n = st->unread < bytes ? st->unread : (uint32_t)bytes;
	at = st->rbuf_at;
	pthread_mutex_unlock(&st->rs.lock);

	/* The peer does not write here until the room is lent again. */
	end = size - at;
	vb_rs_scatter(to, st->rbuf + at, n < end ? n : end);
	if (n > end)
		vb_rs_scatter(to, st->rbuf, n - end);
	ret = n;
	if (!peek) {
		pthread_mutex_lock(&st->rs.lock);
		consume(st, n);
		vb_stream_progress(st);
		pthread_mutex_unlock(&st->rs.lock);
	}
out:
	pthread_mutex_unlock(&st->rs.rx_lock);
	return ret;
}

ssize_t vb_stream_recv(struct vb_stream *st, struct vb_rs_cursor to, size_t bytes, int flags)
{
	bool nonblock = vb_rs_nonblocking(&st->rs, flags), peek = flags & MSG_PEEK;
	size_t done = 0;
	ssize_t some;
	int ret;

	if (flags & MSG_OOB)
		return vb_fail_minus1(VB_RULE_RSOCKET_FLAGS, "rrecv fd=%d: MSG_OOB", st->rs.fd);
	if (vb_stream_ready(st, "rrecv", nonblock))
		return -1;
	if (!bytes)
		return 0;
	for (;;) {
		some = recv_some(st, &to, bytes - done, peek);
		if (some > 0)
			done += (size_t)some;
		else if (!some || errno != EAGAIN)
			return done ? (ssize_t)done : some;
		if (done == bytes || (done && (peek || !(flags & MSG_WAITALL))))
			return (ssize_t)done;
		pthread_mutex_lock(&st->rs.lock);
		ret = vb_rs_wait_limited(&st->rs, vb_stream_readable, nonblock,
					 st->rs.recv_wait_ns);
		pthread_mutex_unlock(&st->rs.lock);
		if (ret)
			return done ? (ssize_t)done : -1;
	}
}

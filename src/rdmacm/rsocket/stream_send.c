/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>

#include "base/rules.h"
#include "rdmacm/rsocket/stream.h"

/*
 * A large send begins with a small piece, so that the receiver starts to copy while the
 * rest is on its way, and doubles from there.
 */
#define FIRST_PIECE 2048u
#define MOST_PIECE  65536u
#define MOST_INLINE 512u

void vb_stream_take_room(struct vb_stream *st, uint32_t most, struct vb_stream_piece *piece)
{
	piece->bytes = most < st->sbuf_free ? most : st->sbuf_free;
	piece->in_line = piece->bytes <= st->inline_bytes && piece->bytes <= MOST_INLINE;
	st->sq_free--;
	if (piece->in_line)
		return;
	piece->at = st->sbuf_at;
	st->sbuf_free -= piece->bytes;
	st->sbuf_at = (st->sbuf_at + piece->bytes) % st->rs.conf.sbuf_bytes;
}

/* A piece for the stream: lock held, vb_stream_can_send() was true. */
static bool take_piece(struct vb_stream *st, size_t left, uint32_t most,
		       struct vb_stream_piece *piece)
{
	struct vb_rs_sge target;

	if (!vb_stream_target(st, &target))
		return false;
	if (most > left)
		most = (uint32_t)left;
	vb_stream_take_room(st, most < target.length ? most : target.length, piece);
	piece->remote = target.addr;
	piece->rkey = target.key;
	/* Before the data: its arrival entitles the peer to fill the entry anew. */
	vb_stream_use_target(st, target, piece->bytes);
	st->sent++;
	return true;
}

int vb_stream_post(struct vb_stream *st, struct vb_rs_cursor *from,
		   const struct vb_stream_piece *piece, uint32_t msg)
{
	uint32_t end = st->rs.conf.sbuf_bytes - piece->at;
	uint8_t small[MOST_INLINE];
	struct ibv_sge sge[2];
	struct ibv_send_wr *bad,
		wr = {
			.wr_id = piece->in_line ? 0 : piece->bytes,
			.sg_list = sge,
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE,
			.wr.rdma = {.remote_addr = piece->remote, .rkey = piece->rkey},
		};

	if (vb_rs_msg_op(msg) != VB_RS_OP_WRITE) {
		wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		wr.imm_data = htonl(msg);
	}
	sge[0] = (struct ibv_sge){.addr = (uintptr_t)st->sbuf + piece->at,
				  .length = piece->bytes,
				  .lkey = st->smr->lkey};
	if (piece->in_line) {
		vb_rs_gather(from, small, piece->bytes);
		sge[0].addr = (uintptr_t)small;
		wr.send_flags = IBV_SEND_INLINE;
	} else if (piece->bytes <= end) {
		vb_rs_gather(from, st->sbuf + piece->at, piece->bytes);
	} else {
		vb_rs_gather(from, st->sbuf + piece->at, end);
		vb_rs_gather(from, st->sbuf, piece->bytes - end);
		sge[0].length = end;
		sge[1] = sge[0];
		sge[1].addr = (uintptr_t)st->sbuf;
		sge[1].length = piece->bytes - end;
		wr.num_sge = 2;
	}
	return ibv_post_send(st->id->qp, &wr, &bad) ? -1 : 0;
}

/* Why no more can be sent: the error, told once, or that it is over. Lock held. */
static int refuse(struct vb_stream *st)
{
	if (st->rs.error && st->wr_open) {
		errno = st->rs.error;
		st->rs.error = 0;
		return -1;
	}
	return vb_fail_minus1(VB_RULE_RSOCKET_PIPE, "rsend fd=%d: %s", st->rs.fd,
			      st->wr_open ? "the peer is gone" : "this side shut down");
}

/* As many pieces as there is room for. Return: bytes, or -1 with errno and nothing sent. */
static ssize_t send_some(struct vb_stream *st, struct vb_rs_cursor *from, size_t bytes)
{
	struct vb_stream_piece piece = {0};
	uint32_t most = FIRST_PIECE;
	size_t done = 0;
	int ret = 0;

	pthread_mutex_lock(&st->rs.tx_lock);
	while (done < bytes) {
		bool got = false;

		pthread_mutex_lock(&st->rs.lock);
		if (!vb_stream_can_send(st))
			vb_stream_progress(st);
		if (!st->wr_open || st->peer_gone || st->state != VB_STREAM_CONNECTED)
			ret = done ? 0 : refuse(st);
		else
			got = vb_stream_can_send(st) && take_piece(st, bytes - done, most, &piece);
		pthread_mutex_unlock(&st->rs.lock);
		if (!got)
			break;
		if (vb_stream_post(st, from, &piece, vb_rs_msg(VB_RS_OP_DATA, piece.bytes))) {
			pthread_mutex_lock(&st->rs.lock);
			vb_stream_break(st, ECONNRESET);
			pthread_mutex_unlock(&st->rs.lock);
			break;
		}
		done += piece.bytes;
		if (most < MOST_PIECE)
			most *= 2;
	}
	pthread_mutex_unlock(&st->rs.tx_lock);
	return ret ? ret : (ssize_t)done;
}

ssize_t vb_stream_send(struct vb_stream *st, struct vb_rs_cursor from, size_t bytes, int flags)
{
	bool nonblock = vb_rs_nonblocking(&st->rs, flags);
	size_t done = 0;
	ssize_t some;
	int ret;

	if (flags & MSG_OOB)
		return vb_fail_minus1(VB_RULE_RSOCKET_FLAGS, "rsend fd=%d: MSG_OOB", st->rs.fd);
	if (vb_stream_ready(st, "rsend", nonblock) || vb_stream_tell_maps(st, nonblock))
		return -1;
	for (;;) {
		some = send_some(st, &from, bytes - done);
		if (some < 0)
			return done ? (ssize_t)done : -1;
		done += (size_t)some;
		if (done == bytes)
			return (ssize_t)done;
		pthread_mutex_lock(&st->rs.lock);
		ret = vb_rs_wait_limited(&st->rs, vb_stream_writable, nonblock,
					 st->rs.send_wait_ns);
		pthread_mutex_unlock(&st->rs.lock);
		if (ret)
			return done ? (ssize_t)done : -1;
	}
}

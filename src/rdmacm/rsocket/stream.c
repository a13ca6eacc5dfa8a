/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/rsocket/stream.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/rules.h"
#include "rdmacm/rsocket/service.h"

/* wr_id: what completed. A data message says in its lower half how much of sbuf it frees. */
#define WR_RECV	  (1ull << 63)
#define WR_CTRL	  (1ull << 62)
#define WC_BATCH  16
#define ACK_BATCH 256

/* Bits of what a waiter may be waiting for. */
#define SEEN_IN	   0x1u
#define SEEN_OUT   0x2u
#define SEEN_CTRL  0x4u
#define SEEN_SENT  0x8u
#define SEEN_STATE 0x100u /* times the state */

struct vb_stream *vb_stream_create(struct vb_rs_process *process, int domain)
{
	struct vb_stream *st = calloc(1, sizeof(*st));

	if (!st)
		return NULL;
	vb_rs_init(&st->rs, VB_RS_STREAM, domain);
	pthread_mutex_init(&st->map_lock, NULL);
	st->rd_open = true;
	st->wr_open = true;
	if (vb_rs_service_use(process, &st->rs)) {
		vb_rs_put(&st->rs);
		return NULL;
	}
	return st;
}

void vb_stream_destroy(struct vb_stream *st)
{
	vb_stream_release(st);
	if (st->id)
		rdma_destroy_id(st->id);
	if (st->listener)
		vb_rs_put(&st->listener->rs);
	free(st->route);
	pthread_mutex_destroy(&st->map_lock);
	vb_rs_fini(&st->rs);
	free(st);
}

/*
 * The peer's adapter writes the list at any time. Halves of an entry are read in one piece
 * each; the thread sanitizer cannot know of the other side, so what an entry hands over,
 * room that was read, is said to it.
 */
#define NOT_SANITIZED __attribute__((no_sanitize("thread")))
#ifdef __SANITIZE_THREAD__
void __tsan_acquire(void *address);
void __tsan_release(void *address);
#else
#define __tsan_acquire(address) ((void)(address))
#define __tsan_release(address) ((void)(address))
#endif

union target {
	struct vb_rs_sge sge;
	uint64_t half[2];
};

NOT_SANITIZED bool vb_stream_target(struct vb_stream *st, struct vb_rs_sge *target)
{
	const volatile uint64_t *half = (uint64_t *)&vb_stream_targets(st)[st->target_at];
	union target copy;

	copy.half[0] = half[0];
	copy.half[1] = half[1];
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	__tsan_acquire((void *)(uintptr_t)half);
	*target = copy.sge;
	return target->addr && target->length;
}

NOT_SANITIZED void vb_stream_use_target(struct vb_stream *st, struct vb_rs_sge target,
					uint32_t bytes)
{
	volatile uint64_t *half = (uint64_t *)&vb_stream_targets(st)[st->target_at];
	union target left = {.sge = {.addr = target.addr + bytes,
				     .key = target.key,
				     .length = target.length - bytes}};

	if (!left.sge.length) {
		left = (union target){.half = {0, 0}};
		st->target_at = (st->target_at + 1) % VB_RS_TARGETS;
	}
	half[0] = left.half[0];
	half[1] = left.half[1];
}

bool vb_stream_can_send(struct vb_stream *st)
{
	struct vb_rs_sge target;

	return st->state == VB_STREAM_CONNECTED && st->sq_free &&
	       st->sbuf_free >= VB_RS_SEND_LOWEST && st->sent != st->may_send &&
	       vb_stream_target(st, &target);
}

static bool is_opening(const struct vb_stream *st)
{
	return st->state >= VB_STREAM_ADDR && st->state <= VB_STREAM_ACCEPTING;
}

static bool writes_fail(const struct vb_stream *st)
{
	return !st->wr_open || st->peer_gone || st->rs.error ||
	       (st->state != VB_STREAM_CONNECTED && !is_opening(st));
}

bool vb_stream_readable(struct vb_rs *rs)
{
	struct vb_stream *st = vb_stream_of(rs);

	if (st->state == VB_STREAM_LISTENING)
		return st->n_ready > 0;
	if (is_opening(st))
		return false;
	return st->unread || !st->rd_open || st->peer_done || rs->error ||
	       st->state != VB_STREAM_CONNECTED;
}

bool vb_stream_writable(struct vb_rs *rs)
{
	struct vb_stream *st = vb_stream_of(rs);

	return vb_stream_can_send(st) || (!is_opening(st) && writes_fail(st));
}

bool vb_stream_opened(struct vb_rs *rs)
{
	return !is_opening(vb_stream_of(rs));
}

bool vb_stream_ctrl_possible(struct vb_rs *rs)
{
	struct vb_stream *st = vb_stream_of(rs);

	return vb_stream_ctrl_free(st) || st->state != VB_STREAM_CONNECTED || st->peer_gone;
}

bool vb_stream_all_sent(struct vb_rs *rs)
{
	struct vb_stream *st = vb_stream_of(rs);

	if (st->state != VB_STREAM_CONNECTED || st->peer_gone)
		return true;
	return !st->shutdown_owed && !st->disconnect_owed && st->ctrl_sent == st->ctrl_done &&
	       (int)st->sq_free == rs->conf.sq_size - VB_RS_CTRL_SLOTS;
}

void vb_stream_changed(struct vb_stream *st)
{
	uint32_t seen = SEEN_STATE * st->state, fresh;

	if (vb_stream_readable(&st->rs))
		seen |= SEEN_IN;
	if (vb_stream_writable(&st->rs))
		seen |= SEEN_OUT;
	if (vb_stream_ctrl_possible(&st->rs))
		seen |= SEEN_CTRL;
	if (vb_stream_all_sent(&st->rs))
		seen |= SEEN_SENT;
	fresh = seen & ~st->seen;
	if (seen / SEEN_STATE != st->seen / SEEN_STATE)
		fresh |= SEEN_IN | SEEN_OUT;
	st->seen = seen;
	if (fresh & SEEN_OUT)
		st->rs.out_moves++;
	if (fresh & SEEN_IN)
		st->rs.in_moves++;
	if (fresh && st->rs.waiting.first)
		vb_rs_links_wake(&st->rs.waiting);
}

void vb_stream_break(struct vb_stream *st, int err)
{
	if (st->state != VB_STREAM_CONNECTED)
		return;
	st->state = VB_STREAM_ENDED;
	st->peer_done = true;
	st->peer_gone = true;
	if (err && !st->rs.error)
		st->rs.error = err;
	vb_stream_changed(st);
}

static int post_receives(struct vb_stream *st, int count)
{
	struct ibv_recv_wr wr[WC_BATCH], *bad;

	for (int i = 0; i < count; i++)
		wr[i] = (struct ibv_recv_wr){.wr_id = WR_RECV,
					     .next = i + 1 < count ? &wr[i + 1] : NULL};
	return count ? ibv_post_recv(st->id->qp, wr, &bad) : 0;
}

void vb_stream_post_ctrl(struct vb_stream *st, const struct ibv_send_wr *form, const void *payload,
			 uint32_t bytes)
{
	struct ibv_sge sge = {.length = bytes};
	struct ibv_send_wr wr = *form, *bad;
	uint8_t *slot;

	if (bytes && bytes <= st->inline_bytes) {
		sge.addr = (uintptr_t)payload;
		wr.send_flags = IBV_SEND_INLINE;
	} else if (bytes) {
		slot = st->sbuf + st->rs.conf.sbuf_bytes +
		       st->ctrl_sent % VB_RS_CTRL_SLOTS * sizeof(struct vb_rs_iomap);
		memcpy(slot, payload, bytes);
		sge.addr = (uintptr_t)slot;
		sge.lkey = st->smr->lkey;
	}
	wr.wr_id = WR_CTRL;
	wr.sg_list = &sge;
	wr.num_sge = bytes ? 1 : 0;
	st->ctrl_sent++;
	if (ibv_post_send(st->id->qp, &wr, &bad)) {
		st->ctrl_sent--;
		vb_stream_break(st, ECONNRESET);
	}
}

/* The peer gets back what was read: room, as soon as a half is free, and credits. */
static bool owes_credits(const struct vb_stream *st)
{
	return st->state == VB_STREAM_CONNECTED && !st->peer_gone && vb_stream_ctrl_free(st) &&
	       (st->rbuf_free >= st->rs.conf.rbuf_bytes / 2 || (int16_t)(st->read - st->told) >= 0);
}

static void give_credits(struct vb_stream *st)
{
	uint32_t half = st->rs.conf.rbuf_bytes / 2;
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM};
	struct vb_rs_sge sge;

	while (owes_credits(st)) {
		st->told = (uint16_t)(st->read + st->rs.conf.rq_size / 2);
		wr.imm_data =
			htonl(vb_rs_msg(VB_RS_OP_SGL, (uint16_t)(st->read + st->rs.conf.rq_size)));
		if (st->rbuf_free < half) {
			vb_stream_post_ctrl(st, &wr, NULL, 0);
			continue;
		}
		sge = (struct vb_rs_sge){.addr = (uintptr_t)st->rbuf + st->free_at,
					 .key = st->rmr->rkey,
					 .length = half};
		sge = vb_rs_sge_swap(sge, st->swap);
		wr.wr.rdma.remote_addr = st->peer_targets.addr +
					 (uint64_t)st->peer_target_at * sizeof(struct vb_rs_sge);
		wr.wr.rdma.rkey = st->peer_targets.key;
		__tsan_release((void *)(uintptr_t)wr.wr.rdma.remote_addr);
		st->rbuf_free -= half;
		st->free_at = (st->free_at + half) % (2 * half);
		st->lent += half;
		st->peer_target_at = (st->peer_target_at + 1) % st->peer_targets.length;
		vb_stream_post_ctrl(st, &wr, &sge, sizeof(sge));
	}
}

static void take_data(struct vb_stream *st, uint32_t bytes)
{
	uint32_t slots = st->rs.conf.rq_size;

	if (bytes > st->lent || (bytes && st->n_messages == slots)) {
		vb_stream_break(st, EPROTO);
		return;
	}
	if (!bytes) {
		st->read++;
		return;
	}
	st->lent -= bytes;
	st->unread += bytes;
	st->messages[(st->first_message + st->n_messages++) % slots] = bytes;
	/* Edge-triggered pollers are told of each arrival, not of the first only. */
	st->rs.in_moves++;
}

static void take_message(struct vb_stream *st, uint32_t msg)
{
	uint32_t value = vb_rs_msg_value(msg);

	switch (vb_rs_msg_op(msg)) {
	case VB_RS_OP_DATA:
		take_data(st, value);
		break;
	case VB_RS_OP_SGL:
		st->may_send = (uint16_t)value;
		break;
	case VB_RS_OP_CTRL:
		if (value == VB_RS_CTRL_DISCONNECT)
			st->peer_gone = true;
		if (value == VB_RS_CTRL_DISCONNECT || value == VB_RS_CTRL_SHUTDOWN)
			st->peer_done = true;
		break;
	case VB_RS_OP_IOMAP: /* it lies in the table already */
	case VB_RS_OP_WRITE:
		break;
	}
}

static int error_of(enum ibv_wc_status status)
{
	return status == IBV_WC_RETRY_EXC_ERR ? ETIMEDOUT : ECONNRESET;
}

static void take_completion(struct vb_stream *st, const struct ibv_wc *wc)
{
	if (wc->wr_id & WR_RECV) {
		if (wc->status == IBV_WC_SUCCESS && (wc->wc_flags & IBV_WC_WITH_IMM) &&
		    st->state != VB_STREAM_ENDED)
			take_message(st, ntohl(wc->imm_data));
		return;
	}
	if (wc->wr_id & WR_CTRL) {
		st->ctrl_done++;
	} else {
		st->sq_free++;
		st->sbuf_free += (uint32_t)wc->wr_id;
	}
	if (wc->status != IBV_WC_SUCCESS && st->state == VB_STREAM_CONNECTED)
		vb_stream_break(st, st->peer_gone ? 0 : error_of(wc->status));
}

void vb_stream_progress(struct vb_stream *st)
{
	struct ibv_wc wc[WC_BATCH];
	int n, received;

	if (!st->cq)
		return;
	give_credits(st);
	do {
		n = ibv_poll_cq(st->cq, WC_BATCH, wc);
		received = 0;
		for (int i = 0; i < n; i++) {
			take_completion(st, &wc[i]);
			received += wc[i].wr_id & WR_RECV && wc[i].status == IBV_WC_SUCCESS;
		}
		if (st->state == VB_STREAM_CONNECTED || st->state == VB_STREAM_ACCEPTING ||
		    st->state == VB_STREAM_CM) {
			if (post_receives(st, received))
				vb_stream_break(st, ECONNRESET);
		}
	} while (n == WC_BATCH);
	if (n < 0)
		vb_stream_break(st, EIO);
	vb_stream_tell_owed(st);
	give_credits(st);
	vb_stream_changed(st);
}

void vb_stream_arm(struct vb_stream *st)
{
	if (!st->cq || st->armed)
		return;
	if (ibv_req_notify_cq(st->cq, 0))
		vb_stream_break(st, EIO);
	else
		st->armed = true;
}

void vb_stream_drain(struct vb_stream *st)
{
	struct ibv_cq *cq;
	void *context;

	if (!st->channel || ibv_get_cq_event(st->channel, &cq, &context))
		return;
	st->armed = false;
	if (++st->unacked == ACK_BATCH) {
		ibv_ack_cq_events(st->cq, st->unacked);
		st->unacked = 0;
	}
}

static short connected_revents(struct vb_stream *st)
{
	short revents = 0;

	if (vb_stream_readable(&st->rs))
		revents |= POLLIN | POLLRDNORM;
	if (vb_stream_writable(&st->rs))
		revents |= POLLOUT | POLLWRNORM;
	if (st->peer_done || !st->rd_open)
		revents |= POLLRDHUP;
	/* Not before the end is all there is: many programs take POLLHUP for one. */
	if ((st->peer_gone && !st->unread) || (!st->wr_open && (st->peer_done || !st->rd_open)))
		revents |= POLLHUP;
	if (st->rs.error)
		revents |= POLLERR;
	return revents;
}

short vb_stream_revents(struct vb_stream *st, short events)
{
	short revents = 0;

	switch (st->state) {
	case VB_STREAM_INIT:
	case VB_STREAM_BOUND:
		revents = POLLOUT | POLLWRNORM | POLLHUP;
		break;
	case VB_STREAM_LISTENING:
		revents = vb_stream_readable(&st->rs) ? POLLIN | POLLRDNORM : 0;
		break;
	case VB_STREAM_ADDR:
	case VB_STREAM_ROUTE:
	case VB_STREAM_CM:
	case VB_STREAM_ACCEPTING:
		break;
	case VB_STREAM_FAILED:
		revents = POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM | POLLHUP | POLLRDHUP;
		revents |= st->rs.error ? POLLERR : 0;
		break;
	case VB_STREAM_CONNECTED:
	case VB_STREAM_ENDED:
		revents = connected_revents(st);
		break;
	}
	return (short)(revents & (events | POLLERR | POLLHUP));
}

int vb_stream_ready(struct vb_stream *st, const char *what, bool nonblock)
{
	int ret = 0;

	pthread_mutex_lock(&st->rs.lock);
	if (is_opening(st))
		ret = vb_rs_wait(&st->rs, vb_stream_opened, nonblock, 0);
	if (!ret && st->state == VB_STREAM_FAILED && st->rs.error) {
		errno = st->rs.error;
		st->rs.error = 0;
		ret = -1;
	} else if (!ret && st->state != VB_STREAM_CONNECTED && st->state != VB_STREAM_ENDED) {
		ret = vb_fail_minus1(VB_RULE_RSOCKET_NOT_CONNECTED, "%s fd=%d", what, st->rs.fd);
	}
	pthread_mutex_unlock(&st->rs.lock);
	return ret;
}

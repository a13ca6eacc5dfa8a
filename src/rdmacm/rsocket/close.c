/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>

#include "base/rules.h"
#include "rdmacm/rsocket/service.h"
#include "rdmacm/rsocket/stream.h"

/*
 * Theory of operation
 *
 * What the peer is told of an end goes after the data, as a message of its own. It may
 * have to wait for a slot, which comes with a completion: then it is owed, and whoever
 * looks at the completion queue next sends it; the service, if nobody does.
 *
 * rclose() says that both directions are over and waits, a moment, until all that was
 * sent is with the peer. The queue pair cannot go before that. What takes longer, because
 * a peer has no receive left and does not look, the service waits for, up to a limit:
 * with SO_LINGER the program's, else LINGER_NS. SO_LINGER with no time throws it away.
 */

#define WAIT_NS	    2000000000ull
#define LINGER_NS   120000000000ull
#define NS_PER_S    1000000000ull
#define KEEPALIVE_S 7200

static void tell(struct vb_stream *st, enum vb_rs_ctrl what)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				 .imm_data = htonl(vb_rs_msg(VB_RS_OP_CTRL, what))};

	vb_stream_post_ctrl(st, &wr, NULL, 0);
}

void vb_stream_tell_owed(struct vb_stream *st)
{
	if (st->state != VB_STREAM_CONNECTED)
		return;
	if (st->shutdown_owed && vb_stream_ctrl_free(st)) {
		st->shutdown_owed = false;
		tell(st, VB_RS_CTRL_SHUTDOWN);
	}
	if (st->disconnect_owed && !st->shutdown_owed && vb_stream_ctrl_free(st)) {
		st->disconnect_owed = false;
		st->told_disconnect = true;
		tell(st, VB_RS_CTRL_DISCONNECT);
	}
}

/* Let the service look at completions until all that was sent, and is owed, is done. */
static void leave_to_service(struct vb_stream *st)
{
	vb_rs_arm(&st->rs);
	vb_rs_progress(&st->rs);
	vb_rs_service_watch(&st->rs, st->rs.event_fd,
			    st->linger_until_ns ? st->linger_until_ns : VB_RS_NEVER);
}

/* tx_lock held, so that no data follows. */
static void close_directions(struct vb_stream *st, bool read, bool write)
{
	bool was_open = st->wr_open;

	if (read)
		st->rd_open = false;
	if (write)
		st->wr_open = false;
	if (!st->rd_open && !st->wr_open)
		st->disconnect_owed = !st->told_disconnect;
	else if (write && was_open)
		st->shutdown_owed = true;
	if (st->disconnect_owed)
		st->shutdown_owed = false;
	vb_stream_tell_owed(st);
	vb_stream_changed(st);
}

int vb_stream_shutdown(struct vb_stream *st, int how)
{
	int ret = 0;

	if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
		return vb_fail_minus1(VB_RULE_RSOCKET_VALUE, "rshutdown fd=%d: how=%d", st->rs.fd,
				      how);
	pthread_mutex_lock(&st->rs.tx_lock);
	pthread_mutex_lock(&st->rs.lock);
	if (st->state != VB_STREAM_CONNECTED && st->state != VB_STREAM_ENDED) {
		ret = vb_fail_minus1(VB_RULE_RSOCKET_NOT_CONNECTED, "rshutdown fd=%d", st->rs.fd);
	} else {
		close_directions(st, how != SHUT_WR, how != SHUT_RD);
		if (st->state == VB_STREAM_CONNECTED && (st->shutdown_owed || st->disconnect_owed))
			leave_to_service(st);
	}
	pthread_mutex_unlock(&st->rs.lock);
	pthread_mutex_unlock(&st->rs.tx_lock);
	return ret;
}

/* Whether rclose() may wait, and until when. */
static bool wants_to_send_rest(struct vb_stream *st, uint64_t *wait_ns, uint64_t *linger_ns)
{
	const struct linger *linger = &st->rs.linger;

	if (!vb_rs_flag(&st->rs, VB_RS_LINGER_SET) || !linger->l_onoff) {
		*wait_ns = WAIT_NS;
		*linger_ns = LINGER_NS;
		return true;
	}
	*wait_ns = (uint64_t)(linger->l_linger > 0 ? linger->l_linger : 0) * NS_PER_S;
	*linger_ns = *wait_ns;
	return linger->l_linger > 0;
}

/* Return: whether the end is left to the service. */
static bool end_connection(struct vb_stream *st)
{
	uint64_t now = vb_rs_now_ns(), wait_ns, linger_ns;

	if (st->state != VB_STREAM_CONNECTED)
		return false;
	if (!wants_to_send_rest(st, &wait_ns, &linger_ns)) {
		st->rd_open = false;
		st->wr_open = false;
		return false;
	}
	close_directions(st, true, true);
	while (vb_rs_wait(&st->rs, vb_stream_all_sent, false, now + wait_ns) && errno == EINTR)
		;
	if (vb_stream_all_sent(&st->rs))
		return false;
	st->linger_until_ns = now + linger_ns;
	leave_to_service(st);
	return true;
}

void vb_stream_close(struct vb_stream *st)
{
	bool lingers;

	vb_stream_stop_listening(st);
	pthread_mutex_lock(&st->rs.tx_lock);
	pthread_mutex_lock(&st->rs.lock);
	st->want_keepalive = false;
	lingers = end_connection(st);
	st->rs.closed = true;
	if (!lingers && st->state == VB_STREAM_CONNECTED)
		rdma_disconnect(st->id);
	vb_rs_links_wake(&st->rs.waiting);
	pthread_mutex_unlock(&st->rs.lock);
	pthread_mutex_unlock(&st->rs.tx_lock);
	if (!lingers)
		vb_rs_service_unwatch(&st->rs);
}

/* The end of one that rclose() left here. Return: as vb_stream_serve(). */
static uint64_t serve_lingering(struct vb_stream *st, uint64_t now_ns)
{
	if (!vb_stream_all_sent(&st->rs) && now_ns < st->linger_until_ns)
		return st->linger_until_ns;
	if (st->state == VB_STREAM_CONNECTED)
		rdma_disconnect(st->id);
	return 0;
}

static uint64_t serve_keepalive(struct vb_stream *st, uint64_t now_ns)
{
	/* Nothing is written: a write of no bytes is acknowledged all the same. */
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE};
	uint64_t every = (uint64_t)(st->rs.keepalive_s ? st->rs.keepalive_s : KEEPALIVE_S);

	if (st->state == VB_STREAM_ENDED || st->state == VB_STREAM_FAILED)
		return 0;
	if (!st->keepalive_at_ns)
		st->keepalive_at_ns = now_ns + every * NS_PER_S;
	if (now_ns >= st->keepalive_at_ns) {
		if (st->state == VB_STREAM_CONNECTED && !st->peer_gone && vb_stream_ctrl_free(st))
			vb_stream_post_ctrl(st, &wr, NULL, 0);
		st->keepalive_at_ns = now_ns + every * NS_PER_S;
	}
	return st->keepalive_at_ns;
}

uint64_t vb_stream_serve(struct vb_stream *st, uint64_t now_ns)
{
	uint64_t next = 0;

	pthread_mutex_lock(&st->rs.lock);
	vb_rs_drain(&st->rs);
	vb_rs_arm(&st->rs);
	vb_rs_progress(&st->rs);
	if (st->linger_until_ns)
		next = serve_lingering(st, now_ns);
	else if (st->want_keepalive)
		next = serve_keepalive(st, now_ns);
	else if (st->state == VB_STREAM_CONNECTED && (st->shutdown_owed || st->disconnect_owed))
		next = VB_RS_NEVER;
	pthread_mutex_unlock(&st->rs.lock);
	return next;
}

int vb_stream_set_keepalive(struct vb_stream *st, bool on)
{
	st->want_keepalive = on;
	st->keepalive_at_ns = 0;
	/* The service finds out what there is to do, or that nothing is. */
	return vb_rs_service_watch(&st->rs, -1, 0);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_RDMACM_RSOCKET_STREAM_H
#define VB_RDMACM_RSOCKET_STREAM_H

#include <infiniband/verbs.h>

#include "rdmacm/rsocket/socket.h"
#include "rdmacm/rsocket/wire.h"

/*
 * Theory of operation
 *
 * A stream owns an id of the connection manager, and from the connection's beginning a
 * queue pair with one completion queue for both directions, a receive buffer the peer
 * writes into, a send buffer that what is under way lies in, and the target list that the
 * peer tells its free room through (wire.h).
 *
 * States and who leaves them:
 *   INIT, BOUND      the program (bind, listen, connect)
 *   LISTENING        the program (close)
 *   ADDR, ROUTE, CM  an event of the connection manager, in the service thread
 *   ACCEPTING        the same; on the passive side, in the list of its listener
 *   CONNECTED        whoever sees a completion or event that ends it; both directions may
 *                    be closed by either side before that
 *   FAILED           never was connected; error says why until it is asked for
 *   ENDED            was connected
 *
 * What the peer sends is checked where it comes in: more data than it was lent, more
 * messages than it had credits for, or an entry that leads nowhere end the connection.
 */

enum vb_stream_state {
	VB_STREAM_INIT,
	VB_STREAM_BOUND,
	VB_STREAM_LISTENING,
	VB_STREAM_ADDR,
	VB_STREAM_ROUTE,
	VB_STREAM_CM,
	VB_STREAM_ACCEPTING,
	VB_STREAM_CONNECTED,
	VB_STREAM_FAILED,
	VB_STREAM_ENDED,
};

struct vb_stream_map; /* iomap.c: a buffer of this side */

struct vb_stream {
	struct vb_rs rs;
	struct rdma_cm_id *id;
	enum vb_stream_state state;

	/* Connecting */
	union vb_rs_addr peer;
	int tries;
	void *route;
	size_t route_bytes;

	/* A listener, and those in its list (all under the listener's lock) */
	struct vb_stream *listener; /* a reference, while it may be in the list */
	struct vb_stream *next;
	struct vb_stream *children; /* a reference each, the newest first */
	int backlog, n_children, n_ready;
	bool listed, ready; /* in the list; and connected, so that it can be taken */

	/* The endpoint */
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	bool armed;
	unsigned int unacked;
	bool swap; /* the peer's byte order is the other one */

	/* Sending: rs.lock, but for the bytes of sbuf themselves */
	uint8_t *sbuf;
	size_t sbuf_mapped;
	struct ibv_mr *smr;
	uint32_t sbuf_at, sbuf_free;
	uint32_t sq_free;
	uint16_t sent, may_send; /* messages with data, and up to which the peer takes them */
	uint32_t inline_bytes;
	unsigned int ctrl_sent, ctrl_done;
	unsigned int target_at;
	bool shutdown_owed, disconnect_owed, told_disconnect;

	/* What the peer writes into: its free room, and its mappings */
	void *targets;
	size_t targets_mapped;
	struct ibv_mr *target_mr;
	struct vb_rs_sge peer_targets; /* the peer's list; length counts entries */
	uint32_t peer_target_at;
	uint16_t peer_maps;

	/* Receiving: rs.lock, but for the bytes of rbuf not lent */
	uint8_t *rbuf;
	size_t rbuf_mapped;
	struct ibv_mr *rmr;
	uint32_t rbuf_at;	     /* where unread data begins */
	uint32_t unread;	     /* bytes */
	uint32_t rbuf_free, free_at; /* read and not lent again; where that begins */
	uint32_t lent;		     /* bytes the peer may still write */
	uint32_t *messages;	     /* lengths of those unread, a ring of rq_size */
	uint32_t first_message, n_messages;
	uint16_t read, told; /* messages read; when to give credits again */

	bool rd_open, wr_open;	   /* this side */
	bool peer_done, peer_gone; /* the other: sends no more; takes no more either */
	bool want_keepalive;
	uint64_t keepalive_at_ns;
	uint64_t linger_until_ns; /* rclose() left the rest to the service */
	uint32_t seen;		  /* what waiters were last told of */

	/* Mapped buffers (iomap.c) */
	pthread_mutex_t map_lock;
	struct vb_stream_map *maps;
};

static inline struct vb_stream *vb_stream_of(struct vb_rs *rs)
{
	return (struct vb_stream *)rs;
}

static inline struct vb_rs_sge *vb_stream_targets(struct vb_stream *st)
{
	return st->targets;
}

/** vb_stream_target() - The entry of the target list that is in use; lock held
 * Return:  false: the peer has not filled it. One that it is just filling counts as not
 *          filled: an entry that was used up is all zeroes, and none that is whole has an
 *          address or length of zero
 */
bool vb_stream_target(struct vb_stream *st, struct vb_rs_sge *target);

/** vb_stream_use_target() - @bytes of it are used, with what is about to be sent; lock held */
void vb_stream_use_target(struct vb_stream *st, struct vb_rs_sge target, uint32_t bytes);

static inline struct vb_rs_iomap *vb_stream_target_maps(struct vb_stream *st)
{
	return (struct vb_rs_iomap *)(vb_stream_targets(st) + VB_RS_TARGETS);
}

/* stream.c */
struct vb_stream *vb_stream_create(struct vb_rs_process *process, int domain);
void vb_stream_destroy(struct vb_stream *st);
void vb_stream_progress(struct vb_stream *st);
void vb_stream_arm(struct vb_stream *st);
void vb_stream_drain(struct vb_stream *st);
short vb_stream_revents(struct vb_stream *st, short events);

/** vb_stream_changed() - Something moved: wake who waits, count edges; lock held */
void vb_stream_changed(struct vb_stream *st);

/** vb_stream_break() - The connection ended by itself; lock held
 * @err:    What the next call and SO_ERROR say; 0: an ordinary end
 */
void vb_stream_break(struct vb_stream *st, int err);

/** vb_stream_post_ctrl() - Post a message of the protocol; lock held, a slot is free
 * @form:   Its opcode and immediate, and with a payload the remote address and key
 * @payload: Copied
 */
void vb_stream_post_ctrl(struct vb_stream *st, const struct ibv_send_wr *form, const void *payload,
			 uint32_t bytes);

static inline bool vb_stream_ctrl_free(const struct vb_stream *st)
{
	return st->ctrl_sent - st->ctrl_done < VB_RS_CTRL_SLOTS;
}

/* What waiters test. */
bool vb_stream_readable(struct vb_rs *rs);
bool vb_stream_writable(struct vb_rs *rs); /* or never again */
bool vb_stream_opened(struct vb_rs *rs);   /* connecting ended, in whatever way */
bool vb_stream_ctrl_possible(struct vb_rs *rs);
bool vb_stream_all_sent(struct vb_rs *rs);
bool vb_stream_can_send(struct vb_stream *st);

/** vb_stream_ready() - Wait for the connection to be made, where it is being made
 * Context: no lock held
 * Return:  0: it was, at some time, connected; or -1 with errno
 */
int vb_stream_ready(struct vb_stream *st, const char *what, bool nonblock);

/* endpoint.c */
int vb_stream_open(struct vb_stream *st);
void vb_stream_release(struct vb_stream *st);
void vb_stream_describe(struct vb_stream *st, uint8_t *conn_data);
/** vb_stream_learn() - Take the peer's connection data. Return: false: it makes no sense */
bool vb_stream_learn(struct vb_stream *st, const void *data, size_t bytes);

/* connect.c, listen.c */
int vb_stream_bind(struct vb_stream *st, const union vb_rs_addr *addr);
int vb_stream_connect(struct vb_stream *st, const union vb_rs_addr *addr);
void vb_stream_cm_event(struct vb_stream *st, struct rdma_cm_event *event);
int vb_stream_listen(struct vb_stream *st, int backlog);
struct vb_stream *vb_stream_accept(struct vb_stream *st);
void vb_stream_requested(struct vb_stream *listener, struct rdma_cm_event *event);
void vb_stream_accept_event(struct vb_stream *st, struct rdma_cm_event *event);
void vb_stream_stop_listening(struct vb_stream *st);
/** vb_stream_refuse() - Reject and forget a request nobody wants */
void vb_stream_refuse(struct rdma_cm_id *id);

/* stream_send.c, stream_recv.c */
ssize_t vb_stream_send(struct vb_stream *st, struct vb_rs_cursor from, size_t bytes, int flags);
ssize_t vb_stream_recv(struct vb_stream *st, struct vb_rs_cursor to, size_t bytes, int flags);

/* A piece of what is to be sent: where it lies, where it goes. */
struct vb_stream_piece {
	uint32_t bytes;
	uint32_t at;  /* in sbuf */
	bool in_line; /* small: not in sbuf at all */
	uint64_t remote;
	uint32_t rkey;
};

/** vb_stream_take_room() - Room in sbuf for a piece of at most @most bytes; lock held */
void vb_stream_take_room(struct vb_stream *st, uint32_t most, struct vb_stream_piece *piece);

/** vb_stream_post() - Copy the piece and post it as a write; tx_lock held, lock not
 * @msg:    The immediate; with VB_RS_OP_WRITE none goes along
 * Return:  0, or -1: the connection is broken
 */
int vb_stream_post(struct vb_stream *st, struct vb_rs_cursor *from,
		   const struct vb_stream_piece *piece, uint32_t msg);

/* close.c */
int vb_stream_shutdown(struct vb_stream *st, int how);
void vb_stream_close(struct vb_stream *st);
uint64_t vb_stream_serve(struct vb_stream *st, uint64_t now_ns);
/** vb_stream_tell_owed() - Send what shutdown owes the peer, if a slot is free; lock held */
void vb_stream_tell_owed(struct vb_stream *st);
int vb_stream_set_keepalive(struct vb_stream *st, bool on);

/* iomap.c */
/** vb_stream_tell_maps() - Tell the peer of new mappings before what follows; no lock held
 * Return:  0, or -1 with errno as sending would
 */
int vb_stream_tell_maps(struct vb_stream *st, bool nonblock);
void vb_stream_free_maps(struct vb_stream *st);

#endif

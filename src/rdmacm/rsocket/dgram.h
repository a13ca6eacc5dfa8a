/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_RDMACM_RSOCKET_DGRAM_H
#define VB_RDMACM_RSOCKET_DGRAM_H

#include <infiniband/verbs.h>

#include "rdmacm/rsocket/socket.h"
#include "rdmacm/rsocket/wire.h"

/*
 * Theory of operation
 *
 * A datagram socket is a UDP socket, for its address and for finding peers, and a UD queue
 * pair for each local address it sends from. What goes to a peer whose queue pair is not
 * known goes through the UDP socket, behind a header that tells this side's (wire.h). The
 * peer's answers with its own; from then on datagrams go from queue pair to queue pair,
 * as far as they fit into a packet. Longer ones keep going through UDP.
 *
 * The service thread reads the UDP socket, and resolves where a peer's queue pair is: an
 * id of the connection manager per peer, while that takes. Datagrams that came either way
 * wait in one queue; while it is full, completions stay where they are and the sender is
 * slowed down or loses, as with UDP.
 */

#define VB_DGRAM_BUCKETS   64
#define VB_DGRAM_MAX_PEERS 1024
#define VB_DGRAM_GRH	   40

struct vb_dgram_qp {
	struct vb_dgram_qp *next;
	struct rdma_cm_id *id;
	union vb_rs_addr local;
	struct ibv_comp_channel *channel;
	struct ibv_cq *send_cq, *recv_cq;
	unsigned int send_events, recv_events; /* to acknowledge */
	bool send_armed, recv_armed;
	uint8_t *sbuf, *rbuf; /* slots */
	size_t sbuf_mapped, rbuf_mapped;
	struct ibv_mr *smr, *rmr;
	uint32_t slots, free, next_slot, rslots;
	uint32_t most; /* bytes of a packet, our header included */
};

struct vb_dgram_peer {
	struct vb_dgram_peer *next;
	union vb_rs_addr addr;
	struct vb_dgram_qp *qp; /* NULL: no device has an address towards it */
	struct ibv_ah *ah;	/* NULL: not known yet */
	uint32_t qpn;
	struct rdma_cm_id *finding; /* resolves the way to qpn */
	uint64_t used;
};

struct vb_dgram_msg {
	struct vb_dgram_msg *next;
	union vb_rs_addr from;
	uint32_t bytes;
	uint8_t data[];
};

struct vb_dgram {
	struct vb_rs rs;
	int udp_fd;
	bool rd_open, wr_open;
	bool connected;
	union vb_rs_addr to; /* of rconnect() */
	struct vb_dgram_qp *qps;
	struct vb_dgram_peer *peers[VB_DGRAM_BUCKETS];
	int n_peers;
	uint64_t clock; /* counts uses of peers */
	struct vb_dgram_msg *first, *last;
	uint32_t n_queued;
	uint32_t seen;
};

static inline struct vb_dgram *vb_dgram_of(struct vb_rs *rs)
{
	return (struct vb_dgram *)rs;
}

/* dgram.c */
struct vb_dgram *vb_dgram_create(struct vb_rs_process *process, int domain);
void vb_dgram_destroy(struct vb_dgram *dg);
int vb_dgram_bind(struct vb_dgram *dg, const union vb_rs_addr *addr);
int vb_dgram_connect(struct vb_dgram *dg, const struct sockaddr *addr, socklen_t len);
int vb_dgram_shutdown(struct vb_dgram *dg, int how);
void vb_dgram_close(struct vb_dgram *dg);
short vb_dgram_revents(struct vb_dgram *dg, short events);

/** vb_dgram_send() - One datagram
 * @to:     NULL: the connected peer
 */
ssize_t vb_dgram_send(struct vb_dgram *dg, struct vb_rs_cursor from, size_t bytes, int flags,
		      const union vb_rs_addr *to);

/** vb_dgram_recv() - One datagram
 * @from:   Its sender; NULL: nobody asks
 * @out_flags: MSG_TRUNC where @bytes were too few
 */
ssize_t vb_dgram_recv(struct vb_dgram *dg, struct vb_rs_cursor to, size_t bytes, int flags,
		      union vb_rs_addr *from, int *out_flags);

/* dgram_qp.c; the lock is held */
struct vb_dgram_qp *vb_dgram_qp_get(struct vb_dgram *dg, const union vb_rs_addr *local);
void vb_dgram_qp_destroy(struct vb_dgram *dg, struct vb_dgram_qp *qp);
void vb_dgram_progress(struct vb_dgram *dg);
void vb_dgram_arm(struct vb_dgram *dg);
void vb_dgram_drain(struct vb_dgram *dg);
/** vb_dgram_post() - Send from a slot; one is free. Return: 0, or -1 with errno */
int vb_dgram_post(struct vb_dgram_peer *peer, struct vb_rs_cursor *from, size_t bytes);
/** vb_dgram_queue() - A datagram came; dropped where there is no room or memory */
void vb_dgram_queue(struct vb_dgram *dg, const union vb_rs_addr *from, const void *data,
		    size_t bytes);
void vb_dgram_changed(struct vb_dgram *dg);

/* dgram_peer.c */
bool vb_dgram_same_addr(const union vb_rs_addr *a, const union vb_rs_addr *b);
/** vb_dgram_peer_get() - The peer of an address; lock held. NULL with errno ENOMEM */
struct vb_dgram_peer *vb_dgram_peer_get(struct vb_dgram *dg, const union vb_rs_addr *addr);
void vb_dgram_peers_free(struct vb_dgram *dg);
/** vb_dgram_udp_send() - Through the UDP socket, with this side's queue pair in front */
ssize_t vb_dgram_udp_send(struct vb_dgram *dg, struct vb_dgram_peer *peer,
			  struct vb_rs_cursor *from, size_t bytes, bool data);
uint64_t vb_dgram_serve(struct vb_dgram *dg, uint64_t now_ns);
/** vb_dgram_cm_event() - Return: an id to destroy once the event is acknowledged */
struct rdma_cm_id *vb_dgram_cm_event(struct vb_dgram *dg, struct rdma_cm_event *event);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_CARRIER_TARGET_H
#define VB_CARRIER_TARGET_H

#include <stdbool.h>
#include <sys/uio.h>

#include "host/layout.h"
#include "host/memory.h"
#include "host/peer.h"
#include "transport/env.h"
#include "transport/rc_check.h"

/*
 * Theory of operation
 *
 * A QP as the target of a message, in whichever process of this host: its row, keys and receives
 * are read from the owner's published part, bytes move by the memory ladder, arrivals are
 * published in the owner's mailbox. It is the environment (struct vb_resp_env) in which
 * responders run: that of a whole message for the local carrier, with the target's
 * process as peer, and that of packets for the wire, with our own. No decision of the protocol
 * is made here.
 *
 * A receive is only looked at when it is "taken": what takes it is the publication of
 * its arrival, one compare-and-swap. Whatever ends a message before that leaves
 * the receive to its owner (docs/shared-words.md).
 */

#define VB_TARGET_SGE 33u /* 32 elements, and the header of a datagram */

/* Local side of a message, as the environment understands it. */
struct vb_payload {
	const struct iovec *iov;
	int n;
	bool fault;   /* the local buffers failed their check: known only when it is their turn */
	bool careful; /* some may be on-demand memory (host/memory.h) */
};

/* One message, or one of its packets, on its way into the target's process. */
struct vb_target_call {
	struct vb_peer *peer;
	struct vb_mbx_qp *mbx;
	const struct vb_pub_qp *pub;
	struct vb_pub_qp row; /* copy, consistent with `word` */
	uint64_t word;
	uint32_t qp_index;		  /* in the owner's table */
	const struct vb_payload *payload; /* of an atomic: where its result goes */
	/* Called when the message has taken its receive for good, before anybody can learn
	 * of it; may be NULL. */
	void (*arrived)(void *arg);
	void *arrived_arg;
	struct vb_key_facts key; /* of the last look-up */
	/* The receive looked at, published by complete(). */
	const struct vb_pub_rq *rq;
	_Atomic uint64_t *head;
	uint64_t index;
	uint64_t taken; /* word that publishing replaces; 0: none was taken */
	struct vb_mbx_arrival *arrival;
	struct vb_pub_sge sge[VB_TARGET_SGE];
	uint32_t num_sge;
	bool on_demand; /* one of them is of an on-demand region */
	uint8_t place;
};

/** vb_target_env - The environment; its ctx is a struct vb_target_call after vb_target_read() */
extern const struct vb_resp_env vb_target_env;

/** vb_target_read() - Read the target's row so that it belongs to one word
 * @c:      peer, payload, arrived and arrived_arg are set, taken and index are 0
 * @qpn:    The target's number, of a block of the peer's
 * Context: an access to @qpn is announced, unless the peer is ourselves
 * Return:  false where there is no such QP, or its owner keeps it locked
 */
bool vb_target_read(struct vb_target_call *c, uint32_t qpn);

/** vb_target_describe() - The attributes of the QP read, as the responders want them */
void vb_target_describe(const struct vb_target_call *c, uint32_t qpn, struct vb_resp_qp *qp);

/** vb_target_used_up() - Whether the receives are used up of a queue that has taken messages
 * @c:      After vb_target_read()
 */
bool vb_target_used_up(struct vb_target_call *c);

/** vb_target_resume() - Go on with a receive that an earlier packet of the message took
 * @recv:   As take_recv() gave it
 * Context: after vb_target_read()
 * Return:  false where the queue is gone
 */
bool vb_target_resume(struct vb_target_call *c, const struct vb_recv *recv);

/** vb_target_fail() - The message broke a rule: the owner is to move its QP to ERR */
void vb_target_fail(struct vb_target_call *c, enum vb_verdict verdict);

#endif

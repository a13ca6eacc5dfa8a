/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_TRANSPORT_RC_RESP_H
#define VB_TRANSPORT_RC_RESP_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/msg_in.h"
#include "transport/out.h"
#include "transport/rc_check.h"
#include "transport/verdict.h"

/*
 * Theory of operation
 *
 * The responder of an RC QP for packets from the wire. A request packet is checked
 * in the order of rc_check.h, executed, and leaves behind what is to be answered:
 * READs and atomics in a table of resources, everything else in one reply, because a
 * later acknowledgement says all an earlier one did. vb_rc_resp_run() sends the
 * resources' responses in order of their numbers, then the reply.
 *
 * A request seen before is never executed again: an acknowledgement is repeated, an
 * atomic's result is kept in its resource, a READ reads again from where it is asked.
 * A requester has at most max_dest_rd_atomic of them under way, so that many
 * resources are enough. A READ keeps key and range, never a place in memory, and
 * looks the key up for each packet.
 *
 * After a gap, or a receiver that was not ready, one NAK is sent; what follows is
 * dropped without a word until the expected number comes.
 */

/* The most READs and atomics a QP takes at a time. */
#define VB_RD_ATOMIC_MAX 16
/* Records one request packet may add. */
#define VB_RC_RESP_OUT_MAX 4

/* A READ or atomic that was executed and may be asked for again. */
struct vb_rd_res {
	enum vb_msg_kind kind;
	struct vb_psn first;
	uint32_t count; /* PSNs it uses */
	uint32_t rkey;
	uint64_t va;
	uint64_t length; /* bytes of a READ */
	uint64_t old;	 /* result of an atomic */
	uint32_t msn;
	bool todo;     /* responses are to be sent */
	bool answered; /* they were, once: whoever asked may have gone on */
	bool again;    /* and are asked for again since */
	uint32_t from; /* first packet of this sending, by count from first */
	uint32_t next; /* next packet to send */
};

enum vb_reply {
	VB_REPLY_NONE,
	VB_REPLY_ACK, /* all before the expected PSN, as of when it is sent */
	VB_REPLY_RNR,
	VB_REPLY_NAK,
};

struct vb_rc_resp {
	struct vb_msg_in msg; /* in progress */
	/* Answers */
	bool nak_sent; /* until the expected PSN comes */
	enum vb_reply reply;
	uint8_t reply_value;	 /* RNR timer or NAK code */
	struct vb_psn reply_psn; /* of RNR and NAK */
	uint32_t res_next;	 /* counts resources ever used; the slot is its remainder */
	struct vb_rd_res res[VB_RD_ATOMIC_MAX];
};

/** vb_rc_resp_init() - A responder that has seen nothing */
void vb_rc_resp_init(struct vb_rc_resp *rs);

/** vb_rc_resp_packet() - Run a request packet through the responder
 * @rs:     Responder of one QP, under the caller's lock
 * @qp:     Its attributes; epsn, msn and comm_est are advanced, state goes to ERR after
 *          a fatal NAK. max_dest_rd_atomic at most VB_RD_ATOMIC_MAX
 * @env:    Memory, keys and receives of the QP; its complete() is not used
 * @ctx:    Passed to @env
 * @pkt:    Parsed, ICRC good; payload valid during the call
 * @src:    Who sent it
 * @out:    Room for VB_RC_RESP_OUT_MAX records
 * Context: answers are sent by vb_rc_resp_run(), after one packet or a batch
 * Return:  exactly one verdict
 * Spec:    IBA1 9.7.4, C9-92 (length), C9-88 (zero bytes)
 */
enum vb_verdict vb_rc_resp_packet(struct vb_rc_resp *rs, struct vb_resp_qp *qp,
				  const struct vb_resp_env *env, void *ctx,
				  const struct vb_packet *pkt, const struct vb_source *src,
				  struct vb_out *out);

/** vb_rc_resp_run() - Send answers
 * @budget: Packets at most
 * Return:  true when it stopped for want of budget or room
 */
bool vb_rc_resp_run(struct vb_rc_resp *rs, struct vb_resp_qp *qp, const struct vb_resp_env *env,
		    void *ctx, uint32_t budget, struct vb_out *out);

/** vb_rc_resp_read_fault() - The data of a READ response could not be read
 *
 * Of a READ that was answered before the requester hears, if it waits still; the connection goes
 * on, since it may have had all it asked for, and the memory have been given up after that.
 *
 * @psn:    Of the response packet, which is not sent
 * @out:    Room for VB_RC_RESP_OUT_MAX records
 */
void vb_rc_resp_read_fault(struct vb_rc_resp *rs, struct vb_resp_qp *qp, struct vb_psn psn,
			   struct vb_out *out);

/** vb_rc_resp_flush() - The QP went to ERR: the receive in progress ends, nothing more is
 * answered but a NAK that says why, and what was due before it
 * @out:    Room for one record
 */
void vb_rc_resp_flush(struct vb_rc_resp *rs, const struct vb_resp_qp *qp, struct vb_out *out);

#endif

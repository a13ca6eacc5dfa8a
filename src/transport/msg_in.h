/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_TRANSPORT_MSG_IN_H
#define VB_TRANSPORT_MSG_IN_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/out.h"
#include "transport/rc_check.h"
#include "transport/verdict.h"
#include "wire/packet.h"

/*
 * Theory of operation
 *
 * A message that comes in packets: what its first packet announced, what its next must
 * therefore be, and the receive it took. Each packet runs through the checks of rc_check.h
 * in their order, and is executed. Which packets belong to the message (sequence
 * numbers), and what the sender is told, is for the responder of each service: rc_resp, uc_resp.
 */

struct vb_msg_in {
	bool in_message; /* its first packet came, its last did not */
	enum vb_msg_kind kind;
	bool has_recv; /* recv was taken for it */
	struct vb_recv recv;
	uint64_t offset; /* bytes so far */
	uint64_t total;	 /* WRITE: bytes announced */
	uint32_t rkey;
	uint64_t va;
};

/* One request packet on its way through the checks. */
struct vb_msg_step {
	struct vb_msg_in *msg;
	const struct vb_resp_qp *qp;
	const struct vb_resp_env *env;
	void *ctx; /* of env */
	const struct vb_packet *pkt;
	const struct vb_op_row *op; /* of pkt, a request */
	uint32_t busy;		    /* READs and atomics being answered */
	uint64_t old;		    /* out: what an atomic found */
};

/** vb_msg_in_packet() - Check and execute the packet that comes next in its message
 * @s:      All but @old set by the caller
 * Return:  VB_V_ACCEPTED: executed, to be followed by vb_msg_in_advance(). A READ is only
 *          checked: reading is for who answers it
 * Spec:    IBA1 9.7.4, C9-92 (length), C9-88 (zero bytes)
 */
enum vb_verdict vb_msg_in_packet(struct vb_msg_step *s);

/** vb_msg_in_advance() - The packet was executed
 * @out:    Room for one record: a receive ends with the last packet
 * Return:  whether that was the last packet
 */
bool vb_msg_in_advance(const struct vb_msg_step *s, struct vb_out *out);

/** vb_msg_in_end_recv() - The receive that was taken ends
 * @pkt:    The last packet, or NULL where the message ends early
 * @out:    Room for one record
 */
void vb_msg_in_end_recv(struct vb_msg_in *msg, const struct vb_resp_qp *qp,
			enum vb_wc_status status, const struct vb_packet *pkt, struct vb_out *out);

/** vb_msg_in_announced() - Bytes the message has, as far as is known with this packet */
uint64_t vb_msg_in_announced(const struct vb_msg_step *s);

#endif

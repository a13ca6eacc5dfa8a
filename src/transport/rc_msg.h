/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_TRANSPORT_RC_MSG_H
#define VB_TRANSPORT_RC_MSG_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/env.h"
#include "transport/psn.h"
#include "transport/rc_budget.h"
#include "transport/rc_check.h"
#include "transport/verdict.h"

/*
 * Theory of operation
 *
 * Within a host a message is a call. The initiator's thread hands the whole message
 * to the target QP's responder; the verdict is the return value, so there is no
 * acknowledgement that could be lost. What a program can see is what packets would
 * have given it: the same checks in the same order, the same statuses and events at
 * both ends, one PSN per path MTU.
 *
 * The caller owns the target's entry word for the whole call, made the copy of the
 * attributes under it, and stores the new PSN and MSN before it lets go.
 *
 * A message of more than one packet checks its key with the first packet and takes
 * the receive of an immediate with the last; a message of one packet does it the
 * other way round. That decides which failure is seen where both would fail.
 */

/* A message from the send queue of one QP to the responder of another. */
struct vb_msg {
	enum vb_msg_kind kind;
	bool with_imm;
	bool ipv4; /* of a datagram: its network header is */
	bool with_inv;
	bool solicited;
	struct vb_psn psn; /* of the first packet */
	uint32_t npkts;	   /* vb_psn_count(length, path MTU of the requester); atomics 1 */
	struct vb_source src;
	uint64_t remote_addr;
	uint32_t rkey;
	uint64_t length; /* bytes; 8 for atomics */
	uint32_t imm;	 /* network order, copied through */
	uint32_t inv_rkey;
	uint64_t compare_add;
	uint64_t swap;
	const void *payload; /* local buffers in a form only the environment understands */
};

/* What came of it. */
struct vb_msg_result {
	enum vb_verdict verdict;
	struct vb_psn epsn;	 /* store as the target's expected PSN, always */
	uint32_t msn;		 /* store as the target's message count, always */
	uint8_t rnr_timer;	 /* code to wait for, where the verdict is VB_V_RNR */
	bool target_err;	 /* the target QP goes to ERR (its receives flush) */
	bool recv_taken;	 /* a receive was consumed; completed unless the target left */
	bool as_packet;		 /* it left as one, which is counted (said by the carrier) */
	bool recv_before;	 /* No receive now: others were, earlier (said by the carrier) */
	uint64_t again_ns;	 /* VB_V_DROP_BUSY: when there is room (said by the carrier) */
	bool comm_est;		 /* raise VB_EVENT_COMM_EST for the target, once per connection */
	enum vb_event event;	 /* for the target QP, or VB_EVENT_NONE */
	uint64_t old;		 /* what an atomic found; host order */
	struct vb_target target; /* the key's facts as far as they were looked up, to explain */
};

/** vb_rc_resp_message() - Run a message through the responder of a QP of this host
 * @qp:     The target QP's attributes, copied under its entry word
 * @env:    Memory, keys, receives and CQ of the target, borrowed for the call
 * @ctx:    Passed to @env
 * @msg:    The message, borrowed for the call
 * @res:    Filled, whatever the verdict
 * Context: entry word of the target held, no lock; copies whole payloads
 * Return:  the verdict, same as res->verdict. VB_V_ACCEPTED: executed, receive
 *          completed. VB_VC_SILENT and VB_VC_RNR: nothing was executed, except that a
 *          payload may have been copied in part or whole; running the message again
 *          does it again. VB_VC_NAK: see res->target_err and res->event
 * Spec:    IBA1 9.7.4, order of checks as rxe
 */
enum vb_verdict vb_rc_resp_message(const struct vb_resp_qp *qp, const struct vb_resp_env *env,
				   void *ctx, const struct vb_msg *msg, struct vb_msg_result *res);

/** vb_resp_message() - The same for any service
 * @fails:  Which verdicts end the connection, and the receive that was looked at with it
 */
enum vb_verdict vb_resp_message(const struct vb_resp_qp *qp, const struct vb_resp_env *env,
				void *ctx, const struct vb_msg *msg,
				bool (*fails)(enum vb_verdict verdict), struct vb_msg_result *res);

#endif

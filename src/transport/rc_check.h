/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_TRANSPORT_RC_CHECK_H
#define VB_TRANSPORT_RC_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/env.h"
#include "transport/psn.h"
#include "transport/verdict.h"

/*
 * Theory of operation
 *
 * The responder's checks, each a function of facts, each with its own verdict.
 * Packets from the wire (rc_resp) and messages of this host (rc_msg) run the same
 * ones, in the same order: state and peer, sequence number, opcode, rights of the
 * QP, resources, length, key. Every function returns VB_V_ACCEPTED or the verdict
 * that ends the request.
 */

/* What a request does. */
enum vb_msg_kind {
	VB_MSG_SEND,
	VB_MSG_WRITE,
	VB_MSG_READ,
	VB_MSG_CMP_SWP,
	VB_MSG_FETCH_ADD,
};

/* A copy of the attributes of the target QP, taken at one moment. */
struct vb_resp_qp {
	enum vb_qp_state state;
	enum vb_qp_type type;
	uint32_t qpn;
	uint32_t pd;
	uint32_t access;   /* qp_access_flags, enum vb_access */
	uint32_t path_mtu; /* bytes: 256 .. 4096 */
	uint32_t dest_qpn; /* the connected peer */
	uint8_t dest_gid[16];
	uint8_t max_dest_rd_atomic;
	uint8_t min_rnr_timer; /* code, 5 bits */
	bool comm_est;	       /* VB_EVENT_COMM_EST was raised already */
	bool other_generation; /* the number was given to another QP since it was resolved */
	struct vb_psn epsn;    /* expected next */
	uint32_t msn;	       /* messages completed, 24 bits */
};

/* Who sent a request. The wire knows the address only, this host both. */
struct vb_source {
	bool has_qpn, has_gid;
	uint32_t qpn;
	uint8_t gid[16];
};

/** vb_rc_check_qp() - A live RC (or XRC target) QP in a state that takes requests */
enum vb_verdict vb_rc_check_qp(const struct vb_resp_qp *qp);

/** vb_rc_check_state() - A live QP of any type in a state that takes requests */
enum vb_verdict vb_rc_check_state(const struct vb_resp_qp *qp);

/** vb_rc_check_peer() - The source is the connected peer */
enum vb_verdict vb_rc_check_peer(const struct vb_resp_qp *qp, const struct vb_source *src);

/** vb_rc_check_psn() - Where a request's first PSN stands
 * Return:  VB_V_ACCEPTED expected, VB_V_DUPLICATE before it, VB_V_NAK_SEQ after it
 */
enum vb_verdict vb_rc_check_psn(struct vb_psn expected, struct vb_psn psn);

/** vb_rc_check_kind() - The responder knows the operation */
enum vb_verdict vb_rc_check_kind(uint32_t kind);

/** vb_rc_check_qp_access() - The QP's access flags allow the operation */
enum vb_verdict vb_rc_check_qp_access(const struct vb_resp_qp *qp, enum vb_msg_kind kind);

/** vb_rc_check_rd_atomic() - The QP takes READs and atomics, this many at a time
 * @busy:   Responder resources in use by other requests
 */
enum vb_verdict vb_rc_check_rd_atomic(const struct vb_resp_qp *qp, enum vb_msg_kind kind,
				      uint32_t busy);

/** vb_rc_check_msg_length() - No message is longer than 2^31; atomics have 8 bytes */
enum vb_verdict vb_rc_check_msg_length(enum vb_msg_kind kind, uint64_t length);

/** vb_rc_check_packets() - Both ends count packets alike, so both use one path MTU
 * @npkts:  PSNs the message uses by the requester's count
 */
enum vb_verdict vb_rc_check_packets(const struct vb_resp_qp *qp, enum vb_msg_kind kind,
				    uint64_t length, uint32_t npkts);

/** vb_rc_check_take() - A receive could be taken */
enum vb_verdict vb_rc_check_take(enum vb_take taken);

/** vb_rc_check_recv_length() - The receive is long enough for @length bytes */
enum vb_verdict vb_rc_check_recv_length(const struct vb_recv *recv, uint64_t length);

/** vb_rc_check_recv_sges() - The receive's scatter elements are valid
 * @length: Bytes to be placed; elements are not looked at for 0
 */
enum vb_verdict vb_rc_check_recv_sges(const struct vb_recv *recv, uint64_t length);

/** vb_rc_check_alignment() - An atomic's remote address is a multiple of 8 */
enum vb_verdict vb_rc_check_alignment(enum vb_msg_kind kind, uint64_t addr);

/** vb_rc_check_key() - A key gives the right to a range
 * @known:  lookup_key() found it
 * @key:    Its facts, ignored when not @known
 * Spec:    IBA1 C9-88: no key is checked for zero bytes, so the caller does not call
 */
enum vb_verdict vb_rc_check_key(const struct vb_resp_qp *qp, bool known, const struct vb_key *key,
				enum vb_msg_kind kind, uint64_t addr, uint64_t length);

/** vb_rc_check_invalidate() - A key may be invalidated by the peer of this QP */
enum vb_verdict vb_rc_check_invalidate(const struct vb_resp_qp *qp, bool known,
				       const struct vb_key *key);

/** vb_rc_check_copy() - What the result of a copy means
 * @to_recv: The responder's side was a receive, not a key
 */
enum vb_verdict vb_rc_check_copy(enum vb_copy copy, bool to_recv);

/** vb_rc_resolve() - Look a key up and check it
 * @out:    Filled on VB_V_ACCEPTED
 * Return:  VB_V_ACCEPTED, also for zero bytes, where @out has no key
 */
enum vb_verdict vb_rc_resolve(const struct vb_resp_qp *qp, const struct vb_resp_env *env, void *ctx,
			      enum vb_msg_kind kind, uint32_t rkey, uint64_t addr, uint64_t length,
			      struct vb_target *out);

/** vb_rc_recv_completion() - The completion of a receive, without immediate or key
 * @out:    Filled; the caller adds what the message carried
 * @length: Bytes of the message
 */
void vb_rc_recv_completion(struct vb_recv_completion *out, const struct vb_resp_qp *qp,
			   enum vb_wc_status status, enum vb_msg_kind kind, uint64_t length);

/** vb_rc_needs_recv() - Whether a message consumes a receive */
static inline bool vb_rc_needs_recv(enum vb_msg_kind kind, bool with_imm)
{
	return kind == VB_MSG_SEND || (kind == VB_MSG_WRITE && with_imm);
}

static inline bool vb_rc_is_atomic(enum vb_msg_kind kind)
{
	return kind == VB_MSG_CMP_SWP || kind == VB_MSG_FETCH_ADD;
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_CM_CONN_H
#define VB_CM_CONN_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/cm.h"

/*
 * Theory of operation
 *
 * One side of one connection, or one service ID resolution (SIDR), as a state and the message that
 * may have to be repeated. A pure machine: the caller brings messages and the time, and gets back
 * at most one message to send, at most one thing to tell whose connection it is, and the time at
 * which to come again.
 *
 * What is sent and answered is sent again until the answer comes (REQ, REP, DREQ, SIDR_REQ).
 * What is the answer is kept, and sent again when its question comes again. Either way it is the
 * same bytes, so a connection keeps the last message that it built.
 *
 *	active:  IDLE -> REQ_SENT -> REP_RCVD -> ESTABLISHED
 *	passive: IDLE -> REQ_RCVD -> REP_SENT -> ESTABLISHED
 *	either:  ESTABLISHED -> DREQ_SENT or DREQ_RCVD -> TIMEWAIT -> IDLE
 *	SIDR:    IDLE -> SIDR_SENT, SIDR_RCVD -> IDLE
 *
 * Spec: IBA1 12.9 (state machine), 12.10
 */

enum vb_cm_state {
	VB_CM_IDLE,
	VB_CM_REQ_SENT,
	VB_CM_REQ_RCVD,
	VB_CM_REP_SENT,
	VB_CM_REP_RCVD,
	VB_CM_ESTABLISHED,
	VB_CM_DREQ_SENT,
	VB_CM_DREQ_RCVD,
	VB_CM_TIMEWAIT,
	VB_CM_SIDR_SENT,
	VB_CM_SIDR_RCVD,
};

/* What has happened to a connection. */
enum vb_cm_what {
	VB_CM_NOTHING,
	VB_CM_REPLY,	     /* the peer accepted: an RTU is due */
	VB_CM_READY,	     /* the peer's RTU, or its first data: established */
	VB_CM_REJECTED,	     /* by the peer; the message has the reason */
	VB_CM_UNREACHABLE,   /* no answer to a REQ or SIDR_REQ */
	VB_CM_REPLY_LOST,    /* no answer to a REP */
	VB_CM_DISCONNECTED,  /* the peer wants to end, or has ended, or does not answer */
	VB_CM_TIMEWAIT_EXIT, /* the QP may be used again */
	VB_CM_SIDR_ANSWERED, /* the message has the answer */
};

/* 4.096 us * 2^20 for an answer, and so many repetitions: what Linux asks for. */
#define VB_CM_RESPONSE_TIMEOUT 20
#define VB_CM_RETRIES	       15

struct vb_cm_conn {
	uint8_t state; /* enum vb_cm_state */
	bool active;
	uint8_t retries;      /* left */
	uint8_t wait_shift;   /* of VB_CM_FIRST_WAIT_NS, doubled with each repetition */
	uint8_t peer_timeout; /* within which the peer answers, 4.096 us * 2^n */
	uint8_t timewait;     /* 4.096 us * 2^n */
	uint8_t last_attr;    /* low byte of what last[] is, 0 nothing */
	uint32_t local_id, remote_id;
	uint32_t qpn, peer_qpn;
	uint64_t peer_guid, tid;
	uint64_t due_ns; /* when vb_cm_expire() is to be called, 0 never */
	uint8_t last[VB_MAD_LEN];
};

/* What a step asks of its caller. */
struct vb_cm_out {
	enum vb_cm_what what;
	bool send; /* bytes[] */
	uint8_t bytes[VB_MAD_LEN];
};

/* ---- What this side does ----
 *
 * Each takes a message with the fields that the caller knows; ids, tid and attribute are set here.
 * False: not in this state; nothing is sent and nothing changed. */

/** vb_cm_send_req() - Ask for a connection
 * @c:      IDLE, with local_id set
 */
bool vb_cm_send_req(struct vb_cm_conn *c, struct vb_cm_msg *msg, uint64_t now_ns,
		    struct vb_cm_out *out);

/** vb_cm_take_req() - A REQ came, and somebody listens: begin a passive side
 * @c:      IDLE, with local_id set
 */
void vb_cm_take_req(struct vb_cm_conn *c, const struct vb_cm_msg *req);

/** vb_cm_send_rep() - Accept */
bool vb_cm_send_rep(struct vb_cm_conn *c, struct vb_cm_msg *msg, uint64_t now_ns,
		    struct vb_cm_out *out);

/** vb_cm_send_rtu() - Ready to use: established */
bool vb_cm_send_rtu(struct vb_cm_conn *c, struct vb_cm_msg *msg, struct vb_cm_out *out);

/** vb_cm_send_rej() - Refuse a request or a reply; the connection is IDLE afterwards
 * @msg:    reason, additional information, private data
 */
bool vb_cm_send_rej(struct vb_cm_conn *c, struct vb_cm_msg *msg, struct vb_cm_out *out);

/** vb_cm_send_mra() - The answer will take longer
 * @msg:    service_timeout, private data
 */
bool vb_cm_send_mra(struct vb_cm_conn *c, struct vb_cm_msg *msg, struct vb_cm_out *out);

/** vb_cm_disconnect() - End, or agree to the peer's end: DREQ or DREP
 * @msg:    Private data, or NULL
 */
bool vb_cm_disconnect(struct vb_cm_conn *c, const struct vb_cm_msg *msg, uint64_t now_ns,
		      struct vb_cm_out *out);

/** vb_cm_data_came() - The first data came before the RTU (IBA1 12.9.8.3.1) */
bool vb_cm_data_came(struct vb_cm_conn *c);

/** vb_cm_send_sidr_req() - Ask for the QP of a service */
bool vb_cm_send_sidr_req(struct vb_cm_conn *c, struct vb_cm_msg *msg, uint64_t now_ns,
			 struct vb_cm_out *out);

/** vb_cm_take_sidr_req() - A SIDR_REQ came, and somebody listens */
void vb_cm_take_sidr_req(struct vb_cm_conn *c, const struct vb_cm_msg *req);

/** vb_cm_send_sidr_rep() - Answer it
 * @msg:    status, qpn, qkey, private data
 */
bool vb_cm_send_sidr_rep(struct vb_cm_conn *c, struct vb_cm_msg *msg, struct vb_cm_out *out);

/** vb_cm_close() - This side goes away, in whatever state: the peer is told once */
void vb_cm_close(struct vb_cm_conn *c, struct vb_cm_out *out);

/* ---- What comes ---- */

/** vb_cm_receive() - A message for this connection
 * @msg:    Its remote_id is c->local_id; or a REQ or SIDR_REQ that has begun it, again
 * What does not fit the state changes nothing.
 */
void vb_cm_receive(struct vb_cm_conn *c, const struct vb_cm_msg *msg, uint64_t now_ns,
		   struct vb_cm_out *out);

/** vb_cm_expire() - c->due_ns is over */
void vb_cm_expire(struct vb_cm_conn *c, uint64_t now_ns, struct vb_cm_out *out);

/** vb_cm_answer_unknown() - A message for no connection and no listener
 * @reason: enum vb_cm_reason, of a REQ
 * A REQ, REP, MRA, RTU is rejected, a DREQ agreed to, a SIDR_REQ refused; others are dropped.
 */
void vb_cm_answer_unknown(const struct vb_cm_msg *msg, uint16_t reason, struct vb_cm_out *out);

/** vb_cm_to_service() - Whether a message begins something: no id of its receiver is in it */
static inline bool vb_cm_to_service(const struct vb_cm_msg *msg)
{
	return msg->attr == VB_CM_REQ || msg->attr == VB_CM_SIDR_REQ;
}

#endif

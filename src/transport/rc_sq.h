/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_TRANSPORT_RC_SQ_H
#define VB_TRANSPORT_RC_SQ_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/out.h"
#include "transport/psn.h"
#include "transport/rc_budget.h"
#include "transport/rc_check.h"
#include "transport/rc_rtt.h"
#include "transport/rc_window.h"

/*
 * Theory of operation
 *
 * The send queue of an RC QP as the requester (rc_req) and the completer (rc_comp)
 * share it; that of a UC QP too, whose messages count as acknowledged when their last packet
 * has left. Work requests lie in a ring of the caller, counted by indices that only
 * grow:
 *
 *	head ........ cursor ........ started ........ tail
 *	oldest not    sent next       never begun      next to be
 *	completed                                      posted
 *
 * Packets are numbered when their work request begins. una is the oldest number not
 * acknowledged, sent the one after the highest that ever left. Going back (lost
 * packet, lost answer, receiver not ready, timeout) moves the cursor to una; numbers
 * stay what they were. How many may be under way is the window's (rc_window). An answer
 * that is overdue is asked for (rc_rtt) long before the ack timer ends.
 *
 * The responses to a READ are under nobody's window but ours, so a long one is asked for piece by
 * piece, as several READs would be: the next piece when the one before is there. To the peer it
 * is never more than one request.
 *
 * Each field has one writer: P whoever posts, R the requester, C the completer and
 * the timer. All calls are under the caller's lock of the send queue.
 */

enum vb_sq_state {
	VB_SQ_RTS,   /* sends. Left by failure to ERR, by modify to DRAIN */
	VB_SQ_DRAIN, /* begins nothing new, finishes what began (SQD). Left by modify or failure */
	VB_SQ_ERR,   /* completes everything with an error, sends nothing. Left by init */
};

/* A work request. The poster fills it; the sequence numbers are the requester's. */
struct vb_rc_wqe {
	uint64_t wr_id;
	enum vb_msg_kind kind;
	bool with_imm;
	bool with_inv;
	bool solicited;
	bool fence; /* begins only when no READ or atomic is under way */
	bool signaled;
	uint32_t rkey;
	uint64_t remote_addr;
	uint64_t length; /* bytes; 8 for atomics */
	uint32_t imm;	 /* network order */
	uint32_t inv_rkey;
	uint64_t compare_add;
	uint64_t swap;
	struct vb_psn first, last; /* R */
	struct vb_psn asked;	   /* R: of a READ, the number after what was asked for */
};

/* What a send queue is told when its QP becomes ready. */
struct vb_rc_sq_attr {
	enum vb_service service; /* VB_SVC_UC: what left is done, nothing is waited for */
	uint32_t ring_mask;	 /* entries of the ring - 1, a power of two - 1 */
	uint32_t dest_qpn;
	uint32_t path_mtu; /* bytes */
	uint16_t pkey;
	uint8_t max_rd_atomic;
	uint8_t timeout, retry_cnt, rnr_retry; /* codes as in ibv_qp_attr */
	uint32_t window;   /* packets that may ever be unacknowledged, at least 1 */
	struct vb_psn psn; /* of the first packet */
};

struct vb_rc_sq {
	struct vb_rc_sq_attr attr;  /* set by init */
	enum vb_sq_state state;	    /* C, and the caller by vb_rc_sq_drain() */
	uint32_t head;		    /* C */
	uint32_t cursor;	    /* R, C when going back */
	uint32_t cursor_pkt;	    /* R, C: packets of the work request at cursor already sent */
	uint32_t started;	    /* R */
	uint32_t tail;		    /* P */
	struct vb_psn una;	    /* C */
	struct vb_psn next;	    /* R: number of the next packet that begins something */
	struct vb_psn sent;	    /* R */
	uint32_t unasked;	    /* R: packets since one asked for an acknowledgement */
	uint32_t rd_atomic;	    /* R counts up, C down: READs and atomics under way */
	struct vb_rc_budget budget; /* C */
	struct vb_rc_window window; /* C */
	uint64_t deadline_ns;	    /* R arms, C */
	uint64_t probe_ns;	 /* likewise: when to send the oldest packet again, before that */
	uint32_t probes;	 /* C: since something was acknowledged */
	bool probe;		 /* C: send it now */
	struct vb_psn probe_end; /* R: what the first probe asked about ends here */
	struct vb_rc_rtt rtt;	 /* R, C */
	bool peer_took;		 /* C: a receive of the peer was used and acknowledged */
	uint64_t last_rnr_ns;	 /* C: when the moment beyond rnr_retry ends; 0: it has not begun */
	bool rnr_wait;		 /* C: deadline_ns is the end of the wait, nothing is sent */
	bool gone_back;		 /* C: a gap at una was answered already */
	bool blocked;		 /* R: the work request at started cannot be sent, see status */
	bool drain_event;	 /* C: say when drained */
	enum vb_wc_status status; /* R, C: how the head ends in state ERR; then it is flush */
};

/* What requester and completer need of the initiator's memory. */
struct vb_req_env {
	/* Whether the elements of a work request may be read, or for READ and atomics
	 * written: keys, PD, ranges, LOCAL_WRITE. */
	bool (*check_local)(void *ctx, uint32_t wqe);
	/* Place @length bytes at @offset of the work request's elements. An atomic's
	 * old value comes as 8 bytes in host order. */
	enum vb_copy (*scatter)(void *ctx, uint32_t wqe, uint64_t offset, const void *bytes,
				uint64_t length);
};

/** vb_rc_takes_receive() - Whether a work request uses up a receive of the peer */
static inline bool vb_rc_takes_receive(const struct vb_rc_wqe *wqe)
{
	return wqe->kind == VB_MSG_SEND || wqe->with_imm;
}

/** vb_rc_sq_init() - An empty send queue in RTS */
void vb_rc_sq_init(struct vb_rc_sq *sq, const struct vb_rc_sq_attr *attr);

/** vb_rc_sq_retune() - Other attributes, while the queue is drained; codes as in ibv_qp_attr */
void vb_rc_sq_retune(struct vb_rc_sq *sq, uint8_t max_rd_atomic, uint8_t timeout, uint8_t retry_cnt,
		     uint8_t rnr_retry);

/** vb_rc_sq_posted() - The caller filled the entry at tail
 * Return:  nothing; the ring must have had room: tail - head <= ring_mask
 */
void vb_rc_sq_posted(struct vb_rc_sq *sq);

enum vb_sq_timer {
	VB_TIMER_RUNS,	  /* nothing is due */
	VB_TIMER_PROBE,	  /* an answer is overdue */
	VB_TIMER_RNR,	  /* the wait for the receiver is over */
	VB_TIMER_SILENCE, /* the ack timer: a retry is spent, or there was none */
};

/** vb_rc_sq_timer() - The time of vb_rc_sq_next_ns() may have come
 * @now_ns: Monotonic time
 * Return:  what is due: run the requester. Does nothing before that time
 */
enum vb_sq_timer vb_rc_sq_timer(struct vb_rc_sq *sq, const struct vb_rc_wqe *ring, uint64_t now_ns);

/** vb_rc_sq_arm() - Packets are under way and were not before, or some were acknowledged */
void vb_rc_sq_arm(struct vb_rc_sq *sq, uint64_t now_ns);

/** vb_rc_sq_disarm() - Nothing is waited for, or only until vb_rc_sq_arm() */
void vb_rc_sq_disarm(struct vb_rc_sq *sq);

/** vb_rc_sq_fail() - The QP has failed: the head ends with @status, the rest flushes
 * Context: run vb_rc_sq_retire() afterwards. WR_FLUSH_ERR for a move to ERR by the user
 */
void vb_rc_sq_fail(struct vb_rc_sq *sq, enum vb_wc_status status);

/** vb_rc_sq_retire() - Complete what has ended, as far as @out has room
 * Return:  true when more is left
 */
bool vb_rc_sq_retire(struct vb_rc_sq *sq, const struct vb_rc_wqe *ring, struct vb_out *out);

/** vb_rc_sq_drain() - Begin nothing new (SQD), or go on
 * @drain:  true: SQD; false: back to RTS
 * @event:  Say VB_EVENT_SQ_DRAINED when what began has ended
 */
void vb_rc_sq_drain(struct vb_rc_sq *sq, bool drain, bool event);

/** vb_rc_sq_go_back() - Send again from the oldest unacknowledged packet */
void vb_rc_sq_go_back(struct vb_rc_sq *sq, const struct vb_rc_wqe *ring);

/** vb_rc_sq_marked() - The peer saw a mark of congestion on our packets (CNP)
 * Return:  whether the window was reduced
 */
bool vb_rc_sq_marked(struct vb_rc_sq *sq);

/** vb_rc_sq_may_start() - Whether a work request may begin
 * @kind:   Of the work request
 * @fence:  Its fence flag
 * @busy:   READs and atomics under way
 * @max:    max_rd_atomic of the QP
 */
static inline bool vb_rc_sq_may_start(enum vb_msg_kind kind, bool fence, uint32_t busy,
				      uint32_t max)
{
	bool rd_atomic = kind == VB_MSG_READ || vb_rc_is_atomic(kind);

	return !(fence && busy) && !(rd_atomic && busy >= max);
}

static inline struct vb_rc_wqe *vb_rc_sq_wqe(const struct vb_rc_sq *sq, struct vb_rc_wqe *ring,
					     uint32_t index)
{
	return &ring[index & sq->attr.ring_mask];
}

/** vb_rc_sq_next_ns() - When to call vb_rc_sq_timer(), VB_NEVER: need not be */
static inline uint64_t vb_rc_sq_next_ns(const struct vb_rc_sq *sq)
{
	return sq->probe_ns < sq->deadline_ns ? sq->probe_ns : sq->deadline_ns;
}

/** vb_rc_sq_in_flight() - Whether anything waits for an answer */
static inline bool vb_rc_sq_in_flight(const struct vb_rc_sq *sq)
{
	return vb_psn_before(sq->una, sq->sent);
}

#endif

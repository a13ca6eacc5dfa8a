/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_OBJECT_CQ_H
#define VB_OBJECT_CQ_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "base/spin.h"

struct vb_pd;
struct vb_qp;
struct vb_mbx_cq;
struct vb_pub_cq;

/* A finished work request, ready to be polled. */
struct vb_cqe {
	uint64_t wr_id;
	uint64_t time_ns;
	enum ibv_wc_status status;
	enum ibv_wc_opcode opcode;
	uint32_t vendor_err; /* the transport's verdict, 0 none */
	uint32_t byte_len;
	uint32_t imm_data; /* network order, or the invalidated rkey */
	uint32_t qp_num;
	uint32_t src_qp;
	unsigned int wc_flags;
	uint8_t sl;	   /* what stands for a service level, see engine/receive.c */
	struct vb_qp *qp;  /* whose send queue advances when this is polled; NULL: none */
	uint64_t sq_index; /* index of the send request */
};

/*
 * Theory of operation
 *
 * Completions come from two sides. What the process finished itself (sends, flushes
 * of sends) stands in a private ring. What peers delivered stands where they put it:
 * in the arrival records of each QP's receive queue, found through the CQ's ready
 * set in the mailbox. Polling takes from both in turn.
 *
 * `lock` covers everything below it, and the consumer side of the receive queues
 * that complete here.
 */
#define VB_CQ_UNARMED UINT64_MAX

struct vb_cq {
	union {
		struct ibv_cq ibv;
		struct ibv_cq_ex ibv_ex;
	};
	uint32_t index;	      /* in the adapter's CQ table */
	uint32_t wc_flags;    /* IBV_WC_EX_* asked for */
	struct vb_pd *domain; /* the parent domain it was made in, or NULL */
	bool ignore_overrun;
	bool timestamps;	       /* some ibv_wc_read_completion_ will be called */
	_Atomic bool failed;	       /* overrun: CQ_ERR was raised */
	_Atomic uint64_t demand;       /* work requests its QPs may have outstanding */
	uint32_t left;		       /* completions an overrun CQ still gives */
	_Atomic uint32_t users;	       /* QPs that complete here: not 0, busy */
	_Atomic uint32_t handed;       /* events given out by ibv_get_cq_event */
	_Atomic uint32_t async_handed; /* asynchronous events given out */
	struct vb_mbx_cq *mbx;
	struct vb_pub_cq *pub;

	struct vb_spin lock;
	struct vb_cqe *ring;		  /* capacity entries */
	uint32_t capacity;		  /* a power of two, at least the sum of the send queues */
	uint32_t wanted;		  /* that sum */
	uint64_t head, tail;		  /* taken, added */
	uint64_t arm_seq;		  /* armings so far */
	uint64_t event_seq;		  /* the latest arming whose event was delivered */
	uint64_t event_seen;		  /* bit n: so was the one n before it */
	uint64_t armed_at;		  /* `added` at the latest arming, or VB_CQ_UNARMED */
	uint64_t told;			  /* the completion the latest event stands for, from 1 */
	struct vb_qp *visit, *visit_last; /* QPs that may have arrivals, in turn */
	struct vb_qp *hot;		  /* the one an arrival was last found at */
	uint32_t taken;			  /* arrivals since the ready set was looked at */
	struct vb_qp **members;		  /* QPs that receive here, chained by bit */
	uint32_t members_size;		  /* entries, a power of two up to 4096 */
	uint32_t next_bit;
	uint32_t turn;	       /* which side is looked at first */
	struct vb_cqe current; /* of start_poll ... end_poll */
	bool polling;
};

static inline struct vb_cq *vb_cq_of(struct ibv_cq *cq)
{
	return (struct vb_cq *)(void *)cq;
}

/** vb_cq_reserve() - Make room for the completions of one more send queue
 * @count:  Most completions it may have at a time
 * Context: takes the CQ's lock
 * Return:  0, -ENOMEM; nothing changed then
 */
int vb_cq_reserve(struct vb_cq *cq, uint32_t count);

/** vb_cq_release() - Give that room back */
void vb_cq_release(struct vb_cq *cq, uint32_t count);

/** vb_cq_push() - Add a completion to the private ring
 * Context: takes the CQ's lock; room was reserved
 */
void vb_cq_push(struct vb_cq *cq, const struct vb_cqe *cqe);

/** vb_cq_take() - Take the oldest completion of the private ring
 * Context: the CQ's lock is held
 * Return:  false when there is none
 */
bool vb_cq_take(struct vb_cq *cq, struct vb_cqe *cqe);

/** vb_cq_purge() - Drop the completions of a QP that goes away
 * Context: takes the CQ's lock
 * Return:  how many there were
 */
uint64_t vb_cq_purge(struct vb_cq *cq, const struct vb_qp *qp);

#endif

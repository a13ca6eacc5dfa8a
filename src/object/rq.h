/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_OBJECT_RQ_H
#define VB_OBJECT_RQ_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "base/spin.h"

struct vb_mbx_arrival;
struct vb_pub_rq;

/* A receive as the program posted it; the owner trusts this, not what it published. */
struct vb_rwqe {
	uint64_t wr_id;
	uint32_t num_sge;
	uint32_t pad;
	struct ibv_sge sge[]; /* max_sge */
};

/* What the owner knows of one slot of a queue that several initiators take from. */
struct vb_rq_note {
	_Atomic uint64_t index; /* the receive posted in it, VB_NO_RECEIVE: free */
	uint64_t next;		/* index behind it in its QP's list, or VB_NO_RECEIVE */
};

#define VB_NO_RECEIVE UINT64_MAX

/*
 * A receive queue, of a QP or of an SRQ. Receives are numbered from 0 and never begin
 * anew; slot = index & mask. `posted` is advanced under post_lock.
 *
 * Where one initiator comes (RC, UC) arrivals are consumed in order under the
 * receive CQ's lock. Where several come (UD, SRQ) a taker may stop in the middle, so
 * arrivals are sorted first, under sort_lock: finished ones into the list of the QP they
 * are for, unfinished ones into `pending`, which is looked at again each time. A slot that
 * a stopped taker holds is passed over by posting: the index that would have used it names
 * nothing, and takers go on to the next.
 */
struct vb_rq {
	uint8_t *slots;
	uint32_t stride;
	uint32_t mask;
	uint32_t size;		 /* slots, a power of two; 0: no receive queue */
	_Atomic uint32_t max_wr; /* receives that may be outstanding, at most size */
	uint32_t max_sge;	 /* elements of one */
	uint32_t pd;		 /* number of the PD its elements are checked in */
	bool shared;		 /* several initiators take from it */
	bool dirty; /* a peer that stopped may still write to the rings: never reuse them */
	_Atomic uint64_t posted;
	_Atomic uint64_t polled; /* one initiator: all below were consumed, or forgotten by RESET */
	_Atomic uint32_t outstanding; /* several: posted and not consumed */
	pthread_mutex_t post_lock;

	/* Published: offsets, and the same places in this process. */
	uint64_t wqes, arrivals, bounce, bounce_words_at, counters_at, head_at;
	uint32_t bounce_slots;
	uint32_t wqe_stride;
	uint8_t *wqe_bytes;
	uint8_t *bounce_bytes;
	struct vb_mbx_arrival *records;
	struct vb_pub_rq *counters;
	_Atomic uint64_t *head;
	_Atomic uint64_t *bounce_words; /* several: index + 1 of the receive that uses it */

	/* Shared queues only. */
	struct vb_spin sort_lock;
	uint64_t sorted;	  /* receives looked at so far */
	struct vb_rq_note *notes; /* by slot */
	uint64_t *pending;	  /* indexes taken but not finished when looked at */
	uint32_t n_pending;
	bool watched;	   /* the engine is to look at them */
	uint64_t check_ns; /* when to ask next whether their takers live */
};

static inline struct vb_rwqe *vb_rq_slot(const struct vb_rq *rq, uint64_t index)
{
	return (struct vb_rwqe *)(void *)(rq->slots + (index & rq->mask) * rq->stride);
}

/** vb_rq_init() - Allocate the private side of a receive queue
 * @max_wr: Receives that may be outstanding; 0: no queue
 * @max_sge: Elements of one
 * @pd:     Number of the PD
 * @shared: Several initiators will take from it
 * Return:  0, -ENOMEM
 */
int vb_rq_init(struct vb_rq *rq, uint32_t max_wr, uint32_t max_sge, uint32_t pd, bool shared);

/** vb_rq_resize() - Let more or fewer receives be outstanding, within the slots that are there
 * @rq:     A shared one
 * Return:  0, -EINVAL: more are outstanding now, -ENOSPC: it would need more slots
 */
int vb_rq_resize(struct vb_rq *rq, uint32_t max_wr);

/** vb_rq_fini() - Free it */
void vb_rq_fini(struct vb_rq *rq);

#endif

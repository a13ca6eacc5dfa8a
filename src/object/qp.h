/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_OBJECT_QP_H
#define VB_OBJECT_QP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "object/ah.h"
#include "object/cq.h"
#include "object/pd.h"
#include "object/rq.h"
#include "object/srq.h"
#include "transport/psn.h"
#include "transport/rc_budget.h"

struct vb_mbx_qp;
struct vb_pub_qp;
struct vb_peer;
struct vb_wire_qp;

/* Size of the newest struct ibv_qp_ex known (rdma-core 65). */
#define VB_QP_ROOM 360
#define VB_MAX_SGE 32

/* A send request as the program posted it. */
struct vb_swqe {
	uint64_t wr_id;
	enum ibv_wr_opcode opcode;
	unsigned int flags; /* IBV_SEND_* */
	uint64_t remote_addr;
	uint32_t rkey;
	uint32_t imm; /* network order, or the key to invalidate */
	uint64_t compare_add;
	uint64_t swap;
	struct vb_path path; /* UD: from the address handle */
	uint32_t remote_qpn;
	uint32_t remote_qkey;
	bool bad_ah;		/* UD: none, or of another PD */
	uint64_t length;	/* sum of the SGEs or of the inline data, bytes */
	uint32_t inline_length; /* not 0: the data stands behind the SGEs */
	int num_sge;
	struct ibv_sge sge[]; /* max_send_sge, then max_inline_data bytes */
};

/*
 * The send queue. Indexes count up for ever; slot = index & mask. `posted` is advanced
 * under the QP's lock, `next` by the thread that runs the queue, `freed` by pollers.
 */
struct vb_sq {
	uint8_t *slots;
	uint32_t stride;
	uint32_t mask;
	_Atomic uint64_t posted; /* requests posted */
	_Atomic uint64_t next;	 /* the one to run next */
	_Atomic uint64_t freed;	 /* requests whose slots are free again */
	uint64_t staged;	 /* between ibv_wr_start and ibv_wr_complete */
	uint64_t signaled;	 /* index + 1 of the last signaled request posted */
	struct vb_psn psn;	 /* of the next message */
	struct vb_rc_budget budget;
	enum vb_sq_step_kind wait; /* what happens at the deadline */
	enum vb_wc_status wait_status;
	uint64_t wait_ns;	      /* when the wait ends, VB_NEVER never */
	_Atomic uint64_t deadline_ns; /* when the engine is to run the queue */
	bool waiting;
	bool drained_told;
	bool told;		/* the request that runs has its completion */
	uint32_t patience;	/* UC, UD: looks left at a receiver without receives */
	uint32_t rnr_streak;	/* answers \"not ready\" in a row */
	uint64_t busy_until_ns; /* how long an atomic is tried for at once, 0 not begun */
};

/* Who runs the send queue: one thread at a time; the others leave word. */
enum vb_run { VB_RUN_IDLE, VB_RUN_BUSY, VB_RUN_AGAIN };

struct vb_qp {
	union {
		struct ibv_qp ibv;
		struct ibv_qp_ex ibv_ex;
		uint8_t room[VB_QP_ROOM];
	};
	uint32_t index;	 /* in the adapter's QP table */
	uint32_t handle; /* copy: the public one may be overwritten */
	bool sq_sig_all;
	bool block_self;	 /* gets no multicast that it sent itself */
	bool is_ex;		 /* made with IBV_QP_INIT_ATTR_SEND_OPS_FLAGS */
	uint64_t send_ops;	 /* IBV_QP_EX_WITH_* */
	struct ibv_qp_cap cap;	 /* as given back to the program */
	struct ibv_qp_attr attr; /* as set by modify; state is current */
	_Atomic int state;	 /* enum ibv_qp_state */
	union ibv_gid own_gid;	 /* of the sgid index at RTR */

	pthread_mutex_t lock; /* posting of sends, and every change of state */
	struct vb_sq sq;
	struct vb_rq own_rq; /* size 0 where an SRQ is used */
	struct vb_rq *rq;    /* own_rq, or the SRQ's */
	struct vb_srq *srq;
	_Atomic int run; /* enum vb_run */

	/* What is shared with peers, and the owner's private truth about it. */
	struct vb_mbx_qp *mbx;
	struct vb_pub_qp *pub;
	uint32_t epoch;
	uint32_t seq;

	/* The peer's process, looked up at the first message. */
	struct vb_peer *peer;
	enum vb_reach reach;	 /* where the destination GID is */
	struct vb_wire_qp *wire; /* the packet machines, where the destination is not local */

	/* Receive CQ's lists, under its lock. */
	struct vb_qp *visit_next;   /* in cq->visit */
	bool visiting;		    /* it is in that list */
	struct vb_qp *members_next; /* in cq->members[recv_bit] */
	uint32_t recv_bit;
	_Atomic bool flush_recv;    /* ERR: what has not arrived completes as flushed */
	uint64_t inbox, inbox_last; /* sorted arrivals of a shared queue, under its sort_lock */
	bool comm_est_told;
	uint32_t groups; /* multicast groups it is attached to, under the lock of those */

	/* Engine's list of waiting queues, under its lock. */
	struct vb_qp *timer_next;
	bool timed;

	/* ibv_wr_*: the request being built, first error of the batch. */
	struct vb_swqe *building;
	int build_error;
	uint64_t build_signaled;

	_Atomic uint32_t events_handed; /* async events given out */
	bool first_error_told;
	uint64_t first_error_wr_id;
	int first_error_status;
};

static inline struct vb_qp *vb_qp_of(struct ibv_qp *qp)
{
	return (struct vb_qp *)(void *)qp;
}

static inline struct vb_qp *vb_qp_of_ex(struct ibv_qp_ex *qp)
{
	return (struct vb_qp *)(void *)qp;
}

static inline struct vb_pd *vb_qp_pd(const struct vb_qp *qp)
{
	return vb_pd_of(qp->ibv.pd);
}

static inline struct vb_swqe *vb_sq_slot(const struct vb_sq *sq, uint64_t index)
{
	return (struct vb_swqe *)(void *)(sq->slots + (index & sq->mask) * sq->stride);
}

static inline uint8_t *vb_swqe_inline(const struct vb_qp *qp, struct vb_swqe *wqe)
{
	return (uint8_t *)&wqe->sge[qp->cap.max_send_sge];
}

/** vb_qp_check_init() - The rules of ibv_create_qp that concern sizes and types
 * @attr:   What the program asks for
 * @limits: The device's
 * @max_inline: The device's longest inline data in bytes
 * Return:  0, or the errno of the rule that was broken
 */
int vb_qp_check_init(const struct ibv_qp_init_attr *attr, const struct ibv_device_attr *limits,
		     uint32_t max_inline);

/** vb_qp_check_modify() - The rules of ibv_modify_qp that the table and the values make
 * @qp:     QP with its lock held
 * @attr:   What the program wants to set
 * @mask:   IBV_QP_* bits
 * @limits: The device's
 * @active_mtu: Of the port, enum ibv_mtu
 * Return:  0, or the errno of the rule that was broken
 * Spec:    man ibv_modify_qp(3); changes nothing
 */
int vb_qp_check_modify(const struct vb_qp *qp, const struct ibv_qp_attr *attr, int mask,
		       const struct ibv_device_attr *limits, enum ibv_mtu active_mtu);

/** vb_qp_apply() - Store the attributes of a modify that passed the checks */
void vb_qp_apply(struct vb_qp *qp, const struct ibv_qp_attr *attr, int mask);

/** vb_qp_sq_init() - Allocate the send queue by qp->cap
 * Return:  0, -ENOMEM
 */
int vb_qp_sq_init(struct vb_qp *qp);

#endif

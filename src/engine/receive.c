/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Theory of operation
 *
 * A receive is posted by writing it into the published ring and marking its arrival
 * record EMPTY. Whoever sends to the QP fills the record and sets the QP's bit in
 * the ready set of its CQ; polling follows the bits to the QPs and takes records in
 * order. Data that travelled in the mailbox is copied into the program's buffers
 * here. The record was written by another process: nothing in it is relied on.
 */
#include "engine/receive.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/rules.h"
#include "engine/explain.h"
#include "engine/requester.h"
#include "engine/sort.h"
#include "host/async.h"
#include "host/memory.h"
#include "host/notify.h"
#include "host/words.h"

#define MAX_BITS 4096u
/* Arrivals taken before the ready set is looked at again. */
#define TAKES 32u

static int grow_members(struct vb_cq *cq)
{
	uint32_t size = cq->members_size ? cq->members_size * 2 : 4;
	struct vb_qp **members;

	if (cq->next_bit < cq->members_size || cq->members_size == MAX_BITS)
		return 0;
	members = realloc(cq->members, size * sizeof(struct vb_qp *));
	if (!members)
		return -ENOMEM;
	memset(members + cq->members_size, 0, (size - cq->members_size) * sizeof(struct vb_qp *));
	cq->members = members;
	cq->members_size = size;
	return 0;
}

int vb_receive_join(struct vb_qp *qp)
{
	struct vb_cq *cq = vb_cq_of(qp->ibv.recv_cq);
	int err;

	vb_spin_lock(&cq->lock);
	err = grow_members(cq);
	if (!err) {
		qp->recv_bit = cq->next_bit++ % MAX_BITS;
		if (cq->next_bit == cq->members_size && cq->members_size == MAX_BITS)
			cq->next_bit = 0;
		qp->members_next = cq->members[qp->recv_bit];
		cq->members[qp->recv_bit] = qp;
	}
	vb_spin_unlock(&cq->lock);
	return err;
}

static void visit_remove(struct vb_cq *cq, struct vb_qp *qp)
{
	struct vb_qp *before = NULL;

	for (struct vb_qp *at = cq->visit; at; before = at, at = at->visit_next) {
		if (at != qp)
			continue;
		if (before)
			before->visit_next = qp->visit_next;
		else
			cq->visit = qp->visit_next;
		if (cq->visit_last == qp)
			cq->visit_last = before;
		break;
	}
	qp->visiting = false;
}

void vb_receive_leave(struct vb_qp *qp)
{
	struct vb_cq *cq = vb_cq_of(qp->ibv.recv_cq);

	vb_spin_lock(&cq->lock);
	visit_remove(cq, qp);
	if (cq->hot == qp)
		cq->hot = NULL;
	for (struct vb_qp **at = &cq->members[qp->recv_bit]; *at; at = &(*at)->members_next)
		if (*at == qp) {
			*at = qp->members_next;
			break;
		}
	vb_spin_unlock(&cq->lock);
}

void vb_receive_point_at(struct vb_engine *engine, struct vb_qp *qp)
{
	struct vb_cq *cq = vb_cq_of(qp->ibv.recv_cq);

	vb_ready_set(&cq->mbx->ready, qp->recv_bit);
	if (qp->rq->shared ? atomic_load(&qp->rq->outstanding) != 0
			   : atomic_load(&qp->rq->polled) != atomic_load(&qp->rq->posted))
		vb_notify(engine->adapter->self, cq->index, true);
}

static void publish_wqe(struct vb_rq *rq, const struct ibv_recv_wr *wr, uint64_t index)
{
	struct vb_pub_wqe *wqe =
		(struct vb_pub_wqe *)(void *)(rq->wqe_bytes + (index & rq->mask) * rq->wqe_stride);
	struct vb_pub_wqe head = {.num_sge = (uint32_t)wr->num_sge};

	static_assert(sizeof(struct vb_pub_sge) == sizeof(struct ibv_sge), "same layout");
	vb_row_write(wqe, &head, sizeof(head));
	vb_row_write(wqe->sge, wr->sg_list, (size_t)wr->num_sge * sizeof(struct ibv_sge));
}

static void write_receive(struct vb_rq *rq, const struct ibv_recv_wr *wr, uint64_t index)
{
	struct vb_rwqe *wqe = vb_rq_slot(rq, index);

	wqe->wr_id = wr->wr_id;
	wqe->num_sge = (uint32_t)wr->num_sge;
	if (wr->num_sge)
		memcpy(wqe->sge, wr->sg_list, (size_t)wr->num_sge * sizeof(struct ibv_sge));
	publish_wqe(rq, wr, index);
	vb_arrival_post(&rq->records[index & rq->mask].word, &rq->counters->posted, index);
	atomic_store_explicit(&rq->posted, index + 1, memory_order_release);
}

/* Where several take, a slot may still be held: its turn is passed over. */
static bool next_slot(struct vb_rq *rq, uint64_t *index)
{
	for (uint32_t tries = 0; tries <= rq->mask; tries++) {
		*index = atomic_load_explicit(&rq->posted, memory_order_relaxed);
		if (!rq->shared)
			return true;
		if (atomic_load(&rq->notes[*index & rq->mask].index) == VB_NO_RECEIVE) {
			atomic_store(&rq->notes[*index & rq->mask].index, *index);
			return true;
		}
		atomic_store(&rq->counters->posted, *index + 1);
		atomic_store(&rq->posted, *index + 1);
	}
	return false;
}

static bool room(const struct vb_rq *rq)
{
	if (rq->shared)
		return atomic_load(&rq->outstanding) < rq->max_wr;
	return atomic_load_explicit(&rq->posted, memory_order_relaxed) -
		       atomic_load_explicit(&rq->polled, memory_order_acquire) <
	       rq->max_wr;
}

int vb_receive_post(struct vb_rq *rq, const struct ibv_recv_wr *wr)
{
	int err = -ENOSPC;
	uint64_t index;

	pthread_mutex_lock(&rq->post_lock);
	if (room(rq) && next_slot(rq, &index)) {
		atomic_fetch_add(&rq->outstanding, 1);
		write_receive(rq, wr, index);
		err = 0;
	}
	pthread_mutex_unlock(&rq->post_lock);
	return err;
}

void vb_receive_flush(struct vb_engine *engine, struct vb_qp *qp)
{
	if (qp->srq) {
		vb_sort_leave(engine, qp, false);
		return;
	}
	atomic_store(&qp->flush_recv, true);
	vb_receive_point_at(engine, qp);
}

void vb_receive_limit(struct vb_srq *srq)
{
	uint32_t limit = atomic_load_explicit(&srq->limit, memory_order_relaxed);
	uint64_t head;

	if (!limit)
		return;
	head = atomic_load(srq->rq.head);
	/* Only what is taken after the arming counts. */
	if (head == atomic_load(&srq->armed_head) || atomic_load(&srq->rq.posted) - head >= limit)
		return;
	/* One event an arming, whoever is first to see it. */
	if (!atomic_compare_exchange_strong(&srq->limit, &limit, 0))
		return;
	atomic_store(&srq->rq.counters->limit, 0);
	vb_explain(VB_RULE_SRQ_DISARMED, "srq#%u: the limit %u was reached", srq->handle, limit);
	vb_async_post(vb_context_of(srq->ibv.context), IBV_EVENT_SRQ_LIMIT_REACHED, srq->handle);
}

void vb_receive_forget(struct vb_engine *engine, struct vb_qp *qp)
{
	struct vb_cq *cq = vb_cq_of(qp->ibv.recv_cq);
	struct vb_rq *rq = qp->rq;
	uint64_t posted;

	vb_spin_lock(&cq->lock);
	if (qp->srq) {
		vb_cq_uncount(cq->pub, vb_sort_leave(engine, qp, true));
	} else if (rq->size && rq->shared) {
		vb_cq_uncount(cq->pub, vb_sort_forget(engine, qp));
	} else if (rq->size) {
		pthread_mutex_lock(&rq->post_lock);
		posted = atomic_load(&rq->posted);
		for (uint64_t i = atomic_load(&rq->polled); i < posted; i++)
			vb_cq_uncount(cq->pub, vb_arrival_full(&rq->records[i & rq->mask].word, i));
		atomic_store(&rq->polled, posted);
		atomic_store(&rq->counters->polled, posted);
		atomic_store(rq->head, posted);
		pthread_mutex_unlock(&rq->post_lock);
	}
	atomic_store(&qp->flush_recv, false);
	vb_spin_unlock(&cq->lock);
}

/* Copy what travelled in the mailbox into the receive's buffers. */
static bool scatter(struct vb_engine *engine, struct vb_qp *qp, const struct vb_rwqe *wqe,
		    const uint8_t *from, uint64_t length)
{
	uint32_t token = vb_grace_enter(&engine->grace);
	struct iovec iov[VB_MAX_SGE];
	int count = 0;
	int64_t left;

	if (vb_keys_resolve(&engine->keys, qp->rq->pd, wqe->sge, (int)wqe->num_sge, 1, iov, &count,
			    NULL))
		count = 0;
	left = vb_memory_scatter(iov, count, from, length,
				 vb_keys_careful(&engine->keys, wqe->sge, (int)wqe->num_sge));
	vb_grace_leave(&engine->grace, token);
	return left == 0;
}

static const uint8_t *payload_of(const struct vb_rq *rq, uint64_t index, uint64_t *length)
{
	const struct vb_mbx_arrival *record = &rq->records[index & rq->mask];

	if (record->place == VB_PLACE_LINE) {
		if (*length > VB_LINE_BYTES)
			*length = VB_LINE_BYTES;
		return record->line;
	}
	if (record->place >= VB_PLACE_BOUNCE &&
	    record->place < VB_PLACE_BOUNCE + rq->bounce_slots) {
		if (*length > VB_BOUNCE_BYTES)
			*length = VB_BOUNCE_BYTES;
		return rq->bounce_bytes + (record->place - VB_PLACE_BOUNCE) * VB_BOUNCE_BYTES;
	}
	return NULL;
}

/* An arrival that is polled in RTR: the other side is connected, and the program may
 * move on to RTS. */
static void tell_comm_est(struct vb_qp *qp)
{
	if (atomic_load_explicit(&qp->state, memory_order_relaxed) != IBV_QPS_RTR ||
	    qp->comm_est_told || qp->ibv.qp_type == IBV_QPT_UD)
		return;
	qp->comm_est_told = true;
	vb_async_post(vb_context_of(qp->ibv.context), IBV_EVENT_COMM_EST, qp->handle);
}

static uint64_t length_of(const struct vb_rwqe *wqe)
{
	uint64_t length = 0;

	for (uint32_t i = 0; i < wqe->num_sge; i++)
		length += wqe->sge[i].length;
	return length;
}

/* No message is longer than the receive it went into, and there are only so many statuses. */
static void distrust(const struct vb_rwqe *wqe, struct vb_cqe *cqe)
{
	if (cqe->opcode == IBV_WC_RECV && cqe->status == IBV_WC_SUCCESS &&
	    cqe->byte_len > length_of(wqe))
		cqe->byte_len = (uint32_t)length_of(wqe);
	if ((unsigned)cqe->status > IBV_WC_GENERAL_ERR)
		cqe->status = IBV_WC_GENERAL_ERR;
}

/* RoCE has no service levels. Where a datagram's would stand adapters of the ConnectX family say of
 * what kind its network header is, IBA annex 17, A17.4.5.1 wants a completion to tell that, and UCX
 * drops datagrams over IPv4 of which it does not. */
static uint8_t header_type(unsigned int flags)
{
	enum { OVER_UDP = 8, IPV6 = 1, IPV4 = 2 };

	if (!(flags & VB_WC_GRH))
		return 0;
	return OVER_UDP | (flags & VB_WC_IPV4 ? IPV4 : IPV6);
}

static void take_full(struct vb_engine *engine, struct vb_qp *qp, uint64_t index,
		      struct vb_cqe *cqe)
{
	const struct vb_rq *rq = qp->rq;
	const struct vb_mbx_arrival *record = &rq->records[index & rq->mask];
	const struct vb_rwqe *wqe = vb_rq_slot(rq, index);
	uint64_t length = record->byte_len;
	const uint8_t *from = payload_of(rq, index, &length);

	tell_comm_est(qp);
	vb_cq_uncount(vb_cq_of(qp->ibv.recv_cq)->pub, 1);
	*cqe = (struct vb_cqe){
		.wr_id = wqe->wr_id,
		.time_ns = record->time_ns,
		.status = (enum ibv_wc_status)record->status,
		.opcode = (enum ibv_wc_opcode)(IBV_WC_RECV + (record->opcode & 1)),
		.byte_len = (uint32_t)length,
		.imm_data = record->imm,
		.qp_num = qp->ibv.qp_num,
		.src_qp = record->src_qpn,
		.wc_flags = record->flags & (IBV_WC_GRH | IBV_WC_WITH_IMM | IBV_WC_WITH_INV),
		.sl = header_type(record->flags),
	};
	distrust(wqe, cqe);
	if (cqe->status == IBV_WC_SUCCESS && from && length &&
	    !scatter(engine, qp, wqe, from, length)) {
		cqe->status = IBV_WC_LOC_PROT_ERR;
		vb_explain(VB_RULE_WC_RECV_PROT,
			   "qp#0x%x wr_id=0x%llx: the buffer's MR went after the message came",
			   qp->ibv.qp_num, (unsigned long long)wqe->wr_id);
	}
}

static void take_flushed(struct vb_qp *qp, uint64_t index, struct vb_cqe *cqe)
{
	*cqe = (struct vb_cqe){
		.wr_id = vb_rq_slot(qp->rq, index)->wr_id,
		.time_ns = vb_now_ns(),
		.status = IBV_WC_WR_FLUSH_ERR,
		.opcode = IBV_WC_RECV,
		.qp_num = qp->ibv.qp_num,
	};
}

/* The next completion of a queue that one initiator fills: in order. */
static bool take_in_order(struct vb_engine *engine, struct vb_qp *qp, struct vb_cqe *cqe)
{
	struct vb_rq *rq = qp->rq;
	uint64_t index = atomic_load_explicit(&rq->polled, memory_order_relaxed);
	_Atomic uint64_t *word = &rq->records[index & rq->mask].word;

	if (index == atomic_load_explicit(&rq->posted, memory_order_acquire))
		return false;
	if (vb_arrival_full(word, index) ||
	    (atomic_load(&qp->flush_recv) && !vb_arrival_flush(word, index)))
		take_full(engine, qp, index, cqe);
	else if (atomic_load(&qp->flush_recv))
		take_flushed(qp, index, cqe);
	else
		return false;
	atomic_store_explicit(&rq->polled, index + 1, memory_order_release);
	atomic_store_explicit(&rq->counters->polled, index + 1, memory_order_release);
	VB_STEP(RECV_CONSUMED);
	return true;
}

/* The next completion of a queue that several fill: as they finish. */
static bool take_sorted(struct vb_engine *engine, struct vb_qp *qp, struct vb_cqe *cqe)
{
	struct vb_rq *rq = qp->rq;
	bool found = true;
	uint64_t index;

	vb_spin_lock(&rq->sort_lock);
	if (vb_sort_take(engine, qp, &index))
		take_full(engine, qp, index, cqe);
	else if (atomic_load(&qp->flush_recv) && vb_sort_flush(engine, qp, &index))
		take_flushed(qp, index, cqe);
	else if (vb_sort_take(engine, qp, &index))
		take_full(engine, qp, index, cqe);
	else
		found = false;
	if (found)
		vb_sort_done(rq, index);
	VB_STEP(RECV_CONSUMED);
	vb_spin_unlock(&rq->sort_lock);
	return found;
}

static bool take_receive(struct vb_engine *engine, struct vb_qp *qp, struct vb_cqe *cqe)
{
	if (qp->rq->shared)
		return take_sorted(engine, qp, cqe);
	return take_in_order(engine, qp, cqe);
}

static void visit_add(struct vb_cq *cq, struct vb_qp *qp)
{
	if (qp->visiting || !qp->rq->size)
		return;
	qp->visiting = true;
	qp->visit_next = NULL;
	if (cq->visit)
		cq->visit_last->visit_next = qp;
	else
		cq->visit = qp;
	cq->visit_last = qp;
}

/* Move every bit of the ready set into the list of QPs to visit. */
static bool collect(struct vb_cq *cq)
{
	bool any = false;
	uint32_t first = 0;
	uint64_t bits;

	for (uint32_t leaf = 0; leaf < 64; leaf = first / 64 + 1) {
		bits = vb_ready_take(&cq->mbx->ready, leaf, &first);
		if (!bits)
			break;
		any = true;
		for (; bits; bits &= bits - 1) {
			uint32_t bit = first + (uint32_t)__builtin_ctzll(bits);

			if (bit < cq->members_size)
				for (struct vb_qp *qp = cq->members[bit]; qp; qp = qp->members_next)
					visit_add(cq, qp);
		}
	}
	cq->taken = 0;
	return any;
}

/* One arrival of any QP: the one that spoke last first (it mostly speaks again), the
 * others in turn; now and then the ready set is looked at though some are still to visit, so that
 * they do not keep the rest waiting. */
static bool take_arrival(struct vb_engine *engine, struct vb_cq *cq, struct vb_cqe *cqe)
{
	if (cq->taken >= TAKES && vb_ready_any(&cq->mbx->ready))
		collect(cq);
	if (cq->hot && !cq->visit && cq->taken++ < TAKES && take_receive(engine, cq->hot, cqe))
		return true;
	do {
		while (cq->visit) {
			struct vb_qp *qp = cq->visit;

			visit_remove(cq, qp);
			if (take_receive(engine, qp, cqe)) {
				visit_add(cq, qp);
				cq->hot = qp;
				cq->taken++;
				return true;
			}
		}
	} while (vb_ready_any(&cq->mbx->ready) && collect(cq));
	return false;
}

static bool take_own(struct vb_cq *cq, struct vb_cqe *cqe)
{
	if (!vb_cq_take(cq, cqe))
		return false;
	vb_cq_uncount(cq->pub, 1);
	if (cqe->qp)
		atomic_store_explicit(&cqe->qp->sq.freed, cqe->sq_index + 1, memory_order_release);
	return true;
}

bool vb_receive_poll(struct vb_engine *engine, struct vb_cq *cq, struct vb_cqe *cqe)
{
	/* What an overrun CQ held before is all it gives. */
	if (atomic_load_explicit(&cq->failed, memory_order_relaxed) && !cq->left--) {
		cq->left = 0;
		return false;
	}
	if (cq->turn++ & 1)
		return take_arrival(engine, cq, cqe) || take_own(cq, cqe);
	return take_own(cq, cqe) || take_arrival(engine, cq, cqe);
}

/* Have the engine, or the next poller, look at the QPs of a failed CQ: each then sees it.
 * Not here: this may be inside the run of one of them. */
static int alert_user(void *object, void *arg)
{
	struct vb_qp *qp = object;
	struct vb_cq *cq = arg;

	if (qp->ibv.send_cq == &cq->ibv || qp->ibv.recv_cq == &cq->ibv)
		vb_ready_set(&vb_engine_of(qp)->adapter->mbx->attention, qp->index % 4096);
	return 0;
}

void vb_receive_overrun(struct vb_engine *engine, struct vb_cq *cq)
{
	struct vb_context *ctx = vb_context_of(cq->ibv.context);

	vb_spin_lock(&cq->lock);
	if (!atomic_load(&cq->failed))
		cq->left = (uint32_t)cq->ibv.cqe;
	vb_spin_unlock(&cq->lock);
	if (atomic_exchange(&cq->failed, true))
		return;
	vb_explain(VB_RULE_CQ_OVERRUN, "cq#%u of %d entries", cq->ibv.handle, cq->ibv.cqe);
	vb_async_post(ctx, IBV_EVENT_CQ_ERR, cq->ibv.handle);
	vb_idtable_each(&ctx->qps, alert_user, cq);
	vb_adapter_ring(engine->adapter);
}

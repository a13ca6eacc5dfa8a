/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/sort.h"

#include <string.h>

#include "engine/receive.h"
#include "host/liveness.h"
#include "host/words.h"

/* Whether takers live costs system calls: asked now and then only. */
#define WATCH_NS 10000000u

static _Atomic uint64_t *word_of(struct vb_rq *rq, uint64_t index)
{
	return &rq->records[index & rq->mask].word;
}

static struct vb_rq_note *note_of(struct vb_rq *rq, uint64_t index)
{
	return &rq->notes[index & rq->mask];
}

/* The mailbox space that a receive's payload travelled in is free again. */
static void free_bounce(struct vb_rq *rq, uint64_t index)
{
	for (uint32_t i = 0; i < rq->bounce_slots; i++) {
		uint64_t holder = index + 1;

		if (atomic_load_explicit(&rq->bounce_words[i], memory_order_relaxed) == holder)
			atomic_compare_exchange_strong(&rq->bounce_words[i], &holder, 0);
	}
}

void vb_sort_done(struct vb_rq *rq, uint64_t index)
{
	free_bounce(rq, index);
	atomic_store(&note_of(rq, index)->index, VB_NO_RECEIVE);
	atomic_fetch_sub(&rq->outstanding, 1);
}

/* Offer a receive nobody will finish to the next sender. A slot that a stopped process may
 * still write to is kept, with its space in the mailbox: posting passes it over for good. */
static void offer_again(struct vb_rq *rq, uint64_t index, bool keep_slot)
{
	const struct vb_rwqe *wqe = vb_rq_slot(rq, index);
	struct ibv_sge sges[VB_MAX_SGE];
	struct ibv_recv_wr wr = {
		.wr_id = wqe->wr_id, .sg_list = sges, .num_sge = (int)wqe->num_sge};

	memcpy(sges, wqe->sge, wqe->num_sge * sizeof(sges[0]));
	/* Under the same lock as the program's posts: what is given back fits. */
	if (keep_slot)
		atomic_fetch_sub(&rq->outstanding, 1);
	else
		vb_sort_done(rq, index);
	vb_receive_post(rq, &wr);
}

static void list_add(struct vb_rq *rq, struct vb_qp *qp, uint64_t index)
{
	note_of(rq, index)->next = VB_NO_RECEIVE;
	if (qp->inbox == VB_NO_RECEIVE)
		qp->inbox = index;
	else
		note_of(rq, qp->inbox_last)->next = index;
	qp->inbox_last = index;
}

static bool taker_is_dead(struct vb_engine *engine, uint32_t slot)
{
	struct vb_peer *peer;
	bool dead;

	if (slot == engine->adapter->slot)
		return false;
	if (vb_peer_get_slot(engine->adapter, slot, &peer))
		return !vb_registry_locked(&engine->adapter->registry, slot, &(pid_t){0});
	dead = vb_peer_dead(peer) || (!vb_peer_has_engine(peer) && vb_peer_check(peer));
	vb_peer_put(peer);
	return dead;
}

/* Put one receive where it belongs. True: it is settled; false: look again later. */
static bool settle(struct vb_engine *engine, struct vb_rq *rq, uint64_t index, bool check_takers)
{
	uint64_t word = atomic_load(word_of(rq, index));
	struct vb_qp *qp;

	if (vb_arrival_state(word) == VB_ARRIVAL_TAKEN && vb_arrival_is(word, index)) {
		if (!check_takers || !taker_is_dead(engine, vb_arrival_slot(word)) ||
		    !vb_arrival_void(word_of(rq, index), word))
			return false;
		word = atomic_load(word_of(rq, index));
	}
	if (vb_arrival_state(word) == VB_ARRIVAL_FULL && vb_arrival_is(word, index)) {
		qp = vb_sparse_get(&engine->qps, vb_arrival_qp(word));
		if (qp && qp->rq == rq) {
			list_add(rq, qp, index);
			return true;
		}
		vb_arrival_void(word_of(rq, index), word);
	} else {
		/* Given up by its taker; or scribbled: nobody may fill it any more. */
		vb_arrival_flush(word_of(rq, index), index);
	}
	offer_again(rq, index, false);
	return true;
}

static void sort(struct vb_engine *engine, struct vb_rq *rq)
{
	uint64_t posted = atomic_load_explicit(&rq->posted, memory_order_acquire);
	/* Before the unfinished ones are looked at: a sender's later message is behind this
	 * head, or its earlier one is finished by now. So they stay in order. */
	uint64_t head = atomic_load(rq->head);
	uint64_t now = rq->n_pending ? vb_now_ns() : 0;
	uint32_t kept = 0;
	bool check = now > rq->check_ns;

	if (check)
		rq->check_ns = now + WATCH_NS;
	for (uint32_t i = 0; i < rq->n_pending; i++)
		if (!settle(engine, rq, rq->pending[i], check))
			rq->pending[kept++] = rq->pending[i];
	rq->n_pending = kept;
	if (head > posted)
		head = posted; /* scribbled */
	while (rq->sorted < head) {
		uint64_t index = rq->sorted++;

		/* An index whose slot was held when its turn came names nothing. */
		if (atomic_load(&note_of(rq, index)->index) != index)
			continue;
		if (!settle(engine, rq, index, false))
			rq->pending[rq->n_pending++] = index;
	}
}

/* What is pending is looked at again even if nobody polls: the receive of a dead taker may
 * be the last that there was. */
static void watch(struct vb_engine *engine, struct vb_qp *qp)
{
	struct vb_rq *rq = qp->rq;

	if (!rq->n_pending || rq->watched)
		return;
	rq->watched = true;
	vb_engine_wake_at(engine, qp, vb_now_ns() + WATCH_NS);
}

void vb_sort_attend(struct vb_engine *engine, struct vb_qp *qp)
{
	struct vb_rq *rq = qp->rq;

	if (!rq->shared || !rq->size)
		return;
	vb_spin_lock(&rq->sort_lock);
	rq->watched = false;
	sort(engine, rq);
	watch(engine, qp);
	vb_spin_unlock(&rq->sort_lock);
}

static bool list_take(struct vb_rq *rq, struct vb_qp *qp, uint64_t *index)
{
	if (qp->inbox == VB_NO_RECEIVE)
		return false;
	*index = qp->inbox;
	qp->inbox = note_of(rq, *index)->next;
	return true;
}

bool vb_sort_take(struct vb_engine *engine, struct vb_qp *qp, uint64_t *index)
{
	if (list_take(qp->rq, qp, index))
		return true;
	sort(engine, qp->rq);
	watch(engine, qp);
	return list_take(qp->rq, qp, index);
}

bool vb_sort_flush(struct vb_engine *engine, struct vb_qp *qp, uint64_t *index)
{
	struct vb_rq *rq = qp->rq;

	while (rq->n_pending) {
		*index = rq->pending[--rq->n_pending];
		if (vb_arrival_flush(word_of(rq, *index), *index))
			return true;
		settle(engine, rq, *index, false);
	}
	if (qp->inbox != VB_NO_RECEIVE)
		return false;
	while (rq->sorted < atomic_load_explicit(&rq->posted, memory_order_acquire)) {
		*index = rq->sorted++;
		if (atomic_load(&note_of(rq, *index)->index) != *index)
			continue;
		if (vb_arrival_flush(word_of(rq, *index), *index))
			return true;
		settle(engine, rq, *index, false);
		return false;
	}
	return false;
}

uint64_t vb_sort_forget(struct vb_engine *engine, struct vb_qp *qp)
{
	struct vb_rq *rq = qp->rq;
	uint64_t posted, index, arrived = 0;

	vb_spin_lock(&rq->sort_lock);
	sort(engine, rq);
	while (list_take(rq, qp, &index))
		arrived++;
	pthread_mutex_lock(&rq->post_lock);
	posted = atomic_load(&rq->posted);
	qp->inbox = VB_NO_RECEIVE;
	rq->watched = false;
	rq->n_pending = 0;
	rq->sorted = posted;
	for (uint32_t i = 0; i < rq->size; i++)
		atomic_store(&rq->notes[i].index, VB_NO_RECEIVE);
	for (uint32_t i = 0; i < rq->bounce_slots; i++)
		atomic_store(&rq->bounce_words[i], 0);
	atomic_store(&rq->outstanding, 0);
	atomic_store(rq->head, posted);
	pthread_mutex_unlock(&rq->post_lock);
	vb_spin_unlock(&rq->sort_lock);
	return arrived;
}

/* What is taken for the QP and not finished is offered to others. Its takers were waited for: they
 * are dead, or stopped. */
static void leave_unfinished(struct vb_engine *engine, struct vb_qp *qp)
{
	struct vb_rq *rq = qp->rq;
	uint32_t kept = 0;

	for (uint32_t i = 0; i < rq->n_pending; i++) {
		uint64_t index = rq->pending[i];
		_Atomic uint64_t *word = word_of(rq, index);
		uint64_t seen = atomic_load(word);

		if (vb_arrival_state(seen) == VB_ARRIVAL_TAKEN &&
		    vb_arrival_qp(seen) == qp->index && vb_arrival_void(word, seen))
			offer_again(rq, index, !taker_is_dead(engine, vb_arrival_slot(seen)));
		else
			rq->pending[kept++] = index;
	}
	rq->n_pending = kept;
}

uint64_t vb_sort_leave(struct vb_engine *engine, struct vb_qp *qp, bool gone)
{
	struct vb_rq *rq = qp->rq;
	uint64_t index, arrived = 0;

	vb_spin_lock(&rq->sort_lock);
	/* The look that was asked for may go with the QP: another QP asks anew. */
	rq->watched = false;
	sort(engine, rq);
	leave_unfinished(engine, qp);
	/* What was published meanwhile goes to the list, what was not is offered again. */
	sort(engine, rq);
	while (gone && list_take(rq, qp, &index)) {
		vb_arrival_void(word_of(rq, index), atomic_load(word_of(rq, index)));
		offer_again(rq, index, false);
		arrived++;
	}
	vb_spin_unlock(&rq->sort_lock);
	return arrived;
}

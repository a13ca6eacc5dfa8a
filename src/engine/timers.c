/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Send queues that wait for a moment: for the end of a receiver-not-ready or ack timer, or
 * for somebody to go on with work beyond the budget of one call. There are few at a
 * time, so a list is enough.
 */
#include "engine/engine.h"
#include "engine/requester.h"
#include "engine/sort.h"
#include "engine/thread.h"

static void add_locked(struct vb_engine *engine, struct vb_qp *qp, uint64_t at_ns)
{
	/* A run that comes early does no harm: who still waits asks again. */
	if (!qp->timed || at_ns < atomic_load(&qp->sq.deadline_ns))
		atomic_store(&qp->sq.deadline_ns, at_ns);
	if (!qp->timed) {
		qp->timed = true;
		qp->timer_next = engine->timers;
		engine->timers = qp;
	}
}

static void earliest_locked(struct vb_engine *engine)
{
	uint64_t at = VB_NEVER;

	for (struct vb_qp *qp = engine->timers; qp; qp = qp->timer_next)
		if (atomic_load(&qp->sq.deadline_ns) < at)
			at = atomic_load(&qp->sq.deadline_ns);
	atomic_store(&engine->next_ns, at);
}

void vb_engine_wake_at(struct vb_engine *engine, struct vb_qp *qp, uint64_t at_ns)
{
	uint64_t before;

	pthread_mutex_lock(&engine->timer_lock);
	before = atomic_load(&engine->next_ns);
	add_locked(engine, qp, at_ns);
	earliest_locked(engine);
	pthread_mutex_unlock(&engine->timer_lock);
	if (at_ns < before)
		vb_thread_wake(engine);
}

void vb_engine_forget(struct vb_engine *engine, struct vb_qp *qp)
{
	pthread_mutex_lock(&engine->timer_lock);
	for (struct vb_qp **at = &engine->timers; *at; at = &(*at)->timer_next)
		if (*at == qp) {
			*at = qp->timer_next;
			break;
		}
	qp->timed = false;
	earliest_locked(engine);
	pthread_mutex_unlock(&engine->timer_lock);
}

/* Take one queue that is due off the list. */
static struct vb_qp *take_due(struct vb_engine *engine, uint64_t now_ns)
{
	struct vb_qp *found = NULL;

	pthread_mutex_lock(&engine->timer_lock);
	for (struct vb_qp **at = &engine->timers; *at; at = &(*at)->timer_next)
		if (atomic_load(&(*at)->sq.deadline_ns) <= now_ns) {
			found = *at;
			*at = found->timer_next;
			found->timed = false;
			break;
		}
	earliest_locked(engine);
	pthread_mutex_unlock(&engine->timer_lock);
	return found;
}

void vb_engine_due(struct vb_engine *engine)
{
	uint64_t next = atomic_load_explicit(&engine->next_ns, memory_order_relaxed);
	uint64_t now;
	struct vb_qp *qp;

	if (next == VB_NEVER)
		return;
	now = vb_now_ns();
	if (next > now)
		return;
	/* Each queue that is due now runs once: one that asks for more comes after the
	 * others, or in the next call. */
	for (int runs = 0; runs < 64; runs++) {
		uint32_t token = vb_grace_enter(&engine->grace);

		qp = take_due(engine, now);
		if (qp)
			vb_sort_attend(engine, qp);
		if (qp)
			vb_requester_run(engine, qp, VB_RUN_BUDGET, true);
		vb_grace_leave(&engine->grace, token);
		if (!qp)
			return;
	}
}

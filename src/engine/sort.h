/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_ENGINE_SORT_H
#define VB_ENGINE_SORT_H

#include "engine/engine.h"

/*
 * Theory of operation
 *
 * A queue that several initiators take from (a UD QP's, an SRQ) is consumed in two
 * steps. Sorting looks at every receive once: a finished one is put behind the others of
 * its QP, an unfinished one aside. So a process that stopped while it filled a record
 * holds up that record only; the record of one that died is offered to the next sender
 * again, and so is the one of a QP that left.
 */

/** vb_sort_take() - The oldest arrival for a QP
 * @qp:     Its queue is shared
 * @index:  Receives which one
 * Context: rq->sort_lock held
 * Return:  false when there is none
 */
bool vb_sort_take(struct vb_engine *engine, struct vb_qp *qp, uint64_t *index);

/** vb_sort_attend() - The engine's look at receives that senders left unfinished
 *
 * The receive of a dead one is offered again; while there are others a look is asked for
 * again.
 * Context: the engine or a poller on its behalf, in a grace section; takes sort_lock
 */
void vb_sort_attend(struct vb_engine *engine, struct vb_qp *qp);

/** vb_sort_flush() - The next receive that a UD QP in ERR flushes; otherwise as vb_sort_take()
 *
 * Arrivals found on the way go into the QP's list: take those first.
 */
bool vb_sort_flush(struct vb_engine *engine, struct vb_qp *qp, uint64_t *index);

/** vb_sort_done() - A receive was consumed
 * Context: rq->sort_lock held
 */
void vb_sort_done(struct vb_rq *rq, uint64_t index);

/** vb_sort_forget() - RESET of a UD QP: its receives vanish
 * Context: takes sort_lock
 * Return:  arrivals that nobody will poll now
 */
uint64_t vb_sort_forget(struct vb_engine *engine, struct vb_qp *qp);

/** vb_sort_leave() - A QP of an SRQ went to ERR or away: what was taken for it is offered anew
 * @gone:   Also what has arrived for it
 * Context: takes sort_lock
 * Return:  arrivals that nobody will poll now
 */
uint64_t vb_sort_leave(struct vb_engine *engine, struct vb_qp *qp, bool gone);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_ENGINE_RECEIVE_H
#define VB_ENGINE_RECEIVE_H

#include "engine/engine.h"

/** vb_receive_join() - Make a QP one that receives on its receive CQ
 * Context: before any peer can know the QP
 * Return:  0, -ENOMEM
 */
int vb_receive_join(struct vb_qp *qp);

/** vb_receive_leave() - The opposite; its arrivals are no longer found */
void vb_receive_leave(struct vb_qp *qp);

/** vb_receive_post() - Post one receive
 * @rq:     Of a QP or an SRQ
 * @wr:     Checked by the caller: number of SGEs
 * Context: takes the queue's post_lock
 * Return:  0, -ENOSPC when max_wr receives are outstanding
 */
int vb_receive_post(struct vb_rq *rq, const struct ibv_recv_wr *wr);

/** vb_receive_point_at() - Have the receive CQ's pollers, and who waits for its event, look
 *                          at a QP
 */
void vb_receive_point_at(struct vb_engine *engine, struct vb_qp *qp);

/** vb_receive_flush() - ERR: what has not arrived completes as flushed when polled */
void vb_receive_flush(struct vb_engine *engine, struct vb_qp *qp);

/** vb_receive_limit() - Raise an SRQ's limit event when it is due
 *
 * Called where a taker asks for attention, and before a receive is posted: afterwards it
 * cannot be seen any more that there were fewer.
 */
void vb_receive_limit(struct vb_srq *srq);

/** vb_receive_forget() - RESET: receives and arrivals vanish without completion */
void vb_receive_forget(struct vb_engine *engine, struct vb_qp *qp);

/** vb_receive_poll() - Take one completion of a CQ, of either side
 * Context: the CQ's lock is held
 * Return:  false when there is none
 */
bool vb_receive_poll(struct vb_engine *engine, struct vb_cq *cq, struct vb_cqe *cqe);

/** vb_receive_overrun() - A CQ got more completions than it has entries: it has failed
 * Context: any thread, no CQ lock held. Raises CQ_ERR once; its QPs go to ERR
 */
void vb_receive_overrun(struct vb_engine *engine, struct vb_cq *cq);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_ENGINE_REQUESTER_H
#define VB_ENGINE_REQUESTER_H

#include "carrier/local.h"
#include "engine/engine.h"

/* Payload bytes a verbs call moves itself; the rest is the engine thread's. */
#define VB_RUN_BUDGET (4u << 20)

/* UC, UD: looks at a receiver without receives before a message is lost, 50 us apart. */
#define VB_PATIENCE 20000u

/** vb_requester_run() - Run a send queue as far as it goes
 * @qp:     QP, kept alive by the caller (the program's reference, or a grace section)
 * @budget: Payload bytes to move; what is left is handed to the engine
 * @first:  The first message is run whatever its length
 * Context: any thread, no lock held. Another thread that is at it already is told to look again,
 *          and this one returns
 */
void vb_requester_run(struct vb_engine *engine, struct vb_qp *qp, uint64_t budget, bool first);

/** vb_requester_posted() - Run a send queue to which the program has posted
 * Who sends what nobody acknowledges receives as well, now and then (engine/wire_pace.h).
 * Context: a thread of the program, no lock held
 */
void vb_requester_posted(struct vb_engine *engine, struct vb_qp *qp);

/** vb_requester_hold() - Keep everybody off the send queue and the QP's state
 * Context: any thread, the QP's lock held. Waits for the thread that runs it, which never waits
 *          for a peer
 */
void vb_requester_hold(struct vb_qp *qp);

/** vb_requester_release() - The opposite; runs what others left word of */
void vb_requester_release(struct vb_engine *engine, struct vb_qp *qp);

/** vb_requester_settle() - Carry out what a peer has done to the QP by now
 * Context: as vb_requester_run(); when it returns, a QP that a peer had failed is in ERR
 * Return:  whether a message has begun that is not over
 */
bool vb_requester_settle(struct vb_engine *engine, struct vb_qp *qp);

/** vb_requester_error() - Move a QP to ERR: everything outstanding flushes
 * Context: held by vb_requester_hold(), or the running thread
 */
void vb_requester_error(struct vb_engine *engine, struct vb_qp *qp);

/** vb_requester_arrived() - The message of the request that runs has taken its receive
 * @qp:     struct vb_qp of the request
 * Context: from within the carrier's call; struct vb_local_request says when
 */
void vb_requester_arrived(void *qp);

/** vb_requester_done() - The oldest request of a QP on the wire went well
 * Context: held, or the running thread; the same for the next three
 */
void vb_requester_done(struct vb_engine *engine, struct vb_qp *qp);

/** vb_requester_fail() - It failed: the QP goes to ERR */
void vb_requester_fail(struct vb_engine *engine, struct vb_qp *qp, enum vb_wc_status status);

/** vb_requester_check() - What is wrong with a request itself, VB_WC_SUCCESS nothing */
enum vb_wc_status vb_requester_check(const struct vb_qp *qp, const struct vb_swqe *wqe);

/** vb_requester_describe() - A request as a message, without its payload */
void vb_requester_describe(const struct vb_qp *qp, const struct vb_swqe *wqe, struct vb_msg *msg);

/** vb_local_side() - The local side of a request as addresses
 * @iov:    Room for VB_MAX_SGE spans
 * Context: inside a grace section
 * Return:  VB_WC_SUCCESS, or the status the request fails with. READs and atomics find out
 *          (payload->fault) only after the peer's checks, as on an adapter
 */
enum vb_wc_status vb_local_side(struct vb_engine *engine, struct vb_qp *qp, struct vb_swqe *wqe,
				struct iovec *iov, struct vb_payload *payload);

#endif

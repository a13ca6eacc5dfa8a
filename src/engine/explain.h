/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_ENGINE_EXPLAIN_H
#define VB_ENGINE_EXPLAIN_H

#include "object/keys.h"
#include "object/qp.h"
#include "transport/rc_msg.h"

/*
 * Why a completion has the status it has. Nothing here decides anything; all of it
 * returns at once unless explanations are wanted.
 */

/** vb_explain_local() - A scatter/gather element of a send request does not stand */
void vb_explain_local(const struct vb_qp *qp, const struct vb_swqe *wqe, int sge,
		      enum vb_sge_fault fault);

/** vb_explain_verdict() - The message was not executed: which check, by which values */
void vb_explain_verdict(const struct vb_qp *qp, const struct vb_swqe *wqe,
			const struct vb_msg_result *res, const struct vb_sq_step *next);

/** vb_explain_answer() - A request on the wire ended with an error: what is known from here. The
 * peer's side explains which of its checks it was
 */
void vb_explain_answer(const struct vb_qp *qp, uint64_t wr_id, enum vb_wc_status status);

/** vb_explain_responder() - A peer's message failed this QP */
void vb_explain_responder(const struct vb_qp *qp, enum vb_verdict verdict);

/** vb_explain_flush() - A request was flushed: the first failure is the cause */
void vb_explain_flush(const struct vb_qp *qp, uint64_t wr_id);

#endif

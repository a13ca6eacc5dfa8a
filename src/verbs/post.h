/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_VERBS_POST_H
#define VB_VERBS_POST_H

#include "object/qp.h"

/** vb_sq_full() - Is there no slot for request @index?
 * Context: the QP's lock is held
 * Return:  0, or ENOMEM by the rule that says why
 */
int vb_sq_full(const struct vb_qp *qp, uint64_t index);

/** vb_send_state() - Are requests taken in the QP's state? 0, or EINVAL by rule
 * Context: the QP's lock is held
 */
int vb_send_state(const struct vb_qp *qp);

/** vb_inline_check() - Is this too long to be inline? 0, or EINVAL by rule */
int vb_inline_check(const struct vb_qp *qp, uint64_t length);

/** vb_set_datagram() - Give a request of a UD QP its destination
 * @ah:     May be NULL or of another PD: the request then completes in error
 */
void vb_set_datagram(const struct vb_qp *qp, struct vb_swqe *wqe, struct ibv_ah *ah, uint32_t qpn,
		     uint32_t qkey);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_TRANSPORT_UNACKED_MSG_H
#define VB_TRANSPORT_UNACKED_MSG_H

#include "transport/rc_msg.h"

/*
 * Messages of the services that are not acknowledged, as calls within a host. The
 * sender completes with success whatever happens here; what the responder cannot use it
 * drops without a word. Only trouble with its own receive fails the responder's QP.
 */

/** vb_unacked_verdict() - What a verdict comes to where nobody is told: a drop, unless it is one
 * already or stays on this side
 */
enum vb_verdict vb_unacked_verdict(enum vb_verdict verdict);

/** vb_unacked_own_fault() - Whether a verdict is trouble of the responder with its own receive:
 * that receive completes in error, and its QP fails. All else is dropped
 */
bool vb_unacked_own_fault(enum vb_verdict verdict);

/** vb_uc_resp_message() - Run a message through the responder of a UC QP
 * @qp:     The target QP's attributes; any PSN is taken: a sender that lost messages on the
 *          way goes on with its next one
 * Otherwise as vb_rc_resp_message().
 * Return:  VB_V_ACCEPTED, one of VB_VC_SILENT, or one of VB_VC_NAK where a receive was taken and
 *          completed in error
 * Spec:    IBA1 9.8.2 (UC: violations are dropped silently)
 */
enum vb_verdict vb_uc_resp_message(const struct vb_resp_qp *qp, const struct vb_resp_env *env,
				   void *ctx, const struct vb_msg *msg, struct vb_msg_result *res);

/** vb_ud_resp_message() - Run a datagram through the responder of a UD QP
 * @qkey:   The target QP's Q_Key
 * @msg:    kind SEND; length and payload include the 40 bytes of the network header that stand
 *          in front of the data
 * @msg_qkey: The Q_Key the datagram carries
 * Otherwise as vb_rc_resp_message(). A receive that is too short is not consumed.
 * Spec:    IBA1 9.8.3, IBA1 10.2.5 (Q_Keys)
 */
enum vb_verdict vb_ud_resp_message(const struct vb_resp_qp *qp, uint32_t qkey,
				   const struct vb_resp_env *env, void *ctx,
				   const struct vb_msg *msg, uint32_t msg_qkey,
				   struct vb_msg_result *res);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_TRANSPORT_UC_RESP_H
#define VB_TRANSPORT_UC_RESP_H

#include "transport/msg_in.h"

/* Records one request packet may add. */
#define VB_UC_RESP_OUT_MAX 3

/** vb_uc_resp_packet() - Run a request packet through the responder of a UC QP
 *
 * Nothing is answered. A message of which a packet is missing, or that breaks a rule, is dropped
 * without a word up to its last packet; its receive serves the next message. What it wrote
 * before stays written. Only trouble with its own receive fails the responder's QP.
 *
 * @msg:    The message in progress, under the caller's lock; zeroed for a new connection
 * @qp:     Attributes; epsn, msn and comm_est are advanced, state goes to ERR with the QP
 * @env:    Memory, keys and receives of the QP; its complete() is not used
 * @ctx:    Passed to @env
 * @pkt:    Parsed, ICRC good; payload valid during the call
 * @src:    Who sent it
 * @out:    Room for VB_UC_RESP_OUT_MAX records
 * Return:  exactly one verdict: VB_V_ACCEPTED, one of VB_VC_SILENT, or one of VB_VC_NAK where a
 *          receive ended in error with the QP
 * Spec:    IBA1 9.8.2
 */
enum vb_verdict vb_uc_resp_packet(struct vb_msg_in *msg, struct vb_resp_qp *qp,
				  const struct vb_resp_env *env, void *ctx,
				  const struct vb_packet *pkt, const struct vb_source *src,
				  struct vb_out *out);

#endif

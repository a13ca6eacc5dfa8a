/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_TRANSPORT_RC_COMP_H
#define VB_TRANSPORT_RC_COMP_H

#include "transport/rc_sq.h"
#include "transport/verdict.h"

/** vb_rc_comp_packet() - Run a response packet through the completer
 * @sq:     Send queue, under the caller's lock
 * @ring:   Its work requests
 * @qp:     Attributes of the QP, for the check of the peer
 * @env:    Local memory, borrowed for the call
 * @ctx:    Passed to @env
 * @pkt:    Parsed, ICRC good; payload valid during the call
 * @src:    Who sent it
 * @now_ns: Monotonic time
 * @out:    Completions as far as there is room; vb_rc_sq_retire() has the rest
 * Context: run the requester afterwards: there may be room in the window, or packets
 *          to send again
 * Return:  VB_V_ACCEPTED: something was acknowledged, or a READ's data arrived.
 *          VB_V_NAK_SEQ, VB_V_RNR: will be sent again. VB_V_ACK_*: did not count.
 *          Another verdict: the QP has failed
 * Spec:    IBA1 9.7.5, 9.9.2 (NAK codes at the requester)
 */
enum vb_verdict vb_rc_comp_packet(struct vb_rc_sq *sq, const struct vb_rc_wqe *ring,
				  const struct vb_resp_qp *qp, const struct vb_req_env *env,
				  void *ctx, const struct vb_packet *pkt,
				  const struct vb_source *src, uint64_t now_ns, struct vb_out *out);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_TRANSPORT_RC_REQ_H
#define VB_TRANSPORT_RC_REQ_H

#include "transport/rc_sq.h"

/** vb_rc_req_run() - Send what may be sent
 * @sq:     Send queue, under the caller's lock
 * @ring:   Its work requests, ring_mask + 1 entries; sequence numbers are written
 * @env:    Local memory, borrowed for the call
 * @ctx:    Passed to @env
 * @now_ns: Monotonic time, to arm the ack timer
 * @budget: Packets at most
 * @out:    Packets and completions, as far as there is room
 * Context: after posting, after responses, after the timer; again while it returns true
 * Return:  true when it stopped for want of budget or room and could go on
 * Spec:    IBA1 9.7.2 (sequence), 9.7.7 (outstanding READs), man ibv_post_send(3) (fence)
 */
bool vb_rc_req_run(struct vb_rc_sq *sq, struct vb_rc_wqe *ring, const struct vb_req_env *env,
		   void *ctx, uint64_t now_ns, uint32_t budget, struct vb_out *out);

#endif

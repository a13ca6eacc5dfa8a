/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_ENGINE_STATS_H
#define VB_ENGINE_STATS_H

#include "host/counters.h"
#include "transport/rc_msg.h"
#include "wire/opcode.h"

/** vb_stat_message() - Count a message as the packets it would be, at both ends
 * @msg:     The message
 * @acked:   Its service is acknowledged
 * @verdict: What came of it
 */
void vb_stat_message(struct vb_adapter *a, const struct vb_msg *msg, bool acked,
		     enum vb_verdict verdict);

/** vb_stat_request() - Count a request packet from the wire at its responder */
void vb_stat_request(struct vb_adapter *a, const struct vb_op_row *op, enum vb_verdict verdict);

/** vb_stat_response() - Count a response packet from the wire at its requester */
void vb_stat_response(struct vb_adapter *a, enum vb_verdict verdict);

/** vb_stat_failure() - Count a request that completed in error */
void vb_stat_failure(struct vb_adapter *a, enum vb_wc_status status);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_TRANSPORT_RC_RTT_H
#define VB_TRANSPORT_RC_RTT_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/psn.h"

/*
 * Theory of operation
 *
 * How long answers take, and when one is overdue. The ack timer of a QP is the program's: tens
 * of milliseconds to seconds, after which one of at most seven retries is spent. Where the
 * last packets of a window are lost, or the only answer to a gap, nothing else would tell. So
 * before the timer ends the oldest packet is sent again a few times, each time after twice
 * the wait: a probe, which asks what has come.
 */

struct vb_rc_rtt {
	bool timing; /* the acknowledgement of the packet before `end` is waited for */
	struct vb_psn end;
	uint64_t from_ns;   /* when that packet left */
	uint64_t mean_ns;   /* smoothed; 0: not known */
	uint64_t varies_ns; /* smoothed distance from it */
	uint32_t doublings; /* of the patience, by probes since an answer was timed */
};

/** vb_rc_rtt_sent() - A packet that asks for an acknowledgement leaves for the first time
 * @end:    The number after it
 */
void vb_rc_rtt_sent(struct vb_rc_rtt *r, struct vb_psn end, uint64_t now_ns);

/** vb_rc_rtt_acked() - Everything before @una is acknowledged */
void vb_rc_rtt_acked(struct vb_rc_rtt *r, struct vb_psn una, uint64_t now_ns);

/** vb_rc_rtt_forget() - Packets are sent again: the next answer may be to either
 * Spec:    RFC 6298 3
 */
void vb_rc_rtt_forget(struct vb_rc_rtt *r);

/** vb_rc_rtt_patience() - How long to wait for an answer before a probe
 * @ack_ns: The ack timer
 * Return:  nanoseconds since the last answer or probe. VB_NEVER without an ack timer
 */
uint64_t vb_rc_rtt_patience(const struct vb_rc_rtt *r, uint64_t ack_ns);

/** vb_rc_rtt_probed() - The patience was too short, or answers were lost
 * Spec:    RFC 6298 5.7: it stays doubled until an answer has been timed again; an answer that
 *          is not timed leaves some of it, because where many packets are lost few are timed
 */
void vb_rc_rtt_probed(struct vb_rc_rtt *r);

#endif

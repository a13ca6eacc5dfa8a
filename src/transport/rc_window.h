/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_TRANSPORT_RC_WINDOW_H
#define VB_TRANSPORT_RC_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/psn.h"

/*
 * Theory of operation
 *
 * How many packets of an RC QP may be unacknowledged now. It begins with all it may
 * have, as adapters begin at the rate of the link: an idle link is the usual case, and what a
 * receiver can hold is the bound. A loss halves it, a mark (CNP) takes a fifth, and each window of
 * acknowledged packets gives one back: flows that share a bottleneck so come to equal shares.
 * Silence says that nothing came through: then it begins with four packets, and doubles until
 * half of what was too much. Not with one, as TCP does, which may try as often as it likes: where
 * packets and acknowledgements are lost, retry_cnt tries of one packet are soon used up.
 *
 * A loss is told once per going back, which is once per round trip. Marks come more often: those
 * for packets that had left before the last reduction say nothing new.
 */

struct vb_rc_window {
	uint32_t max;	    /* packets; at least 1 */
	uint32_t size;	    /* 1..max */
	uint32_t threshold; /* below it every acknowledged packet adds one */
	uint32_t acked;	    /* packets since size last grew, at or above the threshold */
	bool held;	    /* marks count again when what is before `until` is acknowledged */
	struct vb_psn until;
};

/** vb_rc_window_init() - All of @max */
void vb_rc_window_init(struct vb_rc_window *w, uint32_t max);

/** vb_rc_window_acked() - Packets were acknowledged
 * @una:    The oldest number that is not, now
 */
void vb_rc_window_acked(struct vb_rc_window *w, uint32_t packets, struct vb_psn una);

/** vb_rc_window_lost() - A gap was seen, and its packets are sent again
 * @sent:   The number after the highest that ever left
 * Spec:    RFC 5681 3.1
 */
void vb_rc_window_lost(struct vb_rc_window *w, struct vb_psn sent);

/** vb_rc_window_silent() - Nothing was heard until the ack timer ended */
void vb_rc_window_silent(struct vb_rc_window *w, struct vb_psn sent);

/** vb_rc_window_marked() - A queue on the way is filling
 * Return:  whether the window was reduced: not if it was in this round trip
 * Spec:    RFC 8511 (by a fifth: marks come before the queue is full)
 */
bool vb_rc_window_marked(struct vb_rc_window *w, struct vb_psn sent);

#endif

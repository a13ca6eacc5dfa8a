/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_ENGINE_WIRE_PACE_H
#define VB_ENGINE_WIRE_PACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Theory of operation
 *
 * Nobody acknowledges the packets of UC and UD, so nothing but time holds them back: what is sent
 * faster than its receiver runs is lost in the receiver's socket. All UC and UD QPs of the process
 * share one pace (setting PACE), in pieces that a buffer of the default size holds: a receiver that
 * has a processor all the time loses nothing. The kernel counts that buffer in what a packet takes
 * there, which for a short one is many times what is on the wire: so a packet counts for
 * LEAST_BYTES at least.
 *
 * A process that sends as much as it can must take what comes as well, or two that send to each
 * other both send more than they take: every now and then its sender's thread receives
 * (vb_pace_turn()).
 *
 * Any thread. Without a pace (NULL) all may leave.
 */

struct vb_pace {
	uint64_t ns_per_kib;	     /* 0: none */
	_Atomic uint64_t free_at_ns; /* when the link is free again */
	_Atomic uint32_t sent;	     /* packets since somebody received */
};

/** vb_pace_init() - By the setting PACE */
void vb_pace_init(struct vb_pace *pace);

/** vb_pace_again_ns() - Whether more may leave now
 * Return:  0, or the time to ask again
 */
uint64_t vb_pace_again_ns(const struct vb_pace *pace);

/** vb_pace_leaves() - A packet leaves
 * @bytes: Of it on the wire, headers and all
 */
void vb_pace_leaves(struct vb_pace *pace, uint64_t bytes);

/** vb_pace_turn() - Whether who sends is to receive now; once for so many packets */
bool vb_pace_turn(struct vb_pace *pace);

#endif

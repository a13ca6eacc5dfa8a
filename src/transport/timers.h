/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_TRANSPORT_TIMERS_H
#define VB_TRANSPORT_TIMERS_H

#include <stdint.h>

/* A deadline that is never reached. */
#define VB_NEVER UINT64_MAX

/** vb_timer_ack_ns() - The local ack timeout
 * @code:   ibv_qp_attr.timeout, 5 bits
 * Return:  4.096 us * 2^code in nanoseconds; VB_NEVER for 0, "wait for ever"
 * Spec:    man ibv_modify_qp(3)
 */
uint64_t vb_timer_ack_ns(uint8_t code);

/** vb_timer_rnr_ns() - How long a "receiver not ready" asks to wait
 * @code:   min_rnr_timer as carried in the syndrome, 5 bits
 * Return:  nanoseconds; 0 is the longest, 655.36 ms
 * Spec:    man ibv_modify_qp(3)
 */
uint64_t vb_timer_rnr_ns(uint8_t code);

/** vb_timer_after() - A deadline @ns after @now_ns, VB_NEVER kept as it is */
static inline uint64_t vb_timer_after(uint64_t now_ns, uint64_t ns)
{
	return ns >= VB_NEVER - now_ns ? VB_NEVER : now_ns + ns;
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_HOST_NOTIFY_H
#define VB_HOST_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

#include "host/peer.h"

/* The record a completion channel carries: which CQ, and for which arming. */
#define VB_EVENT_SEQ_BITS 44u
#define VB_EVENT_SEQ_MASK ((UINT64_C(1) << VB_EVENT_SEQ_BITS) - 1)

static inline uint64_t vb_event_record(uint32_t cq_index, uint64_t seq)
{
	return (uint64_t)cq_index << VB_EVENT_SEQ_BITS | (seq & VB_EVENT_SEQ_MASK);
}

/** vb_notify() - Raise the completion event of an armed CQ
 * @p:      Whose CQ; the self peer for our own
 * @cq:     Index of the CQ
 * @solicited: The completion counts for a CQ armed for solicited ones (errors do)
 * Context: after the completion became visible; no locks that a poller holds
 */
void vb_notify(struct vb_peer *p, uint32_t cq, bool solicited);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_HOST_ACCESS_H
#define VB_HOST_ACCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "host/peer.h"

/*
 * An initiator announces an access in its own published part before it looks at the
 * key or QP word and touches the memory behind it; the owner makes the word
 * dead first and looks at the announcements afterwards. Both sides are
 * sequentially consistent, so one of them sees the other.
 */

#define VB_ACCESS_BOUND_NS 200000000ull

/** vb_access_begin() - Announce an access
 * @p:   Whose memory
 * @qpn: The target QP, 0 where none is involved
 * @key: The key it goes through, 0 for receive buffers of the QP
 * Context: any thread. Where VB_ACCESSES are under way it yields until one ends
 * Return:  a ticket for vb_access_end(), or -EAGAIN when none came free in reasonable
 *          time
 */
int vb_access_begin(struct vb_adapter *a, struct vb_peer *p, uint32_t qpn, uint32_t key);

/** vb_access_end() - The access is over
 * @ticket: From vb_access_begin()
 */
void vb_access_end(struct vb_adapter *a, int ticket);

/** vb_access_wait() - Wait until nobody touches what is being destroyed
 * @qpn:      QP that was made inaccessible, 0 none
 * @key:      Key that was made dead, 0 none
 * @bound_ns: Longest wait, e.g. VB_ACCESS_BOUND_NS
 * Context: owner, after the word was changed, holding no access itself. Looks at this
 *          process and at every visitor; the dead are skipped and struck from the visitors
 * Return:  true: clear; false: an access was still announced when the time was over
 */
bool vb_access_wait(struct vb_adapter *a, uint32_t qpn, uint32_t key, uint64_t bound_ns);

#endif

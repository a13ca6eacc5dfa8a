/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_HOST_LIVENESS_H
#define VB_HOST_LIVENESS_H

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "host/peer.h"

/*
 * Theory of operation
 *
 * The engine thread hands the kernel a robust list of its own: head and node in
 * private memory, the futex word being `alive` in the mailbox. However the thread
 * ends, the kernel then sets FUTEX_OWNER_DIED in the word, and a peer learns it from one
 * load. A word that says "died" is believed only when the record lock of the slot is
 * free as well (or the slot is another process's by now), for anybody may scribble.
 */

/** vb_liveness_engine_start() - Tie the mailbox's `alive` word to the calling thread
 * Context: engine thread, once; it must hold no robust mutex, ever
 * Return:  0 or a negative errno: peers then learn of our death by the record lock only
 */
int vb_liveness_engine_start(struct vb_adapter *a);

/** vb_liveness_engine_stop() - Untie it, before the thread ends in good order
 * Context: engine thread
 */
void vb_liveness_engine_stop(struct vb_adapter *a);

/** vb_peer_check() - Is the peer dead? By the record lock
 * Context: any thread; one or two system calls
 * Return:  true: dead, for good
 */
bool vb_peer_check(struct vb_peer *p);

/** vb_peer_dead() - Is the peer dead? By its word
 * Context: any thread; one load, for peers that have an engine. A peer without an
 *          engine (vb_peer_has_engine()) needs vb_peer_check() now and then
 * Return:  true: dead, for good
 */
static inline bool vb_peer_dead(struct vb_peer *p)
{
	if (__builtin_expect(!(atomic_load(&p->mbx->alive) & FUTEX_OWNER_DIED), 1))
		return atomic_load_explicit(&p->dead, memory_order_relaxed);
	return vb_peer_check(p);
}

/** vb_peer_has_engine() - Does the peer's word tell its death? */
static inline bool vb_peer_has_engine(struct vb_peer *p)
{
	return atomic_load_explicit(&p->mbx->alive, memory_order_relaxed) != 0;
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_BASE_GRACE_H
#define VB_BASE_GRACE_H

#include <stdatomic.h>
#include <stdint.h>

/*
 * Theory of operation
 *
 * Readers of things that are looked up without a lock (keys, QPs by number) run inside
 * a section. Who takes such a thing away unpublishes it first, then waits until every
 * section that was open at that moment has ended. Sections never block, so the wait
 * is short. Counters are spread over cache lines by thread and kept in two
 * generations, so that new sections cannot hold up a wait.
 */

#define VB_GRACE_STRIPES 16

struct vb_grace {
	struct {
		_Atomic uint32_t open[2];
		char pad[56];
	} stripe[VB_GRACE_STRIPES];
	_Atomic uint32_t generation;
	_Atomic int waiting; /* one waiter at a time flips the generation */
};

/** vb_grace_enter() - Open a section
 * Return:  a token for vb_grace_leave() in the same thread
 */
uint32_t vb_grace_enter(struct vb_grace *grace);

/** vb_grace_leave() - End the section */
void vb_grace_leave(struct vb_grace *grace, uint32_t token);

/** vb_grace_wait() - Wait for every section open now
 * Context: outside any section of this @grace
 */
void vb_grace_wait(struct vb_grace *grace);

#endif

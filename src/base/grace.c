/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/grace.h"

#include <sched.h>

#include "base/spin.h"

static uint32_t my_stripe(void)
{
	static _Atomic uint32_t next;
	static __thread uint32_t mine;

	if (!mine)
		mine = 1 + atomic_fetch_add(&next, 1) % VB_GRACE_STRIPES;
	return mine - 1;
}

uint32_t vb_grace_enter(struct vb_grace *grace)
{
	uint32_t stripe = my_stripe();

	for (;;) {
		uint32_t generation = atomic_load(&grace->generation) & 1;

		atomic_fetch_add(&grace->stripe[stripe].open[generation], 1);
		/* A waiter that flipped in between may have missed us. */
		if ((atomic_load(&grace->generation) & 1) == generation)
			return stripe << 1 | generation;
		atomic_fetch_sub(&grace->stripe[stripe].open[generation], 1);
	}
}

void vb_grace_leave(struct vb_grace *grace, uint32_t token)
{
	atomic_fetch_sub_explicit(&grace->stripe[token >> 1].open[token & 1], 1,
				  memory_order_release);
}

void vb_grace_wait(struct vb_grace *grace)
{
	uint32_t old;

	while (atomic_exchange(&grace->waiting, 1))
		sched_yield();
	old = atomic_fetch_add(&grace->generation, 1) & 1;
	for (int i = 0; i < VB_GRACE_STRIPES; i++)
		for (int tries = 0; atomic_load(&grace->stripe[i].open[old]); tries++) {
			if (tries % 64 == 63)
				sched_yield();
			else
				vb_pause();
		}
	atomic_store(&grace->waiting, 0);
}

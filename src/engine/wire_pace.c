/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/wire_pace.h"

#include "base/settings.h"
#include "engine/engine.h"

/* What leaves at once after a pause. */
#define BURST_KIB 64
/* A short packet takes 768 bytes of a socket's buffer, one of 1 KiB 2304: a third, whatever is in
 * it. */
#define LEAST_BYTES 368u
/* About what a thread of a receiver takes in one go. */
#define TURN 32u

void vb_pace_init(struct vb_pace *pace)
{
	uint64_t rate = vb_setting_number(NULL, "PACE");

	pace->ns_per_kib = rate ? 1024000 / rate : 0;
}

uint64_t vb_pace_again_ns(const struct vb_pace *pace)
{
	uint64_t burst, free_at;

	if (!pace || !pace->ns_per_kib)
		return 0;
	burst = BURST_KIB * pace->ns_per_kib;
	free_at = atomic_load(&pace->free_at_ns);
	return free_at > vb_now_ns() + burst ? free_at - burst : 0;
}

void vb_pace_leaves(struct vb_pace *pace, uint64_t bytes)
{
	uint64_t now, free_at, from;

	if (!pace)
		return;
	atomic_fetch_add_explicit(&pace->sent, 1, memory_order_relaxed);
	if (!pace->ns_per_kib)
		return;
	if (bytes < LEAST_BYTES)
		bytes = LEAST_BYTES;
	now = vb_now_ns();
	free_at = atomic_load(&pace->free_at_ns);
	do {
		/* What was free and not used is gone. */
		from = free_at > now ? free_at : now;
	} while (!atomic_compare_exchange_weak(&pace->free_at_ns, &free_at,
					       from + bytes * pace->ns_per_kib / 1024));
}

bool vb_pace_turn(struct vb_pace *pace)
{
	if (atomic_load_explicit(&pace->sent, memory_order_relaxed) < TURN)
		return false;
	atomic_store_explicit(&pace->sent, 0, memory_order_relaxed);
	return true;
}

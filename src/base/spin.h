/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_BASE_SPIN_H
#define VB_BASE_SPIN_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

/* A private lock for sections of some ten instructions. Never in shared memory. */
struct vb_spin {
	_Atomic int held;
};

static inline void vb_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield" ::: "memory");
#endif
}

static inline bool vb_spin_try(struct vb_spin *spin)
{
	return !atomic_exchange_explicit(&spin->held, 1, memory_order_acquire);
}

static inline void vb_spin_lock(struct vb_spin *spin)
{
	int tries = 0;

	while (!vb_spin_try(spin)) {
		while (atomic_load_explicit(&spin->held, memory_order_relaxed)) {
			/* The holder may have lost its processor: give it ours. */
			if (++tries % 128 == 0)
				sched_yield();
			else
				vb_pause();
		}
	}
}

static inline void vb_spin_unlock(struct vb_spin *spin)
{
	atomic_store_explicit(&spin->held, 0, memory_order_release);
}

#endif

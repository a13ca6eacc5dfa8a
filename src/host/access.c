/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/access.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

#include "base/spin.h"
#include "base/step.h"
#include "host/liveness.h"

#define BEGIN_SPINS  64
#define BEGIN_YIELDS 100000

/* Who has which entry is private: the table is ours alone to hand out. Threads begin at
 * places of their own, so that they seldom meet. */
static int take_entry(struct vb_adapter *a)
{
	unsigned int start = (unsigned int)((uintptr_t)pthread_self() >> 12);

	for (unsigned int i = 0; i < VB_ACCESSES; i++) {
		unsigned int entry = (start + i) % VB_ACCESSES;

		if (!atomic_load_explicit(&a->access_used[entry], memory_order_relaxed) &&
		    !atomic_exchange_explicit(&a->access_used[entry], 1, memory_order_acquire))
			return (int)entry;
	}
	return -EAGAIN;
}

int vb_access_begin(struct vb_adapter *a, struct vb_peer *p, uint32_t qpn, uint32_t key)
{
	struct vb_pub_access *access;
	int entry = take_entry(a);

	for (int tries = 0; entry < 0 && tries < BEGIN_SPINS + BEGIN_YIELDS; tries++) {
		if (tries < BEGIN_SPINS)
			vb_pause();
		else
			sched_yield();
		entry = take_entry(a);
	}
	if (entry < 0)
		return -EAGAIN;
	access = &a->pub->access[entry];
	atomic_store_explicit(&access->key, key, memory_order_relaxed);
	/* Before any look at the words of the target: sequentially consistent. */
	atomic_store(&access->target, (uint64_t)(p->slot + 1) << 32 | qpn);
	VB_STEP(ACCESS_ANNOUNCED);
	return entry;
}

void vb_access_end(struct vb_adapter *a, int ticket)
{
	if (ticket < 0)
		return;
	atomic_store_explicit(&a->pub->access[ticket].target, 0, memory_order_release);
	VB_STEP(ACCESS_CLEARED);
	atomic_store_explicit(&a->access_used[ticket], 0, memory_order_release);
}

static bool touches(const struct vb_pub_header *pub, uint32_t slot, uint32_t qpn, uint32_t key)
{
	for (unsigned int i = 0; i < VB_ACCESSES; i++) {
		uint64_t target = atomic_load(&pub->access[i].target);
		uint64_t by_key;

		if (target >> 32 != slot + 1ull)
			continue;
		by_key = atomic_load(&pub->access[i].key);
		/* lkey and rkey of an MR differ in the tag only. */
		if ((qpn && (uint32_t)target == qpn) ||
		    (key && by_key && (uint32_t)by_key >> 8 == key >> 8))
			return true;
	}
	return false;
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Look until the visitor touches nothing any more, is dead, or time is over. */
static bool wait_for(struct vb_adapter *a, struct vb_peer *p, uint32_t qpn, uint32_t key,
		     uint64_t until)
{
	const struct timespec moment = {.tv_nsec = 50000};
	int looks = 0;

	while (touches(p->pub, a->slot, qpn, key)) {
		if (!p->self && (vb_peer_dead(p) || (looks % 16 == 15 && vb_peer_check(p))))
			return true;
		if (now_ns() >= until)
			return false;
		if (looks++ < 64)
			sched_yield();
		else
			nanosleep(&moment, NULL);
	}
	return true;
}

/* A visitor that is dead leaves the list. A new process may have taken its slot and set
 * the same bit before we cleared it: then it is set again. */
static void strike(struct vb_adapter *a, uint32_t slot)
{
	pid_t pid;

	atomic_fetch_and(&a->mbx->visitors[slot / 64], ~(1ull << slot % 64));
	if (vb_registry_locked(&a->registry, slot, &pid))
		atomic_fetch_or(&a->mbx->visitors[slot / 64], 1ull << slot % 64);
}

static bool wait_for_slot(struct vb_adapter *a, uint32_t slot, uint32_t qpn, uint32_t key,
			  uint64_t until)
{
	struct vb_peer *p;
	bool clear;
	int err = vb_peer_get_slot(a, slot, &p);

	if (err == -ESRCH || err == -ENOENT)
		strike(a, slot);
	if (err)
		return true; /* what cannot be seen is not waited for */
	clear = wait_for(a, p, qpn, key, until);
	if (vb_peer_dead(p))
		strike(a, slot);
	vb_peer_put(p);
	return clear;
}

bool vb_access_wait(struct vb_adapter *a, uint32_t qpn, uint32_t key, uint64_t bound_ns)
{
	uint64_t until = now_ns() + bound_ns;
	bool clear;

	/* Pairs with the store in vb_access_begin(); the caller's change came before. */
	atomic_thread_fence(memory_order_seq_cst);
	clear = wait_for(a, a->self, qpn, key, until);
	if (a->alone_reason)
		return clear;
	for (uint32_t word = 0; word < VB_SLOTS / 64; word++) {
		uint64_t bits = atomic_load(&a->mbx->visitors[word]);

		while (bits) {
			uint32_t slot = word * 64 + (uint32_t)__builtin_ctzll(bits);

			bits &= bits - 1;
			if (slot != a->slot)
				clear &= wait_for_slot(a, slot, qpn, key, until);
		}
	}
	return clear;
}

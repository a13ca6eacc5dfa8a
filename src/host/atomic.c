/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "base/spin.h"
#include "base/step.h"
#include "host/liveness.h"
#include "host/memory.h"
#include "host/memory_paths.h"
#include "object/keys.h"

#define HOLD_SPINS  200
#define HOLD_YIELDS 50

static uint64_t on_word(_Atomic uint64_t *word, enum vb_mem_atomic kind, uint64_t compare_add,
			uint64_t swap)
{
	if (kind == VB_MEM_FETCH_ADD)
		return atomic_fetch_add(word, compare_add);
	atomic_compare_exchange_strong(word, &compare_add, swap);
	return compare_add; /* what was found, equal or not */
}

static uint64_t word_of(const struct vb_adapter *a)
{
	uint32_t id;

	memcpy(&id, a->id, sizeof(id));
	return (uint64_t)id << 32 | (a->slot + 1);
}

/* A holder that is dead, or no process at all: somebody scribbled. */
static bool holder_gone(struct vb_adapter *a, uint64_t word)
{
	struct vb_registry_entry entry;
	uint32_t id, slot = (uint32_t)word - 1;
	pid_t pid;

	if (word == word_of(a))
		return false; /* another thread of ours */
	if (a->alone_reason || slot >= VB_SLOTS || slot == a->slot)
		return true;
	if (!vb_registry_locked(&a->registry, slot, &pid))
		return true;
	if (vb_registry_read(&a->registry, slot, &entry))
		return false; /* just starting: the next try will tell */
	memcpy(&id, entry.id, sizeof(id));
	return id != (uint32_t)(word >> 32);
}

static int take(struct vb_adapter *a, _Atomic uint64_t *word)
{
	uint64_t mine = word_of(a), seen = 0;

	for (int tries = 0; tries < HOLD_SPINS + HOLD_YIELDS; tries++) {
		seen = 0;
		if (atomic_compare_exchange_strong(word, &seen, mine))
			return 0;
		if (tries < HOLD_SPINS)
			vb_pause();
		else
			sched_yield();
	}
	if (holder_gone(a, seen) && atomic_compare_exchange_strong(word, &seen, mine))
		return 0;
	return -EAGAIN;
}

static void release(struct vb_adapter *a, _Atomic uint64_t *word)
{
	uint64_t mine = word_of(a);

	atomic_compare_exchange_strong(word, &mine, 0);
	VB_STEP(ATOMIC_RELEASED);
}

static int transfer(struct vb_peer *p, const struct vb_path *path, bool careful, uint64_t addr,
		    uint64_t *value, bool in)
{
	struct iovec iov = {value, sizeof(*value)};
	_Atomic uint64_t *here;

	if (!path->base)
		return vb_cross_copy(p, addr, &iov, 1, sizeof(*value), in);
	here = (void *)(path->base + (addr - path->addr));
	if (careful)
		return vb_careful_copy(here, &iov, 1, sizeof(*value), in);
	if (in)
		atomic_store(here, *value);
	else
		*value = atomic_load(here);
	return 0;
}

/* Read, decide, write, while nobody else is inside an atomic on this process's memory. */
static int under_word(struct vb_peer *p, const struct vb_path *path, bool careful, uint64_t addr,
		      enum vb_mem_atomic kind, uint64_t compare_add, uint64_t swap, uint64_t *old)
{
	struct vb_adapter *a = p->adapter;
	uint64_t value;
	int err = take(a, &p->mbx->atomics);

	if (err)
		return err;
	VB_STEP(ATOMIC_HELD);
	err = transfer(p, path, careful, addr, old, false);
	VB_STEP(ATOMIC_READ);
	if (!err && (kind == VB_MEM_FETCH_ADD || *old == compare_add)) {
		value = kind == VB_MEM_FETCH_ADD ? *old + compare_add : swap;
		err = transfer(p, path, careful, addr, &value, true);
		VB_STEP(ATOMIC_WRITTEN);
	}
	release(a, &p->mbx->atomics);
	return err;
}

int vb_memory_atomic(struct vb_peer *p, const struct vb_key_facts *key, uint64_t addr,
		     enum vb_mem_atomic kind, uint64_t compare_add, uint64_t swap, uint64_t *old)
{
	struct vb_path path;
	int err;

	if (addr % 8)
		return -EINVAL;
	if (addr < key->addr || key->length < 8 || addr - key->addr > key->length - 8)
		return -ERANGE;
	err = vb_path_open(p, key, true, &path);
	if (!err && !vb_memory_still(key))
		err = -ECANCELED;
	if (!err && key->memory == VB_KEY_SHARED) {
		/* Everyone uses CPU atomics on it, so whoever cannot map it cannot take part. */
		if (path.base && ((uintptr_t)path.base + (addr - path.addr)) % 8 == 0)
			*old = on_word((void *)(path.base + (addr - path.addr)), kind, compare_add,
				       swap);
		else
			err = -EPERM;
	} else if (!err) {
		err = under_word(p, &path, key->access & IBV_ACCESS_ON_DEMAND, addr, kind,
				 compare_add, swap, old);
	}
	vb_path_close(p, &path);
	return err;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/keys.h"

#include <errno.h>
#include <stdlib.h>

static struct vb_local_key *row_of(const struct vb_keys *keys, uint32_t index)
{
	struct vb_local_key *chunk;

	if (index >= VB_KEYS_MAX)
		return NULL;
	chunk = atomic_load_explicit(&keys->chunk[index / VB_KEYS_CHUNK], memory_order_acquire);
	return chunk ? &chunk[index % VB_KEYS_CHUNK] : NULL;
}

int vb_keys_set(struct vb_keys *keys, uint32_t number, uint32_t index,
		const struct vb_local_key *key)
{
	struct vb_local_key *row = row_of(keys, index);

	if (!row) {
		struct vb_local_key *none = NULL;
		struct vb_local_key *fresh = calloc(VB_KEYS_CHUNK, sizeof(*fresh));

		if (!fresh)
			return -ENOMEM;
		/* Two threads may come at once: the first chunk stays. */
		if (!atomic_compare_exchange_strong(&keys->chunk[index / VB_KEYS_CHUNK], &none,
						    fresh))
			free(fresh);
		row = row_of(keys, index);
	}
	atomic_store_explicit(&keys->ordinal[number >> 12 & 0xfff], (uint8_t)((index >> 12) + 1),
			      memory_order_relaxed);
	row->pd = key->pd;
	row->access = key->access;
	row->start = key->start;
	row->length = key->length;
	row->addr = key->addr;
	atomic_store_explicit(&row->lkey, key->lkey, memory_order_release);
	return 0;
}

void vb_keys_clear(struct vb_keys *keys, uint32_t index)
{
	struct vb_local_key *row = row_of(keys, index);

	if (row)
		atomic_store(&row->lkey, 0);
}

void vb_keys_free(struct vb_keys *keys)
{
	for (size_t i = 0; i < VB_KEYS_MAX / VB_KEYS_CHUNK; i++) {
		free(keys->chunk[i]);
		keys->chunk[i] = NULL;
	}
}

static const struct vb_local_key *row_by_key(const struct vb_keys *keys, uint32_t key)
{
	uint32_t number = key >> 8;
	uint8_t ordinal = atomic_load_explicit(&keys->ordinal[number >> 12], memory_order_relaxed);

	return ordinal ? row_of(keys, (uint32_t)(ordinal - 1) << 12 | (number & 0xfff)) : NULL;
}

const struct vb_local_key *vb_keys_lookup(const struct vb_keys *keys, uint32_t lkey)
{
	const struct vb_local_key *row = row_by_key(keys, lkey);

	if (!row || !lkey || atomic_load_explicit(&row->lkey, memory_order_acquire) != lkey)
		return NULL;
	return row;
}

bool vb_keys_lookup_other_tag(const struct vb_keys *keys, uint32_t key)
{
	const struct vb_local_key *row = row_by_key(keys, key);
	uint32_t lkey = row ? atomic_load_explicit(&row->lkey, memory_order_acquire) : 0;

	return lkey && lkey >> 8 == key >> 8;
}

bool vb_keys_careful(const struct vb_keys *keys, const struct ibv_sge *sges, int n)
{
	if (!atomic_load_explicit(&keys->on_demand, memory_order_acquire))
		return false;
	for (int i = 0; i < n; i++) {
		const struct vb_local_key *row =
			sges[i].length ? vb_keys_lookup(keys, sges[i].lkey) : NULL;

		if (row && row->access & IBV_ACCESS_ON_DEMAND)
			return true;
	}
	return false;
}

static enum vb_sge_fault check(const struct vb_keys *keys, uint32_t pd, const struct ibv_sge *sge,
			       int write, struct iovec *iov)
{
	const struct vb_local_key *row = vb_keys_lookup(keys, sge->lkey);

	if (!row)
		return sge->lkey & VB_RKEY_TAG && vb_keys_lookup(keys, sge->lkey & ~VB_RKEY_TAG)
			       ? VB_SGE_RKEY
			       : VB_SGE_KEY;
	if (row->pd != pd)
		return VB_SGE_PD;
	if (write && !(row->access & IBV_ACCESS_LOCAL_WRITE))
		return VB_SGE_RIGHT;
	/* Written so that no sum can wrap. */
	if (sge->addr < row->start || sge->length > row->length ||
	    sge->addr - row->start > row->length - sge->length)
		return VB_SGE_RANGE;
	iov->iov_base = row->access & VB_KEY_NULL
				? VB_NULL_BASE
				: (void *)(uintptr_t)(row->addr + (sge->addr - row->start));
	iov->iov_len = sge->length;
	return VB_SGE_OK;
}

enum vb_sge_fault vb_keys_resolve(const struct vb_keys *keys, uint32_t pd,
				  const struct ibv_sge *sges, int n, int write, struct iovec *iov,
				  int *count, int *bad)
{
	int filled = 0;

	for (int i = 0; i < n; i++) {
		enum vb_sge_fault fault;

		if (!sges[i].length)
			continue;
		fault = check(keys, pd, &sges[i], write, &iov[filled]);
		if (fault) {
			if (bad)
				*bad = i;
			return fault;
		}
		filled++;
	}
	*count = filled;
	return VB_SGE_OK;
}

const char *vb_sge_fault_text(enum vb_sge_fault fault)
{
	static const char *const texts[] = {
		[VB_SGE_OK] = "nothing",
		[VB_SGE_KEY] = "no MR has this lkey (never registered, or deregistered)",
		[VB_SGE_RKEY] = "this is an MR's rkey, the SGE needs its lkey",
		[VB_SGE_PD] = "the MR belongs to another PD than the QP",
		[VB_SGE_RIGHT] = "the MR lacks IBV_ACCESS_LOCAL_WRITE",
		[VB_SGE_RANGE] = "the range lies outside the MR",
	};

	return texts[fault];
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "base/step.h"
#include "engine/objects.h"
#include "host/access.h"
#include "host/regmem.h"
#include "host/words.h"

/* What peers need to map the memory, where they can. On-demand regions follow the
 * address space: what is mapped there now may be gone at the time of an access. */
static void describe_memory(struct vb_adapter *a, struct vb_mr *mr, struct vb_pub_key *row)
{
	struct vb_backing backing;

	row->memory = VB_KEY_PRIVATE;
	row->file_fd = -1;
	if (mr->access & (IBV_ACCESS_ON_DEMAND | VB_KEY_NULL) ||
	    !(mr->access & (VB_MR_REMOTE | IBV_ACCESS_LOCAL_WRITE)) ||
	    vb_regmem_backing((void *)(uintptr_t)mr->addr, mr->ibv.length, &backing) ||
	    !backing.shared || !backing.mappable)
		return;
	if (backing.fd < 0) {
		size_t length = strlen(backing.path) + 1;

		if (length == 1)
			return;
		row->file_path = vb_adapter_alloc_pub(a, length, 64);
		if (!row->file_path)
			return;
		memcpy(vb_adapter_pub_at(a, row->file_path), backing.path, length);
		mr->path = row->file_path;
		mr->path_bytes = length;
	}
	row->memory = VB_KEY_SHARED;
	row->file_fd = backing.fd;
	row->file_dev = backing.dev;
	row->file_ino = backing.ino;
	row->file_offset = backing.offset;
}

/* Give the row of an MR its next generation, and the keys that go with it unless @keep. A
 * null MR has no rkey: the one published is 0, which names no row. */
static int publish(struct vb_engine *engine, struct vb_mr *mr, bool keep)
{
	struct vb_pub_key *pub = vb_adapter_pub_key(engine->adapter, mr->index);
	uint64_t generation = (atomic_load(&pub->word) >> 1) + 1;
	uint32_t fresh = mr->number << 8 | ((uint32_t)generation & (VB_RKEY_TAG - 1));
	uint32_t lkey = keep ? mr->ibv.lkey : fresh;
	struct vb_local_key key = {.lkey = lkey,
				   .pd = mr->pd->number,
				   .access = mr->access,
				   .start = mr->iova,
				   .length = mr->ibv.length,
				   .addr = mr->addr};
	struct vb_pub_key row = {.lkey = lkey,
				 .rkey = mr->kind == VB_MR_NULL ? 0 : lkey | VB_RKEY_TAG,
				 .pd = mr->pd->number,
				 .access = mr->access,
				 .iova = mr->iova,
				 .length = mr->ibv.length,
				 .addr = mr->addr};
	int err;

	/* Counted before the key can be found, and until nobody can have found it. */
	if (mr->access & IBV_ACCESS_ON_DEMAND)
		atomic_fetch_add(&engine->keys.on_demand, 1);
	err = vb_keys_set(&engine->keys, mr->number, mr->index, &key);
	if (err) {
		if (mr->access & IBV_ACCESS_ON_DEMAND)
			atomic_fetch_sub(&engine->keys.on_demand, 1);
		return err;
	}
	describe_memory(engine->adapter, mr, &row);
	vb_row_write(&pub->lkey, &row.lkey, sizeof(row) - offsetof(struct vb_pub_key, lkey));
	atomic_store(&pub->word, generation << 1 | 1);
	mr->ibv.lkey = row.lkey;
	mr->ibv.rkey = row.rkey;
	VB_STEP(KEY_LIVE);
	return 0;
}

/* Make the keys dead and wait for accesses under way. */
static void retire(struct vb_engine *engine, struct vb_mr *mr)
{
	struct vb_adapter *a = engine->adapter;
	struct vb_pub_key *pub = vb_adapter_pub_key(a, mr->index);

	atomic_store(&pub->word, atomic_load(&pub->word) & ~1ull);
	VB_STEP(KEY_DEAD);
	vb_keys_clear(&engine->keys, mr->index);
	vb_grace_wait(&engine->grace);
	if (mr->access & IBV_ACCESS_ON_DEMAND)
		atomic_fetch_sub(&engine->keys.on_demand, 1);
	if (mr->access & (VB_MR_REMOTE | IBV_ACCESS_LOCAL_WRITE) && mr->kind != VB_MR_NULL)
		vb_access_wait(a, 0, mr->ibv.lkey | VB_RKEY_TAG, VB_ACCESS_BOUND_NS);
	vb_adapter_free_pub(a, mr->path, mr->path_bytes, 64);
	mr->path = 0;
}

int vb_engine_mr_create(struct vb_engine *engine, struct vb_mr *mr)
{
	struct vb_adapter *a = engine->adapter;
	int err = vb_adapter_new_index(a, VB_NUMBER_KEY, &mr->index, &mr->number);

	if (err)
		return err;
	err = vb_adapter_pub_key(a, mr->index) ? publish(engine, mr, false) : -ENOMEM;
	if (err)
		vb_adapter_free_index(a, VB_NUMBER_KEY, mr->index);
	return err;
}

void vb_engine_mr_change(struct vb_engine *engine, struct vb_mr *mr, const struct vb_mr *want)
{
	bool keep = mr->addr == want->addr && mr->ibv.length == want->ibv.length &&
		    mr->iova == want->iova;

	retire(engine, mr);
	mr->ibv.addr = want->ibv.addr;
	mr->ibv.length = want->ibv.length;
	mr->addr = want->addr;
	mr->iova = want->iova;
	mr->access = want->access;
	mr->pd = want->pd;
	mr->ibv.pd = want->ibv.pd;
	/* The row has been there before, so nothing is allocated and nothing can fail. */
	publish(engine, mr, keep);
}

void vb_engine_mr_destroy(struct vb_engine *engine, struct vb_mr *mr)
{
	retire(engine, mr);
	vb_adapter_free_index(engine->adapter, VB_NUMBER_KEY, mr->index);
}

/* ---- prefetching ---- */

enum vb_advise vb_engine_mr_advise(struct vb_engine *engine, uint32_t pd,
				   enum ibv_advise_mr_advice advice, const struct ibv_sge *sge,
				   bool fetch)
{
	uint32_t token = vb_grace_enter(&engine->grace);
	const struct vb_local_key *row = vb_keys_lookup(&engine->keys, sge->lkey);
	enum vb_advise result = VB_ADVISE_OK;
	uint64_t addr = 0;

	if (!row)
		result = vb_keys_lookup_other_tag(&engine->keys, sge->lkey) ? VB_ADVISE_TAG
									    : VB_ADVISE_KEY;
	else if (row->pd != pd)
		result = VB_ADVISE_PD;
	else if (!(row->access & IBV_ACCESS_ON_DEMAND))
		result = VB_ADVISE_NOT_ON_DEMAND;
	else if (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE &&
		 !(row->access & IBV_ACCESS_LOCAL_WRITE))
		result = VB_ADVISE_WRITE;
	else if (sge->addr < row->start || sge->length > row->length ||
		 sge->addr - row->start > row->length - sge->length)
		result = VB_ADVISE_RANGE;
	else
		addr = row->addr + (sge->addr - row->start);
	vb_grace_leave(&engine->grace, token);
	if (result || !fetch || advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return result;
	switch (vb_regmem_check((void *)(uintptr_t)addr, sge->length,
				advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE)) {
	case 0:
		return VB_ADVISE_OK;
	case -ENOMEM:
		return VB_ADVISE_NO_MEMORY;
	default:
		return VB_ADVISE_RANGE;
	}
}

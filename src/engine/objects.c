/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/objects.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host/access.h"
#include "host/regmem.h"
#include "host/words.h"

int vb_engine_cq_create(struct vb_engine *engine, struct vb_cq *cq, int channel_fd)
{
	struct vb_adapter *a = engine->adapter;
	struct vb_pub_cq row = {.channel_fd = channel_fd, .cqe = (uint32_t)cq->ibv.cqe};
	uint32_t number;
	int err = vb_adapter_new_index(a, VB_NUMBER_CQ, &cq->index, &number);

	if (err)
		return err;
	cq->pub = vb_adapter_pub_cq(a, cq->index);
	cq->mbx = vb_adapter_mbx_cq(a, cq->index);
	if (!cq->pub || !cq->mbx || vb_sparse_set(&engine->cqs, cq->index, cq)) {
		vb_adapter_free_index(a, VB_NUMBER_CQ, cq->index);
		return -ENOMEM;
	}
	row.word = atomic_load(&cq->pub->word) | 1;
	vb_row_write(&cq->pub->channel_fd, &row.channel_fd, 8);
	atomic_store(&cq->pub->word, row.word);
	/* The sequence counts on where the row's last CQ ended, so that a record of that
	 * one is never taken for one of this. */
	cq->arm_seq = (atomic_load(&cq->mbx->arm) >> 8) + 1;
	cq->event_seq = cq->arm_seq;
	atomic_store(&cq->mbx->arm, cq->arm_seq << 8 | VB_ARM_NONE);
	return 0;
}

void vb_engine_cq_destroy(struct vb_engine *engine, struct vb_cq *cq)
{
	atomic_store(&cq->mbx->arm, ++cq->arm_seq << 8 | VB_ARM_NONE);
	atomic_store(&cq->pub->word, ((atomic_load(&cq->pub->word) >> 1) + 1) << 1);
	vb_sparse_set(&engine->cqs, cq->index, NULL);
	vb_grace_wait(&engine->grace);
	vb_adapter_free_index(engine->adapter, VB_NUMBER_CQ, cq->index);
	free(cq->ring);
	free(cq->members);
}

void vb_engine_cq_arm(struct vb_cq *cq, bool solicited)
{
	vb_spin_lock(&cq->lock);
	vb_arm_set(&cq->mbx->arm, &cq->arm_seq, solicited ? VB_ARM_SOLICITED : VB_ARM_ANY);
	vb_spin_unlock(&cq->lock);
}

/* What peers need to map the memory, where they can. */
static void describe_memory(struct vb_adapter *a, struct vb_mr *mr, struct vb_pub_key *row)
{
	struct vb_backing backing;

	row->memory = VB_KEY_PRIVATE;
	row->file_fd = -1;
	if (!(mr->access & (VB_MR_REMOTE | IBV_ACCESS_LOCAL_WRITE)) ||
	    vb_regmem_backing(mr->ibv.addr, mr->ibv.length, &backing) || !backing.shared ||
	    !backing.mappable)
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

int vb_engine_mr_create(struct vb_engine *engine, struct vb_mr *mr)
{
	struct vb_adapter *a = engine->adapter;
	struct vb_local_key key;
	struct vb_pub_key *pub, row = {0};
	uint64_t generation;
	uint32_t tag;
	int err = vb_adapter_new_index(a, VB_NUMBER_KEY, &mr->index, &mr->number);

	if (err)
		return err;
	pub = vb_adapter_pub_key(a, mr->index);
	if (!pub) {
		vb_adapter_free_index(a, VB_NUMBER_KEY, mr->index);
		return -ENOMEM;
	}
	generation = (atomic_load(&pub->word) >> 1) + 1;
	tag = (uint32_t)generation & (VB_RKEY_TAG - 1);
	mr->ibv.lkey = mr->number << 8 | tag;
	mr->ibv.rkey = mr->ibv.lkey | VB_RKEY_TAG;
	key = (struct vb_local_key){.lkey = mr->ibv.lkey,
				    .pd = mr->pd->number,
				    .access = mr->access,
				    .start = mr->iova,
				    .length = mr->ibv.length,
				    .addr = (uintptr_t)mr->ibv.addr};
	err = vb_keys_set(&engine->keys, mr->number, mr->index, &key);
	if (err) {
		vb_adapter_free_index(a, VB_NUMBER_KEY, mr->index);
		return err;
	}
	row.lkey = mr->ibv.lkey;
	row.rkey = mr->ibv.rkey;
	row.pd = mr->pd->number;
	row.access = mr->access;
	row.iova = mr->iova;
	row.length = mr->ibv.length;
	row.addr = (uintptr_t)mr->ibv.addr;
	describe_memory(a, mr, &row);
	vb_row_write(&pub->lkey, &row.lkey, sizeof(row) - offsetof(struct vb_pub_key, lkey));
	atomic_store(&pub->word, generation << 1 | 1);
	VB_STEP(KEY_LIVE);
	return 0;
}

void vb_engine_mr_destroy(struct vb_engine *engine, struct vb_mr *mr)
{
	struct vb_adapter *a = engine->adapter;
	struct vb_pub_key *pub = vb_adapter_pub_key(a, mr->index);

	atomic_store(&pub->word, atomic_load(&pub->word) & ~1ull);
	VB_STEP(KEY_DEAD);
	vb_keys_clear(&engine->keys, mr->index);
	vb_grace_wait(&engine->grace);
	if (mr->access & (VB_MR_REMOTE | IBV_ACCESS_LOCAL_WRITE))
		vb_access_wait(a, 0, mr->ibv.rkey, VB_ACCESS_BOUND_NS);
	vb_adapter_free_pub(a, mr->path, mr->path_bytes, 64);
	vb_adapter_free_index(a, VB_NUMBER_KEY, mr->index);
}

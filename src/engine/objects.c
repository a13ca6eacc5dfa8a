/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/objects.h"

#include <errno.h>
#include <stdlib.h>

#include "host/notify.h"
#include "host/words.h"

int vb_engine_cq_create(struct vb_engine *engine, struct vb_cq *cq, int channel_fd)
{
	struct vb_adapter *a = engine->adapter;
	struct vb_pub_cq row = {.channel_fd = channel_fd, .timestamps = cq->timestamps};
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
	vb_row_write(&cq->pub->channel_fd, &row.channel_fd, 8);
	atomic_store(&cq->pub->cqe, cq->ignore_overrun ? 0 : (uint64_t)cq->ibv.cqe);
	atomic_store(&cq->pub->removed, 0);
	atomic_store(&cq->mbx->added, 0);
	atomic_store(&cq->mbx->overrun, 0);
	/* The sequence counts on where the row's last CQ ended, so that a record of that
	 * one is never taken for one of this. */
	cq->arm_seq = (atomic_load(&cq->mbx->arm) >> 8) + 1;
	cq->event_seq = cq->arm_seq;
	cq->event_seen = UINT64_MAX;
	cq->armed_at = VB_CQ_UNARMED;
	atomic_store(&cq->mbx->arm, cq->arm_seq << 8 | VB_ARM_NONE);
	atomic_store(&cq->pub->word, atomic_load(&cq->pub->word) | 1);
	return 0;
}

bool vb_engine_cq_resize(struct vb_cq *cq, int cqe)
{
	uint64_t waiting;
	bool fits;

	vb_spin_lock(&cq->lock);
	waiting = atomic_load(&cq->mbx->added) - atomic_load(&cq->pub->removed);
	fits = (int64_t)waiting <= cqe;
	if (fits) {
		cq->ibv.cqe = cqe;
		atomic_store(&cq->pub->cqe, cq->ignore_overrun ? 0 : (uint64_t)cqe);
	}
	vb_spin_unlock(&cq->lock);
	return fits;
}

void vb_engine_cq_destroy(struct vb_engine *engine, struct vb_cq *cq)
{
	/* Under the lock: a reader of the channel may be looking at a record of this CQ. */
	vb_spin_lock(&cq->lock);
	atomic_store(&cq->mbx->arm, ++cq->arm_seq << 8 | VB_ARM_NONE);
	vb_spin_unlock(&cq->lock);
	atomic_store(&cq->pub->word, ((atomic_load(&cq->pub->word) >> 1) + 1) << 1);
	vb_sparse_set(&engine->cqs, cq->index, NULL);
	vb_grace_wait(&engine->grace);
	vb_adapter_free_index(engine->adapter, VB_NUMBER_CQ, cq->index);
	free(cq->ring);
	free(cq->members);
}

/* Did completions come for which no event was raised, and wait? The one the latest event
 * stands for waits too where a program arms before it polls. */
static bool missed(struct vb_cq *cq, bool solicited)
{
	uint64_t added = atomic_load(&cq->mbx->added);
	uint64_t removed = atomic_load(&cq->pub->removed);
	int64_t waiting = (int64_t)(added - removed);

	if (cq->armed_at != VB_CQ_UNARMED && added > cq->armed_at)
		cq->told = cq->armed_at + 1;
	/* Which of those that wait were solicited nobody has counted: the next one tells. */
	if (!solicited && waiting > (cq->told > removed && cq->told <= added)) {
		cq->armed_at = VB_CQ_UNARMED;
		cq->told = removed + 1;
		return true;
	}
	cq->armed_at = added;
	return false;
}

void vb_engine_cq_arm(struct vb_engine *engine, struct vb_cq *cq, bool solicited)
{
	bool at_once;

	vb_spin_lock(&cq->lock);
	vb_arm_set(&cq->mbx->arm, &cq->arm_seq, solicited ? VB_ARM_SOLICITED : VB_ARM_ANY);
	at_once = missed(cq, solicited);
	vb_spin_unlock(&cq->lock);
	if (at_once)
		vb_notify(engine->adapter->self, cq->index, false);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/rq.h"

#include <errno.h>
#include <stdlib.h>

#define SPARE_SLOTS 64u

static uint32_t power_of_two(uint32_t at_least)
{
	uint32_t size = 1;

	while (size < at_least)
		size *= 2;
	return size;
}

static void free_all(struct vb_rq *rq)
{
	free(rq->slots);
	free(rq->notes);
	free(rq->pending);
	rq->slots = NULL;
	rq->notes = NULL;
	rq->pending = NULL;
}

int vb_rq_init(struct vb_rq *rq, uint32_t max_wr, uint32_t max_sge, uint32_t pd, bool shared)
{
	rq->max_wr = max_wr;
	rq->max_sge = max_sge;
	rq->pd = pd;
	rq->shared = shared;
	/* Slots that stopped takers hold must not be missed. */
	rq->size = max_wr ? power_of_two(shared ? max_wr + SPARE_SLOTS : max_wr) : 0;
	if (rq->size) {
		rq->mask = rq->size - 1;
		rq->stride = (uint32_t)(sizeof(struct vb_rwqe) + max_sge * sizeof(struct ibv_sge));
		rq->slots = calloc(rq->size, rq->stride);
		if (shared) {
			rq->notes = calloc(rq->size, sizeof(*rq->notes));
			rq->pending = calloc(rq->size, sizeof(*rq->pending));
		}
		if (!rq->slots || (shared && (!rq->notes || !rq->pending))) {
			free_all(rq);
			return -ENOMEM;
		}
		for (uint32_t i = 0; shared && i < rq->size; i++)
			atomic_store(&rq->notes[i].index, VB_NO_RECEIVE);
	}
	pthread_mutex_init(&rq->post_lock, NULL);
	return 0;
}

int vb_rq_resize(struct vb_rq *rq, uint32_t max_wr)
{
	int err = 0;

	pthread_mutex_lock(&rq->post_lock);
	if (max_wr < atomic_load(&rq->outstanding))
		err = -EINVAL;
	else if (max_wr > rq->size || power_of_two(max_wr + SPARE_SLOTS) > rq->size)
		err = -ENOSPC;
	else
		rq->max_wr = max_wr;
	pthread_mutex_unlock(&rq->post_lock);
	return err;
}

void vb_rq_fini(struct vb_rq *rq)
{
	free_all(rq);
	pthread_mutex_destroy(&rq->post_lock);
}

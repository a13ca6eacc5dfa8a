/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/rings.h"

#include <errno.h>

#include "host/words.h"

#define BOUNCE_SLOTS 16u
#define HEAD_BYTES   64u

static uint64_t wqe_stride(const struct vb_rq *rq)
{
	return (sizeof(struct vb_pub_wqe) + rq->max_sge * sizeof(struct vb_pub_sge) + 63) & ~63ull;
}

void vb_rings_free(struct vb_adapter *a, struct vb_rq *rq)
{
	vb_adapter_free_pub(a, rq->wqes, rq->size * wqe_stride(rq), 64);
	vb_adapter_free_pub(a, rq->counters_at, sizeof(struct vb_pub_rq), 64);
	vb_adapter_free_mbx(a, rq->arrivals, rq->size * sizeof(struct vb_mbx_arrival), 64);
	vb_adapter_free_mbx(a, rq->bounce, (uint64_t)rq->bounce_slots * VB_BOUNCE_BYTES, 64);
	vb_adapter_free_mbx(a, rq->head_at, HEAD_BYTES, 64);
	vb_adapter_free_mbx(a, rq->bounce_words_at, BOUNCE_SLOTS * sizeof(uint64_t), 64);
	rq->wqes = rq->counters_at = rq->arrivals = rq->bounce = rq->head_at = 0;
	rq->bounce_words_at = 0;
}

int vb_rings_alloc(struct vb_adapter *a, struct vb_rq *rq)
{
	if (!rq->size)
		return 0;
	rq->bounce_slots = rq->size < BOUNCE_SLOTS ? rq->size : BOUNCE_SLOTS;
	rq->wqe_stride = (uint32_t)wqe_stride(rq);
	rq->wqes = vb_adapter_alloc_pub(a, (uint64_t)rq->size * rq->wqe_stride, 64);
	rq->counters_at = vb_adapter_alloc_pub(a, sizeof(struct vb_pub_rq), 64);
	rq->arrivals = vb_adapter_alloc_mbx(a, rq->size * sizeof(struct vb_mbx_arrival), 64);
	rq->bounce = vb_adapter_alloc_mbx(a, (uint64_t)rq->bounce_slots * VB_BOUNCE_BYTES, 64);
	rq->head_at = vb_adapter_alloc_mbx(a, HEAD_BYTES, 64);
	if (rq->shared)
		rq->bounce_words_at = vb_adapter_alloc_mbx(a, BOUNCE_SLOTS * sizeof(uint64_t), 64);
	if ((rq->shared && !rq->bounce_words_at) || !rq->wqes || !rq->counters_at ||
	    !rq->arrivals || !rq->bounce || !rq->head_at) {
		vb_rings_free(a, rq);
		return -ENOMEM;
	}
	rq->wqe_bytes = vb_adapter_pub_at(a, rq->wqes);
	rq->counters = vb_adapter_pub_at(a, rq->counters_at);
	rq->records = vb_adapter_mbx_at(a, rq->arrivals);
	rq->bounce_bytes = vb_adapter_mbx_at(a, rq->bounce);
	rq->head = vb_adapter_mbx_at(a, rq->head_at);
	rq->bounce_words = rq->shared ? vb_adapter_mbx_at(a, rq->bounce_words_at) : NULL;
	/* Space that was used before is zeroed, but receives go on counting. */
	atomic_store(&rq->counters->posted, atomic_load(&rq->posted));
	atomic_store(&rq->counters->polled, atomic_load(&rq->polled));
	atomic_store(rq->head, atomic_load(&rq->posted));
	return 0;
}

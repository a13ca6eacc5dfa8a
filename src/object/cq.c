/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/cq.h"

#include <errno.h>
#include <stdlib.h>

static int grow(struct vb_cq *cq, uint32_t wanted)
{
	uint32_t capacity = cq->capacity ? cq->capacity : 64;
	struct vb_cqe *ring;

	while (capacity < wanted)
		capacity *= 2;
	if (capacity == cq->capacity)
		return 0;
	ring = malloc(capacity * sizeof(*ring));
	if (!ring)
		return -ENOMEM;
	/* Without a ring there is nothing in it. */
	for (uint64_t i = cq->head; cq->capacity && i < cq->tail; i++)
		ring[i % capacity] = cq->ring[i % cq->capacity];
	free(cq->ring);
	cq->ring = ring;
	cq->capacity = capacity;
	return 0;
}

int vb_cq_reserve(struct vb_cq *cq, uint32_t count)
{
	int err;

	vb_spin_lock(&cq->lock);
	err = grow(cq, cq->wanted + count);
	if (!err)
		cq->wanted += count;
	vb_spin_unlock(&cq->lock);
	return err;
}

void vb_cq_release(struct vb_cq *cq, uint32_t count)
{
	vb_spin_lock(&cq->lock);
	cq->wanted -= count;
	vb_spin_unlock(&cq->lock);
}

void vb_cq_push(struct vb_cq *cq, const struct vb_cqe *cqe)
{
	vb_spin_lock(&cq->lock);
	cq->ring[cq->tail % cq->capacity] = *cqe;
	/* Release: a poller looks at the tail before it takes the lock. */
	__atomic_store_n(&cq->tail, cq->tail + 1, __ATOMIC_RELEASE);
	vb_spin_unlock(&cq->lock);
}

bool vb_cq_take(struct vb_cq *cq, struct vb_cqe *cqe)
{
	if (cq->head == cq->tail)
		return false;
	*cqe = cq->ring[cq->head % cq->capacity];
	__atomic_store_n(&cq->head, cq->head + 1, __ATOMIC_RELAXED);
	return true;
}

uint64_t vb_cq_purge(struct vb_cq *cq, const struct vb_qp *qp)
{
	uint64_t kept, dropped;

	vb_spin_lock(&cq->lock);
	kept = cq->head;
	for (uint64_t i = cq->head; i < cq->tail; i++) {
		struct vb_cqe cqe = cq->ring[i % cq->capacity];

		if (cqe.qp != qp)
			cq->ring[kept++ % cq->capacity] = cqe;
	}
	dropped = cq->tail - kept;
	__atomic_store_n(&cq->tail, kept, __ATOMIC_RELEASE);
	vb_spin_unlock(&cq->lock);
	return dropped;
}

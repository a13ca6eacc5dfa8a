/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/objects.h"
#include "engine/rings.h"
#include "host/words.h"

int vb_engine_srq_create(struct vb_engine *engine, struct vb_srq *srq, uint32_t max_wr,
			 uint32_t max_sge)
{
	int err = vb_rq_init(&srq->rq, max_wr, max_sge, vb_pd_of(srq->ibv.pd)->number, true);

	if (err)
		return err;
	err = vb_rings_alloc(engine->adapter, &srq->rq);
	if (err)
		vb_rq_fini(&srq->rq);
	return err;
}

void vb_engine_srq_destroy(struct vb_engine *engine, struct vb_srq *srq)
{
	/* Every QP that used it waited for messages under way. */
	if (!srq->rq.dirty)
		vb_rings_free(engine->adapter, &srq->rq);
	vb_rq_fini(&srq->rq);
}

void vb_engine_srq_arm(struct vb_srq *srq, uint32_t limit)
{
	atomic_store(&srq->armed_head, atomic_load(srq->rq.head));
	atomic_store(&srq->limit, limit);
	atomic_store(&srq->rq.counters->limit, limit);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/engine.h"
#include "engine/requester.h"
#include "engine/sort.h"
#include "host/words.h"

/* A bit stands for all QPs whose index ends in it. */
static void look_at(struct vb_engine *engine, uint32_t bit)
{
	for (uint32_t index = bit; index < VB_INDEXES; index += 4096) {
		uint32_t token = vb_grace_enter(&engine->grace);
		struct vb_qp *qp = vb_sparse_get(&engine->qps, index);

		if (qp)
			vb_sort_attend(engine, qp);
		if (qp)
			vb_requester_run(engine, qp, VB_RUN_BUDGET, false);
		vb_grace_leave(&engine->grace, token);
	}
}

void vb_engine_attention(struct vb_engine *engine)
{
	struct vb_ready *set = &engine->adapter->mbx->attention;
	uint32_t first = 0, from = 0;
	uint64_t bits;

	/* A bounded number of looks: a set that somebody scribbles on without end must
	 * not keep the thread here. */
	for (int looks = 0; looks < 64 && vb_ready_any(set); looks++) {
		bits = vb_ready_take(set, from, &first);
		from = first / 64 + 1;
		for (; bits; bits &= bits - 1)
			look_at(engine, first + (uint32_t)__builtin_ctzll(bits));
	}
}

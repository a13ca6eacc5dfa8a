/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/lost.h"

#include "engine/agent.h"
#include "engine/requester.h"
#include "host/async.h"
#include "host/layout.h"

static int tell(struct vb_context *ctx, void *engine)
{
	if (ctx->engine == engine)
		vb_async_post(ctx, IBV_EVENT_DEVICE_FATAL, 0);
	return 0;
}

static void end(struct vb_engine *engine, struct vb_qp *qp)
{
	int state;

	vb_requester_hold(qp);
	state = atomic_load(&qp->state);
	if (state != IBV_QPS_RESET && state != IBV_QPS_ERR)
		vb_requester_error(engine, qp);
	vb_requester_release(engine, qp);
}

void vb_engine_lose(struct vb_engine *engine)
{
	if (atomic_exchange(&engine->lost, true))
		return;
	vb_engine_each_context(tell, engine);
	vb_agent_device_news(engine, VB_AGENT_REMOVED);
	for (uint32_t index = 0; index < VB_INDEXES; index++) {
		uint32_t token = vb_grace_enter(&engine->grace);
		struct vb_qp *qp = vb_sparse_get(&engine->qps, index);

		if (qp)
			end(engine, qp);
		vb_grace_leave(&engine->grace, token);
	}
}

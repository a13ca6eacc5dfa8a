/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/attach.h"

#include "engine/engine.h"
#include "object/device.h"

int vb_context_attach(struct vb_context *ctx)
{
	int err = vb_engine_open(ctx->device->ibv.name, &ctx->engine);

	if (err)
		return err;
	ctx->adapter = ctx->engine->adapter;
	vb_engine_join(ctx->engine, ctx);
	/* Nobody can be asked to read the port's events, so somebody must be there from now on. */
	vb_engine_start(ctx->engine);
	return 0;
}

void vb_context_detach(struct vb_context *ctx)
{
	vb_engine_leave(ctx->engine, ctx);
	vb_engine_close(ctx->engine);
	ctx->engine = NULL;
	ctx->adapter = NULL;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/attach.h"

int vb_context_attach(struct vb_context *ctx)
{
	return 0;
}

void vb_context_detach(struct vb_context *ctx)
{
}

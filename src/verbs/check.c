/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/check.h"

#include "engine/lost.h"
#include "verbs/import.h"

int vb_check_device(const struct vb_context *ctx, const char *verb)
{
	return vb_engine_lost(ctx->engine) ? vb_fail(VB_RULE_DEVICE_LOST, "%s", verb) : 0;
}

int vb_check_usable(const struct vb_context *ctx, const char *verb)
{
	int err = vb_check_alive(ctx, verb);

	return err ? err : vb_check_device(ctx, verb);
}

int vb_check_object(const struct vb_context *ctx, struct vb_idtable *table, uint32_t handle,
		    const void *object, const char *kind)
{
	int err = vb_check_known(ctx, table, handle, object, kind);

	if (!err && vb_engine_lost(ctx->engine))
		err = vb_fail(VB_RULE_DEVICE_LOST, "%s handle %u", kind, handle);
	return err;
}

int vb_check_known(const struct vb_context *ctx, struct vb_idtable *table, uint32_t handle,
		   const void *object, const char *kind)
{
	if (!vb_context_alive(ctx))
		return vb_fail(VB_RULE_FORKED, "%s handle %u", kind, handle);
	if (vb_idtable_lookup(table, handle) != object && !vb_import_valid(ctx, handle, object))
		return vb_fail(VB_RULE_BAD_HANDLE, "%s handle %u", kind, handle);
	return 0;
}

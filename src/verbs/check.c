/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/check.h"

#include "verbs/import.h"

int vb_check_object(const struct vb_context *ctx, struct vb_idtable *table, uint32_t handle,
		    const void *object, const char *kind)
{
	if (!vb_context_alive(ctx))
		return vb_fail(VB_RULE_FORKED, "%s handle %u", kind, handle);
	if (vb_idtable_lookup(table, handle) != object && !vb_import_valid(ctx, handle, object))
		return vb_fail(VB_RULE_BAD_HANDLE, "%s handle %u", kind, handle);
	return 0;
}

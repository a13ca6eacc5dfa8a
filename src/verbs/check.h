/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_VERBS_CHECK_H
#define VB_VERBS_CHECK_H

#include "base/rules.h"
#include "object/context.h"

/*
 * Every control verb looks its object up by handle, as a kernel would: a handle that
 * names nothing, or something else than the pointer, is refused and nothing is touched.
 */

/** vb_check_object() - Is this a live object of a live context?
 * @ctx:    The context, not checked before
 * @table:  Where objects of its kind stand
 * @handle: From the public struct
 * @object: What the handle must lead to
 * @kind:   "PD", "MR", ... for the explanation
 * Return:  0, or the errno of the rule that was broken
 */
int vb_check_object(const struct vb_context *ctx, struct vb_idtable *table, uint32_t handle,
		    const void *object, const char *kind);

/** vb_check_known() - The same for what also works on a device that is lost: destroying, arming */
int vb_check_known(const struct vb_context *ctx, struct vb_idtable *table, uint32_t handle,
		   const void *object, const char *kind);

/** vb_check_device() - The device is not lost; the context is one of this process */
int vb_check_device(const struct vb_context *ctx, const char *verb);

/** vb_check_usable() - vb_check_alive(), and the device is not lost */
int vb_check_usable(const struct vb_context *ctx, const char *verb);

/** vb_check_alive() - The context was not opened by a parent before fork */
static inline int vb_check_alive(const struct vb_context *ctx, const char *verb)
{
	return vb_context_alive(ctx) ? 0 : vb_fail(VB_RULE_FORKED, "%s", verb);
}

#endif

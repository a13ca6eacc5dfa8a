/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_VERBS_ATTACH_H
#define VB_VERBS_ATTACH_H

#include "object/context.h"

/** vb_context_attach() - Give a new context its adapter and engine
 * @ctx:    Complete but for both
 * Context: called once, by ibv_open_device, before any program sees the context
 * Return:  0, or negative errno; the context is then dropped
 */
int vb_context_attach(struct vb_context *ctx);

/** vb_context_detach() - Take adapter and engine away again
 * Context: called once, by ibv_close_device; objects of the context may be left. Not
 *          called in a child made by fork for a context of its parent
 */
void vb_context_detach(struct vb_context *ctx);

/** vb_context_open() - Make a context
 * @device: The device
 * @cmd_fd: Descriptor that the context takes over, -1: one of its own
 * @origin: The context it is an import of, NULL none; its reference passes over
 * Return:  the context; or NULL with errno by rule, and nothing taken
 */
struct ibv_context *vb_context_open(struct vb_device *device, int cmd_fd,
				    struct vb_context *origin);

/** vb_context_put() - Give up one use of a context's memory: its own, or an import's */
void vb_context_put(struct vb_context *ctx);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_VERBS_OPS_H
#define VB_VERBS_OPS_H

#include "object/context.h"

/** vb_ops_fill() - Put every implemented verb into the slots of a new context
 * @ctx:    Its slots hold refusals; those without a verb of ours keep them
 */
void vb_ops_fill(struct vb_context *ctx);

#endif

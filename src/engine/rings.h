/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_ENGINE_RINGS_H
#define VB_ENGINE_RINGS_H

#include "host/adapter.h"
#include "object/rq.h"

/** vb_rings_alloc() - The part of a receive queue that peers reach
 * Return:  0, -ENOMEM; nothing allocated then
 */
int vb_rings_alloc(struct vb_adapter *a, struct vb_rq *rq);

/** vb_rings_free() - The opposite; nobody can touch them any more */
void vb_rings_free(struct vb_adapter *a, struct vb_rq *rq);

#endif

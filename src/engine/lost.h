/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_ENGINE_LOST_H
#define VB_ENGINE_LOST_H

#include "engine/engine.h"

/** vb_engine_lose() - From now on the device is lost to this process, as one that was taken out
 *
 * Its contexts hear IBV_EVENT_DEVICE_FATAL, all QPs go to ERR, and verbs other than those that
 * poll, take events and destroy fail (src/verbs/check).
 *
 * Context: any thread that holds no QP; calls after the first do nothing
 */
void vb_engine_lose(struct vb_engine *engine);

/** vb_engine_lost() - Whether it is */
static inline bool vb_engine_lost(const struct vb_engine *engine)
{
	return atomic_load_explicit(&engine->lost, memory_order_relaxed);
}

#endif

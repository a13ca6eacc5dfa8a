/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_ENGINE_THREAD_H
#define VB_ENGINE_THREAD_H

#include "engine/engine.h"

/** vb_thread_set_timer() - Have a timerfd become readable at a time
 * @at:     CLOCK_MONOTONIC in nanoseconds; 0 at once, VB_NEVER not at all
 */
void vb_thread_set_timer(int fd, uint64_t at);

/** vb_thread_wake() - Have the thread wake at the earliest deadline; nothing without a thread */
void vb_thread_wake(struct vb_engine *engine);

/** vb_thread_stop() - End the thread and wait for it
 * Context: the last context is being closed; not the engine thread itself
 */
void vb_thread_stop(struct vb_engine *engine);

#endif

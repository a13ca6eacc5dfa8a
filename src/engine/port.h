/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_ENGINE_PORT_H
#define VB_ENGINE_PORT_H

#include "engine/engine.h"

/*
 * Theory of operation
 *
 * The asynchronous events of a port. The engine thread sleeps on a routing socket among
 * its other descriptors; after an announcement about the device's interface it looks at
 * port and GID table and tells every open context of this process what is different from
 * the last look. The first look is taken before ibv_open_device returns, after the
 * socket began to listen: nothing that happens later is missed.
 */

/** vb_port_watch_open() - Begin to watch, unless it is watched already
 * Context: under the engine's thread_lock. Where no socket can be had there are no events
 */
void vb_port_watch_open(struct vb_engine *engine);

/** vb_port_watch_close() - End; the thread does not run any more */
void vb_port_watch_close(struct vb_engine *engine);

/** vb_port_watch_fd() - What the thread is to sleep on, -1 nothing */
int vb_port_watch_fd(const struct vb_engine *engine);

/** vb_port_watch_run() - Raise the events of what has changed
 * Context: engine thread
 */
void vb_port_watch_run(struct vb_engine *engine);

/** vb_port_fault() - Have the link down on demand, or up again; the contexts hear of it
 * Context: one thread at a time
 */
void vb_port_fault(struct vb_engine *engine, bool down);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_ENGINE_ENGINE_H
#define VB_ENGINE_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/grace.h"
#include "base/sparse.h"
#include "host/adapter.h"
#include "host/members.h"
#include "object/context.h"
#include "object/keys.h"
#include "object/qp.h"

/*
 * Theory of operation
 *
 * One engine per process and device; the contexts share it. It is the only place
 * with a thread, a clock and waiting. Work is done by whoever is inside a verbs
 * call: posting runs the send queue, polling consumes arrivals and runs what is due.
 * The thread exists for what nobody may be there to do: deadlines of waiting send
 * queues, work beyond the budget of a call, QPs that a peer failed, events of the port,
 * and the word by which peers learn of our death. It starts when the device is opened
 * (a program may sleep on async_fd from then on), sleeps in epoll, and uses no CPU
 * otherwise. Where it cannot be created, pollers do its work.
 */

struct vb_engine {
	struct vb_adapter *adapter;
	unsigned int users; /* contexts, under the list's lock */
	struct vb_engine *next;
	struct vb_context *contexts; /* those open, under the list's lock */

	struct vb_keys keys;
	struct vb_grace grace; /* guards keys, and QPs and CQs found by number */
	struct vb_sparse qps;  /* struct vb_qp by index */
	struct vb_sparse cqs;  /* struct vb_cq by index */

	/* Send queues that wait, or have more to do than a call may. */
	pthread_mutex_t timer_lock;
	struct vb_qp *timers;
	_Atomic uint64_t next_ns; /* earliest deadline, VB_NEVER none */

	pthread_mutex_t thread_lock;
	pthread_t thread;
	_Atomic bool thread_runs;
	_Atomic bool stop;
	int epoll_fd, timer_fd, wake_fd;
	struct vb_port_watch *port;	  /* NULL: no events of the port */
	_Atomic bool port_down;		  /* on demand: faults of the link */
	_Atomic bool lost;		  /* on demand: faults of the device */
	_Atomic(struct vb_wire *) wire;	  /* NULL: no socket is open */
	_Atomic(struct vb_agent *) agent; /* NULL: nothing connects by address */
	struct vb_members members;	  /* of multicast groups */
};

/** vb_engine_open() - The process's engine of a device, made at the first call
 * @device: Device name
 * @out:    Receives the engine; every call needs a vb_engine_close()
 * Return:  0, or negative errno of vb_adapter_open()
 */
int vb_engine_open(const char *device, struct vb_engine **out);

/** vb_engine_close() - Give up one use; the last one ends thread and adapter */
void vb_engine_close(struct vb_engine *engine);

/** vb_engine_join() - Put a context among those of the engine */
void vb_engine_join(struct vb_engine *engine, struct vb_context *ctx);

/** vb_engine_leave() - Take it out again */
void vb_engine_leave(struct vb_engine *engine, struct vb_context *ctx);

/** vb_engine_each_context() - Call a function on the process's contexts until it returns non-zero
 * @visit:  Must not open or close anything: no context comes or goes meanwhile
 * Return:  what the last call returned, 0 when all were visited
 */
int vb_engine_each_context(int (*visit)(struct vb_context *ctx, void *arg), void *arg);

/** vb_engine_start() - Start the thread unless it runs
 * Context: any thread, before the first QP can be the target of another process. A
 *          failure is no error: pollers do the work then
 */
void vb_engine_start(struct vb_engine *engine);

/** vb_engine_wake_at() - Have a send queue run at a time
 * @qp:     Its lock need not be held
 * @at_ns:  CLOCK_MONOTONIC; 0 at once
 */
void vb_engine_wake_at(struct vb_engine *engine, struct vb_qp *qp, uint64_t at_ns);

/** vb_engine_forget() - Take a QP that goes away off the list of waiting ones */
void vb_engine_forget(struct vb_engine *engine, struct vb_qp *qp);

/** vb_engine_due() - Run what is due
 * Context: engine thread, and pollers; costs one load where nothing waits
 */
void vb_engine_due(struct vb_engine *engine);

/** vb_engine_attention() - Look at the QPs that peers failed */
void vb_engine_attention(struct vb_engine *engine);

/** vb_engine_of() - The engine of a QP */
static inline struct vb_engine *vb_engine_of(const struct vb_qp *qp)
{
	return vb_context_of(qp->ibv.context)->engine;
}

/** vb_now_ns() - CLOCK_MONOTONIC in nanoseconds */
uint64_t vb_now_ns(void);

#endif

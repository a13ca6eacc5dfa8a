/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_RDMACM_RSOCKET_SERVICE_H
#define VB_RDMACM_RSOCKET_SERVICE_H

#include <stdint.h>

#include <rdma/rdma_cma.h>

/*
 * Theory of operation
 *
 * One thread per process does what cannot wait for a call of the program: it takes the
 * events of the connection manager (one channel for all sockets), so that a connection is
 * accepted while the program does something else; it reads the UDP sockets behind datagram
 * sockets; it sends keepalives; and it ends what rclose() could not finish at once. It runs
 * while there are sockets, with all signals blocked, and sleeps in epoll.
 *
 * Locks: service_lock of the process (start and stop) comes first of all; the service's
 * own lock, around the list of jobs, last of all.
 */

struct vb_rs;
struct vb_rs_process;

#define VB_RS_NEVER UINT64_MAX

/** vb_rs_service_use() - This socket needs the service; start it if it does not run
 * Return:  0, or -1 with errno (ENODEV: no device, EAGAIN: no thread, ...)
 */
int vb_rs_service_use(struct vb_rs_process *process, struct vb_rs *rs);

/** vb_rs_service_unuse() - It does no more; the last one stops the thread
 * Context: the service thread too; no lock held
 */
void vb_rs_service_unuse(struct vb_rs *rs);

/** vb_rs_service_channel() - The channel on which ids of a socket that uses it are made */
struct rdma_event_channel *vb_rs_service_channel(struct vb_rs *rs);

/** vb_rs_service_destroy_qp() - Destroy an id's QP while no event is being taken
 * Taking an event is more than that: the connection manager moves the QP of its id.
 */
void vb_rs_service_destroy_qp(struct vb_rs *rs, struct rdma_cm_id *id);

/** vb_rs_service_watch() - Have vb_rs_serve() called for a socket
 * @fd:     When it is readable; -1: never
 * @at_ns:  And at this time; VB_RS_NEVER
 *
 * The job holds a reference. A second call replaces what the first said.
 * Return:  0, or -1 with errno
 */
int vb_rs_service_watch(struct vb_rs *rs, int fd, uint64_t at_ns);

/** vb_rs_service_unwatch() - No more; drops the reference. Fine where there is no job */
void vb_rs_service_unwatch(struct vb_rs *rs);

/** vb_rs_serve() - Do what a socket's job is (socket.c)
 * Context: the service thread, no lock held
 * Return:  when to be called again at the latest, or 0: the job is done
 */
uint64_t vb_rs_serve(struct vb_rs *rs, uint64_t now_ns);

/** vb_rs_cm_event() - An event of the channel (socket.c); the caller acknowledges it
 * @done:   Set to an id to destroy after the acknowledgement
 * Context: the service thread
 * Return:  a socket to put, or NULL: only after the acknowledgement
 */
struct vb_rs *vb_rs_cm_event(struct rdma_cm_event *event, struct rdma_cm_id **done);

#endif

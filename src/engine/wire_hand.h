/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_ENGINE_WIRE_HAND_H
#define VB_ENGINE_WIRE_HAND_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/un.h>

#include "carrier/handed.h"
#include "engine/engine.h"

/*
 * Theory of operation
 *
 * Packets for another process of this host go as messages to the socket that stands for its block
 * of numbers (carrier/handed). Its queue is short: net.unix.max_dgram_qlen messages, 10 in
 * a network namespace that nobody changed. What finds no room waits here, in order, and the
 * engine's thread is woken when there is some: each destination has a socket of its own, connected
 * to it, so that epoll tells, and so that one that is stopped fills no send buffer that others
 * need. Waiting in the call instead would have two processes that fill each other's queue wait for
 * each other, since neither reads meanwhile.
 *
 * Who makes requests asks vb_hand_again_ns() first, as a sender on a link with flow control is held
 * back; answers always go. A process that has taken nothing for a second is stopped: what waits for
 * it is lost, and so is what follows, until it takes a message again.
 */

struct vb_hand;

/* How a packet was handed to a process of this host. */
enum vb_wire_handed {
	VB_WIRE_DELIVERED, /* or waits here, or is lost where the reason is on our side */
	VB_WIRE_FULL,	   /* its queue has no room now */
	VB_WIRE_REFUSED,   /* there is no such socket */
};

/* Packets of one message. */
#define VB_HAND_PACKETS 128
/* Its bytes. */
#define VB_HAND_BYTES 65536u

/** vb_hand_open() - Make ready; no socket is opened yet
 * Return:  NULL: no memory
 */
struct vb_hand *vb_hand_open(struct vb_engine *engine);

/** vb_hand_close() - Close all; what waits is lost */
void vb_hand_close(struct vb_hand *hand);

/** vb_hand_forked() - In the child: the sockets are the parent's */
void vb_hand_forked(struct vb_hand *hand);

/** vb_hand_over() - Packets to the process of a block, in order
 * @d:      Used in place until the call returns, as are their bytes
 * @n:      At most VB_HAND_PACKETS
 * @used:   Receives how many went into the message, the first ones
 * Context: any thread
 * Return:  VB_WIRE_FULL where there is no room here either, or the process is stopped
 */
enum vb_wire_handed vb_hand_over(struct vb_hand *hand, uint32_t block, struct vb_udp_datagram *d,
				 uint32_t n, uint32_t *used);

/** vb_hand_to() - One packet to a socket of this host, which does not wait
 * Context: any thread
 * Return:  as it went
 */
enum vb_wire_handed vb_hand_to(struct vb_hand *hand, struct vb_udp_datagram *d,
			       const struct sockaddr_un *to, socklen_t len);

/** vb_hand_due() - Send what waits, as far as there is room
 * @thread: This is the engine's thread, which is to be woken for the rest. Others look from time
 *          to time
 * Context: any thread; one load where nothing waits
 * Return:  whether something waits still
 */
bool vb_hand_due(struct vb_hand *hand, bool thread);

/** vb_hand_again_ns() - Whether requests for a block may leave now
 * @block:  0: for any
 * Return:  0, or the time to ask again
 */
uint64_t vb_hand_again_ns(struct vb_hand *hand, uint32_t block);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_ENGINE_WIRE_LATE_H
#define VB_ENGINE_WIRE_LATE_H

#include "carrier/udp.h"
#include "engine/engine.h"

/*
 * Theory of operation
 *
 * Packets of UC and UD whose receiver is late. Nobody sends these again, and within a host their
 * sender waits a moment for the next receive (engine/datagram). As packets it cannot know; so
 * here the packet waits, and those of its QP that follow it, until a receive is there or the moment
 * is over: then it is lost, as it would have been at once. Nothing else waits for it. A queue that
 * never took a message is not waited for: its program may never post.
 *
 * All of it belongs to whoever takes packets off the sockets (struct vb_wire, receive_lock).
 */

/* QPs of which some wait at a time. */
#define VB_LATE_QUEUES 64

/* All zero: none waits. */
struct vb_late {
	_Atomic uint32_t n; /* queues with something in them */
	struct vb_late_queue {
		uint32_t qpn, epoch; /* of the QP: what was sent to what it was is not for it */
		uint32_t bytes;
		struct vb_late_packet *first, *last;
	} queues[VB_LATE_QUEUES];
};

/* Runs one packet of a QP. */
typedef void vb_late_run(struct vb_engine *engine, struct vb_qp *qp, const struct vb_packet *pkt,
			 const struct vb_udp_datagram *d, bool more);

/** vb_late_close() - What waits is lost */
void vb_late_close(struct vb_late *late);

/** vb_late_keep() - Have a packet wait, if it is to
 * @qp:     Whose it is
 * @d:      Copied
 * Return:  false: it is to be run now. Where too much waits already it is lost
 */
bool vb_late_keep(struct vb_late *late, struct vb_engine *engine, struct vb_qp *qp,
		  const struct vb_packet *pkt, const struct vb_udp_datagram *d);

/** vb_late_due() - Run what need not wait any more
 * Context: inside a grace section: QPs stay
 */
void vb_late_due(struct vb_late *late, struct vb_engine *engine, vb_late_run *run);

/** vb_late_any() - Whether one waits. Context: any thread */
bool vb_late_any(const struct vb_late *late);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_ENGINE_MCAST_H
#define VB_ENGINE_MCAST_H

#include "carrier/local.h"
#include "carrier/udp.h"
#include "engine/engine.h"

/*
 * Theory of operation
 *
 * A datagram to a multicast group is delivered by its sender to every QP of this host that is
 * attached (host/members knows them): by memory as any other, or as a packet handed to the process
 * where its memory cannot be reached. And it leaves once by the interface, as an IP multicast
 * that does not come back to this host. A process with attached QPs has joined the IP group, so
 * the kernel gives it what other hosts send, for its own QPs only.
 *
 * With all traffic as packets within the host (capture, faults) each process is handed one. With
 * all traffic on UDP the kernel loops the packet back to the processes that joined.
 *
 * Nobody answers: what a member has no receive for, or another Q_Key, is lost for that one.
 */

/** vb_mcast_attach() - Attach a UD QP to a group
 * @gid:    A multicast GID, checked
 * Return:  0 (also where it is attached already), or as vb_members_add() and vb_members_enter()
 */
int vb_mcast_attach(struct vb_engine *engine, struct vb_qp *qp, const uint8_t gid[16]);

/** vb_mcast_detach() - Detach it
 * Return:  0, -ENOENT
 */
int vb_mcast_detach(struct vb_engine *engine, struct vb_qp *qp, const uint8_t gid[16]);

/** vb_mcast_attached() - To how many groups a QP is attached */
uint32_t vb_mcast_attached(struct vb_engine *engine, const struct vb_qp *qp);

/** vb_mcast_rejoin() - Port 4791 could be bound meanwhile: join the groups on it
 * Context: under thread_lock
 */
void vb_mcast_rejoin(struct vb_engine *engine);

/** vb_mcast_send() - Deliver a datagram to the members on this host, and send it to others
 * @request: Of the datagram; its message's payload begins with the network header
 * Context: as vb_datagram_send(); the path's reach is VB_REACH_LOCAL
 */
void vb_mcast_send(struct vb_engine *engine, struct vb_qp *qp, const struct vb_swqe *wqe,
		   const struct vb_local_request *request, struct vb_msg_result *res);

/** vb_mcast_how() - Which processes of this host get a datagram as a packet handed to them */
static inline enum vb_udp_hand vb_mcast_how(const struct vb_path *path)
{
	if (!path->multicast || path->reach == VB_REACH_WIRE)
		return VB_HAND_NONE;
	return path->reach == VB_REACH_INSIDE ? VB_HAND_ALL : VB_HAND_CLOSED;
}

/** vb_mcast_hand() - What the processes of this host get of packets to a group
 * @hand:   VB_HAND_ALL or VB_HAND_CLOSED
 * @set:    Receives their first blocks, as bits
 */
void vb_mcast_hand(struct vb_engine *engine, enum vb_udp_hand hand, uint64_t set[VB_BLOCKS / 64]);

/** vb_mcast_packet() - A packet to a group came: give it to our QPs
 * Context: inside a grace section
 */
void vb_mcast_packet(struct vb_engine *engine, const struct vb_packet *pkt,
		     const struct vb_udp_datagram *d);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_ENGINE_AGENT_WIRE_H
#define VB_ENGINE_AGENT_WIRE_H

#include "engine/wire.h"

/* Packets for QP 1 between the wire and the agent (engine/agent.h). */

/** vb_agent_packet() - A packet for QP 1 came
 * @from_network: It may be another process's, and is passed on then
 * Context: the thread that received it
 */
void vb_agent_packet(struct vb_engine *engine, struct vb_udp_datagram *d,
		     const struct vb_packet *pkt, bool from_network);

/** vb_agent_pass() - Pass a packet for QP 1 to a process of this host
 * @pkt:    Decoded
 * Return:  VB_WIRE_FULL: to be tried again: its queue is full, or its listener is between two
 *          ids. VB_WIRE_REFUSED: there is nobody to take it; who sent it has to be told
 */
enum vb_wire_handed vb_agent_pass(struct vb_engine *engine, struct vb_udp_datagram *d,
				  const struct vb_packet *pkt);

/** vb_agent_refuse() - Answer for nobody
 * @inside: Its sender is of this host
 */
void vb_agent_refuse(struct vb_engine *engine, const struct vb_udp_datagram *d,
		     const struct vb_packet *pkt, bool inside);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_ENGINE_WIRE_STEER_H
#define VB_ENGINE_WIRE_STEER_H

#include "engine/engine.h"

/*
 * Steering: the kernel gives a packet to the process whose QP it is for (carrier/steer), where the
 * account of the sockets' numbers is right (host/seats). Where it is not, or cannot be kept,
 * packets are handed over as without it; a process that sees many of them looks after the account,
 * and gives steering up where that does not help.
 */

struct vb_udp;

struct vb_steer {
	pthread_mutex_t lock;
	bool seated;
	uint32_t blocks;	       /* of ours that the program knows */
	_Atomic uint32_t seen, handed; /* packets since the last judgement */
	uint32_t repairs;	       /* in a row that did not help */
};

/** vb_steer_open() - Bind port 4791
 * Return:  as vb_udp_open()
 */
int vb_steer_open(struct vb_engine *engine, struct vb_steer *steer, struct vb_udp *udp);

/** vb_steer_bind() - Bind what could not be bound; as vb_udp_bind() */
int vb_steer_bind(struct vb_engine *engine, struct vb_steer *steer, struct vb_udp *udp);

/** vb_steer_grown() - Have packets of new blocks of ours come here, too; often called */
void vb_steer_grown(struct vb_engine *engine, struct vb_steer *steer, struct vb_udp *udp);

/** vb_steer_close() - Close the sockets */
void vb_steer_close(struct vb_engine *engine, struct vb_steer *steer, struct vb_udp *udp);

/** vb_steer_saw() - So many packets came off the sockets, and so many of them were another's
 * Context: the thread that receives
 */
void vb_steer_saw(struct vb_engine *engine, struct vb_steer *steer, struct vb_udp *udp,
		  uint32_t packets, uint32_t handed);

#endif

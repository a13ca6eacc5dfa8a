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
	bool leaving;		       /* the seats are locked */
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

/** vb_steer_leave() - The sockets are about to be closed
 * Context: vb_steer_close() follows soon, others wait for it
 */
void vb_steer_leave(struct vb_engine *engine, struct vb_steer *steer);

/** vb_steer_pass_on() - Tell the kernel what will be true once one of the sockets is closed
 * @which: 0 IPv4, 1 IPv6
 * Context: after vb_steer_leave(). Until it is closed others' packets come to it
 */
void vb_steer_pass_on(struct vb_engine *engine, struct vb_steer *steer, struct vb_udp *udp,
		      int which);

/** vb_steer_close() - Close the sockets */
void vb_steer_close(struct vb_engine *engine, struct vb_steer *steer, struct vb_udp *udp);

/** vb_steer_saw() - So many packets came off the sockets, and so many of them were another's
 * Context: the thread that receives
 */
void vb_steer_saw(struct vb_engine *engine, struct vb_steer *steer, struct vb_udp *udp,
		  uint32_t packets, uint32_t handed);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_ENGINE_AGENT_H
#define VB_ENGINE_AGENT_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "cm/conn.h"

/*
 * Theory of operation
 *
 * The agent of connection management: what stands behind queue pair 1. It runs the machines of
 * src/cm for the ids of this process, on messages that are packets like any other (captured,
 * subject to faults) but are handled by the engine's thread alone.
 *
 * A message finds its process by itself, whoever of the host receives it: an answer by
 * the id in it, whose upper bits are the block of numbers of the process that chose it; a
 * request by the port that it asks for, which is the name of a socket (host/cmports). Where
 * there is no such socket the receiver answers that nobody listens. Within a host the sender
 * takes the same way at once, without UDP.
 *
 * Handlers run under the agent's lock: they take note and return.
 */

struct vb_engine;
struct vb_agent_id;

/* From here to there, and what requests travel with. */
struct vb_agent_path {
	uint8_t own_gid[16], peer_gid[16];
	uint8_t traffic_class, hop_limit;
};

/* Beside enum vb_cm_what. */
enum vb_agent_what {
	VB_AGENT_REQUEST = 32, /* for a listener: a REQ or SIDR_REQ; id is new */
	VB_AGENT_REMOVED,      /* the device, or its interface, is there no more */
	VB_AGENT_ADDR_CHANGED, /* the interface has another Ethernet address */
};

struct vb_agent_event {
	int what;			  /* enum vb_cm_what, enum vb_agent_what */
	struct vb_agent_id *id;		  /* VB_AGENT_REQUEST: the new one */
	const struct vb_cm_msg *msg;	  /* what came, NULL where nothing did */
	const struct vb_cm_ip *ip;	  /* VB_AGENT_REQUEST: its addresses */
	const struct vb_agent_path *path; /* VB_AGENT_REQUEST */
};

/* @owner:  Of the id; VB_AGENT_REQUEST: of the listener
 * Return:  VB_AGENT_REQUEST: the new id's owner, or NULL: there is no room, and the
 *          request is taken when it comes again. Otherwise nothing */
typedef void *vb_agent_handler(void *owner, const struct vb_agent_event *event);

/* Where an id is bound, and how. */
struct vb_agent_bind {
	uint16_t space; /* the lower bits of enum rdma_port_space */
	uint16_t port;	/* 0: one is chosen, and written here */
	bool any, v6;	/* every address, of IPv6 (and IPv4, unless only6) */
	bool only6;
	bool reuse;	  /* share with others of this process that do not listen and say so too */
	bool claim;	  /* a chosen one too is nobody else's to bind: somebody may listen there */
	uint8_t addr[16]; /* as a GID, where not any */
};

/* What librdmacm asks of libibverbs, in a version node of its own. */
#pragma GCC visibility push(default)

/** vb_agent_create() - A new id
 * @handler: Called with @owner
 * Context: may start the engine's thread and open sockets
 * Return:  0, -ENOMEM, -EMFILE, -ENOSPC
 */
int vb_agent_create(struct ibv_context *context, vb_agent_handler *handler, void *owner,
		    struct vb_agent_id **id);

/** vb_agent_destroy() - An id goes away: its peer is told, its port is free, no handler is called
 * any more. An established connection's end is repeated until the peer has heard of it
 */
void vb_agent_destroy(struct vb_agent_id *id);

/** vb_agent_bind() - Claim a port
 * Return:  0, -EADDRINUSE, -EINVAL (bound already), or the negative errno of a system call
 */
int vb_agent_bind(struct vb_agent_id *id, struct vb_agent_bind *bind);

/** vb_agent_listen() - Take requests for the port that the id is bound to
 * Return:  0, -EINVAL (not bound, or a connection), -EADDRINUSE
 */
int vb_agent_listen(struct vb_agent_id *id);

/** vb_agent_send() - Go on with the id's connection
 * @msg:    msg->attr says what: REQ, REP, RTU, REJ, MRA, DREQ (or DREP, where the peer has begun),
 *          SIDR_REQ, SIDR_REP; ids and tid are filled in
 * @path:   REQ, SIDR_REQ: where to; else NULL
 * Return:  0; -EINVAL: not in this state; -ENETUNREACH: not by the carrier that is allowed
 */
int vb_agent_send(struct vb_agent_id *id, struct vb_cm_msg *msg, const struct vb_agent_path *path);

/** vb_agent_data_came() - The QP of a passive side has received before the RTU came */
int vb_agent_data_came(struct vb_agent_id *id);

/** vb_agent_state() - enum vb_cm_state of its connection now */
int vb_agent_state(struct vb_agent_id *id);

/** vb_agent_ready() - Open now what ids of a device need
 * So that the first connection does not wait for it. Where it fails the next call tries again and
 * says so.
 */
void vb_agent_ready(struct ibv_context *context);

/** vb_agent_gid_index() - Where a GID is in the device's table
 * @gid:   Of RoCE v2, 16 bytes
 * Return: the index, or -ENOENT where it is none of the device's own
 */
int vb_agent_gid_index(struct ibv_context *context, const uint8_t *gid);

/** vb_agent_news() - A number that changes when links, addresses or routes of this host may have */
uint64_t vb_agent_news(void);

#pragma GCC visibility pop

/* ---- For the engine ---- */

/** vb_agent_device_news() - Tell all ids what has become of their device
 * @what:   VB_AGENT_REMOVED, VB_AGENT_ADDR_CHANGED
 * Context: any thread
 */
void vb_agent_device_news(struct vb_engine *engine, enum vb_agent_what what);

/** vb_agent_farewell() - The process ends: each peer is told, once
 * Context: at the end of the process; where another thread holds the agent nobody is
 */
void vb_agent_farewell(struct vb_engine *engine);

/** vb_agent_close() - The engine ends */
void vb_agent_close(struct vb_engine *engine);

/** vb_agent_forked() - In the child: the sockets are the parent's */
void vb_agent_forked(struct vb_engine *engine);

/** vb_agent_fd() - What the thread is to sleep on, -1 nothing */
int vb_agent_fd(struct vb_engine *engine);

/** vb_agent_run() - vb_agent_fd() is readable: messages for our ports, and what is due
 * Context: engine's thread
 */
void vb_agent_run(struct vb_engine *engine);

#endif

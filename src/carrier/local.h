/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_CARRIER_LOCAL_H
#define VB_CARRIER_LOCAL_H

#include "carrier/target.h"
#include "transport/rc_msg.h"

/*
 * Theory of operation
 *
 * The carrier within a host is a call. The initiator's thread maps the target's
 * segment, and runs the target's responder (transport/rc_msg) in the environment of
 * carrier/target. This file knows no opcode and makes no decision of the protocol.
 */

/* How a message is served. */
enum vb_local_service { VB_SERVICE_RC, VB_SERVICE_UC, VB_SERVICE_UD };

/* A message on its way to a QP of this host. */
struct vb_local_request {
	enum vb_local_service service;
	uint32_t qpn;		  /* the target QP */
	uint32_t qkey;		  /* UD: that the datagram carries */
	const struct vb_msg *msg; /* payload points to a struct vb_payload; UD: its first 40
				   * bytes are the network header */
	/* Called when the message has taken its receive for good, before anybody can learn
	 * of it: the sender's completion comes before any answer. */
	void (*arrived)(void *arg);
	void *arrived_arg;
};

/** vb_local_send() - Run a message on a QP of a process of this host
 * @p:      The target's process
 * @request: What to run, borrowed for the call
 * @res:    Filled, whatever the verdict
 * Context: initiator's send queue is running, no lock a poller or peer needs is held
 * Return:  the verdict
 */
enum vb_verdict vb_local_send(struct vb_peer *p, const struct vb_local_request *request,
			      struct vb_msg_result *res);

#endif

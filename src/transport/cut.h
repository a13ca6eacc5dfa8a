/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_TRANSPORT_CUT_H
#define VB_TRANSPORT_CUT_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/psn.h"

/*
 * Theory of operation
 *
 * Packets that leave as one buffer are cut into datagrams on the way (carrier/udp.h). The ICRC of
 * each covers an IPv4 identification that is known where the kernel cuts. An interface may
 * write another one; then a peer that believes the header throws all packets but the first of each
 * buffer away. Nothing tells that, but it shows: what has to be sent again begins with the
 * second packet of a buffer, and when that is the first of the next buffer, with the one after it.
 * Chance does not hit a second packet again and again. So after a few times in a row packets leave
 * one by one, for the rest of the connection.
 */

struct vb_cut {
	bool left;	      /* a packet has left */
	bool pending;	      /* the first buffer since something was sent again has two packets */
	struct vb_psn next;   /* after the packet that left last */
	struct vb_psn second; /* of that buffer */
	uint8_t lost;	      /* times in a row that one was lost */
};

/** vb_cut_leaves() - A request, or an answer with data, leaves for the first time or again
 * @index:  Its place in its buffer, 0 the first
 */
void vb_cut_leaves(struct vb_cut *c, struct vb_psn psn, uint32_t index);

/** vb_cut_refused() - What is sent again next had arrived: its receiver was not ready */
void vb_cut_refused(struct vb_cut *c);

/** vb_cut_singly() - Whether packets are to leave one by one */
bool vb_cut_singly(const struct vb_cut *c);

#endif

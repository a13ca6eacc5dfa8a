/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_TRANSPORT_OUT_H
#define VB_TRANSPORT_OUT_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/env.h"
#include "transport/timers.h"
#include "transport/types.h"
#include "wire/packet.h"

/*
 * What a machine wants done, in the order it must be done. The caller owns the
 * array, runs the records and empties it; a machine that finds no room stops and
 * goes on at its next call.
 */

enum vb_out_kind {
	VB_OUT_PACKET,	 /* send it */
	VB_OUT_SENT,	 /* a work request of the send queue has ended */
	VB_OUT_RECEIVED, /* a receive has ended */
	VB_OUT_EVENT,	 /* asynchronous event of the QP */
	VB_OUT_QP_ERR,	 /* the QP goes to ERR: its receives flush */
};

enum vb_payload_kind {
	VB_PAYLOAD_NONE,
	VB_PAYLOAD_WQE,	   /* gathered from the work request's elements */
	VB_PAYLOAD_TARGET, /* read from remotely readable memory, by copy_out */
};

struct vb_out_packet {
	struct vb_packet hdr; /* payload_len counts, payload is NULL */
	enum vb_payload_kind from;
	uint32_t wqe;		 /* VB_PAYLOAD_WQE: its index in the ring */
	uint64_t offset;	 /* first byte of the payload in the message */
	struct vb_target target; /* VB_PAYLOAD_TARGET; offset counts from its address */
};

struct vb_out_sent {
	uint32_t wqe; /* index in the ring */
	uint64_t wr_id;
	enum vb_wc_status status;
	enum vb_wc_opcode opcode;
	uint32_t byte_len;
	bool signaled; /* asked for; an error completes in any case */
};

struct vb_out_received {
	struct vb_recv recv;
	struct vb_recv_completion completion;
};

struct vb_out_record {
	enum vb_out_kind kind;
	union {
		struct vb_out_packet packet;
		struct vb_out_sent sent;
		struct vb_out_received received;
		enum vb_event event;
	};
};

struct vb_out {
	struct vb_out_record *records; /* owned by the caller */
	uint32_t capacity;
	uint32_t count;
};

static inline uint32_t vb_out_room(const struct vb_out *out)
{
	return out->capacity - out->count;
}

/** vb_out_add() - The next record; the caller made sure of the room */
struct vb_out_record *vb_out_add(struct vb_out *out, enum vb_out_kind kind);

/** vb_out_event() - Add an event */
void vb_out_event(struct vb_out *out, enum vb_event event);

#endif

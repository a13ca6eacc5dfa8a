/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_WIRE_OPCODE_H
#define VB_WIRE_OPCODE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The opcodes of the base transport header, as data: what a packet does, where in
 * its message it stands, which headers follow. Nothing else in the tree knows an
 * opcode by number.
 */

/* Transport service: the upper three bits of an opcode. */
enum vb_service {
	VB_SVC_RC = 0,
	VB_SVC_UC = 1,
	VB_SVC_UD = 3,
	VB_SVC_CNP = 4, /* no service: the packet that tells of congestion */
	VB_SVC_XRC = 5,
};

/* The five requests come first and in the order of enum vb_msg_kind. */
enum vb_op_kind {
	VB_OP_SEND,
	VB_OP_WRITE,
	VB_OP_READ,
	VB_OP_CMP_SWP,
	VB_OP_FETCH_ADD,
	VB_OP_READ_RESP,
	VB_OP_ACK,
	VB_OP_ATOMIC_ACK,
	VB_OP_CNP,
};

/* First and last as bits: only is both, middle is neither. */
enum vb_op_pos {
	VB_POS_MIDDLE = 0,
	VB_POS_FIRST = 1,
	VB_POS_LAST = 2,
	VB_POS_ONLY = 3,
};

/* What a packet carries beside data. */
enum vb_op_extra {
	VB_EXTRA_NONE,
	VB_EXTRA_IMM,
	VB_EXTRA_INV,
};

/* Extension headers after the BTH, in the order they stand on the wire but for the last. */
enum vb_header {
	VB_HDR_DETH = 1 << 0,	    /* 8 bytes */
	VB_HDR_RETH = 1 << 1,	    /* 16 */
	VB_HDR_ATOMIC = 1 << 2,	    /* 28 */
	VB_HDR_AETH = 1 << 3,	    /* 4 */
	VB_HDR_ATOMIC_ACK = 1 << 4, /* 8 */
	VB_HDR_IMM = 1 << 5,	    /* 4 */
	VB_HDR_IETH = 1 << 6,	    /* 4 */
	VB_HDR_RESERVED = 1 << 7,   /* 16, all zero */
	VB_HDR_XRCETH = 1 << 8,	    /* 4; the first after the BTH */
};

#define VB_BTH_LEN  12
#define VB_ICRC_LEN 4
/* The longest header: BTH, XRCETH and AtomicETH. */
#define VB_HDR_MAX 44

struct vb_op_row {
	const char *name; /* NULL: no such opcode */
	enum vb_service service;
	enum vb_op_kind kind;
	enum vb_op_pos pos;
	enum vb_op_extra extra;
	uint16_t headers; /* bits of enum vb_header */
	uint8_t length;	  /* bytes of BTH and extension headers */
	bool payload;	  /* may carry data */
};

/** vb_op_row() - What an opcode means
 * @opcode: Any byte
 * Return:  the row, static storage, or NULL for an opcode that is not in the table
 */
const struct vb_op_row *vb_op_row(uint8_t opcode);

/** vb_op_find() - The opcode of a packet
 * @extra:  Ignored where the packet cannot carry it (first and middle)
 * @opcode: Receives it
 * Return:  false when the service has no such packet
 */
bool vb_op_find(enum vb_service service, enum vb_op_kind kind, enum vb_op_pos pos,
		enum vb_op_extra extra, uint8_t *opcode);

static inline bool vb_op_is_first(const struct vb_op_row *op)
{
	return op->pos & VB_POS_FIRST;
}

static inline bool vb_op_is_last(const struct vb_op_row *op)
{
	return op->pos & VB_POS_LAST;
}

static inline bool vb_op_is_request(const struct vb_op_row *op)
{
	return op->kind <= VB_OP_FETCH_ADD;
}

static inline bool vb_op_is_atomic(const struct vb_op_row *op)
{
	return op->kind == VB_OP_CMP_SWP || op->kind == VB_OP_FETCH_ADD;
}

#endif

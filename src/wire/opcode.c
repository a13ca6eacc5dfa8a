/* SPDX-License-Identifier: BSD-2-Clause */
#include <stddef.h>

#include "wire/opcode.h"

#define LENGTH(h)                                                                                  \
	(VB_BTH_LEN + ((h)&VB_HDR_DETH ? 8 : 0) + ((h)&VB_HDR_RETH ? 16 : 0) +                     \
	 ((h)&VB_HDR_ATOMIC ? 28 : 0) + ((h)&VB_HDR_AETH ? 4 : 0) +                                \
	 ((h)&VB_HDR_ATOMIC_ACK ? 8 : 0) + ((h)&VB_HDR_IMM ? 4 : 0) + ((h)&VB_HDR_IETH ? 4 : 0) +  \
	 ((h)&VB_HDR_RESERVED ? 16 : 0))

#define OP(number, name, svc, kind, pos, extra, headers, payload)                                  \
	[number] = {name,    VB_SVC_##svc,    VB_OP_##kind, VB_POS_##pos, VB_EXTRA_##extra,        \
		    headers, LENGTH(headers), payload}

/* SENDs and WRITEs are the same twelve packets in RC and UC. */
#define SEND_AND_WRITE(base, svc)                                                                  \
	OP((base) + 0x00, #svc " SEND First", svc, SEND, FIRST, NONE, 0, true),                    \
		OP((base) + 0x01, #svc " SEND Middle", svc, SEND, MIDDLE, NONE, 0, true),          \
		OP((base) + 0x02, #svc " SEND Last", svc, SEND, LAST, NONE, 0, true),              \
		OP((base) + 0x03, #svc " SEND Last Imm", svc, SEND, LAST, IMM, VB_HDR_IMM, true),  \
		OP((base) + 0x04, #svc " SEND Only", svc, SEND, ONLY, NONE, 0, true),              \
		OP((base) + 0x05, #svc " SEND Only Imm", svc, SEND, ONLY, IMM, VB_HDR_IMM, true),  \
		OP((base) + 0x06, #svc " WRITE First", svc, WRITE, FIRST, NONE, VB_HDR_RETH,       \
		   true),                                                                          \
		OP((base) + 0x07, #svc " WRITE Middle", svc, WRITE, MIDDLE, NONE, 0, true),        \
		OP((base) + 0x08, #svc " WRITE Last", svc, WRITE, LAST, NONE, 0, true),            \
		OP((base) + 0x09, #svc " WRITE Last Imm", svc, WRITE, LAST, IMM, VB_HDR_IMM,       \
		   true),                                                                          \
		OP((base) + 0x0a, #svc " WRITE Only", svc, WRITE, ONLY, NONE, VB_HDR_RETH, true),  \
		OP((base) + 0x0b, #svc " WRITE Only Imm", svc, WRITE, ONLY, IMM,                   \
		   VB_HDR_RETH | VB_HDR_IMM, true)

static const struct vb_op_row rows[256] = {
	SEND_AND_WRITE(0x00, RC),
	OP(0x0c, "RC READ Request", RC, READ, ONLY, NONE, VB_HDR_RETH, false),
	OP(0x0d, "RC READ Response First", RC, READ_RESP, FIRST, NONE, VB_HDR_AETH, true),
	OP(0x0e, "RC READ Response Middle", RC, READ_RESP, MIDDLE, NONE, 0, true),
	OP(0x0f, "RC READ Response Last", RC, READ_RESP, LAST, NONE, VB_HDR_AETH, true),
	OP(0x10, "RC READ Response Only", RC, READ_RESP, ONLY, NONE, VB_HDR_AETH, true),
	OP(0x11, "RC Acknowledge", RC, ACK, ONLY, NONE, VB_HDR_AETH, false),
	OP(0x12, "RC ATOMIC Acknowledge", RC, ATOMIC_ACK, ONLY, NONE,
	   VB_HDR_AETH | VB_HDR_ATOMIC_ACK, false),
	OP(0x13, "RC CmpSwap", RC, CMP_SWP, ONLY, NONE, VB_HDR_ATOMIC, false),
	OP(0x14, "RC FetchAdd", RC, FETCH_ADD, ONLY, NONE, VB_HDR_ATOMIC, false),
	OP(0x16, "RC SEND Last Invalidate", RC, SEND, LAST, INV, VB_HDR_IETH, true),
	OP(0x17, "RC SEND Only Invalidate", RC, SEND, ONLY, INV, VB_HDR_IETH, true),
	SEND_AND_WRITE(0x20, UC),
	OP(0x64, "UD SEND Only", UD, SEND, ONLY, NONE, VB_HDR_DETH, true),
	OP(0x65, "UD SEND Only Imm", UD, SEND, ONLY, IMM, VB_HDR_DETH | VB_HDR_IMM, true),
	/* RoCEv2, annex A17 of the IBA. */
	OP(0x81, "CNP", CNP, CNP, ONLY, NONE, VB_HDR_RESERVED, false),
};

const struct vb_op_row *vb_op_row(uint8_t opcode)
{
	return rows[opcode].name ? &rows[opcode] : NULL;
}

bool vb_op_find(enum vb_service service, enum vb_op_kind kind, enum vb_op_pos pos,
		enum vb_op_extra extra, uint8_t *opcode)
{
	unsigned int base = (unsigned int)service << 5;

	if (!(pos & VB_POS_LAST))
		extra = VB_EXTRA_NONE;
	for (unsigned int op = base; op < base + 32; op++) {
		const struct vb_op_row *row = &rows[op];

		if (row->name && row->kind == kind && row->pos == pos && row->extra == extra) {
			*opcode = (uint8_t)op;
			return true;
		}
	}
	return false;
}

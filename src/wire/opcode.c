/* SPDX-License-Identifier: BSD-2-Clause */
#include <stddef.h>

#include "wire/opcode.h"

#define LENGTH(h)                                                                                  \
	(VB_BTH_LEN + ((h)&VB_HDR_XRCETH ? 4 : 0) + ((h)&VB_HDR_DETH ? 8 : 0) +                    \
	 ((h)&VB_HDR_RETH ? 16 : 0) + ((h)&VB_HDR_ATOMIC ? 28 : 0) + ((h)&VB_HDR_AETH ? 4 : 0) +   \
	 ((h)&VB_HDR_ATOMIC_ACK ? 8 : 0) + ((h)&VB_HDR_IMM ? 4 : 0) + ((h)&VB_HDR_IETH ? 4 : 0) +  \
	 ((h)&VB_HDR_RESERVED ? 16 : 0))

#define OP(number, name, svc, kind, pos, extra, headers, payload)                                  \
	[number] = {name,    VB_SVC_##svc,    VB_OP_##kind, VB_POS_##pos, VB_EXTRA_##extra,        \
		    headers, LENGTH(headers), payload}

/* SENDs and WRITEs are the same twelve packets in RC, UC and XRC; in XRC every request says
 * which SRQ it is for: x. */
#define SEND_AND_WRITE(base, svc, x)                                                               \
	OP((base) + 0x00, #svc " SEND First", svc, SEND, FIRST, NONE, x, true),                    \
		OP((base) + 0x01, #svc " SEND Middle", svc, SEND, MIDDLE, NONE, x, true),          \
		OP((base) + 0x02, #svc " SEND Last", svc, SEND, LAST, NONE, x, true),              \
		OP((base) + 0x03, #svc " SEND Last Imm", svc, SEND, LAST, IMM, (x) | VB_HDR_IMM,   \
		   true),                                                                          \
		OP((base) + 0x04, #svc " SEND Only", svc, SEND, ONLY, NONE, x, true),              \
		OP((base) + 0x05, #svc " SEND Only Imm", svc, SEND, ONLY, IMM, (x) | VB_HDR_IMM,   \
		   true),                                                                          \
		OP((base) + 0x06, #svc " WRITE First", svc, WRITE, FIRST, NONE, (x) | VB_HDR_RETH, \
		   true),                                                                          \
		OP((base) + 0x07, #svc " WRITE Middle", svc, WRITE, MIDDLE, NONE, x, true),        \
		OP((base) + 0x08, #svc " WRITE Last", svc, WRITE, LAST, NONE, x, true),            \
		OP((base) + 0x09, #svc " WRITE Last Imm", svc, WRITE, LAST, IMM, (x) | VB_HDR_IMM, \
		   true),                                                                          \
		OP((base) + 0x0a, #svc " WRITE Only", svc, WRITE, ONLY, NONE, (x) | VB_HDR_RETH,   \
		   true),                                                                          \
		OP((base) + 0x0b, #svc " WRITE Only Imm", svc, WRITE, ONLY, IMM,                   \
		   (x) | VB_HDR_RETH | VB_HDR_IMM, true)

/* What RC and XRC have beyond. */
#define RELIABLE(base, svc, x)                                                                     \
	SEND_AND_WRITE(base, svc, x),                                                              \
		OP((base) + 0x0c, #svc " READ Request", svc, READ, ONLY, NONE, (x) | VB_HDR_RETH,  \
		   false),                                                                         \
		OP((base) + 0x0d, #svc " READ Response First", svc, READ_RESP, FIRST, NONE,        \
		   VB_HDR_AETH, true),                                                             \
		OP((base) + 0x0e, #svc " READ Response Middle", svc, READ_RESP, MIDDLE, NONE, 0,   \
		   true),                                                                          \
		OP((base) + 0x0f, #svc " READ Response Last", svc, READ_RESP, LAST, NONE,          \
		   VB_HDR_AETH, true),                                                             \
		OP((base) + 0x10, #svc " READ Response Only", svc, READ_RESP, ONLY, NONE,          \
		   VB_HDR_AETH, true),                                                             \
		OP((base) + 0x11, #svc " Acknowledge", svc, ACK, ONLY, NONE, VB_HDR_AETH, false),  \
		OP((base) + 0x12, #svc " ATOMIC Acknowledge", svc, ATOMIC_ACK, ONLY, NONE,         \
		   VB_HDR_AETH | VB_HDR_ATOMIC_ACK, false),                                        \
		OP((base) + 0x13, #svc " CmpSwap", svc, CMP_SWP, ONLY, NONE, (x) | VB_HDR_ATOMIC,  \
		   false),                                                                         \
		OP((base) + 0x14, #svc " FetchAdd", svc, FETCH_ADD, ONLY, NONE,                    \
		   (x) | VB_HDR_ATOMIC, false),                                                    \
		OP((base) + 0x16, #svc " SEND Last Invalidate", svc, SEND, LAST, INV,              \
		   (x) | VB_HDR_IETH, true),                                                       \
		OP((base) + 0x17, #svc " SEND Only Invalidate", svc, SEND, ONLY, INV,              \
		   (x) | VB_HDR_IETH, true)

static const struct vb_op_row rows[256] = {
	RELIABLE(0x00, RC, 0),
	SEND_AND_WRITE(0x20, UC, 0),
	OP(0x64, "UD SEND Only", UD, SEND, ONLY, NONE, VB_HDR_DETH, true),
	OP(0x65, "UD SEND Only Imm", UD, SEND, ONLY, IMM, VB_HDR_DETH | VB_HDR_IMM, true),
	/* IBA annex A14. */
	RELIABLE(0xa0, XRC, VB_HDR_XRCETH),
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

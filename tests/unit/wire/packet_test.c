/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/packet.h"

/* A packet with every field set to something that shows where it went. */
static struct vb_packet full(uint8_t opcode, uint32_t payload_len)
{
	return (struct vb_packet){
		.opcode = opcode,
		.solicited = true,
		.migreq = true,
		.ack_req = true,
		.becn = true,
		.pkey = 0x8001,
		.dest_qpn = 0x123456,
		.psn = 0xfedcba,
		.xrc_srqn = 0x765432,
		.qkey = 0x11223344,
		.src_qpn = 0x654321,
		.va = 0x0102030405060708,
		.rkey = 0xa1a2a3a4,
		.dma_len = 0xb1b2b3b4,
		.swap_add = 0xc1c2c3c4c5c6c7c8,
		.compare = 0xd1d2d3d4d5d6d7d8,
		.aeth_type = VB_AETH_NAK,
		.aeth_value = 2,
		.msn = 0xabcdef,
		.atomic_orig = 0xe1e2e3e4e5e6e7e8,
		.imm = 0x04030201,
		.inv_rkey = 0xf1f2f3f4,
		.payload_len = payload_len,
	};
}

static size_t whole(uint8_t opcode, uint32_t payload, uint8_t *bytes, size_t cap)
{
	struct vb_packet pkt = full(opcode, payload);
	size_t n = vb_packet_build(&pkt, bytes, cap);
	size_t total = n + payload + vb_packet_pad(payload) + VB_ICRC_LEN;

	assert_true(n > 0 && total <= cap);
	memset(bytes + n, 0x5a, total - n);
	return total;
}

#define SAME(field, bit) assert_int_equal(got.field, (headers & (bit)) ? want.field : 0)

static void test_round_trip(void **state)
{
	uint8_t bytes[256];

	for (unsigned int op = 0; op < 256; op++) {
		const struct vb_op_row *row = vb_op_row((uint8_t)op);

		for (uint32_t len = 0; row && len <= (row->payload ? 9 : 0); len++) {
			struct vb_packet want = full((uint8_t)op, len), got;
			size_t total = whole((uint8_t)op, len, bytes, sizeof(bytes));
			uint16_t headers = row->headers;

			assert_int_equal(vb_packet_parse(bytes, total, &got), VB_PARSE_OK);
			assert_int_equal(got.opcode, op);
			assert_true(got.solicited && got.migreq && got.ack_req && got.becn);
			assert_false(got.fecn);
			assert_int_equal(got.pkey, want.pkey);
			assert_int_equal(got.dest_qpn, want.dest_qpn);
			assert_int_equal(got.psn, want.psn);
			assert_int_equal(got.payload_len, len);
			assert_ptr_equal(got.payload, bytes + row->length);
			SAME(xrc_srqn, VB_HDR_XRCETH);
			SAME(qkey, VB_HDR_DETH);
			SAME(src_qpn, VB_HDR_DETH);
			SAME(va, VB_HDR_RETH | VB_HDR_ATOMIC);
			SAME(rkey, VB_HDR_RETH | VB_HDR_ATOMIC);
			SAME(dma_len, VB_HDR_RETH);
			SAME(swap_add, VB_HDR_ATOMIC);
			SAME(compare, VB_HDR_ATOMIC);
			SAME(aeth_type, VB_HDR_AETH);
			SAME(aeth_value, VB_HDR_AETH);
			SAME(msn, VB_HDR_AETH);
			SAME(atomic_orig, VB_HDR_ATOMIC_ACK);
			SAME(imm, VB_HDR_IMM);
			SAME(inv_rkey, VB_HDR_IETH);
		}
	}
}

/* What tells of congestion is all zero but for where it goes, and one bit. */
static void test_cnp(void **state)
{
	static const uint8_t want[28] = {
		0x81, 0, 0xff, 0xff, 0x40, 0x12, 0x34, 0x56,
	};
	struct vb_packet pkt = {
		.pkey = VB_PKEY_DEFAULT, .becn = true, .dest_qpn = 0x123456, .opcode = 0x81};
	uint8_t bytes[VB_HDR_MAX];

	memset(bytes, 0xaa, sizeof(bytes));
	assert_int_equal(vb_packet_build(&pkt, bytes, sizeof(bytes)), sizeof(want));
	assert_memory_equal(bytes, want, sizeof(want));
	assert_false(vb_op_is_request(vb_op_row(0x81)));
}

/* Which SRQ stands before what other requests have there: IBA A14.3.2. */
static void test_xrc(void **state)
{
	static const uint8_t want[32] = {
		0xac, 0, 0xff, 0xff, 0,	   0x12, 0x34, 0x56, 0x80, 0, 0,
		7,    0, 0x76, 0x54, 0x32, 1,	 2,    3,    4,	   5, 6,
		7,    8, 0xa1, 0xa2, 0xa3, 0xa4, 0,    0,    16,   0,
	};
	struct vb_packet pkt = {.opcode = 0xac,
				.pkey = VB_PKEY_DEFAULT,
				.ack_req = true,
				.dest_qpn = 0x123456,
				.psn = 7,
				.xrc_srqn = 0x765432,
				.va = 0x0102030405060708,
				.rkey = 0xa1a2a3a4,
				.dma_len = 4096};
	uint8_t bytes[VB_HDR_MAX];

	assert_int_equal(vb_packet_build(&pkt, bytes, sizeof(bytes)), sizeof(want));
	assert_memory_equal(bytes, want, sizeof(want));
}

/* A packet cut anywhere is never read past its end; malloc so that ASan sees it. */
static void test_short(void **state)
{
	uint8_t bytes[256];
	struct vb_packet pkt;

	for (unsigned int op = 0; op < 256; op++) {
		const struct vb_op_row *row = vb_op_row((uint8_t)op);
		size_t total = row ? whole((uint8_t)op, 0, bytes, sizeof(bytes)) : 0;

		for (size_t len = 0; len < total; len++) {
			uint8_t *copy = malloc(len + 1);

			assert_non_null(copy);
			memcpy(copy + 1, bytes, len);
			assert_int_equal(vb_packet_parse(copy + 1, len, &pkt), VB_PARSE_SHORT);
			free(copy);
		}
	}
}

static void test_refused(void **state)
{
	uint8_t bytes[256];
	size_t total = whole(0x04, 3, bytes, sizeof(bytes));
	struct vb_packet pkt;

	assert_int_equal(vb_packet_parse(bytes, total, &pkt), VB_PARSE_OK);
	assert_int_equal(vb_packet_parse(bytes, total - 1, &pkt), VB_PARSE_PAD);
	bytes[1] |= 1;
	assert_int_equal(vb_packet_parse(bytes, total, &pkt), VB_PARSE_VERSION);
	bytes[1] &= 0xf0;
	bytes[0] = 0x15;
	assert_int_equal(vb_packet_parse(bytes, total, &pkt), VB_PARSE_OPCODE);
	/* One byte of padding and no payload at all. */
	total = whole(0x04, 0, bytes, sizeof(bytes));
	bytes[1] |= 0x10;
	assert_int_equal(vb_packet_parse(bytes, total, &pkt), VB_PARSE_PAD);
	total = whole(0x11, 4, bytes, sizeof(bytes));
	assert_int_equal(vb_packet_parse(bytes, total, &pkt), VB_PARSE_PAYLOAD);
}

static void test_build_refused(void **state)
{
	struct vb_packet pkt = full(0x13, 0);
	uint8_t bytes[VB_HDR_MAX];

	assert_int_equal(vb_packet_build(&pkt, bytes, 39), 0);
	assert_int_equal(vb_packet_build(&pkt, bytes, 40), 40);
	pkt.opcode = 0xb3;
	assert_int_equal(vb_packet_build(&pkt, bytes, 43), 0);
	assert_int_equal(vb_packet_build(&pkt, bytes, 44), 44);
	pkt.opcode = 0xff;
	assert_int_equal(vb_packet_build(&pkt, bytes, 40), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip), cmocka_unit_test(test_cnp),
		cmocka_unit_test(test_xrc),	   cmocka_unit_test(test_short),
		cmocka_unit_test(test_refused),	   cmocka_unit_test(test_build_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

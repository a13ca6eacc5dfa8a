/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "rdmacm/rsocket/wire.h"

static const struct vb_rs_conn example = {
	.has_iomap = true,
	.credits = 384,
	.iomap_entries = 512,
	.target = {.addr = 0x1122334455667788, .key = 0x99aabbcc, .length = 2},
	.buffer = {.addr = 0x0102030405060708, .key = 0x0a0b0c0d, .length = 65536},
};

/* Byte for byte: the other end may be rdma-core's. */
static const uint8_t example_bytes[VB_RS_CONN_BYTES] = {
	1,    2,    0x01, 0x80, 0,    0,    0,	  0x82, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66,
	0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0,	  0,	0,    2,    0x01, 0x02, 0x03, 0x04,
	0x05, 0x06, 0x07, 0x08, 0x0a, 0x0b, 0x0c, 0x0d, 0,    1,    0,	  0,
};

static void connection_data(void **state)
{
	uint8_t bytes[VB_RS_CONN_BYTES], padded[56] = {0};
	struct vb_rs_conn conn;

	vb_rs_conn_pack(&example, bytes);
	assert_memory_equal(bytes, example_bytes, sizeof(bytes));
	memcpy(padded, bytes, sizeof(bytes));
	assert_true(vb_rs_conn_unpack(padded, sizeof(padded), &conn));
	assert_false(conn.big_endian);
	assert_true(conn.has_iomap);
	assert_int_equal(conn.credits, 384);
	assert_int_equal(conn.iomap_entries, 512);
	assert_memory_equal(&conn.target, &example.target, sizeof(conn.target));
	assert_memory_equal(&conn.buffer, &example.buffer, sizeof(conn.buffer));
}

static void connection_data_that_leads_nowhere(void **state)
{
	/* version, credits, entries of the target list, room */
	static const struct {
		int at, value;
	} wrong[] = {{0, 2}, {0, 0}, {2, 0}, {23, 0}, {37, 0}};
	uint8_t bytes[VB_RS_CONN_BYTES];
	struct vb_rs_conn conn;

	assert_false(vb_rs_conn_unpack(NULL, 0, &conn));
	assert_false(vb_rs_conn_unpack(example_bytes, sizeof(example_bytes) - 1, &conn));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		memcpy(bytes, example_bytes, sizeof(bytes));
		bytes[3] = wrong[i].at == 2 ? 0 : bytes[3];
		bytes[wrong[i].at] = (uint8_t)wrong[i].value;
		assert_false(vb_rs_conn_unpack(bytes, sizeof(bytes), &conn));
	}
	/* Without the flag the peer has no mappings, whatever the byte says. */
	memcpy(bytes, example_bytes, sizeof(bytes));
	bytes[1] = 1;
	assert_true(vb_rs_conn_unpack(bytes, sizeof(bytes), &conn));
	assert_true(conn.big_endian);
	assert_int_equal(conn.iomap_entries, 0);
}

static void numbers_of_mappings(void **state)
{
	static const uint32_t rows[][2] = {{0, 0},     {1, 1},	       {128, 128},
					   {129, 0},   {255, 0},       {256, 256},
					   {600, 512}, {32512, 32512}, {65535, 32512}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint16_t got = vb_rs_iomap_round(rows[i][0]);

		/* Between 128 and 256 there is only 128. */
		assert_int_equal(got, rows[i][1] ? rows[i][1] : rows[i][0] ? 128 : 0);
	}
}

static void messages(void **state)
{
	uint32_t msg = vb_rs_msg(VB_RS_OP_SGL, 1000);

	assert_int_equal(msg, 0x800003e8);
	assert_int_equal(vb_rs_msg_op(msg), VB_RS_OP_SGL);
	assert_int_equal(vb_rs_msg_value(msg), 1000);
	assert_int_equal(vb_rs_msg(VB_RS_OP_DATA, 65536), 65536);
	assert_int_equal(vb_rs_msg(VB_RS_OP_CTRL, VB_RS_CTRL_SHUTDOWN), 0xe0000002);
	assert_int_equal(vb_rs_msg(VB_RS_OP_IOMAP, 5), 0xc0000005);
}

static void swapped_entries(void **state)
{
	struct vb_rs_sge sge = {.addr = 1, .key = 2, .length = 3};

	sge = vb_rs_sge_swap(sge, true);
	assert_true(sge.addr == 1ull << 56 && sge.key == 2u << 24 && sge.length == 3u << 24);
	sge = vb_rs_sge_swap(sge, false);
	assert_true(sge.key == 2u << 24);
}

static void headers_of_datagrams(void **state)
{
	static const uint8_t v4[] = {4, 8, 0x1c, 0x06, 127, 0, 0, 1};
	struct vb_ds_hdr hdr = {.port_be = htobe16(0x1c06), .addr = {127, 0, 0, 1}}, back;
	uint8_t bytes[VB_DS_HDR_MAX];

	assert_int_equal(vb_ds_hdr_pack(&hdr, bytes), sizeof(v4));
	assert_memory_equal(bytes, v4, sizeof(v4));
	assert_int_equal(vb_ds_hdr_unpack(bytes, 8, &back), 8);
	assert_memory_equal(&back, &hdr, sizeof(hdr));
	assert_int_equal(vb_ds_hdr_unpack(bytes, 7, &back), 0);
	bytes[1] = 24;
	assert_int_equal(vb_ds_hdr_unpack(bytes, 8, &back), 0);
	bytes[0] = 5;
	assert_int_equal(vb_ds_hdr_unpack(bytes, 8, &back), 0);

	hdr = (struct vb_ds_hdr){.v6 = true, .port_be = 1, .flowinfo_be = 7, .addr = {0xfe, 0x80}};
	assert_int_equal(vb_ds_hdr_pack(&hdr, bytes), 24);
	assert_int_equal(vb_ds_hdr_unpack(bytes, 23, &back), 0);
	assert_int_equal(vb_ds_hdr_unpack(bytes, 24, &back), 24);
	assert_memory_equal(&back, &hdr, sizeof(hdr));
}

static void headers_by_udp(void **state)
{
	static const uint8_t v4[] = {0x55, 0x55, 0x55, 0x55, 4,	 0, 16, 0,
				     0,	   0x12, 0x34, 0x56, 10, 0, 0,	2};
	struct vb_ds_udp hdr = {.data = true, .qpn = 0xff123456, .addr = {10, 0, 0, 2}}, back;
	uint8_t bytes[VB_DS_UDP_HDR_MAX];

	assert_int_equal(vb_ds_udp_pack(&hdr, bytes), sizeof(v4));
	assert_memory_equal(bytes, v4, sizeof(v4));
	assert_int_equal(vb_ds_udp_unpack(bytes, 16, &back), 16);
	assert_true(back.data && !back.v6);
	assert_int_equal(back.qpn, 0x123456);
	assert_int_equal(vb_ds_udp_unpack(bytes, 15, &back), 0);
	bytes[5] = 7;
	assert_int_equal(vb_ds_udp_unpack(bytes, 16, &back), 16);
	assert_false(back.data);
	bytes[5] = 3;
	assert_int_equal(vb_ds_udp_unpack(bytes, 16, &back), 0);
	bytes[5] = 0;
	bytes[6] = 28;
	assert_int_equal(vb_ds_udp_unpack(bytes, 16, &back), 0);
	bytes[0] = 0;
	assert_int_equal(vb_ds_udp_unpack(bytes, 28, &back), 0);

	hdr.v6 = true;
	assert_int_equal(vb_ds_udp_pack(&hdr, bytes), 28);
	assert_int_equal(vb_ds_udp_unpack(bytes, 27, &back), 0);
	assert_int_equal(vb_ds_udp_unpack(bytes, 28, &back), 28);
	assert_true(back.v6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connection_data),
		cmocka_unit_test(connection_data_that_leads_nowhere),
		cmocka_unit_test(numbers_of_mappings),
		cmocka_unit_test(messages),
		cmocka_unit_test(swapped_entries),
		cmocka_unit_test(headers_of_datagrams),
		cmocka_unit_test(headers_by_udp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

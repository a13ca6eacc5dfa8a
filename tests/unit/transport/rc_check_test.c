/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "lib/resp_rows.h"

static struct row_bed bed;

static void test_rights_by_kind(void **state)
{
	static const struct {
		enum vb_msg_kind kind;
		uint32_t right;
	} rows[] = {
		{VB_MSG_SEND, 0},
		{VB_MSG_WRITE, VB_ACCESS_REMOTE_WRITE},
		{VB_MSG_READ, VB_ACCESS_REMOTE_READ},
		{VB_MSG_CMP_SWP, VB_ACCESS_REMOTE_ATOMIC},
		{VB_MSG_FETCH_ADD, VB_ACCESS_REMOTE_ATOMIC},
	};

	for (size_t i = 0; i < 5; i++) {
		row_bed_init(&bed, rows[i].kind);
		for (uint32_t access = 0; access < 16; access++) {
			bool ok = (access & rows[i].right) == rows[i].right;
			enum vb_verdict v;

			bed.qp.access = access;
			v = vb_rc_check_qp_access(&bed.qp, rows[i].kind);
			assert_int_equal(v, ok ? VB_V_ACCEPTED : VB_V_ACC_QP_FLAGS);
			bed.env.keys[0].access = access;
			v = vb_rc_check_key(&bed.qp, true, &bed.env.keys[0], rows[i].kind, ROW_BASE,
					    8);
			assert_int_equal(v, ok ? VB_V_ACCEPTED : VB_V_ACC_KEY_RIGHT);
		}
	}
}

/* Every range of a small key, and every one that leaves it, wrapping included. */
static void test_range(void **state)
{
	static const uint64_t starts[] = {0, 1, 100, UINT64_MAX - 7};

	row_bed_init(&bed, VB_MSG_WRITE);
	for (size_t s = 0; s < 4; s++) {
		struct vb_key key = bed.env.keys[0];

		key.start = starts[s];
		key.length = 8;
		for (uint64_t addr = starts[s] - 3; addr != starts[s] + 12; addr++) {
			for (uint64_t len = 1; len < 12; len++) {
				bool ok = addr - starts[s] < 8 && addr - starts[s] + len <= 8;

				assert_int_equal(vb_rc_check_key(&bed.qp, true, &key, VB_MSG_WRITE,
								 addr, len),
						 ok ? VB_V_ACCEPTED : VB_V_ACC_KEY_RANGE);
			}
			assert_int_equal(vb_rc_check_key(&bed.qp, true, &key, VB_MSG_WRITE, addr,
							 UINT64_MAX),
					 VB_V_ACC_KEY_RANGE);
		}
	}
}

static void test_rd_atomic(void **state)
{
	row_bed_init(&bed, VB_MSG_READ);
	for (uint32_t busy = 0; busy < 8; busy++) {
		bool ok = busy < 4;

		for (int kind = VB_MSG_READ; kind <= VB_MSG_FETCH_ADD; kind++)
			assert_int_equal(
				vb_rc_check_rd_atomic(&bed.qp, (enum vb_msg_kind)kind, busy),
				ok ? VB_V_ACCEPTED : VB_V_INV_RD_ATOMIC);
		assert_int_equal(vb_rc_check_rd_atomic(&bed.qp, VB_MSG_SEND, busy), VB_V_ACCEPTED);
		assert_int_equal(vb_rc_check_rd_atomic(&bed.qp, VB_MSG_WRITE, busy), VB_V_ACCEPTED);
	}
}

static void test_lengths(void **state)
{
	row_bed_init(&bed, VB_MSG_WRITE);
	assert_int_equal(vb_rc_check_msg_length(VB_MSG_WRITE, VB_MAX_MSG), VB_V_ACCEPTED);
	assert_int_equal(vb_rc_check_msg_length(VB_MSG_WRITE, VB_MAX_MSG + 1), VB_V_INV_MSG_LEN);
	assert_int_equal(vb_rc_check_msg_length(VB_MSG_CMP_SWP, 8), VB_V_ACCEPTED);
	assert_int_equal(vb_rc_check_msg_length(VB_MSG_FETCH_ADD, 16), VB_V_INV_MSG_LEN);
	assert_int_equal(vb_rc_check_packets(&bed.qp, VB_MSG_READ, 3 * ROW_MTU, 3), VB_V_ACCEPTED);
	assert_int_equal(vb_rc_check_packets(&bed.qp, VB_MSG_READ, 3 * ROW_MTU, 4),
			 VB_V_INV_PACKET_LEN);
	assert_int_equal(vb_rc_check_packets(&bed.qp, VB_MSG_SEND, 0, 1), VB_V_ACCEPTED);
	assert_int_equal(vb_rc_check_packets(&bed.qp, VB_MSG_SEND, 0, 0), VB_V_INV_PACKET_LEN);
	assert_int_equal(vb_rc_check_packets(&bed.qp, VB_MSG_CMP_SWP, 8, 2), VB_V_INV_PACKET_LEN);
}

/* The facts of a key that was not found do not count. */
static void test_unknown_key(void **state)
{
	struct vb_key key;

	row_bed_init(&bed, VB_MSG_SEND);
	key = bed.env.keys[1];
	assert_int_equal(vb_rc_check_invalidate(&bed.qp, true, &key), VB_V_ACCEPTED);
	assert_int_equal(vb_rc_check_invalidate(&bed.qp, false, &key), VB_V_ACC_INVALIDATE);
	key = bed.env.keys[0];
	assert_int_equal(vb_rc_check_key(&bed.qp, true, &key, VB_MSG_READ, ROW_BASE, 1),
			 VB_V_ACCEPTED);
	assert_int_equal(vb_rc_check_key(&bed.qp, false, &key, VB_MSG_READ, ROW_BASE, 1),
			 VB_V_ACC_KEY_UNKNOWN);
}

/* The wire knows no source QP number, only an address. */
static void test_source(void **state)
{
	row_bed_init(&bed, VB_MSG_SEND);
	bed.msg.src.has_qpn = false;
	bed.msg.src.qpn = 0;
	assert_int_equal(vb_rc_check_peer(&bed.qp, &bed.msg.src), VB_V_ACCEPTED);
	bed.msg.src.gid[0]++;
	assert_int_equal(vb_rc_check_peer(&bed.qp, &bed.msg.src), VB_V_DROP_PEER);
	bed.msg.src.has_gid = false;
	bed.msg.src.has_qpn = true;
	assert_int_equal(vb_rc_check_peer(&bed.qp, &bed.msg.src), VB_V_DROP_PEER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rights_by_kind), cmocka_unit_test(test_range),
		cmocka_unit_test(test_rd_atomic),      cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_source),	       cmocka_unit_test(test_unknown_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

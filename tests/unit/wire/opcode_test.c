/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "wire/opcode.h"

/* IBA's own table, written down once more: number, bytes of headers. */
static void test_lengths(void **state)
{
	static const struct {
		uint8_t opcode, length;
	} want[] = {
		{0x00, 12}, {0x01, 12}, {0x02, 12}, {0x03, 16}, {0x04, 12}, {0x05, 16}, {0x06, 28},
		{0x07, 12}, {0x08, 12}, {0x09, 16}, {0x0a, 28}, {0x0b, 32}, {0x0c, 28}, {0x0d, 16},
		{0x0e, 12}, {0x0f, 16}, {0x10, 16}, {0x11, 16}, {0x12, 24}, {0x13, 40}, {0x14, 40},
		{0x16, 16}, {0x17, 16}, {0x20, 12}, {0x21, 12}, {0x22, 12}, {0x23, 16}, {0x24, 12},
		{0x25, 16}, {0x26, 28}, {0x27, 12}, {0x28, 12}, {0x29, 16}, {0x2a, 28}, {0x2b, 32},
		{0x64, 20}, {0x65, 24}, {0x81, 28}, {0xa0, 16}, {0xa1, 16}, {0xa2, 16}, {0xa3, 20},
		{0xa4, 16}, {0xa5, 20}, {0xa6, 32}, {0xa7, 16}, {0xa8, 16}, {0xa9, 20}, {0xaa, 32},
		{0xab, 36}, {0xac, 32}, {0xad, 16}, {0xae, 12}, {0xaf, 16}, {0xb0, 16}, {0xb1, 16},
		{0xb2, 24}, {0xb3, 44}, {0xb4, 44}, {0xb6, 20}, {0xb7, 20},
	};
	int known = 0;

	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		assert_non_null(vb_op_row(want[i].opcode));
		assert_int_equal(vb_op_row(want[i].opcode)->length, want[i].length);
	}
	for (unsigned int op = 0; op < 256; op++) {
		const struct vb_op_row *row = vb_op_row((uint8_t)op);

		if (!row)
			continue;
		known++;
		assert_int_equal(row->service, op >> 5);
		assert_true(row->length <= VB_HDR_MAX);
		assert_int_equal(row->extra == VB_EXTRA_IMM, !!(row->headers & VB_HDR_IMM));
		assert_int_equal(row->extra == VB_EXTRA_INV, !!(row->headers & VB_HDR_IETH));
		assert_int_equal(row->service == VB_SVC_XRC && vb_op_is_request(row),
				 !!(row->headers & VB_HDR_XRCETH));
	}
	assert_int_equal(known, sizeof(want) / sizeof(want[0]));
}

static void test_find(void **state)
{
	uint8_t op;

	/* Every row is found by its own description. */
	for (unsigned int i = 0; i < 256; i++) {
		const struct vb_op_row *row = vb_op_row((uint8_t)i);

		if (!row)
			continue;
		assert_true(vb_op_find(row->service, row->kind, row->pos, row->extra, &op));
		assert_int_equal(op, i);
	}
	/* An immediate travels with the last packet only. */
	assert_true(vb_op_find(VB_SVC_RC, VB_OP_SEND, VB_POS_FIRST, VB_EXTRA_IMM, &op));
	assert_int_equal(op, 0x00);
	assert_true(vb_op_find(VB_SVC_RC, VB_OP_WRITE, VB_POS_LAST, VB_EXTRA_IMM, &op));
	assert_int_equal(op, 0x09);
	assert_true(vb_op_find(VB_SVC_XRC, VB_OP_SEND, VB_POS_ONLY, VB_EXTRA_INV, &op));
	assert_int_equal(op, 0xb7);
	assert_false(vb_op_find(VB_SVC_UC, VB_OP_READ, VB_POS_ONLY, VB_EXTRA_NONE, &op));
	assert_false(vb_op_find(VB_SVC_UD, VB_OP_SEND, VB_POS_FIRST, VB_EXTRA_NONE, &op));
	assert_false(vb_op_find(VB_SVC_RC, VB_OP_WRITE, VB_POS_ONLY, VB_EXTRA_INV, &op));
}

static void test_predicates(void **state)
{
	assert_true(vb_op_is_first(vb_op_row(0x00)) && !vb_op_is_last(vb_op_row(0x00)));
	assert_true(!vb_op_is_first(vb_op_row(0x01)) && !vb_op_is_last(vb_op_row(0x01)));
	assert_true(!vb_op_is_first(vb_op_row(0x02)) && vb_op_is_last(vb_op_row(0x02)));
	assert_true(vb_op_is_first(vb_op_row(0x04)) && vb_op_is_last(vb_op_row(0x04)));
	assert_true(vb_op_is_request(vb_op_row(0x14)) && vb_op_is_atomic(vb_op_row(0x14)));
	assert_true(vb_op_is_atomic(vb_op_row(0x13)) && !vb_op_is_atomic(vb_op_row(0x0c)));
	assert_true(vb_op_is_request(vb_op_row(0x0c)) && !vb_op_is_request(vb_op_row(0x0d)));
	assert_false(vb_op_is_request(vb_op_row(0x11)));
	assert_null(vb_op_row(0x15));
	assert_null(vb_op_row(0xff));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_find),
		cmocka_unit_test(test_predicates),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

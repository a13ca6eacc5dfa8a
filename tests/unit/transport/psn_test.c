/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "transport/psn.h"

static void test_diff(void **state)
{
	assert_int_equal(vb_psn_diff(vb_psn(5), vb_psn(3)), 2);
	assert_int_equal(vb_psn_diff(vb_psn(3), vb_psn(5)), -2);
	assert_int_equal(vb_psn_diff(vb_psn(1), vb_psn(0xffffff)), 2);
	assert_int_equal(vb_psn_diff(vb_psn(0xffffff), vb_psn(1)), -2);
	assert_int_equal(vb_psn_diff(vb_psn(0x7fffff), vb_psn(0)), 0x7fffff);
	assert_int_equal(vb_psn_diff(vb_psn(0x800000), vb_psn(0)), -0x800000);
	assert_int_equal(vb_psn_diff(vb_psn(9), vb_psn(9)), 0);
}

static void test_add(void **state)
{
	assert_int_equal(vb_psn(0x1000005).v, 5);
	assert_int_equal(vb_psn_add(vb_psn(0xffffff), 1).v, 0);
	assert_int_equal(vb_psn_add(vb_psn(0), -1).v, 0xffffff);
	assert_int_equal(vb_psn_add(vb_psn(0xfffff0), 0x20).v, 0x10);
	assert_true(vb_psn_before(vb_psn(0xffffff), vb_psn(0)));
	assert_false(vb_psn_before(vb_psn(0), vb_psn(0)));
	assert_false(vb_psn_before(vb_psn(0), vb_psn(0xffffff)));
	assert_true(vb_psn_eq(vb_psn(0x1000000), vb_psn(0)));
}

static void test_count(void **state)
{
	assert_int_equal(vb_psn_count(0, 1024), 1);
	assert_int_equal(vb_psn_count(1, 1024), 1);
	assert_int_equal(vb_psn_count(1024, 1024), 1);
	assert_int_equal(vb_psn_count(1025, 1024), 2);
	assert_int_equal(vb_psn_count(UINT64_C(1) << 31, 256), 1 << 23);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_diff),
		cmocka_unit_test(test_add),
		cmocka_unit_test(test_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

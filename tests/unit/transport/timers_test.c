/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "transport/timers.h"

static void test_ack(void **state)
{
	assert_true(vb_timer_ack_ns(0) == VB_NEVER);
	assert_int_equal(vb_timer_ack_ns(1), 8192);
	assert_int_equal(vb_timer_ack_ns(14), 67108864);
	assert_int_equal(vb_timer_ack_ns(31), UINT64_C(4096) << 31);
}

/* The list of the manual page, in units of 10 us. */
static void test_rnr(void **state)
{
	static const double ms[32] = {
		655.36, 0.01,  0.02,  0.03,  0.04,  0.06,   0.08,   0.12,   0.16,   0.24,   0.32,
		0.48,	0.64,  0.96,  1.28,  1.92,  2.56,   3.84,   5.12,   7.68,   10.24,  15.36,
		20.48,	30.72, 40.96, 61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52,
	};

	for (uint8_t i = 0; i < 32; i++)
		assert_int_equal(vb_timer_rnr_ns(i), (uint64_t)(ms[i] * 1e6 + 0.5));
	assert_int_equal(vb_timer_rnr_ns(32), vb_timer_rnr_ns(0));
}

static void test_after(void **state)
{
	assert_int_equal(vb_timer_after(5, 7), 12);
	assert_true(vb_timer_after(5, VB_NEVER) == VB_NEVER);
	assert_true(vb_timer_after(VB_NEVER - 3, 7) == VB_NEVER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ack),
		cmocka_unit_test(test_rnr),
		cmocka_unit_test(test_after),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rules.h"
#include "object/mr.h"

static uint8_t byte;

static void test_access(void **state)
{
	static const struct {
		unsigned int access;
		int err;
	} rows[] = {
		{0, 0},
		{0xf, 0},
		{IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED, 0},
		{IBV_ACCESS_REMOTE_READ, 0},
		{IBV_ACCESS_REMOTE_WRITE, EINVAL},
		{IBV_ACCESS_REMOTE_ATOMIC, EINVAL},
		{IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_REMOTE_READ, EINVAL},
		{256, EOPNOTSUPP},
		{512, EOPNOTSUPP},
		{1u << 10, EINVAL},
		{1u << 19, EINVAL},
		{1u << 20, 0}, /* relaxed ordering, and the other optional bits */
		{0x3ff00000, 0},
		{1u << 30, EINVAL},
		{1u << 31, EINVAL},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(
			vb_mr_check(&byte, 1, (uintptr_t)&byte, rows[i].access, UINT64_MAX),
			rows[i].err);
}

static void test_ranges(void **state)
{
	void *high = (void *)(UINTPTR_MAX - 15);

	assert_int_equal(vb_mr_check(&byte, 0, 0, 0, UINT64_MAX), EINVAL);
	assert_int_equal(vb_mr_check(&byte, 100, 0, 0, 100), 0);
	assert_int_equal(vb_mr_check(&byte, 101, 0, 0, 100), EINVAL);
	assert_int_equal(vb_mr_check(high, 15, 0, 0, UINT64_MAX), 0);
	assert_int_equal(vb_mr_check(high, 17, 0, 0, UINT64_MAX), EINVAL);
	assert_int_equal(vb_mr_check(&byte, 17, UINT64_MAX - 15, 0, UINT64_MAX), EINVAL);
	assert_int_equal(vb_mr_check(&byte, SIZE_MAX, 0, 0, UINT64_MAX), EINVAL);
}

static void test_texts(void **state)
{
	char text[200], small[8] = "xxxxxxx";

	assert_string_equal(vb_mr_access_text(0, text, sizeof(text)), "none");
	assert_string_equal(vb_mr_access_text(3, text, sizeof(text)), "LOCAL_WRITE|REMOTE_WRITE");
	assert_string_equal(vb_mr_access_text(4 | 1u << 30, text, sizeof(text)),
			    "REMOTE_READ|0x40000000");
	vb_mr_access_text(UINT32_MAX, small, 4);
	assert_int_equal(strlen(small), 3);
	assert_int_equal(small[4], 'x');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_access),
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_texts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

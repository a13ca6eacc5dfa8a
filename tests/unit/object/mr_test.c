/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "object/mr.h"

#define LOCAL IBV_ACCESS_LOCAL_WRITE

static void test_access(void **state)
{
	const struct {
		unsigned int access;
		int err;
	} rows[] = {
		{0, 0},
		{LOCAL | VB_MR_REMOTE | IBV_ACCESS_ZERO_BASED, 0},
		{LOCAL | IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB, 0},
		{IBV_ACCESS_REMOTE_READ, 0},
		{1u << 20, 0},
		{0x3ff00000u, 0},
		{IBV_ACCESS_REMOTE_WRITE, EINVAL},
		{IBV_ACCESS_REMOTE_ATOMIC, EINVAL},
		{LOCAL | IBV_ACCESS_HUGETLB, EINVAL},
		{1u << 10, EINVAL},
		{1u << 19, EINVAL},
		{1u << 30, EINVAL},
		{1u << 31, EINVAL},
		{LOCAL | 256, EOPNOTSUPP},
		{LOCAL | 512, EOPNOTSUPP},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(vb_mr_check_access(rows[i].access), rows[i].err);
}

static void test_ranges(void **state)
{
	const struct {
		uintptr_t addr;
		size_t length;
		uint64_t iova;
		uint64_t max;
		int err;
	} rows[] = {
		{4096, 1, 4096, UINT64_MAX, 0},
		{4096, 100, 0, 100, 0},
		{4096, 0, 4096, UINT64_MAX, EINVAL},
		{4096, 101, 0, 100, EINVAL},
		{UINTPTR_MAX - 9, 10, 0, UINT64_MAX, EINVAL},
		{UINTPTR_MAX - 9, 9, 0, UINT64_MAX, 0},
		{4096, 10, UINT64_MAX - 9, UINT64_MAX, EINVAL},
		{0, SIZE_MAX, 0, UINT64_MAX, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(vb_mr_check((void *)rows[i].addr, rows[i].length, rows[i].iova,
					     LOCAL, rows[i].max),
				 rows[i].err);
}

static void test_implicit(void **state)
{
	static uint8_t byte;
	const unsigned int huge = IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB;

	assert_true(vb_mr_implicit(NULL, SIZE_MAX, IBV_ACCESS_ON_DEMAND));
	assert_false(vb_mr_implicit(NULL, SIZE_MAX, LOCAL));
	assert_false(vb_mr_implicit(NULL, SIZE_MAX - 1, IBV_ACCESS_ON_DEMAND));
	assert_false(vb_mr_implicit(&byte, SIZE_MAX, IBV_ACCESS_ON_DEMAND));
	assert_int_equal(vb_mr_check(NULL, SIZE_MAX, 0, huge, UINT64_MAX), EINVAL);
	assert_int_equal(vb_mr_check(&byte, 1, 0, huge, UINT64_MAX), 0);
}

static void test_text(void **state)
{
	char text[160];

	assert_string_equal(vb_mr_access_text(0, text, sizeof(text)), "none");
	assert_string_equal(vb_mr_access_text(LOCAL | IBV_ACCESS_ON_DEMAND, text, sizeof(text)),
			    "LOCAL_WRITE|ON_DEMAND");
	assert_string_equal(vb_mr_access_text(LOCAL | 1u << 19, text, sizeof(text)),
			    "LOCAL_WRITE|0x80000");
	assert_string_equal(vb_mr_access_text(LOCAL | IBV_ACCESS_ON_DEMAND, text, 8), "LOCAL_W");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_access),
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_implicit),
		cmocka_unit_test(test_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

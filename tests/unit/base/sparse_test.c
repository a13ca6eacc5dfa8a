/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/sparse.h"

static struct vb_sparse table;

static void test_set_get(void **state)
{
	static const uint32_t at[] = {0, 1, 255, 256, 257, 70000, VB_SPARSE_MAX - 1};
	static int things[7];

	for (int i = 0; i < 7; i++) {
		assert_null(vb_sparse_get(&table, at[i]));
		assert_int_equal(vb_sparse_set(&table, at[i], &things[i]), 0);
	}
	for (int i = 0; i < 7; i++)
		assert_ptr_equal(vb_sparse_get(&table, at[i]), &things[i]);
	assert_null(vb_sparse_get(&table, 2));
	assert_null(vb_sparse_get(&table, 5000));
	assert_int_equal(vb_sparse_set(&table, 256, NULL), 0);
	assert_null(vb_sparse_get(&table, 256));
	assert_ptr_equal(vb_sparse_get(&table, 255), &things[2]);
	assert_ptr_equal(vb_sparse_get(&table, 257), &things[4]);
	vb_sparse_fini(&table);
	for (int i = 0; i < 7; i++)
		assert_null(vb_sparse_get(&table, at[i]));
}

static void test_outside(void **state)
{
	assert_int_equal(vb_sparse_set(&table, VB_SPARSE_MAX, &table), -EINVAL);
	assert_int_equal(vb_sparse_set(&table, UINT32_MAX, &table), -EINVAL);
	assert_null(vb_sparse_get(&table, VB_SPARSE_MAX));
	assert_null(vb_sparse_get(&table, UINT32_MAX));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_set_get),
		cmocka_unit_test(test_outside),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/idtable.h"

static int objects[4096];

static void test_numbers(void **state)
{
	struct vb_idtable table;
	uint32_t a, b;

	vb_idtable_init(&table, 7, 100);
	assert_null(vb_idtable_lookup(&table, 7));
	assert_int_equal(vb_idtable_add(&table, &objects[0], &a), 0);
	assert_int_equal(vb_idtable_add(&table, &objects[1], &b), 0);
	assert_int_equal(a, 7);
	assert_int_equal(b, 8);
	assert_ptr_equal(vb_idtable_lookup(&table, a), &objects[0]);
	assert_ptr_equal(vb_idtable_lookup(&table, b), &objects[1]);
	assert_int_equal(vb_idtable_count(&table), 2);
	assert_ptr_equal(vb_idtable_remove(&table, a), &objects[0]);
	assert_null(vb_idtable_remove(&table, a));
	assert_null(vb_idtable_lookup(&table, a));
	assert_int_equal(vb_idtable_count(&table), 1);
	vb_idtable_fini(&table);
}

static void test_strange_numbers(void **state)
{
	static const uint32_t strange[] = {0,	1,	    6,		8,	   106,
					   107, 0x7fffffff, 0x80000000, UINT32_MAX};
	struct vb_idtable table;
	uint32_t id;

	vb_idtable_init(&table, 7, 100);
	assert_int_equal(vb_idtable_add(&table, &objects[0], &id), 0);
	for (size_t i = 0; i < sizeof(strange) / sizeof(strange[0]); i++) {
		assert_null(vb_idtable_lookup(&table, strange[i]));
		assert_null(vb_idtable_remove(&table, strange[i]));
	}
	assert_int_equal(vb_idtable_count(&table), 1);
	vb_idtable_fini(&table);
}

static void test_limit_is_exact(void **state)
{
	static const uint32_t limits[] = {1, 2, 63, 64, 65, 127, 128, 129, 1000};

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct vb_idtable table;
		uint32_t id, last = 0;

		vb_idtable_init(&table, 1, limits[i]);
		for (uint32_t n = 0; n < limits[i]; n++) {
			assert_int_equal(vb_idtable_add(&table, &objects[n], &last), 0);
			assert_in_range(last, 1, limits[i]);
		}
		assert_int_equal(vb_idtable_add(&table, &objects[0], &id), -ENOSPC);
		assert_non_null(vb_idtable_remove(&table, last));
		assert_int_equal(vb_idtable_add(&table, &objects[0], &id), 0);
		assert_int_equal(id, last);
		vb_idtable_fini(&table);
	}
}

static void test_released_number_comes_back_last(void **state)
{
	struct vb_idtable table;
	uint32_t first, id;

	vb_idtable_init(&table, 1, 4096);
	assert_int_equal(vb_idtable_add(&table, &objects[0], &first), 0);
	vb_idtable_remove(&table, first);
	for (int i = 0; i < 63; i++) {
		assert_int_equal(vb_idtable_add(&table, &objects[i], &id), 0);
		assert_int_not_equal(id, first);
		vb_idtable_remove(&table, id);
	}
	vb_idtable_fini(&table);
}

static void test_larger_circle(void **state)
{
	struct vb_idtable table;
	uint32_t id;

	vb_idtable_init(&table, 1, 4096);
	assert_int_equal(vb_idtable_reserve(&table, 1000, 1023 + 1024), 0);
	for (uint32_t i = 0; i < 3000; i++) {
		assert_int_equal(vb_idtable_add(&table, &objects[0], &id), 0);
		assert_int_equal(id, 1 + (1023 + i) % 1024);
		vb_idtable_remove(&table, id);
	}
	vb_idtable_fini(&table);
	vb_idtable_init(&table, 1, 100);
	assert_int_equal(vb_idtable_reserve(&table, 1000, 0), 0);
	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(vb_idtable_add(&table, &objects[0], &id), 0);
	assert_int_equal(vb_idtable_add(&table, &objects[0], &id), -ENOSPC);
	vb_idtable_fini(&table);
}

/* A model beside the table, thousands of random steps. */
static void test_random_walk(void **state)
{
	struct vb_idtable table;
	void *model[301] = {0};
	uint32_t used = 0;

	srand(4711);
	vb_idtable_init(&table, 1, 300);
	for (int step = 0; step < 200000; step++) {
		uint32_t id = (uint32_t)(rand() % 302);
		void *want = id <= 300 ? model[id] : NULL;

		if (rand() % 2) {
			int err = vb_idtable_add(&table, &objects[step % 4096], &id);

			assert_int_equal(err, used == 300 ? -ENOSPC : 0);
			if (err)
				continue;
			assert_in_range(id, 1, 300);
			assert_null(model[id]);
			model[id] = &objects[step % 4096];
			used++;
		} else {
			assert_ptr_equal(vb_idtable_lookup(&table, id), want);
			assert_ptr_equal(vb_idtable_remove(&table, id), want);
			if (want) {
				model[id] = NULL;
				used--;
			}
		}
		assert_int_equal(vb_idtable_count(&table), used);
	}
	vb_idtable_fini(&table);
}

static int count_until(void *object, void *arg)
{
	int *left = arg;

	return --*left ? 0 : 42;
}

static void mark(void *object, void *arg)
{
	*(void **)arg = object;
}

static void test_each_and_visit(void **state)
{
	struct vb_idtable table;
	void *seen = NULL;
	uint32_t id;
	int left = 100;

	vb_idtable_init(&table, 5, 100);
	assert_int_equal(vb_idtable_each(&table, count_until, &left), 0);
	for (int i = 0; i < 10; i++)
		assert_int_equal(vb_idtable_add(&table, &objects[i], &id), 0);
	assert_int_equal(vb_idtable_each(&table, count_until, &left), 0);
	assert_int_equal(left, 90);
	left = 3;
	assert_int_equal(vb_idtable_each(&table, count_until, &left), 42);
	assert_true(vb_idtable_visit(&table, id, mark, &seen));
	assert_ptr_equal(seen, &objects[9]);
	assert_false(vb_idtable_visit(&table, id + 1, mark, &seen));
	assert_false(vb_idtable_visit(&table, 0, mark, &seen));
	vb_idtable_fini(&table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_strange_numbers),
		cmocka_unit_test(test_limit_is_exact),
		cmocka_unit_test(test_released_number_comes_back_last),
		cmocka_unit_test(test_larger_circle),
		cmocka_unit_test(test_random_walk),
		cmocka_unit_test(test_each_and_visit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

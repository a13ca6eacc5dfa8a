/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "wire/ident.h"

#define PLACES 64

static void test_our_peers_are_held_to_places(void **state)
{
	struct vb_ident i = {0};

	for (int buffer = 0; buffer < 3; buffer++)
		for (uint16_t id = 0; id < 5; id++)
			assert_true(vb_ident_take(&i, id, PLACES));
	assert_false(vb_ident_take(&i, PLACES, PLACES));
	assert_false(vb_ident_take(&i, 0xffff, PLACES));
	assert_true(vb_ident_take(&i, PLACES - 1, PLACES));
	/* Seven in a row now and then change nothing. */
	for (int round = 0; round < 10; round++) {
		for (int n = 0; n < 7; n++)
			assert_false(vb_ident_take(&i, 1000, PLACES));
		assert_true(vb_ident_take(&i, 1, PLACES));
	}
}

/* A counter of all packets that go to this host, of which the connection has every @step-th. */
static void test_who_counts_is_believed(void **state)
{
	for (uint32_t step = 1; step < 40; step++) {
		struct vb_ident i = {0};

		for (uint32_t n = 0; n < 5u << 16; n += step)
			assert_true(vb_ident_take(&i, (uint16_t)(0xff00 + n), PLACES));
	}
}

/* A peer that changed its ways, or was taken for another. */
static void test_who_is_refused_again_and_again_is_believed(void **state)
{
	struct vb_ident i = {0};
	int lost = 0;

	for (int n = 0; n < 100; n++)
		assert_true(vb_ident_take(&i, 0, PLACES));
	for (uint16_t id = 5000; id < 6000; id++)
		lost += !vb_ident_take(&i, id, PLACES);
	assert_int_equal(lost, 7);
	/* Once is enough: its answers may have another kind of numbers than its data. */
	for (int n = 0; n < 100; n++)
		assert_true(vb_ident_take(&i, n % 10 ? 0 : 5000, PLACES));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_our_peers_are_held_to_places),
		cmocka_unit_test(test_who_counts_is_believed),
		cmocka_unit_test(test_who_is_refused_again_and_again_is_believed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

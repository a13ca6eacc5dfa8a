/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "transport/cut.h"

/* Packets of one buffer. */
static void buffer(struct vb_cut *c, uint32_t psn, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		vb_cut_leaves(c, vb_psn_add(vb_psn(psn), i), vb_cut_singly(c) ? 0 : i);
}

static void test_firsts_come_through(void **state)
{
	const uint32_t from = 0xfffffe;
	struct vb_cut c = {0};
	uint32_t i;

	/* Three buffers, of which the first packets come, and so on from the gap. */
	for (i = 0; !vb_cut_singly(&c); i++) {
		assert_true(i < 10);
		for (uint32_t at = 0; at < 3; at++)
			buffer(&c, vb_psn_add(vb_psn(from), i + 5 * at).v, 5);
	}
	assert_int_equal(i, 5);
	/* And it stays so. */
	for (i = 0; i < 10; i++)
		buffer(&c, 100 + i / 2, 7);
	assert_true(vb_cut_singly(&c));
}

/* A probe is one packet, and then it goes on where it was. */
static void test_probes(void **state)
{
	struct vb_cut c = {0};

	for (uint32_t i = 0; i < 4; i++) {
		assert_false(vb_cut_singly(&c));
		buffer(&c, 100 * i, 5);
		buffer(&c, 100 * i + 1, 1);
		/* Again, which is the same loss. */
		buffer(&c, 100 * i + 1, 1);
		buffer(&c, 100 * i + 5, 1);
	}
	assert_true(vb_cut_singly(&c));
}

static void test_others_are_lost(void **state)
{
	struct vb_cut c = {0};

	for (uint32_t i = 0; i < 1000; i++) {
		/* From anywhere in the buffer. */
		buffer(&c, 100 * i, 9);
		buffer(&c, 100 * i + i % 9, 9 - i % 9);
	}
	assert_false(vb_cut_singly(&c));
	/* From before it: nothing is known of the second. */
	for (uint32_t i = 0; i < 100; i++) {
		buffer(&c, 1000 - 5 * i, 1);
		buffer(&c, 1001 - 5 * i, 4);
	}
	assert_false(vb_cut_singly(&c));
}

/* A receiver that takes one message at a time is not ready for the second. */
static void test_receiver_not_ready(void **state)
{
	struct vb_cut c = {0};

	for (uint32_t i = 0; i < 100; i++) {
		buffer(&c, i, 5);
		vb_cut_refused(&c);
	}
	assert_false(vb_cut_singly(&c));
	assert_int_equal(c.lost, 0);
}

/* Nothing is in a buffer with others, or nothing is lost. */
static void test_nothing_to_see(void **state)
{
	struct vb_cut c = {0};

	for (uint32_t i = 0; i < 1000; i++)
		buffer(&c, i / 2, 1);
	assert_false(vb_cut_singly(&c));
	for (uint32_t i = 0; i < 1000; i++)
		buffer(&c, 1000 + 8 * i, 8);
	assert_false(vb_cut_singly(&c));
	assert_int_equal(c.lost, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_firsts_come_through),
		cmocka_unit_test(test_probes),
		cmocka_unit_test(test_others_are_lost),
		cmocka_unit_test(test_receiver_not_ready),
		cmocka_unit_test(test_nothing_to_see),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

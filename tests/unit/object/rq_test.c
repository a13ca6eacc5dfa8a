/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "object/rq.h"

static void test_sizes(void **state)
{
	for (uint32_t wr = 0; wr < 300; wr += 13)
		for (int shared = 0; shared < 2; shared++) {
			struct vb_rq rq = {0};

			assert_int_equal(vb_rq_init(&rq, wr, 3, 77, shared), 0);
			assert_int_equal(rq.max_wr, wr);
			assert_int_equal(rq.max_sge, 3);
			assert_int_equal(rq.pd, 77);
			if (!wr) {
				assert_int_equal(rq.size, 0);
				assert_null(rq.slots);
			} else {
				assert_true(rq.size >= wr);
				assert_int_equal(rq.size & rq.mask, 0);
				assert_ptr_equal(vb_rq_slot(&rq, rq.size), vb_rq_slot(&rq, 0));
				/* The last slot is ours to its end. */
				memset(vb_rq_slot(&rq, rq.mask), 1, rq.stride);
				/* Slots that stopped takers hold leave room for max_wr. */
				assert_int_equal(shared && rq.size > wr, shared);
			}
			for (uint32_t i = 0; shared && i < rq.size; i++)
				assert_true(rq.notes[i].index == VB_NO_RECEIVE);
			vb_rq_fini(&rq);
			assert_null(rq.slots);
		}
}

/* Within the slots that are there; never below what is outstanding. */
static void test_resize(void **state)
{
	struct vb_rq rq = {0};

	assert_int_equal(vb_rq_init(&rq, 16, 1, 0, true), 0);
	atomic_store(&rq.outstanding, 10);
	assert_int_equal(vb_rq_resize(&rq, 9), -EINVAL);
	assert_int_equal(rq.max_wr, 16);
	for (uint32_t wr = 10; wr <= 2 * rq.size; wr++) {
		uint32_t before = rq.max_wr;
		int err = vb_rq_resize(&rq, wr);

		/* Slots that stopped takers hold leave room for all of them. */
		assert_int_equal(err, wr < rq.size / 2 + 1 ? 0 : -ENOSPC);
		assert_int_equal(rq.max_wr, err ? before : wr);
	}
	assert_int_equal(vb_rq_resize(&rq, UINT32_MAX), -ENOSPC);
	vb_rq_fini(&rq);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_resize),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

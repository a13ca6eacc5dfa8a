/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "object/cq.h"

static struct vb_cq cq;

static int clean(void **state)
{
	free(cq.ring);
	memset(&cq, 0, sizeof(cq));
	return 0;
}

static void push(uint64_t wr_id, struct vb_qp *qp)
{
	struct vb_cqe cqe = {.wr_id = wr_id, .qp = qp};

	vb_cq_push(&cq, &cqe);
}

static void take(uint64_t want)
{
	struct vb_cqe cqe;

	assert_true(vb_cq_take(&cq, &cqe));
	assert_int_equal(cqe.wr_id, want);
}

static void test_order(void **state)
{
	struct vb_cqe cqe;
	uint64_t in = 0, out = 0;

	assert_false(vb_cq_take(&cq, &cqe));
	assert_int_equal(vb_cq_reserve(&cq, 100), 0);
	srand(1);
	for (int step = 0; step < 100000; step++) {
		if (rand() % 2 && in - out < 100)
			push(in++, NULL);
		else if (in != out)
			take(out++);
		else
			assert_false(vb_cq_take(&cq, &cqe));
	}
}

/* More room while entries wait: they stay, in their order. */
static void test_growth(void **state)
{
	assert_int_equal(vb_cq_reserve(&cq, 64), 0);
	for (uint64_t i = 0; i < 40; i++)
		push(i, NULL);
	for (uint64_t i = 0; i < 30; i++)
		take(i);
	for (uint64_t i = 40; i < 90; i++)
		push(i, NULL); /* round the ring's end */
	assert_int_equal(vb_cq_reserve(&cq, 1000), 0);
	assert_true(cq.capacity >= 1064);
	for (uint64_t i = 90; i < 1090; i++)
		push(i, NULL);
	for (uint64_t i = 30; i < 1090; i++)
		take(i);
	vb_cq_release(&cq, 1000);
	assert_int_equal(cq.wanted, 64);
}

static void test_purge(void **state)
{
	struct vb_qp *a = (struct vb_qp *)&cq, *b = (struct vb_qp *)&clean;
	struct vb_cqe cqe;

	assert_int_equal(vb_cq_reserve(&cq, 64), 0);
	for (uint64_t i = 0; i < 30; i++)
		push(i, i % 3 ? a : b);
	take(0);
	assert_int_equal(vb_cq_purge(&cq, a), 20);
	for (uint64_t i = 3; i < 30; i += 3)
		take(i);
	assert_false(vb_cq_take(&cq, &cqe));
	assert_int_equal(vb_cq_purge(&cq, b), 0);
	push(77, b);
	take(77);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_order, clean),
		cmocka_unit_test_teardown(test_growth, clean),
		cmocka_unit_test_teardown(test_purge, clean),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

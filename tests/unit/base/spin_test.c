/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>

#include "base/spin.h"

#define ROUNDS 50000

static struct vb_spin lock;
static long counter; /* guarded by lock */

static void *count(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		vb_spin_lock(&lock);
		counter++;
		vb_spin_unlock(&lock);
	}
	return NULL;
}

static void test_excludes(void **state)
{
	pthread_t thread[4];

	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, count, NULL), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(counter, 4 * ROUNDS);
}

static void test_try(void **state)
{
	assert_true(vb_spin_try(&lock));
	assert_false(vb_spin_try(&lock));
	vb_spin_unlock(&lock);
	vb_spin_lock(&lock);
	assert_false(vb_spin_try(&lock));
	vb_spin_unlock(&lock);
	assert_true(vb_spin_try(&lock));
	vb_spin_unlock(&lock);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_try),
		cmocka_unit_test(test_excludes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

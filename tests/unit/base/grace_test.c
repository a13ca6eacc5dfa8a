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
#include <sched.h>
#include <stdatomic.h>

#include "base/grace.h"
#include "base/spin.h"

static struct vb_grace grace;
static atomic_int stop, phase;
static int *_Atomic shared;

static void *reader(void *arg)
{
	while (!atomic_load(&stop)) {
		uint32_t token = vb_grace_enter(&grace);
		int *p = atomic_load(&shared);

		/* What was read inside the section is alive until its end. */
		if (*p != 42)
			abort();
		vb_grace_leave(&grace, token);
	}
	return NULL;
}

static void test_readers(void **state)
{
	pthread_t thread[3];

	atomic_store(&shared, malloc(sizeof(int)));
	*atomic_load(&shared) = 42;
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, reader, NULL), 0);
	for (int i = 0; i < 2000; i++) {
		int *fresh = malloc(sizeof(int)), *old;

		*fresh = 42;
		old = atomic_exchange(&shared, fresh);
		vb_grace_wait(&grace);
		*old = 0;
		free(old);
	}
	atomic_store(&stop, 1);
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	free(atomic_load(&shared));
}

static void *waiter(void *arg)
{
	atomic_store(&phase, 1);
	vb_grace_wait(&grace);
	atomic_store(&phase, 2);
	return NULL;
}

/* A wait lasts as long as a section that was open, however deep, and no longer. */
static void test_wait(void **state)
{
	uint32_t outer = vb_grace_enter(&grace), inner = vb_grace_enter(&grace), later;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, waiter, NULL), 0);
	while (atomic_load(&phase) != 1)
		sched_yield();
	vb_grace_leave(&grace, inner);
	for (int i = 0; i < 200; i++) {
		sched_yield();
		assert_int_equal(atomic_load(&phase), 1);
	}
	while (atomic_load(&grace.generation) % 2 == (outer & 1))
		sched_yield();
	/* One that opens now does not hold it up. */
	later = vb_grace_enter(&grace);
	vb_grace_leave(&grace, outer);
	pthread_join(thread, NULL);
	assert_int_equal(atomic_load(&phase), 2);
	vb_grace_leave(&grace, later);
	vb_grace_wait(&grace);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wait),
		cmocka_unit_test(test_readers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

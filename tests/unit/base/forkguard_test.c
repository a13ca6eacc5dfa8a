/* SPDX-License-Identifier: BSD-2-Clause */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/forkguard.h"
#include "lib/child.h"

static void check_child(void *arg)
{
	const volatile uint8_t *inherited = arg;
	const uint8_t *own;

	CHECK(*inherited == 0);
	own = vb_fork_guard();
	CHECK(own && *own == 1 && own != (const uint8_t *)inherited);
	CHECK(own == vb_fork_guard());
	CHECK(*inherited == 0);
}

static void check_child_and_grandchild(void *arg)
{
	check_child(arg);
	CHECK(run_in_child(check_child, (void *)(uintptr_t)vb_fork_guard()) == 0);
}

static void test_guard(void **state)
{
	const uint8_t *guard = vb_fork_guard();

	assert_non_null(guard);
	assert_int_equal(*guard, 1);
	assert_ptr_equal(guard, vb_fork_guard());
	assert_int_equal(run_in_child(check_child_and_grandchild, (void *)(uintptr_t)guard), 0);
	assert_int_equal(*guard, 1);
}

/* No handler of ours runs in such a child. */
static void test_guard_after_raw_clone(void **state)
{
	const volatile uint8_t *guard = vb_fork_guard();
	pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	int status;

	if (!pid)
		_exit(*guard == 0 ? 0 : 1);
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void check_lock_free(void *arg)
{
	CHECK(pthread_mutex_trylock(vb_fork_lock(VB_FORK_LOCK_DEVICES)) == 0);
}

static void test_locks_are_free_in_a_child(void **state)
{
	pthread_mutex_t *lock = vb_fork_lock(VB_FORK_LOCK_DEVICES);

	assert_ptr_equal(lock, vb_fork_lock(VB_FORK_LOCK_DEVICES));
	assert_ptr_not_equal(lock, vb_fork_lock(VB_FORK_LOCK_ADAPTER));
	pthread_mutex_lock(lock);
	assert_int_equal(run_in_child(check_lock_free, NULL), 0);
	assert_int_not_equal(pthread_mutex_trylock(lock), 0);
	pthread_mutex_unlock(lock);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_guard),
		cmocka_unit_test(test_guard_after_raw_clone),
		cmocka_unit_test(test_locks_are_free_in_a_child),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

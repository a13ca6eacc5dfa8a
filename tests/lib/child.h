/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_TESTS_CHILD_H
#define VB_TESTS_CHILD_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* What a child's checks use: cmocka's own assertions jump back into the parent's code. */
#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			_Exit(1);                                                                  \
		}                                                                                  \
	} while (0)

/** run_in_child() - Run a function in a process of its own
 * @body:   Uses CHECK(); what it sets and opens ends with it
 * Return:  exit status, 0 when it returned; 128 and the signal's number where it was killed
 */
int run_in_child(void (*body)(void *arg), void *arg);

/** run_only() - Leave out all tests but the one that VB_TEST_ONLY names, where that is set */
void run_only(void);

/** enter_namespace() - Move to an empty network namespace
 * The loopback interface is there and down. An ordinary user takes a user namespace too.
 * Return:  false where the system forbids it
 */
bool enter_namespace(void);

/** can_enter_namespace() - Whether enter_namespace() would succeed, found out in a child */
bool can_enter_namespace(void);

/** CHECKED_IN_CHILD() - The cmocka test test_NAME: check_NAME(NULL) in a process of its own */
#define CHECKED_IN_CHILD(name)                                                                     \
	static void test_##name(void **state)                                                      \
	{                                                                                          \
		assert_int_equal(run_in_child(check_##name, NULL), 0);                             \
	}

/** open_descriptors() - How many this process has */
int open_descriptors(void);

/** enter_other() - Move to the network namespace that VB_TEST_OTHER names, where that is set
 * So that the other end of a test is on another host. Ends the process where it cannot.
 */
void enter_other(void);

/** run_ip() - Run `ip` with the arguments of the format; CHECKs that it succeeds */
void run_ip(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif

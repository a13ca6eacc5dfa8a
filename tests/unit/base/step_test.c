/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/step.h"
#include "lib/child.h"

#ifdef VB_HOOKS

/* What this program does when a test starts it again. */
static int walk(void)
{
	for (int i = 1; i <= 3; i++) {
		VB_STEP(SEND_COPIED);
		VB_STEP(KEY_DEAD);
		if (write(STDOUT_FILENO, "x", 1) != 1)
			return 1;
	}
	return 0;
}

/* Run it with a setting. Returns how far it came; *status as waitpid() tells. */
static int run(const char *setting, int *status)
{
	char text[8];
	int fds[2], n;
	pid_t pid;

	CHECK(pipe(fds) == 0);
	fflush(NULL);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		char *argv[] = {(char *)"step", (char *)"walk", NULL};

		dup2(fds[1], STDOUT_FILENO);
		close(fds[0]);
		close(fds[1]);
		setenv("VERBENA_TEST_STEP", setting, 1);
		execv("/proc/self/exe", argv);
		_exit(127);
	}
	close(fds[1]);
	CHECK(waitpid(pid, status, WUNTRACED) == pid);
	if (WIFSTOPPED(*status)) {
		CHECK(kill(pid, SIGKILL) == 0);
		CHECK(waitpid(pid, NULL, 0) == pid);
	}
	n = (int)read(fds[0], text, sizeof(text));
	close(fds[0]);
	return n;
}

static void test_not_armed(void **state)
{
	static const char *const settings[] = {"",	   "KEY_DEAD",	    ":kill", "NO_SUCH:kill",
					       "KEY:kill", "KEY_DEAD_:kill"};
	int status;

	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		assert_int_equal(run(settings[i], &status), 3);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
}

static void test_kill(void **state)
{
	int status;

	assert_int_equal(run("KEY_DEAD:kill", &status), 0);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_int_equal(run("KEY_DEAD:kill:3", &status), 2);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(run("SEND_COPIED:kill:2", &status), 1);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(run("KEY_DEAD:kill:4", &status), 3);
	assert_true(WIFEXITED(status));
}

static void test_stop(void **state)
{
	int status;

	assert_int_equal(run("KEY_DEAD:stop:2", &status), 1);
	assert_true(WIFSTOPPED(status));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_not_armed),
		cmocka_unit_test(test_kill),
		cmocka_unit_test(test_stop),
	};

	if (argc == 2)
		return walk();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
	puts("built without hooks");
	return 77;
}

#endif

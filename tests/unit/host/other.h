/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef OTHER_H
#define OTHER_H

/*
 * Another process for tests of what processes share: the test program itself, executed
 * anew with "--other ROLE", a socket to talk over as standard input. Each test
 * program defines `roles`; a role runs until its socket is closed.
 */

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct role {
	const char *name;
	int (*run)(void);
};
extern const struct role roles[];

struct other {
	pid_t pid;
	int fd;
};

/* Starts a role, with NAME=VALUE settings up to a NULL in its environment. */
static inline struct other other_start(const char *role, const char *const *env)
{
	struct other other;
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
		abort();
	other.fd = fds[0];
	other.pid = fork();
	if (!other.pid) {
		dup2(fds[1], 0);
		for (; env && *env; env++)
			putenv((char *)(uintptr_t)*env);
		execl("/proc/self/exe", "other", "--other", role, (char *)NULL);
		_exit(127);
	}
	close(fds[1]);
	return other;
}

/* Waits for what the other process says; false: it closed its socket (ended). */
static inline bool other_hear(const struct other *other, void *what, size_t bytes)
{
	uint8_t *at = what;

	while (bytes) {
		ssize_t got = read(other->fd, at, bytes);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		at += got;
		bytes -= (size_t)got;
	}
	return true;
}

static inline void other_tell(const struct other *other, const void *what, size_t bytes)
{
	assert_int_equal(send(other->fd, what, bytes, MSG_NOSIGNAL), bytes);
}

/* In the other process. */
static inline void say(const void *what, size_t bytes)
{
	if (send(0, what, bytes, MSG_NOSIGNAL) != (ssize_t)bytes)
		_exit(3);
}

static inline char listen_for_command(void)
{
	char command;

	return read(0, &command, 1) == 1 ? command : 0;
}

/* Ends it and returns its wait status. */
static inline int other_end(struct other *other, int sig)
{
	int status = 0;

	if (sig)
		kill(other->pid, sig);
	close(other->fd);
	waitpid(other->pid, &status, 0);
	return status;
}

/* Waits until the process is stopped, by itself or by us. */
static inline bool other_stopped(const struct other *other)
{
	int status;

	return waitpid(other->pid, &status, WUNTRACED) == other->pid && WIFSTOPPED(status);
}

/* For main(): runs the role and never returns, if this is the other process. */
static inline void other_main(int argc, char **argv)
{
	if (argc < 3 || strcmp(argv[1], "--other"))
		return;
	for (const struct role *role = roles; role->name; role++)
		if (!strcmp(role->name, argv[2]))
			exit(role->run());
	exit(126);
}

/* A runtime directory for this test program alone. Settings are read when a program
 * starts: so it is started once more. */
static inline const char *private_runtime(char **argv)
{
	static char dir[] = "/tmp/verbena-test-XXXXXX";

	if (getenv("TEST_RUNTIME"))
		return getenv("TEST_RUNTIME");
	if (!mkdtemp(dir) || setenv("VERBENA_RUNTIME_DIR", dir, 1) ||
	    setenv("TEST_RUNTIME", dir, 1))
		abort();
	execv("/proc/self/exe", argv);
	abort();
}

static inline int count_files(const char *dir)
{
	char command[300];
	FILE *list;
	int n = 0;

	snprintf(command, sizeof(command), "ls -A %s 2>/dev/null | wc -l", dir);
	list = popen(command, "re");
	if (!list || fscanf(list, "%d", &n) != 1)
		n = -1;
	if (list)
		pclose(list);
	return n;
}

#endif

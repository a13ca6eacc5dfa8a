/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef PLATFORM_H
#define PLATFORM_H

/*
 * One program for each behaviour of the kernel that the library relies on. When one
 * fails, the library's fault is not to be looked for first.
 */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Ends the program with failure where the kernel does not do as expected. */
#define EXPECT(condition)                                                                          \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #condition,  \
				errno);                                                            \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static inline int skip_test(const char *why)
{
	printf("skipped: %s\n", why);
	return 77;
}

/* A child that has run @body and then waits, stopped where @stopped. */
static inline pid_t start_child(void (*body)(void *), void *arg, int stopped)
{
	pid_t pid = fork();
	int status;

	EXPECT(pid >= 0);
	if (!pid) {
		body(arg);
		raise(SIGSTOP);
		for (;;)
			pause();
	}
	EXPECT(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
	if (!stopped)
		kill(pid, SIGCONT);
	return pid;
}

static inline void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	EXPECT(waitpid(pid, NULL, 0) == pid);
}

/* Memory that parent and child share, for the child to tell numbers. */
static inline void *shared_page(void)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	EXPECT(page != MAP_FAILED);
	return page;
}

#endif

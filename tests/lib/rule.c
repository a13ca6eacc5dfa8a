/* SPDX-License-Identifier: BSD-2-Clause */
#include "lib/rule.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "/tmp/verbena-rules-XXXXXX";
static int log_fd = -1;

void rule_log_end(void)
{
	unlink(path);
}

void rule_log_start(void)
{
	log_fd = mkstemp(path);
	if (log_fd < 0) {
		perror(path);
		exit(1);
	}
	fcntl(log_fd, F_SETFD, FD_CLOEXEC);
	setenv("VERBENA_EXPLAIN", path, 1);
	atexit(rule_log_end);
}

void rule_log_on_stderr(void)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);

	if (fd < 0 || dup2(fd, STDERR_FILENO) < 0) {
		perror(path);
		exit(1);
	}
	close(fd);
	setenv("VERBENA_EXPLAIN", "1", 1);
}

bool rule_said(const char *name)
{
	char text[65536];
	char marked[128];
	ssize_t n = read(log_fd, text, sizeof(text) - 1);

	if (n < 0)
		n = 0;
	text[n] = '\0';
	snprintf(marked, sizeof(marked), "[%s]", name);
	if (strstr(text, marked))
		return true;
	fprintf(stderr, "no rule [%s] in: %s\n", name, text);
	return false;
}

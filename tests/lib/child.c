/* SPDX-License-Identifier: BSD-2-Clause */
#include "lib/child.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

int run_in_child(void (*body)(void *arg), void *arg)
{
	pid_t pid;
	int status;

	fflush(NULL);
	pid = fork();
	if (pid < 0)
		return -1;
	if (!pid) {
		body(arg);
		fflush(NULL);
		_exit(0);
	}
	while (waitpid(pid, &status, 0) < 0)
		;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static bool write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return ok;
}

bool enter_namespace(void)
{
	char map[64];
	uid_t uid = geteuid();
	gid_t gid = getegid();

	if (!unshare(CLONE_NEWNET))
		return true;
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET))
		return false;
	snprintf(map, sizeof(map), "0 %u 1", uid);
	if (!write_file("/proc/self/setgroups", "deny") || !write_file("/proc/self/uid_map", map))
		return false;
	snprintf(map, sizeof(map), "0 %u 1", gid);
	return write_file("/proc/self/gid_map", map);
}

static void enter(void *arg)
{
	CHECK(enter_namespace());
}

bool can_enter_namespace(void)
{
	return !run_in_child(enter, NULL);
}

int open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	CHECK(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n - 3; /* itself, . and .. */
}

void enter_other(void)
{
	const char *name = getenv("VB_TEST_OTHER");
	int fd = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;

	CHECK(!name || (fd >= 0 && !setns(fd, CLONE_NEWNET)));
	if (fd >= 0)
		close(fd);
}

void run_ip(const char *fmt, ...)
{
	char command[512] = "PATH=$PATH:/sbin:/usr/sbin ip ";
	size_t at = strlen(command);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(command + at, sizeof(command) - at, fmt, ap);
	va_end(ap);
	CHECK(system(command) == 0);
}

void run_only(void)
{
	const char *name = getenv("VB_TEST_ONLY");

	if (name)
		cmocka_set_test_filter(name);
}

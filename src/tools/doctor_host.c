/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/userfaultfd.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/runtime.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

void doctor_runtime(void)
{
	char path[PATH_MAX];

	for (int n = 0; n < VB_RUNTIME_CANDIDATES; n++) {
		int fd = vb_runtime_open(n, 0, path, sizeof(path));

		if (fd >= 0) {
			close(fd);
			doctor_line(DOCTOR_OK, "processes meet in %s", path);
			return;
		}
		if (fd == -EPERM) {
			doctor_line(DOCTOR_WARN,
				    "%s is somebody else's or open to others: not used", path);
			continue;
		}
		fd = vb_runtime_open(n, 1, path, sizeof(path));
		if (fd >= 0) {
			close(fd);
			/* It was not there before, and this is no reason for it to be. */
			rmdir(path);
			doctor_line(DOCTOR_OK, "processes will meet in %s", path);
			return;
		}
	}
	doctor_line(DOCTOR_WARN, "there is no folder for processes to meet in: they talk by UDP; "
				 "set VERBENA_RUNTIME_DIR");
}

void doctor_memfd(void)
{
	int fd = memfd_create("verbena-doctor", MFD_CLOEXEC);
	struct rlimit limit;
	void *p;

	if (fd < 0) {
		doctor_line(DOCTOR_WARN, "memfd_create: %s: processes talk by UDP",
			    strerror(errno));
		return;
	}
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < 1 << 20) {
		doctor_line(DOCTOR_WARN, "files may not grow (ulimit -f): processes talk by UDP");
		close(fd);
		return;
	}
	p = ftruncate(fd, 4096) ? MAP_FAILED
				: mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		doctor_line(DOCTOR_WARN, "memory cannot be shared: %s", strerror(errno));
	else
		doctor_line(DOCTOR_OK, "memory can be shared");
	if (p != MAP_FAILED)
		munmap(p, 4096);
	close(fd);
}

/* Read from a child what was put there before it was made. Return: 0 or errno. */
static int read_child(pid_t pid, const char *word, size_t len)
{
	char copy[16];
	struct iovec here = {copy, len}, there = {(void *)(uintptr_t)word, len};
	ssize_t n = process_vm_readv(pid, &here, 1, &there, 1, 0);

	return n < 0 ? errno : n == (ssize_t)len && !memcmp(copy, word, len) ? 0 : EIO;
}

void doctor_process_vm(void)
{
	static const char word[] = "verbena";
	int hold[2], ready[2], err;
	char c;
	pid_t pid;

	if (pipe2(hold, O_CLOEXEC) || pipe2(ready, O_CLOEXEC))
		return;
	pid = fork();
	if (pid < 0)
		return;
	if (pid == 0) {
		close(hold[1]);
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
		if (write(ready[1], "", 1) == 1 && read(hold[0], &c, 1) < 0)
			_exit(1);
		_exit(0);
	}
	close(ready[1]);
	err = read(ready[0], &c, 1) == 1 ? read_child(pid, word, sizeof(word)) : EIO;
	close(hold[0]);
	close(hold[1]);
	close(ready[0]);
	waitpid(pid, NULL, 0);
	if (err)
		doctor_line(DOCTOR_WARN,
			    "memory of another process cannot be copied (%s): large buffers go by "
			    "UDP",
			    strerror(err));
	else
		doctor_line(DOCTOR_OK, "memory of another process can be copied");
}

void doctor_yama(void)
{
	FILE *f = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
	int scope = 0, n = f ? fscanf(f, "%d", &scope) : 0;

	if (f)
		fclose(f);
	if (n != 1)
		doctor_line(DOCTOR_OK, "not there: processes of a user may reach each other");
	else if (scope == 0)
		doctor_line(DOCTOR_OK, "0: processes of a user may reach each other");
	else if (scope == 1)
		doctor_line(DOCTOR_OK, "1: a process must allow it, and does (VERBENA_PTRACER)");
	else
		doctor_line(DOCTOR_WARN,
			    "%d: only administrators reach other processes' memory: large buffers "
			    "go by UDP",
			    scope);
}

void doctor_userfaultfd(void)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);

	if (fd >= 0) {
		close(fd);
		doctor_line(DOCTOR_OK, "memory can be taken over while in use");
	} else {
		doctor_line(DOCTOR_OK, "not to be had (%s): not needed", strerror(errno));
	}
}

static void show_limit(int which, const char *name, rlim_t least, const char *what)
{
	struct rlimit limit;

	if (getrlimit((__rlimit_resource_t)which, &limit))
		return;
	if (limit.rlim_cur == RLIM_INFINITY)
		doctor_line(DOCTOR_OK, "%s: unlimited", name);
	else if (limit.rlim_cur >= least)
		doctor_line(DOCTOR_OK, "%s: %llu", name, (unsigned long long)limit.rlim_cur);
	else
		doctor_line(DOCTOR_WARN, "%s: %llu: %s", name, (unsigned long long)limit.rlim_cur,
			    what);
}

void doctor_limits(void)
{
	show_limit(RLIMIT_NOFILE, "open files (ulimit -n)", 256,
		   "each channel, peer and device takes some");
	show_limit(RLIMIT_FSIZE, "file size (ulimit -f)", 1 << 30,
		   "shared memory cannot grow beyond it");
	show_limit(RLIMIT_AS, "address space (ulimit -v)", 1ull << 30,
		   "memory of peers is mapped as well");
	doctor_line(DOCTOR_OK, "locked memory (ulimit -l): not used");
}

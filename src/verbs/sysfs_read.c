/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rules.h"
#include "verbs/newer.h"

/* What programs may rely on: longer ones are cut. */
#define SYSFS_PATH_MAX 256

static char sysfs_path[SYSFS_PATH_MAX];
static pthread_once_t sysfs_once = PTHREAD_ONCE_INIT;

static void find_sysfs_path(void)
{
	const char *env = secure_getenv("SYSFS_PATH");
	size_t len;

	if (!env) {
		strcpy(sysfs_path, "/sys");
		return;
	}
	len = strnlen(env, sizeof(sysfs_path) - 1);
	memcpy(sysfs_path, env, len);
	while (len && sysfs_path[len - 1] == '/')
		len--;
	sysfs_path[len] = '\0';
}

const char *ibv_get_sysfs_path(void)
{
	pthread_once(&sysfs_once, find_sysfs_path);
	return sysfs_path;
}

static ssize_t read_all(int fd, char *buf, size_t size)
{
	size_t have = 0;

	while (have < size) {
		ssize_t n = read(fd, buf + have, size - have);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (!n)
			break;
		have += (size_t)n;
	}
	return (ssize_t)have;
}

int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	char path[PATH_MAX];
	ssize_t len = -1;
	int fd = -1;

	if (snprintf(path, sizeof(path), "%s/%s", dir, file) < (int)sizeof(path))
		fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		len = read_all(fd, buf, size);
		close(fd);
	}
	if (len < 0)
		return vb_fail_minus1(VB_RULE_SYSFS_FILE, "%s/%s", dir, file);
	if (!len)
		return 0;
	if (buf[len - 1] == '\n')
		buf[--len] = '\0';
	else if ((size_t)len < size)
		buf[len] = '\0';
	else
		return vb_fail_minus1(VB_RULE_SYSFS_SIZE, "%s/%s size=%zu", dir, file, size);
	return (int)len;
}

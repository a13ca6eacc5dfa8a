/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/registry_files.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/layout.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

#define BOOT_CHARS 8
#define NAME_CHARS 300 /* any directory entry with an ending */

static void boot_name(char boot[BOOT_CHARS + 1])
{
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t got = fd >= 0 ? read(fd, boot, BOOT_CHARS) : -1;

	if (fd >= 0)
		close(fd);
	if (got != BOOT_CHARS)
		memcpy(boot, "00000000", BOOT_CHARS);
	boot[BOOT_CHARS] = 0;
}

/* A namespace's cookie is never used again while the machine runs, its inode may be. */
static uint64_t netns_name(void)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);
	struct stat st;

	if (fd >= 0) {
		if (getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len))
			cookie = 0;
		close(fd);
	}
	if (!cookie && !stat("/proc/self/ns/net", &st))
		cookie = 1ull << 63 | st.st_ino;
	return cookie;
}

void vb_regfile_name(const char *device, char *name, size_t size)
{
	char boot[BOOT_CHARS + 1];

	boot_name(boot);
	snprintf(name, size, "%s-%llx-%.64s-%08x", boot, (unsigned long long)netns_name(), device,
		 (unsigned int)vb_layout_hash());
}

int vb_regfile_open(int dirfd, const char *name, const char *ending, int flags)
{
	char file[NAME_CHARS];
	struct stat st;
	int fd;

	snprintf(file, sizeof(file), "%s%s", name, ending);
	fd = openat(dirfd, file, O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | flags, 0600);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
	    (st.st_mode & 077)) {
		close(fd);
		return -EPERM;
	}
	return fd;
}

bool vb_regfile_named(int dirfd, const char *name, const char *ending, int fd)
{
	char file[NAME_CHARS];
	struct stat by_name, by_fd;

	snprintf(file, sizeof(file), "%s%s", name, ending);
	return !fstatat(dirfd, file, &by_name, AT_SYMLINK_NOFOLLOW) && !fstat(fd, &by_fd) &&
	       by_name.st_ino == by_fd.st_ino && by_name.st_dev == by_fd.st_dev;
}

int vb_regfile_fill(int fd, uint64_t size)
{
	struct rlimit limit;
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if ((uint64_t)st.st_size >= size)
		return 0;
	if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur != RLIM_INFINITY &&
	    limit.rlim_cur < size)
		return -EFBIG;
	while (fallocate(fd, 0, 0, (off_t)size))
		if (errno != EINTR)
			return -errno;
	return 0;
}

static int set_lock(int fd, short type, uint32_t from, uint32_t count)
{
	struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = from, .l_len = count};

	return fcntl(fd, F_SETLK, &lock);
}

int vb_regfile_lock(int fd, uint32_t from, uint32_t count)
{
	return set_lock(fd, F_WRLCK, from, count);
}

void vb_regfile_unlock(int fd, uint32_t from, uint32_t count)
{
	set_lock(fd, F_UNLCK, from, count);
}

static void remove_file(int dirfd, const char *name, const char *ending)
{
	char file[NAME_CHARS];

	snprintf(file, sizeof(file), "%s%s", name, ending);
	unlinkat(dirfd, file, 0);
}

void vb_regfile_unlink(int dirfd, const char *name, int lock_fd)
{
	if (!vb_regfile_named(dirfd, name, ".lock", lock_fd))
		return;
	remove_file(dirfd, name, ".slots");
	remove_file(dirfd, name, ".lock");
}

/* "BOOT-..." with the ending @ending? Cuts the ending off. */
static bool is_name(char *name, const char *ending)
{
	size_t len = strlen(name), cut = strlen(ending);

	if (len <= cut + BOOT_CHARS || len >= NAME_CHARS || strcmp(name + len - cut, ending) ||
	    name[BOOT_CHARS] != '-')
		return false;
	for (int i = 0; i < BOOT_CHARS; i++)
		if (!isxdigit((unsigned char)name[i]))
			return false;
	name[len - cut] = 0;
	return true;
}

static void sweep_one(int dirfd, const char *name, bool this_boot)
{
	int fd;

	if (!this_boot) {
		remove_file(dirfd, name, ".slots");
		remove_file(dirfd, name, ".lock");
		return;
	}
	fd = vb_regfile_open(dirfd, name, ".lock", O_RDWR);
	if (fd < 0)
		return;
	if (!vb_regfile_lock(fd, 0, VB_SLOTS))
		vb_regfile_unlink(dirfd, name, fd);
	close(fd);
}

void vb_regfile_sweep(int dirfd, const char *today, bool (*skip)(const char *name))
{
	int again = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = again >= 0 ? fdopendir(again) : NULL;
	struct dirent *entry;

	if (!dir) {
		if (again >= 0)
			close(again);
		return;
	}
	while ((entry = readdir(dir))) {
		bool this_boot = !strncmp(entry->d_name, today, BOOT_CHARS);

		if (is_name(entry->d_name, ".lock")) {
			if (!skip(entry->d_name))
				sweep_one(dirfd, entry->d_name, this_boot);
		} else if (!this_boot && is_name(entry->d_name, ".slots")) {
			remove_file(dirfd, entry->d_name, ".slots");
		}
	}
	closedir(dir);
}

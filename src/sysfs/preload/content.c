/* SPDX-License-Identifier: BSD-2-Clause */
#include "sysfs/preload/content.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "sysfs/preload/place.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

#define FILE_MARK "verbena:"
#define DIR_MARK  "/.verbena-"
#define DIR_SLASH '|' /* stands for a slash in the name of a folder */
#define DELETED	  " (deleted)"

bool vb_content_decode(const char *link, char *path)
{
	size_t len = strlen(link);
	const char *p;

	if (len <= strlen(DELETED) || strcmp(link + len - strlen(DELETED), DELETED) != 0)
		return false;
	len -= strlen(DELETED);
	if (strncmp(link, "/memfd:" FILE_MARK, strlen("/memfd:" FILE_MARK)) == 0) {
		p = link + strlen("/memfd:" FILE_MARK);
		snprintf(path, PATH_MAX, "%.*s", (int)(len - (size_t)(p - link)), p);
		return true;
	}
	p = strstr(link, DIR_MARK);
	p = p ? strchr(p, DIR_SLASH) : NULL;
	if (!p)
		return false;
	snprintf(path, PATH_MAX, "%.*s", (int)(len - (size_t)(p - link)), p);
	for (char *s = path; *s; s++)
		if (*s == DIR_SLASH)
			*s = '/';
	return true;
}

static int keep_or_drop_cloexec(int fd, int flags)
{
	if (fd >= 0 && !(flags & O_CLOEXEC))
		fcntl(fd, F_SETFD, 0);
	return fd;
}

/* A process may not be able to grow files at all; trying would kill it. */
static bool may_write(size_t len)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur >= len;
}

/* Make a descriptor read-only that was made for both, under the same number. */
static void make_readonly(int fd)
{
	char link[32];
	int other;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	other = open(link, O_RDONLY | O_CLOEXEC);
	if (other < 0)
		return;
	dup3(other, fd, O_CLOEXEC);
	close(other);
}

/* Where no memfd is to be had: a pipe holds any content of the tree. */
static int open_pipe(const char *text, size_t len)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return -1;
	if (write(ends[1], text, len) != (ssize_t)len) {
		close(ends[0]);
		ends[0] = -1;
	}
	close(ends[1]);
	return ends[0];
}

static int open_memfd(const char *path, const char *text, size_t len, bool readonly)
{
	unsigned int flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	char name[250];
	int fd;

	errno = 0;
	snprintf(name, sizeof(name), FILE_MARK "%s", path);
	fd = may_write(len) ? memfd_create(name, flags | MFD_NOEXEC_SEAL) : -1;
	if (fd < 0 && errno == EINVAL && may_write(len))
		fd = memfd_create(name, flags);
	if (fd < 0)
		return errno == EMFILE || errno == ENFILE ? -1 : open_pipe(text, len);
	if (len && pwrite(fd, text, len, 0) != (ssize_t)len) {
		close(fd);
		return open_pipe(text, len);
	}
	fchmod(fd, VB_CONTENT_MODE);
	fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL);
	if (readonly)
		make_readonly(fd);
	return fd;
}

/* Entries the kernel refuses to read are opened well and fail then, with EINVAL: a
 * descriptor that has no reading at all does the same.
 */
static int open_unreadable(void)
{
	return epoll_create1(EPOLL_CLOEXEC);
}

/* An empty folder below a given one, already removed, whose name is our path. */
static int open_removed_dir(const char *below, const char *path)
{
	static _Atomic unsigned int serial;
	char full[PATH_MAX], name[256];
	int fd = -1, err;

	if (!below || below[0] != '/')
		return -1;
	for (int tries = 0; tries < 64; tries++) {
		int n = snprintf(name, sizeof(name), "%d-%u", (int)getpid(),
				 atomic_fetch_add(&serial, 1));

		snprintf(name + n, sizeof(name) - (size_t)n, "%s", path);
		for (char *s = name; *s; s++)
			if (*s == '/')
				*s = DIR_SLASH;
		if (snprintf(full, sizeof(full), "%s" DIR_MARK "%s", below, name) >=
		    (int)sizeof(full))
			return -1;
		if (mkdir(full, 0700) == 0)
			break;
		if (errno != EEXIST)
			return -1;
	}
	fd = open(full, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	err = errno;
	rmdir(full);
	errno = err;
	return fd;
}

static int open_dir(const char *path)
{
	const char *const places[] = {"/dev/shm", getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"),
				      "/tmp", "/var/tmp"};
	int fd = -1;

	for (size_t i = 0; fd < 0 && i < sizeof(places) / sizeof(places[0]); i++) {
		fd = open_removed_dir(places[i], path);
		if (fd < 0 && (errno == EMFILE || errno == ENFILE))
			return -1;
	}
	if (fd < 0)
		errno = EACCES;
	atomic_store_explicit(&vb_place_armed, true, memory_order_relaxed);
	return fd;
}

static int refuse(int err)
{
	errno = err;
	return -1;
}

/* What open(2) would refuse. Return: 0, or -1 with errno. */
static int check(const struct vb_walk *walk, int flags)
{
	bool writes = (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC);
	enum vb_tree_kind kind = walk->node.kind;

	if (flags & O_PATH)
		flags &= O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	if ((flags & O_CREAT) && (flags & O_EXCL))
		return refuse(EEXIST);
	if (kind == VB_TREE_DIR || kind == VB_TREE_MERGED)
		return !(flags & O_PATH) && (writes || (flags & O_CREAT)) ? refuse(EISDIR) : 0;
	if (flags & O_DIRECTORY)
		return refuse(ENOTDIR);
	if (kind == VB_TREE_LINK && !(flags & O_PATH))
		return refuse(ELOOP);
	/* As in the kernel's sysfs, root included. */
	if (kind == VB_TREE_FILE && writes && !(flags & O_PATH))
		return refuse(EACCES);
	return 0;
}

static int open_node(const struct vb_walk *walk, int flags)
{
	char text[VB_TREE_TEXT_MAX] = "";
	int len = 0;

	if (walk->node.kind == VB_TREE_DIR || walk->node.kind == VB_TREE_MERGED)
		return open_dir(walk->path);
	if (walk->node.kind == VB_TREE_CHAR)
		return open_memfd(walk->path, text, 0, false);
	if (!(flags & O_PATH))
		len = vb_tree_read(&walk->node, walk->path, text);
	if (len == -EINVAL)
		return open_unreadable();
	if (len < 0)
		return refuse(-len);
	return open_memfd(walk->path, text, (size_t)len, true);
}

int vb_content_open(const struct vb_walk *walk, int flags)
{
	int fd;

	if (check(walk, flags))
		return -1;
	vb_place_enter();
	fd = keep_or_drop_cloexec(open_node(walk, flags), flags);
	vb_place_leave();
	return fd;
}

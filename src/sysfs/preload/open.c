/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

#include "sysfs/preload/content.h"
#include "sysfs/preload/place.h"

/* The fortified entry points of libc, which no header declares. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dirfd, const char *path, int flags);
int __openat64_2(int dirfd, const char *path, int flags);
int __open(const char *path, int flags, ...);
int __open64(const char *path, int flags, ...);

/* Whether the call was answered; if so *fd is what it returns. */
static bool handled(int dirfd, const char *path, int flags, mode_t mode, int *fd)
{
	bool follow = !(flags & O_NOFOLLOW) && !((flags & O_CREAT) && (flags & O_EXCL));
	struct vb_walk walk;

	if (!vb_place_quick(dirfd, path)) {
		/* The root folder leads to the tree too. */
		if (path && path[0] == '/' && !path[1] && !vb_place_depth)
			vb_place_arm(dirfd, path);
		return false;
	}
	switch (vb_place_find(dirfd, path, follow, &walk)) {
	case VB_OURS:
		*fd = vb_content_open(&walk, flags);
		return true;
	case VB_FAILED:
		/* Nobody makes files in a folder of ours. */
		if (errno == ENOENT && walk.ours && (flags & O_CREAT))
			errno = EACCES;
		*fd = -1;
		return true;
	case VB_REAL:
		vb_place_arm(AT_FDCWD, walk.path);
		*fd = NEXT(openat)(AT_FDCWD, walk.path, flags, mode);
		return true;
	default:
		vb_place_arm(dirfd, path);
		return false;
	}
}

#define MODE_OF(flags, last)                                                                       \
	({                                                                                         \
		mode_t mode_ = 0;                                                                  \
		if ((flags) & (O_CREAT | __O_TMPFILE)) {                                           \
			va_list args_;                                                             \
			va_start(args_, last);                                                     \
			mode_ = va_arg(args_, mode_t);                                             \
			va_end(args_);                                                             \
		}                                                                                  \
		mode_;                                                                             \
	})

#define DEFINE_OPEN(name)                                                                          \
	EXPORT int name(const char *path, int flags, ...)                                          \
	{                                                                                          \
		mode_t mode = MODE_OF(flags, flags);                                               \
		int fd;                                                                            \
		if (handled(AT_FDCWD, path, flags, mode, &fd))                                     \
			return fd;                                                                 \
		return NEXT(name)(path, flags, mode);                                              \
	}

#define DEFINE_OPENAT(name)                                                                        \
	EXPORT int name(int dirfd, const char *path, int flags, ...)                               \
	{                                                                                          \
		mode_t mode = MODE_OF(flags, flags);                                               \
		int fd;                                                                            \
		if (handled(dirfd, path, flags, mode, &fd))                                        \
			return fd;                                                                 \
		return NEXT(name)(dirfd, path, flags, mode);                                       \
	}

DEFINE_OPEN(open)
DEFINE_OPEN(open64)
DEFINE_OPEN(__open)
DEFINE_OPEN(__open64)
DEFINE_OPENAT(openat)
DEFINE_OPENAT(openat64)

#define DEFINE_OPEN_2(name)                                                                        \
	EXPORT int name(const char *path, int flags)                                               \
	{                                                                                          \
		int fd;                                                                            \
		return handled(AT_FDCWD, path, flags, 0, &fd) ? fd : NEXT(name)(path, flags);      \
	}

#define DEFINE_OPENAT_2(name)                                                                      \
	EXPORT int name(int dirfd, const char *path, int flags)                                    \
	{                                                                                          \
		int fd;                                                                            \
		return handled(dirfd, path, flags, 0, &fd) ? fd : NEXT(name)(dirfd, path, flags);  \
	}

DEFINE_OPEN_2(__open_2)
DEFINE_OPEN_2(__open64_2)
DEFINE_OPENAT_2(__openat_2)
DEFINE_OPENAT_2(__openat64_2)

#define DEFINE_CREAT(name)                                                                         \
	EXPORT int name(const char *path, mode_t mode)                                             \
	{                                                                                          \
		int fd;                                                                            \
		if (handled(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, mode, &fd))              \
			return fd;                                                                 \
		return NEXT(name)(path, mode);                                                     \
	}

DEFINE_CREAT(creat)
DEFINE_CREAT(creat64)

static int flags_of_mode(const char *mode)
{
	int flags;

	switch (mode[0]) {
	case 'r':
		flags = O_RDONLY;
		break;
	case 'w':
		flags = O_WRONLY | O_CREAT | O_TRUNC;
		break;
	case 'a':
		flags = O_WRONLY | O_CREAT | O_APPEND;
		break;
	default:
		return -1;
	}
	for (const char *p = mode + 1; *p && *p != ','; p++) {
		if (*p == '+')
			flags = (flags & ~O_ACCMODE) | O_RDWR;
		if (*p == 'x')
			flags |= O_EXCL;
		if (*p == 'e')
			flags |= O_CLOEXEC;
	}
	return flags;
}

#define DEFINE_FOPEN(name)                                                                         \
	EXPORT FILE *name(const char *path, const char *mode)                                      \
	{                                                                                          \
		int fd, flags = vb_place_quick(AT_FDCWD, path) ? flags_of_mode(mode) : -1;         \
		FILE *file;                                                                        \
		if (flags < 0 || !handled(AT_FDCWD, path, flags, 0666, &fd))                       \
			return NEXT(name)(path, mode);                                             \
		if (fd < 0)                                                                        \
			return NULL;                                                               \
		file = fdopen(fd, mode);                                                           \
		if (!file)                                                                         \
			close(fd);                                                                 \
		return file;                                                                       \
	}

DEFINE_FOPEN(fopen)
DEFINE_FOPEN(fopen64)

/* The stream takes the content over through /proc, with libc doing what it does. */
#define DEFINE_FREOPEN(name)                                                                       \
	EXPORT FILE *name(const char *path, const char *mode, FILE *stream)                        \
	{                                                                                          \
		int fd, flags = vb_place_quick(AT_FDCWD, path) ? flags_of_mode(mode) : -1;         \
		char link[32];                                                                     \
		FILE *file;                                                                        \
		if (flags < 0 || !handled(AT_FDCWD, path, flags, 0666, &fd))                       \
			return NEXT(name)(path, mode, stream);                                     \
		if (fd < 0) {                                                                      \
			int err = errno;                                                           \
			fclose(stream);                                                            \
			errno = err;                                                               \
			return NULL;                                                               \
		}                                                                                  \
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);                              \
		file = NEXT(name)(link, mode, stream);                                             \
		close(fd);                                                                         \
		return file;                                                                       \
	}

DEFINE_FREOPEN(freopen)
DEFINE_FREOPEN(freopen64)

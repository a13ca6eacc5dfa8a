/* SPDX-License-Identifier: BSD-2-Clause */
#include "sysfs/preload/stat.h"

#include <errno.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "sysfs/preload/content.h"
#include "sysfs/preload/place.h"

/* One layout serves the calls with and without 64 in their names. */
_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "needs 64-bit file offsets");

int __xstat(int ver, const char *path, struct stat *st);
int __lxstat(int ver, const char *path, struct stat *st);
int __fxstat(int ver, int fd, struct stat *st);
int __fxstatat(int ver, int dirfd, const char *path, struct stat *st, int flags);
int __xstat64(int ver, const char *path, struct stat64 *st);
int __lxstat64(int ver, const char *path, struct stat64 *st);
int __fxstat64(int ver, int fd, struct stat64 *st);
int __fxstatat64(int ver, int dirfd, const char *path, struct stat64 *st, int flags);

/* Device number and times of the file system a node would be in. */
static void dress(const char *path, struct stat *st)
{
	struct stat root;

	vb_place_enter();
	if (stat(strncmp(path, "/dev", 4) == 0 ? "/dev" : "/sys", &root) == 0) {
		st->st_dev = root.st_dev;
		st->st_atim = root.st_atim;
		st->st_mtim = root.st_mtim;
		st->st_ctim = root.st_ctim;
	}
	vb_place_leave();
}

void vb_stat_fill(const struct vb_walk *walk, struct stat *st)
{
	int saved = errno;

	vb_place_enter();
	vb_tree_stat(&walk->node, walk->path, st);
	vb_place_leave();
	dress(walk->path, st);
	errno = saved;
}

/* Pages of stack, and a look at /proc. */
static __attribute__((noinline)) bool fix(int fd, struct stat *st)
{
	struct vb_walk walk;
	off_t size = st->st_size;
	bool found;

	if (!vb_place_of_fd(fd, walk.path))
		return false;
	vb_place_enter();
	found = vb_tree_lookup(walk.path, &walk.node) == 0;
	vb_place_leave();
	if (!found)
		return false;
	vb_stat_fill(&walk, st);
	/* Of an open file the true length is known; copying programs go by it. */
	if (walk.node.kind == VB_TREE_FILE)
		st->st_size = size;
	return true;
}

bool vb_stat_fix(int fd, struct stat *st)
{
	bool file = S_ISREG(st->st_mode) && (st->st_mode & 07777) == VB_CONTENT_MODE;

	return !st->st_nlink && !vb_place_depth && (file || S_ISDIR(st->st_mode)) && fix(fd, st);
}

/* Whether the call was answered; if so *ret is what it returns. */
static bool handled(int dirfd, const char *path, struct stat *st, int flags, int *ret)
{
	struct vb_walk walk;

	switch (vb_place_find(dirfd, path, !(flags & AT_SYMLINK_NOFOLLOW), &walk)) {
	case VB_OURS:
		vb_stat_fill(&walk, st);
		*ret = 0;
		return true;
	case VB_FAILED:
		*ret = -1;
		return true;
	case VB_REAL:
		*ret = NEXT(fstatat)(AT_FDCWD, walk.path, st, flags & AT_SYMLINK_NOFOLLOW);
		return true;
	default:
		return false;
	}
}

#define DEFINE_STAT(name, type, flags)                                                             \
	EXPORT int name(const char *path, struct type *st)                                         \
	{                                                                                          \
		int ret;                                                                           \
		if (handled(AT_FDCWD, path, (struct stat *)st, flags, &ret))                       \
			return ret;                                                                \
		return NEXT(name)(path, st);                                                       \
	}

#define DEFINE_FSTAT(name, type)                                                                   \
	EXPORT int name(int fd, struct type *st)                                                   \
	{                                                                                          \
		int ret = NEXT(name)(fd, st);                                                      \
		if (ret == 0)                                                                      \
			vb_stat_fix(fd, (struct stat *)st);                                        \
		return ret;                                                                        \
	}

#define DEFINE_FSTATAT(name, type)                                                                 \
	EXPORT int name(int dirfd, const char *path, struct type *st, int flags)                   \
	{                                                                                          \
		int ret;                                                                           \
		if (handled(dirfd, path, (struct stat *)st, flags, &ret))                          \
			return ret;                                                                \
		ret = NEXT(name)(dirfd, path, st, flags);                                          \
		if (ret == 0 && (flags & AT_EMPTY_PATH) && !*path)                                 \
			vb_stat_fix(dirfd, (struct stat *)st);                                     \
		return ret;                                                                        \
	}

/* Programs built before glibc 2.33 call these. */
#define DEFINE_XSTAT(name, type, flags)                                                            \
	EXPORT int name(int ver, const char *path, struct type *st)                                \
	{                                                                                          \
		int ret;                                                                           \
		if (handled(AT_FDCWD, path, (struct stat *)st, flags, &ret))                       \
			return ret;                                                                \
		return NEXT(name)(ver, path, st);                                                  \
	}

#define DEFINE_FXSTAT(name, type)                                                                  \
	EXPORT int name(int ver, int fd, struct type *st)                                          \
	{                                                                                          \
		int ret = NEXT(name)(ver, fd, st);                                                 \
		if (ret == 0)                                                                      \
			vb_stat_fix(fd, (struct stat *)st);                                        \
		return ret;                                                                        \
	}

#define DEFINE_FXSTATAT(name, type)                                                                \
	EXPORT int name(int ver, int dirfd, const char *path, struct type *st, int flags)          \
	{                                                                                          \
		int ret;                                                                           \
		if (handled(dirfd, path, (struct stat *)st, flags, &ret))                          \
			return ret;                                                                \
		ret = NEXT(name)(ver, dirfd, path, st, flags);                                     \
		if (ret == 0 && (flags & AT_EMPTY_PATH) && !*path)                                 \
			vb_stat_fix(dirfd, (struct stat *)st);                                     \
		return ret;                                                                        \
	}

DEFINE_STAT(stat, stat, 0)
DEFINE_STAT(stat64, stat64, 0)
DEFINE_STAT(lstat, stat, AT_SYMLINK_NOFOLLOW)
DEFINE_STAT(lstat64, stat64, AT_SYMLINK_NOFOLLOW)
DEFINE_FSTAT(fstat, stat)
DEFINE_FSTAT(fstat64, stat64)
DEFINE_FSTATAT(fstatat, stat)
DEFINE_FSTATAT(fstatat64, stat64)
DEFINE_XSTAT(__xstat, stat, 0)
DEFINE_XSTAT(__xstat64, stat64, 0)
DEFINE_XSTAT(__lxstat, stat, AT_SYMLINK_NOFOLLOW)
DEFINE_XSTAT(__lxstat64, stat64, AT_SYMLINK_NOFOLLOW)
DEFINE_FXSTAT(__fxstat, stat)
DEFINE_FXSTAT(__fxstat64, stat64)
DEFINE_FXSTATAT(__fxstatat, stat)
DEFINE_FXSTATAT(__fxstatat64, stat64)

static struct statx_timestamp stamp(struct timespec t)
{
	return (struct statx_timestamp){.tv_sec = t.tv_sec, .tv_nsec = (uint32_t)t.tv_nsec};
}

static void extend(const struct stat *st, struct statx *stx)
{
	memset(stx, 0, sizeof(*stx));
	stx->stx_mask = STATX_BASIC_STATS;
	stx->stx_blksize = (uint32_t)st->st_blksize;
	stx->stx_nlink = (uint32_t)st->st_nlink;
	stx->stx_uid = st->st_uid;
	stx->stx_gid = st->st_gid;
	stx->stx_mode = (uint16_t)st->st_mode;
	stx->stx_ino = st->st_ino;
	stx->stx_size = (uint64_t)st->st_size;
	stx->stx_blocks = (uint64_t)st->st_blocks;
	stx->stx_atime = stamp(st->st_atim);
	stx->stx_ctime = stamp(st->st_ctim);
	stx->stx_mtime = stamp(st->st_mtim);
	stx->stx_rdev_major = major(st->st_rdev);
	stx->stx_rdev_minor = minor(st->st_rdev);
	stx->stx_dev_major = major(st->st_dev);
	stx->stx_dev_minor = minor(st->st_dev);
}

EXPORT int statx(int dirfd, const char *path, int flags, unsigned int mask, struct statx *stx)
{
	struct vb_walk walk;
	struct stat st;
	int ret;

	switch (vb_place_find(dirfd, path, !(flags & AT_SYMLINK_NOFOLLOW), &walk)) {
	case VB_OURS:
		vb_stat_fill(&walk, &st);
		extend(&st, stx);
		return 0;
	case VB_FAILED:
		return -1;
	case VB_REAL:
		return NEXT(statx)(AT_FDCWD, walk.path, flags, mask, stx);
	default:
		break;
	}
	ret = NEXT(statx)(dirfd, path, flags, mask, stx);
	if (ret == 0 && (flags & AT_EMPTY_PATH) && path && !*path && !stx->stx_nlink) {
		st = (struct stat){.st_mode = stx->stx_mode, .st_size = (off_t)stx->stx_size};
		if (vb_stat_fix(dirfd, &st))
			extend(&st, stx);
	}
	return ret;
}

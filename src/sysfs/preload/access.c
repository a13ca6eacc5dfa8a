/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "sysfs/preload/place.h"

int eaccess(const char *path, int mode);

static bool may(const struct vb_tree_node *node, int mode)
{
	switch (node->kind) {
	case VB_TREE_FILE:
		return !(mode & (W_OK | X_OK));
	case VB_TREE_CHAR:
		return !(mode & X_OK);
	case VB_TREE_LINK:
		return true;
	default:
		return !(mode & W_OK);
	}
}

static bool access_handled(int dirfd, const char *path, int mode, int flags, int *ret)
{
	struct vb_walk walk;

	switch (vb_place_find(dirfd, path, !(flags & AT_SYMLINK_NOFOLLOW), &walk)) {
	case VB_OURS:
		*ret = may(&walk.node, mode) ? 0 : -1;
		if (*ret)
			errno = EACCES;
		return true;
	case VB_FAILED:
		*ret = -1;
		return true;
	case VB_REAL:
		*ret = NEXT(faccessat)(AT_FDCWD, walk.path, mode, flags);
		return true;
	default:
		return false;
	}
}

#define DEFINE_ACCESS(name)                                                                        \
	EXPORT int name(const char *path, int mode)                                                \
	{                                                                                          \
		int ret;                                                                           \
		if (access_handled(AT_FDCWD, path, mode, 0, &ret))                                 \
			return ret;                                                                \
		return NEXT(name)(path, mode);                                                     \
	}

DEFINE_ACCESS(access)
DEFINE_ACCESS(euidaccess)
DEFINE_ACCESS(eaccess)

EXPORT int faccessat(int dirfd, const char *path, int mode, int flags)
{
	int ret;

	if (access_handled(dirfd, path, mode, flags, &ret))
		return ret;
	return NEXT(faccessat)(dirfd, path, mode, flags);
}

/* Calls about which a node of ours has nothing to say but this. */
#define DEFINE_ANSWER(name, ret_type, args, call, follow, answer)                                  \
	EXPORT ret_type name args                                                                  \
	{                                                                                          \
		struct vb_walk walk;                                                               \
		switch (vb_place_find(AT_FDCWD, path, follow, &walk)) {                            \
		case VB_OURS:                                                                      \
			answer;                                                                    \
		case VB_FAILED:                                                                    \
			return -1;                                                                 \
		case VB_REAL:                                                                      \
			path = walk.path;                                                          \
			break;                                                                     \
		default:                                                                           \
			break;                                                                     \
		}                                                                                  \
		return NEXT(name) call;                                                            \
	}

#define REFUSE(err) return (errno = (err), -1)

DEFINE_ANSWER(getxattr, ssize_t, (const char *path, const char *name, void *value, size_t size),
	      (path, name, value, size), true, REFUSE(EOPNOTSUPP))
DEFINE_ANSWER(lgetxattr, ssize_t, (const char *path, const char *name, void *value, size_t size),
	      (path, name, value, size), false, REFUSE(EOPNOTSUPP))
DEFINE_ANSWER(listxattr, ssize_t, (const char *path, char *list, size_t size), (path, list, size),
	      true, return 0)
DEFINE_ANSWER(llistxattr, ssize_t, (const char *path, char *list, size_t size), (path, list, size),
	      false, return 0)

/* The file system a node would be in answers for it. */
#define HOST_OF(walk) (strncmp((walk).path, "/dev", 4) == 0 ? "/dev" : "/sys")

DEFINE_ANSWER(statfs, int, (const char *path, struct statfs *buf), (path, buf), true,
	      return NEXT(statfs)(HOST_OF(walk), buf))
DEFINE_ANSWER(statfs64, int, (const char *path, struct statfs64 *buf), (path, buf), true,
	      return NEXT(statfs64)(HOST_OF(walk), buf))
DEFINE_ANSWER(statvfs, int, (const char *path, struct statvfs *buf), (path, buf), true,
	      return NEXT(statvfs)(HOST_OF(walk), buf))
DEFINE_ANSWER(statvfs64, int, (const char *path, struct statvfs64 *buf), (path, buf), true,
	      return NEXT(statvfs64)(HOST_OF(walk), buf))

/* Changing the tree: the owner, root, is told that it cannot be done; others that they
 * may not.
 */
#define FORBID REFUSE(geteuid() ? EACCES : EPERM)

DEFINE_ANSWER(unlink, int, (const char *path), (path), false, FORBID)
DEFINE_ANSWER(rmdir, int, (const char *path), (path), false, FORBID)
DEFINE_ANSWER(mkdir, int, (const char *path, mode_t mode), (path, mode), false, REFUSE(EEXIST))
DEFINE_ANSWER(truncate, int, (const char *path, off_t len), (path, len), true, REFUSE(EACCES))
DEFINE_ANSWER(truncate64, int, (const char *path, off64_t len), (path, len), true, REFUSE(EACCES))
DEFINE_ANSWER(chmod, int, (const char *path, mode_t mode), (path, mode), true, REFUSE(EPERM))
DEFINE_ANSWER(chown, int, (const char *path, uid_t uid, gid_t gid), (path, uid, gid), true,
	      REFUSE(EPERM))
DEFINE_ANSWER(lchown, int, (const char *path, uid_t uid, gid_t gid), (path, uid, gid), false,
	      REFUSE(EPERM))

EXPORT int unlinkat(int dirfd, const char *path, int flags)
{
	struct vb_walk walk;

	switch (vb_place_find(dirfd, path, false, &walk)) {
	case VB_OURS:
		FORBID;
	case VB_FAILED:
		return -1;
	case VB_REAL:
		return NEXT(unlinkat)(AT_FDCWD, walk.path, flags);
	default:
		return NEXT(unlinkat)(dirfd, path, flags);
	}
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "sysfs/preload/content.h"
#include "sysfs/preload/place.h"

ssize_t __readlink_chk(const char *path, char *buf, size_t len, size_t size);
ssize_t __readlinkat_chk(int dirfd, const char *path, char *buf, size_t len, size_t size);
char *__realpath_chk(const char *path, char *resolved, size_t size);
char *__getcwd_chk(char *buf, size_t size, size_t room);

static ssize_t copy_target(const struct vb_walk *walk, char *buf, size_t len)
{
	char text[VB_TREE_TEXT_MAX];
	int n;

	if (walk->node.kind != VB_TREE_LINK) {
		errno = EINVAL;
		return -1;
	}
	vb_place_enter();
	n = vb_tree_read(&walk->node, walk->path, text);
	vb_place_leave();
	if (n < 0) {
		errno = -n;
		return -1;
	}
	len = len < (size_t)n ? len : (size_t)n;
	memcpy(buf, text, len);
	return (ssize_t)len;
}

static bool link_handled(int dirfd, const char *path, char *buf, size_t len, ssize_t *ret)
{
	struct vb_walk walk;

	switch (vb_place_find(dirfd, path, false, &walk)) {
	case VB_OURS:
		*ret = copy_target(&walk, buf, len);
		return true;
	case VB_FAILED:
		*ret = -1;
		return true;
	case VB_REAL:
		*ret = NEXT(readlink)(walk.path, buf, len);
		return true;
	default:
		return false;
	}
}

EXPORT ssize_t readlink(const char *path, char *buf, size_t len)
{
	ssize_t ret;

	return link_handled(AT_FDCWD, path, buf, len, &ret) ? ret : NEXT(readlink)(path, buf, len);
}

EXPORT ssize_t readlinkat(int dirfd, const char *path, char *buf, size_t len)
{
	ssize_t ret;

	if (link_handled(dirfd, path, buf, len, &ret))
		return ret;
	return NEXT(readlinkat)(dirfd, path, buf, len);
}

EXPORT ssize_t __readlink_chk(const char *path, char *buf, size_t len, size_t size)
{
	ssize_t ret;

	if (len <= size && link_handled(AT_FDCWD, path, buf, len, &ret))
		return ret;
	return NEXT(__readlink_chk)(path, buf, len, size);
}

EXPORT ssize_t __readlinkat_chk(int dirfd, const char *path, char *buf, size_t len, size_t size)
{
	ssize_t ret;

	if (len <= size && link_handled(dirfd, path, buf, len, &ret))
		return ret;
	return NEXT(__readlinkat_chk)(dirfd, path, buf, len, size);
}

/* @resolved: PATH_MAX bytes, or NULL for memory of malloc(). */
static bool real_handled(const char *path, char *resolved, char **ret)
{
	struct vb_walk walk;

	switch (vb_place_find(AT_FDCWD, path, true, &walk)) {
	case VB_OURS:
		*ret = resolved ? strcpy(resolved, walk.path) : strdup(walk.path);
		return true;
	case VB_FAILED:
		*ret = NULL;
		return true;
	case VB_REAL:
		*ret = NEXT(realpath)(walk.path, resolved);
		return true;
	default:
		return false;
	}
}

EXPORT char *realpath(const char *path, char *resolved)
{
	char *ret;

	return real_handled(path, resolved, &ret) ? ret : NEXT(realpath)(path, resolved);
}

EXPORT char *__realpath_chk(const char *path, char *resolved, size_t size)
{
	char *ret;

	if (size >= PATH_MAX && real_handled(path, resolved, &ret))
		return ret;
	return NEXT(__realpath_chk)(path, resolved, size);
}

EXPORT char *canonicalize_file_name(const char *path)
{
	char *ret;

	return real_handled(path, NULL, &ret) ? ret : NEXT(canonicalize_file_name)(path);
}

/* What was known about relative paths holds no longer. A child of vfork() may do this in
 * our memory: forgetting does no harm.
 */
static int moved(int ret)
{
	if (ret == 0)
		atomic_store_explicit(&vb_place_cwd, VB_CWD_UNKNOWN, memory_order_relaxed);
	return ret;
}

static int enter(const struct vb_walk *walk)
{
	int fd, ret;

	if (walk->node.kind != VB_TREE_DIR && walk->node.kind != VB_TREE_MERGED) {
		errno = ENOTDIR;
		return -1;
	}
	fd = vb_content_open(walk, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ret = NEXT(fchdir)(fd);
	close(fd);
	return ret;
}

EXPORT int chdir(const char *path)
{
	struct vb_walk walk;

	switch (vb_place_find(AT_FDCWD, path, true, &walk)) {
	case VB_OURS:
		return moved(enter(&walk));
	case VB_FAILED:
		return -1;
	case VB_REAL:
		return moved(NEXT(chdir)(walk.path));
	default:
		return moved(NEXT(chdir)(path));
	}
}

EXPORT int fchdir(int fd)
{
	return moved(NEXT(fchdir)(fd));
}

/* getcwd() finds nothing in a folder that is removed, as ours are. */
static char *cwd_of_ours(char *buf, size_t size)
{
	char path[PATH_MAX];
	size_t need;

	if (errno != ENOENT || vb_place_depth || !vb_place_of_cwd(path))
		return NULL;
	need = strlen(path) + 1;
	if (!buf) {
		if (size && size < need) {
			errno = ERANGE;
			return NULL;
		}
		return strdup(path);
	}
	if (size < need) {
		errno = ERANGE;
		return NULL;
	}
	return strcpy(buf, path);
}

EXPORT char *getcwd(char *buf, size_t size)
{
	char *ret = NEXT(getcwd)(buf, size);

	return ret ? ret : cwd_of_ours(buf, size);
}

EXPORT char *__getcwd_chk(char *buf, size_t size, size_t room)
{
	char *ret = NEXT(__getcwd_chk)(buf, size, room);

	return ret ? ret : cwd_of_ours(buf, size);
}

EXPORT char *get_current_dir_name(void)
{
	char *ret = NEXT(get_current_dir_name)();

	return ret ? ret : cwd_of_ours(NULL, 0);
}

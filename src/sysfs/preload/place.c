/* SPDX-License-Identifier: BSD-2-Clause */
#include "sysfs/preload/place.h"

#include <errno.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sysfs/preload/content.h"

__thread int vb_place_depth;
_Atomic int vb_place_cwd;
_Atomic bool vb_place_armed;

/* The path a link of /proc tells, if it is a name of ours or lies where ours can be.
 * *ours tells which.
 */
static bool decode(const char *link, char *path, bool *ours)
{
	char text[PATH_MAX];
	ssize_t n;

	vb_place_enter();
	n = readlink(link, text, sizeof(text) - 1);
	vb_place_leave();
	if (n <= 0)
		return false;
	text[n] = 0;
	*ours = vb_content_decode(text, path);
	if (*ours)
		return true;
	if (strncmp(text, "/sys", 4) != 0 && strncmp(text, "/dev", 4) != 0 && n != 1)
		return false;
	strcpy(path, text);
	return true;
}

static bool base_of_fd(int fd, char *path, bool *ours)
{
	char link[32];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	return decode(link, path, ours);
}

bool vb_place_of_fd(int fd, char *path)
{
	int saved = errno;
	bool ours = false;

	base_of_fd(fd, path, &ours);
	errno = saved;
	return ours;
}

bool vb_place_of_cwd(char *path)
{
	int saved = errno;
	bool ours = false;

	decode("/proc/self/cwd", path, &ours);
	errno = saved;
	return ours;
}

/* The working directory, where it or what lies above it may hold ours. */
static bool base_of_cwd(const char *rel, char *path)
{
	bool climbs = rel[0] == '.' && rel[1] == '.';
	bool near, ours;

	if (atomic_load_explicit(&vb_place_cwd, memory_order_relaxed) != VB_CWD_OUTSIDE) {
		near = decode("/proc/self/cwd", path, &ours);
		atomic_store_explicit(&vb_place_cwd, near ? VB_CWD_INSIDE : VB_CWD_OUTSIDE,
				      memory_order_relaxed);
		if (near)
			return true;
	}
	/* From elsewhere only a path that climbs out and names us can get here. */
	if (!climbs || (!strstr(rel, "sys/") && !strstr(rel, "dev/")))
		return false;
	return syscall(SYS_getcwd, path, PATH_MAX) > 0 && path[0] == '/';
}

static bool absolute(int dirfd, const char *path, char *out)
{
	size_t base, len = strlen(path);
	bool ours;

	out[0] = 0;
	if (path[0] != '/' &&
	    !(dirfd == AT_FDCWD ? base_of_cwd(path, out) : base_of_fd(dirfd, out, &ours)))
		return false;
	base = strlen(out);
	if (base + len + 2 > PATH_MAX)
		return false;
	if (path[0] != '/')
		out[base++] = '/';
	memcpy(out + base, path, len + 1);
	return true;
}

enum vb_verdict vb_place_look(int dirfd, const char *path, bool follow, struct vb_walk *walk)
{
	char full[PATH_MAX];
	int saved = errno, err;
	bool concerns;

	vb_place_enter();
	concerns = absolute(dirfd, path, full) && vb_walk_concerns(full);
	err = concerns ? vb_walk_follow(full, follow, walk) : 0;
	vb_place_leave();
	errno = saved;
	if (!concerns)
		return VB_PASS;
	if (err) {
		errno = -err;
		return VB_FAILED;
	}
	/* A merged folder that the machine has too is the machine's, but for its listing. */
	if (walk->ours && !(walk->node.kind == VB_TREE_MERGED && walk->exists))
		return VB_OURS;
	return VB_REAL;
}

void vb_place_arm(int dirfd, const char *path)
{
	if (path[0] == '/' && strncmp(path, "/sys", 4) != 0 && path[1 + strspn(path + 1, "/")] &&
	    !(strncmp(path, "/dev", 4) == 0 &&
	      (!path[4] || strspn(path + 4, "/.") == strlen(path + 4))))
		return;
	if (path[0] != '/' && dirfd == AT_FDCWD &&
	    atomic_load_explicit(&vb_place_cwd, memory_order_relaxed) == VB_CWD_OUTSIDE)
		return;
	atomic_store_explicit(&vb_place_armed, true, memory_order_relaxed);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_SYSFS_PRELOAD_PLACE_H
#define VB_SYSFS_PRELOAD_PLACE_H

#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "sysfs/walk.h"

/*
 * Theory of operation
 *
 * The preload stands before libc's functions that take paths. A path that cannot lead to
 * the tree goes on to the next definition after one comparison of its first letters. The
 * others are followed through the tree (sysfs/walk.h) and answered from it, or go on with
 * the path they lead to.
 *
 * Descriptors carry their place with them instead of standing in a table, so that dup,
 * fork, exec and passing them on need no care, and nothing is left behind:
 *
 *   a file    is a memfd named "verbena:PATH" with the content at the time of opening
 *   a folder  is a real, empty folder that is removed at once, its name telling the path;
 *             it can be the working directory, also of a child
 *
 * Both have a link count of 0, which no ordinary file has, and files a mode that nobody
 * gives a memory file: fstat() looks twice only then.
 * /proc/self/fd and /proc/self/cwd tell the name.
 *
 * The tree's own functions use files too. While one of them runs, the thread is inside
 * and every call goes on untouched.
 */

#define EXPORT __attribute__((visibility("default")))

/* The next definition of a function, looked up when first used: programs call libc from
 * constructors that run before ours.
 */
#define NEXT(fn)                                                                                   \
	({                                                                                         \
		static void *_Atomic slot_;                                                        \
		void *next_ = atomic_load_explicit(&slot_, memory_order_relaxed);                  \
		if (!next_) {                                                                      \
			next_ = dlsym(RTLD_NEXT, #fn);                                             \
			atomic_store_explicit(&slot_, next_, memory_order_relaxed);                \
		}                                                                                  \
		(__typeof__(&fn))next_;                                                            \
	})

enum vb_verdict {
	VB_PASS,   /* not ours: call the next definition with the arguments as they are */
	VB_REAL,   /* the machine's: call it with walk->path and no directory descriptor */
	VB_OURS,   /* a node of the tree */
	VB_FAILED, /* errno is set */
};

enum vb_cwd { VB_CWD_UNKNOWN, VB_CWD_OUTSIDE, VB_CWD_INSIDE };

extern __thread int vb_place_depth;
extern _Atomic int vb_place_cwd;    /* enum vb_cwd */
extern _Atomic bool vb_place_armed; /* a descriptor may lead to the tree */

static inline void vb_place_enter(void)
{
	vb_place_depth++;
}

static inline void vb_place_leave(void)
{
	vb_place_depth--;
}

/** vb_place_quick() - Whether a path needs a closer look
 * True for what begins with /sys or /dev, and for relative paths where the folder they
 * start from may be there.
 */
static inline bool vb_place_quick(int dirfd, const char *path)
{
	if (!path || vb_place_depth)
		return false;
	if (path[0] == '/')
		return strncmp(path, "/sys", 4) == 0 || strncmp(path, "/dev", 4) == 0 ||
		       path[1] == '/' || path[1] == '.';
	if (dirfd != AT_FDCWD)
		return atomic_load_explicit(&vb_place_armed, memory_order_relaxed);
	return atomic_load_explicit(&vb_place_cwd, memory_order_relaxed) != VB_CWD_OUTSIDE ||
	       (path[0] == '.' && path[1] == '.');
}

/** vb_place_look() - vb_place_find() for paths that need a closer look
 * It has pages of stack: a thread that never names ours never touches them.
 */
enum vb_verdict vb_place_look(int dirfd, const char *path, bool follow, struct vb_walk *walk);

/** vb_place_find() - Where a path given to a function leads
 * @dirfd:  As in openat(2)
 * @path:   As given
 * @follow: Whether a link in the last component is followed
 * @walk:   Receives the place
 * Context: any thread; errno is kept unless the verdict is VB_FAILED
 */
static inline enum vb_verdict vb_place_find(int dirfd, const char *path, bool follow,
					    struct vb_walk *walk)
{
	return vb_place_quick(dirfd, path) && path[0] ? vb_place_look(dirfd, path, follow, walk)
						      : VB_PASS;
}

/** vb_place_of_fd() - The path of the tree that a descriptor of ours stands for
 * @path:   PATH_MAX bytes
 * Return:  whether it is one of ours
 */
bool vb_place_of_fd(int fd, char *path);

/** vb_place_of_cwd() - The path of the tree that is the working directory
 * @path:   PATH_MAX bytes
 * Return:  whether it is a folder of ours
 */
bool vb_place_of_cwd(char *path);

/** vb_place_arm() - Note that a descriptor was opened from which the tree can be reached */
void vb_place_arm(int dirfd, const char *path);

#endif

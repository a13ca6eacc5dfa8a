/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_SYSFS_WALK_H
#define VB_SYSFS_WALK_H

#include <limits.h>
#include <stdbool.h>

#include "sysfs/tree.h"

/* Where a path leads. */
struct vb_walk {
	char path[PATH_MAX]; /* canonical; a link only as its last component */
	bool ours;	     /* false: the machine's own, there or not */
	bool exists;	     /* a merged folder, or the machine's own entry, is really there */
	struct vb_tree_node node;
};

/** vb_walk_concerns() - Whether a path may lead to the tree
 * A cheap look at the text that lets nearly every other path of a program go by.
 * @path:   Absolute
 */
bool vb_walk_concerns(const char *path);

/** vb_walk_follow() - Follow a path through the machine's files with the tree among them
 * @path:   Absolute; may hold links, "..", and what else the kernel takes
 * @last:   Whether to follow a link in the last component
 * @walk:   Receives where it leads
 * Context: asks the machine about links on the way with readlink(2)
 * Return:  0, or the negative errno the kernel would give: -ENOENT (nothing there in a
 *          folder of ours, or on the way), -ENOTDIR, -ELOOP, -ENAMETOOLONG; walk->ours
 *          then says whose folder it was looked for in
 */
int vb_walk_follow(const char *path, bool last, struct vb_walk *walk);

#endif

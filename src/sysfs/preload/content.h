/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_SYSFS_PRELOAD_CONTENT_H
#define VB_SYSFS_PRELOAD_CONTENT_H

#include <stdbool.h>

struct vb_walk;

/* By which fstat() tells a file of ours from a program's memory file before it asks /proc: nobody
 * makes a memory file sticky. */
#define VB_CONTENT_MODE 01444

/** vb_content_open() - A descriptor of a node
 * @walk:   A node of the tree; a folder, or what open(2) was not told to follow
 * @flags:  As given to open(2)
 * Return:  the descriptor, with the lowest number free; -1 with errno as the kernel says:
 *          EACCES (writing), EISDIR, ENOTDIR, ELOOP, EEXIST, EMFILE ...
 */
int vb_content_open(const struct vb_walk *walk, int flags);

/** vb_content_decode() - What /proc says about a descriptor of ours, as a path
 * @link:   Target of a link below /proc/self/fd
 * @path:   PATH_MAX bytes
 * Return:  whether it is one of ours
 */
bool vb_content_decode(const char *link, char *path);

#endif

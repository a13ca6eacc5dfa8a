/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_SYSFS_PRELOAD_STAT_H
#define VB_SYSFS_PRELOAD_STAT_H

#include <stdbool.h>
#include <sys/stat.h>

struct vb_walk;

/** vb_stat_fill() - The attributes of a node as fstat(2) and its relatives tell them */
void vb_stat_fill(const struct vb_walk *walk, struct stat *st);

/** vb_stat_fix() - Correct what the kernel says about a descriptor that stands for a node
 * @fd:     Any descriptor
 * @st:     What fstat(2) said
 * Return:  whether it was one of ours
 */
bool vb_stat_fix(int fd, struct stat *st);

#endif

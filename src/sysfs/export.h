/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_SYSFS_EXPORT_H
#define VB_SYSFS_EXPORT_H

#include <stddef.h>

/** vb_export_write() - Write the tree as it is now into a folder
 * The folder stands for /sys: DIR/class/infiniband and so on, which is what SYSFS_PATH
 * expects. Made where it is missing; files of an earlier export are replaced. What a
 * folder cannot show is left out: entries whose reading fails, links to the machine's
 * own files, device nodes.
 * @dir:    The folder
 * @failed: Receives the path that could not be written
 * @size:   Room there
 * Return:  0 or negative errno
 */
int vb_export_write(const char *dir, char *failed, size_t size);

#endif

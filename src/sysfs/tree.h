/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_SYSFS_TREE_H
#define VB_SYSFS_TREE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

struct vb_device;

/*
 * Theory of operation
 *
 * The kernel shows an RDMA device as files below /sys and /dev. This is one description
 * of those files: a table of path patterns, each with a kind and the function that makes
 * its content. From it come the folder that `verbena sysfs` writes and the view that the
 * preload shows. Nothing is kept: content is made anew at each reading, so it is what the
 * interface is now.
 *
 * The canonical place of a device is a folder of its own, as a PCI device has:
 *
 *   /sys/devices/virtual/verbena/NAME              what programs reach as .../device
 *   /sys/devices/virtual/verbena/NAME/infiniband/NAME
 *
 * and the entries below /sys/class are links to there. Where the interface of the device
 * belongs to a device of the machine, the folder of that one shows infiniband/ and
 * infiniband_verbs/ as it would for a card.
 *
 * A folder is either ours alone, hiding whatever the machine has there (/sys/class/
 * infiniband must list the same devices as the library), or merged: the machine's entries
 * with ours added (/sys/class).
 *
 * Everything is read-only, for root too.
 */

enum vb_tree_kind {
	VB_TREE_DIR,	/* ours alone */
	VB_TREE_MERGED, /* ours added to the machine's */
	VB_TREE_FILE,
	VB_TREE_LINK,
	VB_TREE_CHAR, /* a device node */
};

/* Longest content of a file or link, with its newline. */
#define VB_TREE_TEXT_MAX 4096

struct vb_tree_row;

struct vb_tree_node {
	const struct vb_tree_row *row;
	enum vb_tree_kind kind;
	struct vb_device *dev; /* NULL: the node belongs to no device */
	uint32_t port;
	uint32_t index;	     /* of a GID or P_Key */
	const char *counter; /* name, or NULL */
};

/** vb_tree_lookup() - What lies at a path
 * @path:   Absolute and canonical: no empty, "." or ".." component, no link of the tree
 *          on the way, no slash at the end
 * @node:   Receives it
 * Return:  0; -ENOENT for a path that is not ours, which in a merged folder may be the
 *          machine's
 */
int vb_tree_lookup(const char *path, struct vb_tree_node *node);

/** vb_tree_list() - The entries of a folder
 * @path:   Of a node of kind DIR or MERGED
 * @visit:  Called for each of our entries, without "." and "..", until it returns false
 */
void vb_tree_list(const char *path,
		  bool (*visit)(const char *name, const struct vb_tree_node *node, void *arg),
		  void *arg);

/** vb_tree_read() - Make the content of a file or the target of a link
 * @node:   Of kind FILE or LINK
 * @path:   Its path
 * @text:   VB_TREE_TEXT_MAX bytes; receives it, terminated
 * Return:  its length; -EINVAL for an entry of a table that is empty, as the kernel says
 */
int vb_tree_read(const struct vb_tree_node *node, const char *path, char *text);

/** vb_tree_stat() - The attributes of a node
 * @st:     Receives them; st_dev is the caller's to set
 */
void vb_tree_stat(const struct vb_tree_node *node, const char *path, struct stat *st);

/** vb_tree_number() - The number of an entry in its file system, never 0 */
uint64_t vb_tree_number(const char *path);

/** vb_tree_host_path() - The folder of the machine's device an interface belongs to
 * @dev:    Names the interface
 * Return:  canonical path, static storage; "" where there is none
 */
const char *vb_tree_host_path(const struct vb_device *dev);

#endif

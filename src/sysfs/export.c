/* SPDX-License-Identifier: BSD-2-Clause */
#include "sysfs/export.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sysfs/text.h"
#include "sysfs/tree.h"
#include "sysfs/walk.h"

struct writer {
	const char *dir;
	const char *from; /* folder of the tree being written */
	char *failed;
	size_t size;
	int err;
};

static int make_dir(const char *path)
{
	return mkdir(path, 0755) && errno != EEXIST ? -errno : 0;
}

static int write_file(const char *path, const char *text, size_t len)
{
	int fd, err = 0;

	if (unlink(path) && errno != ENOENT)
		return -errno;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
	if (fd < 0)
		return -errno;
	while (len && !err) {
		ssize_t n = write(fd, text, len);

		if (n >= 0) {
			text += n;
			len -= (size_t)n;
		} else if (errno != EINTR) {
			err = -errno;
		}
	}
	return close(fd) && !err ? -errno : err;
}

static int write_link(const char *path, const char *target)
{
	if (unlink(path) && errno != ENOENT)
		return -errno;
	return symlink(target, path) ? -errno : 0;
}

static int write_dir(struct writer *out, const char *from);

static int write_node(struct writer *out, const char *from, const char *to,
		      const struct vb_tree_node *node)
{
	char text[VB_TREE_TEXT_MAX];
	struct vb_walk walk;
	int n;

	switch (node->kind) {
	case VB_TREE_DIR:
	case VB_TREE_MERGED:
		return write_dir(out, from);
	case VB_TREE_FILE:
		n = vb_tree_read(node, from, text);
		return n == -EINVAL ? 0 : n < 0 ? n : write_file(to, text, (size_t)n);
	case VB_TREE_LINK:
		if (vb_walk_follow(from, true, &walk) || !walk.ours)
			return 0;
		n = vb_tree_read(node, from, text);
		return n < 0 ? n : write_link(to, text);
	default:
		return 0;
	}
}

static bool write_entry(const char *name, const struct vb_tree_node *node, void *arg)
{
	struct writer *out = arg;
	char from[PATH_MAX], to[2 * PATH_MAX];

	snprintf(from, sizeof(from), "%s/%s", out->from, name);
	snprintf(to, sizeof(to), "%s%s", out->dir, from + strlen("/sys"));
	out->err = write_node(out, from, to, node);
	if (out->err && !out->failed[0])
		snprintf(out->failed, out->size, "%s", to);
	return !out->err;
}

static int write_dir(struct writer *out, const char *from)
{
	const char *outer = out->from;
	char to[2 * PATH_MAX];
	int err;

	snprintf(to, sizeof(to), "%s%s", out->dir, from + strlen("/sys"));
	err = make_dir(to);
	if (err)
		return err;
	out->from = from;
	vb_tree_list(from, write_entry, out);
	out->from = outer;
	return out->err;
}

int vb_export_write(const char *dir, char *failed, size_t size)
{
	static const char *const parts[] = {"", "/devices", "/devices/virtual"};
	struct writer out = {.dir = dir, .failed = failed, .size = size};
	char path[PATH_MAX];
	int err = 0;

	failed[0] = 0;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && !err; i++) {
		if (snprintf(path, sizeof(path), "%s%s", dir, parts[i]) >= (int)sizeof(path))
			return -ENAMETOOLONG;
		err = make_dir(path);
		if (err)
			snprintf(failed, size, "%s", path);
	}
	if (!err)
		err = write_dir(&out, VB_TREE_ROOT);
	if (!err)
		err = write_dir(&out, "/sys/class");
	if (err && !failed[0])
		snprintf(failed, size, "%s", dir);
	return err;
}

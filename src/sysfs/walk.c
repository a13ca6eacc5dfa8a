/* SPDX-License-Identifier: BSD-2-Clause */
#include "sysfs/walk.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "host/discover.h"
#include "object/device.h"

#define LINKS_MAX 40

/* Words that stand in every path of the tree but those of merged folders. */
static const char *const words[] = {"infiniband", "verbena", "rdma_cm"};

/* Without doubled slashes, "." and a slash at the end; ".." is left alone. */
static bool squeeze(const char *path, char *out, size_t size)
{
	size_t n = 0;

	while (*path) {
		size_t len;

		path += strspn(path, "/");
		len = strcspn(path, "/");
		if (len && !(len == 1 && *path == '.')) {
			if (n + len + 2 > size)
				return false;
			out[n++] = '/';
			memcpy(out + n, path, len);
			n += len;
		}
		path += len;
	}
	out[n] = 0;
	return true;
}

static bool below(const char *path, const char *dir)
{
	while (*dir && *dir == *path) {
		dir++;
		path++;
	}
	return !*dir && (*path == '/' || !*path);
}

/* The folders of the machine that show entries of ours, by their names. */
static bool is_merged(const char *path)
{
	static const char *const merged[] = {"/dev", "/sys/class", "/sys/class/misc",
					     "/sys/devices/virtual"};
	size_t count = 0, n;

	for (size_t i = 0; i < sizeof(merged) / sizeof(merged[0]); i++)
		if (strcmp(path, merged[i]) == 0)
			return true;
	/* .../device of an interface, reached through the class or at its own place. */
	n = strlen(path);
	if (below(path, "/sys/class/net")
		    ? n < 7 || strcmp(path + n - 7, "/device") != 0
		    : !below(path, "/sys/devices") || below(path, "/sys/devices/system"))
		return false;
	if (vb_devices(&count))
		return false;
	for (size_t i = 0; i < count; i++) {
		const struct vb_device *dev = vb_device_at(i);
		const char *host = vb_tree_host_path(dev);
		char link[64];

		if (!host[0])
			continue;
		snprintf(link, sizeof(link), "/sys/class/net/%s/device", dev->ifname);
		if (strcmp(path, host) == 0 || strcmp(path, link) == 0)
			return true;
	}
	return false;
}

bool vb_walk_concerns(const char *path)
{
	char plain[PATH_MAX];

	if (!squeeze(path, plain, sizeof(plain)))
		return false;
	if (!below(plain, "/sys") && !below(plain, "/dev"))
		return false;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strstr(plain, words[i]))
			return true;
	return is_merged(plain);
}

/* Put text in front of what is still to be walked. */
static int prepend(char *todo, const char *text, size_t len, const char *rest)
{
	size_t n = strlen(rest);

	if (len + n + 2 > PATH_MAX)
		return -ENAMETOOLONG;
	memmove(todo + len + 1, rest, n + 1);
	memcpy(todo, text, len);
	todo[len] = '/';
	return 0;
}

/* Look at walk->path, one component further than before; the target where it is a link.
 * Return: length of the link's target, 0 for no link, or negative errno.
 */
static int look(struct vb_walk *walk, bool hidden, char *target)
{
	ssize_t n;

	walk->ours = vb_tree_lookup(walk->path, &walk->node) == 0;
	walk->exists = walk->ours && walk->node.kind != VB_TREE_MERGED;
	if (walk->ours && walk->node.kind == VB_TREE_LINK)
		return vb_tree_read(&walk->node, walk->path, target);
	if (walk->exists)
		return 0;
	if (hidden && !walk->ours) {
		walk->ours = true;
		return -ENOENT;
	}
	n = readlink(walk->path, target, VB_TREE_TEXT_MAX - 1);
	if (n >= 0) {
		target[n] = 0;
		walk->exists = true;
		return (int)n;
	}
	walk->exists = errno == EINVAL;
	return 0;
}

/* One component on from walk->path. Return: as look(). */
static int step(struct vb_walk *walk, const char *name, size_t len, char *target)
{
	size_t n = strlen(walk->path);
	bool hidden = walk->ours && walk->node.kind != VB_TREE_MERGED;

	if (hidden && walk->node.kind != VB_TREE_DIR)
		return -ENOTDIR;
	if (len == 1 && name[0] == '.')
		return 0;
	if (len == 2 && memcmp(name, "..", 2) == 0) {
		char *slash = strrchr(walk->path, '/');

		if (slash)
			*slash = 0;
		return look(walk, false, target) < 0 ? -ENOENT : 0;
	}
	if (n && !walk->ours && !walk->exists)
		return -ENOENT;
	if (n + len + 2 > sizeof(walk->path))
		return -ENAMETOOLONG;
	walk->path[n] = '/';
	memcpy(walk->path + n + 1, name, len);
	walk->path[n + 1 + len] = 0;
	return look(walk, hidden, target);
}

/* A link was met: go on at its target. */
static int turn(struct vb_walk *walk, char *todo, const char *rest, const char *target, int len)
{
	char *slash = strrchr(walk->path, '/');
	int err = prepend(todo, target, (size_t)len, rest);

	if (slash)
		*slash = 0;
	if (target[0] == '/')
		walk->path[0] = 0;
	walk->ours = vb_tree_lookup(walk->path, &walk->node) == 0;
	walk->exists = true;
	return err;
}

int vb_walk_follow(const char *path, bool last, struct vb_walk *walk)
{
	char todo[PATH_MAX], target[VB_TREE_TEXT_MAX];
	const char *p = todo;
	int links = 0;

	if (strlen(path) >= sizeof(todo))
		return -ENAMETOOLONG;
	strcpy(todo, path);
	walk->path[0] = 0;
	walk->ours = false;
	walk->exists = true;
	while (*(p += strspn(p, "/"))) {
		size_t len = strcspn(p, "/");
		const char *rest = p + len;
		int n = step(walk, p, len, target);

		if (n < 0)
			return n;
		/* A slash after a link means what it points to. */
		if (n > 0 && (*rest || last)) {
			if (++links > LINKS_MAX)
				return -ELOOP;
			n = turn(walk, todo, rest, target, n);
			if (n)
				return n;
			rest = todo;
		} else if (*rest && walk->ours &&
			   (walk->node.kind == VB_TREE_FILE || walk->node.kind == VB_TREE_CHAR)) {
			return -ENOTDIR;
		}
		p = rest;
	}
	if (!walk->path[0])
		strcpy(walk->path, "/");
	return 0;
}

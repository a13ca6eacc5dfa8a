/* SPDX-License-Identifier: BSD-2-Clause */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "sysfs/preload/content.h"
#include "sysfs/preload/place.h"
#include "sysfs/preload/stat.h"

_Static_assert(sizeof(struct dirent) == sizeof(struct dirent64), "needs 64-bit file offsets");

/*
 * A listing of a folder of ours, or of one that is merged. It is handed out as a DIR, and
 * known again by its first word: libc has the descriptor there, which is never negative.
 */
#define LISTING_MARK ((int)0xa3d1a55e)

struct entry {
	ino_t ino;
	unsigned char type;
	char name[NAME_MAX + 1];
};

struct listing {
	int mark;
	int fd;	   /* -1: none was asked for yet */
	DIR *real; /* what the descriptor belongs to in a merged folder, or NULL */
	struct vb_walk walk;
	size_t pos, count, room;
	struct entry *entries;
	struct dirent current;
	bool failed; /* no memory for an entry */
};

static struct listing *listing_of(DIR *dir)
{
	struct listing *list = (struct listing *)(void *)dir;

	return dir && list->mark == LISTING_MARK ? list : NULL;
}

static void add(struct listing *list, const char *name, ino_t ino, unsigned char type)
{
	struct entry *e;

	for (size_t i = 0; i < list->count; i++)
		if (list->real && strcmp(list->entries[i].name, name) == 0)
			return;
	if (list->count == list->room) {
		size_t room = list->room ? 2 * list->room : 32;
		struct entry *more = realloc(list->entries, room * sizeof(*more));

		if (!more) {
			list->failed = true;
			return;
		}
		list->entries = more;
		list->room = room;
	}
	e = &list->entries[list->count++];
	e->ino = ino;
	e->type = type;
	snprintf(e->name, sizeof(e->name), "%s", name);
}

static bool add_ours(const char *name, const struct vb_tree_node *node, void *arg)
{
	static const unsigned char types[] = {
		[VB_TREE_DIR] = DT_DIR,	 [VB_TREE_MERGED] = DT_DIR, [VB_TREE_FILE] = DT_REG,
		[VB_TREE_LINK] = DT_LNK, [VB_TREE_CHAR] = DT_CHR,
	};
	struct listing *list = arg;
	char path[PATH_MAX + NAME_MAX];

	snprintf(path, sizeof(path), "%s/%s", list->walk.path, name);
	add(list, name, (ino_t)vb_tree_number(path), types[node->kind]);
	return !list->failed;
}

static void add_dots(struct listing *list)
{
	char parent[PATH_MAX];
	char *slash;

	strcpy(parent, list->walk.path);
	slash = strrchr(parent, '/');
	if (slash)
		*slash = 0;
	add(list, ".", (ino_t)vb_tree_number(list->walk.path), DT_DIR);
	add(list, "..", (ino_t)vb_tree_number(parent), DT_DIR);
}

/* Read everything at once; the machine's entries first. */
static void fill(struct listing *list)
{
	struct dirent *e;

	list->pos = list->count = 0;
	if (list->real)
		while ((e = NEXT(readdir)(list->real)))
			add(list, e->d_name, e->d_ino, e->d_type);
	else
		add_dots(list);
	vb_place_enter();
	vb_tree_list(list->walk.path, add_ours, list);
	vb_place_leave();
}

/* @real and @fd belong to the listing from here, unless it fails. */
static DIR *make(const struct vb_walk *walk, DIR *real, int fd)
{
	struct listing *list = calloc(1, sizeof(*list));

	if (!list)
		return NULL;
	list->mark = LISTING_MARK;
	list->fd = fd;
	list->real = real;
	list->walk = *walk;
	fill(list);
	if (list->failed) {
		free(list->entries);
		free(list);
		errno = ENOMEM;
		return NULL;
	}
	return (DIR *)(void *)list;
}

static DIR *make_merged(const struct vb_walk *walk, DIR *real)
{
	DIR *dir = real ? make(walk, real, -1) : NULL;

	if (real && !dir)
		NEXT(closedir)(real);
	vb_place_arm(AT_FDCWD, walk->path);
	return dir;
}

EXPORT DIR *opendir(const char *path)
{
	struct vb_walk walk;

	switch (vb_place_find(AT_FDCWD, path, true, &walk)) {
	case VB_OURS:
		if (walk.node.kind == VB_TREE_DIR || walk.node.kind == VB_TREE_MERGED)
			return make(&walk, NULL, -1);
		errno = ENOTDIR;
		return NULL;
	case VB_FAILED:
		return NULL;
	case VB_REAL:
		if (walk.ours)
			return make_merged(&walk, NEXT(opendir)(walk.path));
		return NEXT(opendir)(walk.path);
	default:
		if (path && !vb_place_depth)
			vb_place_arm(AT_FDCWD, path);
		return NEXT(opendir)(path);
	}
}

/* Whether a descriptor is one of ours or of a merged folder. */
static bool concerns(int fd, struct vb_walk *walk, bool *ours)
{
	char link[32];
	struct stat st;
	ssize_t n;
	int saved = errno;
	bool found;

	if (vb_place_depth || !atomic_load_explicit(&vb_place_armed, memory_order_relaxed))
		return false;
	vb_place_enter();
	*ours = NEXT(fstat)(fd, &st) == 0 && !st.st_nlink && vb_place_of_fd(fd, walk->path);
	if (!*ours) {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		n = readlink(link, walk->path, sizeof(walk->path) - 1);
		walk->path[n > 0 ? n : 0] = 0;
	}
	found = vb_walk_concerns(walk->path) && vb_tree_lookup(walk->path, &walk->node) == 0;
	vb_place_leave();
	errno = saved;
	return found;
}

EXPORT DIR *fdopendir(int fd)
{
	struct vb_walk walk;
	bool ours;

	if (!concerns(fd, &walk, &ours))
		return NEXT(fdopendir)(fd);
	if (!ours)
		return make_merged(&walk, NEXT(fdopendir)(fd));
	if (walk.node.kind == VB_TREE_DIR || walk.node.kind == VB_TREE_MERGED)
		return make(&walk, NULL, fd);
	errno = ENOTDIR;
	return NULL;
}

static struct dirent *next_entry(struct listing *list)
{
	const struct entry *e;

	if (list->pos == list->count)
		return NULL;
	e = &list->entries[list->pos++];
	list->current.d_ino = e->ino;
	list->current.d_off = (off_t)list->pos;
	list->current.d_reclen = sizeof(list->current);
	list->current.d_type = e->type;
	strcpy(list->current.d_name, e->name);
	return &list->current;
}

EXPORT struct dirent *readdir(DIR *dir)
{
	struct listing *list = listing_of(dir);

	return list ? next_entry(list) : NEXT(readdir)(dir);
}

EXPORT struct dirent64 *readdir64(DIR *dir)
{
	struct listing *list = listing_of(dir);

	return list ? (struct dirent64 *)next_entry(list) : NEXT(readdir64)(dir);
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#define DEFINE_READDIR_R(name, type)                                                               \
	EXPORT int name(DIR *dir, struct type *entry, struct type **result)                        \
	{                                                                                          \
		struct listing *list = listing_of(dir);                                            \
		struct dirent *e;                                                                  \
		if (!list)                                                                         \
			return NEXT(name)(dir, entry, result);                                     \
		e = next_entry(list);                                                              \
		if (e)                                                                             \
			memcpy(entry, e, sizeof(*e));                                              \
		*result = e ? entry : NULL;                                                        \
		return 0;                                                                          \
	}

DEFINE_READDIR_R(readdir_r, dirent)
DEFINE_READDIR_R(readdir64_r, dirent64)

EXPORT int closedir(DIR *dir)
{
	struct listing *list = listing_of(dir);
	int ret = 0;

	if (!list)
		return NEXT(closedir)(dir);
	if (list->real)
		ret = NEXT(closedir)(list->real);
	else if (list->fd >= 0)
		ret = close(list->fd);
	free(list->entries);
	free(list);
	return ret;
}

EXPORT void rewinddir(DIR *dir)
{
	struct listing *list = listing_of(dir);

	if (!list) {
		NEXT(rewinddir)(dir);
		return;
	}
	if (list->real)
		NEXT(rewinddir)(list->real);
	fill(list);
}

EXPORT long telldir(DIR *dir)
{
	struct listing *list = listing_of(dir);

	return list ? (long)list->pos : NEXT(telldir)(dir);
}

EXPORT void seekdir(DIR *dir, long pos)
{
	struct listing *list = listing_of(dir);

	if (!list)
		NEXT(seekdir)(dir, pos);
	else if (pos >= 0 && (size_t)pos <= list->count)
		list->pos = (size_t)pos;
}

EXPORT int dirfd(DIR *dir)
{
	struct listing *list = listing_of(dir);

	if (!list)
		return NEXT(dirfd)(dir);
	if (list->real)
		return NEXT(dirfd)(list->real);
	if (list->fd < 0)
		list->fd = vb_content_open(&list->walk, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return list->fd;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sysfs/preload/place.h"

/*
 * libc's functions that go through folders by themselves call each other inside libc,
 * where nothing can stand before them. Where they start from a place that may lead to
 * the tree, these do the same with the calls everybody uses.
 */

static bool starts_near(int dirfd, const char *path)
{
	struct vb_walk walk;

	if (!path || vb_place_depth)
		return false;
	if (path[0] == '/')
		return !path[1] || vb_place_quick(dirfd, path);
	return vb_place_find(dirfd, path, true, &walk) != VB_PASS;
}

/* @entries: an array of copies made with malloc(), of @count. */
static void drop(struct dirent **entries, int count)
{
	while (count > 0)
		free(entries[--count]);
	free(entries);
}

static int read_all(DIR *dir, struct dirent ***out, int (*filter)(const struct dirent *))
{
	struct dirent **list = NULL, *e;
	int count = 0;

	while ((e = readdir(dir))) {
		struct dirent **more, *copy;

		if (filter && !filter(e))
			continue;
		more = realloc(list, ((size_t)count + 1) * sizeof(*more));
		list = more ? more : list;
		copy = more ? malloc(sizeof(*copy)) : NULL;
		if (!copy) {
			drop(list, count);
			errno = ENOMEM;
			return -1;
		}
		list[count++] = memcpy(copy, e, sizeof(*e));
	}
	*out = list;
	return count;
}

static int scan(int dirfd, const char *path, struct dirent ***out,
		int (*filter)(const struct dirent *),
		int (*order)(const struct dirent **, const struct dirent **))
{
	int fd = openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	int count, err;

	if (!dir) {
		err = errno;
		if (fd >= 0)
			close(fd);
		errno = err;
		return -1;
	}
	count = read_all(dir, out, filter);
	err = errno;
	closedir(dir);
	errno = err;
	if (count > 1 && order)
		qsort(*out, (size_t)count, sizeof(**out),
		      (int (*)(const void *, const void *))(void (*)(void))order);
	return count;
}

#define DEFINE_SCANDIR(name, type)                                                                 \
	EXPORT int name(const char *path, struct type ***out, int (*filter)(const struct type *),  \
			int (*order)(const struct type **, const struct type **))                  \
	{                                                                                          \
		if (!starts_near(AT_FDCWD, path))                                                  \
			return NEXT(name)(path, out, filter, order);                               \
		return scan(AT_FDCWD, path, (struct dirent ***)out,                                \
			    (int (*)(const struct dirent *))filter,                                \
			    (int (*)(const struct dirent **, const struct dirent **))order);       \
	}

#define DEFINE_SCANDIRAT(name, type)                                                               \
	EXPORT int name(int dirfd, const char *path, struct type ***out,                           \
			int (*filter)(const struct type *),                                        \
			int (*order)(const struct type **, const struct type **))                  \
	{                                                                                          \
		if (!starts_near(dirfd, path))                                                     \
			return NEXT(name)(dirfd, path, out, filter, order);                        \
		return scan(dirfd, path, (struct dirent ***)out,                                   \
			    (int (*)(const struct dirent *))filter,                                \
			    (int (*)(const struct dirent **, const struct dirent **))order);       \
	}

DEFINE_SCANDIR(scandir, dirent)
DEFINE_SCANDIR(scandir64, dirent64)
DEFINE_SCANDIRAT(scandirat, dirent)
DEFINE_SCANDIRAT(scandirat64, dirent64)

static DIR *glob_opendir(const char *path)
{
	return opendir(path);
}

/* With GLOB_ALTDIRFUNC libc's glob() calls what it is given. */
#define DEFINE_GLOB(name, type, dirent_fn, stat_fn, lstat_fn)                                      \
	EXPORT int name(const char *pattern, int flags, int (*on_error)(const char *, int),        \
			type *out)                                                                 \
	{                                                                                          \
		if (!pattern || vb_place_depth || (flags & GLOB_ALTDIRFUNC) ||                     \
		    (pattern[0] == '/'                                                             \
			     ? strncmp(pattern, "/sys", 4) && strncmp(pattern, "/dev", 4) &&       \
				       pattern[1] != '*' && pattern[1] != '[' &&                   \
				       pattern[1] != '?' && pattern[1] != '{'                      \
			     : !vb_place_quick(AT_FDCWD, pattern)))                                \
			return NEXT(name)(pattern, flags, on_error, out);                          \
		out->gl_opendir = (void *(*)(const char *))glob_opendir;                           \
		out->gl_readdir = (__typeof__(out->gl_readdir))dirent_fn;                          \
		out->gl_closedir = (void (*)(void *))closedir;                                     \
		out->gl_stat = (__typeof__(out->gl_stat))stat_fn;                                  \
		out->gl_lstat = (__typeof__(out->gl_lstat))lstat_fn;                               \
		flags |= GLOB_ALTDIRFUNC;                                                          \
		return NEXT(name)(pattern, flags, on_error, out);                                  \
	}

#pragma GCC diagnostic ignored "-Wcast-function-type"
DEFINE_GLOB(glob, glob_t, readdir, stat, lstat)
DEFINE_GLOB(glob64, glob64_t, readdir64, stat64, lstat64)

struct ftw_walk {
	__nftw_func_t visit;
	int flags;
	dev_t dev;
};

static int ftw_type(const struct ftw_walk *w, const char *path, struct stat *st)
{
	if ((w->flags & FTW_PHYS) ? lstat(path, st) : stat(path, st)) {
		if (!(w->flags & FTW_PHYS) && lstat(path, st) == 0)
			return FTW_SLN;
		return FTW_NS;
	}
	if (S_ISDIR(st->st_mode))
		return FTW_D;
	return S_ISLNK(st->st_mode) ? FTW_SL : FTW_F;
}

static int ftw_node(const struct ftw_walk *w, const char *path, int level);

static int ftw_inside(const struct ftw_walk *w, DIR *dir, const char *path, int level)
{
	char below[PATH_MAX];
	struct dirent *e;
	int ret = 0;

	while (!ret && (e = readdir(dir))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (snprintf(below, sizeof(below), "%s%s%s", path,
			     path[strlen(path) - 1] == '/' ? "" : "/",
			     e->d_name) < (int)sizeof(below))
			ret = ftw_node(w, below, level);
	}
	return ret;
}

static int ftw_node(const struct ftw_walk *w, const char *path, int level)
{
	const char *slash = strrchr(path, '/');
	struct FTW at = {.base = slash && slash[1] ? (int)(slash - path) + 1 : 0, .level = level};
	struct stat st;
	int type = ftw_type(w, path, &st), ret = 0;
	DIR *dir = NULL;

	if (type == FTW_NS && !level)
		return -1;
	if ((w->flags & FTW_MOUNT) && level && type != FTW_NS && st.st_dev != w->dev)
		return 0;
	if (type == FTW_D && !(dir = opendir(path)))
		type = FTW_DNR;
	if (!(type == FTW_D && (w->flags & FTW_DEPTH)))
		ret = w->visit(path, &st, type, &at);
	if (dir) {
		if (!ret)
			ret = ftw_inside(w, dir, path, level + 1);
		closedir(dir);
		if (!ret && (w->flags & FTW_DEPTH))
			ret = w->visit(path, &st, FTW_DP, &at);
	}
	return ret;
}

static int ftw_start(const char *path, __nftw_func_t visit, int flags)
{
	struct ftw_walk w = {visit, flags, 0};
	struct stat st;

	if (lstat(path, &st))
		return -1;
	w.dev = st.st_dev;
	return ftw_node(&w, path, 0);
}

/* Changing directory on the way and skipping by return value are libc's alone. */
#define DEFINE_NFTW(name, func)                                                                    \
	EXPORT int name(const char *path, func visit, int depth, int flags)                        \
	{                                                                                          \
		if (!starts_near(AT_FDCWD, path) || (flags & (FTW_CHDIR | FTW_ACTIONRETVAL)))      \
			return NEXT(name)(path, visit, depth, flags);                              \
		return ftw_start(path, (__nftw_func_t)visit, flags);                               \
	}

DEFINE_NFTW(nftw, __nftw_func_t)
DEFINE_NFTW(nftw64, __nftw64_func_t)

/* ftw() differs in what it hands over: it knows no broken links, and no fourth argument,
 * which a function of three does not miss.
 */
#define DEFINE_FTW(name, func)                                                                     \
	EXPORT int name(const char *path, func visit, int depth)                                   \
	{                                                                                          \
		if (!starts_near(AT_FDCWD, path))                                                  \
			return NEXT(name)(path, visit, depth);                                     \
		return ftw_start(path, (__nftw_func_t)visit, 0);                                   \
	}

DEFINE_FTW(ftw, __ftw_func_t)
DEFINE_FTW(ftw64, __ftw64_func_t)

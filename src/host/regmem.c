/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/regmem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "host/mappings.h"
#include "host/memory_paths.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

#define PAGE 4096ull

/* ---- can it be registered? ---- */

/* Does this kernel know MADV_POPULATE_*? An empty range says so. */
static bool can_populate(void)
{
	static _Atomic int known; /* 0 not asked, 1 yes, 2 no */

	if (!known)
		known = madvise((void *)PAGE, 0, MADV_POPULATE_READ) ? 2 : 1;
	return known == 1;
}

/* Every byte lies in a mapping with these rights? */
static int check_rights(uint64_t from, uint64_t to, bool write)
{
	struct vb_mappings list;
	struct vb_mapping map;
	int err = vb_mappings_open(&list);

	if (err)
		return err;
	while (!err && from < to) {
		err = vb_mappings_find(&list, from, &map);
		if (!err && (!map.read || (write && !map.write)))
			err = -EFAULT;
		from = map.end;
	}
	vb_mappings_close(&list);
	return err;
}

/* Where the kernel cannot do it: look at the rights, then touch each page by way of a
 * system call, which fails where an access would raise a signal. */
static int touch(uint64_t from, uint64_t to, bool write)
{
	int err = check_rights(from, to, write);

	for (; !err && from < to; from += PAGE) {
		if (!vb_memory_readable((void *)from))
			err = -EFAULT;
		else if (write) /* adds nothing, but breaks copy-on-write */
			__atomic_fetch_or((uint8_t *)from, 0, __ATOMIC_RELAXED);
	}
	return err;
}

int vb_regmem_check(void *addr, size_t len, bool write)
{
	uint64_t from = (uintptr_t)addr / PAGE * PAGE;
	uint64_t to = (uintptr_t)addr + len;
	int err;

	if (to < (uintptr_t)addr || to + PAGE - 1 < to)
		return -EINVAL;
	if (!len)
		return 0;
	to = (to + PAGE - 1) / PAGE * PAGE;
	if (!can_populate())
		return touch(from, to, write);
	for (;;) {
		if (!madvise((void *)from, to - from,
			     write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ))
			return 0;
		if (errno != EINTR && errno != EAGAIN)
			break;
	}
	if (errno != ENOMEM)
		return -EFAULT; /* no right, not memory, beyond the end of a file, broken */
	/* Unmapped and out of memory look the same. */
	err = check_rights(from, to, write);
	return err == -EFAULT ? -EFAULT : -ENOMEM;
}

/* ---- what backs it? ---- */

/* A descriptor of ours for the file that is mapped. */
static int find_fd(uint64_t dev, uint64_t ino)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	int found = -1;

	while (dir && found < 0 && (entry = readdir(dir))) {
		struct stat st;
		int fd = atoi(entry->d_name);

		if (entry->d_name[0] != '.' && fd != dirfd(dir) && !fstat(fd, &st) &&
		    st.st_ino == ino && st.st_dev == dev && S_ISREG(st.st_mode))
			found = fd;
	}
	if (dir)
		closedir(dir);
	return found;
}

static void look_at_file(const struct vb_mapping *map, struct vb_backing *out)
{
	struct statfs fs;
	struct stat st;
	int seals;

	if (map->name[0] == '/' && !stat(map->name, &st) && st.st_ino == map->ino &&
	    st.st_dev == map->dev && strlen(map->name) < sizeof(out->path))
		strcpy(out->path, map->name);
	out->fd = find_fd(map->dev, map->ino);
	if (out->fd < 0)
		return;
	seals = fcntl(out->fd, F_GET_SEALS);
	if (fstatfs(out->fd, &fs))
		return;
	out->huge = fs.f_type == HUGETLBFS_MAGIC;
	out->mappable = fs.f_type == TMPFS_MAGIC && seals >= 0 && (seals & F_SEAL_SHRINK);
}

int vb_regmem_backing(const void *addr, size_t len, struct vb_backing *out)
{
	uint64_t from = (uintptr_t)addr, to = from + len;
	struct vb_mappings list;
	struct vb_mapping map, next;
	int err;

	memset(out, 0, sizeof(*out));
	out->fd = -1;
	err = vb_mappings_open(&list);
	if (err)
		return err;
	err = vb_mappings_find(&list, from, &map);
	/* One mapping that was cut by mprotect or madvise is still one. */
	while (!err && map.shared && map.ino && map.end < to) {
		err = vb_mappings_find(&list, map.end, &next);
		if (!err && (!next.shared || next.ino != map.ino || next.dev != map.dev ||
			     next.offset != map.offset + (map.end - map.start)))
			map.shared = false;
		map.end = next.end;
	}
	vb_mappings_close(&list);
	if (err || !map.shared || !map.ino)
		return err;
	out->shared = true;
	out->dev = map.dev;
	out->ino = map.ino;
	out->offset = map.offset + (from - map.start);
	look_at_file(&map, out);
	return 0;
}

/* Anonymous huge pages have a file too, of this name. */
static bool huge_mapping(const struct vb_mapping *map)
{
	struct statfs fs;

	if (!strncmp(map->name, "/anon_hugepage", 14))
		return true;
	return map->name[0] == '/' && !statfs(map->name, &fs) && fs.f_type == HUGETLBFS_MAGIC;
}

bool vb_regmem_huge(const void *addr, size_t len)
{
	uint64_t from = (uintptr_t)addr, to = from + len;
	struct vb_mappings list;
	struct vb_mapping map;
	int err = vb_mappings_open(&list);

	if (err)
		return false;
	do {
		err = vb_mappings_find(&list, from, &map);
		from = map.end;
	} while (!err && huge_mapping(&map) && from < to);
	vb_mappings_close(&list);
	return !err && huge_mapping(&map);
}

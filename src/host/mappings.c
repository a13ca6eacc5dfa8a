/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/mappings.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* The kernel's struct procmap_query, younger than many headers. */
struct query {
	uint64_t size, flags, addr;
	uint64_t start, end, vma_flags, page_size, offset, ino;
	uint32_t dev_major, dev_minor, name_size, build_id_size;
	uint64_t name_addr, build_id_addr;
};
#define QUERY	     _IOWR('f', 17, struct query)
#define QUERY_READ   0x01u
#define QUERY_WRITE  0x02u
#define QUERY_SHARED 0x08u

int vb_mappings_open(struct vb_mappings *list)
{
	memset(list, 0, sizeof(*list));
	list->fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	return list->fd < 0 ? -errno : 0;
}

void vb_mappings_close(struct vb_mappings *list)
{
	if (list->text)
		fclose(list->text);
	else if (list->fd >= 0)
		close(list->fd);
	list->fd = -1;
}

/* -ENOTTY: the kernel does not know the query. */
static int ask(struct vb_mappings *list, uint64_t addr, struct vb_mapping *map)
{
	struct query q = {.size = sizeof(q), .addr = addr};

	memset(map, 0, sizeof(*map));
	q.name_addr = (uintptr_t)map->name;
	q.name_size = sizeof(map->name);
	if (ioctl(list->fd, QUERY, &q)) {
		if (errno != ENAMETOOLONG && errno != E2BIG)
			return errno == ENOENT ? -EFAULT : -ENOTTY;
		q.name_addr = q.name_size = 0;
		map->name[0] = 0;
		if (ioctl(list->fd, QUERY, &q))
			return errno == ENOENT ? -EFAULT : -ENOTTY;
	}
	map->start = q.start;
	map->end = q.end;
	map->offset = q.offset;
	map->ino = q.ino;
	map->dev = makedev(q.dev_major, q.dev_minor);
	map->read = q.vma_flags & QUERY_READ;
	map->write = q.vma_flags & QUERY_WRITE;
	map->shared = q.vma_flags & QUERY_SHARED;
	return 0;
}

static bool parse(const char *line, struct vb_mapping *map)
{
	unsigned long long start, end, offset, ino;
	unsigned int dev_major, dev_minor;
	char rights[8];
	int at = 0;

	memset(map, 0, sizeof(*map));
	if (sscanf(line, "%llx-%llx %7s %llx %x:%x %llu %n", &start, &end, rights, &offset,
		   &dev_major, &dev_minor, &ino, &at) < 7)
		return false;
	map->start = start;
	map->end = end;
	map->offset = offset;
	map->ino = ino;
	map->dev = makedev(dev_major, dev_minor);
	map->read = rights[0] == 'r';
	map->write = rights[1] == 'w';
	map->shared = rights[3] == 's';
	snprintf(map->name, sizeof(map->name), "%.*s", (int)strcspn(line + at, "\n"), line + at);
	return true;
}

static int read_on(struct vb_mappings *list, uint64_t addr, struct vb_mapping *map)
{
	char line[4500];

	if (!list->text) {
		list->text = fdopen(list->fd, "re");
		if (!list->text)
			return -ENOMEM;
	}
	while (addr >= list->last.end) {
		if (!fgets(line, sizeof(line), list->text))
			return -EFAULT;
		if (!parse(line, &list->last))
			return -EFAULT;
	}
	*map = list->last;
	return addr >= map->start ? 0 : -EFAULT;
}

int vb_mappings_find(struct vb_mappings *list, uint64_t addr, struct vb_mapping *map)
{
	int err = list->text ? -ENOTTY : ask(list, addr, map);

	return err == -ENOTTY ? read_on(list, addr, map) : err;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/settings.h"

/* Is there a directory of ours, that the system made for us? */
static int parent_ours(const char *path)
{
	struct stat st;

	return !lstat(path, &st) && S_ISDIR(st.st_mode) && st.st_uid == geteuid();
}

/* Our user as the parent user namespace calls it: "root" of a namespace that an ordinary user
 * made must not take the place of the real one. */
static unsigned int outer_uid(void)
{
	unsigned long long inside, outside, count, uid = geteuid();
	FILE *map = fopen("/proc/self/uid_map", "re");
	unsigned int found = (unsigned int)uid;

	while (map && fscanf(map, "%llu %llu %llu", &inside, &outside, &count) == 3)
		if (uid >= inside && uid - inside < count)
			found = (unsigned int)(outside + (uid - inside));
	if (map)
		fclose(map);
	return found;
}

static int candidate_path(int n, char *path, size_t size)
{
	unsigned int uid = n >= 2 ? outer_uid() : 0;
	const char *text;
	char parent[64];
	int len = -1;

	switch (n) {
	case 0:
		text = vb_setting("RUNTIME_DIR");
		if (text && *text == '/')
			len = snprintf(path, size, "%s", text);
		break;
	case 1:
		text = secure_getenv("XDG_RUNTIME_DIR");
		if (text && *text == '/' && parent_ours(text))
			len = snprintf(path, size, "%s/verbena", text);
		break;
	case 2:
		snprintf(parent, sizeof(parent), "/run/user/%u", uid);
		if (parent_ours(parent))
			len = snprintf(path, size, "%s/verbena", parent);
		break;
	case 3:
		len = snprintf(path, size, "/dev/shm/verbena-%u", uid);
		break;
	case 4:
		len = snprintf(path, size, "/tmp/verbena-%u", uid);
		break;
	}
	if (len < 0)
		return -ENOENT;
	return (size_t)len < size ? 0 : -ENAMETOOLONG;
}

int vb_runtime_open(int n, int make, char *path, size_t size)
{
	struct stat st;
	int fd, err;

	path[0] = 0;
	err = candidate_path(n, path, size);
	if (err)
		return err;
	if (make && mkdir(path, 0700) && errno != EEXIST)
		return -errno;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ELOOP || errno == ENOTDIR ? -EPERM : -errno;
	/* In a place that was named on purpose others may look, not write. */
	if (fstat(fd, &st) || st.st_uid != geteuid() || (st.st_mode & (n ? 077 : 022))) {
		close(fd);
		return -EPERM;
	}
	return fd;
}

/* SPDX-License-Identifier: BSD-2-Clause */

/* A stopped process's memory file is opened through /proc, sealed, and mapped; its pid
 * may die afterwards. */

#include "platform/platform.h"

#include <sys/stat.h>

struct told {
	int fd;
};

static void make(void *arg)
{
	struct told *told = arg;
	uint64_t word = 42;

	told->fd = memfd_create("platform", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	EXPECT(told->fd >= 0);
	EXPECT(!fallocate(told->fd, 0, 0, 8192));
	EXPECT(!fcntl(told->fd, F_ADD_SEALS, F_SEAL_SHRINK));
	EXPECT(pwrite(told->fd, &word, 8, 4096) == 8);
}

int main(void)
{
	struct told *told = shared_page();
	pid_t pid = start_child(make, told, 1);
	char path[64], link[64] = "";
	uint64_t *read_only, *read_write;
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, told->fd);
	EXPECT(readlink(path, link, sizeof(link) - 1) > 0);
	EXPECT(!strncmp(link, "/memfd:platform", 15));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	EXPECT(fd >= 0);
	EXPECT(fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK);
	EXPECT(!fstat(fd, &st) && st.st_size == 8192 && st.st_ino);
	read_only = mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, 0);
	EXPECT(read_only != MAP_FAILED && read_only[512] == 42);
	EXPECT(mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
	close(fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	EXPECT(fd >= 0);
	read_write = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	EXPECT(read_write != MAP_FAILED);
	read_write[512] = 43;
	EXPECT(read_only[512] == 43);
	EXPECT(ftruncate(fd, 4096) < 0 && errno == EPERM); /* the seal holds for all */
	EXPECT(!ftruncate(fd, 1 << 20));
	close(fd);
	end_child(pid);
	EXPECT(read_only[512] == 43);
	EXPECT(open(path, O_RDONLY) < 0);
	return 0;
}

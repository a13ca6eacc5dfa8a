/* SPDX-License-Identifier: BSD-2-Clause */

/* Memory of a stopped process is read and written: process_vm_readv and writev honour its
 * rights and say how far they came; /proc/PID/mem tells the two sides apart. */

#include "platform/platform.h"

#include <sys/prctl.h>
#include <sys/uio.h>

#define SIZE 16384

static void allow(void *arg)
{
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
}

static void fill(uint8_t *at, uint8_t value)
{
	memset(at, value, SIZE);
}

int main(void)
{
	uint8_t *mem = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *local = malloc(SIZE);
	struct iovec here = {local, SIZE}, there = {mem, SIZE};
	char path[64];
	pid_t pid;
	int fd;

	EXPECT(mem != MAP_FAILED && local);
	fill(mem, 1);
	munmap(mem + 8192, 4096);
	mprotect(mem + 12288, 4096, PROT_READ);
	pid = start_child(allow, NULL, 1);

	fill(local, 2);
	/* Two pages are there, then a hole. */
	if (process_vm_writev(pid, &here, 1, &there, 1, 0) < 0 &&
	    (errno == EPERM || errno == ENOSYS))
		return skip_test("process_vm_writev is forbidden here");
	EXPECT(process_vm_writev(pid, &here, 1, &there, 1, 0) == 8192);
	EXPECT(mem[0] == 1); /* the parent's copy is another */
	fill(local, 0);
	EXPECT(process_vm_readv(pid, &here, 1, &there, 1, 0) == 8192);
	EXPECT(local[0] == 2 && local[8191] == 2 && local[8192] == 0);
	there.iov_base = mem + 8192;
	EXPECT(process_vm_readv(pid, &here, 1, &there, 1, 0) < 0 && errno == EFAULT);
	there.iov_base = mem + 12288;
	there.iov_len = 4096;
	here.iov_len = 4096;
	EXPECT(process_vm_readv(pid, &here, 1, &there, 1, 0) == 4096 && local[0] == 1);
	EXPECT(process_vm_writev(pid, &here, 1, &there, 1, 0) < 0 && errno == EFAULT);
	/* The local side: EFAULT as well. */
	here.iov_base = mem + 8192;
	there.iov_base = mem;
	EXPECT(process_vm_readv(pid, &here, 1, &there, 1, 0) < 0 && errno == EFAULT);

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	fd = open(path, O_RDWR | O_CLOEXEC);
	EXPECT(fd >= 0);
	EXPECT(pread(fd, local, 4096, (off_t)(uintptr_t)mem) == 4096 && local[0] == 2);
	EXPECT(pwrite(fd, "3", 1, (off_t)(uintptr_t)mem) == 1);
	EXPECT(pread(fd, local, 1, (off_t)(uintptr_t)mem) == 1 && local[0] == '3');
	EXPECT(pread(fd, local, 1, (off_t)(uintptr_t)mem + 8192) < 0 && errno == EIO);
	EXPECT(pread(fd, mem + 8192, 1, (off_t)(uintptr_t)mem) < 0 && errno == EFAULT);
	end_child(pid);
	/* The descriptor stays with the address space, never with a later process. */
	EXPECT(pread(fd, local, 1, (off_t)(uintptr_t)mem) == 0);
	here.iov_base = local;
	EXPECT(process_vm_readv(pid, &here, 1, &there, 1, 0) < 0 && errno == ESRCH);
	return 0;
}

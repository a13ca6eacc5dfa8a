/* SPDX-License-Identifier: BSD-2-Clause */

/* MADV_POPULATE_WRITE fails where an access would raise a signal, and where it succeeds the
 * pages are there. */

#include "platform/platform.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

int main(void)
{
	uint8_t *mem =
		mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = memfd_create("populate", MFD_CLOEXEC);
	unsigned char vec[4];
	uint8_t *file;

	if (madvise(mem, 0, MADV_POPULATE_READ))
		return skip_test("this kernel does not know MADV_POPULATE_READ");
	EXPECT(!madvise(mem, 8192, MADV_POPULATE_WRITE));
	EXPECT(!mincore(mem, 16384, vec));
	EXPECT((vec[0] & 1) && (vec[1] & 1) && !(vec[3] & 1));
	EXPECT(!mprotect(mem, 4096, PROT_READ));
	EXPECT(madvise(mem, 8192, MADV_POPULATE_WRITE) && errno == EINVAL);
	EXPECT(!munmap(mem + 8192, 4096));
	EXPECT(madvise(mem, 16384, MADV_POPULATE_READ) && errno == ENOMEM);
	EXPECT(!ftruncate(fd, 4096));
	file = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	EXPECT(madvise(file, 8192, MADV_POPULATE_WRITE) && errno == EFAULT);
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */

/* MADV_WIPEONFORK zeroes a page in the child, MADV_DONTFORK takes it away there; both
 * also for clone() without the C library's handlers. */

#include "platform/platform.h"

#include <sys/syscall.h>

static uint8_t *page(int advice)
{
	uint8_t *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	EXPECT(at != MAP_FAILED);
	EXPECT(!madvise(at, 4096, advice));
	*at = 1;
	return at;
}

int main(void)
{
	uint8_t *wiped = page(MADV_WIPEONFORK), *gone = page(MADV_DONTFORK);

	for (int raw = 0; raw < 2; raw++) {
		pid_t pid = raw ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
		int status;

		EXPECT(pid >= 0);
		if (!pid) {
			unsigned char vec;

			_exit(*(volatile uint8_t *)wiped != 0 || !mincore(gone, 4096, &vec));
		}
		EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
		EXPECT(*wiped == 1 && *gone == 1);
	}
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */

/* PR_SET_PTRACER lets a process that is no ancestor copy memory where Yama restricts it;
 * without Yama it fails with EINVAL and does no harm. */

#include "platform/platform.h"

#include <sys/prctl.h>
#include <sys/uio.h>

static uint64_t value = 1;

static void allow(void *arg)
{
	*(int *)arg = prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0) ? errno : 0;
	value = 42;
}

int main(void)
{
	int *result = shared_page(), status;
	pid_t target = start_child(allow, result, 1), sibling;

	EXPECT(*result == 0 || *result == EINVAL);
	sibling = fork();
	if (!sibling) {
		uint64_t got = 0;
		struct iovec here = {&got, 8}, there = {&value, 8};

		if (process_vm_readv(target, &here, 1, &there, 1, 0) < 0)
			_exit(errno == EPERM || errno == ENOSYS ? 77 : 1);
		_exit(got != 42);
	}
	EXPECT(waitpid(sibling, &status, 0) == sibling);
	end_child(target);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		return skip_test("process_vm_readv between siblings is forbidden here");
	return status != 0;
}

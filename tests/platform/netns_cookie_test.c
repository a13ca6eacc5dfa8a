/* SPDX-License-Identifier: BSD-2-Clause */

/* A network namespace has a cookie that any socket tells, and another namespace another. */

#include "platform/platform.h"

#include <sched.h>
#include <sys/socket.h>

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

static uint64_t cookie(void)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint64_t value = 0;
	socklen_t len = sizeof(value);

	if (getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &value, &len))
		value = 0;
	close(fd);
	return value;
}

int main(void)
{
	uint64_t here = cookie();
	int status;
	pid_t pid;

	if (!here)
		return skip_test("this kernel has no SO_NETNS_COOKIE");
	EXPECT(cookie() == here);
	pid = fork();
	if (!pid) {
		if (cookie() != here)
			_exit(1);
		if (unshare(CLONE_NEWNET) && unshare(CLONE_NEWUSER | CLONE_NEWNET))
			_exit(0);
		_exit(!cookie() || cookie() == here);
	}
	EXPECT(waitpid(pid, &status, 0) == pid);
	return status != 0;
}

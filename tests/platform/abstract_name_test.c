/* SPDX-License-Identifier: BSD-2-Clause */

/* An abstract socket's name belongs to one socket of the network namespace, and is free as
 * soon as that process is dead. */

#include "platform/platform.h"

#include <sched.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

static int bind_name(const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	EXPECT(fd >= 0);
	strcpy(address.sun_path + 1, name);
	if (!bind(fd, (struct sockaddr *)&address,
		  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name))))
		return fd;
	EXPECT(errno == EADDRINUSE);
	close(fd);
	return -1;
}

static void hold(void *name)
{
	EXPECT(bind_name(name) >= 0);
}

int main(void)
{
	char name[64];
	pid_t pid, other;
	int fd, status;

	snprintf(name, sizeof(name), "verbena-platform-%d", (int)getpid());
	pid = start_child(hold, name, 1);
	EXPECT(bind_name(name) < 0);
	end_child(pid);
	fd = bind_name(name);
	EXPECT(fd >= 0);
	other = fork();
	if (!other) {
		if (unshare(CLONE_NEWNET) && unshare(CLONE_NEWUSER | CLONE_NEWNET))
			_exit(0); /* forbidden: nothing to see */
		_exit(bind_name(name) < 0);
	}
	EXPECT(waitpid(other, &status, 0) == other && status == 0);
	return 0;
}

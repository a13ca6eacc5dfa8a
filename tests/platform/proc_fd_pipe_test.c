/* SPDX-License-Identifier: BSD-2-Clause */

/* A pipe of a stopped process is opened anew through /proc, read-write and without
 * blocking; writing to it raises no SIGPIPE when the process is gone. An eventfd and a
 * socket cannot be opened that way. */

#include "platform/platform.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>

struct told {
	int read_fd, write_fd, event_fd, socket_fd;
};

static void make(void *arg)
{
	struct told *told = arg;
	int fds[2];

	EXPECT(!pipe2(fds, O_CLOEXEC));
	told->read_fd = fds[0];
	told->write_fd = fds[1];
	told->event_fd = eventfd(0, EFD_CLOEXEC);
	told->socket_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

static int open_fd(pid_t pid, int fd, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
	return open(path, flags | O_CLOEXEC);
}

int main(void)
{
	struct told *told = shared_page();
	pid_t pid = start_child(make, told, 1);
	char byte = 'x', path[64];
	struct stat here, there;
	int fd, reader;

	fd = open_fd(pid, told->write_fd, O_RDWR | O_NONBLOCK);
	EXPECT(fd >= 0);
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, told->read_fd);
	EXPECT(!fstat(fd, &here) && S_ISFIFO(here.st_mode));
	EXPECT(!stat(path, &there) && there.st_ino == here.st_ino);
	EXPECT(write(fd, &byte, 1) == 1);
	reader = open_fd(pid, told->read_fd, O_RDONLY | O_NONBLOCK);
	EXPECT(reader >= 0);
	byte = 0;
	EXPECT(read(reader, &byte, 1) == 1 && byte == 'x');
	EXPECT(open_fd(pid, told->event_fd, O_RDWR) < 0 && (errno == ENXIO || errno == EACCES));
	EXPECT(open_fd(pid, told->socket_fd, O_RDWR) < 0 && errno == ENXIO);
	close(reader);
	end_child(pid);
	while (write(fd, &byte, 1) == 1) /* SIGPIPE would end this program */
		;
	EXPECT(errno == EAGAIN);
	return 0;
}

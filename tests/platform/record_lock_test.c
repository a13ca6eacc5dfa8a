/* SPDX-License-Identifier: BSD-2-Clause */

/* POSIX record locks: a lock is not inherited by fork, a child closing its copy of the
 * descriptor does not release it, F_GETLK names the holder, the lock of a whole range
 * conflicts with each byte of it, death releases; and any close in the process does. */

#include "platform/platform.h"

static int fd;

static int set(short type, off_t from, off_t count)
{
	struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = from, .l_len = count};

	return fcntl(fd, F_SETLK, &lock);
}

static struct flock get(off_t from)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = from, .l_len = 1};

	EXPECT(!fcntl(fd, F_GETLK, &lock));
	return lock;
}

static void lock_byte_7(void *arg)
{
	EXPECT(get(5).l_type == F_WRLCK); /* the parent's, not ours */
	EXPECT(set(F_WRLCK, 5, 1) < 0);
	EXPECT(!set(F_WRLCK, 7, 1));
}

static void close_it(void *arg)
{
	close(fd);
}

int main(void)
{
	char path[] = "/tmp/verbena-lock-XXXXXX";
	pid_t pid, other;
	int again;

	fd = mkostemp(path, O_CLOEXEC);
	EXPECT(fd >= 0);
	EXPECT(!set(F_WRLCK, 5, 1)); /* beyond the end of the file: allowed */
	pid = start_child(lock_byte_7, NULL, 1);
	EXPECT(get(7).l_type == F_WRLCK && get(7).l_pid == pid && get(7).l_len == 1);
	EXPECT(set(F_WRLCK, 0, 1024) < 0 && (errno == EAGAIN || errno == EACCES));
	other = start_child(close_it, NULL, 1);
	end_child(pid);
	EXPECT(get(7).l_type == F_UNLCK);
	pid = start_child(lock_byte_7, NULL, 1); /* still sees ours after the close above */
	end_child(pid);
	end_child(other);
	EXPECT(!set(F_WRLCK, 0, 1024));

	/* Why the lock file is opened once and never again in a process. */
	again = open(path, O_RDWR | O_CLOEXEC);
	close(again);
	pid = fork();
	if (!pid)
		_exit(get(5).l_type != F_UNLCK);
	EXPECT(waitpid(pid, &again, 0) == pid && again == 0);
	unlink(path);
	return 0;
}

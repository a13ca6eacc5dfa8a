/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/eventpipe.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

int vb_eventpipe_begin(int fds[2])
{
	if (pipe2(fds, O_CLOEXEC))
		return -errno;
	fcntl(fds[1], F_SETFL, O_NONBLOCK);
	return 0;
}

void vb_eventpipe_finish(int fd)
{
	char path[40];
	int both;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	both = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (both < 0)
		return;
	dup3(both, fd, O_CLOEXEC);
	close(both);
}

int vb_eventpipe_create(int fds[2])
{
	int err = vb_eventpipe_begin(fds);

	if (!err)
		vb_eventpipe_finish(fds[1]);
	return err;
}

static int write_record(int fd, const void *record, size_t bytes)
{
	while (write(fd, record, bytes) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

static uint64_t inode_of(const char *path)
{
	struct stat st;

	return stat(path, &st) || !S_ISFIFO(st.st_mode) ? 0 : st.st_ino;
}

/* The kept descriptor of a pipe: the number alone does not name it, a channel that was
 * destroyed and one made later may have the same. */
static int find_pipe(struct vb_peer *p, int number)
{
	char path[64];
	uint64_t ino;
	unsigned int at;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)p->pid, number);
	ino = inode_of(path);
	for (at = 0; at < VB_PEER_PIPES; at++)
		if (p->pipe[at].number == number)
			break;
	if (at < VB_PEER_PIPES && ino && p->pipe[at].ino == ino)
		return p->pipe[at].fd;
	fd = vb_peer_open_fd(p, number, "pipe:[", O_RDWR);
	if (fd < 0)
		return fd;
	if (at == VB_PEER_PIPES)
		at = p->next_pipe++ % VB_PEER_PIPES;
	if (p->pipe[at].fd >= 0)
		close(p->pipe[at].fd);
	p->pipe[at].fd = fd;
	p->pipe[at].number = number;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	p->pipe[at].ino = inode_of(path);
	return fd;
}

int vb_peer_event_write(struct vb_peer *p, int fd_number, const void *record, size_t bytes)
{
	int fd, err;

	if (fd_number < 0 || !bytes || bytes > PIPE_BUF)
		return -EBADF;
	if (p->self)
		return write_record(fd_number, record, bytes);
	/* Held while writing, which cannot block: else the descriptor might be closed. */
	pthread_mutex_lock(&p->lock);
	fd = find_pipe(p, fd_number);
	err = fd < 0 ? fd : write_record(fd, record, bytes);
	pthread_mutex_unlock(&p->lock);
	return err == -ENOENT ? -EBADF : err;
}

void vb_peer_event_forget(struct vb_peer *p, int fd_number)
{
	pthread_mutex_lock(&p->lock);
	for (int i = 0; i < VB_PEER_PIPES; i++) {
		if (p->pipe[i].fd < 0 || (fd_number >= 0 && p->pipe[i].number != fd_number))
			continue;
		close(p->pipe[i].fd);
		p->pipe[i].fd = p->pipe[i].number = -1;
	}
	pthread_mutex_unlock(&p->lock);
}

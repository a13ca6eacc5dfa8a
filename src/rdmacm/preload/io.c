/* SPDX-License-Identifier: BSD-2-Clause */
/* Data. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdma/rsocket.h>

#include "rdmacm/preload/preload.h"

#define SENDFILE_PIECE 65536

/* One call on an rsocket, or the system's on anything else. */
#define ON_PAIR(type, fd, on_rsocket, on_other)                                                    \
	do {                                                                                       \
		struct vb_pair *pair_ = vb_pair_get(fd);                                           \
		type ret_;                                                                         \
		if (!pair_)                                                                        \
			return vb_real()->on_other;                                                \
		int rs = pair_->rs;                                                                \
		ret_ = on_rsocket;                                                                 \
		vb_pair_put(pair_);                                                                \
		return ret_;                                                                       \
	} while (0)

ssize_t read(int fd, void *buf, size_t count)
{
	ON_PAIR(ssize_t, fd, rread(rs, buf, count), read(fd, buf, count));
}

ssize_t readv(int fd, const struct iovec *iov, int count)
{
	ON_PAIR(ssize_t, fd, rreadv(rs, iov, count), readv(fd, iov, count));
}

ssize_t recv(int fd, void *buf, size_t len, int flags)
{
	ON_PAIR(ssize_t, fd, rrecv(rs, buf, len, flags), recv(fd, buf, len, flags));
}

ssize_t recvfrom(int fd, void *buf, size_t len, int flags, struct sockaddr *addr,
		 socklen_t *addrlen)
{
	ON_PAIR(ssize_t, fd, rrecvfrom(rs, buf, len, flags, addr, addrlen),
		recvfrom(fd, buf, len, flags, addr, addrlen));
}

ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	ON_PAIR(ssize_t, fd, rrecvmsg(rs, msg, flags), recvmsg(fd, msg, flags));
}

ssize_t write(int fd, const void *buf, size_t count)
{
	ON_PAIR(ssize_t, fd, rwrite(rs, buf, count), write(fd, buf, count));
}

ssize_t writev(int fd, const struct iovec *iov, int count)
{
	ON_PAIR(ssize_t, fd, rwritev(rs, iov, count), writev(fd, iov, count));
}

ssize_t send(int fd, const void *buf, size_t len, int flags)
{
	ON_PAIR(ssize_t, fd, rsend(rs, buf, len, flags), send(fd, buf, len, flags));
}

ssize_t sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *addr,
	       socklen_t addrlen)
{
	ON_PAIR(ssize_t, fd, rsendto(rs, buf, len, flags, addr, addrlen),
		sendto(fd, buf, len, flags, addr, addrlen));
}

ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	ON_PAIR(ssize_t, fd, rsendmsg(rs, msg, flags), sendmsg(fd, msg, flags));
}

/* The checked forms, which a program compiled with _FORTIFY_SOURCE calls. */
extern void __chk_fail(void) __attribute__((noreturn));

ssize_t __read_chk(int fd, void *buf, size_t count, size_t room)
{
	if (count > room)
		__chk_fail();
	return read(fd, buf, count);
}

ssize_t __recv_chk(int fd, void *buf, size_t len, size_t room, int flags)
{
	if (len > room)
		__chk_fail();
	return recv(fd, buf, len, flags);
}

ssize_t __recvfrom_chk(int fd, void *buf, size_t len, size_t room, int flags, struct sockaddr *addr,
		       socklen_t *addrlen)
{
	if (len > room)
		__chk_fail();
	return recvfrom(fd, buf, len, flags, addr, addrlen);
}

static int receive_many(int rs, struct mmsghdr *msgs, unsigned int count, int flags)
{
	unsigned int done;
	ssize_t got;

	for (done = 0; done < count; done++) {
		got = rrecvmsg(rs, &msgs[done].msg_hdr, flags & ~MSG_WAITFORONE);
		if (got < 0)
			break;
		msgs[done].msg_len = (unsigned int)got;
		/* Who wants at least one takes the rest as it comes. */
		if (flags & MSG_WAITFORONE)
			flags |= MSG_DONTWAIT;
	}
	return done ? (int)done : -1;
}

int recvmmsg(int fd, struct mmsghdr *msgs, unsigned int count, int flags, struct timespec *timeout)
{
	ON_PAIR(int, fd, receive_many(rs, msgs, count, flags),
		recvmmsg(fd, msgs, count, flags, timeout));
}

static int send_many(int rs, struct mmsghdr *msgs, unsigned int count, int flags)
{
	unsigned int done;
	ssize_t put;

	for (done = 0; done < count; done++) {
		put = rsendmsg(rs, &msgs[done].msg_hdr, flags);
		if (put < 0)
			break;
		msgs[done].msg_len = (unsigned int)put;
	}
	return done ? (int)done : -1;
}

int sendmmsg(int fd, struct mmsghdr *msgs, unsigned int count, int flags)
{
	ON_PAIR(int, fd, send_many(rs, msgs, count, flags), sendmmsg(fd, msgs, count, flags));
}

/* By a buffer: the file may be a pipe, or shrink. What was not sent is not read either. */
static ssize_t send_file(int rs, int in, off_t *offset, size_t count)
{
	off_t at = offset ? *offset : lseek(in, 0, SEEK_CUR);
	char *buf = malloc(SENDFILE_PIECE);
	size_t done = 0;
	ssize_t got = 0, put = 0;

	if (!buf || at < 0) {
		free(buf);
		return -1;
	}
	while (done < count) {
		size_t want = count - done < SENDFILE_PIECE ? count - done : SENDFILE_PIECE;

		got = pread(in, buf, want, at);
		if (got <= 0)
			break;
		put = rwrite(rs, buf, (size_t)got);
		if (put < 0)
			break;
		done += (size_t)put;
		at += put;
		if (put < got)
			break;
	}
	free(buf);
	if (offset)
		*offset = at;
	else
		lseek(in, at, SEEK_SET);
	return done || (got >= 0 && put >= 0) ? (ssize_t)done : -1;
}

ssize_t sendfile(int fd, int in, off_t *offset, size_t count)
{
	ON_PAIR(ssize_t, fd, send_file(rs, in, offset, count), sendfile(fd, in, offset, count));
}

ssize_t sendfile64(int fd, int in, off64_t *offset, size_t count)
{
	return sendfile(fd, in, (off_t *)offset, count);
}

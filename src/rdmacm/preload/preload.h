/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_RDMACM_PRELOAD_PRELOAD_H
#define VB_RDMACM_PRELOAD_PRELOAD_H

#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

/*
 * Theory of operation
 *
 * What a program gets from socket() is an ordinary, unused socket of the kernel, for its
 * number, its flags and its file type; beside it stands an rsocket, and calls on the number go
 * there. dup() makes a second number of the same pair; the pair goes with its last number. Where
 * connecting over RDMA fails, the rsocket is dropped and the ordinary socket, on which options
 * and address were set as well, connects instead: then nothing of the number is ours.
 *
 * The libraries below call the same functions for their own purposes. Their descriptors are in no
 * entry; the one call that makes entries, socket(), looks at who called.
 *
 * After fork the child has the numbers but not the connections: calls fail with EBADF, close()
 * closes.
 */

struct vb_pair {
	_Atomic int refs; /* numbers, and calls that use it */
	int rs;		  /* the rsocket, or the descriptor of repoll_create() itself */
	bool epoll;	  /* the latter */
	bool bound;
	struct sockaddr_storage local; /* as bind() had it, for an ordinary socket after all */
	socklen_t local_bytes;
};

/* The system's functions; filled by vb_real(). */
struct vb_real {
	int (*socket)(int, int, int);
	int (*bind)(int, const struct sockaddr *, socklen_t);
	int (*listen)(int, int);
	int (*accept)(int, struct sockaddr *, socklen_t *);
	int (*accept4)(int, struct sockaddr *, socklen_t *, int);
	int (*connect)(int, const struct sockaddr *, socklen_t);
	int (*shutdown)(int, int);
	int (*close)(int);
	int (*dup)(int);
	int (*dup2)(int, int);
	int (*dup3)(int, int, int);
	int (*fcntl)(int, int, ...);
	int (*ioctl)(int, unsigned long, ...);
	int (*getpeername)(int, struct sockaddr *, socklen_t *);
	int (*getsockname)(int, struct sockaddr *, socklen_t *);
	int (*getsockopt)(int, int, int, void *, socklen_t *);
	int (*setsockopt)(int, int, int, const void *, socklen_t);
	ssize_t (*read)(int, void *, size_t);
	ssize_t (*readv)(int, const struct iovec *, int);
	ssize_t (*recv)(int, void *, size_t, int);
	ssize_t (*recvfrom)(int, void *, size_t, int, struct sockaddr *, socklen_t *);
	ssize_t (*recvmsg)(int, struct msghdr *, int);
	int (*recvmmsg)(int, struct mmsghdr *, unsigned int, int, struct timespec *);
	ssize_t (*write)(int, const void *, size_t);
	ssize_t (*writev)(int, const struct iovec *, int);
	ssize_t (*send)(int, const void *, size_t, int);
	ssize_t (*sendto)(int, const void *, size_t, int, const struct sockaddr *, socklen_t);
	ssize_t (*sendmsg)(int, const struct msghdr *, int);
	int (*sendmmsg)(int, struct mmsghdr *, unsigned int, int);
	ssize_t (*sendfile)(int, int, off_t *, size_t);
	int (*poll)(struct pollfd *, nfds_t, int);
	int (*ppoll)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *);
	int (*select)(int, fd_set *, fd_set *, fd_set *, struct timeval *);
	int (*pselect)(int, fd_set *, fd_set *, fd_set *, const struct timespec *,
		       const sigset_t *);
	int (*epoll_create1)(int);
	int (*epoll_ctl)(int, int, int, struct epoll_event *);
	int (*epoll_wait)(int, struct epoll_event *, int, int);
	int (*epoll_pwait)(int, struct epoll_event *, int, int, const sigset_t *);
};

/** vb_real() - The system's functions, looked up once */
const struct vb_real *vb_real(void);

/** vb_pair_get() - The pair of a number, with a reference; NULL: an ordinary descriptor
 * Context: any, also a signal handler: a spin lock for some instructions
 */
struct vb_pair *vb_pair_get(int fd);

/** vb_pair_put() - Drop a reference; the last one closes the rsocket. errno is kept */
void vb_pair_put(struct vb_pair *pair);

/** vb_pair_enter() - Let a number mean this pair too; takes the reference
 * Return:  0, or -1 with errno; then the reference is still the caller's
 */
int vb_pair_enter(int fd, struct vb_pair *pair);

/** vb_pair_leave() - The number means nothing any more. Return: its pair, or NULL */
struct vb_pair *vb_pair_leave(int fd);

/** vb_pair_create() - A pair for an rsocket, with one reference. NULL with errno ENOMEM */
struct vb_pair *vb_pair_create(int rs);

/** vb_wanted() - Whether a socket of this kind is to be an rsocket, for this program
 *
 * /etc/rdma/rsocket/preload_config says so: lines of "program domain type protocol", each of
 * them or "*"; without the file every one is.
 */
bool vb_wanted(int domain, int type, int protocol);

/** vb_called_by_us() - Whether code at this address is of the libraries below */
bool vb_called_by_us(const void *address);

/** vb_preload_setup() - Options from RS_SQ_SIZE, RS_RQ_SIZE and RS_INLINE for a new rsocket */
void vb_preload_setup(int rs);

/* Whether a number means a pair, without taking a reference. */
static inline bool vb_is_pair(int fd)
{
	struct vb_pair *pair = vb_pair_get(fd);

	if (pair)
		vb_pair_put(pair);
	return pair;
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_RDMACM_RSOCKET_SOCKET_H
#define VB_RDMACM_RSOCKET_SOCKET_H

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <rdma/rdma_cma.h>

#include "rdmacm/rsocket/conf.h"
#include "rdmacm/rsocket/waiter.h"

/*
 * Theory of operation
 *
 * What a stream (stream.h), a datagram socket (dgram.h) and an event poll (repoll.c) have
 * in common: a descriptor, references and a lock.
 *
 * The descriptor a program gets is a real one that is never readable, so that the number
 * is taken and closes on exec. Everything else is found through the table (table.h) by
 * that number. A look-up takes a reference; rclose() takes the entry out of the table,
 * wakes whoever waits and drops the table's reference. What the socket owns goes with the
 * last reference, so a call in another thread never sees it half destroyed.
 *
 * Locks, in the order they may be taken: tx_lock (one sender at a time), rx_lock (one
 * reader at a time), lock (all else), then those of the service (service.h). None is held
 * while waiting, and only tx_lock or rx_lock while data is copied.
 *
 * No thread moves data: whoever is in a call looks at the completion queue. Connections
 * and what must go on without a call are the service thread's.
 */

enum vb_rs_kind { VB_RS_STREAM, VB_RS_DGRAM, VB_RS_REPOLL };

struct vb_rs_process;

struct vb_rs {
	enum vb_rs_kind kind;
	int fd;	    /* -1: the program does not have it yet, or no longer */
	int domain; /* AF_INET or AF_INET6 */
	uint64_t serial;
	_Atomic int refs;
	struct vb_rs_process *process; /* whose table it is in */
	bool uses_service;
	bool closed; /* rclose() was called */
	pthread_mutex_t lock;
	pthread_mutex_t tx_lock;
	pthread_mutex_t rx_lock;

	/* Under lock. */
	struct vb_rs_links waiting;
	_Atomic int fd_flags; /* of F_GETFL and F_SETFL */
	int event_fd;	      /* readable when completions came for an armed queue; -1: none */
	int error;	      /* of SO_ERROR: told once */
	struct vb_rs_conf conf;
	uint64_t options; /* bit per enum vb_rs_flag */
	struct linger linger;
	int keepalive_s;
	uint64_t recv_wait_ns, send_wait_ns; /* SO_RCVTIMEO, SO_SNDTIMEO; 0: no limit */
	uint64_t in_moves, out_moves;	     /* how often it became readable, writable: edges */
};

/* Options that are on or off. */
enum vb_rs_flag {
	VB_RS_REUSEADDR,
	VB_RS_KEEPALIVE,
	VB_RS_OOBINLINE,
	VB_RS_NODELAY,
	VB_RS_V6ONLY,
	VB_RS_LINGER_SET,
};

union vb_rs_addr {
	struct sockaddr sa;
	struct sockaddr_in sin;
	struct sockaddr_in6 sin6;
	struct sockaddr_storage storage;
};

/** vb_rs_init() - What all kinds start with: references 1, no descriptor */
void vb_rs_init(struct vb_rs *rs, enum vb_rs_kind kind, int domain);

/** vb_rs_fini() - The counterpart; the last reference is gone */
void vb_rs_fini(struct vb_rs *rs);

/** vb_rs_put() - Drop a reference; the last one destroys the socket
 * Context: no lock of any socket held, and no event of the connection manager held
 */
void vb_rs_put(struct vb_rs *rs);

/** vb_rs_get() - Another reference, where there still is one
 * Return:  false: the socket is being destroyed
 */
bool vb_rs_get(struct vb_rs *rs);

/** vb_rs_lookup() - The socket of a descriptor, with a reference, or fail by rule
 * @what:   The call, for the explanation
 * Return:  NULL with errno EBADF
 */
struct vb_rs *vb_rs_lookup(int fd, const char *what);

/** vb_rs_nonblocking() - Whether a call with these flags may not wait */
static inline bool vb_rs_nonblocking(struct vb_rs *rs, int flags)
{
	return (flags & MSG_DONTWAIT) ||
	       (atomic_load_explicit(&rs->fd_flags, memory_order_relaxed) & O_NONBLOCK);
}

static inline bool vb_rs_flag(const struct vb_rs *rs, enum vb_rs_flag flag)
{
	return rs->options >> flag & 1;
}

/** vb_rs_progress() - Look at the completion queue; lock held. Wakes who waits for it */
void vb_rs_progress(struct vb_rs *rs);

/** vb_rs_arm() - From now on event_fd tells of completions; lock held. Then look again */
void vb_rs_arm(struct vb_rs *rs);

/** vb_rs_drain() - Take the event that made event_fd readable; lock held
 *
 * Where others wait too, the queue is armed again: who consumes an event must not leave
 * them without one.
 */
void vb_rs_drain(struct vb_rs *rs);

/** vb_rs_revents() - What poll() would say; lock held
 * @events: POLLIN, POLLOUT, POLLRDHUP, ... as asked
 */
short vb_rs_revents(struct vb_rs *rs, short events);

/** vb_rs_wait() - Wait until a condition holds; lock held, dropped while asleep
 * @test:   The condition; looks only at what the lock protects
 * @nonblock: Fail with EAGAIN instead
 * @until_ns: Give up then (CLOCK_MONOTONIC) with ETIMEDOUT; 0: never
 * Return:  0, or -1 with errno EAGAIN, ETIMEDOUT, EINTR (a signal handler ran), EBADF
 *          (closed by another thread), EMFILE and the like
 */
int vb_rs_wait(struct vb_rs *rs, bool (*test)(struct vb_rs *rs), bool nonblock, uint64_t until_ns);

/** vb_rs_wait_limited() - The same with the limit of SO_RCVTIMEO or SO_SNDTIMEO
 * @limit_ns: 0: none
 * Return:  as vb_rs_wait(), with EAGAIN at the limit
 */
int vb_rs_wait_limited(struct vb_rs *rs, bool (*test)(struct vb_rs *rs), bool nonblock,
		       uint64_t limit_ns);

uint64_t vb_rs_now_ns(void);

/** vb_rs_check_addr() - An address a program passed, or fail by rule
 * @out:    Its copy
 * Return:  0, or -1 with errno
 */
int vb_rs_check_addr(const char *what, int domain, const struct sockaddr *addr, socklen_t len,
		     union vb_rs_addr *out);

/** vb_rs_addr_bytes() - The length of an address of its family */
socklen_t vb_rs_addr_bytes(const struct sockaddr *addr);

/** vb_rs_return_addr() - Copy an address out as getsockname() does: cut, real length told */
void vb_rs_return_addr(const struct sockaddr *from, struct sockaddr *addr, socklen_t *len);

/** vb_rs_iov_bytes() - Sum of the lengths, or fail by rule: -1 with errno EINVAL */
ssize_t vb_rs_iov_bytes(const char *what, const struct iovec *iov, size_t count);

/* A place in a list of buffers. */
struct vb_rs_cursor {
	const struct iovec *iov;
	size_t left; /* buffers, this one included */
	size_t at;   /* bytes of this one already done */
};

/** vb_rs_gather() - Copy the next bytes of the list into one buffer */
void vb_rs_gather(struct vb_rs_cursor *cursor, void *to, size_t bytes);

/** vb_rs_scatter() - Copy a buffer into the next bytes of the list */
void vb_rs_scatter(struct vb_rs_cursor *cursor, const void *from, size_t bytes);

#endif

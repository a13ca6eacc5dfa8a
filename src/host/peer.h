/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_HOST_PEER_H
#define VB_HOST_PEER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "host/adapter.h"
#include "host/layout.h"

/*
 * Theory of operation
 *
 * A peer is a process whose segment is mapped here; this process is one too (the
 * self peer uses the adapter's own mapping). It is found by a block of numbers,
 * checked (memory file, sealed against shrinking, layout, id, slot) and kept by
 * slot and id, so that a reused pid or slot is never mistaken for it.
 *
 * Everything read from a segment may be garbage. Accessors check each place
 * against what is mapped and give NULL otherwise; a row reached through them is memory
 * that can be read, nothing more.
 */

struct vb_memory_map; /* see memory.c */

/* A mapping of a part. Never unmapped or moved while the peer lives. */
struct vb_peer_map {
	uint8_t *base;
	uint64_t reserve;
	_Atomic uint64_t size; /* bytes that may be touched */
	struct vb_peer_map *retired;
};

struct vb_part_maps {
	_Atomic(struct vb_peer_map *) now;
	struct vb_peer_map first;
};

#define VB_PEER_PIPES 16

struct vb_peer {
	struct vb_adapter *adapter; /* ours, not the peer's */
	uint8_t id[16];
	uint32_t slot;
	pid_t pid;
	bool self;
	const struct vb_pub_header *pub; /* read-only, except that it is our own */
	struct vb_mbx_header *mbx;

	/* The rest belongs to the host layer. */
	_Atomic bool dead;
	pid_t lock_pid; /* who held its record lock when it was opened, 0 unknown */
	_Atomic unsigned int refs;
	struct vb_part_maps pub_maps, mbx_maps;
	pthread_mutex_t lock; /* maps, pipes, memory maps */
	int pidfd;	      /* while it is opened, else -1 */
	int pub_fd, mbx_fd;   /* numbers in that process */
	uint64_t pub_ino, mbx_ino;
	_Atomic int doorbell; /* our descriptor of its doorbell, -1 not opened, -2 no use */
	struct {
		int number, fd;
		uint64_t ino;
	} pipe[VB_PEER_PIPES];
	unsigned int next_pipe;
	_Atomic(struct vb_memory_map *) memory[64];
	struct vb_memory_map *spare_maps;
	_Atomic int mem_fd;    /* /proc/PID/mem, -1 not opened, -2 no use */
	_Atomic bool no_cross; /* process_vm_* is forbidden */
	struct vb_peer *next;
};

/** vb_peer_get() - The process that owns a block
 * @block: Number >> VB_BLOCK_BITS
 * @out:   Receives the peer with a reference; vb_peer_put() ends it
 * Context: any thread; the first time a few system calls, later a look-up under a lock
 * Return:  0, or -ENOENT (no process of ours has that block), -ESRCH (its process is
 *          dead), -EACCES (not allowed to open its segment), -EPROTO (another layout),
 *          -EAGAIN (just starting), -ENOMEM, -EMFILE
 */
int vb_peer_get(struct vb_adapter *a, uint32_t block, struct vb_peer **out);

/** vb_peer_get_slot() - The process in a slot of the registry; otherwise as vb_peer_get() */
int vb_peer_get_slot(struct vb_adapter *a, uint32_t slot, struct vb_peer **out);

/** vb_peer_ref() - One more reference */
static inline struct vb_peer *vb_peer_ref(struct vb_peer *p)
{
	atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
	return p;
}

/** vb_peer_put() - Give a reference back; p may be NULL */
void vb_peer_put(struct vb_peer *p);

/** vb_peer_pub_at() - A place in the peer's published part
 * @offset: As found in the segment, 0 for none
 * @bytes:  What will be touched
 * Context: any thread. Maps what the owner added meanwhile
 * Return:  the address, good as long as the reference, or NULL where the part has no such
 *          place or it is not aligned to 8 bytes
 */
const void *vb_peer_pub_at(struct vb_peer *p, uint64_t offset, uint64_t bytes);

/** vb_peer_mbx_at() - A place in the peer's mailbox; otherwise as vb_peer_pub_at() */
void *vb_peer_mbx_at(struct vb_peer *p, uint64_t offset, uint64_t bytes);

/** vb_peer_index() - Index of a number in the peer's tables
 * @number: Adapter-wide number
 * Return:  true, and @index; false where the number's block is not the peer's
 */
bool vb_peer_index(struct vb_peer *p, uint32_t number, uint32_t *index);

/* Rows by adapter-wide number, and by index for CQs (vb_pub_qp.recv_cq is an index).
 * NULL: no such row. The row may name nothing: look at its words. */
const struct vb_pub_qp *vb_peer_pub_qp(struct vb_peer *p, uint32_t qpn);
struct vb_mbx_qp *vb_peer_mbx_qp(struct vb_peer *p, uint32_t qpn);
const struct vb_pub_key *vb_peer_pub_key(struct vb_peer *p, uint32_t key_number);
const struct vb_pub_cq *vb_peer_pub_cq(struct vb_peer *p, uint32_t index);
struct vb_mbx_cq *vb_peer_mbx_cq(struct vb_peer *p, uint32_t index);

/** vb_peer_ring() - Wake the peer's engine after something was published for it
 * Context: any thread; a system call unless a ring is pending already
 * Return:  0 (woken, or already about to wake), or a negative errno where the doorbell cannot
 *          be reached; the peer then finds the work when it polls
 */
int vb_peer_ring(struct vb_peer *p);

/** vb_peer_same_process() - Does the peer's pid still name the process we mapped?
 * Context: any thread; one system call. After opening something of it by pid
 */
bool vb_peer_same_process(const struct vb_peer *p);

/** vb_peer_open_fd() - Open a descriptor of the peer anew
 * @number: Its number in the peer
 * @prefix: What the link in /proc must begin with, e.g. "pipe:["
 * @flags:  For open(); close-on-exec, no-tty and non-blocking are added
 * Context: any thread. Works on a stopped process
 * Return:  the descriptor, -ESRCH, -EACCES, -ENOENT, -EBADF (something else), -EMFILE
 */
int vb_peer_open_fd(struct vb_peer *p, int number, const char *prefix, int flags);

#endif

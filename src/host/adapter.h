/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_HOST_ADAPTER_H
#define VB_HOST_ADAPTER_H

#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "host/layout.h"
#include "host/registry.h"
#include "host/segment.h"

/*
 * Theory of operation
 *
 * This process's part of an adapter: its segment, its slot in the registry, its
 * blocks of numbers. There is one per process and device, counted by the contexts
 * that use it.
 *
 * Where there can be no sharing (no memory file, no runtime directory, a file size
 * limit of 0 ...) the adapter works within the process all the same:
 * `alone_reason` says why, and no peer but the process itself is ever found.
 *
 * After fork the child's library is clean: a handler closes what was inherited, and
 * opening the device makes a new adapter. What the child still holds of the old one must
 * not be used (vb_adapter_alive()).
 */

/* Things that have adapter-wide numbers. Each kind counts for itself. */
enum vb_number_kind {
	VB_NUMBER_QP,
	VB_NUMBER_KEY,
	VB_NUMBER_PD,
	VB_NUMBER_CQ,
	VB_NUMBER_SRQ,
	VB_NUMBER_XRCD,
	VB_NUMBER_KINDS
};

enum vb_table {
	VB_TABLE_QP,
	VB_TABLE_KEY,
	VB_TABLE_CQ,
	VB_TABLE_MQP, /* from here on: in the mailbox */
	VB_TABLE_MCQ,
	VB_TABLES
};

struct vb_ids; /* see numbers.c */
struct vb_peer;
struct vb_peers;
/* What the kernel walks when the engine thread ends: node -> head, futex word at a fixed
 * distance from the node. Private memory, so that nobody else can bend the list. */
struct vb_liveness {
	struct robust_list_head head;
	struct robust_list node;
};

struct vb_adapter {
	char device[64];
	uint8_t id[16];
	uint32_t slot; /* in the registry; 0 where alone */
	pid_t pid;
	const char *alone_reason;  /* NULL, or why no other process can be reached in memory */
	struct vb_pub_header *pub; /* published part, ours to write */
	struct vb_mbx_header *mbx; /* mailbox */
	int doorbell_fd;	   /* readable when a peer rang; for the engine's epoll */

	/* The rest belongs to the host layer. */
	struct vb_part pub_part, mbx_part;
	pthread_mutex_t space_lock; /* both parts' allocators and the table chunks */
	_Atomic uint64_t chunk[VB_TABLES][VB_CHUNKS]; /* what the published part says, trusted */
	struct vb_registry registry;
	_Atomic uint64_t private_counters[VB_COUNTERS]; /* where there is no registry */
	int doorbell_write_fd;
	_Atomic uint64_t own_turn, own_rung; /* the doorbell's words for our own threads */
	_Atomic uint32_t n_blocks;
	uint32_t block[VB_OWN_BLOCKS];
	int block_fd[VB_OWN_BLOCKS]; /* bound sockets, by ordinal */
	pthread_mutex_t number_lock; /* blocks and ids */
	struct vb_ids *ids[VB_NUMBER_KINDS];
	_Atomic uint8_t access_used[VB_ACCESSES]; /* entries of our access table */
	struct vb_peer *self;
	struct vb_peers *peers;	     /* see peer.c */
	struct vb_liveness liveness; /* see liveness.c */
	const uint8_t *fork_guard;   /* reads 0 in a child made by fork */
	unsigned int users;
	struct vb_adapter *next;
};

/** vb_adapter_open() - The process's adapter of a device, made at the first call
 * @device: Device name, at most 63 bytes of letters, digits, '_', '-' and '.'
 * @out:    Receives the adapter; every call needs a vb_adapter_close()
 * Context: any thread; may block on files
 * Return:  0, -ENOMEM, -EMFILE, -EINVAL (name)
 */
int vb_adapter_open(const char *device, struct vb_adapter **out);

/** vb_adapter_close() - Give up one use; the last one removes slot, blocks and segment
 * Context: no thread is inside another call on the adapter; the engine has stopped
 */
void vb_adapter_close(struct vb_adapter *a);

/** vb_adapter_alive() - False in a child made by fork, for its parent's adapter */
static inline bool vb_adapter_alive(const struct vb_adapter *a)
{
	return *(const volatile uint8_t *)a->fork_guard != 0;
}

/** vb_adapter_counters() - Our own line of counters
 * Return: VB_COUNTERS numbers, written by this process only: add with a relaxed load
 *         and store. They count on when the slot goes to another process
 */
_Atomic uint64_t *vb_adapter_counters(struct vb_adapter *a);

/** vb_adapter_alloc_pub() - Take zeroed space in the published part
 * @bytes: More than 0
 * @align: A power of two up to 4096; at least 64 is given
 * Context: any thread
 * Return:  offset, or 0 for lack of memory
 */
uint64_t vb_adapter_alloc_pub(struct vb_adapter *a, uint64_t bytes, uint64_t align);

/** vb_adapter_alloc_mbx() - Take zeroed space in the mailbox; otherwise as above */
uint64_t vb_adapter_alloc_mbx(struct vb_adapter *a, uint64_t bytes, uint64_t align);

/** vb_adapter_free_pub() - Give space back
 * @offset: From vb_adapter_alloc_pub(); 0 does nothing
 * @bytes:  As given there
 * @align:  As given there
 */
void vb_adapter_free_pub(struct vb_adapter *a, uint64_t offset, uint64_t bytes, uint64_t align);

/** vb_adapter_free_mbx() - As above, for the mailbox */
void vb_adapter_free_mbx(struct vb_adapter *a, uint64_t offset, uint64_t bytes, uint64_t align);

/** vb_adapter_pub_at() - Address of a place in our published part; good until it is freed */
static inline void *vb_adapter_pub_at(const struct vb_adapter *a, uint64_t offset)
{
	return a->pub_part.base + offset;
}

/** vb_adapter_mbx_at() - Address of a place in our mailbox; good until it is freed */
static inline void *vb_adapter_mbx_at(const struct vb_adapter *a, uint64_t offset)
{
	return a->mbx_part.base + offset;
}

/* Rows of our tables by index (not number), below VB_INDEXES. A row's memory comes with
 * the first call for its chunk and stays; a new row is zeroed once, never again:
 * generations and epochs count on. NULL: no memory. Any thread. */
struct vb_pub_qp *vb_adapter_pub_qp(struct vb_adapter *a, uint32_t index);
struct vb_pub_key *vb_adapter_pub_key(struct vb_adapter *a, uint32_t index);
struct vb_pub_cq *vb_adapter_pub_cq(struct vb_adapter *a, uint32_t index);
struct vb_mbx_qp *vb_adapter_mbx_qp(struct vb_adapter *a, uint32_t index);
struct vb_mbx_cq *vb_adapter_mbx_cq(struct vb_adapter *a, uint32_t index);

/** vb_adapter_new_index() - Take an adapter-wide number
 * @kind:   What it is for
 * @index:  Receives the index into our tables
 * @number: Receives the number: block << VB_BLOCK_BITS | low, 24 bits; never 0, 1 or
 *          0xffffff
 * Context: any thread. Claims a further block when all numbers are in use. Numbers
 *          go in a circle: one just given back comes last
 * Return:  0, -ENOSPC (VB_OWN_BLOCKS used up or the adapter's blocks all taken), -ENOMEM
 */
int vb_adapter_new_index(struct vb_adapter *a, enum vb_number_kind kind, uint32_t *index,
			 uint32_t *number);

/** vb_adapter_free_index() - Give a number back */
void vb_adapter_free_index(struct vb_adapter *a, enum vb_number_kind kind, uint32_t index);

/** vb_adapter_number() - Number of one of our indexes; the index's block must be ours */
static inline uint32_t vb_adapter_number(const struct vb_adapter *a, uint32_t index)
{
	uint32_t ordinal = (index >> VB_BLOCK_BITS) % VB_OWN_BLOCKS;

	return a->block[ordinal] << VB_BLOCK_BITS | (index & (VB_BLOCK_IDS - 1));
}

/** vb_adapter_index() - Index of a number of ours
 * Return: true, and @index; false for a number of another process
 */
bool vb_adapter_index(const struct vb_adapter *a, uint32_t number, uint32_t *index);

/** vb_adapter_block_socket() - The socket that stands for our block
 * @ordinal: Below a->n_blocks
 * Return:   non-blocking datagram socket bound to vb_block_address(), or -1
 */
int vb_adapter_block_socket(const struct vb_adapter *a, uint32_t ordinal);

/** vb_adapter_drain_doorbell() - The engine woke up: forget who rang
 * @rang:   Whether the doorbell is readable; where it is not, who rings now rings anew all the same
 * Context: engine thread, before it looks for work: what a peer published before a ring
 *          that is drained here is seen by the look that follows
 */
void vb_adapter_drain_doorbell(struct vb_adapter *a, bool rang);

/** vb_adapter_ring() - Wake our own engine; a write is skipped while one is pending */
void vb_adapter_ring(struct vb_adapter *a);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_HOST_MEMORY_H
#define VB_HOST_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "host/peer.h"

/*
 * Theory of operation
 *
 * The ladder to a peer's memory; the first step that works is taken:
 *
 *   own      the memory is ours: memcpy
 *   mapped   the memory is a shared mapping of a memory file sealed against shrinking:
 *            mapped here too, memcpy
 *   cross    process_vm_readv, process_vm_writev
 *   procmem  /proc/PID/mem, where a filter forbids the above
 *
 * (`scatter` is the carrier's: payload through the mailbox.) VERBENA_MEMORY names the
 * steps allowed, separated by commas; all are by default.
 *
 * Only sealed shared memory is mapped, never other files, for truncating one
 * would raise SIGBUS in us: files in /dev/shm and hugetlbfs go by cross copy. A process
 * that unmaps what it registered is found out by the cross copy (-EREMOTEIO); with memcpy it
 * must not (own step), just as it must not in any program.
 *
 * On-demand regions follow the address space: a page may be missing, or go while it is copied.
 * There nothing is touched by an instruction, which would raise a signal: what would be
 * memcpy is process_vm_readv or process_vm_writev on this very process (a pipe where a filter
 * forbids them), which fail with EFAULT. That is asked for by the key's ON_DEMAND bit for the
 * remote side, and by `careful` for the local one.
 *
 * Null regions have no memory at all: spans at VB_NULL_BASE (object/keys.h) read as zeroes and
 * swallow what is written, and so does a key with VB_KEY_NULL.
 *
 * Copies go in chunks of at most VB_MEMORY_CHUNK. Before every chunk the key's word is read again,
 * and the caller's own condition asked.
 */
#define VB_MEMORY_CHUNK (256u << 10)

enum vb_mem_step {
	VB_MEM_OWN,
	VB_MEM_MAPPED,
	VB_MEM_SCATTER,
	VB_MEM_CROSS,
	VB_MEM_CROSS_PROC_MEM,
	VB_MEM_STEPS,
	VB_MEM_NONE = VB_MEM_STEPS /* the wire is all that is left */
};

/* What a key says, copied from its row and consistent. */
struct vb_key_facts {
	const _Atomic uint64_t *row_word; /* the word it was read under */
	uint64_t word;
	uint32_t number; /* adapter-wide */
	uint32_t lkey, rkey, pd, access;
	uint64_t iova, length, addr;
	uint32_t memory; /* enum vb_key_memory */
	int32_t file_fd;
	uint64_t file_path, file_dev, file_ino, file_offset;
	/* Asked before every chunk where not NULL; false stops the copy. The caller's. */
	bool (*still)(void *arg);
	void *still_arg;
	bool careful; /* the local spans may be on-demand memory. The caller's */
};

enum vb_mem_atomic {
	VB_MEM_CMP_SWP,
	VB_MEM_FETCH_ADD,
};

/** vb_memory_key() - Read a key of a peer
 * @number: Key >> 8 (adapter-wide number); the tag is the caller's to compare
 * @facts:  Receives the row; `still` is cleared
 * Context: any thread, after the access was announced
 * Return:  0, -ENOENT (names nothing), -EAGAIN (being changed)
 */
int vb_memory_key(struct vb_peer *p, uint32_t number, struct vb_key_facts *facts);

/** vb_memory_allowed() - Does VERBENA_MEMORY allow a step? */
bool vb_memory_allowed(enum vb_mem_step step);

/** vb_memory_step_name() - "own", "mapped", "scatter", "cross", "procmem", "wire" */
const char *vb_memory_step_name(enum vb_mem_step step);

/** vb_memory_step() - The step a copy would take now
 * @why: Receives one line of plain words for `doctor`, may be NULL
 * Context: any thread; may map or open
 * Return:  the step, VB_MEM_NONE where the memory cannot be reached
 */
enum vb_mem_step vb_memory_step(struct vb_peer *p, const struct vb_key_facts *key,
				const char **why);

/** vb_memory_copy_in() - Copy into memory of a peer
 * @key:   Facts of the key, not stale beyond its word
 * @addr:  Virtual address in the peer; vb_key_addr() makes it from an iova
 * @local: @n spans of this process, together at least @len bytes
 * @len:   Bytes, any number
 * Context: any thread, access announced, no locks a peer could need
 * Return:  0, or
 *          -ERANGE    [addr, addr + len) is not within the key
 *          -ECANCELED the key died or the caller's condition failed between chunks
 *          -EFAULT    the local memory cannot be read (written)
 *          -EREMOTEIO the peer's memory cannot be written (read)
 *          -ESRCH     the peer is dead
 *          -EPERM     no step of the ladder leads there: use the wire
 */
int vb_memory_copy_in(struct vb_peer *p, const struct vb_key_facts *key, uint64_t addr,
		      const struct iovec *local, int n, size_t len);

/** vb_memory_copy_out() - Copy from memory of a peer; otherwise as vb_memory_copy_in() */
int vb_memory_copy_out(struct vb_peer *p, const struct vb_key_facts *key, uint64_t addr,
		       const struct iovec *local, int n, size_t len);

/** vb_memory_atomic() - A 64-bit atomic on memory of a peer, or of this process
 * @addr:        Virtual address in the peer, a multiple of 8
 * @kind:        Compare-and-swap or fetch-and-add
 * @compare_add: Compared, or added
 * @swap:        Stored where equal; compare-and-swap only
 * @old:         Receives the value before
 * Context: as vb_memory_copy_in(). Shared-mapped memory: CPU atomics. Other memory: the owner's
 *          atomics word, taken for two copies
 * Return:  as vb_memory_copy_in(), and -EINVAL (alignment), -EAGAIN (another process
 *          holds the word: try again until the QP's timer ends)
 */
int vb_memory_atomic(struct vb_peer *p, const struct vb_key_facts *key, uint64_t addr,
		     enum vb_mem_atomic kind, uint64_t compare_add, uint64_t swap, uint64_t *old);

/** vb_memory_gather() - Collect local spans into one buffer of the library
 * @to:      @len bytes that are there
 * @local:   @n spans, together at least @len bytes; may be null ones
 * @careful: They may be on-demand memory
 * Return:   0, -EFAULT (cannot be read)
 */
int vb_memory_gather(void *to, const struct iovec *local, int n, uint64_t len, bool careful);

/** vb_memory_scatter() - Spread a buffer of the library over local spans
 * @len:     Bytes; what exceeds the spans is left out
 * Return:   bytes left out, or -EFAULT (cannot be written)
 */
int64_t vb_memory_scatter(const struct iovec *local, int n, const void *from, uint64_t len,
			  bool careful);

/** vb_memory_advance() - Leave out the first bytes of a local list
 * @iov:    The spans; moved, and the first one left is changed in place
 * @n:      How many; counted down
 */
void vb_memory_advance(struct iovec **iov, int *n, uint64_t bytes);

/** vb_memory_close() - Drop what is kept for a peer; called by the last vb_peer_put() */
void vb_memory_close(struct vb_peer *p);

/** vb_key_addr() - The peer's virtual address for an address of the key's own space */
static inline uint64_t vb_key_addr(const struct vb_key_facts *key, uint64_t iova)
{
	return key->addr + (iova - key->iova);
}

#endif

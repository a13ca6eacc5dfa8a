/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_HOST_SEGMENT_H
#define VB_HOST_SEGMENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Theory of operation
 *
 * A part is one memory file of this process's segment, mapped in growing steps into
 * address space that was reserved at once, so that a pointer into it stays good.
 * Backing comes from fallocate before it is mapped: shortage is ENOMEM here and
 * never SIGBUS later. The file is sealed against shrinking, which is what lets a
 * peer map it without fear.
 *
 * Space is handed out by size class. All book-keeping is private: a peer that
 * scribbles over the mailbox cannot confuse the allocator.
 */
#define VB_PART_CLASSES 512

struct vb_part_class {
	uint64_t *free; /* offsets; room for all that is out, so that freeing cannot fail */
	uint32_t n_free, n_room, n_out;
};

struct vb_part {
	int fd;		       /* memory file, -1 where the part is private to the process */
	uint8_t *base;	       /* start of the reservation */
	uint64_t reserve;      /* bytes reserved */
	_Atomic uint64_t size; /* bytes backed and mapped */
	uint64_t used;	       /* bytes handed out or kept in free lists */
	struct vb_part_class small[VB_PART_CLASSES]; /* 64-byte aligned */
	struct vb_part_class paged[VB_PART_CLASSES]; /* page aligned */
};

/** vb_part_init() - Make a part
 * @name:   Name of the memory file, shown in /proc/PID/fd
 * @bytes:  What is backed from the start; the first @bytes are the caller's
 * @shared: A memory file that peers can open; false: shared with nobody
 * Context: not concurrently with other calls on @part
 * Return:  0, -ENOMEM, -EFBIG (RLIMIT_FSIZE), -EMFILE, -ENOSYS, -EPERM
 */
int vb_part_init(struct vb_part *part, const char *name, uint64_t bytes, bool shared);

/** vb_part_fini() - Unmap, close and forget */
void vb_part_fini(struct vb_part *part);

/** vb_part_alloc() - Take space
 * @bytes: More than 0
 * @align: A power of two, at most the page size
 * Context: the caller's lock
 * Return:  offset of @bytes zeroed bytes, or 0 for lack of memory
 */
uint64_t vb_part_alloc(struct vb_part *part, uint64_t bytes, uint64_t align);

/** vb_part_fresh() - Take space for good, without a touch
 * @bytes: More than 0
 *
 * Zeroed, unless a peer has written into a mailbox's before anybody had it. For tables, of which
 * most rows are never used: their pages cost nothing until then.
 *
 * Context: the caller's lock
 * Return:  offset, aligned to 64 bytes, or 0 for lack of memory
 */
uint64_t vb_part_fresh(struct vb_part *part, uint64_t bytes);

/** vb_part_free() - Give space back
 * @bytes: As given to vb_part_alloc()
 * @align: As given to vb_part_alloc()
 * Context: the caller's lock
 */
void vb_part_free(struct vb_part *part, uint64_t offset, uint64_t bytes, uint64_t align);

/** vb_reserve() - Reserve address space
 * @want:  Bytes wished for; halved as long as there is no room
 * @least: Bytes that are enough
 * @got:   Receives the bytes reserved
 * Context: any thread. Where RLIMIT_AS is set no more than a sixteenth of it is taken
 * Return:  the address (PROT_NONE), or NULL
 */
void *vb_reserve(uint64_t want, uint64_t least, uint64_t *got);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define PAGE	      4096ull
#define RESERVE	      (16ull << 30)
#define RESERVE_LEAST (4ull << 20)
#define GROW_STEP     (256ull << 10)
#define GROW_MOST     (8ull << 20)
/* One fallocate call: a signal undoes the whole call, so it must be able to finish. */
#define ALLOCATE_PIECE (2ull << 20)

static uint64_t round_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) / unit * unit;
}

void *vb_reserve(uint64_t want, uint64_t least, uint64_t *got)
{
	struct rlimit limit;
	void *base;

	if (!getrlimit(RLIMIT_AS, &limit) && limit.rlim_cur != RLIM_INFINITY &&
	    want > limit.rlim_cur / 16)
		want = limit.rlim_cur / 16;
	if (want < least)
		want = least;
	for (;;) {
		want = round_up(want, PAGE);
		base = mmap(NULL, want, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
			    0);
		if (base != MAP_FAILED)
			break;
		if (want <= round_up(least, PAGE))
			return NULL;
		want = want / 2 > least ? want / 2 : least;
	}
	madvise(base, want, MADV_DONTFORK);
	*got = want;
	return base;
}

/* SIGXFSZ kills by default: never size a file beyond the limit. */
static bool size_allowed(uint64_t size)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY ||
	       size <= limit.rlim_cur;
}

static int back_file(int fd, uint64_t from, uint64_t to)
{
	if (!size_allowed(to))
		return -EFBIG;
	while (from < to) {
		uint64_t piece = to - from < ALLOCATE_PIECE ? to - from : ALLOCATE_PIECE;

		if (!fallocate(fd, 0, (off_t)from, (off_t)piece))
			from += piece;
		else if (errno != EINTR)
			return errno == ENOSPC ? -ENOMEM : -errno;
	}
	return 0;
}

static int back_private(uint8_t *base, uint64_t bytes)
{
	if (mprotect(base, bytes, PROT_READ | PROT_WRITE))
		return -ENOMEM;
	if (madvise(base, bytes, MADV_POPULATE_WRITE) && errno == ENOMEM)
		return -ENOMEM;
	return 0;
}

/* With their entries in the page table: at a fault for each page the first objects would take as
 * long as a hundred later ones. */
static int grow_to(struct vb_part *part, uint64_t size)
{
	uint64_t old = atomic_load_explicit(&part->size, memory_order_relaxed);
	uint8_t *at = part->base + old;
	int err;

	if (size > part->reserve)
		return -ENOMEM;
	if (part->fd < 0) {
		err = back_private(at, size - old);
	} else {
		err = back_file(part->fd, old, size);
		if (!err &&
		    mmap(at, size - old, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_FIXED | MAP_POPULATE, part->fd, (off_t)old) == MAP_FAILED)
			err = -ENOMEM;
	}
	if (err)
		return err;
	madvise(at, size - old, MADV_DONTFORK);
	atomic_store(&part->size, size);
	return 0;
}

/* More than asked, so that small objects do not each cost system calls. */
static int grow(struct vb_part *part, uint64_t need)
{
	uint64_t size = atomic_load_explicit(&part->size, memory_order_relaxed);
	uint64_t extra = size / 4 > GROW_STEP ? size / 4 : GROW_STEP;
	uint64_t target;

	if (extra > GROW_MOST)
		extra = GROW_MOST;
	target = round_up(need > size + extra ? need : size + extra, PAGE);
	if (target > part->reserve || grow_to(part, target))
		return grow_to(part, round_up(need, PAGE));
	return 0;
}

static int memory_file(const char *name)
{
	unsigned int flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int fd = memfd_create(name, flags | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(name, flags);
	return fd < 0 ? -errno : fd;
}

int vb_part_init(struct vb_part *part, const char *name, uint64_t bytes, bool shared)
{
	int err;

	memset(part, 0, sizeof(*part));
	part->fd = -1;
	if (shared) {
		if (!size_allowed(bytes))
			return -EFBIG;
		part->fd = memory_file(name);
		if (part->fd < 0)
			return part->fd;
	}
	part->base = vb_reserve(RESERVE, RESERVE_LEAST, &part->reserve);
	err = part->base ? grow_to(part, round_up(bytes, PAGE)) : -ENOMEM;
	if (!err && shared && fcntl(part->fd, F_ADD_SEALS, F_SEAL_SHRINK))
		err = -errno;
	if (err)
		vb_part_fini(part);
	part->used = round_up(bytes, 64);
	return err;
}

static void classes_fini(struct vb_part_class *classes)
{
	for (int i = 0; i < VB_PART_CLASSES; i++)
		free(classes[i].free);
	memset(classes, 0, VB_PART_CLASSES * sizeof(*classes));
}

void vb_part_fini(struct vb_part *part)
{
	if (part->base)
		munmap(part->base, part->reserve);
	if (part->fd >= 0)
		close(part->fd);
	classes_fini(part->small);
	classes_fini(part->paged);
	part->base = NULL;
	part->fd = -1;
	atomic_store(&part->size, 0);
}

/* Up to a page in steps of 64 bytes, beyond in eight steps to the next power of two.
 * Rounds @bytes up to the size of the class. */
static unsigned int class_of(uint64_t *bytes)
{
	unsigned int k;
	uint64_t step;

	if (*bytes <= PAGE) {
		*bytes = round_up(*bytes, 64);
		return (unsigned int)(*bytes / 64) - 1;
	}
	k = 63u - (unsigned int)__builtin_clzll(*bytes - 1);
	step = (*bytes - 1 - (1ull << k)) >> (k - 3);
	*bytes = (1ull << k) + ((step + 1) << (k - 3));
	return 64 + (k - 12) * 8 + (unsigned int)step;
}

static bool class_room(struct vb_part_class *class)
{
	uint32_t need = class->n_free + class->n_out + 1;
	uint64_t *bigger;

	if (need <= class->n_room)
		return true;
	bigger = realloc(class->free, 2ul * need * sizeof(*bigger));
	if (!bigger)
		return false;
	class->free = bigger;
	class->n_room = 2 * need;
	return true;
}

/* Space that nobody had before. Returns its offset, or 0. */
static uint64_t take(struct vb_part *part, uint64_t bytes, uint64_t align)
{
	uint64_t offset = round_up(part->used, align);

	if (offset + bytes > atomic_load_explicit(&part->size, memory_order_relaxed) &&
	    grow(part, offset + bytes))
		return 0;
	part->used = offset + bytes;
	return offset;
}

uint64_t vb_part_fresh(struct vb_part *part, uint64_t bytes)
{
	return bytes && bytes <= part->reserve ? take(part, bytes, 64) : 0;
}

uint64_t vb_part_alloc(struct vb_part *part, uint64_t bytes, uint64_t align)
{
	struct vb_part_class *class;
	uint64_t offset;

	if (!bytes || bytes > part->reserve || align > PAGE)
		return 0;
	class = (align > 64 ? part->paged : part->small) + class_of(&bytes);
	if (!class_room(class))
		return 0;
	offset = class->n_free ? class->free[--class->n_free]
			       : take(part, bytes, align > 64 ? PAGE : 64);
	if (!offset)
		return 0;
	class->n_out++;
	/* Fresh space too: peers can write to a mailbox that nobody has handed out. */
	memset(part->base + offset, 0, bytes);
	return offset;
}

void vb_part_free(struct vb_part *part, uint64_t offset, uint64_t bytes, uint64_t align)
{
	struct vb_part_class *class = (align > 64 ? part->paged : part->small) + class_of(&bytes);

	class->n_out--;
	class->free[class->n_free++] = offset;
}

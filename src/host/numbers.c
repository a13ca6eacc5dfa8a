/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/numbers.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/step.h"

/* Block 0 would give QP numbers 0 and 1, the last one 0xffffff: both have a meaning. */
#define FIRST_BLOCK 1u
#define LAST_BLOCK  (VB_BLOCKS - 2)

struct vb_ids {
	uint32_t used;
	uint32_t cursor; /* the search for a free index begins here */
	uint64_t taken[VB_INDEXES / 64];
};

static bool is_mine(const struct vb_adapter *a, uint32_t block)
{
	uint32_t n = atomic_load(&a->n_blocks);

	for (uint32_t i = 0; i < n; i++)
		if (a->block[i] == block)
			return true;
	return false;
}

/* Bind the socket that stands for a block. -EADDRINUSE: it is another process's. */
static int bind_block(const struct vb_adapter *a, uint32_t block, int fd)
{
	struct sockaddr_un address;
	socklen_t len = vb_block_address(block, &address);

	return bind(fd, (struct sockaddr *)&address, len) ? -errno : 0;
}

/* Starts at random, so that the numbers of a process that ended do not come back at
 * once in the next one. */
static int find_block(const struct vb_adapter *a, int fd, uint32_t *block)
{
	const uint32_t count = LAST_BLOCK - FIRST_BLOCK + 1;
	uint32_t start, n = atomic_load(&a->n_blocks);
	int err;

	memcpy(&start, a->id + 4, sizeof(start));
	start = start % count + n;
	for (uint32_t i = 0; i < count; i++) {
		*block = FIRST_BLOCK + (start + i) % count;
		if (is_mine(a, *block))
			continue;
		if (fd < 0)
			return 0;
		err = bind_block(a, *block, fd);
		if (err != -EADDRINUSE)
			return err;
	}
	return -ENOSPC;
}

/* Without sockets a process that is alone anyway numbers for itself. */
static int claim_block(struct vb_adapter *a)
{
	uint32_t block, n = atomic_load(&a->n_blocks);
	int err, fd;

	if (n == VB_OWN_BLOCKS)
		return -ENOSPC;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 && (!a->alone_reason || errno == EMFILE || errno == ENFILE))
		return -errno;
	err = find_block(a, fd, &block);
	if (err) {
		if (fd >= 0)
			close(fd);
		return err;
	}
	VB_STEP(BLOCK_CLAIMED);
	a->block[n] = block;
	a->block_fd[n] = fd;
	atomic_store(&a->n_blocks, n + 1);
	atomic_store(&a->pub->blocks[n], block);
	atomic_store(&a->pub->n_blocks, n + 1);
	vb_registry_set_block(&a->registry, block, n);
	return 0;
}

static struct vb_ids *ids_of(struct vb_adapter *a, enum vb_number_kind kind)
{
	struct vb_ids *ids = a->ids[kind];

	if (ids)
		return ids;
	/* Few pages of it are ever touched; calloc may have to clear all of them. */
	ids = mmap(NULL, sizeof(*ids), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (ids == MAP_FAILED)
		return NULL;
	memcpy(&ids->cursor, a->id + 8, sizeof(ids->cursor));
	ids->cursor %= VB_BLOCK_IDS;
	a->ids[kind] = ids;
	return ids;
}

/* The next free index from the cursor on, below @limit, which some index is. */
static uint32_t next_free(struct vb_ids *ids, uint32_t limit)
{
	uint32_t word = ids->cursor / 64 % (limit / 64);
	uint64_t open = ~ids->taken[word] & (~0ull << ids->cursor % 64);

	while (!open) {
		word = (word + 1) % (limit / 64);
		open = ~ids->taken[word];
	}
	return word * 64 + (uint32_t)__builtin_ctzll(open);
}

int vb_adapter_new_index(struct vb_adapter *a, enum vb_number_kind kind, uint32_t *index,
			 uint32_t *number)
{
	struct vb_ids *ids;
	int err = 0;

	pthread_mutex_lock(&a->number_lock);
	ids = ids_of(a, kind);
	if (!ids)
		err = -ENOMEM;
	else if (ids->used == atomic_load(&a->n_blocks) * VB_BLOCK_IDS)
		err = claim_block(a);
	if (!err) {
		*index = next_free(ids, atomic_load(&a->n_blocks) * VB_BLOCK_IDS);
		ids->taken[*index / 64] |= 1ull << *index % 64;
		ids->cursor = *index + 1;
		ids->used++;
		*number = vb_adapter_number(a, *index);
	}
	pthread_mutex_unlock(&a->number_lock);
	return err;
}

void vb_adapter_free_index(struct vb_adapter *a, enum vb_number_kind kind, uint32_t index)
{
	struct vb_ids *ids;

	pthread_mutex_lock(&a->number_lock);
	ids = a->ids[kind];
	if (ids && index < VB_INDEXES && ids->taken[index / 64] & 1ull << index % 64) {
		ids->taken[index / 64] &= ~(1ull << index % 64);
		ids->used--;
	}
	pthread_mutex_unlock(&a->number_lock);
}

bool vb_adapter_index(const struct vb_adapter *a, uint32_t number, uint32_t *index)
{
	uint32_t n = atomic_load(&a->n_blocks);

	for (uint32_t i = 0; i < n; i++) {
		if (a->block[i] == number >> VB_BLOCK_BITS) {
			*index = i << VB_BLOCK_BITS | (number & (VB_BLOCK_IDS - 1));
			return true;
		}
	}
	return false;
}

int vb_adapter_block_socket(const struct vb_adapter *a, uint32_t ordinal)
{
	return ordinal < atomic_load(&a->n_blocks) ? a->block_fd[ordinal] : -1;
}

void vb_numbers_fini(struct vb_adapter *a)
{
	for (int kind = 0; kind < VB_NUMBER_KINDS; kind++)
		if (a->ids[kind])
			munmap(a->ids[kind], sizeof(*a->ids[kind]));
}

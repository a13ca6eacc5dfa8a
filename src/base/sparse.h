/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_BASE_SPARSE_H
#define VB_BASE_SPARSE_H

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/*
 * A table from the small numbers of the adapter (up to 131072) to pointers that is read
 * without a lock. Who removes an entry waits for its readers (base/grace.h).
 */
#define VB_SPARSE_CHUNK 256u
#define VB_SPARSE_MAX	131072u

struct vb_sparse {
	void *_Atomic *_Atomic chunk[VB_SPARSE_MAX / VB_SPARSE_CHUNK];
};

/** vb_sparse_set() - Enter a pointer, or NULL to remove it
 * Context: one writer per index at a time
 * Return:  0, -ENOMEM, -EINVAL for an index outside the table
 */
static inline int vb_sparse_set(struct vb_sparse *table, uint32_t index, void *pointer)
{
	void *_Atomic *chunk, *_Atomic *none = NULL;

	if (index >= VB_SPARSE_MAX)
		return -EINVAL;
	chunk = atomic_load(&table->chunk[index / VB_SPARSE_CHUNK]);
	if (!chunk) {
		chunk = calloc(VB_SPARSE_CHUNK, sizeof(*chunk));
		if (!chunk)
			return -ENOMEM;
		if (!atomic_compare_exchange_strong(&table->chunk[index / VB_SPARSE_CHUNK], &none,
						    chunk)) {
			free((void *)chunk);
			chunk = none;
		}
	}
	atomic_store(&chunk[index % VB_SPARSE_CHUNK], pointer);
	return 0;
}

/** vb_sparse_get() - The pointer of an index, NULL where there is none */
static inline void *vb_sparse_get(const struct vb_sparse *table, uint32_t index)
{
	void *_Atomic *chunk;

	if (index >= VB_SPARSE_MAX)
		return NULL;
	chunk = atomic_load_explicit(&table->chunk[index / VB_SPARSE_CHUNK], memory_order_acquire);
	return chunk ? atomic_load_explicit(&chunk[index % VB_SPARSE_CHUNK], memory_order_acquire)
		     : NULL;
}

static inline void vb_sparse_fini(struct vb_sparse *table)
{
	for (size_t i = 0; i < VB_SPARSE_MAX / VB_SPARSE_CHUNK; i++) {
		free((void *)atomic_load(&table->chunk[i]));
		atomic_store(&table->chunk[i], NULL);
	}
}

#endif

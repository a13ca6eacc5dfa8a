/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/rsocket.h>

#include "base/spin.h"
#include "rdmacm/preload/preload.h"

#define PAGES 1024
#define SLOTS 1024
#define LOCKS 64

struct page {
	struct vb_pair *entries[SLOTS];
};

static _Atomic(struct page *) pages[PAGES];
static struct vb_spin locks[LOCKS];

/* A child has one thread, and none in a section. */
static void free_locks(void)
{
	memset(locks, 0, sizeof(locks));
}

__attribute__((constructor)) static void watch_fork(void)
{
	pthread_atfork(NULL, NULL, free_locks);
}

static struct page *page_of(int fd)
{
	if (fd < 0 || fd >= PAGES * SLOTS)
		return NULL;
	return atomic_load_explicit(&pages[fd / SLOTS], memory_order_acquire);
}

struct vb_pair *vb_pair_get(int fd)
{
	struct page *page = page_of(fd);
	struct vb_pair *pair;

	/* Most descriptors of most programs: no lock, one load. */
	if (!page || !__atomic_load_n(&page->entries[fd % SLOTS], __ATOMIC_RELAXED))
		return NULL;
	vb_spin_lock(&locks[fd % LOCKS]);
	pair = page->entries[fd % SLOTS];
	if (pair)
		atomic_fetch_add(&pair->refs, 1);
	vb_spin_unlock(&locks[fd % LOCKS]);
	return pair;
}

void vb_pair_put(struct vb_pair *pair)
{
	int kept = errno;

	if (atomic_fetch_sub(&pair->refs, 1) == 1) {
		rclose(pair->rs);
		free(pair);
	}
	errno = kept;
}

static struct vb_pair *exchange(struct page *page, int fd, struct vb_pair *pair)
{
	struct vb_pair *old;

	vb_spin_lock(&locks[fd % LOCKS]);
	old = page->entries[fd % SLOTS];
	__atomic_store_n(&page->entries[fd % SLOTS], pair, __ATOMIC_RELAXED);
	vb_spin_unlock(&locks[fd % LOCKS]);
	return old;
}

int vb_pair_enter(int fd, struct vb_pair *pair)
{
	struct page *page = page_of(fd), *old = NULL;
	struct vb_pair *before;

	if (fd < 0 || fd >= PAGES * SLOTS) {
		errno = EMFILE;
		return -1;
	}
	if (!page) {
		page = calloc(1, sizeof(*page));
		if (!page)
			return -1;
		if (!atomic_compare_exchange_strong(&pages[fd / SLOTS], &old, page)) {
			free(page);
			page = old;
		}
	}
	before = exchange(page, fd, pair);
	if (before)
		vb_pair_put(before);
	return 0;
}

struct vb_pair *vb_pair_leave(int fd)
{
	struct page *page = page_of(fd);

	if (!page || !__atomic_load_n(&page->entries[fd % SLOTS], __ATOMIC_RELAXED))
		return NULL;
	return exchange(page, fd, NULL);
}

struct vb_pair *vb_pair_create(int rs)
{
	struct vb_pair *pair = calloc(1, sizeof(*pair));

	if (!pair)
		return NULL;
	pair->refs = 1;
	pair->rs = rs;
	return pair;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/forkguard.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

static _Atomic(uint8_t *) guard_page;
static _Atomic(pthread_mutex_t *) lock_page;

/* Used only where not a single page can be mapped. */
static pthread_mutex_t last_resort[VB_FORK_LOCK_COUNT];

static atomic_flag handler_registered = ATOMIC_FLAG_INIT;

/* Runs in the child, which has one thread: only where the kernel does not wipe. */
static void wipe_in_child(void)
{
	uint8_t *guard = atomic_load(&guard_page);
	pthread_mutex_t *locks = atomic_load(&lock_page);

	if (guard)
		*guard = 0;
	if (locks)
		memset(locks, 0, VB_FORK_LOCK_COUNT * sizeof(*locks));
}

static size_t page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/* A zeroed page that a child sees zeroed again. */
static void *wiped_page(void)
{
	void *page =
		mmap(NULL, page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return NULL;
	if (madvise(page, page_size(), MADV_WIPEONFORK) &&
	    !atomic_flag_test_and_set(&handler_registered))
		pthread_atfork(NULL, NULL, wipe_in_child);
	return page;
}

const uint8_t *vb_fork_guard(void)
{
	uint8_t *old = atomic_load(&guard_page);
	uint8_t *page;

	if (old && *(volatile uint8_t *)old)
		return old;
	page = wiped_page();
	if (!page)
		return NULL;
	*page = 1;
	/* The page inherited from the parent stays: its pointers must read 0. */
	if (!atomic_compare_exchange_strong(&guard_page, &old, page)) {
		munmap(page, page_size());
		return old;
	}
	return page;
}

pthread_mutex_t *vb_fork_lock(enum vb_fork_lock which)
{
	pthread_mutex_t *old = atomic_load(&lock_page);
	pthread_mutex_t *page;

	if (old)
		return &old[which];
	page = wiped_page();
	if (!page)
		return &last_resort[which];
	if (!atomic_compare_exchange_strong(&lock_page, &old, page)) {
		munmap(page, page_size());
		page = old;
	}
	return &page[which];
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/rsocket/table.h"

#include <errno.h>
#include <stdlib.h>

#include "base/forkguard.h"
#include "rdmacm/rsocket/socket.h"

static _Atomic(struct vb_rs_process *) current;

static bool is_ours(const struct vb_rs_process *process)
{
	return process && *(const volatile uint8_t *)process->guard;
}

struct vb_rs_process *vb_rs_process_get(void)
{
	struct vb_rs_process *old = atomic_load(&current), *made;

	if (is_ours(old))
		return old;
	made = calloc(1, sizeof(*made));
	if (!made)
		return NULL;
	made->guard = vb_fork_guard();
	if (!made->guard) {
		free(made);
		errno = ENOMEM;
		return NULL;
	}
	pthread_mutex_init(&made->service_lock, NULL);
	/* The parent's is not freed: its locks may be held by threads that are not here. */
	if (!atomic_compare_exchange_strong(&current, &old, made)) {
		free(made);
		return old;
	}
	return made;
}

static struct vb_spin *lock_of(struct vb_rs_process *process, int fd)
{
	return &process->locks[fd % VB_RS_TABLE_LOCKS];
}

static struct vb_rs_page *page_of(struct vb_rs_process *process, int fd)
{
	if (fd < 0 || fd >= VB_RS_TABLE_PAGES * VB_RS_TABLE_SLOTS)
		return NULL;
	return atomic_load(&process->pages[fd / VB_RS_TABLE_SLOTS]);
}

static struct vb_rs_page *make_page(struct vb_rs_process *process, int fd)
{
	struct vb_rs_page *old = NULL, *made;

	if (fd < 0 || fd >= VB_RS_TABLE_PAGES * VB_RS_TABLE_SLOTS) {
		errno = EMFILE;
		return NULL;
	}
	made = calloc(1, sizeof(*made));
	if (!made)
		return NULL;
	if (!atomic_compare_exchange_strong(&process->pages[fd / VB_RS_TABLE_SLOTS], &old, made)) {
		free(made);
		return old;
	}
	return made;
}

static struct vb_rs *swap_entry(struct vb_rs_process *process, struct vb_rs_page *page, int fd,
				struct vb_rs *rs)
{
	struct vb_spin *lock = lock_of(process, fd);
	struct vb_rs *old;

	vb_spin_lock(lock);
	old = page->entries[fd % VB_RS_TABLE_SLOTS];
	page->entries[fd % VB_RS_TABLE_SLOTS] = rs;
	vb_spin_unlock(lock);
	return old;
}

int vb_rs_table_put(struct vb_rs_process *process, int fd, struct vb_rs *rs)
{
	struct vb_rs_page *page = page_of(process, fd);
	struct vb_rs *old;

	if (!page)
		page = make_page(process, fd);
	if (!page)
		return -1;
	old = swap_entry(process, page, fd, rs);
	if (old) {
		/* The number is another file's now. */
		pthread_mutex_lock(&old->lock);
		old->fd = -1;
		pthread_mutex_unlock(&old->lock);
		vb_rs_put(old);
	}
	return 0;
}

struct vb_rs *vb_rs_table_find(int fd)
{
	struct vb_rs_process *process = atomic_load(&current);
	struct vb_rs_page *page;
	struct vb_spin *lock;
	struct vb_rs *rs;

	if (!is_ours(process))
		return NULL;
	page = page_of(process, fd);
	if (!page)
		return NULL;
	lock = lock_of(process, fd);
	vb_spin_lock(lock);
	rs = page->entries[fd % VB_RS_TABLE_SLOTS];
	if (rs)
		atomic_fetch_add(&rs->refs, 1);
	vb_spin_unlock(lock);
	return rs;
}

struct vb_rs *vb_rs_table_take(int fd)
{
	struct vb_rs_process *process = atomic_load(&current);
	struct vb_rs_page *page;

	if (!is_ours(process))
		return NULL;
	page = page_of(process, fd);
	return page ? swap_entry(process, page, fd, NULL) : NULL;
}

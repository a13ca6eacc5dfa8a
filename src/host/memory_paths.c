/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/memory_paths.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "host/liveness.h"

#define PAGE	   4096ull
#define MAPS	   64u
#define MAP_ABSENT ((uint8_t *)MAP_FAILED)

/*
 * A peer's memory file mapped here, for one life of one key. Looked up without a lock: the
 * struct is never freed while the peer lives, only used for another key, and its
 * fields change only while nobody has a reference. So a reader takes a reference first, if
 * there are any, and then looks whether it is the key's.
 */
struct vb_memory_map {
	_Atomic uint32_t refs; /* one is the table's */
	uint32_t number;
	const _Atomic uint64_t *row_word;
	uint64_t word;
	uint8_t *base; /* MAP_ABSENT: it was tried and cannot be */
	uint64_t bytes;
	uint64_t skip; /* first byte of the key within the mapping */
	bool writable;
	struct vb_memory_map *next; /* spare */
};

/* ---- mapped ---- */

static bool ref_map(struct vb_memory_map *map)
{
	uint32_t refs = atomic_load_explicit(&map->refs, memory_order_relaxed);

	while (refs)
		if (atomic_compare_exchange_weak_explicit(&map->refs, &refs, refs + 1,
							  memory_order_acquire,
							  memory_order_relaxed))
			return true;
	return false;
}

/* Under the peer's lock. */
static void put_map_locked(struct vb_peer *p, struct vb_memory_map *map)
{
	if (!map || atomic_fetch_sub_explicit(&map->refs, 1, memory_order_acq_rel) != 1)
		return;
	if (map->base != MAP_ABSENT)
		munmap(map->base, map->bytes);
	map->next = p->spare_maps;
	p->spare_maps = map;
}

static void put_map(struct vb_peer *p, struct vb_memory_map *map)
{
	uint32_t refs = atomic_load_explicit(&map->refs, memory_order_relaxed);

	/* The last reference is given back under the lock. */
	while (refs > 1)
		if (atomic_compare_exchange_weak_explicit(&map->refs, &refs, refs - 1,
							  memory_order_release,
							  memory_order_relaxed))
			return;
	pthread_mutex_lock(&p->lock);
	put_map_locked(p, map);
	pthread_mutex_unlock(&p->lock);
}

/* Shared memory that cannot shrink: nothing its owner does can raise SIGBUS in us. */
static bool safe_to_map(int fd, const struct vb_key_facts *key)
{
	struct statfs fs;
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & F_SEAL_SHRINK) && !fstatfs(fd, &fs) &&
	       fs.f_type == TMPFS_MAGIC && !fstat(fd, &st) && st.st_ino == key->file_ino &&
	       st.st_dev == key->file_dev && key->file_offset <= (uint64_t)st.st_size &&
	       key->length <= (uint64_t)st.st_size - key->file_offset;
}

static void map_file(struct vb_peer *p, const struct vb_key_facts *key, struct vb_memory_map *map)
{
	uint64_t start = key->file_offset / PAGE * PAGE;
	int prot = PROT_READ | PROT_WRITE;
	int fd = vb_peer_open_fd(p, key->file_fd, "/memfd:", O_RDWR);

	if (fd == -EACCES) {
		prot = PROT_READ;
		fd = vb_peer_open_fd(p, key->file_fd, "/memfd:", O_RDONLY);
	}
	if (fd < 0)
		return;
	if (key->length && safe_to_map(fd, key)) {
		map->skip = key->file_offset - start;
		map->bytes = (map->skip + key->length + PAGE - 1) / PAGE * PAGE;
		map->base = mmap(NULL, map->bytes, prot, MAP_SHARED, fd, (off_t)start);
		if (map->base == MAP_ABSENT && prot != PROT_READ) {
			prot = PROT_READ; /* sealed against writing */
			map->base = mmap(NULL, map->bytes, prot, MAP_SHARED, fd, (off_t)start);
		}
		if (map->base != MAP_ABSENT)
			madvise(map->base, map->bytes, MADV_DONTFORK);
		map->writable = prot & PROT_WRITE;
	}
	close(fd);
}

/* Keys that died since: their memory is not to be held for nothing. */
static void drop_dead_maps(struct vb_peer *p)
{
	for (unsigned int i = 0; i < MAPS; i++) {
		struct vb_memory_map *map = atomic_load(&p->memory[i]);

		if (map && map->row_word && atomic_load(map->row_word) != map->word) {
			atomic_store(&p->memory[i], NULL);
			put_map_locked(p, map);
		}
	}
}

/* Under the peer's lock: put a mapping of the key into the table. */
static void make_map(struct vb_peer *p, const struct vb_key_facts *key)
{
	_Atomic(struct vb_memory_map *) *at = &p->memory[key->number % MAPS];
	struct vb_memory_map *map = atomic_load(at);

	if (map && map->number == key->number && map->word == key->word)
		return; /* another thread was quicker */
	put_map_locked(p, atomic_exchange(at, NULL));
	drop_dead_maps(p);
	map = p->spare_maps;
	if (map)
		p->spare_maps = map->next;
	else
		map = calloc(1, sizeof(*map));
	if (!map)
		return;
	map->row_word = key->row_word;
	map->number = key->number;
	map->word = key->word;
	map->base = MAP_ABSENT;
	map_file(p, key, map);
	atomic_store_explicit(&map->refs, 1, memory_order_release);
	atomic_store(at, map);
}

/* The mapping of a key with a reference, or NULL. */
static struct vb_memory_map *get_map(struct vb_peer *p, const struct vb_key_facts *key, bool write)
{
	for (int tries = 0; tries < 2; tries++) {
		struct vb_memory_map *map =
			atomic_load_explicit(&p->memory[key->number % MAPS], memory_order_acquire);

		if (map && ref_map(map)) {
			bool same = map->number == key->number && map->word == key->word;

			if (same && map->base != MAP_ABSENT && (!write || map->writable))
				return map;
			put_map(p, map);
			if (same)
				return NULL;
		}
		pthread_mutex_lock(&p->lock);
		make_map(p, key);
		pthread_mutex_unlock(&p->lock);
	}
	return NULL;
}

void vb_memory_close(struct vb_peer *p)
{
	struct vb_memory_map *map;

	for (unsigned int i = 0; i < MAPS; i++)
		put_map_locked(p, atomic_exchange(&p->memory[i], NULL));
	while ((map = p->spare_maps)) {
		p->spare_maps = map->next;
		free(map);
	}
}

/* ---- choosing ---- */

int vb_path_open(struct vb_peer *p, const struct vb_key_facts *key, bool write,
		 struct vb_path *path)
{
	path->step = VB_MEM_NONE;
	path->base = NULL;
	path->map = NULL;
	path->addr = key->addr;
	if (p->self && vb_memory_allowed(VB_MEM_OWN)) {
		path->step = VB_MEM_OWN;
		path->base = (uint8_t *)(uintptr_t)key->addr;
		return 0;
	}
	/* A pid may be another process's by now: who has no engine is looked at harder. */
	if (vb_peer_dead(p) || (!p->self && !vb_peer_has_engine(p) && vb_peer_check(p)))
		return -ESRCH;
	if (!p->self && key->memory == VB_KEY_SHARED && vb_memory_allowed(VB_MEM_MAPPED)) {
		path->map = get_map(p, key, write);
		if (path->map) {
			path->step = VB_MEM_MAPPED;
			path->base = path->map->base + path->map->skip;
			return 0;
		}
	}
	if (vb_memory_allowed(VB_MEM_CROSS) || vb_memory_allowed(VB_MEM_CROSS_PROC_MEM))
		return 0;
	return -EPERM;
}

void vb_path_close(struct vb_peer *p, struct vb_path *path)
{
	if (path->map)
		put_map(p, path->map);
	path->map = NULL;
}

/* ---- copies by system call ---- */

enum vb_mem_step vb_cross_step(const struct vb_peer *p)
{
	return atomic_load(&p->no_cross) || !vb_memory_allowed(VB_MEM_CROSS) ? VB_MEM_CROSS_PROC_MEM
									     : VB_MEM_CROSS;
}

/* /proc/PID/mem stays with the address space it was opened for. */
static int mem_fd(struct vb_peer *p)
{
	char path[40];
	int fd = atomic_load_explicit(&p->mem_fd, memory_order_acquire);

	if (fd != -1)
		return fd;
	pthread_mutex_lock(&p->lock);
	fd = atomic_load(&p->mem_fd);
	if (fd == -1) {
		snprintf(path, sizeof(path), "/proc/%d/mem", (int)p->pid);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd >= 0 && !vb_peer_same_process(p)) {
			close(fd);
			fd = -2;
		}
		/* For want of a descriptor now is not for ever. */
		if (fd >= 0 || (errno != EMFILE && errno != ENFILE))
			atomic_store_explicit(&p->mem_fd, fd >= 0 ? fd : -2, memory_order_release);
	}
	pthread_mutex_unlock(&p->lock);
	return fd;
}

static ssize_t by_proc_mem(struct vb_peer *p, uint64_t addr, const struct iovec *iov, int n,
			   bool in)
{
	int fd = vb_memory_allowed(VB_MEM_CROSS_PROC_MEM) ? mem_fd(p) : -1;
	ssize_t got;

	if (fd < 0) {
		errno = EPERM;
		return -1;
	}
	got = in ? pwritev(fd, iov, n, (off_t)addr) : preadv(fd, iov, n, (off_t)addr);
	if (got < 0 && errno == EIO) /* EFAULT is always the local side here */
		errno = EREMOTEIO;
	if (!got) { /* the address space is gone */
		errno = ESRCH;
		return -1;
	}
	return got;
}

static ssize_t transfer(struct vb_peer *p, uint64_t addr, const struct iovec *iov, int n,
			size_t bytes, bool in)
{
	struct iovec remote = {(void *)(uintptr_t)addr, bytes};
	ssize_t got;

	if (vb_cross_step(p) == VB_MEM_CROSS_PROC_MEM)
		return by_proc_mem(p, addr, iov, n, in);
	got = in ? process_vm_writev(p->pid, iov, (unsigned long)n, &remote, 1, 0)
		 : process_vm_readv(p->pid, iov, (unsigned long)n, &remote, 1, 0);
	/* A filter may answer with what it likes; these two are usual. */
	if (got < 0 && (errno == EPERM || errno == ENOSYS || errno == EACCES)) {
		atomic_store(&p->no_cross, true);
		return by_proc_mem(p, addr, iov, n, in);
	}
	return got;
}

/* Which side could not be accessed? The one that is read is tried by itself. */
static int whose_fault(struct vb_peer *p, uint64_t addr, const struct iovec *iov, bool in)
{
	uint8_t byte;
	struct iovec probe = {&byte, 1};

	if (vb_cross_step(p) == VB_MEM_CROSS_PROC_MEM)
		return -EFAULT;
	if (!in)
		return transfer(p, addr, &probe, 1, 1, false) == 1 ? -EFAULT : -EREMOTEIO;
	return vb_memory_readable(iov[0].iov_base) ? -EREMOTEIO : -EFAULT;
}

/* Step over what a call has copied. */
static void advance(struct iovec **iov, int *n, size_t done)
{
	while (*n && done >= (*iov)->iov_len) {
		done -= (*iov)->iov_len;
		(*iov)++;
		(*n)--;
	}
	if (*n) {
		(*iov)->iov_base = (uint8_t *)(*iov)->iov_base + done;
		(*iov)->iov_len -= done;
	}
}

int vb_cross_copy(struct vb_peer *p, uint64_t addr, const struct iovec *spans, int n, size_t bytes,
		  bool in)
{
	const int read_side = in ? -EFAULT : -EREMOTEIO;
	struct iovec left[64], *iov = left;
	int faults = 0, whose = 0;
	ssize_t got;

	if (n > (int)(sizeof(left) / sizeof(left[0])))
		return -EINVAL;
	memcpy(left, spans, (size_t)n * sizeof(*spans));
	while (bytes) {
		got = transfer(p, addr, iov, n, bytes, in);
		if (got > 0) {
			addr += (size_t)got;
			bytes -= (size_t)got;
			advance(&iov, &n, (size_t)got);
			continue;
		}
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno == EREMOTEIO)
			return -EREMOTEIO;
		/* Memory may come and go meanwhile: what is read is asked after each failure, and
		 * what is written to is guilty only where the other one was always there. Once or
		 * twice, since who takes it away may do so in step with us. */
		if (got < 0 && errno == EFAULT) {
			for (int asked = 0; asked <= faults % 2 && whose != read_side; asked++)
				whose = whose_fault(p, addr, iov, in);
			if (++faults < VB_FAULT_TRIES)
				continue;
			return whose;
		}
		if (got < 0 && errno == EPERM)
			return vb_peer_check(p) ? -ESRCH : -EPERM;
		return got < 0 && errno == ENOMEM ? -ENOMEM : -ESRCH;
	}
	return 0;
}

bool vb_memory_readable(const void *addr)
{
	unsigned char residence;
	uintptr_t page = (uintptr_t)addr / PAGE * PAGE;
	uint8_t byte;
	struct iovec to = {&byte, 1}, from = {(void *)(uintptr_t)addr, 1};

	if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 1)
		return true;
	/* Forbidden: whether it is mapped at all has to do. */
	return errno != EFAULT && !mincore((void *)page, 1, &residence);
}

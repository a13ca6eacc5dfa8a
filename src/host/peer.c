/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/step.h"
#include "host/eventpipe.h"
#include "host/liveness.h"
#include "host/memory.h"
#include "host/peer_cache.h"

#define ROOM	  4u /* times the size of a part, for what it grows by */
#define PART_MOST (1ull << 40)
#define PAGE	  4096ull

struct vb_peers {
	pthread_mutex_t lock;
	struct vb_peer *by_slot[VB_SLOTS]; /* a reference each */
	struct vb_peer *spare;		   /* for the first one: most processes have one */
};

/* ---- descriptors of the peer ---- */

bool vb_peer_same_process(const struct vb_peer *p)
{
	char path[64];
	struct stat st;

	if (!p->pub_ino)
		return true; /* being opened: the id will tell */
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)p->pid, p->pub_fd);
	return !stat(path, &st) && st.st_ino == p->pub_ino;
}

int vb_peer_open_fd(struct vb_peer *p, int number, const char *prefix, int flags)
{
	char path[64], link[64] = "";
	int fd, err = 0;

	if (number < 0)
		return -EBADF;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)p->pid, number);
	/* Look before opening: opening some devices has effects. */
	if (readlink(path, link, sizeof(link) - 1) < 0)
		err = -errno;
	else if (strncmp(link, prefix, strlen(prefix)))
		err = -EBADF;
	if (err) /* Another pid namespace or not dumpable: the engine's socket would be next. */
		return err == -EPERM ? -EACCES : err;
	fd = open(path, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return errno == EPERM ? -EACCES : -errno;
	if (!vb_peer_same_process(p)) {
		close(fd);
		return -ESRCH;
	}
	return fd;
}

/* A filter may end the process for a call it does not know: nothing is tried under one. */
static int open_pidfd(pid_t pid)
{
	return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) ? -1 : (int)syscall(SYS_pidfd_open, pid, 0);
}

/* By a descriptor of the process: no names are walked, and the number cannot come to mean another
 * process meanwhile. Negative where that is forbidden, or the kernel is older than 5.6. */
static int get_fd(const struct vb_peer *p, int number)
{
	if (p->pidfd < 0 || number < 0)
		return -EBADF;
	return (int)syscall(SYS_pidfd_getfd, p->pidfd, number, 0);
}

/* ---- mappings ---- */

/* Beyond the end of the file there is nothing yet, and nobody looks there: what the peer adds later
 * is in its place at once. */
static int map_file(struct vb_peer_map *map, int fd, uint64_t bytes, int prot)
{
	map->reserve = ROOM * bytes;
	map->base = mmap(NULL, map->reserve, prot, MAP_SHARED, fd, 0);
	if (map->base == MAP_FAILED) {
		map->reserve = bytes;
		map->base = mmap(NULL, bytes, prot, MAP_SHARED, fd, 0);
	}
	if (map->base == MAP_FAILED)
		return -ENOMEM;
	madvise(map->base, map->reserve, MADV_DONTFORK);
	return 0;
}

/* A part that outgrew its room gets a second mapping; pointers into the first stay good. */
static int map_again(struct vb_part_maps *maps, int fd, uint64_t size, int prot)
{
	struct vb_peer_map *old = atomic_load(&maps->now);
	struct vb_peer_map *map = old ? calloc(1, sizeof(*map)) : &maps->first;

	if (!map)
		return -ENOMEM;
	if (map_file(map, fd, size, prot)) {
		if (old)
			free(map);
		return -ENOMEM;
	}
	map->retired = old;
	atomic_store(&map->size, size);
	atomic_store(&maps->now, map);
	return 0;
}

static void unmap(struct vb_part_maps *maps)
{
	struct vb_peer_map *map = atomic_load(&maps->now);

	while (map) {
		struct vb_peer_map *retired = map->retired;

		munmap(map->base, map->reserve);
		if (map != &maps->first)
			free(map);
		map = retired;
	}
}

/* Map what a part has beyond what is mapped already. */
static int map_more(struct vb_part_maps *maps, int fd, uint64_t size, int prot)
{
	struct vb_peer_map *map = atomic_load(&maps->now);

	size -= size % PAGE;
	if (map && size <= atomic_load(&map->size))
		return 0;
	if (!map || size > map->reserve)
		return map_again(maps, fd, size, prot);
	atomic_store(&map->size, size);
	return 0;
}

static struct vb_part_maps *maps_of(struct vb_peer *p, bool mailbox)
{
	return mailbox ? &p->mbx_maps : &p->pub_maps;
}

/* Open a part, see that it is a memory file that cannot shrink, map it. */
static int map_part(struct vb_peer *p, bool mailbox)
{
	uint64_t *ino = mailbox ? &p->mbx_ino : &p->pub_ino;
	int number = mailbox ? p->mbx_fd : p->pub_fd;
	int fd = get_fd(p, number), err, seals;
	struct stat st;

	if (fd < 0)
		fd = vb_peer_open_fd(p, number, "/memfd:verbena-", mailbox ? O_RDWR : O_RDONLY);
	if (fd < 0)
		return fd;
	seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 && p->pidfd >= 0)
		err = -EBADF; /* another process's number, in its own pid namespace */
	else if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) ||
		 st.st_size < (off_t)PAGE || (uint64_t)st.st_size > PART_MOST)
		err = -EPROTO;
	else if (*ino && *ino != st.st_ino)
		err = -ESRCH;
	else
		err = map_more(maps_of(p, mailbox), fd, (uint64_t)st.st_size,
			       mailbox ? PROT_READ | PROT_WRITE : PROT_READ);
	if (!err)
		*ino = st.st_ino;
	close(fd);
	return err;
}

/* Our own part grew: it is mapped already. */
static int extend_self(struct vb_peer *p, bool mailbox)
{
	struct vb_part *part = mailbox ? &p->adapter->mbx_part : &p->adapter->pub_part;
	struct vb_peer_map *map = atomic_load(&maps_of(p, mailbox)->now);

	atomic_store(&map->size, atomic_load(&part->size));
	return 0;
}

static void *part_at(struct vb_peer *p, bool mailbox, uint64_t offset, uint64_t bytes)
{
	struct vb_peer_map *map = atomic_load(&maps_of(p, mailbox)->now);
	uint64_t size = atomic_load_explicit(&map->size, memory_order_acquire);
	int err;

	if (!offset || offset % 8 || bytes > PART_MOST || offset > PART_MOST)
		return NULL;
	if (__builtin_expect(offset + bytes <= size, 1))
		return map->base + offset;
	pthread_mutex_lock(&p->lock);
	err = p->self ? extend_self(p, mailbox) : map_part(p, mailbox);
	map = atomic_load(&maps_of(p, mailbox)->now);
	size = atomic_load(&map->size);
	pthread_mutex_unlock(&p->lock);
	return !err && offset + bytes <= size ? map->base + offset : NULL;
}

const void *vb_peer_pub_at(struct vb_peer *p, uint64_t offset, uint64_t bytes)
{
	return part_at(p, false, offset, bytes);
}

void *vb_peer_mbx_at(struct vb_peer *p, uint64_t offset, uint64_t bytes)
{
	return part_at(p, true, offset, bytes);
}

/* ---- tables ---- */

bool vb_peer_index(struct vb_peer *p, uint32_t number, uint32_t *index)
{
	uint32_t n = atomic_load_explicit(&p->pub->n_blocks, memory_order_acquire);

	if (!(number >> VB_BLOCK_BITS))
		return false;
	for (uint32_t i = 0; i < n && i < VB_OWN_BLOCKS; i++) {
		if (atomic_load_explicit(&p->pub->blocks[i], memory_order_relaxed) ==
		    number >> VB_BLOCK_BITS) {
			*index = i << VB_BLOCK_BITS | (number & (VB_BLOCK_IDS - 1));
			return true;
		}
	}
	return false;
}

static void *row(struct vb_peer *p, bool mailbox, const _Atomic uint64_t *chunks, uint32_t index,
		 size_t bytes)
{
	uint64_t offset;

	if (index >= VB_INDEXES)
		return NULL;
	offset = atomic_load_explicit(&chunks[index / VB_CHUNK_IDS], memory_order_acquire);
	if (!offset || offset > PART_MOST)
		return NULL;
	return part_at(p, mailbox, offset + (index % VB_CHUNK_IDS) * bytes, bytes);
}

const struct vb_pub_qp *vb_peer_pub_qp(struct vb_peer *p, uint32_t qpn)
{
	uint32_t index;

	return vb_peer_index(p, qpn, &index)
		       ? row(p, false, p->pub->qp_chunk, index, sizeof(struct vb_pub_qp))
		       : NULL;
}

struct vb_mbx_qp *vb_peer_mbx_qp(struct vb_peer *p, uint32_t qpn)
{
	uint32_t index;

	return vb_peer_index(p, qpn, &index)
		       ? row(p, true, p->pub->mqp_chunk, index, sizeof(struct vb_mbx_qp))
		       : NULL;
}

const struct vb_pub_key *vb_peer_pub_key(struct vb_peer *p, uint32_t key_number)
{
	uint32_t index;

	return vb_peer_index(p, key_number, &index)
		       ? row(p, false, p->pub->key_chunk, index, sizeof(struct vb_pub_key))
		       : NULL;
}

const struct vb_pub_cq *vb_peer_pub_cq(struct vb_peer *p, uint32_t index)
{
	return row(p, false, p->pub->cq_chunk, index, sizeof(struct vb_pub_cq));
}

struct vb_mbx_cq *vb_peer_mbx_cq(struct vb_peer *p, uint32_t index)
{
	return row(p, true, p->pub->mcq_chunk, index, sizeof(struct vb_mbx_cq));
}

/* ---- doorbell ---- */

static int open_doorbell(struct vb_peer *p)
{
	int fd;

	pthread_mutex_lock(&p->lock);
	fd = atomic_load(&p->doorbell);
	if (fd == -1) {
		/* Read-write: a reader that went away is no reason for SIGPIPE. */
		fd = vb_peer_open_fd(p, p->pub->doorbell_fd, "pipe:[", O_RDWR);
		if (fd >= 0)
			atomic_store(&p->doorbell, fd);
	}
	pthread_mutex_unlock(&p->lock);
	return fd;
}

int vb_peer_ring(struct vb_peer *p)
{
	uint64_t turn = atomic_load(&p->pub->doorbell_turn);
	char byte = 0;
	int fd;

	if (p->self) {
		vb_adapter_ring(p->adapter);
		return 0;
	}
	if (atomic_load(&p->mbx->rung) == turn)
		return 0;
	fd = atomic_load_explicit(&p->doorbell, memory_order_relaxed);
	if (fd < 0)
		fd = open_doorbell(p);
	if (fd < 0)
		return fd;
	while (write(fd, &byte, 1) < 0) {
		if (errno == EAGAIN) /* full: it has not woken up for a long time */
			return 0;
		if (errno != EINTR)
			return -errno;
	}
	atomic_store(&p->mbx->rung, turn);
	return 0;
}

/* ---- life ---- */

static struct vb_peer *allocate(struct vb_adapter *a)
{
	struct vb_peer *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->adapter = a;
	p->refs = 1;
	p->doorbell = -1;
	p->mem_fd = -1;
	p->pidfd = -1;
	for (int i = 0; i < VB_PEER_PIPES; i++)
		p->pipe[i].fd = p->pipe[i].number = -1;
	pthread_mutex_init(&p->lock, NULL);
	return p;
}

static void close_fds(struct vb_peer *p)
{
	int fd = atomic_load(&p->doorbell);

	if (fd >= 0)
		close(fd);
	fd = atomic_load(&p->mem_fd);
	if (fd >= 0)
		close(fd);
	for (int i = 0; i < VB_PEER_PIPES; i++)
		if (p->pipe[i].fd >= 0)
			close(p->pipe[i].fd);
}

void vb_peer_put(struct vb_peer *p)
{
	if (!p || atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1)
		return;
	vb_memory_close(p);
	close_fds(p);
	if (!p->self) {
		unmap(&p->pub_maps);
		unmap(&p->mbx_maps);
	}
	pthread_mutex_destroy(&p->lock);
	free(p);
}

/* What the segment says of itself, against what the registry says. */
static int check_headers(struct vb_peer *p)
{
	const struct vb_pub_header *pub = p->pub;
	const struct vb_mbx_header *mbx = p->mbx;

	if (!pub->magic)
		return -EAGAIN;
	if (pub->magic != VB_PUB_MAGIC || mbx->magic != VB_MBX_MAGIC ||
	    pub->layout != vb_layout_hash() || mbx->layout != vb_layout_hash())
		return -EPROTO;
	if (memcmp(pub->id, p->id, sizeof(p->id)) || memcmp(mbx->id, p->id, sizeof(p->id)) ||
	    pub->slot != p->slot)
		return -ESRCH;
	return 0;
}

static int open_segment(struct vb_peer *p)
{
	uint32_t own = p->adapter->slot;
	int err = map_part(p, false);

	if (!err)
		err = map_part(p, true);
	if (err)
		return err;
	if (p->pub_maps.first.size < sizeof(struct vb_pub_header) ||
	    p->mbx_maps.first.size < sizeof(struct vb_mbx_header))
		return -EPROTO;
	p->pub = (const void *)p->pub_maps.first.base;
	p->mbx = (void *)p->mbx_maps.first.base;
	err = check_headers(p);
	if (err)
		return err;
	VB_STEP(PEER_MAPPED);
	atomic_fetch_or(&p->mbx->visitors[own / 64], 1ull << own % 64);
	VB_STEP(VISITOR_SET);
	return 0;
}

/* Whose lock is held lives: what the number means while we look is the process of the entry, or one
 * that has its number by now, whose id is another. */
static int open_living(struct vb_peer *p)
{
	struct vb_registry *registry = &p->adapter->registry;
	int err = -ESRCH;

	p->pidfd = open_pidfd(p->pid);
	if (vb_registry_locked(registry, p->slot, &p->lock_pid))
		err = open_segment(p);
	/* No such file although the process lives: it is in another pid namespace. */
	if (err == -ENOENT || err == -EBADF)
		err = vb_registry_locked(registry, p->slot, &p->lock_pid) ? -EACCES : -ESRCH;
	if (p->pidfd >= 0)
		close(p->pidfd);
	p->pidfd = -1;
	return err;
}

static int open_peer(struct vb_adapter *a, uint32_t slot, const struct vb_registry_entry *entry,
		     struct vb_peer **out)
{
	struct vb_peer *p;
	int err;

	p = a->peers->spare ? a->peers->spare : allocate(a);
	a->peers->spare = NULL;
	if (!p)
		return -ENOMEM;
	p->slot = slot;
	memcpy(p->id, entry->id, sizeof(p->id));
	p->pid = entry->pid;
	p->pub_fd = entry->pub_fd;
	p->mbx_fd = entry->mbx_fd;
	err = open_living(p);
	if (err) {
		vb_peer_put(p);
		return err;
	}
	*out = p;
	return 0;
}

int vb_peer_get_slot(struct vb_adapter *a, uint32_t slot, struct vb_peer **out)
{
	struct vb_registry_entry entry;
	struct vb_peer *p;
	pid_t pid;
	int err;

	if (slot >= VB_SLOTS)
		return -ENOENT;
	if (slot == a->slot) {
		*out = vb_peer_ref(a->self);
		return 0;
	}
	err = vb_registry_read(&a->registry, slot, &entry);
	if (err == -EAGAIN && !vb_registry_locked(&a->registry, slot, &pid))
		err = -ESRCH; /* died while writing its slot */
	pthread_mutex_lock(&a->peers->lock);
	p = a->peers->by_slot[slot];
	if (p && (err == -ENOENT || (!err && memcmp(p->id, entry.id, sizeof(p->id))))) {
		/* The slot went on to another process. */
		atomic_store(&p->dead, true);
		a->peers->by_slot[slot] = NULL;
		vb_peer_put(p);
		p = NULL;
	}
	if (!err && !p) {
		err = open_peer(a, slot, &entry, &p);
		if (!err)
			a->peers->by_slot[slot] = p;
	} else if (!err && vb_peer_dead(p)) {
		err = -ESRCH;
	}
	if (!err)
		*out = vb_peer_ref(p);
	pthread_mutex_unlock(&a->peers->lock);
	return err;
}

int vb_peer_get(struct vb_adapter *a, uint32_t block, struct vb_peer **out)
{
	uint32_t slot, ordinal, index;
	int err;

	if (vb_adapter_index(a, block << VB_BLOCK_BITS, &index)) {
		*out = vb_peer_ref(a->self);
		return 0;
	}
	err = vb_registry_block(&a->registry, block, &slot, &ordinal);
	if (!err && slot == a->slot)
		err = -ENOENT; /* left by who had the slot before us */
	if (!err)
		err = vb_peer_get_slot(a, slot, out);
	if (err)
		return err;
	if (!vb_peer_index(*out, block << VB_BLOCK_BITS, &index)) {
		vb_peer_put(*out);
		return -ENOENT;
	}
	return 0;
}

static void map_self(struct vb_part_maps *maps, const struct vb_part *part)
{
	maps->first.base = part->base;
	maps->first.size = part->size;
	atomic_store(&maps->now, &maps->first);
}

int vb_peers_create(struct vb_adapter *a)
{
	struct vb_peer *p = allocate(a);

	a->peers = calloc(1, sizeof(*a->peers));
	if (a->peers)
		pthread_mutex_init(&a->peers->lock, NULL);
	a->self = p;
	if (!a->peers || !p)
		return -ENOMEM;
	p->self = true;
	p->pid = a->pid;
	p->pub = a->pub;
	p->mbx = a->mbx;
	memcpy(p->id, a->id, sizeof(p->id));
	map_self(&p->pub_maps, &a->pub_part);
	map_self(&p->mbx_maps, &a->mbx_part);
	a->peers->spare = allocate(a);
	return 0;
}

void vb_peers_destroy(struct vb_adapter *a)
{
	for (uint32_t slot = 0; a->peers && slot < VB_SLOTS; slot++)
		vb_peer_put(a->peers->by_slot[slot]);
	if (a->peers)
		vb_peer_put(a->peers->spare);
	vb_peer_put(a->self);
	if (a->peers)
		pthread_mutex_destroy(&a->peers->lock);
	free(a->peers);
}

void vb_peers_forget(struct vb_adapter *a)
{
	for (uint32_t slot = 0; a->peers && slot < VB_SLOTS; slot++)
		if (a->peers->by_slot[slot])
			close_fds(a->peers->by_slot[slot]);
	if (a->self)
		close_fds(a->self);
}

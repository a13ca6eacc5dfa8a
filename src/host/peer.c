/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/step.h"
#include "host/eventpipe.h"
#include "host/liveness.h"
#include "host/memory.h"
#include "host/peer_cache.h"

#define MAP_LEAST (64ull << 20)
#define PART_MOST (1ull << 40)
#define PAGE	  4096ull

struct vb_peers {
	pthread_mutex_t lock;
	struct vb_peer *by_slot[VB_SLOTS]; /* a reference each */
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

/* ---- mappings ---- */

static struct vb_peer_map *new_map(uint64_t bytes)
{
	struct vb_peer_map *map = calloc(1, sizeof(*map));

	if (!map)
		return NULL;
	map->base = vb_reserve(4 * bytes > MAP_LEAST ? 4 * bytes : MAP_LEAST, bytes, &map->reserve);
	if (!map->base) {
		free(map);
		return NULL;
	}
	return map;
}

static void free_maps(struct vb_peer_map *map)
{
	while (map) {
		struct vb_peer_map *retired = map->retired;

		munmap(map->base, map->reserve);
		free(map);
		map = retired;
	}
}

/* Map what a part has beyond what is mapped already. A part that outgrew its
 * reservation gets a second one; pointers into the first stay good. */
static int map_more(_Atomic(struct vb_peer_map *) *at, int fd, uint64_t size, int prot)
{
	struct vb_peer_map *map = atomic_load(at), *old = map;
	uint64_t from = map ? atomic_load(&map->size) : 0;

	size -= size % PAGE;
	if (map && size <= from)
		return 0;
	if (!map || size > map->reserve) {
		map = new_map(size);
		if (!map)
			return -ENOMEM;
		map->retired = old;
		from = 0;
	}
	if (mmap(map->base + from, size - from, prot, MAP_SHARED | MAP_FIXED, fd, (off_t)from) ==
	    MAP_FAILED) {
		if (map != old) {
			map->retired = NULL;
			free_maps(map);
		}
		return -ENOMEM;
	}
	madvise(map->base + from, size - from, MADV_DONTFORK);
	atomic_store(&map->size, size);
	atomic_store(at, map);
	return 0;
}

/* Open a part, see that it is a memory file that cannot shrink, map it. */
static int map_part(struct vb_peer *p, bool mailbox)
{
	uint64_t *ino = mailbox ? &p->mbx_ino : &p->pub_ino;
	struct stat st;
	int err, seals;
	int fd = vb_peer_open_fd(p, mailbox ? p->mbx_fd : p->pub_fd, "/memfd:verbena-",
				 mailbox ? O_RDWR : O_RDONLY);

	if (fd < 0)
		return fd;
	seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) || st.st_size < (off_t)PAGE ||
	    (uint64_t)st.st_size > PART_MOST)
		err = -EPROTO;
	else if (*ino && *ino != st.st_ino)
		err = -ESRCH;
	else
		err = map_more(mailbox ? &p->mbx_map : &p->pub_map, fd, (uint64_t)st.st_size,
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
	struct vb_peer_map *map = atomic_load(mailbox ? &p->mbx_map : &p->pub_map);

	atomic_store(&map->size, atomic_load(&part->size));
	return 0;
}

static void *part_at(struct vb_peer *p, bool mailbox, uint64_t offset, uint64_t bytes)
{
	struct vb_peer_map *map = atomic_load(mailbox ? &p->mbx_map : &p->pub_map);
	uint64_t size = atomic_load_explicit(&map->size, memory_order_acquire);
	int err;

	if (!offset || offset % 8 || bytes > PART_MOST || offset > PART_MOST)
		return NULL;
	if (__builtin_expect(offset + bytes <= size, 1))
		return map->base + offset;
	pthread_mutex_lock(&p->lock);
	err = p->self ? extend_self(p, mailbox) : map_part(p, mailbox);
	map = atomic_load(mailbox ? &p->mbx_map : &p->pub_map);
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
	if (p->self) {
		free(atomic_load(&p->pub_map));
		free(atomic_load(&p->mbx_map));
	} else {
		free_maps(atomic_load(&p->pub_map));
		free_maps(atomic_load(&p->mbx_map));
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
	if (atomic_load(&p->pub_map)->size < sizeof(struct vb_pub_header) ||
	    atomic_load(&p->mbx_map)->size < sizeof(struct vb_mbx_header))
		return -EPROTO;
	p->pub = (const void *)atomic_load(&p->pub_map)->base;
	p->mbx = (void *)atomic_load(&p->mbx_map)->base;
	err = check_headers(p);
	if (err)
		return err;
	VB_STEP(PEER_MAPPED);
	atomic_fetch_or(&p->mbx->visitors[own / 64], 1ull << own % 64);
	VB_STEP(VISITOR_SET);
	return 0;
}

static int open_peer(struct vb_adapter *a, uint32_t slot, const struct vb_registry_entry *entry,
		     struct vb_peer **out)
{
	struct vb_peer *p;
	int err;

	p = allocate(a);
	if (!p)
		return -ENOMEM;
	p->slot = slot;
	memcpy(p->id, entry->id, sizeof(p->id));
	p->pid = entry->pid;
	p->pub_fd = entry->pub_fd;
	p->mbx_fd = entry->mbx_fd;
	err = vb_registry_locked(&a->registry, slot, &p->lock_pid) ? open_segment(p) : -ESRCH;
	/* No such file although the process lives: it is in another pid namespace. */
	if (err == -ENOENT || err == -EBADF)
		err = vb_registry_locked(&a->registry, slot, &p->lock_pid) ? -EACCES : -ESRCH;
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

static struct vb_peer_map *self_map(struct vb_part *part)
{
	struct vb_peer_map *map = calloc(1, sizeof(*map));

	if (map) {
		map->base = part->base;
		map->size = part->size;
	}
	return map;
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
	p->pub_map = self_map(&a->pub_part);
	p->mbx_map = self_map(&a->mbx_part);
	return p->pub_map && p->mbx_map ? 0 : -ENOMEM;
}

void vb_peers_destroy(struct vb_adapter *a)
{
	for (uint32_t slot = 0; a->peers && slot < VB_SLOTS; slot++)
		vb_peer_put(a->peers->by_slot[slot]);
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

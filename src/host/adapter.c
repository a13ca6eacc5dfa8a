/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/adapter.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/forkguard.h"
#include "base/settings.h"
#include "base/step.h"
#include "host/liveness.h"
#include "host/numbers.h"
#include "host/peer.h"
#include "host/peer_cache.h"

/* With room for the first chunk of each table and a few rings: a process of few objects makes its
 * files once. */
#define PUB_BYTES (192ull << 10)
#define MBX_BYTES (256ull << 10)

/* Adapters of this process; under VB_FORK_LOCK_ADAPTER. */
static struct vb_adapter *adapters;

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* The child must not keep names, locks and files of its parent alive. It has one thread
 * and may only do what a signal handler may: close. */
static void close_in_child(void)
{
	for (struct vb_adapter *a = adapters; a; a = a->next) {
		vb_registry_forget(&a->registry);
		close_fd(&a->pub_part.fd);
		close_fd(&a->mbx_part.fd);
		close_fd(&a->doorbell_fd);
		close_fd(&a->doorbell_write_fd);
		for (unsigned int i = 0; i < VB_OWN_BLOCKS; i++)
			close_fd(&a->block_fd[i]);
		vb_peers_forget(a);
	}
	adapters = NULL;
}

/* After clone() without handlers the list is the parent's: leave it alone. */
static void drop_inherited(void)
{
	if (adapters && !vb_adapter_alive(adapters)) {
		adapters = NULL;
		vb_registry_drop_inherited();
	}
}

static bool valid_name(const char *device)
{
	size_t len = strlen(device);

	if (!len || len >= sizeof(((struct vb_adapter *)0)->device) || *device == '.')
		return false;
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)device[i]) && !strchr("_-.", device[i]))
			return false;
	return true;
}

static int make_id(uint8_t id[16])
{
	int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
	ssize_t got = fd >= 0 ? read(fd, id, 16) : -1;

	if (fd >= 0)
		close(fd);
	return got == 16 ? 0 : -ENOENT;
}

static int make_parts(struct vb_adapter *a, bool shared)
{
	int err = vb_part_init(&a->pub_part, "verbena-published", PUB_BYTES, shared);

	if (err)
		return err;
	/* What the header takes is used; the rest of what is backed is for tables. */
	a->pub_part.used = (sizeof(struct vb_pub_header) + 63) / 64 * 64;
	err = vb_part_init(&a->mbx_part, "verbena-mailbox", MBX_BYTES, shared);
	if (err) {
		vb_part_fini(&a->pub_part);
		return err;
	}
	a->mbx_part.used = (sizeof(struct vb_mbx_header) + 63) / 64 * 64;
	return 0;
}

static void write_headers(struct vb_adapter *a)
{
	struct vb_pub_header *pub = a->pub;
	struct vb_mbx_header *mbx = a->mbx;

	memcpy(mbx->id, a->id, sizeof(a->id));
	mbx->layout = vb_layout_hash();
	mbx->magic = VB_MBX_MAGIC;
	memcpy(pub->id, a->id, sizeof(a->id));
	pub->layout = vb_layout_hash();
	pub->slot = a->slot;
	pub->doorbell_fd = a->doorbell_write_fd;
	atomic_store(&pub->doorbell_turn, 1);
	atomic_store(&pub->size, a->pub_part.size);
	atomic_store(&pub->mbx_size, a->mbx_part.size);
	pub->magic = VB_PUB_MAGIC;
	VB_STEP(SEGMENT_READY);
}

static const char *reason_for(int err)
{
	switch (err) {
	case -EFBIG:
		return "the file size limit (ulimit -f) is too small for shared memory files";
	case -ENOSYS:
	case -EPERM:
		return "memory files (memfd_create) are forbidden here";
	case -ENOMEM:
		return "there is too little memory for shared memory files";
	default:
		return "shared memory files cannot be made";
	}
}

static const char *registry_reason(int err)
{
	switch (err) {
	case -ENOSPC:
		return "no runtime directory has room, or all slots of the adapter are taken";
	case -EFBIG:
		return "the file size limit (ulimit -f) is too small for the registry";
	default:
		return "no runtime directory can be used (see VERBENA_RUNTIME_DIR)";
	}
}

static int make_segment(struct vb_adapter *a)
{
	int err = make_parts(a, true);

	if (err == -EMFILE || err == -ENFILE)
		return err;
	if (err) {
		a->alone_reason = reason_for(err);
		err = make_parts(a, false);
		if (err)
			return err;
	}
	a->pub = (void *)a->pub_part.base;
	a->mbx = (void *)a->mbx_part.base;
	return 0;
}

static int enter_registry(struct vb_adapter *a)
{
	struct vb_registry_entry entry = {
		.pid = a->pid, .pub_fd = a->pub_part.fd, .mbx_fd = a->mbx_part.fd};
	int err;

	if (!a->alone_reason) {
		err = vb_registry_open(&a->registry, a->device);
		if (err == -EMFILE || err == -ENFILE)
			return err;
		if (err)
			a->alone_reason = registry_reason(err);
	}
	a->slot = a->alone_reason ? 0 : a->registry.slot;
	a->self->slot = a->slot;
	write_headers(a);
	if (!a->alone_reason) {
		memcpy(entry.id, a->id, sizeof(entry.id));
		vb_registry_publish(&a->registry, &entry);
	}
	return 0;
}

static void destroy(struct vb_adapter *a)
{
	/* Peers with QPs to us look at the lock at once. */
	if (a->mbx)
		atomic_store(&a->mbx->alive, FUTEX_OWNER_DIED);
	vb_registry_close(&a->registry);
	for (unsigned int i = 0; i < VB_OWN_BLOCKS; i++)
		close_fd(&a->block_fd[i]);
	vb_peers_destroy(a);
	close_fd(&a->doorbell_fd);
	close_fd(&a->doorbell_write_fd);
	vb_part_fini(&a->pub_part);
	vb_part_fini(&a->mbx_part);
	vb_numbers_fini(a);
	pthread_mutex_destroy(&a->space_lock);
	pthread_mutex_destroy(&a->number_lock);
	free(a);
}

static struct vb_adapter *allocate(const char *device)
{
	struct vb_adapter *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	strcpy(a->device, device);
	a->pid = getpid();
	a->users = 1;
	a->own_turn = 1;
	a->registry.lock_fd = -1;
	a->pub_part.fd = a->mbx_part.fd = -1;
	a->doorbell_fd = a->doorbell_write_fd = -1;
	for (unsigned int i = 0; i < VB_OWN_BLOCKS; i++)
		a->block_fd[i] = -1;
	pthread_mutex_init(&a->space_lock, NULL);
	pthread_mutex_init(&a->number_lock, NULL);
	return a;
}

static int create(const char *device, struct vb_adapter **out)
{
	struct vb_adapter *a = allocate(device);
	int fds[2], err;

	if (!a)
		return -ENOMEM;
	a->fork_guard = vb_fork_guard();
	err = a->fork_guard ? make_id(a->id) : -ENOMEM;
	if (!err && pipe2(fds, O_CLOEXEC | O_NONBLOCK)) {
		err = -errno;
	} else if (!err) {
		a->doorbell_fd = fds[0];
		a->doorbell_write_fd = fds[1];
	}
	if (!err)
		err = make_segment(a);
	if (!err)
		err = vb_peers_create(a);
	if (!err)
		err = enter_registry(a);
	if (err) {
		destroy(a);
		return err;
	}
	/* Lets processes of this user copy to and from us where Yama would not. */
	if (vb_setting_u64("PTRACER", 0, 1, 1))
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	*out = a;
	return 0;
}

int vb_adapter_open(const char *device, struct vb_adapter **out)
{
	pthread_mutex_t *lock = vb_fork_lock(VB_FORK_LOCK_ADAPTER);
	static bool handler;
	struct vb_adapter *a;
	int err = 0;

	if (!valid_name(device))
		return -EINVAL;
	pthread_mutex_lock(lock);
	drop_inherited();
	if (!handler)
		handler = !pthread_atfork(NULL, NULL, close_in_child);
	for (a = adapters; a && strcmp(a->device, device); a = a->next)
		;
	if (a) {
		a->users++;
	} else {
		err = create(device, &a);
		if (!err) {
			a->next = adapters;
			adapters = a;
		}
	}
	pthread_mutex_unlock(lock);
	if (!err)
		*out = a;
	return err;
}

void vb_adapter_close(struct vb_adapter *a)
{
	pthread_mutex_t *lock;
	struct vb_adapter **at = &adapters;

	if (!vb_adapter_alive(a))
		return;
	lock = vb_fork_lock(VB_FORK_LOCK_ADAPTER);
	pthread_mutex_lock(lock);
	if (!--a->users) {
		while (*at && *at != a)
			at = &(*at)->next;
		if (*at)
			*at = a->next;
		destroy(a);
	}
	pthread_mutex_unlock(lock);
}

/* Many programs end without closing anything: the last one still removes the files. */
__attribute__((destructor)) static void leave_at_exit(void)
{
	pthread_mutex_t *lock = vb_fork_lock(VB_FORK_LOCK_ADAPTER);

	if (pthread_mutex_trylock(lock))
		return;
	drop_inherited();
	for (struct vb_adapter *a = adapters; a; a = a->next)
		vb_registry_exit(&a->registry);
	pthread_mutex_unlock(lock);
}

_Atomic uint64_t *vb_adapter_counters(struct vb_adapter *a)
{
	return a->registry.file ? a->registry.file->slot[a->slot].counters : a->private_counters;
}

static uint64_t alloc(struct vb_adapter *a, struct vb_part *part, _Atomic uint64_t *size,
		      uint64_t bytes, uint64_t align)
{
	uint64_t offset;

	pthread_mutex_lock(&a->space_lock);
	offset = vb_part_alloc(part, bytes, align);
	atomic_store_explicit(size, part->size, memory_order_release);
	pthread_mutex_unlock(&a->space_lock);
	return offset;
}

static void give_back(struct vb_adapter *a, struct vb_part *part, uint64_t offset, uint64_t bytes,
		      uint64_t align)
{
	if (!offset)
		return;
	pthread_mutex_lock(&a->space_lock);
	vb_part_free(part, offset, bytes, align);
	pthread_mutex_unlock(&a->space_lock);
}

uint64_t vb_adapter_alloc_pub(struct vb_adapter *a, uint64_t bytes, uint64_t align)
{
	return alloc(a, &a->pub_part, &a->pub->size, bytes, align);
}

uint64_t vb_adapter_alloc_mbx(struct vb_adapter *a, uint64_t bytes, uint64_t align)
{
	return alloc(a, &a->mbx_part, &a->pub->mbx_size, bytes, align);
}

void vb_adapter_free_pub(struct vb_adapter *a, uint64_t offset, uint64_t bytes, uint64_t align)
{
	give_back(a, &a->pub_part, offset, bytes, align);
}

void vb_adapter_free_mbx(struct vb_adapter *a, uint64_t offset, uint64_t bytes, uint64_t align)
{
	give_back(a, &a->mbx_part, offset, bytes, align);
}

/* The chunks are published; what they are is remembered privately (`own`). */
static void *row(struct vb_adapter *a, enum vb_table which, _Atomic uint64_t *published,
		 uint32_t index, size_t bytes)
{
	struct vb_part *part = which >= VB_TABLE_MQP ? &a->mbx_part : &a->pub_part;
	uint32_t chunk = index / VB_CHUNK_IDS;
	_Atomic uint64_t *own = &a->chunk[which][chunk % VB_CHUNKS];
	uint64_t offset;

	if (index >= VB_INDEXES)
		return NULL;
	offset = atomic_load_explicit(own, memory_order_acquire);
	if (!offset) {
		pthread_mutex_lock(&a->space_lock);
		offset = atomic_load_explicit(own, memory_order_relaxed);
		if (!offset) {
			offset = vb_part_fresh(part, bytes * VB_CHUNK_IDS);
			atomic_store(&a->pub->size, a->pub_part.size);
			atomic_store(&a->pub->mbx_size, a->mbx_part.size);
			if (offset) {
				atomic_store(&published[chunk], offset);
				atomic_store_explicit(own, offset, memory_order_release);
			}
		}
		pthread_mutex_unlock(&a->space_lock);
	}
	return offset ? part->base + offset + (index % VB_CHUNK_IDS) * bytes : NULL;
}

struct vb_pub_qp *vb_adapter_pub_qp(struct vb_adapter *a, uint32_t index)
{
	return row(a, VB_TABLE_QP, a->pub->qp_chunk, index, sizeof(struct vb_pub_qp));
}

struct vb_pub_key *vb_adapter_pub_key(struct vb_adapter *a, uint32_t index)
{
	return row(a, VB_TABLE_KEY, a->pub->key_chunk, index, sizeof(struct vb_pub_key));
}

struct vb_pub_cq *vb_adapter_pub_cq(struct vb_adapter *a, uint32_t index)
{
	return row(a, VB_TABLE_CQ, a->pub->cq_chunk, index, sizeof(struct vb_pub_cq));
}

struct vb_mbx_qp *vb_adapter_mbx_qp(struct vb_adapter *a, uint32_t index)
{
	return row(a, VB_TABLE_MQP, a->pub->mqp_chunk, index, sizeof(struct vb_mbx_qp));
}

struct vb_mbx_cq *vb_adapter_mbx_cq(struct vb_adapter *a, uint32_t index)
{
	return row(a, VB_TABLE_MCQ, a->pub->mcq_chunk, index, sizeof(struct vb_mbx_cq));
}

void vb_adapter_drain_doorbell(struct vb_adapter *a, bool rang)
{
	char bytes[4096];
	int most = 64; /* a peer that keeps writing must not keep us here */
	ssize_t got;

	while (rang && most--) {
		got = read(a->doorbell_fd, bytes, sizeof(bytes));
		rang = got == sizeof(bytes) || (got < 0 && errno == EINTR);
	}
	atomic_fetch_add(&a->own_turn, 1);
	atomic_fetch_add(&a->pub->doorbell_turn, 1);
}

/* As peers ring, but by words of our own: what peers scribble must not keep our
 * engine asleep. */
void vb_adapter_ring(struct vb_adapter *a)
{
	uint64_t turn = atomic_load(&a->own_turn);
	char byte = 0;

	if (atomic_load(&a->own_rung) == turn)
		return;
	while (write(a->doorbell_write_fd, &byte, 1) < 0 && errno == EINTR)
		;
	atomic_store(&a->own_rung, turn);
}

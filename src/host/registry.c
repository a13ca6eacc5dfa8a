/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/registry.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/step.h"
#include "host/registry_files.h"
#include "host/runtime.h"

#define MAGIC	    0x312d7362726576ull /* "verbs-1" */
#define TRIES	    200
#define READ_TRIES  64
#define CLEANER_TRY 40

/* Registries this process is in, so that sweeping does not open (and by closing
 * unlock) their lock files. Under the lock of vb_adapter_open(). */
static struct vb_registry *ours;

static bool is_ours(const char *name)
{
	for (struct vb_registry *reg = ours; reg; reg = reg->next)
		if (!strcmp(reg->name, name))
			return true;
	return false;
}

/* Take the first slot that nobody holds. */
static int claim_slot(int fd, uint32_t *slot)
{
	for (uint32_t s = 0; s < VB_SLOTS; s++) {
		if (!vb_regfile_lock(fd, s, 1)) {
			*slot = s;
			return 0;
		}
		if (errno != EAGAIN && errno != EACCES)
			return -errno;
	}
	return -ENOSPC;
}

/* All slots are held by one process: it is removing the files. One that stopped
 * while doing so has seen that nobody else is in: the names may go. */
static bool being_removed(int fd, int dirfd, const char *name, int tries)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1, .l_len = 1};
	const struct timespec moment = {.tv_nsec = 500000};

	if (fcntl(fd, F_GETLK, &lock) || (lock.l_type != F_UNLCK && lock.l_len != VB_SLOTS))
		return false;
	if (tries < CLEANER_TRY)
		nanosleep(&moment, NULL);
	else if (lock.l_type != F_UNLCK)
		vb_regfile_unlink(dirfd, name, fd);
	return true;
}

/* Open the lock file and take a slot in it; the file still has its name afterwards. */
static int take_slot(struct vb_registry *reg, int dirfd)
{
	int err;

	for (int tries = 0; tries < TRIES; tries++) {
		reg->lock_fd = vb_regfile_open(dirfd, reg->name, ".lock", O_RDWR | O_CREAT);
		if (reg->lock_fd < 0)
			return reg->lock_fd;
		err = claim_slot(reg->lock_fd, &reg->slot);
		if (!err && vb_regfile_named(dirfd, reg->name, ".lock", reg->lock_fd))
			return 0;
		if (err &&
		    (err != -ENOSPC || !being_removed(reg->lock_fd, dirfd, reg->name, tries))) {
			close(reg->lock_fd);
			return err;
		}
		close(reg->lock_fd);
	}
	return -EBUSY;
}

static int map_slots(struct vb_registry *reg, int dirfd)
{
	uint64_t none = 0;
	void *base;
	int err = 0, fd;

	fd = vb_regfile_open(dirfd, reg->name, ".slots", O_RDWR | O_CREAT);
	if (fd < 0)
		return fd;
	err = vb_regfile_fill(fd, sizeof(struct vb_registry_file));
	base = err ? MAP_FAILED
		   : mmap(NULL, sizeof(struct vb_registry_file), PROT_READ | PROT_WRITE, MAP_SHARED,
			  fd, 0);
	if (!err && base == MAP_FAILED)
		err = -errno;
	close(fd);
	if (err)
		return err;
	madvise(base, sizeof(struct vb_registry_file), MADV_DONTFORK);
	reg->file = base;
	if (!atomic_compare_exchange_strong(&reg->file->magic, &none, MAGIC) && none != MAGIC)
		return -EPROTO;
	return 0;
}

/* Give up the slot; whoever finds no other slot taken removes the files. Unlocking
 * ours first: of two that leave at once the later sees nobody. */
static void leave_files(struct vb_registry *reg)
{
	int dirfd = open(reg->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	vb_regfile_unlock(reg->lock_fd, reg->slot, 1);
	if (dirfd < 0)
		return;
	if (!vb_regfile_lock(reg->lock_fd, 0, VB_SLOTS)) {
		vb_regfile_unlink(dirfd, reg->name, reg->lock_fd);
		if (reg->own_dir)
			rmdir(reg->dir);
	}
	close(dirfd);
}

static void leave(struct vb_registry *reg)
{
	if (!reg->left)
		leave_files(reg);
	close(reg->lock_fd);
	if (reg->file)
		munmap(reg->file, sizeof(*reg->file));
	reg->lock_fd = -1;
	reg->file = NULL;
}

static int enter(struct vb_registry *reg, int dirfd)
{
	int err = take_slot(reg, dirfd);

	if (err)
		return err;
	VB_STEP(SLOT_LOCKED);
	err = map_slots(reg, dirfd);
	if (err)
		leave(reg);
	return err;
}

int vb_registry_open(struct vb_registry *reg, const char *device)
{
	int err, first = -ENOENT;

	memset(reg, 0, sizeof(*reg));
	reg->lock_fd = -1;
	vb_regfile_name(device, reg->name, sizeof(reg->name));
	if (is_ours(reg->name))
		return -EBUSY;
	for (int n = 0; n < VB_RUNTIME_CANDIDATES; n++) {
		/* The last process of another adapter may remove the directory under us. */
		for (int tries = 0; tries < TRIES; tries++) {
			int dirfd = vb_runtime_open(n, 1, reg->dir, sizeof(reg->dir));

			if (dirfd < 0) {
				err = dirfd;
				break;
			}
			reg->own_dir = n > 0;
			vb_regfile_sweep(dirfd, reg->name, is_ours);
			err = enter(reg, dirfd);
			close(dirfd);
			if (err != -ENOENT)
				break;
		}
		if (!err) {
			reg->next = ours;
			ours = reg;
			return 0;
		}
		if (first == -ENOENT)
			first = err;
	}
	return first;
}

static void unlist(struct vb_registry *reg)
{
	struct vb_registry **at = &ours;

	while (*at && *at != reg)
		at = &(*at)->next;
	if (*at)
		*at = reg->next;
}

static void sign_off(struct vb_registry *reg)
{
	struct vb_registry_entry nobody = {.pid = 0, .pub_fd = -1, .mbx_fd = -1};

	for (uint32_t b = 0; b < VB_BLOCKS; b++) {
		uint64_t word = atomic_load_explicit(&reg->file->block[b], memory_order_relaxed);

		if ((uint32_t)word == reg->slot + 1)
			atomic_compare_exchange_strong(&reg->file->block[b], &word, 0);
	}
	vb_registry_publish(reg, &nobody);
}

void vb_registry_close(struct vb_registry *reg)
{
	if (reg->lock_fd < 0)
		return;
	if (!reg->left)
		sign_off(reg);
	unlist(reg);
	leave(reg);
}

void vb_registry_exit(struct vb_registry *reg)
{
	if (reg->lock_fd < 0 || reg->left)
		return;
	sign_off(reg);
	reg->left = true;
	leave_files(reg);
}

void vb_registry_drop_inherited(void)
{
	ours = NULL;
}

void vb_registry_forget(struct vb_registry *reg)
{
	unlist(reg);
	if (reg->lock_fd >= 0)
		close(reg->lock_fd);
	reg->lock_fd = -1;
	reg->file = NULL; /* not mapped in the child */
}

void vb_registry_publish(struct vb_registry *reg, const struct vb_registry_entry *entry)
{
	struct vb_registry_slot *slot = &reg->file->slot[reg->slot];
	uint64_t turn = atomic_load(&slot->turn) | 1; /* odd already: someone died here */

	atomic_store(&slot->turn, turn);
	memcpy(slot->id, entry->id, sizeof(slot->id));
	slot->pid = entry->pid;
	slot->pub_fd = entry->pub_fd;
	slot->mbx_fd = entry->mbx_fd;
	slot->uid = (uint32_t)geteuid();
	VB_STEP(SLOT_WRITTEN);
	atomic_store(&slot->turn, turn + 1);
}

int vb_registry_read(const struct vb_registry *reg, uint32_t number,
		     struct vb_registry_entry *entry)
{
	const struct vb_registry_slot *slot;
	static const uint8_t nobody[16];
	uint64_t turn;

	if (!reg->file || number >= VB_SLOTS)
		return -ENOENT;
	slot = &reg->file->slot[number];
	for (int tries = 0; tries < READ_TRIES; tries++) {
		turn = atomic_load(&slot->turn);
		if (!turn)
			return -ENOENT;
		if (turn & 1)
			continue;
		memcpy(entry->id, slot->id, sizeof(entry->id));
		entry->pid = slot->pid;
		entry->pub_fd = slot->pub_fd;
		entry->mbx_fd = slot->mbx_fd;
		atomic_thread_fence(memory_order_acquire);
		if (atomic_load(&slot->turn) == turn)
			return memcmp(entry->id, nobody, sizeof(nobody)) ? 0 : -ENOENT;
	}
	return -EAGAIN;
}

bool vb_registry_locked(const struct vb_registry *reg, uint32_t slot, pid_t *pid)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1};

	*pid = 0;
	if (reg->lock_fd < 0 || slot >= VB_SLOTS)
		return false;
	if (slot == reg->slot) {
		*pid = getpid();
		return true;
	}
	/* When in doubt it lives: taking over from the living is what must not be. */
	if (fcntl(reg->lock_fd, F_GETLK, &lock))
		return true;
	if (lock.l_type == F_UNLCK)
		return false;
	*pid = lock.l_pid > 0 ? lock.l_pid : 0;
	return true;
}

int vb_registry_block(const struct vb_registry *reg, uint32_t block, uint32_t *slot,
		      uint32_t *ordinal)
{
	uint64_t word;

	if (!reg->file || block >= VB_BLOCKS)
		return -ENOENT;
	word = atomic_load(&reg->file->block[block]);
	*slot = (uint32_t)word - 1;
	*ordinal = (uint32_t)(word >> 32);
	return (uint32_t)word && *slot < VB_SLOTS && *ordinal < VB_OWN_BLOCKS ? 0 : -ENOENT;
}

void vb_registry_set_block(struct vb_registry *reg, uint32_t block, uint32_t ordinal)
{
	if (reg->file && block < VB_BLOCKS)
		atomic_store(&reg->file->block[block], (uint64_t)ordinal << 32 | (reg->slot + 1));
}

static int sum_file(int fd, uint64_t sum[VB_COUNTERS])
{
	struct vb_registry_file *file;
	struct stat st;

	if (fstat(fd, &st) || (uint64_t)st.st_size < sizeof(*file))
		return -ENOENT;
	file = mmap(NULL, sizeof(*file), PROT_READ, MAP_SHARED, fd, 0);
	if (file == MAP_FAILED)
		return -errno;
	for (uint32_t s = 0; s < VB_SLOTS; s++)
		for (uint32_t c = 0; c < VB_COUNTERS; c++)
			sum[c] += atomic_load_explicit(&file->slot[s].counters[c],
						       memory_order_relaxed);
	munmap(file, sizeof(*file));
	return 0;
}

int vb_registry_sum_counters(const char *device, uint64_t sum[VB_COUNTERS])
{
	char name[sizeof(((struct vb_registry *)0)->name)], dir[256];
	int found = -ENOENT;

	memset(sum, 0, VB_COUNTERS * sizeof(*sum));
	vb_regfile_name(device, name, sizeof(name));
	for (int n = 0; n < VB_RUNTIME_CANDIDATES; n++) {
		int fd, dirfd = vb_runtime_open(n, 0, dir, sizeof(dir));

		if (dirfd < 0)
			continue;
		fd = vb_regfile_open(dirfd, name, ".slots", O_RDONLY);
		close(dirfd);
		if (fd < 0)
			continue;
		if (!sum_file(fd, sum))
			found = 0;
		close(fd);
	}
	return found;
}

#define BLOCK_NAME "verbena/block/%u"

socklen_t vb_block_address(uint32_t block, struct sockaddr_un *address)
{
	int len;

	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	len = snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, BLOCK_NAME, block);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

uint32_t vb_block_of_address(const struct sockaddr_un *address, socklen_t len)
{
	const size_t begin = offsetof(struct sockaddr_un, sun_path) + 1;
	char name[sizeof(address->sun_path)] = "";
	uint32_t block;
	int end = 0;

	if (len > begin && len - begin < sizeof(name))
		memcpy(name, address->sun_path + 1, len - begin);
	return sscanf(name, BLOCK_NAME "/%n", &block, &end) == 1 && end && block < VB_BLOCKS ? block
											     : 0;
}

bool vb_block_taken(uint32_t block)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un address;
	socklen_t len = vb_block_address(block, &address);
	bool taken = fd >= 0 && !connect(fd, (struct sockaddr *)&address, len);

	if (fd >= 0)
		close(fd);
	return taken;
}

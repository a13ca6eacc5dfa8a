/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/settings.h"
#include "base/step.h"
#include "host/liveness.h"
#include "host/memory_paths.h"
#include "object/keys.h"

#define KEY_TRIES 64
#define IOVS	  64

static const char *const step_names[] = {"own", "mapped", "scatter", "cross", "procmem", "wire"};
_Static_assert(sizeof(step_names) / sizeof(step_names[0]) == VB_MEM_STEPS + 1, "a name a step");

const char *vb_memory_step_name(enum vb_mem_step step)
{
	return (unsigned int)step <= VB_MEM_NONE ? step_names[step] : "?";
}

/* VERBENA_MEMORY as a set of steps; a word that is not known forbids nothing more. */
static unsigned int parse_steps(const char *text)
{
	unsigned int set = 0;

	while (*text) {
		size_t len = strcspn(text, ", ");

		for (unsigned int step = 0; step < VB_MEM_STEPS; step++)
			if (strlen(step_names[step]) == len &&
			    !strncmp(text, step_names[step], len))
				set |= 1u << step;
		if (len == 3 && !strncmp(text, "all", len))
			set |= (1u << VB_MEM_STEPS) - 1;
		text += len + (text[len] != 0);
	}
	return set;
}

bool vb_memory_allowed(enum vb_mem_step step)
{
	static _Atomic unsigned int cached; /* bit 31: read */
	unsigned int set = atomic_load_explicit(&cached, memory_order_relaxed);

	if (!set) {
		const char *text = vb_setting("MEMORY");

		set = 1u << 31 | (text ? parse_steps(text) : (1u << VB_MEM_STEPS) - 1);
		atomic_store_explicit(&cached, set, memory_order_relaxed);
	}
	return (unsigned int)step < VB_MEM_STEPS && set >> step & 1;
}

int vb_memory_key(struct vb_peer *p, uint32_t number, struct vb_key_facts *facts)
{
	const struct vb_pub_key *row = vb_peer_pub_key(p, number);
	uint64_t word;

	if (!row)
		return -ENOENT;
	memset(facts, 0, sizeof(*facts));
	facts->row_word = &row->word;
	facts->number = number;
	for (int tries = 0; tries < KEY_TRIES; tries++) {
		word = atomic_load(&row->word);
		if (!(word & 1))
			return -ENOENT;
		facts->word = word;
		facts->lkey = row->lkey;
		facts->rkey = row->rkey;
		facts->pd = row->pd;
		facts->access = row->access;
		facts->iova = row->iova;
		facts->length = row->length;
		facts->addr = row->addr;
		facts->memory = row->memory;
		facts->file_fd = row->file_fd;
		facts->file_path = row->file_path;
		facts->file_dev = row->file_dev;
		facts->file_ino = row->file_ino;
		facts->file_offset = row->file_offset;
		atomic_thread_fence(memory_order_acquire);
		if (atomic_load(&row->word) == word)
			return 0;
	}
	return -EAGAIN;
}

static bool within(const struct vb_key_facts *key, uint64_t addr, uint64_t len)
{
	return addr >= key->addr && len <= key->length && addr - key->addr <= key->length - len;
}

bool vb_memory_still(const struct vb_key_facts *key)
{
	if (key->row_word && atomic_load(key->row_word) != key->word)
		return false;
	return !key->still || key->still(key->still_arg);
}

/* What null spans are replaced by, a piece at a time: zeroes, and a place to write to. */
#define NULL_BYTES 4096u

/* A place in a list of spans. */
struct cursor {
	const struct iovec *iov;
	int n;
	size_t done; /* bytes of *iov that are behind us */
	void *nothing;
};

/* The next at most @most bytes as spans; returns how many spans. */
static int next_spans(struct cursor *at, size_t most, struct iovec *out, size_t *bytes)
{
	int count = 0;

	*bytes = 0;
	while (at->n > 0 && count < IOVS && *bytes < most) {
		size_t len = at->iov->iov_len - at->done;

		if (len > most - *bytes)
			len = most - *bytes;
		if (at->iov->iov_base == VB_NULL_BASE && len > NULL_BYTES)
			len = NULL_BYTES;
		if (len) {
			out[count].iov_base = at->iov->iov_base == VB_NULL_BASE
						      ? at->nothing
						      : (uint8_t *)at->iov->iov_base + at->done;
			out[count++].iov_len = len;
			*bytes += len;
			at->done += len;
		}
		if (at->done == at->iov->iov_len) {
			at->iov++;
			at->n--;
			at->done = 0;
		}
	}
	return count;
}

static void copy_here(uint8_t *remote, const struct iovec *iov, int n, bool in)
{
	for (int i = 0; i < n; i++) {
		if (in)
			memcpy(remote, iov[i].iov_base, iov[i].iov_len);
		else
			memcpy(iov[i].iov_base, remote, iov[i].iov_len);
		remote += iov[i].iov_len;
	}
}

static int copy_chunk(struct vb_peer *p, const struct vb_path *path, bool careful, uint64_t addr,
		      const struct iovec *iov, int n, size_t bytes, bool in)
{
	if (path->base && careful)
		return vb_careful_copy(path->base + (addr - path->addr), iov, n, bytes, in);
	if (path->base) {
		copy_here(path->base + (addr - path->addr), iov, n, in);
		return 0;
	}
	return vb_cross_copy(p, addr, iov, n, bytes, in);
}

static int copy(struct vb_peer *p, const struct vb_key_facts *key, uint64_t addr,
		const struct iovec *local, int n, size_t len, bool in)
{
	static const uint8_t zeroes[NULL_BYTES];
	uint8_t swallow[NULL_BYTES];
	struct cursor at = {local, n, 0, in ? (void *)(uintptr_t)zeroes : swallow};
	bool careful = key->careful || key->access & IBV_ACCESS_ON_DEMAND;
	struct iovec spans[IOVS];
	struct vb_path path;
	size_t bytes;
	int count, err;

	if (!within(key, addr, len))
		return -ERANGE;
	if (!len || key->access & VB_KEY_NULL)
		return 0;
	err = vb_path_open(p, key, in, &path);
	while (!err && len) {
		if (!vb_memory_still(key)) {
			err = -ECANCELED;
			break;
		}
		count = next_spans(&at, len < VB_MEMORY_CHUNK ? len : VB_MEMORY_CHUNK, spans,
				   &bytes);
		if (!count) {
			err = -EINVAL; /* the spans are shorter than @len: the caller's mistake */
			break;
		}
		err = copy_chunk(p, &path, careful, addr, spans, count, bytes, in);
		addr += bytes;
		len -= bytes;
		VB_STEP(ACCESS_CHUNK);
	}
	vb_path_close(p, &path);
	return err;
}

int vb_memory_copy_in(struct vb_peer *p, const struct vb_key_facts *key, uint64_t addr,
		      const struct iovec *local, int n, size_t len)
{
	return copy(p, key, addr, local, n, len, true);
}

int vb_memory_copy_out(struct vb_peer *p, const struct vb_key_facts *key, uint64_t addr,
		       const struct iovec *local, int n, size_t len)
{
	return copy(p, key, addr, local, n, len, false);
}

enum vb_mem_step vb_memory_step(struct vb_peer *p, const struct vb_key_facts *key, const char **why)
{
	struct vb_path path;
	uint8_t byte;
	struct iovec iov = {&byte, 1};
	enum vb_mem_step step = VB_MEM_NONE;
	const char *text = "no step of the ladder leads to the process's memory";
	int err = vb_path_open(p, key, false, &path);

	if (!err && !path.base && key->length)
		err = vb_cross_copy(p, key->addr, &iov, 1, 1, false);
	if (!err)
		step = path.base ? path.step : vb_cross_step(p);
	else if (err == -EREMOTEIO)
		text = "the process has unmapped what it registered";
	else if (err == -ESRCH)
		text = "the process is dead";
	if (step == VB_MEM_OWN)
		text = "the memory is this process's own";
	else if (step == VB_MEM_MAPPED)
		text = "the memory is a sealed memory file, mapped here too";
	else if (step == VB_MEM_CROSS)
		text = "the kernel copies between the processes";
	else if (step == VB_MEM_CROSS_PROC_MEM)
		text = "process_vm_readv is forbidden or switched off; /proc/PID/mem is not";
	if (!err)
		vb_path_close(p, &path);
	if (why)
		*why = text;
	return step;
}

void vb_memory_advance(struct iovec **iov, int *n, uint64_t bytes)
{
	while (*n && bytes >= (*iov)->iov_len) {
		bytes -= (*iov)->iov_len;
		(*iov)++;
		(*n)--;
	}
	if (*n) {
		if ((*iov)->iov_base != VB_NULL_BASE)
			(*iov)->iov_base = (uint8_t *)(*iov)->iov_base + bytes;
		(*iov)->iov_len -= bytes;
	}
}

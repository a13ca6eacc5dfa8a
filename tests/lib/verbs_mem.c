/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of the pair's tests: where it lies, patterns, guards. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/child.h"
#include "lib/verbs_pair.h"

#define GUARD_BYTE 0xee

/* One payload at a time may be static, and one may be on the stack: the frame of
 * main, which stays. What does not fit comes from an anonymous mapping. */
#define SPECIAL_BYTES (2u << 20)
static uint8_t static_bytes[SPECIAL_BYTES];
static bool static_used;

static uint8_t *stack_bytes;
static bool stack_used;

void pair_stack(uint8_t *frame)
{
	stack_bytes = frame;
}

uint8_t pattern_byte(int seed, uint64_t i)
{
	return (uint8_t)((unsigned)seed * 131u + i * 7u + (i >> 8) * 13u + (i >> 16) * 29u);
}

static void *map_memory(struct test_mem *mem, size_t bytes)
{
	int fd = -1;
	void *map;

	if (mem->kind == MEM_SHARED) {
		fd = memfd_create("pair", MFD_CLOEXEC);
		CHECK(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
	}
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		   fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
	CHECK(map != MAP_FAILED);
	if (fd >= 0)
		close(fd);
	return map;
}

/* A place with room for guards around the payload. */
static uint8_t *place(struct test_mem *mem)
{
	size_t bytes = mem->length + 2 * PAIR_GUARD;

	if (mem->kind == MEM_STATIC && (static_used || bytes > sizeof(static_bytes)))
		mem->kind = MEM_ANON;
	if (mem->kind == MEM_STACK && (stack_used || bytes > PAIR_STACK_BYTES))
		mem->kind = MEM_ANON;
	if (mem->kind == MEM_STATIC) {
		static_used = true;
		return static_bytes + PAIR_GUARD;
	}
	if (mem->kind == MEM_STACK) {
		stack_used = true;
		return stack_bytes + PAIR_GUARD;
	}
	mem->map_bytes = (bytes + 2 * 4096 + 4095) & ~4095ull;
	mem->map = map_memory(mem, mem->map_bytes);
	/* At a page's start, or off it by no power of two (8 for the atomics' sake). */
	return (uint8_t *)mem->map + 4096 + (mem->kind == MEM_ANON ? 24 : 0);
}

void mem_new(struct test_mem *mem, struct ibv_pd *pd, enum mem_kind kind, uint64_t length,
	     unsigned int access)
{
	memset(mem, 0, sizeof(*mem));
	mem->kind = kind;
	mem->length = length;
	mem->base = place(mem);
	memset(mem->base - PAIR_GUARD, GUARD_BYTE, PAIR_GUARD);
	memset(mem->base + length, GUARD_BYTE, PAIR_GUARD);
	memset(mem->base, PAIR_FILL, length);
	mem->mr = ibv_reg_mr(pd, mem->base, length, (int)access);
	CHECK(mem->mr);
	mem->start = access & IBV_ACCESS_ZERO_BASED ? 0 : (uintptr_t)mem->base;
}

void mem_free(struct test_mem *mem)
{
	if (mem->mr)
		CHECK(ibv_dereg_mr(mem->mr) == 0);
	if (mem->kind == MEM_STATIC)
		static_used = false;
	if (mem->kind == MEM_STACK)
		stack_used = false;
	if (mem->map)
		munmap(mem->map, mem->map_bytes);
	memset(mem, 0, sizeof(*mem));
}

/* A mapping behind the end of its file: not even the kernel can access it. */
void mem_hide(struct test_mem *mem)
{
	int fd = memfd_create("nothing", MFD_CLOEXEC);

	CHECK(mmap(mem->base, mem->length / 4096 * 4096, PROT_READ | PROT_WRITE,
		   MAP_SHARED | MAP_FIXED, fd, 0) == mem->base);
	close(fd);
}

void mem_fill(struct test_mem *mem, const struct span *spans, int n, int seed)
{
	uint64_t at = 0;

	memset(mem->base, PAIR_FILL, mem->length);
	for (int k = 0; k < n; k++)
		for (uint64_t i = 0; i < spans[k].len; i++)
			mem->base[spans[k].off + i] = pattern_byte(seed, at++);
}

static bool all_are(const uint8_t *bytes, uint64_t n, uint8_t value)
{
	return n == 0 || (bytes[0] == value && !memcmp(bytes, bytes + 1, n - 1));
}

bool mem_holds(const struct test_mem *mem, const struct span *spans, int n, int seed)
{
	uint64_t at = 0, end = 0;

	if (!all_are(mem->base - PAIR_GUARD, PAIR_GUARD, GUARD_BYTE) ||
	    !all_are(mem->base + mem->length, PAIR_GUARD, GUARD_BYTE))
		return false;
	for (int k = 0; k < n; k++) {
		if (!all_are(mem->base + end, spans[k].off - end, PAIR_FILL))
			return false;
		for (uint64_t i = 0; i < spans[k].len; i++)
			if (mem->base[spans[k].off + i] != pattern_byte(seed, at++))
				return false;
		end = spans[k].off + spans[k].len;
	}
	return all_are(mem->base + end, mem->length - end, PAIR_FILL);
}

void mem_sges(const struct test_mem *mem, const struct span *spans, int n, struct ibv_sge *sges)
{
	for (int k = 0; k < n; k++)
		sges[k] = (struct ibv_sge){.addr = mem->start + spans[k].off,
					   .length = (uint32_t)spans[k].len,
					   .lkey = mem->mr ? mem->mr->lkey : 0};
}

uint64_t split(struct span *spans, int n, uint64_t length)
{
	uint64_t off = 0, left = length;

	for (int k = 0; k < n; k++) {
		uint64_t part = k == n - 1 ? left : left / (uint64_t)(2 + k % 3);

		if (k % 5 == 3)
			part = 0; /* elements without a length are allowed */
		if (k == n - 1)
			part = left;
		spans[k] = (struct span){off, part};
		left -= part;
		off += part + 1 + (uint64_t)k % 11;
	}
	return off;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/segment.h"

#include <errno.h>
#include <sys/mman.h>

#include "unit/host/other.h"

static struct vb_part part;

/* The limit lies just above what is there: growing fails, nothing dies of SIGXFSZ. */
static int role_limited(void)
{
	struct rlimit limit = {1 << 20, 1 << 20};
	uint64_t got, sum = 0;

	if (setrlimit(RLIMIT_FSIZE, &limit) || vb_part_init(&part, "limited", 100000, true))
		return 1;
	while ((got = vb_part_alloc(&part, 10000, 64)))
		sum += 10000;
	if (sum < 700000 || sum > 1 << 20 || part.size > 1 << 20)
		return 2;
	/* What is free can be had again. */
	vb_part_free(&part, 100032, 10000, 64);
	if (vb_part_alloc(&part, 10000, 64) != 100032)
		return 3;
	vb_part_fini(&part);
	return 0;
}

static int role_little_address_space(void)
{
	struct rlimit limit = {100 << 20, 100 << 20};
	uint64_t got;
	void *base;

	if (setrlimit(RLIMIT_AS, &limit))
		return 1;
	base = vb_reserve(16ull << 30, 1 << 20, &got);
	if (!base || got > 100 << 20 || got < 1 << 20)
		return 2;
	munmap(base, got);
	if (vb_reserve(16ull << 30, 200 << 20, &got))
		return 3;
	return 0;
}

const struct role roles[] = {
	{"limited", role_limited},
	{"little address space", role_little_address_space},
	{NULL, NULL},
};

static void run(const char *role)
{
	struct other other = other_start(role, NULL);
	int status;

	waitpid(other.pid, &status, 0);
	close(other.fd);
	assert_int_equal(status, 0);
}

static void a_part_is_a_sealed_file(void **state)
{
	struct stat st;

	assert_int_equal(vb_part_init(&part, "part", 5000, true), 0);
	assert_true(fcntl(part.fd, F_GET_SEALS) & F_SEAL_SHRINK);
	assert_true(fcntl(part.fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(ftruncate(part.fd, 0), -1);
	/* Backed, all of it, and beyond the caller's part free. */
	assert_int_equal(fstat(part.fd, &st), 0);
	assert_true((uint64_t)st.st_size >= part.size && part.size >= 5000);
	assert_true(st.st_blocks * 512 >= (off_t)part.size);
	assert_true(vb_part_alloc(&part, 1, 64) >= 5000);
	vb_part_fini(&part);
	assert_int_equal(part.fd, -1);
}

static void a_private_part_works_the_same(void **state)
{
	uint64_t at;

	assert_int_equal(vb_part_init(&part, "part", 5000, false), 0);
	assert_int_equal(part.fd, -1);
	at = vb_part_alloc(&part, 3 << 20, 4096);
	assert_true(at && at % 4096 == 0);
	memset(part.base + at, 1, 3 << 20);
	vb_part_fini(&part);
}

static void pointers_stay_good_while_it_grows(void **state)
{
	uint64_t first, last = 0;

	assert_int_equal(vb_part_init(&part, "part", 64, true), 0);
	first = vb_part_alloc(&part, 8, 64);
	*(uint64_t *)(void *)(part.base + first) = 42;
	for (int i = 0; i < 300; i++) {
		last = vb_part_alloc(&part, 100000, 64);
		assert_true(last);
	}
	assert_true(part.size > 300 * 100000);
	assert_int_equal(*(uint64_t *)(void *)(part.base + first), 42);
	assert_int_equal(vb_part_alloc(&part, part.reserve, 64), 0);
	assert_int_equal(vb_part_alloc(&part, 0, 64), 0);
	assert_int_equal(vb_part_alloc(&part, 64, 8192), 0);
	vb_part_fini(&part);
}

/* What was used before is left to vb_part_alloc(), which zeroes it. */
static void fresh_space_is_nobodys(void **state)
{
	uint64_t used, fresh;

	assert_int_equal(vb_part_init(&part, "part", 64, true), 0);
	used = vb_part_alloc(&part, 1 << 20, 64);
	memset(part.base + used, 1, 1 << 20);
	vb_part_free(&part, used, 1 << 20, 64);
	fresh = vb_part_fresh(&part, 1 << 20);
	assert_true(fresh >= used + (1 << 20) && fresh % 64 == 0);
	for (uint32_t i = 0; i < 1 << 20; i++)
		assert_int_equal(part.base[fresh + i], 0);
	assert_int_equal(vb_part_alloc(&part, 1 << 20, 64), used);
	assert_int_equal(vb_part_fresh(&part, part.reserve), 0);
	assert_int_equal(vb_part_fresh(&part, 0), 0);
	vb_part_fini(&part);
}

static void sizes_of_every_kind(void **state)
{
	assert_int_equal(vb_part_init(&part, "part", 64, true), 0);
	for (uint64_t bytes = 1; bytes < (64u << 20); bytes += bytes / 3 + 1) {
		uint64_t one = vb_part_alloc(&part, bytes, 64);
		uint64_t two = vb_part_alloc(&part, bytes, 64);

		assert_true(one && two >= one + bytes);
		/* At most an eighth is lost, from a page on. */
		if (bytes > 4096)
			assert_true(two - one <= bytes + bytes / 8 + 64);
		vb_part_free(&part, one, bytes, 64);
		vb_part_free(&part, two, bytes, 64);
		assert_int_equal(vb_part_alloc(&part, bytes, 64), two);
		assert_int_equal(vb_part_alloc(&part, bytes, 64), one);
	}
	vb_part_fini(&part);
}

static void limits_of_files_and_of_addresses(void **state)
{
	run("limited");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	run("little address space");
#endif
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_part_is_a_sealed_file),
		cmocka_unit_test(a_private_part_works_the_same),
		cmocka_unit_test(pointers_stay_good_while_it_grows),
		cmocka_unit_test(fresh_space_is_nobodys),
		cmocka_unit_test(sizes_of_every_kind),
		cmocka_unit_test(limits_of_files_and_of_addresses),
	};

	other_main(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/regmem.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "host/mappings.h"
#include "unit/host/other.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

#define PAGE 4096ul

static uint8_t *map(size_t pages, int prot, int flags, int fd)
{
	void *mem = mmap(NULL, pages * PAGE, prot, flags, fd, 0);

	assert_ptr_not_equal(mem, MAP_FAILED);
	return mem;
}

static size_t resident(uint8_t *mem, size_t pages)
{
	unsigned char vec[512];
	size_t n = 0;

	assert_int_equal(mincore(mem, pages * PAGE, vec), 0);
	for (size_t i = 0; i < pages; i++)
		n += vec[i] & 1;
	return n;
}

static void memory_is_populated(void **state)
{
	uint8_t *mem = map(64, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	madvise(mem, 64 * PAGE, MADV_NOHUGEPAGE);
	assert_int_equal(resident(mem, 64), 0);
	/* From the last byte of page 2 to the first of page 10. */
	assert_int_equal(vb_regmem_check(mem + 3 * PAGE - 1, 7 * PAGE + 2, true), 0);
	assert_int_equal(resident(mem, 64), 9);
	assert_int_equal(vb_regmem_check(mem, 64 * PAGE, false), 0);
	assert_int_equal(vb_regmem_check(mem, 0, true), 0);
	munmap(mem, 64 * PAGE);
}

static void what_cannot_be_registered(void **state)
{
	uint8_t *mem = map(16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	assert_int_equal(vb_regmem_check(mem, SIZE_MAX, true), -EINVAL);
	assert_int_equal(vb_regmem_check((void *)(UINTPTR_MAX - 10), 11, true), -EINVAL);
	assert_int_equal(vb_regmem_check(NULL, 100, false), -EFAULT);
	munmap(mem + 8 * PAGE, PAGE);
	assert_int_equal(vb_regmem_check(mem, 16 * PAGE, true), -EFAULT);
	assert_int_equal(vb_regmem_check(mem, 8 * PAGE, true), 0);
	assert_int_equal(vb_regmem_check(mem, 8 * PAGE + 1, true), -EFAULT);
	mprotect(mem, PAGE, PROT_READ);
	assert_int_equal(vb_regmem_check(mem, 2 * PAGE, true), -EFAULT);
	assert_int_equal(vb_regmem_check(mem, 2 * PAGE, false), 0);
	mprotect(mem, PAGE, PROT_NONE);
	assert_int_equal(vb_regmem_check(mem, PAGE, false), -EFAULT);
	munmap(mem, 16 * PAGE);
}

/* Behind the end of a file an access raises SIGBUS. */
static void beyond_the_end_of_a_file(void **state)
{
	int fd = memfd_create("end", MFD_CLOEXEC);
	uint8_t *mem;

	assert_int_equal(ftruncate(fd, PAGE), 0);
	mem = map(4, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
	assert_int_equal(vb_regmem_check(mem, PAGE, true), 0);
	assert_int_equal(vb_regmem_check(mem, 2 * PAGE, true), -EFAULT);
	munmap(mem, 4 * PAGE);
	close(fd);
}

/* Older kernels do not know MADV_POPULATE: the same answers are found another way. */
static int role_old_kernel(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, MADV_POPULATE_READ, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {sizeof(filter) / sizeof(filter[0]), filter};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_is_populated),
		cmocka_unit_test(what_cannot_be_registered),
		cmocka_unit_test(beyond_the_end_of_a_file),
	};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog))
		return 77;
	return cmocka_run_group_tests_name("old kernel", tests, NULL, NULL);
}

const struct role roles[] = {
	{"old kernel", role_old_kernel},
	{NULL, NULL},
};

static void without_populate(void **state)
{
	struct other other = other_start("old kernel", NULL);
	int status;

	waitpid(other.pid, &status, 0);
	close(other.fd);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(status, 0);
}

static void ordinary_memory_has_no_backing(void **state)
{
	uint8_t *mem = map(4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	struct vb_backing b;

	assert_int_equal(vb_regmem_backing(mem, 4 * PAGE, &b), 0);
	assert_false(b.shared || b.mappable || b.huge);
	assert_int_equal(b.fd, -1);
	assert_int_equal(vb_regmem_backing(&b, 8, &b), 0);
	assert_false(b.shared);
	munmap(mem, 4 * PAGE);
	assert_int_equal(vb_regmem_backing(mem, 4 * PAGE, &b), -EFAULT);
}

static void a_memory_file_is_found(void **state)
{
	int fd = memfd_create("found", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct vb_backing b;
	uint8_t *mem;

	assert_int_equal(ftruncate(fd, 16 * PAGE), 0);
	mem = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 2 * PAGE);
	assert_int_equal(vb_regmem_backing(mem + 100, 5 * PAGE, &b), 0);
	assert_true(b.shared);
	assert_false(b.mappable); /* it could shrink */
	assert_int_equal(b.fd, fd);
	assert_int_equal(b.offset, 2 * PAGE + 100);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	assert_int_equal(vb_regmem_backing(mem + 100, 5 * PAGE, &b), 0);
	assert_true(b.mappable);
	/* Cut by a change of rights it still is one file in a row. */
	mprotect(mem + 3 * PAGE, PAGE, PROT_READ);
	assert_int_equal(vb_regmem_backing(mem, 8 * PAGE, &b), 0);
	assert_true(b.shared && b.mappable);
	/* Out of order it is not. */
	assert_ptr_equal(mmap(mem + 3 * PAGE, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0),
			 mem + 3 * PAGE);
	assert_int_equal(vb_regmem_backing(mem, 8 * PAGE, &b), 0);
	assert_false(b.shared);
	/* A private mapping of the file is ordinary memory. */
	assert_ptr_equal(mmap(mem, 8 * PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0), mem);
	assert_int_equal(vb_regmem_backing(mem, 8 * PAGE, &b), 0);
	assert_false(b.shared);
	munmap(mem, 8 * PAGE);
	close(fd);
}

static void nobody_can_open_what_has_no_descriptor(void **state)
{
	struct vb_backing b;
	uint8_t *mem = map(2, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);

	assert_int_equal(vb_regmem_backing(mem, 2 * PAGE, &b), 0);
	assert_false(b.mappable);
	assert_int_equal(b.fd, -1);
	munmap(mem, 2 * PAGE);
}

static void a_file_in_shared_memory_has_a_path(void **state)
{
	char path[] = "/dev/shm/verbena-regmem-XXXXXX";
	struct vb_backing b;
	uint8_t *mem;
	int fd = mkstemp(path);

	if (fd < 0)
		skip();
	assert_int_equal(ftruncate(fd, 2 * PAGE), 0);
	mem = map(2, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
	close(fd);
	assert_int_equal(vb_regmem_backing(mem, 2 * PAGE, &b), 0);
	assert_true(b.shared);
	assert_false(b.mappable);
	assert_string_equal(b.path, path);
	unlink(path);
	assert_int_equal(vb_regmem_backing(mem, 2 * PAGE, &b), 0);
	assert_string_equal(b.path, "");
	munmap(mem, 2 * PAGE);
}

/* The query and the list say the same of every mapping there is. */
static void both_ways_to_ask_agree(void **state)
{
	struct vb_mappings query, list;
	struct vb_mapping a, b;
	uint64_t at = 0;
	int n = 0;

	assert_int_equal(vb_mappings_open(&list), 0);
	list.text = fdopen(list.fd, "re");
	assert_non_null(list.text);
	assert_int_equal(vb_mappings_find(&list, 4096, &b), -EFAULT);
	while (at < UINT64_MAX - 1 && list.last.end) {
		assert_int_equal(vb_mappings_find(&list, list.last.start, &b), 0);
		assert_int_equal(vb_mappings_open(&query), 0);
		if (b.name[0] == '/' && !vb_mappings_find(&query, b.start, &a)) {
			assert_int_equal(a.start, b.start);
			assert_int_equal(a.end, b.end);
			assert_int_equal(a.offset, b.offset);
			assert_int_equal(a.ino, b.ino);
			assert_int_equal(a.dev, b.dev);
			assert_int_equal(a.read, b.read);
			assert_int_equal(a.write, b.write);
			assert_int_equal(a.shared, b.shared);
			assert_string_equal(a.name, b.name);
			n++;
		}
		vb_mappings_close(&query);
		at = b.end;
		if (vb_mappings_find(&list, at, &b) && list.last.end <= at)
			break;
	}
	assert_true(n > 4);
	vb_mappings_close(&list);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_is_populated),
		cmocka_unit_test(what_cannot_be_registered),
		cmocka_unit_test(beyond_the_end_of_a_file),
		cmocka_unit_test(without_populate),
		cmocka_unit_test(ordinary_memory_has_no_backing),
		cmocka_unit_test(a_memory_file_is_found),
		cmocka_unit_test(nobody_can_open_what_has_no_descriptor),
		cmocka_unit_test(a_file_in_shared_memory_has_a_path),
		cmocka_unit_test(both_ways_to_ask_agree),
	};

	other_main(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/memory_paths.h"
#include "lib/child.h"
#include "object/keys.h"

#define BYTES 200000u

static uint8_t *map(int prot)
{
	uint8_t *addr = mmap(NULL, BYTES, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(addr != MAP_FAILED);
	return addr;
}

static void check_copies(void *arg)
{
	uint8_t *a = map(PROT_READ | PROT_WRITE), *b = map(PROT_READ | PROT_WRITE);
	uint8_t *none = map(PROT_NONE), *constant = map(PROT_READ);
	struct iovec two[] = {{a + 1, 10}, {a + 11, BYTES - 11}}, missing = {none, BYTES};
	struct iovec fixed = {constant, 8}, null = {VB_NULL_BASE, 8};

	memset(a, 7, BYTES);
	CHECK(vb_careful_copy(b, two, 2, BYTES - 1, true) == 0);
	CHECK(!memcmp(a + 1, b, BYTES - 1) && b[BYTES - 1] == 0);
	memset(b, 9, BYTES);
	CHECK(vb_careful_copy(b, two, 2, 12, false) == 0);
	CHECK(a[0] == 7 && a[1] == 9 && a[12] == 9 && a[13] == 7);
	/* The spans, and the other side, reading and writing. */
	CHECK(vb_careful_copy(b, &missing, 1, 8, true) == -EFAULT);
	CHECK(vb_careful_copy(b, &missing, 1, 8, false) == -EFAULT);
	CHECK(vb_careful_copy(none, two, 2, 8, true) == -EREMOTEIO);
	CHECK(vb_careful_copy(none, two, 2, 8, false) == -EREMOTEIO);
	CHECK(vb_careful_copy(b, &fixed, 1, 8, false) == -EFAULT);
	CHECK(vb_careful_copy(constant, &fixed, 1, 8, true) == -EREMOTEIO);
	/* Half of it is there. */
	CHECK(mprotect(b + 8192, 4096, PROT_NONE) == 0);
	CHECK(vb_careful_copy(b, two, 2, 50000, true) == -EREMOTEIO);
	CHECK(vb_memory_gather(a, &missing, 1, 8, true) == -EFAULT);
	CHECK(vb_memory_scatter(&missing, 1, a, 8, true) == -EFAULT);
	a[0] = 1;
	CHECK(vb_memory_gather(a, &null, 1, 8, true) == 0 && a[0] == 0 && a[7] == 0);
	CHECK(vb_memory_scatter(&null, 1, a, 10, true) == 2);
}

/* The same where a filter forbids the two system calls. */
static void check_filtered(void *arg)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
	check_copies(NULL);
}

static void test_copies(void **state)
{
	assert_int_equal(run_in_child(check_copies, NULL), 0);
}

static void test_filtered(void **state)
{
	assert_int_equal(run_in_child(check_filtered, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_copies),
		cmocka_unit_test(test_filtered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

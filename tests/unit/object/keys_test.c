/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "object/keys.h"

#define BLOCK	       5u
#define LKEY(low, tag) ((BLOCK << 12 | (low)) << 8 | (tag))
#define RIGHTS	       (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static struct vb_keys keys;

static int add(uint32_t low, uint32_t tag, uint32_t access)
{
	struct vb_local_key key = {.lkey = LKEY(low, tag),
				   .pd = 3,
				   .access = access,
				   .start = 0x1000,
				   .length = 0x100,
				   .addr = 0x7000};

	return vb_keys_set(&keys, BLOCK << 12 | low, low, &key);
}

static int clean(void **state)
{
	vb_keys_free(&keys);
	memset(&keys, 0, sizeof(keys));
	return 0;
}

static void test_lookup(void **state)
{
	assert_null(vb_keys_lookup(&keys, LKEY(7, 1)));
	assert_int_equal(add(7, 1, RIGHTS), 0);
	assert_non_null(vb_keys_lookup(&keys, LKEY(7, 1)));
	assert_int_equal(vb_keys_lookup(&keys, LKEY(7, 1))->addr, 0x7000);
	/* Another tag, row, block; 0; an rkey. */
	assert_null(vb_keys_lookup(&keys, LKEY(7, 2)));
	assert_null(vb_keys_lookup(&keys, LKEY(8, 1)));
	assert_null(vb_keys_lookup(&keys, LKEY(7, 1) + (1u << 20)));
	assert_null(vb_keys_lookup(&keys, 0));
	assert_null(vb_keys_lookup(&keys, UINT32_MAX));
	assert_null(vb_keys_lookup(&keys, LKEY(7, 1) | VB_RKEY_TAG));
	vb_keys_clear(&keys, 7);
	assert_null(vb_keys_lookup(&keys, LKEY(7, 1)));
	assert_int_equal(add(7, 2, RIGHTS), 0);
	assert_null(vb_keys_lookup(&keys, LKEY(7, 1)));
	assert_non_null(vb_keys_lookup(&keys, LKEY(7, 2)));
	vb_keys_clear(&keys, VB_KEYS_MAX); /* none, and no harm */
}

/* A row of a second block of this process. */
static void test_second_block(void **state)
{
	struct vb_local_key key = {.lkey = (9u << 12 | 1) << 8 | 4, .length = 8};

	assert_int_equal(add(1, 4, 0), 0);
	assert_int_equal(vb_keys_set(&keys, 9u << 12 | 1, 1u << 12 | 1, &key), 0);
	assert_non_null(vb_keys_lookup(&keys, key.lkey));
	assert_non_null(vb_keys_lookup(&keys, LKEY(1, 4)));
	assert_ptr_not_equal(vb_keys_lookup(&keys, key.lkey), vb_keys_lookup(&keys, LKEY(1, 4)));
}

static enum vb_sge_fault resolve(uint64_t addr, uint32_t length, uint32_t lkey, uint32_t pd,
				 int write, struct iovec *iov)
{
	struct ibv_sge sge = {addr, length, lkey};
	int count = -1, bad = -1;
	enum vb_sge_fault fault = vb_keys_resolve(&keys, pd, &sge, 1, write, iov, &count, &bad);

	assert_int_equal(fault ? bad : count, fault ? 0 : 1);
	return fault;
}

static void test_faults(void **state)
{
	struct iovec iov;

	assert_int_equal(add(7, 1, RIGHTS), 0);
	assert_int_equal(add(8, 1, 0), 0);
	assert_int_equal(resolve(0x1000, 0x100, LKEY(7, 1), 3, 1, &iov), VB_SGE_OK);
	assert_ptr_equal(iov.iov_base, (void *)0x7000);
	assert_int_equal(iov.iov_len, 0x100);
	assert_int_equal(resolve(0x10ff, 1, LKEY(7, 1), 3, 1, &iov), VB_SGE_OK);
	assert_ptr_equal(iov.iov_base, (void *)0x70ff);
	assert_int_equal(resolve(0x1000, 1, LKEY(9, 1), 3, 0, &iov), VB_SGE_KEY);
	assert_int_equal(resolve(0x1000, 1, LKEY(7, 1) | VB_RKEY_TAG, 3, 0, &iov), VB_SGE_RKEY);
	assert_int_equal(resolve(0x1000, 1, LKEY(7, 1), 4, 0, &iov), VB_SGE_PD);
	assert_int_equal(resolve(0x1000, 1, LKEY(8, 1), 3, 0, &iov), VB_SGE_OK);
	assert_int_equal(resolve(0x1000, 1, LKEY(8, 1), 3, 1, &iov), VB_SGE_RIGHT);
	assert_int_equal(resolve(0xfff, 1, LKEY(7, 1), 3, 0, &iov), VB_SGE_RANGE);
	assert_int_equal(resolve(0xfff, 0x101, LKEY(7, 1), 3, 0, &iov), VB_SGE_RANGE);
	assert_int_equal(resolve(0x1000, 0x101, LKEY(7, 1), 3, 0, &iov), VB_SGE_RANGE);
	assert_int_equal(resolve(0x1100, 1, LKEY(7, 1), 3, 0, &iov), VB_SGE_RANGE);
	assert_int_equal(resolve(UINT64_MAX, 2, LKEY(7, 1), 3, 0, &iov), VB_SGE_RANGE);
	assert_int_equal(resolve(0x1001, UINT32_MAX, LKEY(7, 1), 3, 0, &iov), VB_SGE_RANGE);
}

static void test_lists(void **state)
{
	struct ibv_sge sges[4] = {{0x1000, 8, LKEY(7, 1)},
				  {99, 0, 0xbad}, /* not looked at */
				  {0x1010, 4, LKEY(7, 1)},
				  {0x1100, 1, LKEY(7, 1)}};
	struct iovec iov[4];
	int count = 0, bad = 0;

	assert_int_equal(add(7, 1, RIGHTS), 0);
	assert_int_equal(vb_keys_resolve(&keys, 3, sges, 3, 1, iov, &count, &bad), VB_SGE_OK);
	assert_int_equal(count, 2);
	assert_ptr_equal(iov[1].iov_base, (void *)0x7010);
	assert_int_equal(vb_keys_resolve(&keys, 3, sges, 4, 1, iov, &count, &bad), VB_SGE_RANGE);
	assert_int_equal(bad, 3);
	assert_int_equal(vb_keys_resolve(&keys, 3, sges, 4, 1, iov, &count, NULL), VB_SGE_RANGE);
	assert_int_equal(vb_keys_resolve(&keys, 3, sges, 0, 1, iov, &count, NULL), VB_SGE_OK);
	assert_int_equal(count, 0);
}

static void test_texts(void **state)
{
	for (int i = VB_SGE_OK; i <= VB_SGE_RANGE; i++)
		for (int k = VB_SGE_OK; k < i; k++)
			assert_string_not_equal(vb_sge_fault_text((enum vb_sge_fault)i),
						vb_sge_fault_text((enum vb_sge_fault)k));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_lookup, clean),
		cmocka_unit_test_teardown(test_second_block, clean),
		cmocka_unit_test_teardown(test_faults, clean),
		cmocka_unit_test_teardown(test_lists, clean),
		cmocka_unit_test(test_texts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

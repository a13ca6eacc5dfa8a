/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "object/keys.h"

#define LOCAL  IBV_ACCESS_LOCAL_WRITE
#define NUMBER (7u << 12 | 5u)
#define LKEY   (NUMBER << 8 | 3u)

static int make(void **state)
{
	*state = calloc(1, sizeof(struct vb_keys));
	return *state ? 0 : -1;
}

static int drop(void **state)
{
	vb_keys_free(*state);
	free(*state);
	return 0;
}

/* A region of 100 bytes at 1000, called 5000, in PD 9. */
static void put(struct vb_keys *keys, uint32_t access)
{
	const struct vb_local_key key = {LKEY, 9, access, 5000, 100, 1000};

	assert_int_equal(vb_keys_set(keys, NUMBER, 5, &key), 0);
}

static enum vb_sge_fault resolve(struct vb_keys *keys, uint32_t pd, struct ibv_sge sge, int write,
				 struct iovec *iov)
{
	int count, bad = -1;
	enum vb_sge_fault fault = vb_keys_resolve(keys, pd, &sge, 1, write, iov, &count, &bad);

	assert_int_equal(fault ? bad : count, fault ? 0 : 1);
	return fault;
}

static void test_lookup(void **state)
{
	struct vb_keys *keys = *state;

	assert_null(vb_keys_lookup(keys, LKEY));
	put(keys, LOCAL);
	assert_non_null(vb_keys_lookup(keys, LKEY));
	assert_null(vb_keys_lookup(keys, 0));
	assert_null(vb_keys_lookup(keys, LKEY + 1));
	assert_null(vb_keys_lookup(keys, LKEY | VB_RKEY_TAG));
	assert_true(vb_keys_lookup_other_tag(keys, LKEY + 1));
	assert_true(vb_keys_lookup_other_tag(keys, LKEY | VB_RKEY_TAG));
	assert_false(vb_keys_lookup_other_tag(keys, LKEY + 256));
	vb_keys_clear(keys, 5);
	assert_null(vb_keys_lookup(keys, LKEY));
	assert_false(vb_keys_lookup_other_tag(keys, LKEY));
}

static void test_resolve(void **state)
{
	struct vb_keys *keys = *state;
	struct iovec iov;

	put(keys, 0);
	assert_int_equal(resolve(keys, 9, (struct ibv_sge){5010, 90, LKEY}, 0, &iov), VB_SGE_OK);
	assert_int_equal((uintptr_t)iov.iov_base, 1010);
	assert_int_equal(iov.iov_len, 90);
	assert_int_equal(resolve(keys, 9, (struct ibv_sge){5010, 91, LKEY}, 0, &iov), VB_SGE_RANGE);
	assert_int_equal(resolve(keys, 9, (struct ibv_sge){4999, 1, LKEY}, 0, &iov), VB_SGE_RANGE);
	assert_int_equal(resolve(keys, 9, (struct ibv_sge){UINT64_MAX, 2, LKEY}, 0, &iov),
			 VB_SGE_RANGE);
	assert_int_equal(resolve(keys, 9, (struct ibv_sge){5000, 1, LKEY}, 1, &iov), VB_SGE_RIGHT);
	assert_int_equal(resolve(keys, 8, (struct ibv_sge){5000, 1, LKEY}, 0, &iov), VB_SGE_PD);
	assert_int_equal(resolve(keys, 9, (struct ibv_sge){5000, 1, LKEY | VB_RKEY_TAG}, 0, &iov),
			 VB_SGE_RKEY);
	assert_int_equal(resolve(keys, 9, (struct ibv_sge){5000, 1, LKEY + 1}, 0, &iov),
			 VB_SGE_KEY);
}

/* Elements of no length are not looked at, whatever they name. */
static void test_empty_elements(void **state)
{
	const struct ibv_sge sges[] = {{1, 0, 0xdead}, {5000, 4, LKEY}, {2, 0, LKEY}};
	struct vb_keys *keys = *state;
	struct iovec iov[3];
	int count;

	put(keys, LOCAL);
	assert_int_equal(vb_keys_resolve(keys, 9, sges, 3, 1, iov, &count, NULL), VB_SGE_OK);
	assert_int_equal(count, 1);
	assert_int_equal((uintptr_t)iov[0].iov_base, 1000);
}

static void test_null_region(void **state)
{
	struct vb_keys *keys = *state;
	struct iovec iov;

	put(keys, LOCAL | VB_KEY_NULL);
	assert_int_equal(resolve(keys, 9, (struct ibv_sge){5050, 7, LKEY}, 1, &iov), VB_SGE_OK);
	assert_ptr_equal(iov.iov_base, VB_NULL_BASE);
	assert_int_equal(iov.iov_len, 7);
}

static void test_careful(void **state)
{
	const struct ibv_sge here = {5000, 4, LKEY}, empty = {5000, 0, LKEY};
	struct vb_keys *keys = *state;

	put(keys, LOCAL | IBV_ACCESS_ON_DEMAND);
	assert_false(vb_keys_careful(keys, &here, 1)); /* none counted, none looked for */
	atomic_store(&keys->on_demand, 1);
	assert_true(vb_keys_careful(keys, &here, 1));
	assert_false(vb_keys_careful(keys, &empty, 1));
	put(keys, LOCAL);
	assert_false(vb_keys_careful(keys, &here, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_lookup, make, drop),
		cmocka_unit_test_setup_teardown(test_resolve, make, drop),
		cmocka_unit_test_setup_teardown(test_empty_elements, make, drop),
		cmocka_unit_test_setup_teardown(test_null_region, make, drop),
		cmocka_unit_test_setup_teardown(test_careful, make, drop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <infiniband/verbs.h>

#include "lib/child.h"
#include "lib/rule.h"

/* In no public header, or newer than the installed one. */
int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
		       unsigned int *type);
int ibv_query_port_speed(struct ibv_context *context, uint32_t port_num, uint64_t *port_speed);
const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

#define GUARD 0xa5

static struct ibv_context *context;

static int open_context(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	ibv_free_device_list(list);
	return context ? 0 : -1;
}

static int close_context(void **state)
{
	return ibv_close_device(context);
}

/* Whether all bytes from @at to @end still hold what was there before. */
static bool untouched(const void *bytes, size_t at, size_t end)
{
	for (; at < end; at++)
		if (((const uint8_t *)bytes)[at] != GUARD)
			return false;
	return true;
}

static bool zero(const void *bytes, size_t at, size_t end)
{
	for (; at < end; at++)
		if (((const uint8_t *)bytes)[at])
			return false;
	return true;
}

static void test_query_device(void **state)
{
	uint8_t bytes[512];
	struct ibv_device_attr *attr = (void *)bytes;

	memset(bytes, GUARD, sizeof(bytes));
	assert_int_equal(ibv_query_device(context, attr), 0);
	assert_true(untouched(bytes, 232, sizeof(bytes)));
	assert_true(attr->node_guid == ibv_get_device_guid(context->device));
	assert_true(attr->sys_image_guid != 0);
	assert_int_equal(attr->phys_port_cnt, 1);
	assert_true(attr->max_qp > 0 && attr->max_cq > 0 && attr->max_mr > 0 && attr->max_pd > 0);
	assert_int_equal(attr->atomic_cap, IBV_ATOMIC_HCA);
}

/* Every size there has been, and one of the future. */
static void test_query_device_ex_sizes(void **state)
{
	static const size_t sizes[] = {232, 240, 344, 352, 376, 384, 392, 400, 480};
	struct verbs_context *vctx = verbs_get_ctx(context);
	struct ibv_device_attr_ex full;
	uint8_t bytes[512];

	assert_int_equal(ibv_query_device_ex(context, NULL, &full), 0);
	assert_int_equal(full.comp_mask, 0);
	assert_int_equal(full.phys_port_cnt_ex, 1);
	assert_true(full.completion_timestamp_mask != 0);
	assert_true(full.hca_core_clock != 0);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t same = sizes[i] < sizeof(full) ? sizes[i] : sizeof(full);

		memset(bytes, GUARD, sizeof(bytes));
		assert_int_equal(vctx->query_device_ex(context, NULL, (void *)bytes, sizes[i]), 0);
		assert_memory_equal(bytes, &full, same);
		assert_true(zero(bytes, same, sizes[i]));
		assert_true(untouched(bytes, sizes[i], sizeof(bytes)));
	}
}

static void test_query_device_input(void **state)
{
	struct verbs_context *vctx = verbs_get_ctx(context);
	struct ibv_query_device_ex_input input = {.comp_mask = 0};
	struct ibv_device_attr_ex attr;

	assert_int_equal(ibv_query_device_ex(context, &input, &attr), 0);
	input.comp_mask = 4;
	errno = 0;
	assert_int_equal(vctx->query_device_ex(context, &input, &attr, sizeof(attr)), EINVAL);
	assert_int_equal(errno, EINVAL);
	assert_true(rule_said("query-device-input"));
	assert_int_equal(ibv_query_device_ex(context, &input, &attr), EINVAL);
	assert_int_equal(vctx->query_device_ex(context, NULL, &attr, 231), EINVAL);
}

/* The slot takes a size; the exported function fills the 48 bytes of old. */
static void test_query_port_sizes(void **state)
{
	static const size_t sizes[] = {48, 52, 56, 80};
	int (*exported)(struct ibv_context *, uint8_t, void *) =
		dlsym(RTLD_DEFAULT, "ibv_query_port");
	struct verbs_context *vctx = verbs_get_ctx(context);
	uint8_t full[56], bytes[128];

	assert_int_equal(vctx->query_port(context, 1, (void *)full, sizeof(full)), 0);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t same = sizes[i] < sizeof(full) ? sizes[i] : sizeof(full);

		memset(bytes, GUARD, sizeof(bytes));
		assert_int_equal(vctx->query_port(context, 1, (void *)bytes, sizes[i]), 0);
		assert_memory_equal(bytes, full, same);
		assert_true(zero(bytes, same, sizes[i]));
		assert_true(untouched(bytes, sizes[i], sizeof(bytes)));
	}
	memset(bytes, GUARD, sizeof(bytes));
	assert_non_null(exported);
	assert_int_equal(exported(context, 1, bytes), 0);
	assert_memory_equal(bytes, full, 48);
	assert_true(untouched(bytes, 48, sizeof(bytes)));
}

static void test_query_port(void **state)
{
	struct ibv_port_attr port;
	uint64_t speed = 0;

	assert_int_equal(ibv_query_port(context, 1, &port), 0);
	assert_int_equal(port.link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_int_equal(port.lid, 0);
	assert_int_equal(port.sm_lid, 0);
	assert_int_equal(port.max_mtu, IBV_MTU_4096);
	assert_in_range(port.active_mtu, IBV_MTU_256, IBV_MTU_4096);
	assert_int_equal(port.port_cap_flags, 0x04010000);
	assert_int_equal(port.flags & 1, 1); /* a GRH is required */
	assert_int_equal(port.pkey_tbl_len, 1);
	assert_true(port.gid_tbl_len >= 2);
	assert_int_equal(ibv_query_port_speed(context, 1, &speed), 0);
	assert_true(speed >= 25);
}

static void test_port_range(void **state)
{
	static const uint8_t ports[] = {0, 2, 3, 255};
	struct ibv_port_attr port;
	union ibv_gid gid;
	uint64_t speed;
	__be16 pkey;

	for (size_t i = 0; i < sizeof(ports); i++) {
		errno = 0;
		assert_int_equal(ibv_query_port(context, ports[i], &port), EINVAL);
		assert_int_equal(errno, EINVAL);
		assert_true(rule_said("port-range"));
		assert_int_equal(ibv_query_gid(context, ports[i], 0, &gid), -1);
		assert_int_equal(ibv_query_pkey(context, ports[i], 0, &pkey), -1);
		assert_int_equal(ibv_get_pkey_index(context, ports[i], 0xffff), -1);
		assert_int_equal(ibv_query_port_speed(context, ports[i], &speed), EINVAL);
	}
}

static int table_len(void)
{
	struct ibv_port_attr port;

	assert_int_equal(ibv_query_port(context, 1, &port), 0);
	return port.gid_tbl_len;
}

/* The four ways to the table agree; every index can be read; no hole at the front. */
static void test_gids_agree(void **state)
{
	struct ibv_gid_entry table[256], entry;
	ssize_t used = ibv_query_gid_table(context, table, 256, 0);
	int len = table_len(), seen = 0;

	assert_true(used >= 1);
	for (int i = 0; i < len; i++) {
		union ibv_gid gid, none = {{0}};
		unsigned int type;
		int err;

		memset(&gid, GUARD, sizeof(gid));
		assert_int_equal(ibv_query_gid(context, 1, i, &gid), 0);
		assert_int_equal(ibv_query_gid_type(context, 1, (unsigned int)i, &type), 0);
		err = ibv_query_gid_ex(context, 1, (uint32_t)i, &entry, 0);
		if (!memcmp(&gid, &none, sizeof(gid))) {
			assert_int_not_equal(i, 0);
			assert_int_equal(err, ENODATA);
			assert_int_equal(errno, ENODATA);
			assert_int_equal(type, 0);
			continue;
		}
		assert_int_equal(err, 0);
		assert_memory_equal(&entry.gid, &gid, sizeof(gid));
		assert_int_equal(entry.gid_index, i);
		assert_int_equal(entry.port_num, 1);
		assert_int_equal(entry.gid_type, IBV_GID_TYPE_ROCE_V2);
		assert_int_equal(type, 1);
		assert_true(entry.ndev_ifindex > 0);
		assert_true(seen < used);
		assert_memory_equal(&table[seen], &entry, sizeof(entry));
		seen++;
	}
	assert_int_equal(seen, used);
	assert_true(rule_said("gid-empty"));
}

static void test_gid_refusals(void **state)
{
	struct ibv_gid_entry entry;
	union ibv_gid gid;
	unsigned int type;
	int len = table_len();

	errno = 0;
	assert_int_equal(ibv_query_gid(context, 1, len, &gid), -1);
	assert_int_equal(errno, EINVAL);
	assert_true(rule_said("gid-index"));
	assert_int_equal(ibv_query_gid(context, 1, -1, &gid), -1);
	assert_int_equal(ibv_query_gid_type(context, 1, (unsigned int)len, &type), -1);
	assert_int_equal(ibv_query_gid_ex(context, 1, (uint32_t)len, &entry, 0), EINVAL);
	assert_int_equal(ibv_query_gid_ex(context, 2, 0, &entry, 0), EINVAL);
	assert_int_equal(ibv_query_gid_ex(context, 257, 0, &entry, 0), EINVAL);
	assert_int_equal(ibv_query_gid_ex(context, 1, 0, &entry, 1), EINVAL);
	assert_true(rule_said("gid-flags"));
	assert_int_equal(ibv_query_gid_table(context, &entry, 1, 2), -EINVAL);
	assert_true(rule_said("gid-flags"));
	assert_int_equal(ibv_query_gid_table(context, &entry, 0, 0), -EINVAL);
	assert_true(rule_said("gid-table-small"));
}

/* The stride is the caller's. */
static void test_gid_table_stride(void **state)
{
	struct ibv_gid_entry table[256];
	ssize_t used = ibv_query_gid_table(context, table, 256, 0);
	uint8_t bytes[256 * 40];

	memset(bytes, GUARD, sizeof(bytes));
	assert_int_equal(_ibv_query_gid_table(context, (void *)bytes, 256, 0, 40), used);
	for (ssize_t i = 0; i < used; i++) {
		assert_memory_equal(bytes + i * 40, &table[i], 32);
		assert_true(zero(bytes + i * 40, 32, 40));
	}
	assert_true(untouched(bytes, (size_t)used * 40, sizeof(bytes)));
	memset(bytes, GUARD, sizeof(bytes));
	assert_int_equal(_ibv_query_gid_ex(context, 1, 0, (void *)bytes, 0, 20), 0);
	assert_memory_equal(bytes, &table[0], 20);
	assert_true(untouched(bytes, 20, sizeof(bytes)));
}

static void test_pkeys(void **state)
{
	__be16 pkey = 0;

	assert_int_equal(ibv_query_pkey(context, 1, 0, &pkey), 0);
	assert_int_equal(pkey, 0xffff);
	errno = 0;
	assert_int_equal(ibv_query_pkey(context, 1, 1, &pkey), -1);
	assert_int_equal(errno, EINVAL);
	assert_true(rule_said("pkey-index"));
	assert_int_equal(ibv_query_pkey(context, 1, -1, &pkey), -1);
	assert_int_equal(ibv_get_pkey_index(context, 1, 0xffff), 0);
	assert_int_equal(ibv_get_pkey_index(context, 1, htobe16(0x7fff)), -1);
	assert_true(rule_said("pkey-unknown"));
}

static int64_t clock_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void test_rt_values(void **state)
{
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
	int64_t before = clock_now();

	assert_int_equal(ibv_query_rt_values_ex(context, &values), 0);
	assert_int_equal(values.comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
	assert_int_equal(values.raw_clock.tv_sec, 0);
	assert_true(values.raw_clock.tv_nsec >= before && values.raw_clock.tv_nsec <= clock_now());
	values.comp_mask = 2 | IBV_VALUES_MASK_RAW_CLOCK;
	assert_int_equal(ibv_query_rt_values_ex(context, &values), EINVAL);
	assert_true(rule_said("comp-mask"));
}

static void put_file(const char *dir, const char *name, const char *text)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void test_read_sysfs_file(void **state)
{
	char dir[] = "/tmp/verbena-sysfs-XXXXXX";
	char buf[8], path[64];

	assert_non_null(mkdtemp(dir));
	put_file(dir, "f", "abc\n");
	assert_int_equal(ibv_read_sysfs_file(dir, "f", buf, sizeof(buf)), 3);
	assert_string_equal(buf, "abc");
	put_file(dir, "f", "a\n\n");
	assert_int_equal(ibv_read_sysfs_file(dir, "f", buf, sizeof(buf)), 2);
	assert_string_equal(buf, "a\n");
	put_file(dir, "f", "abcdefg");
	assert_int_equal(ibv_read_sysfs_file(dir, "f", buf, sizeof(buf)), 7);
	assert_string_equal(buf, "abcdefg");
	put_file(dir, "f", "abcdefg\n");
	assert_int_equal(ibv_read_sysfs_file(dir, "f", buf, sizeof(buf)), 7);
	put_file(dir, "f", "abcdefgh");
	assert_int_equal(ibv_read_sysfs_file(dir, "f", buf, sizeof(buf)), -1);
	assert_true(rule_said("sysfs-size"));
	put_file(dir, "f", "abcdefgh\n");
	assert_int_equal(ibv_read_sysfs_file(dir, "f", buf, sizeof(buf)), -1);
	put_file(dir, "f", "");
	memset(buf, GUARD, sizeof(buf));
	assert_int_equal(ibv_read_sysfs_file(dir, "f", buf, sizeof(buf)), 0);
	assert_true(untouched(buf, 0, sizeof(buf)));
	snprintf(path, sizeof(path), "%s/f", dir);
	unlink(path);
	errno = 0;
	assert_int_equal(ibv_read_sysfs_file(dir, "f", buf, sizeof(buf)), -1);
	assert_int_equal(errno, ENOENT);
	assert_true(rule_said("sysfs-file"));
	rmdir(dir);
}

static void check_sysfs_path(void *arg)
{
	const char *const *pair = arg;

	setenv("SYSFS_PATH", pair[0], 1);
	CHECK(strcmp(ibv_get_sysfs_path(), pair[1]) == 0);
	setenv("SYSFS_PATH", "/other", 1);
	CHECK(strcmp(ibv_get_sysfs_path(), pair[1]) == 0);
}

static void check_sysfs_default(void *arg)
{
	unsetenv("SYSFS_PATH");
	CHECK(strcmp(ibv_get_sysfs_path(), "/sys") == 0);
}

static void test_sysfs_path(void **state)
{
	static char longest[300], cut[256];
	const char *pairs[][2] = {
		{"/x", "/x"}, {"/x///", "/x"}, {"/", ""}, {"", ""}, {longest, cut}};

	memset(longest, 'y', sizeof(longest) - 1);
	memset(cut, 'y', sizeof(cut) - 1);
	assert_int_equal(run_in_child(check_sysfs_default, NULL), 0);
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
		assert_int_equal(run_in_child(check_sysfs_path, pairs[i]), 0);
}

/* A table with a hole, in a namespace; the device is new to this process. */
static void check_hole(void *arg)
{
	struct ibv_gid_entry table[8];
	struct ibv_port_attr port;
	union ibv_gid gid, none = {{0}};

	CHECK(enter_namespace());
	run_ip("link add v0 type veth peer name v1");
	run_ip("link set v0 addrgenmode none up");
	run_ip("link set v1 up");
	run_ip("addr add 10.5.0.1/24 dev v0");
	run_ip("addr add 10.5.0.2/24 dev v0");
	run_ip("addr add 10.5.1.1/24 dev v0");
	CHECK(open_context(NULL) == 0);
	CHECK(ibv_query_gid_table(context, table, 8, 0) == 4);
	CHECK(ibv_query_port(context, 1, &port) == 0 && port.state == IBV_PORT_ACTIVE);
	run_ip("addr del 10.5.0.2/24 dev v0");
	/* 10.5.1.1 stands before the secondary address in the kernel's list. */
	CHECK(ibv_query_gid_table(context, table, 8, 0) == 3);
	CHECK(ibv_query_gid_table(context, table, 2, 0) == -EINVAL);
	for (int i = 0; i < port.gid_tbl_len; i++)
		CHECK(ibv_query_gid(context, 1, i, &gid) == 0 &&
		      (!memcmp(&gid, &none, 16)) == (i >= 3));
	run_ip("addr del 10.5.0.1/24 dev v0");
	CHECK(ibv_query_gid_table(context, table, 8, 0) == 2);
	CHECK(table[1].gid_index == 2 && !memcmp(table[1].gid.raw + 12, "\x0a\x05\x01\x01", 4));
	CHECK(ibv_query_gid_ex(context, 1, 1, &table[0], 0) == ENODATA);
	run_ip("link set v0 down");
	CHECK(ibv_query_port(context, 1, &port) == 0 && port.state == IBV_PORT_DOWN);
	CHECK(port.phys_state == 3);
}

static void test_hole(void **state)
{
	if (!can_enter_namespace())
		skip();
	assert_int_equal(run_in_child(check_hole, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest fresh[] = {
		/* In processes that have not listed the devices before. */
		cmocka_unit_test(test_hole),
		cmocka_unit_test(test_sysfs_path),
		cmocka_unit_test(test_read_sysfs_file),
	};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_query_device),
		cmocka_unit_test(test_query_device_ex_sizes),
		cmocka_unit_test(test_query_device_input),
		cmocka_unit_test(test_query_port_sizes),
		cmocka_unit_test(test_query_port),
		cmocka_unit_test(test_port_range),
		cmocka_unit_test(test_gids_agree),
		cmocka_unit_test(test_gid_refusals),
		cmocka_unit_test(test_gid_table_stride),
		cmocka_unit_test(test_pkeys),
		cmocka_unit_test(test_rt_values),
	};
	int failed;

	rule_log_start();
	failed = cmocka_run_group_tests(fresh, NULL, NULL);
	return failed + cmocka_run_group_tests(tests, open_context, close_context);
}

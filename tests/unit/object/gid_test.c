/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "object/gid.h"

static struct vb_link link_of(const char *const *addrs)
{
	struct vb_link link = {.ifindex = 3,
			       .name = "eth0",
			       .up = true,
			       .carrier = true,
			       .has_mac = true,
			       .mac = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55},
			       .mtu = 1500};

	for (; *addrs; addrs++) {
		char text[64] = "::ffff:";

		strcpy(strchr(*addrs, ':') ? text : text + 7, *addrs);
		assert_int_equal(inet_pton(AF_INET6, text, link.addrs[link.n_addrs++]), 1);
	}
	return link;
}

#define LINK(...) link_of((const char *const[]){__VA_ARGS__, NULL})

/* One entry as text with its type: "10.0.0.1/2" for RoCE v2, "-" for an empty one. */
static void expect(const struct vb_gid_table *table, uint32_t index, const char *want)
{
	char text[64] = "-";

	if (table->entry[index].used) {
		inet_ntop(AF_INET6, table->entry[index].raw, text, sizeof(text) - 3);
		if (!strncmp(text, "::ffff:", 7))
			memmove(text, text + 7, strlen(text + 7) + 1);
		strcat(text, table->entry[index].type == VB_GID_ROCE_V2 ? "/2" : "/1");
	}
	assert_string_equal(text, want);
}

static void test_kinds(void **state)
{
	struct vb_link link = LINK("10.0.0.1", "fe80::1", "febf::1", "fec0::1", "2001::1", "::1");

	assert_true(vb_gid_is_v4(link.addrs[0]));
	assert_false(vb_gid_is_v4(link.addrs[1]));
	assert_false(vb_gid_is_v4(link.addrs[5]));
	assert_true(vb_gid_is_link_local(link.addrs[1]));
	assert_true(vb_gid_is_link_local(link.addrs[2]));
	assert_false(vb_gid_is_link_local(link.addrs[3]));
	assert_false(vb_gid_is_link_local(link.addrs[4]));
}

static void test_multicast(void **state)
{
	struct vb_link yes = LINK("ff02::1", "ff0e::1", "ff00::", "224.0.0.0", "239.255.255.255");
	struct vb_link no = LINK("fe80::1", "fd00::ff", "223.255.255.255", "240.0.0.0", "::");

	for (uint32_t i = 0; i < 5; i++) {
		assert_true(vb_gid_is_multicast(yes.addrs[i]));
		assert_false(vb_gid_is_multicast(no.addrs[i]));
	}
}

static void test_order(void **state)
{
	struct vb_link link = LINK("2001:db8::1", "fe80::9", "10.0.0.1", "2001:db8::2", "10.0.0.2");
	struct vb_gid_table table;

	vb_gid_table_init(&table, 16, VB_GID_ORDER_RXE);
	assert_true(vb_gid_table_update(&table, &link));
	expect(&table, 0, "fe80::9/2");
	expect(&table, 1, "10.0.0.1/2");
	expect(&table, 2, "10.0.0.2/2");
	expect(&table, 3, "2001:db8::1/2");
	expect(&table, 4, "2001:db8::2/2");
	for (uint32_t i = 5; i < 16; i++)
		expect(&table, i, "-");
	assert_false(vb_gid_table_update(&table, &link));
}

static void test_mlx5_order(void **state)
{
	struct vb_link link = LINK("2001:db8::1", "10.0.0.1");
	struct vb_gid_table table;

	vb_gid_table_init(&table, 7, VB_GID_ORDER_MLX5);
	vb_gid_table_update(&table, &link);
	expect(&table, 0, "fe80::211:22ff:fe33:4455/1");
	expect(&table, 1, "fe80::211:22ff:fe33:4455/2");
	expect(&table, 2, "10.0.0.1/1");
	expect(&table, 3, "10.0.0.1/2");
	expect(&table, 4, "2001:db8::1/1");
	expect(&table, 5, "2001:db8::1/2");
	expect(&table, 6, "-");
	link = LINK("2001:db8::1", "10.0.0.2", "10.0.0.3");
	vb_gid_table_update(&table, &link);
	expect(&table, 2, "10.0.0.2/1");
	expect(&table, 3, "10.0.0.2/2");
	expect(&table, 4, "2001:db8::1/1");
	expect(&table, 6, "-");
}

/* Without an address of its own index 0 is what the MAC makes, as rxe has it. */
static void test_front(void **state)
{
	struct vb_link link = LINK("10.0.0.1");
	struct vb_gid_table table;

	vb_gid_table_init(&table, 8, VB_GID_ORDER_RXE);
	vb_gid_table_update(&table, &link);
	expect(&table, 0, "fe80::211:22ff:fe33:4455/2");
	link = LINK("10.0.0.1", "fe80::7");
	assert_true(vb_gid_table_update(&table, &link));
	expect(&table, 0, "fe80::7/2");
	expect(&table, 2, "-");
	link = LINK("10.0.0.1", "fe80::6", "fe80::7");
	assert_true(vb_gid_table_update(&table, &link));
	expect(&table, 0, "fe80::7/2");
	expect(&table, 2, "fe80::6/2");
	link = LINK("10.0.0.1", "fe80::6");
	vb_gid_table_update(&table, &link);
	expect(&table, 0, "fe80::6/2");
	expect(&table, 2, "-");
	link = LINK("10.0.0.1");
	vb_gid_table_update(&table, &link);
	expect(&table, 0, "fe80::211:22ff:fe33:4455/2");
}

static void test_holes(void **state)
{
	struct vb_link link = LINK("10.0.0.1", "10.0.0.2", "10.0.0.3");
	struct vb_gid_table table;

	vb_gid_table_init(&table, 8, VB_GID_ORDER_RXE);
	vb_gid_table_update(&table, &link);
	link = LINK("10.0.0.1", "10.0.0.3");
	assert_true(vb_gid_table_update(&table, &link));
	expect(&table, 2, "-");
	expect(&table, 3, "10.0.0.3/2");
	assert_false(vb_gid_table_update(&table, &link));
	link = LINK("10.0.0.3", "10.0.0.4", "10.0.0.5");
	assert_true(vb_gid_table_update(&table, &link));
	expect(&table, 1, "10.0.0.4/2");
	expect(&table, 2, "10.0.0.5/2");
	expect(&table, 3, "10.0.0.3/2");
}

static void test_interface_gone(void **state)
{
	struct vb_link link = LINK("10.0.0.1", "fe80::7");
	struct vb_gid_table table;

	vb_gid_table_init(&table, 8, VB_GID_ORDER_RXE);
	vb_gid_table_update(&table, &link);
	memset(&link, 0, sizeof(link));
	assert_true(vb_gid_table_update(&table, &link));
	expect(&table, 0, "fe80::7/2");
	expect(&table, 1, "-");
}

static void test_loopback(void **state)
{
	struct vb_link link = {.ifindex = 1, .loopback = true, .has_mac = true};
	struct vb_gid_table table;

	vb_gid_table_init(&table, 8, VB_GID_ORDER_RXE);
	vb_gid_table_update(&table, &link);
	expect(&table, 0, "fe80::200:ff:fe00:0/2");
	expect(&table, 1, "127.0.0.1/2");
	assert_false(vb_gid_table_update(&table, &link));
	link.n_addrs = 1;
	link.addrs[0][15] = 1;
	vb_gid_table_update(&table, &link);
	expect(&table, 1, "127.0.0.1/2");
	expect(&table, 2, "::1/2");
}

static void test_full(void **state)
{
	struct vb_link link = LINK("10.0.0.1", "10.0.0.2", "10.0.0.3");
	struct vb_gid_table table;

	vb_gid_table_init(&table, 3, VB_GID_ORDER_RXE);
	vb_gid_table_update(&table, &link);
	expect(&table, 2, "10.0.0.2/2");
	assert_false(vb_gid_table_update(&table, &link));
	assert_false(table.entry[3].used);
	vb_gid_table_init(&table, 100000, VB_GID_ORDER_RXE);
	assert_int_equal(table.len, VB_GIDS_MAX);
	link.n_addrs = VB_ADDRS_MAX;
	for (uint32_t i = 0; i < VB_ADDRS_MAX; i++)
		link.addrs[i][15] = (uint8_t)i, link.addrs[i][14] = 1, link.addrs[i][0] = 0x20;
	vb_gid_table_update(&table, &link);
	assert_true(table.entry[VB_GIDS_MAX - 1].used);
	vb_gid_table_init(&table, 0, VB_GID_ORDER_MLX5);
	vb_gid_table_update(&table, &link);
	expect(&table, 1, "fe80::211:22ff:fe33:4455/2");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds),	       cmocka_unit_test(test_multicast),
		cmocka_unit_test(test_order),	       cmocka_unit_test(test_mlx5_order),
		cmocka_unit_test(test_front),	       cmocka_unit_test(test_holes),
		cmocka_unit_test(test_interface_gone), cmocka_unit_test(test_loopback),
		cmocka_unit_test(test_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

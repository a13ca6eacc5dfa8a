/* SPDX-License-Identifier: BSD-2-Clause */
/* The address of the answer to a datagram, for headers of both versions and bad ones. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* With a device of ours behind it: a port, four table entries, and a vb_fail() that remembers. */
#include "verbs/ah_from_wc.c"

static enum vb_rule broken;

int vb_fail(enum vb_rule rule, const char *fmt, ...)
{
	broken = rule;
	errno = rule == VB_RULE_AH_WC_HEADER ? EPROTONOSUPPORT : EINVAL;
	return errno;
}

/* fe80::1 v2, a hole, ::ffff:10.0.0.5 v1, ::ffff:10.0.0.5 v2 */
static const struct ibv_gid_entry table[] = {
	{.gid.raw = {0xfe, 0x80, [15] = 1}, .gid_type = IBV_GID_TYPE_ROCE_V2},
	{.gid.raw = {0}},
	{.gid.raw = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 5},
	 .gid_type = IBV_GID_TYPE_ROCE_V1},
	{.gid.raw = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 5},
	 .gid_type = IBV_GID_TYPE_ROCE_V2},
};

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
	assert_int_equal(port_num, 1);
	assert_true(gid_index < 4);
	if (gid_index == 1)
		return ENODATA;
	*entry = table[gid_index];
	return 0;
}

static int query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr,
		      size_t length)
{
	memset(attr, 0, length);
	if (port_num != 1)
		return EINVAL;
	attr->gid_tbl_len = 4;
	attr->link_layer = IBV_LINK_LAYER_ETHERNET;
	return 0;
}

static struct verbs_context vctx = {
	.query_port = query_port,
	.sz = sizeof(vctx),
	.context.abi_compat = __VERBS_ABI_IS_EXTENDED,
};
static struct ibv_wc wc;
static union {
	struct ibv_grh grh;
	uint8_t bytes[40];
} area;
static struct ibv_ah_attr attr;

static int setup(void **state)
{
	/* To 10.0.0.5 from 10.0.0.9, TOS 0x6a, TTL 64, protocol UDP, checksum right */
	static const uint8_t ipv4[20] = {0x45, 0x6a, 0x00, 0x3c, 0x00, 0x00, 0x40, 0x00, 64, 17,
					 0,    0,    10,   0,	 0,    9,    10,   0,	 0,  5};
	uint32_t sum = 0;

	memset(&attr, 0xee, sizeof(attr));
	/* What the first 20 bytes hold is nobody's business, not even version 6. */
	memset(&area, 0x66, sizeof(area));
	memcpy(area.bytes + 20, ipv4, sizeof(ipv4));
	for (int i = 0; i < 20; i += 2)
		sum += (uint32_t)ipv4[i] << 8 | ipv4[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	area.bytes[30] = (uint8_t)(~sum >> 8);
	area.bytes[31] = (uint8_t)~sum;
	wc = (struct ibv_wc){.wc_flags = IBV_WC_GRH, .slid = 7, .sl = 3, .dlid_path_bits = 2};
	broken = VB_RULE_COUNT;
	errno = 0;
	return 0;
}

static int init(uint8_t port)
{
	return ibv_init_ah_from_wc(&vctx.context, port, &wc, &area.grh, &attr);
}

static void set_ipv6(uint8_t next_header)
{
	memset(&area, 0, sizeof(area));
	area.bytes[0] = 0x66; /* version 6, class 0x6a, flow 0x12345 */
	area.bytes[1] = 0xa1;
	area.bytes[2] = 0x23;
	area.bytes[3] = 0x45;
	area.bytes[6] = next_header;
	area.bytes[7] = 33;
	area.bytes[8] = 0xfe;
	area.bytes[9] = 0x80;
	area.bytes[23] = 9; /* from fe80::9 */
	memcpy(area.bytes + 24, table[0].gid.raw, 16);
}

static void without_grh(void **state)
{
	wc.wc_flags = 0;
	assert_int_equal(init(1), 0);
	assert_int_equal(attr.is_global, 0);
	assert_int_equal(attr.dlid, 7);
	assert_int_equal(attr.sl, 3);
	assert_int_equal(attr.src_path_bits, 2);
	assert_int_equal(attr.port_num, 1);
	assert_int_equal(attr.static_rate, 0);
}

static void from_an_ipv4_header(void **state)
{
	static const uint8_t source[16] = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 9};

	assert_int_equal(init(1), 0);
	assert_int_equal(attr.is_global, 1);
	assert_memory_equal(attr.grh.dgid.raw, source, 16);
	assert_int_equal(attr.grh.sgid_index, 3); /* not 2, which is v1 */
	assert_int_equal(attr.grh.traffic_class, 0x6a);
	assert_int_equal(attr.grh.hop_limit, 64);
	assert_int_equal(attr.grh.flow_label, 0);
}

static void from_an_ipv6_header(void **state)
{
	set_ipv6(17);
	assert_int_equal(init(1), 0);
	assert_int_equal(attr.grh.dgid.raw[0], 0xfe);
	assert_int_equal(attr.grh.dgid.raw[15], 9);
	assert_int_equal(attr.grh.sgid_index, 0);
	assert_int_equal(attr.grh.traffic_class, 0x6a);
	assert_int_equal(attr.grh.flow_label, 0x12345);
	assert_int_equal(attr.grh.hop_limit, 33);
}

static void a_v1_header_wants_a_v1_entry(void **state)
{
	set_ipv6(0x1b);
	assert_int_equal(init(1), -1);
	assert_int_equal(broken, VB_RULE_AH_WC_GID);
	memcpy(area.bytes + 24, table[2].gid.raw, 16);
	assert_int_equal(init(1), 0);
	assert_int_equal(attr.grh.sgid_index, 2);
}

static void bad_headers(void **state)
{
	area.bytes[30] ^= 1; /* no v4 header any more; the 0x66 before it is version 6 */
	assert_int_equal(init(1), -1);
	assert_int_equal(broken, VB_RULE_AH_WC_HEADER);
	assert_int_equal(errno, EPROTONOSUPPORT);

	memset(&area, 0, sizeof(area));
	broken = VB_RULE_COUNT;
	assert_int_equal(init(1), -1);
	assert_int_equal(broken, VB_RULE_AH_WC_HEADER);
}

static void no_such_destination(void **state)
{
	set_ipv6(17);
	area.bytes[24] = 0xff; /* multicast */
	assert_int_equal(init(1), -1);
	assert_int_equal(broken, VB_RULE_AH_WC_GID);
	assert_int_equal(errno, EINVAL);
}

static void no_such_port(void **state)
{
	assert_int_equal(init(2), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(broken, VB_RULE_COUNT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(without_grh, setup),
		cmocka_unit_test_setup(from_an_ipv4_header, setup),
		cmocka_unit_test_setup(from_an_ipv6_header, setup),
		cmocka_unit_test_setup(a_v1_header_wants_a_v1_entry, setup),
		cmocka_unit_test_setup(bad_headers, setup),
		cmocka_unit_test_setup(no_such_destination, setup),
		cmocka_unit_test_setup(no_such_port, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

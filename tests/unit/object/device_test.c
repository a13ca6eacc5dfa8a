/* SPDX-License-Identifier: BSD-2-Clause */
#include <endian.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/settings.h"
#include "object/device.h"

static const struct vb_link eth0 = {.ifindex = 3,
				    .name = "eth0",
				    .up = true,
				    .carrier = true,
				    .has_mac = true,
				    .mac = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55},
				    .mtu = 1500};

static struct vb_device make(uint32_t index, const char *name, const struct vb_link *link)
{
	struct vb_device dev;

	memset(&dev, 0, sizeof(dev));
	vb_device_setup(&dev, index, name, name, link);
	return dev;
}

static void test_names(void **state)
{
	struct vb_device dev = make(2, "soft7", &eth0);

	assert_string_equal(dev.ibv.name, "soft7");
	assert_string_equal(dev.ibv.dev_name, "uverbs2");
	assert_string_equal(dev.ibv.dev_path, "/sys/class/infiniband_verbs/uverbs2");
	assert_string_equal(dev.ibv.ibdev_path, "/sys/class/infiniband/soft7");
	assert_int_equal(dev.ibv.node_type, IBV_NODE_CA);
	assert_int_equal(dev.ibv.transport_type, IBV_TRANSPORT_IB);
	assert_null(dev.driver);
	assert_null(*(void **)(void *)(&dev.ibv + 1));
}

static void test_name_valid(void **state)
{
	char name[66];

	assert_true(vb_device_name_valid("mlx5_0"));
	assert_true(vb_device_name_valid("a"));
	assert_true(vb_device_name_valid("rocep1s0f0.x-1"));
	assert_false(vb_device_name_valid(""));
	assert_false(vb_device_name_valid("."));
	assert_false(vb_device_name_valid("..x"));
	assert_false(vb_device_name_valid("a/b"));
	assert_false(vb_device_name_valid("a b"));
	assert_false(vb_device_name_valid("a\n"));
	assert_false(vb_device_name_valid("\xc3\xa4"));
	memset(name, 'x', sizeof(name));
	name[63] = '\0';
	assert_true(vb_device_name_valid(name));
	name[63] = 'x';
	name[64] = '\0';
	assert_false(vb_device_name_valid(name));
}

static uint64_t guid(const struct vb_device *dev)
{
	return be64toh(dev->attr.orig_attr.node_guid);
}

static void test_guids(void **state)
{
	struct vb_link lo = {.ifindex = 1, .name = "lo", .loopback = true, .has_mac = true};
	struct vb_device a = make(0, "a", &eth0), b = make(1, "b", &eth0);
	struct vb_device c = make(0, "c", &lo);

	assert_true(guid(&a) == 0x021122fffe334455ull);
	assert_true(a.attr.orig_attr.sys_image_guid == a.attr.orig_attr.node_guid);
	assert_true(guid(&b) != guid(&a));
	assert_true(guid(&c) == 0x020000fffe000000ull);
	setenv("VERBENA_NODE_GUID", "0x1122", 1);
	vb_settings_reload();
	a = make(0, "a", &eth0);
	unsetenv("VERBENA_NODE_GUID");
	vb_settings_reload();
	assert_true(guid(&a) == 0x1122);
	assert_true(be64toh(a.attr.orig_attr.sys_image_guid) == 0x1122);
}

/* Vendors' own ids would make programs take special paths. */
static void test_identity(void **state)
{
	struct vb_device dev = make(0, "x", &eth0);
	const struct ibv_device_attr *attr = &dev.attr.orig_attr;

	assert_int_not_equal(attr->vendor_id, 0x02c9);
	assert_int_not_equal(attr->vendor_id, 0x15b3);
	assert_int_not_equal(attr->vendor_id, 0x1d0f);
	assert_string_equal(attr->fw_ver, VB_VERSION);
	assert_string_equal(dev.board_id, "");
	assert_true(dev.node_desc[0]);
}

static void test_attributes(void **state)
{
	struct vb_device dev = make(0, "x", &eth0);
	const struct ibv_device_attr_ex *ex = vb_device_attr(&dev);
	const struct ibv_device_attr *attr = &ex->orig_attr;

	assert_true(attr->max_mr_size == UINT64_MAX);
	assert_true(attr->page_size_cap & 4096);
	assert_int_equal(attr->max_qp, 65536);
	assert_int_equal(attr->max_qp_wr, 16384);
	assert_int_equal(attr->max_sge, 30);
	assert_int_equal(attr->max_sge_rd, 30);
	assert_int_equal(attr->max_res_rd_atom, attr->max_qp * attr->max_qp_rd_atom);
	assert_int_equal(attr->atomic_cap, IBV_ATOMIC_HCA);
	assert_int_equal(attr->max_pkeys, 1);
	assert_int_equal(attr->phys_port_cnt, 1);
	assert_int_equal(attr->max_srq, 16384);
	assert_int_equal(attr->max_srq_wr, attr->max_qp_wr);
	assert_int_equal(attr->max_srq_sge, attr->max_sge);
	assert_int_equal(attr->max_ah, 65536);
	assert_int_equal(attr->max_mw, 0);
	assert_int_equal(attr->max_mcast_grp, 128);
	assert_int_equal(attr->max_mcast_qp_attach, 64);
	assert_int_equal(attr->max_total_mcast_qp_attach, 128 * 64);
	assert_int_equal(attr->device_cap_flags,
			 IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT |
				 IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN);
	assert_true(ex->device_cap_flags_ex == attr->device_cap_flags);
	assert_int_equal(ex->comp_mask, 0);
	assert_true(ex->completion_timestamp_mask == 0x7fffffffffffffffull);
	assert_true(ex->hca_core_clock == 1000000);
	assert_int_equal(ex->odp_caps.general_caps, IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT);
	assert_int_equal(ex->tso_caps.max_tso, 0);
	assert_int_equal(ex->rss_caps.supported_qpts, 0);
	assert_int_equal(ex->tm_caps.max_num_tags, 0);
	assert_int_equal(ex->max_dm_size, 262144);
	assert_int_equal(ex->phys_port_cnt_ex, 1);
	assert_true(dev.num_comp_vectors >= 1);
	assert_int_equal(dev.max_inline_data, 1024);
}

static void test_limits_by_setting(void **state)
{
	struct vb_device dev;

	setenv("VERBENA_MAX_QP", "7", 1);
	setenv("VERBENA_MAX_CQE", "99999999999", 1);
	setenv("VERBENA_COMP_VECTORS", "5", 1);
	setenv("VERBENA_GID_TBL_LEN", "3", 1);
	vb_settings_reload();
	dev = make(0, "x", &eth0);
	unsetenv("VERBENA_MAX_QP");
	unsetenv("VERBENA_MAX_CQE");
	unsetenv("VERBENA_COMP_VECTORS");
	unsetenv("VERBENA_GID_TBL_LEN");
	vb_settings_reload();
	assert_int_equal(dev.attr.orig_attr.max_qp, 7);
	assert_int_equal(dev.attr.orig_attr.max_cqe, 1048575);
	assert_int_equal(dev.num_comp_vectors, 5);
	assert_int_equal(dev.gid_tbl_len, 3);
}

static void test_mtu(void **state)
{
	static const struct {
		uint32_t netdev;
		enum ibv_mtu mtu;
	} want[] = {{0, IBV_MTU_256},	       {68, IBV_MTU_256},    {595, IBV_MTU_256},
		    {596, IBV_MTU_512},	       {1107, IBV_MTU_512},  {1108, IBV_MTU_1024},
		    {1400, IBV_MTU_1024},      {1500, IBV_MTU_1024}, {2131, IBV_MTU_1024},
		    {2132, IBV_MTU_2048},      {4179, IBV_MTU_2048}, {4180, IBV_MTU_4096},
		    {4200, IBV_MTU_4096},      {9000, IBV_MTU_4096}, {65536, IBV_MTU_4096},
		    {UINT32_MAX, IBV_MTU_4096}};

	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++)
		assert_int_equal(vb_mtu_of_netdev(want[i].netdev), want[i].mtu);
}

static void expect_state(bool up, bool carrier, uint32_t ifindex, int state, int phys)
{
	struct vb_device dev = make(0, "x", &eth0);
	struct vb_link link = eth0;
	struct vb_port_facts facts;

	link.up = up;
	link.carrier = carrier;
	link.ifindex = ifindex;
	vb_port_facts_fill(&dev, &link, &facts);
	assert_int_equal(facts.attr.state, state);
	assert_int_equal(facts.attr.phys_state, phys);
}

static void test_port_state(void **state)
{
	expect_state(true, true, 3, IBV_PORT_ACTIVE, 5);
	expect_state(true, false, 3, IBV_PORT_DOWN, 2);
	expect_state(false, true, 3, IBV_PORT_DOWN, 3);
	expect_state(false, false, 3, IBV_PORT_DOWN, 3);
	expect_state(false, false, 0, IBV_PORT_DOWN, 3);
}

static void test_port_facts(void **state)
{
	struct vb_device dev = make(0, "x", &eth0);
	struct vb_port_facts facts;

	vb_port_facts_fill(&dev, &eth0, &facts);
	assert_int_equal(facts.attr.max_mtu, IBV_MTU_4096);
	assert_int_equal(facts.attr.active_mtu, IBV_MTU_1024);
	assert_int_equal(facts.attr.link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_int_equal(facts.attr.port_cap_flags, 0x04010000);
	assert_int_equal(facts.attr.flags, 1);
	assert_int_equal(facts.attr.lid, 0);
	assert_int_equal(facts.attr.sm_lid, 0);
	assert_int_equal(facts.attr.pkey_tbl_len, 1);
	assert_int_equal(facts.attr.gid_tbl_len, dev.gid_tbl_len);
	assert_int_equal(facts.attr.max_msg_sz, 0x40000000);
	assert_string_equal(facts.ifname, "eth0");
	assert_int_equal(facts.ifindex, 3);
	assert_int_equal(facts.netdev_mtu, 1500);
}

static void test_speed(void **state)
{
	static const struct {
		uint32_t mbps;
		int width, speed, speed_ex;
		uint32_t rate;
	} want[] = {
		{0, 2, 32, 32, 100000},	       {100, 1, 1, 1, 2500},
		{1000, 1, 1, 1, 2500},	       {10000, 1, 8, 8, 10000},
		{25000, 1, 32, 32, 25000},     {40000, 2, 8, 8, 40000},
		{50000, 1, 64, 64, 50000},     {100000, 2, 32, 32, 100000},
		{200000, 2, 64, 64, 200000},   {400000, 2, 128, 128, 400000},
		{800000, 2, 128, 256, 800000}, {4000000, 2, 128, 256, 800000},
	};
	struct vb_device dev = make(0, "x", &eth0);
	struct vb_port_facts facts;

	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		struct vb_link link = eth0;

		link.speed_mbps = want[i].mbps;
		vb_port_facts_fill(&dev, &link, &facts);
		assert_int_equal(facts.attr.active_width, want[i].width);
		assert_int_equal(facts.attr.active_speed, want[i].speed);
		assert_int_equal(facts.active_speed_ex, want[i].speed_ex);
		assert_int_equal(facts.rate_mbps, want[i].rate);
	}
	dev.force_speed = true;
	dev.port_speed_mbps = 25000;
	vb_port_facts_fill(&dev, &eth0, &facts);
	assert_int_equal(facts.rate_mbps, 25000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),	   cmocka_unit_test(test_name_valid),
		cmocka_unit_test(test_guids),	   cmocka_unit_test(test_identity),
		cmocka_unit_test(test_attributes), cmocka_unit_test(test_limits_by_setting),
		cmocka_unit_test(test_mtu),	   cmocka_unit_test(test_port_state),
		cmocka_unit_test(test_port_facts), cmocka_unit_test(test_speed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

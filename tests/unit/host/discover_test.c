/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/discover.h"
#include "lib/child.h"

/* Devices are found once per process, so each check is a process. */

static void expect_count(size_t want)
{
	size_t count;

	CHECK(vb_devices(&count) == 0);
	CHECK(count == want);
}

static struct vb_device *device(size_t index, const char *name, const char *netdev)
{
	struct vb_device *dev;
	size_t count;

	CHECK(vb_devices(&count) == 0 && index < count);
	dev = vb_device_at(index);
	CHECK(dev && strcmp(dev->ibv.name, name) == 0 && strcmp(dev->ifname, netdev) == 0);
	CHECK(vb_device_find(name) == dev && vb_device_is(&dev->ibv));
	return dev;
}

static void expect_gid(struct vb_device *dev, uint32_t index, const char *want)
{
	struct vb_gid_entry entry;
	char text[64] = "-";

	CHECK(vb_device_gid(dev, 1, index, &entry) == 0);
	if (entry.used)
		inet_ntop(AF_INET6, entry.raw, text, sizeof(text));
	if (strcmp(text, want))
		fprintf(stderr, "gid %u: %s, wanted %s\n", index, text, want);
	CHECK(strcmp(text, want) == 0);
	CHECK(entry.used == (entry.ifindex != 0));
}

static void expect_state(struct vb_device *dev, int state, int phys)
{
	struct vb_port_facts facts;

	CHECK(vb_device_port(dev, 1, &facts) == 0);
	CHECK((int)facts.attr.state == state && facts.attr.phys_state == phys);
}

static void add_veth(void)
{
	CHECK(enter_namespace());
	run_ip("link set lo up");
	run_ip("link add v0 address 00:11:22:33:44:55 type veth peer name v1");
	run_ip("link set v0 addrgenmode none up");
	run_ip("link set v1 addrgenmode none up");
	run_ip("addr add 10.5.0.1/24 dev v0");
}

static void check_default_device(void *arg)
{
	struct vb_device *dev;

	add_veth();
	expect_count(1);
	dev = device(0, "verbena0", "v0");
	CHECK(!vb_devices_problem(0));
	CHECK(be64toh(dev->attr.orig_attr.node_guid) == 0x021122fffe334455ull);
	expect_gid(dev, 0, "fe80::211:22ff:fe33:4455");
	expect_gid(dev, 1, "::ffff:10.5.0.1");
	expect_gid(dev, 2, "-");
	CHECK(vb_device_at(1) == NULL && vb_device_find("verbena1") == NULL);
	CHECK(!vb_device_is(NULL));
	CHECK(vb_devices(&(size_t){0}) == 0 && vb_device_at(0) == dev);
}

static void check_loopback_device(void *arg)
{
	struct vb_device *dev;

	CHECK(enter_namespace());
	dev = device(0, "verbena0", "lo");
	CHECK(dev->attr.orig_attr.node_guid != 0);
	expect_gid(dev, 0, "fe80::200:ff:fe00:0");
	expect_gid(dev, 1, "::ffff:127.0.0.1");
	expect_state(dev, IBV_PORT_DOWN, 3);
	run_ip("link set lo up");
	expect_state(dev, IBV_PORT_ACTIVE, 5);
	expect_gid(dev, 1, "::ffff:127.0.0.1");
	expect_gid(dev, 2, "::1");
}

static void check_ipv6_only(void *arg)
{
	struct vb_device *dev;

	add_veth();
	run_ip("addr flush dev v0");
	run_ip("addr add fd22::1/64 dev v0 nodad");
	dev = device(0, "verbena0", "v0");
	expect_gid(dev, 0, "fe80::211:22ff:fe33:4455");
	expect_gid(dev, 1, "fd22::1");
}

static void check_live(void *arg)
{
	struct vb_port_facts facts;
	struct vb_device *dev;

	add_veth();
	dev = device(0, "verbena0", "v0");
	expect_state(dev, IBV_PORT_ACTIVE, 5);
	run_ip("addr add 10.6.0.1/24 dev v0");
	expect_gid(dev, 2, "::ffff:10.6.0.1");
	run_ip("addr del 10.5.0.1/24 dev v0");
	expect_gid(dev, 1, "-");
	expect_gid(dev, 2, "::ffff:10.6.0.1");
	run_ip("addr add fd22::1/64 dev v0 nodad");
	expect_gid(dev, 1, "fd22::1");
	run_ip("link set v1 down");
	expect_state(dev, IBV_PORT_DOWN, 2);
	run_ip("link set v1 up");
	expect_state(dev, IBV_PORT_ACTIVE, 5);
	run_ip("link set v0 mtu 4200");
	CHECK(vb_device_port(dev, 1, &facts) == 0 && facts.attr.active_mtu == IBV_MTU_4096);
	run_ip("link set v0 down");
	expect_state(dev, IBV_PORT_DOWN, 3);
	run_ip("link set v0 name w0");
	run_ip("link set w0 up");
	CHECK(vb_device_port(dev, 1, &facts) == 0 && strcmp(facts.ifname, "w0") == 0);
	run_ip("link del w0");
	expect_state(dev, IBV_PORT_DOWN, 3);
	CHECK(vb_device_port(dev, 1, &facts) == 0 && facts.ifindex == 0);
	expect_count(1);
}

static void check_chosen_interface(void *arg)
{
	struct vb_device *dev;

	add_veth();
	setenv("VERBENA_NETDEV", "v1", 1);
	dev = device(0, "verbena0", "v1");
	expect_state(dev, IBV_PORT_ACTIVE, 5);
}

static void check_missing_interface(void *arg)
{
	add_veth();
	setenv("VERBENA_NETDEV", "nosuch0", 1);
	device(0, "verbena0", "v0");
	CHECK(strstr(vb_devices_problem(0), "nosuch0") && strstr(vb_devices_problem(0), "v0"));
	CHECK(!vb_devices_problem(1));
}

static void check_none(void *arg)
{
	setenv("VERBENA_DEVICES", "none", 1);
	expect_count(0);
	CHECK(vb_device_at(0) == NULL && vb_device_find("verbena0") == NULL);
}

static void check_several(void *arg)
{
	struct vb_device *a, *b, *c;

	add_veth();
	setenv("VERBENA_DEVICES", "a:v1, b,, bad/name,a:v0,c:lo,", 1);
	setenv("VERBENA_NETDEV", "v0", 1);
	expect_count(3);
	a = device(0, "a", "v1");
	b = device(1, "b", "v0");
	c = device(2, "c", "lo");
	CHECK(strstr(vb_devices_problem(0), "bad/name") && strstr(vb_devices_problem(1), "twice"));
	CHECK(!vb_devices_problem(2));
	expect_gid(b, 1, "::ffff:10.5.0.1");
	expect_gid(c, 1, "::ffff:127.0.0.1");
	CHECK(a->attr.orig_attr.node_guid != b->attr.orig_attr.node_guid);
	CHECK(strcmp(c->ibv.dev_name, "uverbs2") == 0);
}

static void check_sections(void *arg)
{
	char path[] = "/tmp/verbena-discover-XXXXXX";
	const char *text = "max_cq = 33\n[x0]\nnetdev = lo\nmax_qp = 5\n[device x1]\nnetdev = v1\n";
	int fd = mkstemp(path);

	add_veth();
	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	setenv("VERBENA_CONFIG", path, 1);
	expect_count(2);
	unlink(path);
	CHECK(device(0, "x0", "lo")->attr.orig_attr.max_qp == 5);
	CHECK(device(1, "x1", "v1")->attr.orig_attr.max_qp == 65536);
	CHECK(device(1, "x1", "v1")->attr.orig_attr.max_cq == 33);
}

static void check_connectx5(void *arg)
{
	const struct ibv_device_attr *attr;
	struct vb_gid_entry entry;
	struct vb_device *dev;

	add_veth();
	setenv("VERBENA_PROFILE", "connectx5", 1);
	dev = device(0, "mlx5_0", "v0");
	attr = &dev->attr.orig_attr;
	CHECK(attr->vendor_id == 0x02c9 && attr->vendor_part_id == 4121);
	CHECK(strcmp(attr->fw_ver, "16.28.0578") == 0);
	for (uint32_t i = 0; i < 4; i++) {
		CHECK(vb_device_gid(dev, 1, i, &entry) == 0 && entry.used);
		CHECK(entry.type == (i % 2 ? VB_GID_ROCE_V2 : VB_GID_ROCE_V1));
	}
	expect_gid(dev, 3, "::ffff:10.5.0.1");
	CHECK(vb_device_gid_find(dev, 1, entry.raw, VB_GID_ROCE_V2) == 3);
	CHECK(vb_device_gid_find(dev, 1, entry.raw, VB_GID_ROCE_V1) == 2);
	CHECK(vb_device_gid_known(dev, entry.raw));
	entry.raw[15] ^= 1;
	CHECK(!vb_device_gid_known(dev, entry.raw));
}

static void check_bounds(void *arg)
{
	struct vb_gid_entry entries[4];
	struct vb_port_facts facts;
	struct vb_gid_entry entry;
	struct vb_device *dev;

	add_veth();
	setenv("VERBENA_GID_TBL_LEN", "4", 1);
	dev = device(0, "verbena0", "v0");
	CHECK(vb_device_port(dev, 0, &facts) == -EINVAL);
	CHECK(vb_device_port(dev, 2, &facts) == -EINVAL);
	CHECK(vb_device_gid(dev, 0, 0, &entry) == -EINVAL);
	CHECK(vb_device_gid(dev, 1, 4, &entry) == -EINVAL);
	CHECK(vb_device_gid(dev, 1, UINT32_MAX, &entry) == -EINVAL);
	CHECK(vb_device_gid(dev, 1, 3, &entry) == 0 && !entry.used);
	CHECK(vb_device_gids(dev, 2, entries, 4) == -EINVAL);
	CHECK(vb_device_gids(dev, 1, entries, 2) == 4);
	CHECK(vb_device_gids(dev, 1, entries, 4) == 4);
	CHECK(entries[0].used && entries[1].used && !entries[2].used && !entries[3].used);
	CHECK(vb_device_gid_find(dev, 1, entries[1].raw, VB_GID_ROCE_V2) == 1);
	CHECK(vb_device_gid_find(dev, 1, entries[1].raw, VB_GID_ROCE_V1) == -ENOENT);
	CHECK(vb_device_gid_find(dev, 2, entries[1].raw, VB_GID_ROCE_V2) == -ENOENT);
}

static void check_same_in_child(void *arg)
{
	struct vb_device *dev = arg;

	CHECK(device(0, "verbena0", "v0") == dev);
	expect_gid(dev, 1, "-");
	expect_gid(dev, 2, "::ffff:10.6.0.1");
	run_ip("addr del 10.6.0.1/24 dev v0");
	expect_gid(dev, 2, "-");
}

/* The child keeps the devices and the meaning of their indexes. */
static void check_fork(void *arg)
{
	struct vb_device *dev;

	add_veth();
	dev = device(0, "verbena0", "v0");
	run_ip("addr add 10.6.0.1/24 dev v0");
	expect_gid(dev, 2, "::ffff:10.6.0.1");
	run_ip("addr del 10.5.0.1/24 dev v0");
	CHECK(run_in_child(check_same_in_child, dev) == 0);
	expect_gid(dev, 2, "-");
}

/* A shortage is told, and is over when it is over. */
static void check_shortage(void *arg)
{
	struct rlimit none = {0, 0}, before;
	struct vb_device *dev;
	size_t count;

	add_veth();
	CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
	none.rlim_max = before.rlim_max;
	CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
	CHECK(vb_devices(&count) == -EMFILE && count == 0);
	CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
	dev = device(0, "verbena0", "v0");
	run_ip("addr add 10.6.0.1/24 dev v0");
	expect_gid(dev, 2, "::ffff:10.6.0.1");
	CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
	expect_gid(dev, 2, "::ffff:10.6.0.1");
	expect_state(dev, IBV_PORT_ACTIVE, 5);
}

/* Any settings: one device at least, all of its facts readable, none of them absurd. */
static void check_garbage(void *arg)
{
	unsigned int seed = *(unsigned int *)arg;
	static const char *const names[] = {"DEVICES", "NETDEV",      "PROFILE",   "CONFIG",
					    "MAX_QP",  "GID_TBL_LEN", "GID_ORDER", "NODE_GUID",
					    "FW_VER",  "PORT_SPEED",  "NODE_DESC", "COMP_VECTORS"};
	struct vb_port_facts facts;
	struct vb_gid_entry entry;
	char name[64], value[3000];
	size_t count;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t len = (size_t)rand_r(&seed) % (rand_r(&seed) % 4 ? 12 : sizeof(value));

		for (size_t c = 0; c < len; c++)
			value[c] = rand_r(&seed) % 2 ? (char)(1 + rand_r(&seed) % 255)
						     : ":,/.0x19az"[rand_r(&seed) % 10];
		value[len] = '\0';
		snprintf(name, sizeof(name), "VERBENA_%s", names[i]);
		setenv(name, value, 1);
	}
	CHECK(vb_devices(&count) == 0);
	CHECK(count >= 1 && count <= VB_DEVICES_MAX);
	for (size_t i = 0; i < count; i++) {
		struct vb_device *dev = vb_device_at(i);

		CHECK(vb_device_name_valid(dev->ibv.name));
		CHECK(dev->attr.orig_attr.node_guid && dev->attr.orig_attr.max_qp >= 1);
		CHECK(dev->gid_tbl_len >= 2 && dev->gid_tbl_len <= VB_GIDS_MAX);
		CHECK(vb_device_port(dev, 1, &facts) == 0);
		CHECK(vb_device_gid(dev, 1, 0, &entry) == 0 && entry.used);
	}
}

static void test_garbage(void **state)
{
	for (unsigned int seed = 0; seed < 300; seed++)
		assert_int_equal(run_in_child(check_garbage, &seed), 0);
}

CHECKED_IN_CHILD(default_device)
CHECKED_IN_CHILD(loopback_device)
CHECKED_IN_CHILD(ipv6_only)
CHECKED_IN_CHILD(live)
CHECKED_IN_CHILD(chosen_interface)
CHECKED_IN_CHILD(missing_interface)
CHECKED_IN_CHILD(none)
CHECKED_IN_CHILD(several)
CHECKED_IN_CHILD(sections)
CHECKED_IN_CHILD(connectx5)
CHECKED_IN_CHILD(bounds)
CHECKED_IN_CHILD(fork)
CHECKED_IN_CHILD(shortage)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_default_device),
		cmocka_unit_test(test_loopback_device),
		cmocka_unit_test(test_ipv6_only),
		cmocka_unit_test(test_live),
		cmocka_unit_test(test_chosen_interface),
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_missing_interface),
		cmocka_unit_test(test_several),
		cmocka_unit_test(test_sections),
		cmocka_unit_test(test_connectx5),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_fork),
		cmocka_unit_test(test_shortage),
		cmocka_unit_test(test_garbage),
	};

	if (!can_enter_namespace()) {
		fprintf(stderr, "skipped: no network namespaces here\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}

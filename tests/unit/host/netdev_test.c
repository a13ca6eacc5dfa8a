/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/netdev.h"
#include "lib/child.h"

static bool has(const struct vb_link *link, const char *text)
{
	uint8_t raw[16];

	CHECK(inet_pton(AF_INET6, text, raw) == 1);
	for (uint32_t i = 0; i < link->n_addrs; i++)
		if (!memcmp(link->addrs[i], raw, 16))
			return true;
	return false;
}

static struct vb_link look(const char *name)
{
	struct vb_link link;

	CHECK(vb_netdev_read(vb_netdev_find(name), &link) == 0);
	CHECK(link.ifindex == vb_netdev_find(name));
	CHECK(strcmp(link.name, name) == 0);
	return link;
}

static void expect_default(const char *name)
{
	uint32_t ifindex = 0;

	CHECK(vb_netdev_default(&ifindex) == 0);
	CHECK(ifindex == vb_netdev_find(name));
}

static void check_loopback(void *arg)
{
	struct vb_link link;

	CHECK(enter_namespace());
	link = look("lo");
	CHECK(link.loopback && !link.up && !link.n_addrs && link.mtu == 65536);
	expect_default("lo");
	run_ip("link set lo up");
	link = look("lo");
	CHECK(link.up && link.carrier && link.n_addrs == 2);
	CHECK(has(&link, "::ffff:127.0.0.1") && has(&link, "::1"));
	CHECK(link.speed_mbps == 0);
	expect_default("lo");
}

static void check_veth(void *arg)
{
	struct vb_link link;

	CHECK(enter_namespace());
	run_ip("link add v0 address 02:11:22:33:44:55 type veth peer name v1");
	link = look("v0");
	CHECK(!link.up && !link.carrier && !link.loopback && link.has_mac && link.mtu == 1500);
	CHECK(memcmp(link.mac, "\x02\x11\x22\x33\x44\x55", 6) == 0);
	run_ip("link set v0 up");
	link = look("v0");
	CHECK(link.up && !link.carrier);
	run_ip("link set v1 up");
	link = look("v0");
	CHECK(link.up && link.carrier);
	run_ip("link set v0 mtu 9000");
	CHECK(look("v0").mtu == 9000);
	run_ip("addr add 10.1.2.3/24 dev v0");
	run_ip("addr add fd77::1/64 dev v0 nodad");
	run_ip("addr add 10.9.9.9 peer 10.9.9.10/32 dev v0");
	link = look("v0");
	CHECK(has(&link, "::ffff:10.1.2.3") && has(&link, "fd77::1"));
	CHECK(has(&link, "::ffff:10.9.9.9") && !has(&link, "::ffff:10.9.9.10"));
	run_ip("addr del 10.1.2.3/24 dev v0");
	link = look("v0");
	CHECK(!has(&link, "::ffff:10.1.2.3") && has(&link, "fd77::1"));
	run_ip("link del v0");
	CHECK(vb_netdev_read(link.ifindex, &link) == -ENODEV);
	CHECK(link.ifindex == 0 && link.n_addrs == 0);
}

static void check_default(void *arg)
{
	CHECK(enter_namespace());
	run_ip("link set lo up");
	run_ip("link add v0 type veth peer name v1");
	run_ip("link add v2 type veth peer name v3");
	run_ip("addr add 10.1.0.1/24 dev v2");
	expect_default("lo");
	run_ip("link set v0 up");
	run_ip("link set v1 up");
	expect_default("lo"); /* link-local addresses at most */
	run_ip("link set v2 up");
	run_ip("link set v3 up");
	expect_default("v2");
	run_ip("addr add fd11::1/64 dev v1 nodad");
	expect_default(vb_netdev_find("v1") < vb_netdev_find("v2") ? "v1" : "v2");
	run_ip("-6 route add default dev v3");
	expect_default("v3");
	run_ip("route add default dev v1 metric 30");
	expect_default("v1");
	run_ip("route add default dev v2 metric 20");
	expect_default("v2");
	run_ip("route add default dev v0 metric 40");
	run_ip("route add 10.77.0.0/16 dev v0");
	expect_default("v2");
	run_ip("link set v2 down");
	expect_default("v1");
	run_ip("route flush table main");
	run_ip("route add default table 100 dev v0");
	expect_default("v3");
}

/* A link without a MAC of its own. */
static void check_tunnel(void *arg)
{
	struct vb_link a, b;

	CHECK(enter_namespace());
	if (system("PATH=$PATH:/sbin:/usr/sbin ip tuntap add t0 mode tun 2>/dev/null")) {
		fprintf(stderr, "no tunnel devices here\n");
		return;
	}
	run_ip("tuntap add t1 mode tun");
	a = look("t0");
	b = look("t1");
	CHECK(!a.has_mac && (a.mac[0] & 3) == 2 && memcmp(a.mac, b.mac, 6) != 0);
	b = look("t0");
	CHECK(memcmp(a.mac, b.mac, 6) == 0);
}

static void check_many_addresses(void *arg)
{
	struct vb_link link;

	CHECK(enter_namespace());
	run_ip("link add v0 type veth peer name v1");
	CHECK(system("i=0; while [ $i -lt 300 ]; do echo addr add 10.3.$((i/200)).$((i%200))/16 "
		     "dev v0;"
		     " i=$((i+1)); done | PATH=$PATH:/sbin:/usr/sbin ip -batch -") == 0);
	link = look("v0");
	CHECK(link.n_addrs == VB_ADDRS_MAX);
}

static void check_no_descriptors(void *arg)
{
	struct rlimit none = {0, 0};
	struct vb_link link;
	uint32_t ifindex;

	CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
	CHECK(vb_netdev_read(1, &link) == -EMFILE);
	CHECK(vb_netdev_default(&ifindex) == -EMFILE);
}

static void check_nothing_left_open(void *arg)
{
	int before = dup(0), after;
	struct vb_link link;
	uint32_t ifindex;

	close(before);
	for (int i = 0; i < 50; i++) {
		CHECK(vb_netdev_read(1, &link) == 0);
		CHECK(vb_netdev_default(&ifindex) == 0);
		CHECK(vb_netdev_read(0x7ffffff0, &link) == -ENODEV);
	}
	after = dup(0);
	CHECK(before == after);
}

/* A sandbox without sockets. */
static void check_seccomp(void *arg)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_socket, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {sizeof(code) / sizeof(code[0]), code};
	struct vb_link link;
	uint32_t ifindex;

	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) == 0);
	CHECK(vb_netdev_read(1, &link) == -EPERM);
	CHECK(vb_netdev_default(&ifindex) == -EPERM);
	vb_netdev_fallback(&link);
	CHECK(link.loopback && link.up && link.carrier && has(&link, "::ffff:127.0.0.1"));
}

CHECKED_IN_CHILD(loopback)
CHECKED_IN_CHILD(veth)
CHECKED_IN_CHILD(default)
CHECKED_IN_CHILD(tunnel)
CHECKED_IN_CHILD(many_addresses)
CHECKED_IN_CHILD(no_descriptors)
CHECKED_IN_CHILD(nothing_left_open)
CHECKED_IN_CHILD(seccomp)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_loopback),
		cmocka_unit_test(test_veth),
		cmocka_unit_test(test_default),
		cmocka_unit_test(test_many_addresses),
		cmocka_unit_test(test_tunnel),
		cmocka_unit_test(test_no_descriptors),
		cmocka_unit_test(test_nothing_left_open),
		cmocka_unit_test(test_seccomp),
	};

	if (!can_enter_namespace()) {
		fprintf(stderr, "skipped: no network namespaces here\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}

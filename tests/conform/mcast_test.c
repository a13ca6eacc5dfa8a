/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast: who may be in a group, and who gets what is sent to it, in one process and several. */
#include <errno.h>
#include <stdlib.h>
#include <arpa/inet.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "lib/mcast_end.h"
#include "lib/ud_bed.h"

#define GROUP_V4 "239.7.7.7"
#define GROUP_V6 "ff0e::7:7"
#define MQPN	 0xffffffu

static union ibv_gid group;

/* ---- Rules ---- */

static struct ibv_qp *other_type(enum ibv_qp_type type)
{
	return many_qp(&end, type, NULL);
}

static void rules(void *arg)
{
	const char *const wrong[] = {"10.0.0.1", "223.255.255.255", "240.0.0.1",
				     "fe80::1",	 "::e000:1",	    "fd00::1"};
	const char *const right[] = {"224.0.0.1", "239.255.255.255", "ff02::1", "ff0e::1:2"};
	const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC};
	struct ibv_qp copy;

	rule_log_start();
	open_end();
	group = mcast_group(GROUP_V4);
	for (int i = 0; i < 2; i++) {
		struct ibv_qp *qp = other_type(types[i]);

		CHECK(ibv_attach_mcast(qp, &group, 0) == EINVAL && rule_said("attach-mcast-type"));
		CHECK(ibv_detach_mcast(qp, &group, 0) == EINVAL && rule_said("detach-mcast"));
		CHECK(ibv_destroy_qp(qp) == 0);
	}
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		union ibv_gid gid = mcast_group(wrong[i]);

		CHECK(ibv_attach_mcast(end.qp, &gid, 0) == EINVAL);
		CHECK(i || rule_said("attach-mcast-gid"));
		CHECK(ibv_detach_mcast(end.qp, &gid, 0) == EINVAL);
	}
	/* In any state; the LID says nothing. */
	for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
		union ibv_gid gid = mcast_group(right[i]);

		CHECK(ibv_attach_mcast(end.qp, &gid, (uint16_t)(i * 0xc000)) == 0);
		CHECK(ibv_destroy_qp(end.qp) == EBUSY && (i || rule_said("busy")));
		CHECK(ibv_detach_mcast(end.qp, &gid, 0) == 0);
		CHECK(ibv_detach_mcast(end.qp, &gid, 0) == EINVAL);
	}
	/* Twice is once. */
	CHECK(ibv_attach_mcast(end.qp, &group, 0) == 0);
	CHECK(ibv_attach_mcast(end.qp, &group, 0) == 0);
	CHECK(ibv_detach_mcast(end.qp, &group, 0) == 0);
	CHECK(ibv_detach_mcast(end.qp, &group, 0) == EINVAL);
	copy = *end.qp;
	copy.handle += 1000;
	CHECK(ibv_attach_mcast(&copy, &group, 0) == ENOENT);
	CHECK(ibv_detach_mcast(&copy, &group, 0) == ENOENT);
	close_end();
}
CASE_IN_CHILD(rules)

/* So many groups, so many QPs in each, and not one more. */
static void limits(void *arg)
{
	struct ibv_device_attr attr;
	union ibv_gid gid = mcast_group("ff0e::1");
	struct ibv_qp **qps;

	rule_log_start();
	open_end();
	CHECK(ibv_query_device(end.context, &attr) == 0);
	CHECK(attr.max_mcast_grp > 0 && attr.max_mcast_qp_attach > 0);
	CHECK(attr.max_total_mcast_qp_attach == attr.max_mcast_grp * attr.max_mcast_qp_attach);
	qps = calloc((size_t)attr.max_mcast_qp_attach + 1, sizeof(*qps));
	CHECK(qps);
	for (int i = 0; i <= attr.max_mcast_qp_attach; i++)
		qps[i] = other_type(IBV_QPT_UD);
	for (int round = 0; round < 2; round++) {
		for (int g = 0; g < attr.max_mcast_grp; g++) {
			gid.raw[15] = (uint8_t)g;
			for (int i = 0; i < attr.max_mcast_qp_attach; i++)
				CHECK(ibv_attach_mcast(qps[i], &gid, 0) == 0);
			CHECK(ibv_attach_mcast(qps[attr.max_mcast_qp_attach], &gid, 0) == ENOMEM);
		}
		CHECK(round || rule_said("attach-mcast-qps"));
		gid.raw[14] = 1;
		CHECK(ibv_attach_mcast(qps[0], &gid, 0) == ENOMEM);
		CHECK(round || rule_said("attach-mcast-groups"));
		gid.raw[14] = 0;
		for (int g = 0; g < attr.max_mcast_grp; g++) {
			gid.raw[15] = (uint8_t)g;
			for (int i = 0; i < attr.max_mcast_qp_attach; i++)
				CHECK(ibv_detach_mcast(qps[i], &gid, 0) == 0);
		}
	}
	for (int i = 0; i <= attr.max_mcast_qp_attach; i++)
		CHECK(ibv_destroy_qp(qps[i]) == 0);
	free(qps);
	close_end();
}
CASE_IN_CHILD(limits)

static void descriptors(void *arg)
{
	struct rlimit limit, none;
	int fd;

	rule_log_start();
	rule_log_on_stderr();
	open_end();
	group = mcast_group(GROUP_V4);
	CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	fd = dup(2);
	CHECK(fd >= 0 && close(fd) == 0);
	none = limit;
	none.rlim_cur = (rlim_t)fd;
	CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
	CHECK(ibv_attach_mcast(end.qp, &group, 0) == EMFILE);
	CHECK(rule_said("attach-mcast-descriptors"));
	CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	CHECK(ibv_attach_mcast(end.qp, &group, 0) == 0);
	CHECK(ibv_detach_mcast(end.qp, &group, 0) == 0);
	close_end();
}
CASE_IN_CHILD(descriptors)

/* ---- One process ---- */

#define MEMBERS 3

static struct ibv_qp *member[MEMBERS];
static struct ibv_ah *to_group;

static struct ibv_qp *new_up(uint32_t qkey)
{
	struct ibv_qp *keep = end.qp, *qp = other_type(IBV_QPT_UD);
	struct ibv_qp_attr attr = {.qkey = qkey};

	end.qp = qp;
	many_up(&end, 0, NULL, 0);
	end.qp = keep;
	CHECK(ibv_modify_qp(qp, &attr, IBV_QP_QKEY) == 0);
	return qp;
}

static void open_members(const char *text)
{
	open_up();
	group = mcast_group(text);
	to_group = many_ah(end.pd, mcast_source(end.context, &group), &group);
	for (int i = 0; i < MEMBERS; i++) {
		member[i] = new_up(MANY_QKEY);
		CHECK(ibv_attach_mcast(member[i], &group, 0) == 0);
	}
}

static void close_members(void)
{
	for (int i = 0; i < MEMBERS; i++) {
		CHECK(ibv_detach_mcast(member[i], &group, 0) == 0);
		CHECK(ibv_destroy_qp(member[i]) == 0);
	}
	CHECK(ibv_destroy_ah(to_group) == 0);
	close_end();
}

static void give_receive(struct ibv_qp *qp, uint64_t slot, uint32_t bytes)
{
	struct ibv_qp *keep = end.qp;

	end.qp = qp;
	recv_slot(slot, bytes);
	end.qp = keep;
}

static void send_group(uint32_t bytes, enum ibv_wr_opcode opcode)
{
	datagram(opcode, bytes, MQPN, MANY_QKEY, to_group, 0, IBV_WC_SUCCESS);
}

/* The completions of n receives, in any order; what each QP got. */
static void expect(int n, uint32_t bytes, unsigned int flags, uint32_t seen[MEMBERS])
{
	memset(seen, 0, MEMBERS * sizeof(*seen));
	for (int i = 0; i < n; i++) {
		struct ibv_wc wc;
		int which = 0;
		const uint8_t *got;

		wait_wc(end.recv_cq, &wc);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.byte_len == MANY_GRH + bytes);
		CHECK(wc.wc_flags == (IBV_WC_GRH | flags) && wc.src_qp == end.qp->qp_num);
		CHECK(!flags || be32toh(wc.imm_data) == 0x1234);
		while (which < MEMBERS && member[which]->qp_num != wc.qp_num)
			which++;
		CHECK(which < MEMBERS);
		seen[which]++;
		got = in.bytes + wc.wr_id * in.size;
		CHECK(!memcmp(got + MANY_GRH, in.bytes + 63 * in.size, bytes));
		if (is_ipv4(group.raw))
			CHECK(got[20] == 0x45 && !memcmp(got + 36, group.raw + 12, 4));
		else
			CHECK(got[0] >> 4 == 6 && !memcmp(got + 24, group.raw, 16));
	}
}

/* One look more, when everything sent has surely arrived. */
static void nothing_more(void)
{
	CHECK(no_wc(end.recv_cq));
}

static void each_gets_one(const char *text)
{
	const uint32_t sizes[] = {0, 1, 24, 64, 1000, 1024};
	uint32_t seen[MEMBERS];

	open_members(text);
	for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
		bool imm = k % 2;

		for (uint64_t i = 0; i < MEMBERS; i++)
			give_receive(member[i], i, 8192);
		recv_slot(10, 8192); /* of the sender, which is not in the group */
		send_group(sizes[k], imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND);
		expect(MEMBERS, sizes[k], imm ? IBV_WC_WITH_IMM : 0, seen);
		for (int i = 0; i < MEMBERS; i++)
			CHECK(seen[i] == 1);
		nothing_more();
	}
	close_members();
}

static void group_v4(void *arg)
{
	each_gets_one(GROUP_V4);
}
CASE_IN_CHILD(group_v4)

static void group_v6(void *arg)
{
	each_gets_one(GROUP_V6);
}
CASE_IN_CHILD(group_v6)

/* A QP attached twice, one that left, one whose receive is too short, one without any, one of
 * another Q_Key: nobody else notices, the sender least of all. */
static void of_no_concern(void *arg)
{
	struct ibv_qp *stranger;
	uint32_t seen[MEMBERS];

	open_members(GROUP_V4);
	stranger = new_up(0x22222222);
	CHECK(ibv_attach_mcast(stranger, &group, 0) == 0);
	CHECK(ibv_attach_mcast(member[0], &group, 0) == 0);
	give_receive(stranger, 20, 8192);
	for (uint64_t i = 0; i < 4; i++)
		give_receive(member[0], i, 8192);
	give_receive(member[1], 4, MANY_GRH + 3);
	send_group(64, IBV_WR_SEND);
	expect(1, 64, 0, seen);
	CHECK(seen[0] == 1);
	nothing_more();
	CHECK(ibv_detach_mcast(member[2], &group, 0) == 0);
	give_receive(member[2], 5, 8192);
	give_receive(member[1], 6, 8192);
	send_group(32, IBV_WR_SEND);
	expect(2, 32, 0, seen);
	CHECK(seen[0] == 1 && seen[1] == 1);
	CHECK(ibv_attach_mcast(member[2], &group, 0) == 0);
	send_group(16, IBV_WR_SEND);
	expect(2, 16, 0, seen);
	CHECK(seen[0] == 1 && seen[2] == 1);
	/* To the group's address and another QP number: for nobody. */
	datagram(IBV_WR_SEND, 8, member[0]->qp_num, MANY_QKEY, to_group, 0, IBV_WC_SUCCESS);
	/* To the number and the address of a host: neither. */
	datagram(IBV_WR_SEND, 8, MQPN, MANY_QKEY, self, 0, IBV_WC_SUCCESS);
	send_group(4, IBV_WR_SEND);
	expect(1, 4, 0, seen);
	CHECK(seen[0] == 1);
	nothing_more();
	CHECK(ibv_detach_mcast(stranger, &group, 0) == 0);
	CHECK(ibv_destroy_qp(stranger) == 0);
	close_members();
}
CASE_IN_CHILD(of_no_concern)

/* A sender that is in the group gets its own, unless it asked not to. */
static void own_copies(void *arg)
{
	struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_UD,
					   .cap = {8, 8, 1, 1, 0},
					   .comp_mask = IBV_QP_INIT_ATTR_PD |
							IBV_QP_INIT_ATTR_CREATE_FLAGS,
					   .create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB};
	struct ibv_qp *keep;
	struct ibv_wc wc;

	open_up();
	group = mcast_group(GROUP_V4);
	to_group = many_ah(end.pd, mcast_source(end.context, &group), &group);
	CHECK(ibv_attach_mcast(end.qp, &group, 0) == 0);
	recv_slot(0, 8192);
	send_group(64, IBV_WR_SEND);
	wait_wc(end.recv_cq, &wc);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.qp_num == end.qp->qp_num);
	attr.pd = end.pd;
	attr.send_cq = end.send_cq;
	attr.recv_cq = end.recv_cq;
	keep = end.qp;
	attr.qp_type = IBV_QPT_RC;
	CHECK(!ibv_create_qp_ex(end.context, &attr) && errno == EOPNOTSUPP);
	attr.qp_type = IBV_QPT_UD;
	end.qp = ibv_create_qp_ex(end.context, &attr);
	CHECK(end.qp);
	many_up(&end, 0, NULL, 0);
	CHECK(ibv_attach_mcast(end.qp, &group, 0) == 0);
	recv_slot(1, 8192);
	give_receive(keep, 2, 8192);
	give_receive(keep, 3, 8192);
	/* Its own it does not get, others do, and it gets those of others. */
	send_group(64, IBV_WR_SEND);
	wait_wc(end.recv_cq, &wc);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 2 && wc.src_qp == end.qp->qp_num);
	{
		struct ibv_qp *blocked = end.qp;

		end.qp = keep;
		send_group(64, IBV_WR_SEND);
		for (int i = 0; i < 2; i++) {
			wait_wc(end.recv_cq, &wc);
			CHECK(wc.src_qp == keep->qp_num && (wc.wr_id == 1 || wc.wr_id == 3));
		}
		nothing_more();
		CHECK(ibv_detach_mcast(blocked, &group, 0) == 0);
		CHECK(ibv_destroy_qp(blocked) == 0);
	}
	CHECK(ibv_detach_mcast(end.qp, &group, 0) == 0);
	CHECK(ibv_destroy_ah(to_group) == 0);
	close_end();
}
CASE_IN_CHILD(own_copies)

/* ---- Several processes ---- */

#define PROCESSES 4
#define COUNT	  50

/* Members that come before and after the first message, leave, or die. */
static void come_and_go(void *arg)
{
	struct mcast_end e[PROCESSES], late;

	for (int i = 0; i < PROCESSES; i++) {
		mcast_start(&e[i], 1 + i % 3);
		mcast_tell(&e[i], "attach %s", GROUP_V4);
	}
	mcast_tell(&e[0], "send %s 0 0 %d 1024", GROUP_V4, COUNT);
	for (int i = 0; i < PROCESSES; i++)
		mcast_tell(&e[i], "wait 0 %d", COUNT);
	/* What the newcomer is sent from the moment on that it is attached, it gets. */
	mcast_start(&late, 2);
	mcast_tell(&late, "attach %s", GROUP_V6);
	mcast_tell(&e[0], "send %s 1 0 1 100", GROUP_V6);
	mcast_tell(&late, "wait 1 1");
	mcast_tell(&late, "detach %s", GROUP_V6);
	mcast_tell(&late, "attach %s", GROUP_V4);
	mcast_tell(&late, "send %s 2 0 %d 1024", GROUP_V4, COUNT);
	mcast_tell(&late, "wait 2 %d", COUNT);
	for (int i = 0; i < PROCESSES; i++)
		mcast_tell(&e[i], "wait 2 %d", COUNT);
	mcast_kill(&e[1]);
	mcast_tell(&e[2], "detach %s", GROUP_V4);
	mcast_tell(&e[0], "send %s 0 %d %d 8", GROUP_V4, COUNT, COUNT);
	mcast_tell(&e[3], "wait 0 %d", 2 * COUNT);
	mcast_tell(&e[0], "wait 0 %d", 2 * COUNT);
	/* Who was away has missed those, and only those. */
	mcast_tell(&e[2], "attach %s", GROUP_V4);
	mcast_tell(&e[3], "send %s 0 %d 1 8", GROUP_V4, 2 * COUNT);
	mcast_tell(&e[2], "got 0 %d", 2 * COUNT + 1);
	for (int i = 0; i < PROCESSES; i++) {
		if (i == 1)
			continue;
		mcast_tell(&e[i], "detach %s", GROUP_V4);
		mcast_stop(&e[i]);
	}
	mcast_tell(&late, "detach %s", GROUP_V4);
	mcast_stop(&late);
}
CASE_IN_CHILD(come_and_go)

/* Two groups at once: each process gets those it is in. */
static void two_groups(void *arg)
{
	struct mcast_end a, b;

	mcast_start(&a, 2);
	mcast_start(&b, 1);
	mcast_tell(&a, "attach 239.1.1.1");
	mcast_tell(&b, "attach 239.1.1.2");
	for (uint32_t i = 0; i < 20; i++) {
		mcast_tell(&a, "send 239.1.1.2 2 %u 1 64", i);
		mcast_tell(&b, "send 239.1.1.1 1 %u 1 64", i);
	}
	mcast_tell(&a, "wait 1 20");
	mcast_tell(&b, "wait 2 20");
	mcast_tell(&a, "wait 2 0");
	mcast_tell(&b, "wait 1 0");
	mcast_tell(&a, "detach 239.1.1.1");
	mcast_tell(&b, "detach 239.1.1.2");
	mcast_stop(&a);
	mcast_stop(&b);
}
CASE_IN_CHILD(two_groups)

/* From an address of the other protocol: members on this host get it, and it is said that others
 * do not. */
static void mixed(void *arg)
{
	uint32_t seen[MEMBERS];
	union ibv_gid v6;

	if (!enter_namespace())
		return;
	run_ip("link add eth0 type veth peer name eth1");
	run_ip("addr add 10.77.0.1/24 dev eth0");
	run_ip("link set lo up");
	run_ip("link set eth0 up");
	run_ip("link set eth1 up");
	rule_log_start();
	open_members(GROUP_V4);
	CHECK(!rule_said("mcast-join") && !rule_said("mcast-source"));
	CHECK(ibv_destroy_ah(to_group) == 0);
	v6 = mcast_group("ff0e::1");
	to_group = many_ah(end.pd, mcast_source(end.context, &v6), &group);
	CHECK(rule_said("mcast-source"));
	for (uint64_t i = 0; i < MEMBERS; i++)
		give_receive(member[i], i, 8192);
	send_group(64, IBV_WR_SEND);
	expect(MEMBERS, 64, 0, seen);
	nothing_more();
	close_members();
}
CASE_IN_CHILD(mixed)

/* Where the port is another program's, what is sent within the host arrives all the same. */
static void port_taken(void *arg)
{
	struct sockaddr_in port = {.sin_family = AF_INET, .sin_port = htons(4791)};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	uint32_t seen[MEMBERS];

	if (!enter_namespace())
		return;
	close(fd);
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	run_ip("link set lo up");
	CHECK(bind(fd, (struct sockaddr *)&port, sizeof(port)) == 0);
	rule_log_start();
	open_members(GROUP_V4);
	CHECK(rule_said("mcast-join"));
	for (uint64_t i = 0; i < MEMBERS; i++)
		give_receive(member[i], i, 8192);
	send_group(64, IBV_WR_SEND);
	expect(MEMBERS, 64, 0, seen);
	close_members();
	close(fd);
}
CASE_IN_CHILD(port_taken)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rules),	    cmocka_unit_test(test_limits),
		cmocka_unit_test(test_descriptors), cmocka_unit_test(test_group_v4),
		cmocka_unit_test(test_group_v6),    cmocka_unit_test(test_of_no_concern),
		cmocka_unit_test(test_own_copies),  cmocka_unit_test(test_come_and_go),
		cmocka_unit_test(test_two_groups),  cmocka_unit_test(test_port_taken),
		cmocka_unit_test(test_mixed),
	};

	mcast_main(argc, argv);
	run_only();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

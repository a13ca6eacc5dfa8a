/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/members.h"

#include <errno.h>
#include <sys/un.h>

#include "unit/host/other.h"

#define DEVICE "memberstest0"

static const char *runtime;
static struct vb_adapter *a;
static struct vb_members m;
static uint32_t index_of_qp, qpn;

static const uint8_t one[16] = {[10] = 0xff, 0xff, 239, 1, 1, 1};
static const uint8_t two[16] = {0xff, 0x0e, [15] = 2};

static int open_one(struct vb_adapter **adapter, struct vb_members *members, uint32_t *number)
{
	uint32_t index;

	if (vb_adapter_open(DEVICE, adapter) ||
	    vb_adapter_new_index(*adapter, VB_NUMBER_QP, &index, number))
		return -1;
	index_of_qp = index;
	vb_members_init(members, *adapter);
	return 0;
}

static int set_up(void **state)
{
	return open_one(&a, &m, &qpn);
}

static int tear_down(void **state)
{
	vb_members_fini(&m);
	vb_adapter_free_index(a, VB_NUMBER_QP, index_of_qp);
	vb_adapter_close(a);
	return count_files(runtime);
}

/* Takes part, is in group one, says its number, and leaves it when told. */
static int role_member(void)
{
	struct vb_members mine;
	struct vb_adapter *adapter;
	uint32_t number;

	if (open_one(&adapter, &mine, &number) || vb_members_enter(&mine) ||
	    vb_members_add(&mine, one, number) != 1)
		return 1;
	say(&number, sizeof(number));
	if (listen_for_command() && vb_members_remove(&mine, one, number) != 1)
		return 2;
	say(&number, sizeof(number));
	listen_for_command();
	vb_members_fini(&mine);
	vb_adapter_close(adapter);
	return 0;
}

const struct role roles[] = {
	{"member", role_member},
	{NULL, NULL},
};

static bool takes_part(uint32_t block)
{
	uint64_t set[VB_BLOCKS / 64];

	vb_members_processes(&m, set);
	return set[block / 64] & 1ull << block % 64;
}

static uint32_t how_many(void)
{
	uint64_t set[VB_BLOCKS / 64];
	uint32_t n = 0;

	vb_members_processes(&m, set);
	for (uint32_t i = 0; i < VB_BLOCKS / 64; i++)
		n += (uint32_t)__builtin_popcountll(set[i]);
	return n;
}

static void test_lines(void **state)
{
	static const struct {
		const char *line;
		uint32_t block;
	} cases[] = {
		{"0000000000000000: 00000002 00000000 00000000 0002 01 8157 @verbena/dev0/mcast/17",
		 17},
		{"x @verbena/dev0/mcast/4094", 4094},
		{"x @verbena/dev0/mcast/4095", 0},
		{"x @verbena/dev0/mcast/0", 0},
		{"x @verbena/dev0/mcast/007", 0},
		{"x @verbena/dev0/mcast/-7", 0},
		{"x @verbena/dev0/mcast/+7", 0},
		{"x @verbena/dev0/mcast/ 7", 0},
		{"x @verbena/dev0/mcast/7x", 0},
		{"x @verbena/dev0/mcast/99999999999999999999", 0},
		{"x @verbena/dev0/mcast/", 0},
		{"x @verbena/dev0/17", 0},
		{"x @verbena/dev01/mcast/17", 0},
		{"x @verbena/dev/mcast/17", 0},
		{"x /tmp/verbena/dev0/mcast/17", 0},
		{"x", 0},
		{"", 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(vb_members_line(cases[i].line, "dev0"), cases[i].block);
}

static void test_groups(void **state)
{
	uint32_t qpns[VB_MCAST_QPS];
	uint8_t gid[16];
	int groups = 0;

	assert_int_equal(vb_members_of(a->self, one, qpns), 0);
	assert_int_equal(vb_members_remove(&m, one, qpn), -ENOENT);
	assert_int_equal(vb_members_add(&m, one, qpn), 1);
	assert_int_equal(vb_members_add(&m, one, qpn), -EALREADY);
	assert_int_equal(vb_members_add(&m, one, qpn + 1), 0);
	assert_int_equal(vb_members_add(&m, two, qpn + 1), 1);
	assert_int_equal(vb_members_of(a->self, one, qpns), 2);
	assert_int_equal(qpns[0] + qpns[1], 2 * qpn + 1);
	assert_int_equal(vb_members_of(a->self, two, qpns), 1);
	assert_int_equal(qpns[0], qpn + 1);
	for (uint32_t i = 0; i < VB_MCAST_GROUPS; i++)
		if (vb_members_group(&m, i, gid))
			groups += 1 + !memcmp(gid, two, 16);
	assert_int_equal(groups, 3);
	assert_int_equal(vb_members_remove(&m, two, qpn), -ENOENT);
	assert_int_equal(vb_members_remove(&m, one, qpn), 0);
	assert_int_equal(vb_members_remove(&m, one, qpn), -ENOENT);
	assert_int_equal(vb_members_of(a->self, one, qpns), 1);
	assert_int_equal(vb_members_remove(&m, one, qpn + 1), 1);
	assert_int_equal(vb_members_of(a->self, one, qpns), 0);
	/* Its row serves another group. */
	assert_int_equal(vb_members_add(&m, one, 77), 1);
	assert_int_equal(vb_members_of(a->self, one, qpns), 1);
	assert_int_equal(vb_members_remove(&m, one, 77), 1);
	assert_int_equal(vb_members_remove(&m, two, qpn + 1), 1);
}

static void test_limits(void **state)
{
	uint8_t gid[16] = {0xff, 0x0e};
	uint32_t qpns[VB_MCAST_QPS];

	for (uint32_t g = 0; g < VB_MCAST_GROUPS; g++) {
		gid[15] = (uint8_t)g;
		for (uint32_t i = 1; i <= VB_MCAST_QPS; i++)
			assert_int_equal(vb_members_add(&m, gid, i), i == 1);
		assert_int_equal(vb_members_add(&m, gid, VB_MCAST_QPS + 1), -EMLINK);
		assert_int_equal(vb_members_add(&m, gid, 1), -EALREADY);
		assert_int_equal(vb_members_of(a->self, gid, qpns), VB_MCAST_QPS);
	}
	assert_int_equal(vb_members_add(&m, one, 1), -ENOSPC);
	for (uint32_t i = 1; i <= VB_MCAST_QPS; i++)
		assert_int_equal(vb_members_remove(&m, gid, i), i == VB_MCAST_QPS);
	assert_int_equal(vb_members_add(&m, one, 1), 1);
}

/* Who comes is seen from then on, without a look at the list in between; so is who came
 * while nobody looked. */
static void test_directory(void **state)
{
	uint32_t number[3], qpns[VB_MCAST_QPS];
	struct other other[3];
	struct vb_peer *peer;

	other[0] = other_start("member", NULL);
	assert_true(other_hear(&other[0], &number[0], sizeof(number[0])));
	assert_int_equal(vb_members_enter(&m), 0);
	assert_int_equal(vb_members_enter(&m), 0);
	assert_int_equal(how_many(), 2);
	for (int i = 1; i < 3; i++) {
		other[i] = other_start("member", NULL);
		assert_true(other_hear(&other[i], &number[i], sizeof(number[i])));
	}
	assert_int_equal(how_many(), 4);
	assert_true(takes_part(a->block[0]));
	for (int i = 0; i < 3; i++) {
		assert_true(takes_part(number[i] >> VB_BLOCK_BITS));
		assert_int_equal(vb_peer_get(a, number[i] >> VB_BLOCK_BITS, &peer), 0);
		assert_int_equal(vb_members_of(peer, one, qpns), 1);
		assert_int_equal(qpns[0], number[i]);
		assert_int_equal(vb_members_of(peer, two, qpns), 0);
		/* It leaves: seen at once. */
		other_tell(&other[i], "x", 1);
		assert_true(other_hear(&other[i], &number[i], sizeof(number[i])));
		assert_int_equal(vb_members_of(peer, one, qpns), 0);
		vb_peer_put(peer);
	}
	vb_members_gone(&m, number[0] >> VB_BLOCK_BITS);
	vb_members_gone(&m, a->block[0]);
	assert_false(takes_part(number[0] >> VB_BLOCK_BITS));
	assert_true(takes_part(a->block[0]));
	for (int i = 0; i < 3; i++)
		assert_int_equal(other_end(&other[i], 0), 0);
}

/* However many came while nobody looked: the queue holds fewer bytes than that. */
static void test_full_queue(void **state)
{
	struct sockaddr_un to;
	socklen_t len = vb_members_address(DEVICE, a->block[0], &to);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	uint32_t number;
	struct other other;
	int sent = 0;

	assert_int_equal(vb_members_enter(&m), 0);
	while (sendto(fd, "", 1, 0, (struct sockaddr *)&to, len) == 1)
		sent++;
	assert_true(sent > 0);
	other = other_start("member", NULL);
	assert_true(other_hear(&other, &number, sizeof(number)));
	assert_true(takes_part(number >> VB_BLOCK_BITS));
	close(fd);
	assert_int_equal(other_end(&other, SIGKILL), SIGKILL);
}

/* Somebody else has the name, of whatever user: then the list is read each time. */
static void test_name_taken(void **state)
{
	struct sockaddr_un name;
	socklen_t len = vb_members_address(DEVICE, a->block[0], &name);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint32_t number;
	struct other other;

	assert_int_equal(bind(fd, (struct sockaddr *)&name, len), 0);
	assert_int_equal(vb_members_enter(&m), 0);
	assert_true(takes_part(a->block[0]));
	other = other_start("member", NULL);
	assert_true(other_hear(&other, &number, sizeof(number)));
	assert_true(takes_part(number >> VB_BLOCK_BITS));
	assert_int_equal(other_end(&other, SIGKILL), SIGKILL);
	close(fd);
}

/* As many descriptors as are open, and more. */
static rlim_t allow_more(int more)
{
	struct rlimit limit;
	rlim_t before;
	int free = dup(0);

	assert_true(free >= 0);
	close(free);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	before = limit.rlim_cur;
	limit.rlim_cur = (rlim_t)(free + more);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	return before;
}

static void allow(rlim_t descriptors)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = descriptors;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* Who cannot read the list now has not heard of nobody: it knows who was there, and who came is
 * seen as soon as it can. */
static void test_no_descriptor_for_the_list(void **state)
{
	uint32_t number[2];
	struct other other[2];
	bool known;
	rlim_t most;

	other[0] = other_start("member", NULL);
	assert_true(other_hear(&other[0], &number[0], sizeof(number[0])));
	assert_int_equal(vb_members_enter(&m), 0);
	other[1] = other_start("member", NULL);
	assert_true(other_hear(&other[1], &number[1], sizeof(number[1])));
	most = allow_more(0);
	known = takes_part(number[0] >> VB_BLOCK_BITS) && takes_part(a->block[0]);
	allow(most);
	assert_true(known);
	assert_true(takes_part(number[1] >> VB_BLOCK_BITS));
	assert_int_equal(how_many(), 3);
	for (int i = 0; i < 2; i++)
		assert_int_equal(other_end(&other[i], SIGKILL), SIGKILL);
}

/* Nor has it told anybody that it came. */
static void test_no_descriptor_to_enter(void **state)
{
	uint32_t number;
	struct other other = other_start("member", NULL);

	assert_true(other_hear(&other, &number, sizeof(number)));
	for (int more = 0; more < 2; more++) {
		rlim_t most = allow_more(more);
		int err = vb_members_enter(&m);

		allow(most);
		assert_int_equal(err, -EMFILE);
		assert_false(m.entered);
		assert_int_equal(m.fd, -1);
	}
	assert_int_equal(vb_members_enter(&m), 0);
	assert_int_equal(how_many(), 2);
	assert_int_equal(other_end(&other, SIGKILL), SIGKILL);
}

/* Names of others between ours, longer than a reading and than a line of ours. */
static void test_long_list(void **state)
{
	int fds[200], pair[2];
	uint32_t number;
	struct other other;

	for (int i = 0; i < 200; i++) {
		struct sockaddr_un name = {.sun_family = AF_UNIX};

		memset(name.sun_path + 1, i % 2 ? 'x' : '\n', sizeof(name.sun_path) - 1);
		memcpy(name.sun_path + 1, &i, sizeof(i));
		fds[i] = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		assert_int_equal(bind(fds[i], (struct sockaddr *)&name, sizeof(name)), 0);
	}
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	other = other_start("member", NULL);
	assert_true(other_hear(&other, &number, sizeof(number)));
	assert_int_equal(vb_members_enter(&m), 0);
	assert_int_equal(how_many(), 2);
	assert_true(takes_part(number >> VB_BLOCK_BITS));
	assert_int_equal(other_end(&other, SIGKILL), SIGKILL);
	for (int i = 0; i < 200; i++)
		close(fds[i]);
	close(pair[0]);
	close(pair[1]);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		TEST(test_groups),
		TEST(test_limits),
		TEST(test_directory),
		TEST(test_full_queue),
		TEST(test_name_taken),
		TEST(test_long_list),
		TEST(test_no_descriptor_for_the_list),
		TEST(test_no_descriptor_to_enter),
	};

	int failed;

	other_main(argc, argv);
	runtime = private_runtime(argv);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(runtime);
	return failed;
}

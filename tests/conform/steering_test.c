/* SPDX-License-Identifier: BSD-2-Clause */
/* Processes that share port 4791: each gets its own packets from the kernel, while another one is
 * stopped and takes none. Where the kernel is told wrong they are handed over. */
#include <signal.h>
#include <sys/wait.h>

#include "lib/forge.h"
#include "lib/ud_bed.h"

#define PORTS	 64 /* by chance alone some would go to each process */
#define SIBLINGS 4

static struct remote sibling[SIBLINGS];

static void make_host(void)
{
	CHECK(enter_namespace());
	run_ip("link set lo up");
	run_ip("link add eth0 type veth peer name eth1");
	run_ip("link set eth0 up");
	run_ip("link set eth1 up");
	run_ip("addr add 10.77.0.1/24 dev eth0");
	run_ip("addr add fd77::1/64 dev eth0 nodad");
	CHECK(!setenv("VERBENA_NETDEV", "eth0", 1));
	wait_reachable("fd77::1");
}

static void start(void)
{
	make_host();
	open_up();
	for (uint64_t i = 0; i < 16; i++)
		recv_slot(i, in.size);
}

static void arrives(uint32_t number)
{
	uint32_t got;
	struct ibv_wc wc;

	wait_wc(end.recv_cq, &wc);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.byte_len == MANY_GRH + FORGED_BYTES);
	memcpy(&got, in.bytes + wc.wr_id * in.size + MANY_GRH + 4, 4);
	CHECK(got == number);
	recv_slot(wc.wr_id, in.size);
}

/* From many ports, over either protocol, one after the other. */
static void all_arrive(void)
{
	for (uint32_t i = 0; i < PORTS; i++) {
		forge_one("10.77.0.1", (uint16_t)(50000 + i), "10.77.0.1", end.qp->qp_num, i);
		arrives(i);
		forge_one("fd77::1", (uint16_t)(50000 + i), "fd77::1", end.qp->qp_num, 1000 + i);
		arrives(1000 + i);
	}
}

static void send_all(int signo)
{
	int status;

	for (int i = 0; i < SIBLINGS; i++)
		if (sibling[i].pid > 0)
			CHECK(kill(sibling[i].pid, signo) == 0);
	for (int i = 0; signo == SIGSTOP && i < SIBLINGS; i++)
		if (sibling[i].pid > 0)
			CHECK(waitpid(sibling[i].pid, &status, WUNTRACED) == sibling[i].pid);
}

/* With all others stopped. */
static void alone(void)
{
	send_all(SIGSTOP);
	all_arrive();
	send_all(SIGCONT);
}

static void come(int i)
{
	remote_start(&sibling[i], (uint32_t)i + 1, IBV_QPT_UD, NULL);
}

static void leave(int i, bool killed)
{
	if (killed)
		remote_kill(&sibling[i]);
	else
		remote_quit(&sibling[i]);
	sibling[i].pid = 0;
}

/* Those that come, leave and die take numbers, and move into the numbers of others. */
static void stopped_siblings(void *arg)
{
	come(0);
	alone();
	come(1);
	come(2);
	alone();
	leave(0, false);
	alone();
	come(0);
	come(3);
	alone();
	leave(1, true);
	/* Whoever comes next puts it right. */
	come(1);
	alone();
	for (int i = 0; i < SIBLINGS; i++)
		leave(i, false);
	alone();
}

static void first_of_all(void *arg)
{
	start();
	stopped_siblings(NULL);
	close_end();
}
CASE_IN_CHILD(first_of_all)

static void one_was_there(void *arg)
{
	struct remote before;

	make_host();
	remote_start(&before, 9, IBV_QPT_UD, NULL);
	open_up();
	for (uint64_t i = 0; i < 16; i++)
		recv_slot(i, in.size);
	sibling[0] = before;
	alone();
	/* Ours moves into its number. */
	come(1);
	leave(0, false);
	alone();
	leave(1, false);
	close_end();
}
CASE_IN_CHILD(one_was_there)

/* Who comes next has the slot in the registry of one that was killed, and another number: ours is
 * that of the dead one now. */
static void slot_used_again(void *arg)
{
	make_host();
	come(0);
	come(1);
	open_up();
	for (uint64_t i = 0; i < 16; i++)
		recv_slot(i, in.size);
	alone();
	leave(0, true);
	come(0);
	alone();
	leave(0, true);
	leave(1, false);
	come(1);
	alone();
	leave(1, false);
	close_end();
}
CASE_IN_CHILD(slot_used_again)

/* A socket of somebody else was there first, and leaves: the last one takes its number, and the
 * account is wrong. Everything arrives, by way of the others; after some time by chance alone. */
static void account_is_wrong(void *arg)
{
	union address any;
	socklen_t size = address(&any, "0.0.0.0", VB_UDP_PORT);
	int fd, one = 1;

	make_host();
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)) == 0);
	CHECK(bind(fd, &any.any, size) == 0);
	open_up();
	for (uint64_t i = 0; i < 16; i++)
		recv_slot(i, in.size);
	come(0);
	close(fd);
	for (int i = 0; i < 200; i++)
		all_arrive();
	leave(0, false);
	close_end();
}
CASE_IN_CHILD(account_is_wrong)

/* Switched off, the same. */
static void switched_off(void *arg)
{
	CHECK(!setenv("VERBENA_STEERING", "0", 1));
	start();
	come(0);
	come(1);
	all_arrive();
	leave(0, true);
	all_arrive();
	leave(1, false);
	close_end();
}
CASE_IN_CHILD(switched_off)

/* Processes with devices of other names, each of which keeps an account of its own. */
static void other_devices(void *arg)
{
	start();
	CHECK(!setenv("VERBENA_DEVICES", "other", 1));
	come(0);
	come(1);
	CHECK(!setenv("VERBENA_DEVICES", "third", 1));
	come(2);
	all_arrive();
	leave(0, false);
	all_arrive();
	leave(2, true);
	all_arrive();
	leave(1, false);
	close_end();
}
CASE_IN_CHILD(other_devices)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_of_all),	cmocka_unit_test(test_one_was_there),
		cmocka_unit_test(test_slot_used_again), cmocka_unit_test(test_account_is_wrong),
		cmocka_unit_test(test_switched_off),	cmocka_unit_test(test_other_devices),
	};

	many_main(argc, argv);
	if (!can_enter_namespace()) {
		puts("network namespaces are forbidden here");
		return 77;
	}
	run_only();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

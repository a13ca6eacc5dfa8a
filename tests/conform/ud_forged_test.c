/* SPDX-License-Identifier: BSD-2-Clause */
/* UD packets that no adapter of ours has made: a QP takes those that were sent to its port. */
#include "lib/forge.h"
#include "lib/ud_bed.h"

/* The kernel chooses a process by the sender's port. So few at once that the short queue between
 * processes holds them. */
#define PORTS 4

static void make_host(void)
{
	CHECK(enter_namespace());
	run_ip("link set lo up");
	run_ip("link add eth0 type veth peer name eth1");
	run_ip("link add eth2 type veth peer name eth3");
	for (int i = 0; i < 4; i++)
		run_ip("link set eth%d up", i);
	run_ip("addr add 10.77.0.1/24 dev eth0");
	run_ip("addr add fd77::1/64 dev eth0 nodad");
	/* Not the device's interface. */
	run_ip("addr add 10.99.0.1/24 dev eth2");
	run_ip("addr add fd99::1/64 dev eth2 nodad");
	CHECK(!setenv("VERBENA_NETDEV", "eth0", 1));
	wait_reachable("fd77::1");
	wait_reachable("fd99::1");
}

/* One from each source port. */
static void forge(const char *from, const char *to, uint32_t first)
{
	for (uint32_t i = 0; i < PORTS; i++)
		forge_one(from, (uint16_t)(50000 + first / 100 * PORTS + i), to, end.qp->qp_num,
			  first + i);
}

/* Those arrive, in whatever order, and nothing that came before them. */
static void all_arrive(uint32_t first)
{
	uint32_t seen = 0;

	for (int i = 0; i < PORTS; i++) {
		uint32_t number;
		struct ibv_wc wc;

		wait_wc(end.recv_cq, &wc);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.byte_len == MANY_GRH + FORGED_BYTES);
		CHECK(wc.src_qp == FORGED_QPN);
		memcpy(&number, in.bytes + wc.wr_id * in.size + MANY_GRH + 4, 4);
		CHECK(number >= first && number < first + PORTS);
		seen |= 1u << (number - first);
		recv_slot(wc.wr_id, in.size);
	}
	CHECK(seen == (1u << PORTS) - 1);
}

/* To the other interface's address and to the port's, by turns: what arrives has passed what was
 * sent before it, from the same source ports. */
static void addresses(void *arg)
{
	static const struct {
		const char *from, *other, *own;
	} rows[] = {
		{"10.77.0.1", "10.99.0.1", "10.77.0.1"},
		{"fd77::1", "fd99::1", "fd77::1"},
		{"10.77.0.1", "10.99.0.1", "127.0.0.1"},
		{"fd77::1", "fd99::1", "::1"},
	};
	struct remote remote;
	bool two = arg;

	make_host();
	open_up();
	for (uint64_t i = 0; i < 60; i++)
		recv_slot(i, in.size);
	/* A second process takes its share of what comes, and hands it over. */
	if (two)
		remote_start(&remote, 3, IBV_QPT_UD, NULL);
	for (uint32_t round = 0; round < 30; round++)
		for (uint32_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
			uint32_t first = 100 * (4 * round + i);

			forge(rows[i].from, rows[i].other, first);
			forge(rows[i].from, rows[i].own, first + 50);
			all_arrive(first + 50);
		}
	/* What stands with the other process passes it in order, too. */
	CHECK(no_wc(end.recv_cq));
	if (two)
		remote_quit(&remote);
	close_end();
}

static void test_one_process(void **state)
{
	if (!can_enter_namespace())
		skip();
	assert_int_equal(run_in_child(addresses, NULL), 0);
}

static void test_handed_over(void **state)
{
	static char two;

	if (!can_enter_namespace())
		skip();
	assert_int_equal(run_in_child(addresses, &two), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_process),
					   cmocka_unit_test(test_handed_over)};

	many_main(argc, argv);
	run_only();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

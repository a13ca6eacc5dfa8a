/* SPDX-License-Identifier: BSD-2-Clause */
/* UD packets that no adapter of ours has made: a QP takes those that were sent to its port. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "lib/ud_bed.h"
#include "wire/icrc.h"
#include "wire/packet.h"

/* The kernel chooses a process by the sender's port. So few at once that the short queue between
 * processes holds them. */
#define PORTS 4
#define BYTES 8

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
}

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static socklen_t address(union address *a, const char *text, uint16_t port)
{
	memset(a, 0, sizeof(*a));
	if (inet_pton(AF_INET, text, &a->v4.sin_addr) == 1) {
		a->v4.sin_family = AF_INET;
		a->v4.sin_port = htons(port);
		return sizeof(a->v4);
	}
	CHECK(inet_pton(AF_INET6, text, &a->v6.sin6_addr) == 1);
	a->v6.sin6_family = AF_INET6;
	a->v6.sin6_port = htons(port);
	return sizeof(a->v6);
}

static void set_flow(struct vb_flow *flow, const union address *from, const union address *to)
{
	*flow = (struct vb_flow){.ipv6 = to->any.sa_family == AF_INET6, .df = true};
	if (flow->ipv6) {
		memcpy(flow->saddr, &from->v6.sin6_addr, 16);
		memcpy(flow->daddr, &to->v6.sin6_addr, 16);
	} else {
		memcpy(flow->saddr, &from->v4.sin_addr, 4);
		memcpy(flow->daddr, &to->v4.sin_addr, 4);
	}
	flow->sport = ntohs(flow->ipv6 ? from->v6.sin6_port : from->v4.sin_port);
	flow->dport = VB_UDP_PORT;
}

/* Everything right in it. */
static size_t packet(uint8_t *bytes, const struct vb_flow *flow, uint32_t number)
{
	const struct vb_packet pkt = {.opcode = 100, /* UD SEND only */
				      .pkey = VB_PKEY_DEFAULT,
				      .dest_qpn = end.qp->qp_num,
				      .psn = number,
				      .qkey = MANY_QKEY,
				      .src_qpn = 5,
				      .payload_len = BYTES};
	size_t len = vb_packet_build(&pkt, bytes, VB_HDR_MAX);

	message_make(bytes + len, 1, number, BYTES);
	len += BYTES;
	vb_icrc_store(vb_icrc_bth(vb_icrc_flow(flow, (uint16_t)(len + VB_ICRC_LEN)), bytes, len),
		      bytes + len);
	return len + VB_ICRC_LEN;
}

/* One from each source port. */
static void forge(const char *from, const char *to, uint32_t first)
{
	for (uint32_t i = 0; i < PORTS; i++) {
		uint8_t bytes[VB_HDR_MAX + BYTES + VB_ICRC_LEN];
		union address own, dest;
		socklen_t size = address(&own, from, (uint16_t)(50000 + first / 100 * PORTS + i));
		int fd = socket(own.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		int v6 = own.any.sa_family == AF_INET6, discover = IP_PMTUDISC_DO;
		struct vb_flow flow;
		size_t len;

		address(&dest, to, VB_UDP_PORT);
		CHECK(fd >= 0 && bind(fd, &own.any, size) == 0);
		CHECK(setsockopt(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP,
				 v6 ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER, &discover,
				 sizeof(discover)) == 0);
		set_flow(&flow, &own, &dest);
		len = packet(bytes, &flow, first + i);
		CHECK(sendto(fd, bytes, len, 0, &dest.any, size) == (ssize_t)len);
		close(fd);
	}
}

/* Those arrive, in whatever order, and nothing that came before them. */
static void all_arrive(uint32_t first)
{
	uint32_t seen = 0;

	for (int i = 0; i < PORTS; i++) {
		uint32_t number;
		struct ibv_wc wc;

		wait_wc(end.recv_cq, &wc);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.byte_len == MANY_GRH + BYTES);
		CHECK(wc.src_qp == 5);
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

static void probe_namespace(void *arg)
{
	CHECK(enter_namespace());
}

static void test_one_process(void **state)
{
	if (run_in_child(probe_namespace, NULL))
		skip();
	assert_int_equal(run_in_child(addresses, NULL), 0);
}

static void test_handed_over(void **state)
{
	static char two;

	if (run_in_child(probe_namespace, NULL))
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

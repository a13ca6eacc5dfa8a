/* SPDX-License-Identifier: BSD-2-Clause */
/* RoCEv2 packets on sockets, on the loopback interface of a namespace of our own. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/in6.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <infiniband/verbs.h>

#include "carrier/udp.h"
#include "lib/child.h"

static struct vb_udp udp;
static struct vb_udp_burst burst;
static struct vb_udp_inbox inbox;
static struct vb_udp_datagram *const got = inbox.datagrams;
static uint8_t payload[4096];

static const struct vb_udp_path paths[] = {
	{.own_gid = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 1},
	 .dest_gid = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 2},
	 .traffic_class = 0x68,
	 .hop_limit = 9,
	 .flow = 5},
	{.own_gid = {[15] = 1}, .dest_gid = {[15] = 1}, .traffic_class = 0x28, .flow = 77},
};

static void start(void)
{
	CHECK(enter_namespace());
	run_ip("link set lo up");
	CHECK(vb_udp_open(&udp) == 0);
	CHECK(udp.in[0] >= 0 && udp.in[1] >= 0);
	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)(i * 11 + 3);
}

static void wait_in(int which)
{
	struct pollfd in = {.fd = udp.in[which], .events = POLLIN};

	CHECK(poll(&in, 1, 60000) == 1);
}

static struct vb_packet write_packet(uint32_t len, uint32_t psn)
{
	struct vb_packet pkt = {.pkey = VB_PKEY_DEFAULT,
				.dest_qpn = 0x123456,
				.psn = psn,
				.ack_req = true,
				.va = 0x1122334455667788,
				.rkey = 0x99aabbcc,
				.dma_len = len,
				.payload_len = len};

	CHECK(vb_op_find(VB_SVC_RC, VB_OP_WRITE, VB_POS_ONLY, VB_EXTRA_NONE, &pkt.opcode));
	return pkt;
}

static void add(const struct vb_packet *pkt)
{
	uint8_t *to;

	if (!vb_udp_burst_fits(&udp, &burst, pkt))
		vb_udp_burst_send(&udp, &burst);
	to = vb_udp_burst_room(&burst, pkt);
	CHECK(to != NULL);
	memcpy(to, payload, pkt->payload_len);
	vb_udp_burst_add(&udp, &burst, pkt);
}

static void send_packet(const struct vb_udp_path *path, const struct vb_packet *pkt)
{
	CHECK(vb_udp_burst_begin(&udp, &burst, path) == 0);
	add(pkt);
	vb_udp_burst_send(&udp, &burst);
}

static uint32_t receive(int which)
{
	bool more;

	return vb_udp_receive(&udp, which, &inbox, &more);
}

static void there(int which, uint32_t len, uint32_t psn)
{
	struct vb_packet pkt = write_packet(len, psn), back;

	send_packet(&paths[which], &pkt);
	wait_in(which);
	CHECK(receive(which) == 1);
	CHECK(!memcmp(got[0].src_gid, paths[which].own_gid, 16));
	CHECK(!memcmp(got[0].dest_gid, paths[which].dest_gid, 16));
	CHECK(got[0].traffic_class == paths[which].traffic_class);
	CHECK(got[0].hop_limit == (which ? got[0].hop_limit : 9) && got[0].hop_limit);
	CHECK(got[0].flow.sport >= 0xc000 && got[0].flow.dport == VB_UDP_PORT);
	CHECK(vb_udp_parse(&got[0], &back));
	CHECK(back.psn == psn && back.dest_qpn == 0x123456 && back.rkey == 0x99aabbcc);
	CHECK(back.va == pkt.va && back.dma_len == len && back.payload_len == len);
	CHECK(!memcmp(back.payload, payload, len));
	CHECK(receive(which) == 0);
}

/* Every padding, the smallest and the largest, either protocol. */
static void sizes(void *arg)
{
	const uint32_t lens[] = {0, 1, 2, 3, 4, 5, 255, 1024, 4095, 4096};

	start();
	for (int which = 0; which < 2; which++)
		for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++)
			there(which, lens[i], (uint32_t)i);
	vb_udp_close(&udp);
}

/* Packets of a flow keep to their port; other flows have others. */
static void ports(void *arg)
{
	uint16_t seen[32];
	int different = 0;

	start();
	for (uint32_t flow = 0; flow < 32; flow++) {
		for (int again = 0; again < 2; again++) {
			struct vb_udp_path path = paths[0];
			struct vb_packet pkt = write_packet(8, flow);

			path.flow = flow;
			send_packet(&path, &pkt);
			wait_in(0);
			CHECK(receive(0) == 1);
			CHECK(!again || got[0].flow.sport == seen[flow]);
			seen[flow] = got[0].flow.sport;
		}
		different += flow && seen[flow] != seen[flow - 1];
	}
	CHECK(different > 4);
	vb_udp_close(&udp);
}

/* One packet with a label, to this process. Returns the label that came. */
static uint32_t label_sent(int which, uint32_t label, bool own_port)
{
	struct vb_udp_path path = paths[which];
	struct vb_packet pkt = write_packet(8, label);
	struct vb_packet back;

	path.flow_label = label;
	send_packet(&path, &pkt);
	wait_in(which);
	CHECK(receive(which) == 1 && vb_udp_parse(&got[0], &back) &&
	      back.psn == (label & 0xffffff));
	CHECK(got[0].flow.sport >= VB_UDP_FIRST_SPORT);
	CHECK(!own_port || got[0].flow.sport == ibv_flow_label_to_udp_sport(label));
	return got[0].flow_label;
}

static const uint32_t labels[] = {1, 0x3fff, 0x4000, 0x12345, 0xabcde, 0xfffff};
#define LABELS (sizeof(labels) / sizeof(labels[0]))

static void check_labels(void)
{
	for (size_t i = 0; i < 2 * LABELS; i++) {
		CHECK(label_sent(0, labels[i % LABELS], true) == 0);
		CHECK(label_sent(1, labels[i % LABELS], true) == labels[i % LABELS]);
	}
}

/* A label decides the source port, and over IPv6 it arrives. */
static void flow_labels(void *arg)
{
	struct in6_flowlabel_req alone = {.flr_label = htonl(0x777),
					  .flr_action = IPV6_FL_A_GET,
					  .flr_share = IPV6_FL_S_EXCL,
					  .flr_flags = IPV6_FL_F_CREATE,
					  .flr_dst = {.s6_addr = {[15] = 1}}};
	bool ordinary = arg;
	int fd;

	start();
	/* Root of a namespace of its own is an ordinary user's, too. */
	if (ordinary && setresuid(65534, 65534, 65534))
		return;
	check_labels();
	/* While somebody has a label for himself the kernel looks after all of them. */
	fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	CHECK(fd >= 0);
	CHECK(!setsockopt(fd, IPPROTO_IPV6, IPV6_FLOWLABEL_MGR, &alone, sizeof(alone)));
	check_labels();
	CHECK(label_sent(1, 0x777, true) != 0x777);
	close(fd);
	/* Of many some share a port; all arrive. */
	for (uint32_t label = 1; label < 100; label++) {
		label_sent(0, label * 5, false);
		CHECK(label_sent(1, label * 5, false) == label * 5);
	}
	vb_udp_close(&udp);
}

static void flow_labels_of_nobody(void *arg)
{
	flow_labels(&udp);
}

/* A port that is another's: the packet leaves from another one. */
static void port_of_others(void *arg)
{
	struct sockaddr_in any = {.sin_family = AF_INET,
				  .sin_port = htons(ibv_flow_label_to_udp_sport(77))};
	int fd;

	start();
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	CHECK(bind(fd, (struct sockaddr *)&any, sizeof(any)) == 0);
	for (int i = 0; i < 3; i++) {
		label_sent(0, 77, false);
		CHECK(got[0].flow.sport != ibv_flow_label_to_udp_sport(77));
	}
	close(fd);
	vb_udp_close(&udp);
}

/* Its bytes come back as they were. */
static bool refused(int which)
{
	struct vb_udp_refused back;
	struct vb_packet pkt;

	if (!vb_udp_refused(&udp, which, &back))
		return false;
	CHECK(!memcmp(back.dest_gid, paths[which].dest_gid, 16));
	CHECK(vb_packet_parse(back.bytes, back.len, &pkt) == VB_PARSE_OK);
	CHECK(pkt.psn == 1 && pkt.payload_len == 256 && !memcmp(pkt.payload, payload, 256));
	return true;
}

static void wait_refused(int which)
{
	struct pollfd told = {.fd = udp.told[which]};

	CHECK(poll(&told, 1, 60000) == 1 && told.revents == POLLERR);
}

/* Where nobody has the port, who asked is told; what is sent next leaves all the same. */
static void refusals(void *arg)
{
	struct vb_packet pkt = write_packet(256, 1);

	start();
	for (int which = 0; which < 2; which++) {
		struct vb_udp_path path = paths[which];

		CHECK(!refused(which));
		path.told = true;
		send_packet(&path, &pkt);
		wait_in(which);
		CHECK(receive(which) == 1 && got[0].flow.sport >= 0xc000);
		CHECK(!refused(which));
		vb_udp_close_in(&udp, which);
		send_packet(&paths[which], &pkt);
		send_packet(&path, &pkt);
		wait_refused(which);
		CHECK(refused(which) && !refused(which));
		send_packet(&path, &pkt);
		wait_refused(which);
		CHECK(vb_udp_bind(&udp) == 0);
		send_packet(&path, &pkt);
		wait_in(which);
		CHECK(receive(which) == 1);
		CHECK(refused(which) && !refused(which));
	}
	vb_udp_close(&udp);
}

static void raw(const void *bytes, size_t len)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(VB_UDP_PORT)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(sendto(fd, bytes, len, 0, (struct sockaddr *)&to, sizeof(to)) == (ssize_t)len);
	close(fd);
	wait_in(0);
}

/* A wrong bit anywhere, what is cut short, and what is no packet at all, does not count. */
static void garbage(void *arg)
{
	struct vb_packet pkt = write_packet(40, 1), back;
	struct vb_udp_datagram good;
	uint8_t junk[9000] = {1, 2, 3}, whole[256], bad[256];

	start();
	send_packet(&paths[0], &pkt);
	wait_in(0);
	CHECK(receive(0) == 1 && vb_udp_parse(&got[0], &back));
	good = got[0];
	memcpy(whole, good.bytes, good.len);
	good.bytes = whole;
	for (uint32_t bit = 0; bit < 8 * good.len; bit++) {
		struct vb_udp_datagram flipped = good;

		if (bit / 8 == 4)
			continue; /* FECN and BECN change on the way */
		memcpy(bad, whole, sizeof(bad));
		bad[bit / 8] ^= (uint8_t)(1 << bit % 8);
		flipped.bytes = bad;
		CHECK(!vb_udp_parse(&flipped, &back) && !flipped.intact);
	}
	for (uint32_t len = 0; len < good.len; len++) {
		struct vb_udp_datagram cut = good;

		cut.len = len;
		CHECK(!vb_udp_parse(&cut, &back));
	}
	good.flow.sport ^= 1;
	CHECK(!vb_udp_parse(&good, &back));
	raw(junk, 0);
	CHECK(receive(0) == 0);
	for (size_t len = 1; len < 100; len++) {
		raw(junk, len);
		CHECK(receive(0) == 1 && got[0].len == len);
		CHECK(!vb_udp_parse(&got[0], &back));
	}
	/* Too long to be one. */
	raw(junk, sizeof(junk));
	CHECK(receive(0) == 1 && !vb_udp_parse(&got[0], &back));
	there(0, 100, 7);
	vb_udp_close(&udp);
}

/* The port may be shared with processes that share it, not with others. */
static void taken(void *arg)
{
	struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(VB_UDP_PORT)};
	struct vb_udp second;
	int fd;

	start();
	CHECK(vb_udp_open(&second) == 0);
	vb_udp_close(&second);
	vb_udp_close(&udp);
	fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0); /* of both protocols */
	CHECK(bind(fd, (struct sockaddr *)&any, sizeof(any)) == 0);
	CHECK(vb_udp_open(&udp) == -EADDRINUSE);
	close(fd);
	CHECK(vb_udp_open(&udp) == 0);
	vb_udp_close(&udp);
}

/* Packets in their order, however they were put together on the way. */
static void expect(int which, const uint32_t *lens, uint32_t n)
{
	struct vb_packet back;

	for (uint32_t psn = 0; psn < n;) {
		uint32_t some;

		wait_in(which);
		some = receive(which);
		CHECK(some <= n - psn);
		for (uint32_t i = 0; i < some; i++, psn++) {
			CHECK(vb_udp_parse(&got[i], &back));
			CHECK(back.psn == psn && back.payload_len == lens[psn]);
			CHECK(!memcmp(back.payload, payload, lens[psn]));
		}
	}
}

/* Many packets at a time, of one size and of all sizes, cut by the kernel or one by one. */
static void bursts(void *arg)
{
	static uint32_t lens[150];

	start();
	for (int way = 0; way < 12; way++) {
		int which = way & 1;

		udp.one_by_one = way & 2;
		CHECK(vb_udp_burst_begin(&udp, &burst, &paths[which]) == 0);
		for (uint32_t i = 0; i < 150; i++) {
			struct vb_packet pkt;

			lens[i] = way < 4 ? 1024 : way < 8 ? i * 13 % 1400 : i % 7 == 6 ? 5 : 256;
			pkt = write_packet(lens[i], i);
			add(&pkt);
		}
		vb_udp_burst_send(&udp, &burst);
		expect(which, lens, 150);
		CHECK(receive(which) == 0);
	}
	vb_udp_close(&udp);
}

#define IN_CHILD(body)                                                                             \
	static void test_##body(void **state)                                                      \
	{                                                                                          \
		assert_int_equal(run_in_child(body, NULL), 0);                                     \
	}
IN_CHILD(sizes)
IN_CHILD(ports)
IN_CHILD(flow_labels)
IN_CHILD(flow_labels_of_nobody)
IN_CHILD(port_of_others)
IN_CHILD(refusals)
IN_CHILD(garbage)
IN_CHILD(taken)
IN_CHILD(bursts)

static void try_namespace(void *arg)
{
	CHECK(enter_namespace());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),	       cmocka_unit_test(test_ports),
		cmocka_unit_test(test_refusals),       cmocka_unit_test(test_garbage),
		cmocka_unit_test(test_taken),	       cmocka_unit_test(test_bursts),
		cmocka_unit_test(test_flow_labels),    cmocka_unit_test(test_flow_labels_of_nobody),
		cmocka_unit_test(test_port_of_others),
	};

	if (run_in_child(try_namespace, NULL)) {
		puts("network namespaces are forbidden here");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}

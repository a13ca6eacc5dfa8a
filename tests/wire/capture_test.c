/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every packet of the captures is read as tshark reads it (captures/captures.txt),
 * has a good ICRC both from its own IP header and from the flow, and is built again
 * byte for byte.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/capture.h"
#include "wire/bytes.h"
#include "wire/icrc.h"
#include "wire/packet.h"

#define FIELDS	17
#define NOT_SET "-"

static void same(const char *text, uint64_t value, bool has)
{
	if (strcmp(text, NOT_SET) == 0) {
		assert_false(has);
		return;
	}
	assert_true(has);
	assert_int_equal(strtoull(text, NULL, 0), value);
}

static void compare(char field[FIELDS][40], const struct vb_packet *pkt, uint32_t icrc)
{
	const struct vb_op_row *op = vb_op_row(pkt->opcode);
	uint16_t headers = op->headers;
	bool address = headers & (VB_HDR_RETH | VB_HDR_ATOMIC);

	same(field[0], pkt->opcode, true);
	same(field[1], pkt->solicited, true);
	same(field[2], pkt->ack_req, true);
	same(field[3], pkt->pad, true);
	same(field[4], pkt->dest_qpn, true);
	same(field[5], pkt->psn, true);
	same(field[6], pkt->va, address);
	same(field[7], pkt->rkey, address);
	same(field[8], pkt->dma_len, headers & VB_HDR_RETH);
	same(field[9], pkt->swap_add, headers & VB_HDR_ATOMIC);
	same(field[10], pkt->compare, headers & VB_HDR_ATOMIC);
	same(field[11], pkt->aeth_type << 5 | pkt->aeth_value, headers & VB_HDR_AETH);
	same(field[12], pkt->msn, headers & VB_HDR_AETH);
	same(field[13], pkt->atomic_orig, headers & VB_HDR_ATOMIC_ACK);
	same(field[14], pkt->qkey, headers & VB_HDR_DETH);
	same(field[15], pkt->src_qpn, headers & VB_HDR_DETH);
	/* tshark shows the four bytes in the order they stand. */
	same(field[16], __builtin_bswap32(icrc), true);
}

static void read_flow(const uint8_t *ip, struct vb_flow *flow)
{
	const uint8_t *udp;

	memset(flow, 0, sizeof(*flow));
	flow->ipv6 = ip[0] >> 4 == 6;
	udp = ip + (flow->ipv6 ? 40 : 20);
	memcpy(flow->saddr, ip + (flow->ipv6 ? 8 : 12), flow->ipv6 ? 16 : 4);
	memcpy(flow->daddr, ip + (flow->ipv6 ? 24 : 16), flow->ipv6 ? 16 : 4);
	flow->sport = vb_get16(udp);
	flow->dport = vb_get16(udp + 2);
	if (!flow->ipv6) {
		flow->ip_id = vb_get16(ip + 4);
		flow->df = ip[6] & 0x40;
	}
}

/* One frame against what tshark said about it. */
static void check(const uint8_t *ip, size_t len, char field[FIELDS][40])
{
	uint8_t headers[VB_HDR_MAX], copy[4096 + 128];
	struct vb_packet pkt;
	struct vb_flow flow;
	const uint8_t *bth;
	uint32_t crc = 0;
	size_t skip, n;

	skip = vb_icrc_headers(ip, len, &crc);
	assert_true(skip > 0);
	bth = ip + skip;
	len -= skip;
	assert_int_equal(vb_get16(bth - 6), VB_UDP_PORT);
	assert_true(vb_icrc_good(crc, bth, len));
	read_flow(ip, &flow);
	assert_int_equal(vb_icrc_flow(&flow, (uint16_t)len), crc);

	assert_int_equal(vb_packet_parse(bth, len, &pkt), VB_PARSE_OK);
	compare(field, &pkt, vb_icrc_load(bth + len - VB_ICRC_LEN));
	n = vb_packet_build(&pkt, headers, sizeof(headers));
	assert_int_equal(n, vb_op_row(pkt.opcode)->length);
	assert_memory_equal(headers, bth, n);

	/* One bit anywhere but in FECN, BECN and their neighbours is noticed. */
	assert_true(len < sizeof(copy));
	memcpy(copy, bth, len);
	for (size_t i = 0; i < len; i++) {
		copy[i] ^= (uint8_t)(1 << (i % 8));
		assert_int_equal(vb_icrc_good(crc, copy, len), i == 4);
		copy[i] = bth[i];
	}
}

static void test_captures(void **state)
{
	char line[1024], name[64], loaded[64] = "", field[FIELDS][40];
	struct capture cap = {0};
	FILE *list = capture_file("captures.txt");
	size_t next = 0, packets = 0, files = 0;

	while (fgets(line, sizeof(line), list)) {
		int at = 0, n = 0;

		if (line[0] == '#')
			continue;
		assert_int_equal(sscanf(line, "%63s%n", name, &at), 1);
		for (int i = 0; i < FIELDS; i++, at += n)
			assert_int_equal(sscanf(line + at, "%39s%n", field[i], &n), 1);
		if (strcmp(name, loaded) != 0) {
			assert_int_equal(next, cap.count);
			capture_free(&cap);
			capture_load(name, &cap);
			strcpy(loaded, name);
			next = 0;
			files++;
		}
		assert_true(next < cap.count);
		check(cap.frame[next].ip, cap.frame[next].len, field);
		next++;
		packets++;
	}
	assert_int_equal(next, cap.count);
	capture_free(&cap);
	fclose(list);
	assert_int_equal(files, 13);
	assert_int_equal(packets, 261);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_captures)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

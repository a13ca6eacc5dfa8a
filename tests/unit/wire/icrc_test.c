/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "wire/bytes.h"
#include "wire/icrc.h"

/* An acknowledgement between two addresses, IP header first. */
static size_t sample(bool ipv6, uint8_t *out)
{
	size_t ip = ipv6 ? 40 : 20;

	memset(out, 0, 128);
	if (ipv6) {
		out[0] = 0x60;
		vb_put16(out + 4, 8 + 20);
		out[6] = 17;
		out[7] = 64;
		memset(out + 8, 0x11, 16);
		memset(out + 24, 0x22, 16);
	} else {
		out[0] = 0x45;
		vb_put16(out + 2, 28 + 20);
		vb_put16(out + 4, 0x1234);
		out[6] = 0x40;
		out[8] = 64;
		out[9] = 17;
		memset(out + 12, 0x11, 4);
		memset(out + 16, 0x22, 4);
	}
	vb_put16(out + ip, 50000);
	vb_put16(out + ip + 2, VB_UDP_PORT);
	vb_put16(out + ip + 4, 8 + 20);
	out[ip + 8] = 0x11;
	memset(out + ip + 9, 0x33, 15);
	return ip + 8;
}

static uint32_t icrc_of(const uint8_t *packet)
{
	uint32_t crc = 0;
	size_t skip = vb_icrc_headers(packet, 68, &crc);

	assert_true(skip > 0);
	return vb_icrc_bth(crc, packet + skip, 16);
}

/* What a router may change does not count, everything else does. */
static void test_masks(void **state)
{
	for (int ipv6 = 0; ipv6 < 2; ipv6++) {
		uint8_t packet[128];
		size_t skip = sample(ipv6, packet);
		uint32_t before = icrc_of(packet);

		for (size_t i = 0; i < skip + 16; i++) {
			uint8_t mask = 0;
			uint8_t kept = packet[i];

			if (ipv6)
				mask = i == 0 ? 0x0f : (i >= 1 && i <= 3) || i == 7 ? 0xff : 0;
			else if (i == 1 || i == 8 || i == 10 || i == 11)
				mask = 0xff;
			if (i == skip - 2 || i == skip - 1 || i == skip + 4)
				mask = 0xff;
			for (int bit = 0; bit < 8; bit++) {
				uint32_t crc;

				packet[i] = kept ^ (uint8_t)(1 << bit);
				/* Version, length of header, protocol: not such a packet. */
				if (vb_icrc_headers(packet, 68, &crc) == 0)
					continue;
				assert_int_equal(icrc_of(packet) == before, mask >> bit & 1);
			}
			packet[i] = kept;
		}
	}
}

static void test_flow(void **state)
{
	struct vb_flow flow = {.sport = 50000, .dport = VB_UDP_PORT, .ip_id = 0x1234, .df = true};
	uint8_t packet[128];
	uint32_t crc = 0;

	memset(flow.saddr, 0x11, 16);
	memset(flow.daddr, 0x22, 16);
	sample(false, packet);
	assert_int_equal(vb_icrc_headers(packet, 68, &crc), 28);
	assert_int_equal(vb_icrc_flow(&flow, 20), crc);
	flow.ip_id++;
	assert_int_not_equal(vb_icrc_flow(&flow, 20), crc);
	flow.ipv6 = true;
	sample(true, packet);
	assert_int_equal(vb_icrc_headers(packet, 68, &crc), 48);
	assert_int_equal(vb_icrc_flow(&flow, 20), crc);
	assert_int_not_equal(vb_icrc_flow(&flow, 24), crc);
}

static void test_pieces(void **state)
{
	uint8_t packet[128];
	size_t skip = sample(false, packet);
	uint32_t crc = 0, whole;

	vb_icrc_headers(packet, 68, &crc);
	whole = vb_icrc_bth(crc, packet + skip, 16);
	for (size_t cut = 12; cut <= 16; cut++)
		assert_int_equal(vb_icrc_add(vb_icrc_bth(crc, packet + skip, cut),
					     packet + skip + cut, 16 - cut),
				 whole);
	vb_icrc_store(whole, packet + skip + 16);
	assert_int_equal(vb_icrc_load(packet + skip + 16), whole);
	assert_int_equal(packet[skip + 16], whole & 0xff);
	assert_true(vb_icrc_good(crc, packet + skip, 20));
	assert_false(vb_icrc_good(crc, packet + skip, 15));
	packet[skip + 19] ^= 1;
	assert_false(vb_icrc_good(crc, packet + skip, 20));
}

static void test_not_udp(void **state)
{
	uint8_t packet[128];
	uint32_t crc;

	sample(false, packet);
	assert_int_equal(vb_icrc_headers(packet, 27, &crc), 0);
	packet[0] = 0x46;
	assert_int_equal(vb_icrc_headers(packet, 68, &crc), 0);
	sample(false, packet);
	packet[9] = 6;
	assert_int_equal(vb_icrc_headers(packet, 68, &crc), 0);
	sample(true, packet);
	assert_int_equal(vb_icrc_headers(packet, 47, &crc), 0);
	packet[6] = 44;
	assert_int_equal(vb_icrc_headers(packet, 68, &crc), 0);
}

/* Whatever the identification, it is found from the packet alone, and where one of its bits is
 * damaged as well, hardly ever. */
static void test_identification(void **state)
{
	struct vb_flow flow = {.saddr = {10, 0, 0, 1},
			       .daddr = {10, 0, 0, 2},
			       .sport = 50000,
			       .dport = VB_UDP_PORT,
			       .df = true};
	static const size_t sizes[] = {16, 20, 21, 276, 1044, 4160};
	uint8_t packet[4160];
	uint32_t wrong = 0, tried = 0, crc;
	uint16_t id = 1;

	for (size_t i = 0; i < sizeof(packet); i++)
		packet[i] = (uint8_t)(i * 37 + (i >> 8));
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		size_t len = sizes[s];

		for (uint32_t n = 0; n < 0x10000; n += 251) {
			flow.ip_id = (uint16_t)n;
			crc = vb_icrc_flow(&flow, (uint16_t)len);
			vb_icrc_store(vb_icrc_bth(crc, packet, len - 4), packet + len - 4);
			flow.ip_id = 0;
			crc = vb_icrc_flow(&flow, (uint16_t)len);
			assert_true(vb_icrc_ip_id(crc, packet, len, &id));
			assert_int_equal(id, n);
			packet[5 + n % (len - 5)] ^= (uint8_t)(1 << n % 8);
			tried++;
			wrong += vb_icrc_ip_id(crc, packet, len, &id);
			packet[5 + n % (len - 5)] ^= (uint8_t)(1 << n % 8);
		}
	}
	assert_true(tried > 1000);
	assert_int_equal(wrong, 0);
	assert_false(vb_icrc_ip_id(0, packet, 15, &id));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_masks),	cmocka_unit_test(test_identification),
		cmocka_unit_test(test_flow),	cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_not_udp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

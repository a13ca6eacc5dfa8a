/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A buffer off the socket, taken apart and parsed.
 *
 * Input: a byte of choices, two bytes of segment size, the buffer. Choices: 1 IPv6; 2 each packet
 * gets the right ICRC, as of the identification 0; 4 of its index; 8 of 0x1234, to be solved for.
 */
#include <stdlib.h>
#include <string.h>

#include "carrier/udp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct vb_udp_datagram found[VB_UDP_SEGMENTS];

static void check(int ok)
{
	if (!ok)
		abort();
}

static void seal(const struct vb_udp_datagram *d, uint8_t *bytes, uint8_t choices)
{
	struct vb_flow flow = d->flow;
	uint32_t data = d->len - VB_ICRC_LEN;

	flow.ip_id = choices & 8 ? 0x1234 : choices & 4 ? d->index : 0;
	vb_icrc_store(vb_icrc_bth(vb_icrc_flow(&flow, (uint16_t)d->len), bytes, data),
		      bytes + data);
}

static void parse(struct vb_udp_datagram *d, const uint8_t *bytes, uint32_t size, uint8_t choices)
{
	bool sealed = choices & 14 && d->len >= VB_BTH_LEN + VB_ICRC_LEN && d->len <= VB_UDP_BYTES;
	struct vb_packet pkt, again;
	bool good;

	check(d->len > 0 && d->bytes >= bytes && d->bytes + d->len <= bytes + size);
	if (sealed)
		seal(d, (uint8_t *)(uintptr_t)d->bytes, choices);
	good = vb_udp_parse(d, &pkt);
	/* With the right ICRC the rest decides. */
	if (sealed)
		check(good == (vb_packet_parse(d->bytes, d->len, &again) == VB_PARSE_OK));
	if (good)
		check(pkt.payload >= d->bytes &&
		      pkt.payload + pkt.payload_len + pkt.pad + VB_ICRC_LEN == d->bytes + d->len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct vb_udp_datagram like = {.hop_limit = 64};
	uint32_t segment, n, total = 0;
	uint8_t *bytes;

	if (size < 4 || size > 3 + VB_UDP_BUFFER)
		return 0;
	segment = (uint32_t)data[1] << 8 | data[2];
	if (!segment)
		return 0;
	like.src_gid[15] = 1;
	like.dest_gid[15] = 2;
	if (!(data[0] & 1))
		memset(like.src_gid + 10, 0xff, 2), memset(like.dest_gid + 10, 0xff, 2);
	vb_udp_flow(&like.flow, like.src_gid, like.dest_gid, 50000);
	check(like.flow.ipv6 == (data[0] & 1));
	bytes = malloc(size - 3);
	if (!bytes)
		return 0;
	memcpy(bytes, data + 3, size - 3);
	n = vb_udp_split(&like, bytes, (uint32_t)(size - 3), segment, found);
	check(n <= VB_UDP_SEGMENTS);
	for (uint32_t i = 0; i < n; i++) {
		check(found[i].index == i && found[i].bytes == bytes + total);
		total += found[i].len;
		parse(&found[i], bytes, (uint32_t)(size - 3), data[0]);
	}
	check(total == size - 3 || n == VB_UDP_SEGMENTS);
	free(bytes);
	return 0;
}

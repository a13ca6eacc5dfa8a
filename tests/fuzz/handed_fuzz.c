/* SPDX-License-Identifier: BSD-2-Clause */
/* A message of another process with packets: whatever is in it, packets lie within it, are parsed
 * as those off a socket, and come out of a message of their own as they were. */
#include <stdlib.h>
#include <string.h>

#include "carrier/handed.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX 32

static struct vb_udp_datagram found[MAX], again[MAX];

static void check(int ok)
{
	if (!ok)
		abort();
}

static bool same(const struct vb_udp_datagram *a, const struct vb_udp_datagram *b)
{
	return a->len == b->len && !memcmp(a->bytes, b->bytes, a->len) && a->index == b->index &&
	       a->traffic_class == b->traffic_class && a->hop_limit == b->hop_limit &&
	       a->flow_label == b->flow_label && !memcmp(a->src_gid, b->src_gid, 16) &&
	       !memcmp(a->dest_gid, b->dest_gid, 16) && a->flow.ipv6 == b->flow.ipv6 &&
	       a->flow.sport == b->flow.sport && a->flow.dport == b->flow.dport &&
	       !memcmp(a->flow.saddr, b->flow.saddr, 16) &&
	       !memcmp(a->flow.daddr, b->flow.daddr, 16);
}

/* Packed once more and taken apart. */
static void round_trip(uint32_t n, size_t size)
{
	uint8_t *message = malloc(size + 1);
	size_t at = 0;

	if (!message)
		return;
	for (uint32_t i = 0; i < n; i++) {
		struct iovec iov[2];

		check(vb_handed_pack(&found[i], iov) == iov[0].iov_len + iov[1].iov_len);
		for (int k = 0; k < 2; k++) {
			check(at + iov[k].iov_len <= size);
			memcpy(message + at, iov[k].iov_base, iov[k].iov_len);
			at += iov[k].iov_len;
		}
	}
	check(vb_handed_unpack(message, at, again, MAX) == n);
	for (uint32_t i = 0; i < n; i++)
		check(same(&found[i], &again[i]));
	free(message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t n = vb_handed_unpack(data, size, found, MAX);
	const uint8_t *end = data;
	struct vb_packet pkt;

	check(n <= MAX);
	for (uint32_t i = 0; i < n; i++) {
		check(found[i].bytes >= end && found[i].bytes + found[i].len <= data + size);
		check(found[i].flow_label <= 0xfffff);
		end = found[i].bytes + found[i].len;
	}
	round_trip(n, size);
	for (uint32_t i = 0; i < n; i++)
		if (vb_udp_parse(&found[i], &pkt))
			check(pkt.payload >= found[i].bytes &&
			      pkt.payload + pkt.payload_len <= found[i].bytes + found[i].len);
	return 0;
}

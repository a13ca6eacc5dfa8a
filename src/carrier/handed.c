/* SPDX-License-Identifier: BSD-2-Clause */
#include "carrier/handed.h"

#include <string.h>

size_t vb_handed_size(const struct vb_udp_datagram *d)
{
	return sizeof(*d) + d->len;
}

size_t vb_handed_pack(struct vb_udp_datagram *d, struct iovec iov[2])
{
	iov[0] = (struct iovec){d, sizeof(*d)};
	iov[1] = (struct iovec){(void *)(uintptr_t)d->bytes, d->len};
	return vb_handed_size(d);
}

#define FIELD(at, field, to)                                                                       \
	memcpy(&(to), (at) + offsetof(struct vb_udp_datagram, field), sizeof(to))

/* Field by field: not all bytes make a good struct. */
static void read_head(const uint8_t *at, struct vb_udp_datagram *d)
{
	uint16_t sport;

	memset(d, 0, sizeof(*d));
	FIELD(at, src_gid, d->src_gid);
	FIELD(at, dest_gid, d->dest_gid);
	FIELD(at, flow.sport, sport);
	vb_udp_flow(&d->flow, d->src_gid, d->dest_gid, sport);
	FIELD(at, traffic_class, d->traffic_class);
	FIELD(at, hop_limit, d->hop_limit);
	FIELD(at, index, d->index);
	FIELD(at, flow_label, d->flow_label);
	d->flow_label &= 0xfffff;
	FIELD(at, len, d->len);
}

uint32_t vb_handed_unpack(const uint8_t *bytes, size_t size, struct vb_udp_datagram *to,
			  uint32_t max)
{
	size_t at = 0;
	uint32_t n = 0;

	while (n < max && size - at >= sizeof(*to)) {
		struct vb_udp_datagram *d = &to[n];

		read_head(bytes + at, d);
		at += sizeof(*d);
		if (d->len > size - at)
			break;
		d->bytes = bytes + at;
		at += d->len;
		n++;
	}
	return n;
}

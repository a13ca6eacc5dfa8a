/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/rsocket/wire.h"

#include <string.h>

#define VERSION	   1
#define FLAG_NET   0x1
#define FLAG_IOMAP 0x2

#define DS_OP_DATA VB_RS_OP_DATA
#define DS_OP_CTRL VB_RS_OP_CTRL

static void put16(uint8_t *at, uint16_t value)
{
	value = htobe16(value);
	memcpy(at, &value, sizeof(value));
}

static void put32(uint8_t *at, uint32_t value)
{
	value = htobe32(value);
	memcpy(at, &value, sizeof(value));
}

static void put64(uint8_t *at, uint64_t value)
{
	value = htobe64(value);
	memcpy(at, &value, sizeof(value));
}

static uint16_t get16(const uint8_t *at)
{
	uint16_t value;

	memcpy(&value, at, sizeof(value));
	return be16toh(value);
}

static uint32_t get32(const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return be32toh(value);
}

static uint64_t get64(const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return be64toh(value);
}

static void put_sge(uint8_t *at, const struct vb_rs_sge *sge)
{
	put64(at, sge->addr);
	put32(at + 8, sge->key);
	put32(at + 12, sge->length);
}

static struct vb_rs_sge get_sge(const uint8_t *at)
{
	return (struct vb_rs_sge){
		.addr = get64(at), .key = get32(at + 8), .length = get32(at + 12)};
}

/* A byte with its top bit set counts in units of 256. */
static uint8_t to_scale(uint32_t value)
{
	if (value <= 128)
		return (uint8_t)value;
	/* One unit is what "128 + 0" would be: 128 itself is taken, so the least is 256. */
	if (value < 256)
		return 128;
	if (value > 127 * 256)
		value = 127 * 256;
	return (uint8_t)(128 | value >> 8);
}

static uint16_t from_scale(uint8_t scale)
{
	return scale <= 128 ? scale : (uint16_t)((scale & 0x7f) << 8);
}

uint16_t vb_rs_iomap_round(uint32_t wanted)
{
	return from_scale(to_scale(wanted));
}

void vb_rs_conn_pack(const struct vb_rs_conn *conn, uint8_t *out)
{
	memset(out, 0, VB_RS_CONN_BYTES);
	out[0] = VERSION;
	out[1] = (uint8_t)((conn->has_iomap ? FLAG_IOMAP : 0) | (conn->big_endian ? FLAG_NET : 0));
	put16(out + 2, conn->credits);
	out[7] = to_scale(conn->iomap_entries);
	put_sge(out + 8, &conn->target);
	put_sge(out + 24, &conn->buffer);
}

bool vb_rs_conn_unpack(const void *in, size_t bytes, struct vb_rs_conn *conn)
{
	const uint8_t *at = in;

	if (!at || bytes < VB_RS_CONN_BYTES || at[0] != VERSION)
		return false;
	conn->big_endian = at[1] & FLAG_NET;
	conn->has_iomap = at[1] & FLAG_IOMAP;
	conn->credits = get16(at + 2);
	conn->iomap_entries = conn->has_iomap ? from_scale(at[7]) : 0;
	conn->target = get_sge(at + 8);
	conn->buffer = get_sge(at + 24);
	return conn->credits && conn->target.length && conn->buffer.length;
}

size_t vb_ds_udp_pack(const struct vb_ds_udp *hdr, uint8_t *out)
{
	size_t length = hdr->v6 ? VB_DS_UDP_LEN_V6 : VB_DS_UDP_LEN_V4;

	put32(out, VB_DS_UDP_TAG);
	out[4] = hdr->v6 ? 6 : 4;
	out[5] = hdr->data ? DS_OP_DATA : DS_OP_CTRL;
	out[6] = (uint8_t)length;
	out[7] = 0;
	put32(out + 8, hdr->qpn & 0xffffff);
	memcpy(out + VB_DS_UDP_ADDR_AT, hdr->addr, hdr->v6 ? 16 : 4);
	return length;
}

size_t vb_ds_udp_unpack(const uint8_t *in, size_t bytes, struct vb_ds_udp *hdr)
{
	size_t length;

	if (bytes < VB_DS_UDP_LEN_V4 || get32(in) != VB_DS_UDP_TAG)
		return 0;
	if (in[4] != 4 && in[4] != 6)
		return 0;
	if (in[5] != DS_OP_DATA && in[5] != DS_OP_CTRL)
		return 0;
	memset(hdr, 0, sizeof(*hdr));
	hdr->v6 = in[4] == 6;
	length = hdr->v6 ? VB_DS_UDP_LEN_V6 : VB_DS_UDP_LEN_V4;
	if (in[6] != length || bytes < length)
		return 0;
	hdr->data = in[5] == DS_OP_DATA;
	hdr->qpn = get32(in + 8) & 0xffffff;
	memcpy(hdr->addr, in + VB_DS_UDP_ADDR_AT, hdr->v6 ? 16 : 4);
	return length;
}

size_t vb_ds_hdr_pack(const struct vb_ds_hdr *hdr, uint8_t *out)
{
	out[0] = hdr->v6 ? 6 : 4;
	out[1] = hdr->v6 ? VB_DS_HDR_V6 : VB_DS_HDR_V4;
	memcpy(out + 2, &hdr->port_be, 2);
	if (!hdr->v6) {
		memcpy(out + 4, hdr->addr, 4);
	} else {
		memcpy(out + 4, &hdr->flowinfo_be, 4);
		memcpy(out + 8, hdr->addr, 16);
	}
	return out[1];
}

size_t vb_ds_hdr_unpack(const uint8_t *in, size_t bytes, struct vb_ds_hdr *hdr)
{
	size_t length;

	if (bytes < VB_DS_HDR_V4 || (in[0] != 4 && in[0] != 6))
		return 0;
	memset(hdr, 0, sizeof(*hdr));
	hdr->v6 = in[0] == 6;
	length = hdr->v6 ? VB_DS_HDR_V6 : VB_DS_HDR_V4;
	if (in[1] != length || bytes < length)
		return 0;
	memcpy(&hdr->port_be, in + 2, 2);
	if (!hdr->v6) {
		memcpy(hdr->addr, in + 4, 4);
	} else {
		memcpy(&hdr->flowinfo_be, in + 4, 4);
		memcpy(hdr->addr, in + 8, 16);
	}
	return length;
}

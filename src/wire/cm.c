/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/cm.h"

#include <string.h>

#include "wire/bytes.h"

/* The common header: version, class, class version, method. */
#define BASE_VERSION  1
#define CLASS_CM      7
#define CLASS_VERSION 2
#define METHOD_SEND   3
#define TID_AT	      8
#define ATTR_AT	      16
#define ATTR_MOD_AT   20
#define DATA_AT	      24

#define NTH(attr) ((attr)-VB_CM_REQ)
#define M(attr)	  (1u << NTH(attr))
#define REQ	  M(VB_CM_REQ)
#define MRA	  M(VB_CM_MRA)
#define REJ	  M(VB_CM_REJ)
#define REP	  M(VB_CM_REP)
#define RTU	  M(VB_CM_RTU)
#define DREQ	  M(VB_CM_DREQ)
#define DREP	  M(VB_CM_DREP)
#define SREQ	  M(VB_CM_SIDR_REQ)
#define SREP	  M(VB_CM_SIDR_REP)
#define LAP	  M(VB_CM_LAP)
#define APR	  M(VB_CM_APR)
#define ALL	  (REQ | MRA | REJ | REP | RTU | DREQ | DREP | SREQ | SREP | LAP | APR)
/* Those of a connection that both sides know. */
#define KNOWN (MRA | REJ | REP | RTU | DREQ | DREP | LAP | APR)

/* One field: which messages have it, where, and in which member it is kept. A number of up to 64
 * bits, most significant first; more bits are bytes. What no row names is reserved: it parses to
 * nothing, and is built as 0. */
struct field {
	uint16_t in;	   /* M() of the messages */
	uint16_t byte;	   /* from the end of the common header */
	uint8_t bit;	   /* 0 is the byte's most significant one */
	uint8_t shift;	   /* of a piece of a number: where it belongs in the member */
	uint16_t bits;	   /* how many */
	uint16_t at, size; /* of the member, in bytes */
};

#define AT(member) offsetof(struct vb_cm_msg, member), sizeof(((struct vb_cm_msg *)0)->member)
#define F(in, byte, bits, member)                                                                  \
	{                                                                                          \
		in, byte, 0, 0, bits, AT(member)                                                   \
	}
#define B(in, byte, bit, bits, member)                                                             \
	{                                                                                          \
		in, byte, bit, 0, bits, AT(member)                                                 \
	}
#define PIECE(in, byte, shift, member)                                                             \
	{                                                                                          \
		in, byte, 0, shift, 8, AT(member)                                                  \
	}
/* A path, in its two forms: a LAP packs the last words otherwise than a REQ. */
#define PATH(in, byte, path)                                                                       \
	F(in, (byte), 16, path.slid), F(in, (byte) + 2, 16, path.dlid),                            \
		F(in, (byte) + 4, 128, path.sgid), F(in, (byte) + 20, 128, path.dgid),             \
		F(in, (byte) + 36, 20, path.flow_label), B(in, (byte) + 39, 2, 6, path.rate),      \
		F(in, (byte) + 40, 8, path.traffic_class), F(in, (byte) + 41, 8, path.hop_limit),  \
		F(in, (byte) + 42, 4, path.sl), B(in, (byte) + 42, 4, 1, path.subnet_local),       \
		F(in, (byte) + 43, 5, path.ack_timeout)
#define LAP_PATH(in, byte, path)                                                                   \
	F(in, (byte), 16, path.slid), F(in, (byte) + 2, 16, path.dlid),                            \
		F(in, (byte) + 4, 128, path.sgid), F(in, (byte) + 20, 128, path.dgid),             \
		F(in, (byte) + 36, 20, path.flow_label),                                           \
		F(in, (byte) + 39, 8, path.traffic_class), F(in, (byte) + 40, 8, path.hop_limit),  \
		B(in, (byte) + 41, 2, 6, path.rate), F(in, (byte) + 42, 4, path.sl),               \
		B(in, (byte) + 42, 4, 1, path.subnet_local),                                       \
		F(in, (byte) + 43, 5, path.ack_timeout)

/* clang-format off */
static const struct field fields[] = {
	F(ALL, 0, 32, local_id),
	F(KNOWN, 4, 32, remote_id),

	F(REQ, 5, 24, vendor_id),
	F(REQ, 8, 64, service_id),
	F(REQ, 16, 64, ca_guid),
	F(REQ, 28, 32, qkey),
	F(REQ, 32, 24, qpn),
	F(REQ, 35, 8, resources),
	F(REQ, 39, 8, depth),
	F(REQ, 43, 5, remote_timeout),
	B(REQ, 43, 5, 2, transport),
	B(REQ, 43, 7, 1, flow_control),
	F(REQ, 44, 24, psn),
	F(REQ, 47, 5, local_timeout),
	B(REQ, 47, 5, 3, retries),
	F(REQ, 48, 16, pkey),
	F(REQ, 50, 4, mtu),
	B(REQ, 50, 5, 3, rnr_retries),
	F(REQ, 51, 4, cm_retries),
	B(REQ, 51, 4, 1, srq),
	B(REQ, 51, 5, 3, ext_transport),
	PATH(REQ, 52, path),
	PATH(REQ, 96, alt),

	F(MRA | REJ, 8, 2, about),
	F(MRA, 9, 5, service_timeout),
	F(REJ, 9, 7, ari_len),
	F(REJ, 10, 16, reason),
	F(REJ, 12, VB_CM_ARI_LEN * 8, ari),

	F(REP, 8, 32, qkey),
	F(REP, 12, 24, qpn),
	PIECE(REP, 15, 16, vendor_id),
	PIECE(REP, 19, 8, vendor_id),
	F(REP, 20, 24, psn),
	PIECE(REP, 23, 0, vendor_id),
	F(REP, 24, 8, resources),
	F(REP, 25, 8, depth),
	F(REP, 26, 5, ack_delay),
	B(REP, 26, 5, 2, failover),
	B(REP, 26, 7, 1, flow_control),
	F(REP, 27, 3, rnr_retries),
	B(REP, 27, 3, 1, srq),
	F(REP, 28, 64, ca_guid),

	F(DREQ, 8, 24, qpn),
	F(LAP, 12, 24, qpn),
	F(LAP, 15, 5, remote_timeout),
	LAP_PATH(LAP, 20, alt),
	F(APR, 8, 8, ari_len),
	F(APR, 9, 8, status),
	F(APR, 12, VB_CM_ARI_LEN * 8, ari),

	F(SREQ, 4, 16, pkey),
	F(SREQ, 8, 64, service_id),
	F(SREP, 4, 8, status),
	F(SREP, 5, 8, ari_len),
	F(SREP, 8, 24, qpn),
	F(SREP, 12, 64, service_id),
	F(SREP, 20, 32, qkey),
	F(SREP, 24, VB_CM_ARI_LEN * 8, ari),
};
/* clang-format on */

/* Private data: from where to the end of the MAD. */
static const uint8_t private_at[] = {
	[NTH(VB_CM_REQ)] = 140, [NTH(VB_CM_MRA)] = 10,	    [NTH(VB_CM_REJ)] = 84,
	[NTH(VB_CM_REP)] = 36,	[NTH(VB_CM_RTU)] = 8,	    [NTH(VB_CM_DREQ)] = 12,
	[NTH(VB_CM_DREP)] = 8,	[NTH(VB_CM_SIDR_REQ)] = 16, [NTH(VB_CM_SIDR_REP)] = 96,
	[NTH(VB_CM_LAP)] = 64,	[NTH(VB_CM_APR)] = 84,
};

static bool known(uint16_t attr)
{
	return attr >= VB_CM_REQ && attr <= VB_CM_APR;
}

size_t vb_cm_private_len(uint16_t attr)
{
	return known(attr) ? VB_MAD_LEN - DATA_AT - private_at[NTH(attr)] : 0;
}

static uint64_t load(const void *member, size_t size)
{
	uint64_t value;

	switch (size) {
	case 1:
		return *(const uint8_t *)member;
	case 2:
		return *(const uint16_t *)member;
	case 4:
		return *(const uint32_t *)member;
	default:
		memcpy(&value, member, sizeof(value));
		return value;
	}
}

static void store(void *member, size_t size, uint64_t value)
{
	switch (size) {
	case 1:
		*(uint8_t *)member = (uint8_t)value;
		break;
	case 2:
		*(uint16_t *)member = (uint16_t)value;
		break;
	case 4:
		*(uint32_t *)member = (uint32_t)value;
		break;
	default:
		memcpy(member, &value, sizeof(value));
	}
}

/* A byte is the largest piece, so that 64-bit fields need no wider number. */
static uint64_t get_bits(const uint8_t *bytes, uint32_t bit, uint32_t bits)
{
	uint64_t value = 0;

	while (bits) {
		uint32_t some = 8 - bit < bits ? 8 - bit : bits;

		value = value << some | (uint8_t)(*bytes << bit & 0xff) >> (8 - some);
		bits -= some;
		bit = 0;
		bytes++;
	}
	return value;
}

static void put_bits(uint8_t *bytes, uint32_t bit, uint32_t bits, uint64_t value)
{
	while (bits) {
		uint32_t some = 8 - bit < bits ? 8 - bit : bits;
		uint8_t piece = (uint8_t)(value >> (bits - some) & ((1u << some) - 1));

		*bytes = (uint8_t)(*bytes | piece << (8 - bit - some));
		bits -= some;
		bit = 0;
		bytes++;
	}
}

static void parse_field(const struct field *f, const uint8_t *data, struct vb_cm_msg *msg)
{
	uint8_t *member = (uint8_t *)msg + f->at;
	const uint8_t *from = data + f->byte;

	if (f->bits > 64)
		memcpy(member, from, f->size);
	else
		store(member, f->size,
		      load(member, f->size) | get_bits(from, f->bit, f->bits) << f->shift);
}

bool vb_cm_parse(const uint8_t *bytes, size_t len, struct vb_cm_msg *msg)
{
	const uint8_t *data;
	uint16_t attr;

	if (len != VB_MAD_LEN || bytes[0] != BASE_VERSION || bytes[1] != CLASS_CM ||
	    bytes[2] != CLASS_VERSION || bytes[3] != METHOD_SEND)
		return false;
	attr = vb_get16(bytes + ATTR_AT);
	if (!known(attr))
		return false;
	data = bytes + DATA_AT;
	memset(msg, 0, sizeof(*msg));
	msg->attr = attr;
	msg->tid = vb_get64(bytes + TID_AT);
	msg->attr_mod = vb_get32(bytes + ATTR_MOD_AT);
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (fields[i].in & M(attr))
			parse_field(&fields[i], data, msg);
	if (msg->ari_len > VB_CM_ARI_LEN)
		msg->ari_len = VB_CM_ARI_LEN;
	memcpy(msg->private_data, data + private_at[NTH(attr)], vb_cm_private_len(attr));
	return true;
}

void vb_cm_build(const struct vb_cm_msg *msg, uint8_t *bytes)
{
	uint8_t *data = bytes + DATA_AT;

	memset(bytes, 0, VB_MAD_LEN);
	if (!known(msg->attr))
		return;
	bytes[0] = BASE_VERSION;
	bytes[1] = CLASS_CM;
	bytes[2] = CLASS_VERSION;
	bytes[3] = METHOD_SEND;
	vb_put64(bytes + TID_AT, msg->tid);
	vb_put16(bytes + ATTR_AT, msg->attr);
	vb_put32(bytes + ATTR_MOD_AT, msg->attr_mod);
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		const struct field *f = &fields[i];
		const uint8_t *member = (const uint8_t *)msg + f->at;

		if (!(f->in & M(msg->attr)))
			continue;
		if (f->bits > 64)
			memcpy(data + f->byte, member, f->size);
		else
			put_bits(data + f->byte, f->bit, f->bits,
				 load(member, f->size) >> f->shift);
	}
	memcpy(data + private_at[NTH(msg->attr)], msg->private_data, vb_cm_private_len(msg->attr));
}

bool vb_cm_ip_parse(const uint8_t *private_data, struct vb_cm_ip *ip)
{
	ip->version = private_data[1] >> 4;
	ip->port = vb_get16(private_data + 2);
	memcpy(ip->src, private_data + 4, 16);
	memcpy(ip->dst, private_data + 20, 16);
	return private_data[0] >> 4 == 0 && (ip->version == 4 || ip->version == 6);
}

void vb_cm_ip_build(const struct vb_cm_ip *ip, uint8_t *private_data)
{
	memset(private_data, 0, VB_CM_IP_LEN);
	private_data[1] = (uint8_t)(ip->version << 4);
	vb_put16(private_data + 2, ip->port);
	memcpy(private_data + 4, ip->src, 16);
	memcpy(private_data + 20, ip->dst, 16);
}

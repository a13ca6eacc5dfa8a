/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "wire/bytes.h"
#include "wire/packet.h"

/* Bits of the BTH's second byte. */
#define SOLICITED 0x80
#define MIGREQ	  0x40
/* Bits of its fifth and ninth. */
#define FECN	0x80
#define BECN	0x40
#define ACK_REQ 0x80

static const uint8_t *parse_extensions(uint16_t headers, const uint8_t *p, struct vb_packet *pkt)
{
	if (headers & VB_HDR_XRCETH) {
		pkt->xrc_srqn = vb_get24(p + 1);
		p += 4;
	}
	if (headers & VB_HDR_DETH) {
		pkt->qkey = vb_get32(p);
		pkt->src_qpn = vb_get24(p + 5);
		p += 8;
	}
	if (headers & (VB_HDR_RETH | VB_HDR_ATOMIC)) {
		pkt->va = vb_get64(p);
		pkt->rkey = vb_get32(p + 8);
		p += 12;
	}
	if (headers & VB_HDR_RETH) {
		pkt->dma_len = vb_get32(p);
		p += 4;
	}
	if (headers & VB_HDR_ATOMIC) {
		pkt->swap_add = vb_get64(p);
		pkt->compare = vb_get64(p + 8);
		p += 16;
	}
	if (headers & VB_HDR_AETH) {
		pkt->aeth_type = p[0] >> 5 & 3;
		pkt->aeth_value = p[0] & 31;
		pkt->msn = vb_get24(p + 1);
		p += 4;
	}
	if (headers & VB_HDR_ATOMIC_ACK) {
		pkt->atomic_orig = vb_get64(p);
		p += 8;
	}
	if (headers & VB_HDR_IMM) {
		memcpy(&pkt->imm, p, 4);
		p += 4;
	}
	if (headers & VB_HDR_IETH) {
		pkt->inv_rkey = vb_get32(p);
		p += 4;
	}
	if (headers & VB_HDR_RESERVED)
		p += 16;
	return p;
}

enum vb_parse vb_packet_parse(const uint8_t *bytes, size_t len, struct vb_packet *pkt)
{
	const struct vb_op_row *op;
	size_t data;

	memset(pkt, 0, sizeof(*pkt));
	if (len < VB_BTH_LEN + VB_ICRC_LEN)
		return VB_PARSE_SHORT;
	if (bytes[1] & 0x0f)
		return VB_PARSE_VERSION;
	op = vb_op_row(bytes[0]);
	if (!op)
		return VB_PARSE_OPCODE;
	if (len < (size_t)op->length + VB_ICRC_LEN)
		return VB_PARSE_SHORT;
	data = len - op->length - VB_ICRC_LEN;
	pkt->opcode = bytes[0];
	pkt->solicited = bytes[1] & SOLICITED;
	pkt->migreq = bytes[1] & MIGREQ;
	pkt->pad = bytes[1] >> 4 & 3;
	pkt->pkey = vb_get16(bytes + 2);
	pkt->fecn = bytes[4] & FECN;
	pkt->becn = bytes[4] & BECN;
	pkt->dest_qpn = vb_get24(bytes + 5);
	pkt->ack_req = bytes[8] & ACK_REQ;
	pkt->psn = vb_get24(bytes + 9);
	if (pkt->pad > data || data & 3 || data > UINT32_MAX)
		return VB_PARSE_PAD;
	if (data && !op->payload)
		return VB_PARSE_PAYLOAD;
	pkt->payload = parse_extensions(op->headers, bytes + VB_BTH_LEN, pkt);
	pkt->payload_len = (uint32_t)data - pkt->pad;
	return VB_PARSE_OK;
}

static void build_extensions(uint16_t headers, const struct vb_packet *pkt, uint8_t *p)
{
	if (headers & VB_HDR_XRCETH) {
		vb_put32(p, pkt->xrc_srqn & 0xffffff);
		p += 4;
	}
	if (headers & VB_HDR_DETH) {
		vb_put32(p, pkt->qkey);
		vb_put32(p + 4, pkt->src_qpn & 0xffffff);
		p += 8;
	}
	if (headers & (VB_HDR_RETH | VB_HDR_ATOMIC)) {
		vb_put64(p, pkt->va);
		vb_put32(p + 8, pkt->rkey);
		p += 12;
	}
	if (headers & VB_HDR_RETH) {
		vb_put32(p, pkt->dma_len);
		p += 4;
	}
	if (headers & VB_HDR_ATOMIC) {
		vb_put64(p, pkt->swap_add);
		vb_put64(p + 8, pkt->compare);
		p += 16;
	}
	if (headers & VB_HDR_AETH) {
		p[0] = (uint8_t)((pkt->aeth_type & 3) << 5 | (pkt->aeth_value & 31));
		vb_put24(p + 1, pkt->msn);
		p += 4;
	}
	if (headers & VB_HDR_ATOMIC_ACK) {
		vb_put64(p, pkt->atomic_orig);
		p += 8;
	}
	if (headers & VB_HDR_IMM) {
		memcpy(p, &pkt->imm, 4);
		p += 4;
	}
	if (headers & VB_HDR_IETH)
		vb_put32(p, pkt->inv_rkey);
	if (headers & VB_HDR_RESERVED)
		memset(p, 0, 16);
}

size_t vb_packet_build(const struct vb_packet *pkt, uint8_t *bytes, size_t cap)
{
	const struct vb_op_row *op = vb_op_row(pkt->opcode);
	uint32_t pad = vb_packet_pad(pkt->payload_len);

	if (!op || cap < op->length)
		return 0;
	bytes[0] = pkt->opcode;
	bytes[1] =
		(uint8_t)((pkt->solicited ? SOLICITED : 0) | (pkt->migreq ? MIGREQ : 0) | pad << 4);
	vb_put16(bytes + 2, pkt->pkey);
	bytes[4] = (uint8_t)((pkt->fecn ? FECN : 0) | (pkt->becn ? BECN : 0));
	vb_put24(bytes + 5, pkt->dest_qpn);
	bytes[8] = pkt->ack_req ? ACK_REQ : 0;
	vb_put24(bytes + 9, pkt->psn);
	build_extensions(op->headers, pkt, bytes + VB_BTH_LEN);
	return op->length;
}

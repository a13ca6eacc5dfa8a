/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_WIRE_PACKET_H
#define VB_WIRE_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/opcode.h"

/*
 * Theory of operation
 *
 * A packet is what follows the UDP header: BTH, extension headers, payload, zero to
 * three bytes of padding, ICRC. struct vb_packet is its decoded form: parsing fills
 * the fields its opcode has and points to the payload where it lies; building
 * writes the headers only, the payload is gathered by whoever sends.
 */

/* The type in bits 6-5 of an AETH syndrome. */
enum vb_aeth_type {
	VB_AETH_ACK = 0,
	VB_AETH_RNR = 1,
	VB_AETH_RESERVED = 2,
	VB_AETH_NAK = 3,
};

/* Credit count of a responder that does not count them. */
#define VB_AETH_NO_CREDITS 31
#define VB_PKEY_DEFAULT	   0xffff

struct vb_packet {
	/* BTH */
	uint8_t opcode;
	bool solicited;
	bool migreq;
	bool ack_req;
	bool fecn, becn;
	uint8_t pad; /* bytes 0..3 after the payload; building derives it from payload_len */
	uint16_t pkey;
	uint32_t dest_qpn; /* 24 bits */
	uint32_t psn;	   /* 24 bits */
	/* XRCETH */
	uint32_t xrc_srqn; /* 24 bits */
	/* DETH */
	uint32_t qkey;
	uint32_t src_qpn; /* 24 bits */
	/* RETH and AtomicETH */
	uint64_t va;
	uint32_t rkey;
	uint32_t dma_len;  /* RETH: bytes of the whole message */
	uint64_t swap_add; /* AtomicETH: swap value or addend */
	uint64_t compare;  /* AtomicETH: comparand */
	/* AETH and AtomicAckETH */
	uint8_t aeth_type;  /* enum vb_aeth_type */
	uint8_t aeth_value; /* credits, RNR timer or NAK code, 5 bits */
	uint32_t msn;	    /* 24 bits */
	uint64_t atomic_orig;
	/* ImmDt, IETH */
	uint32_t imm; /* as it stands on the wire: network order */
	uint32_t inv_rkey;
	/* Payload, borrowed from the parsed buffer; without padding */
	const uint8_t *payload;
	uint32_t payload_len;
};

enum vb_parse {
	VB_PARSE_OK,
	VB_PARSE_SHORT,	  /* shorter than its headers and ICRC */
	VB_PARSE_VERSION, /* transport header version not 0 */
	VB_PARSE_OPCODE,  /* not in the table */
	VB_PARSE_PAD,	  /* more padding than payload, or length not a multiple of 4 */
	VB_PARSE_PAYLOAD, /* payload on an opcode that has none */
};

/** vb_packet_parse() - Decode a packet
 * @bytes:  UDP payload, BTH to ICRC; any alignment
 * @len:    Its bytes, any number
 * @pkt:    Filled on VB_PARSE_OK; fields the opcode does not have are 0. Its payload
 *          points into @bytes
 * Return:  VB_PARSE_OK or what is wrong. The ICRC is not looked at
 * Test:    packet_test.c, tests/wire/capture_test.c, tests/fuzz/packet_fuzz.c
 */
enum vb_parse vb_packet_parse(const uint8_t *bytes, size_t len, struct vb_packet *pkt);

/** vb_packet_build() - Write the headers of a packet
 * @pkt:    Decoded form; payload_len decides the padding, payload is not read
 * @bytes:  Receives BTH and extension headers
 * @cap:    Room in @bytes; VB_HDR_MAX is always enough
 * Return:  bytes written; 0 for an unknown opcode or too little room
 */
size_t vb_packet_build(const struct vb_packet *pkt, uint8_t *bytes, size_t cap);

/** vb_packet_pad() - Bytes of padding after a payload */
static inline uint32_t vb_packet_pad(uint32_t payload_len)
{
	return -payload_len & 3;
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include <isa-l/crc.h>

#include "wire/bytes.h"
#include "wire/icrc.h"
#include "wire/opcode.h"

#define LRH_LEN	 8
#define IPV4_LEN 20
#define IPV6_LEN 40
#define UDP_LEN	 8
#define PROTOCOL 17

uint32_t vb_icrc_add(uint32_t crc, const uint8_t *bytes, size_t len)
{
	return crc32_gzip_refl(crc, bytes, len);
}

size_t vb_icrc_headers(const uint8_t *ip, size_t len, uint32_t *crc)
{
	uint8_t pseudo[LRH_LEN + IPV6_LEN + UDP_LEN];
	uint8_t *copy = pseudo + LRH_LEN;
	size_t iplen;

	if (len >= IPV4_LEN + UDP_LEN && ip[0] == 0x45 && ip[9] == PROTOCOL)
		iplen = IPV4_LEN;
	else if (len >= IPV6_LEN + UDP_LEN && ip[0] >> 4 == 6 && ip[6] == PROTOCOL)
		iplen = IPV6_LEN;
	else
		return 0;
	memset(pseudo, 0xff, LRH_LEN);
	memcpy(copy, ip, iplen + UDP_LEN);
	if (iplen == IPV4_LEN) {
		copy[1] = 0xff;
		copy[8] = 0xff;
		vb_put16(copy + 10, 0xffff);
	} else {
		vb_put32(copy, 0x6fffffff);
		copy[7] = 0xff;
	}
	vb_put16(copy + iplen + 6, 0xffff);
	*crc = vb_icrc_add(0, pseudo, LRH_LEN + iplen + UDP_LEN);
	return iplen + UDP_LEN;
}

uint32_t vb_icrc_flow(const struct vb_flow *flow, uint16_t udp_payload)
{
	uint8_t ip[IPV6_LEN + UDP_LEN] = {0};
	size_t iplen = flow->ipv6 ? IPV6_LEN : IPV4_LEN;
	uint8_t *udp = ip + iplen;
	uint32_t crc = 0;

	/* What counts as ones anyway is left out. */
	if (flow->ipv6) {
		ip[0] = 0x60;
		vb_put16(ip + 4, (uint16_t)(udp_payload + UDP_LEN));
		ip[6] = PROTOCOL;
		memcpy(ip + 8, flow->saddr, 16);
		memcpy(ip + 24, flow->daddr, 16);
	} else {
		ip[0] = 0x45;
		vb_put16(ip + 2, (uint16_t)(udp_payload + IPV4_LEN + UDP_LEN));
		vb_put16(ip + 4, flow->ip_id);
		vb_put16(ip + 6, flow->df ? 0x4000 : 0);
		ip[9] = PROTOCOL;
		memcpy(ip + 12, flow->saddr, 4);
		memcpy(ip + 16, flow->daddr, 4);
	}
	vb_put16(udp, flow->sport);
	vb_put16(udp + 2, flow->dport);
	vb_put16(udp + 4, (uint16_t)(udp_payload + UDP_LEN));
	vb_icrc_headers(ip, iplen + UDP_LEN, &crc);
	return crc;
}

uint32_t vb_icrc_bth(uint32_t crc, const uint8_t *bth, size_t len)
{
	uint8_t copy[VB_BTH_LEN];

	memcpy(copy, bth, VB_BTH_LEN);
	copy[4] = 0xff;
	crc = vb_icrc_add(crc, copy, VB_BTH_LEN);
	return vb_icrc_add(crc, bth + VB_BTH_LEN, len - VB_BTH_LEN);
}

void vb_icrc_store(uint32_t crc, uint8_t *bytes)
{
	for (int i = 0; i < 4; i++)
		bytes[i] = (uint8_t)(crc >> 8 * i);
}

uint32_t vb_icrc_load(const uint8_t *bytes)
{
	return __builtin_bswap32(vb_get32(bytes));
}

bool vb_icrc_good(uint32_t crc, const uint8_t *bytes, size_t len)
{
	if (len < VB_BTH_LEN + VB_ICRC_LEN)
		return false;
	return vb_icrc_bth(crc, bytes, len - VB_ICRC_LEN) ==
	       vb_icrc_load(bytes + len - VB_ICRC_LEN);
}

/* ---- solving for the identification ---- */

#define CRC_POLY 0xedb88320u /* of Ethernet, bits reversed */

/* Product of two polynomials modulo the CRC's; the highest bit is the constant term. */
static uint32_t multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	for (uint32_t bit = UINT32_C(1) << 31; bit; bit >>= 1) {
		if (a & bit)
			product ^= b;
		b = b & 1 ? b >> 1 ^ CRC_POLY : b >> 1;
	}
	return product;
}

/* A CRC as it was before @bytes bytes: divided by x to the power of their bits. */
static uint32_t take_back(uint32_t crc, size_t bytes)
{
	/* 1, 2, 4 ... bytes */
	static const uint32_t back[] = {
		0x6567cb95, 0xd7125358, 0x5b358fd3, 0x2e9bb40b, 0x12a59a49, 0x8df9403d, 0x5139de12,
		0xba340226, 0x29c45641, 0x12fbc105, 0xecd30c55, 0x3755ebd8, 0x24ee460c, 0x23783fcf,
	};

	for (size_t i = 0; i < sizeof(back) / sizeof(back[0]); i++)
		if (bytes >> i & 1)
			crc = multiply(crc, back[i]);
	return crc;
}

bool vb_icrc_ip_id(uint32_t crc, const uint8_t *bytes, size_t len, uint16_t *id)
{
	/* From the identification's first byte to the last before the ICRC. */
	size_t covered = IPV4_LEN - 4 + UDP_LEN + len - VB_ICRC_LEN;
	uint32_t differs;

	if (len < VB_BTH_LEN + VB_ICRC_LEN || covered >= 1u << 14)
		return false;
	differs = vb_icrc_bth(crc, bytes, len - VB_ICRC_LEN) ^
		  vb_icrc_load(bytes + len - VB_ICRC_LEN);
	differs = take_back(differs, covered);
	/* The two bytes, as the CRC takes them: lowest first. */
	*id = (uint16_t)((differs & 0xff) << 8 | (differs >> 8 & 0xff));
	return differs >> 16 == 0;
}

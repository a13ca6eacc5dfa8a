/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_WIRE_ICRC_H
#define VB_WIRE_ICRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Theory of operation
 *
 * The ICRC is the CRC-32 of Ethernet over eight bytes of ones (where InfiniBand has
 * its local route header), the IP and UDP headers, and the packet up to the ICRC.
 * What a router may change counts as ones: the IPv4 type of service, time to live
 * and checksum; the IPv6 traffic class, flow label and hop limit; the UDP checksum;
 * the byte of the BTH with FECN and BECN. It stands on the wire lowest byte first.
 *
 * A value in progress is the CRC of what came before, so pieces can be added in
 * turn without being gathered.
 *
 * Spec: IBA1 A17 (RoCEv2)
 */

#define VB_UDP_PORT 4791

/* What the IP and UDP headers of a packet say. */
struct vb_flow {
	bool ipv6;
	uint8_t saddr[16], daddr[16]; /* IPv4: the first four bytes */
	uint16_t sport, dport;	      /* host order */
	uint16_t ip_id;		      /* IPv4 identification, host order */
	bool df;		      /* IPv4 "do not fragment" */
};

/** vb_icrc_headers() - Begin with headers as they stand in a packet
 * @ip:     IPv4 header without options, or IPv6 header without extensions, then UDP
 * @len:    Bytes at @ip
 * @crc:    Receives the value in progress
 * Return:  bytes of IP and UDP header, 28 or 48; 0 where it is neither
 */
size_t vb_icrc_headers(const uint8_t *ip, size_t len, uint32_t *crc);

/** vb_icrc_flow() - Begin with headers that the kernel writes or has stripped
 * @udp_payload: Bytes from BTH to ICRC, both included
 * Return:  the value in progress
 */
uint32_t vb_icrc_flow(const struct vb_flow *flow, uint16_t udp_payload);

/** vb_icrc_bth() - Add BTH and extension headers
 * @bth:    At least 12 bytes, the BTH first
 * @len:    Bytes at @bth
 */
uint32_t vb_icrc_bth(uint32_t crc, const uint8_t *bth, size_t len);

/** vb_icrc_add() - Add payload or padding */
uint32_t vb_icrc_add(uint32_t crc, const uint8_t *bytes, size_t len);

/** vb_icrc_store() - Write a finished ICRC to the four bytes where it stands */
void vb_icrc_store(uint32_t crc, uint8_t *bytes);

/** vb_icrc_load() - Read one */
uint32_t vb_icrc_load(const uint8_t *bytes);

/** vb_icrc_good() - Whether a packet ends with the right ICRC
 * @crc:    From vb_icrc_headers() or vb_icrc_flow()
 * @bytes:  UDP payload, BTH to ICRC
 * @len:    Its bytes; less than 16 is never good
 */
bool vb_icrc_good(uint32_t crc, const uint8_t *bytes, size_t len);

/** vb_icrc_ip_id() - The IPv4 identification that makes a packet's ICRC right
 *
 * The ICRC covers the identification, which a socket does not tell. The CRC is linear, so it
 * can be solved for; then only 16 of its 32 bits are left to detect damage.
 *
 * @crc:    From vb_icrc_flow() with identification 0
 * @bytes:  UDP payload, BTH to ICRC
 * @len:    Its bytes
 * @id:     Receives it, host order
 * Return:  false: no identification does, the packet is damaged
 */
bool vb_icrc_ip_id(uint32_t crc, const uint8_t *bytes, size_t len, uint16_t *id);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_CARRIER_UDP_H
#define VB_CARRIER_UDP_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/icrc.h"
#include "wire/packet.h"

/*
 * Theory of operation
 *
 * RoCEv2 on sockets: a packet is the payload of a UDP datagram to port 4791. Every process binds
 * the port for itself (SO_REUSEPORT), one socket for IPv4 and one for IPv6; the kernel chooses
 * one of them for a datagram by its addresses, so whoever receives looks at the QP number
 * and passes on what is another process's (engine/wire).
 *
 * What is sent goes out of other sockets, whose ports tell flows apart on the way
 * (RoCEv2 sends from 0xc000 on). They are not connected and send with DF, so that the
 * kernel writes identification 0, which the ICRC covers.
 */

#define VB_UDP_PORTS 8
/* The longest datagram: BTH to ICRC with the largest path MTU. */
#define VB_UDP_BYTES (VB_HDR_MAX + 4096 + VB_ICRC_LEN)

struct vb_udp {
	int in[2];		  /* bound to port 4791: IPv4, IPv6; -1 not there */
	int out[2][VB_UDP_PORTS]; /* -1 not opened */
	uint16_t sport[2][VB_UDP_PORTS];
};

/* From here to there. */
struct vb_udp_path {
	uint8_t own_gid[16], dest_gid[16];
	uint32_t ifindex; /* for link-local addresses */
	uint8_t traffic_class, hop_limit;
	uint32_t flow; /* any number: packets of one keep to one source port */
};

/* A datagram as it came. */
struct vb_udp_datagram {
	struct vb_flow flow; /* addresses and ports; identification and DF as we send them */
	uint8_t src_gid[16], dest_gid[16];
	uint8_t traffic_class, hop_limit;
	uint32_t len;
	uint8_t bytes[VB_UDP_BYTES];
};

/** vb_udp_open() - Bind port 4791
 * @u:      Filled, also in part: where one protocol cannot be had the other serves
 * Return:  0, or the negative errno of the socket that mattered: -EADDRINUSE (another user's or
 *          the kernel's), -EMFILE ...
 */
int vb_udp_open(struct vb_udp *u);

/** vb_udp_close() - Close what is open */
void vb_udp_close(struct vb_udp *u);

/** vb_udp_send() - Send one packet
 * @hdr:     Its headers; payload_len counts, payload is not read
 * @payload: payload_len bytes
 * Context: any thread; never waits
 * Return:  0; or a negative errno, where the packet is lost as on a link
 */
int vb_udp_send(struct vb_udp *u, const struct vb_udp_path *path, const struct vb_packet *hdr,
		const void *payload);

/** vb_udp_receive() - Take datagrams off a socket
 * @which:   0 IPv4, 1 IPv6
 * @to:      Room for @most
 * Context: never waits. What is too long or cut is left out
 * Return:   how many
 */
int vb_udp_receive(struct vb_udp *u, int which, struct vb_udp_datagram *to, int most);

/** vb_udp_parse() - Check the ICRC and decode
 * @pkt:    Filled where good; its payload points into @d
 * Return:  false: wrong ICRC or not a packet of ours; to be dropped
 */
bool vb_udp_parse(const struct vb_udp_datagram *d, struct vb_packet *pkt);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_TESTS_FORGE_H
#define VB_TESTS_FORGE_H

/* UD packets from a plain socket, with everything right in them. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/verbs_many.h"
#include "wire/icrc.h"
#include "wire/packet.h"

#define FORGED_BYTES 8 /* sender 1 and the number: message_make() */
#define FORGED_QPN   5 /* where they come from */

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static inline socklen_t address(union address *a, const char *text, uint16_t port)
{
	memset(a, 0, sizeof(*a));
	if (inet_pton(AF_INET, text, &a->v4.sin_addr) == 1) {
		a->v4.sin_family = AF_INET;
		a->v4.sin_port = htons(port);
		return sizeof(a->v4);
	}
	CHECK(inet_pton(AF_INET6, text, &a->v6.sin6_addr) == 1);
	a->v6.sin6_family = AF_INET6;
	a->v6.sin6_port = htons(port);
	return sizeof(a->v6);
}

/* The kernel loses IPv6 packets to an address of its own while the link comes up. */
static inline void wait_reachable(const char *text)
{
	uint64_t until = clock_ns() + PAIR_PATIENCE_S * 1000000000ull;
	union address own;
	socklen_t size = address(&own, text, 5555);
	struct pollfd back = {.events = POLLIN};

	back.fd = socket(own.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	CHECK(back.fd >= 0 && bind(back.fd, &own.any, size) == 0);
	do {
		CHECK(clock_ns() < until);
		sendto(back.fd, "", 1, 0, &own.any, size);
	} while (poll(&back, 1, 10) != 1);
	close(back.fd);
}

static inline void set_flow(struct vb_flow *flow, const union address *from,
			    const union address *to)
{
	*flow = (struct vb_flow){.ipv6 = to->any.sa_family == AF_INET6, .df = true};
	if (flow->ipv6) {
		memcpy(flow->saddr, &from->v6.sin6_addr, 16);
		memcpy(flow->daddr, &to->v6.sin6_addr, 16);
	} else {
		memcpy(flow->saddr, &from->v4.sin_addr, 4);
		memcpy(flow->daddr, &to->v4.sin_addr, 4);
	}
	flow->sport = ntohs(flow->ipv6 ? from->v6.sin6_port : from->v4.sin_port);
	flow->dport = VB_UDP_PORT;
}

/* Everything right in it. */
static inline size_t forge_packet(uint8_t *bytes, const struct vb_flow *flow, uint32_t qpn,
				  uint32_t number)
{
	const struct vb_packet pkt = {.opcode = 100, /* UD SEND only */
				      .pkey = VB_PKEY_DEFAULT,
				      .dest_qpn = qpn,
				      .psn = number,
				      .qkey = MANY_QKEY,
				      .src_qpn = FORGED_QPN,
				      .payload_len = FORGED_BYTES};
	size_t len = vb_packet_build(&pkt, bytes, VB_HDR_MAX);

	message_make(bytes + len, 1, number, FORGED_BYTES);
	len += FORGED_BYTES;
	vb_icrc_store(vb_icrc_bth(vb_icrc_flow(flow, (uint16_t)(len + VB_ICRC_LEN)), bytes, len),
		      bytes + len);
	return len + VB_ICRC_LEN;
}

/* One, from a port. */
static inline void forge_one(const char *from, uint16_t sport, const char *to, uint32_t qpn,
			     uint32_t number)
{
	uint8_t bytes[VB_HDR_MAX + FORGED_BYTES + VB_ICRC_LEN];
	union address own, dest;
	socklen_t size = address(&own, from, sport);
	int fd = socket(own.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int v6 = own.any.sa_family == AF_INET6, discover = IP_PMTUDISC_DO;
	struct vb_flow flow;
	size_t len;

	address(&dest, to, VB_UDP_PORT);
	CHECK(fd >= 0 && bind(fd, &own.any, size) == 0);
	CHECK(setsockopt(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP,
			 v6 ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER, &discover,
			 sizeof(discover)) == 0);
	set_flow(&flow, &own, &dest);
	len = forge_packet(bytes, &flow, qpn, number);
	CHECK(sendto(fd, bytes, len, 0, &dest.any, size) == (ssize_t)len);
	close(fd);
}

#endif

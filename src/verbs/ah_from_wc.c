/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <stdbool.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "base/rules.h"

/*
 * Theory of operation
 *
 * A datagram's receive buffer begins with 40 bytes for the network header. RoCE v2 over
 * IPv6, and v1, put their 40-byte header there; RoCE v2 over IPv4 puts its 20 bytes into
 * the last 20 and leaves the first 20 alone, so those may hold anything. An IPv4 header is
 * therefore believed only if version, length and checksum agree. The address handle for
 * the answer swaps source and destination.
 */

enum {
	GRH_BYTES = 40,
	NEXT_HEADER_IBA = 0x1b, /* RoCE v1: an InfiniBand transport header follows */
};

/* The v4 header of the area, or false when there is none that is valid. */
static bool ipv4_header(const struct ibv_grh *grh, struct iphdr *ip)
{
	uint32_t sum = 0;
	uint16_t words[sizeof(*ip) / 2];

	memcpy(ip, (const uint8_t *)grh + GRH_BYTES - sizeof(*ip), sizeof(*ip));
	if (ip->version != 4 || ip->ihl != 5)
		return false;
	memcpy(words, ip, sizeof(words));
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff;
}

static void map_ipv4(union ibv_gid *gid, uint32_t address)
{
	memset(gid->raw, 0, 10);
	memset(gid->raw + 10, 0xff, 2);
	memcpy(gid->raw + 12, &address, 4);
}

/* Index of a GID of that type in the port's table, -1 when it is not there. */
static int find_gid(struct ibv_context *context, uint8_t port_num, int table_len,
		    const union ibv_gid *gid, uint32_t type)
{
	struct ibv_gid_entry entry;

	for (int i = 0; i < table_len; i++) {
		/* Holes in the table fail; look on behind them. */
		if (_ibv_query_gid_ex(context, port_num, (uint32_t)i, &entry, 0, sizeof(entry)))
			continue;
		if (entry.gid_type == type && !memcmp(&entry.gid, gid, sizeof(*gid)))
			return i;
	}
	return -1;
}

static int set_sgid(struct ibv_context *context, uint8_t port_num, const struct ibv_port_attr *port,
		    const union ibv_gid *gid, uint32_t type, struct ibv_ah_attr *attr)
{
	char text[INET6_ADDRSTRLEN];
	int index = find_gid(context, port_num, port->gid_tbl_len, gid, type);

	if (index < 0)
		return vb_fail_minus1(VB_RULE_AH_WC_GID, "port=%u destination=%s type=%u",
				      (unsigned int)port_num,
				      inet_ntop(AF_INET6, gid->raw, text, sizeof(text)), type);
	attr->grh.sgid_index = (uint8_t)index;
	return 0;
}

static int from_ipv6(struct ibv_context *context, uint8_t port_num,
		     const struct ibv_port_attr *port, const struct ibv_grh *grh,
		     struct ibv_ah_attr *attr)
{
	uint32_t word = ntohl(grh->version_tclass_flow);
	uint32_t type;

	if (word >> 28 != 6)
		return vb_fail_minus1(VB_RULE_AH_WC_HEADER, "version=%u", word >> 28);
	if (grh->next_hdr == IPPROTO_UDP)
		type = IBV_GID_TYPE_ROCE_V2;
	else if (grh->next_hdr == NEXT_HEADER_IBA)
		type = port->link_layer == IBV_LINK_LAYER_ETHERNET ? IBV_GID_TYPE_ROCE_V1
								   : IBV_GID_TYPE_IB;
	else
		return vb_fail_minus1(VB_RULE_AH_WC_HEADER, "next_hdr=%#x", grh->next_hdr);

	attr->grh.dgid = grh->sgid;
	attr->grh.flow_label = word & 0xfffff;
	attr->grh.traffic_class = (uint8_t)(word >> 20);
	attr->grh.hop_limit = grh->hop_limit;
	return set_sgid(context, port_num, port, &grh->dgid, type, attr);
}

static int from_ipv4(struct ibv_context *context, uint8_t port_num,
		     const struct ibv_port_attr *port, const struct iphdr *ip,
		     struct ibv_ah_attr *attr)
{
	union ibv_gid own;

	map_ipv4(&attr->grh.dgid, ip->saddr);
	map_ipv4(&own, ip->daddr);
	attr->grh.traffic_class = ip->tos;
	attr->grh.hop_limit = ip->ttl;
	return set_sgid(context, port_num, port, &own, IBV_GID_TYPE_ROCE_V2, attr);
}

int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc,
			struct ibv_grh *grh, struct ibv_ah_attr *ah_attr)
{
	struct ibv_port_attr port;
	struct iphdr ip;
	int err;

	memset(ah_attr, 0, sizeof(*ah_attr));
	ah_attr->dlid = wc->slid;
	ah_attr->sl = wc->sl;
	ah_attr->src_path_bits = wc->dlid_path_bits;
	ah_attr->port_num = port_num;
	if (!(wc->wc_flags & IBV_WC_GRH))
		return 0;

	ah_attr->is_global = 1;
	err = ibv_query_port(context, port_num, &port);
	if (err) {
		errno = err;
		return -1;
	}
	if (port.link_layer == IBV_LINK_LAYER_ETHERNET && ipv4_header(grh, &ip))
		return from_ipv4(context, port_num, &port, &ip, ah_attr);
	return from_ipv6(context, port_num, &port, grh, ah_attr);
}

struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
				     uint8_t port_num)
{
	struct ibv_ah_attr attr;

	if (ibv_init_ah_from_wc(pd->context, port_num, wc, grh, &attr))
		return NULL;
	return ibv_create_ah(pd, &attr);
}

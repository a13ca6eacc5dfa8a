/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <linux/errqueue.h>
#include <linux/in6.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>

#include "carrier/udp.h"

static const uint8_t v4_prefix[12] = {[10] = 0xff, [11] = 0xff};

/* Room for one control message of each kind that is used here. */
union control {
	struct cmsghdr align;
	uint8_t bytes[CMSG_SPACE(sizeof(struct in6_pktinfo)) + 4 * CMSG_SPACE(sizeof(int))];
};

static void gid_of_v4(uint8_t *gid, const void *addr)
{
	memcpy(gid, v4_prefix, sizeof(v4_prefix));
	memcpy(gid + 12, addr, 4);
}

static int int_of(const struct cmsghdr *at)
{
	int value;

	memcpy(&value, CMSG_DATA(at), sizeof(value));
	return value;
}

/* What the kernel says of an IPv4 datagram beside its bytes. True: where it went. */
static bool read_control4(const struct cmsghdr *at, struct vb_udp_datagram *d)
{
	struct in_pktinfo info;

	if (at->cmsg_type == IP_TOS)
		d->traffic_class = *CMSG_DATA(at);
	if (at->cmsg_type == IP_TTL)
		d->hop_limit = (uint8_t)int_of(at);
	if (at->cmsg_type != IP_PKTINFO)
		return false;
	memcpy(&info, CMSG_DATA(at), sizeof(info));
	gid_of_v4(d->dest_gid, &info.ipi_addr);
	return true;
}

static bool read_control6(const struct cmsghdr *at, struct vb_udp_datagram *d)
{
	struct in6_pktinfo info;

	if (at->cmsg_type == IPV6_TCLASS)
		d->traffic_class = (uint8_t)int_of(at);
	if (at->cmsg_type == IPV6_HOPLIMIT)
		d->hop_limit = (uint8_t)int_of(at);
	if (at->cmsg_type == IPV6_FLOWINFO)
		d->flow_label = ntohl((uint32_t)int_of(at)) & 0xfffff;
	if (at->cmsg_type != IPV6_PKTINFO)
		return false;
	memcpy(&info, CMSG_DATA(at), sizeof(info));
	memcpy(d->dest_gid, &info.ipi6_addr, 16);
	return true;
}

/* @segment: Bytes of each packet where there are several */
static bool read_control(struct msghdr *msg, struct vb_udp_datagram *d, uint32_t *segment)
{
	bool known = false;

	d->traffic_class = d->hop_limit = 0;
	for (struct cmsghdr *at = CMSG_FIRSTHDR(msg); at; at = CMSG_NXTHDR(msg, at)) {
		if (at->cmsg_level == IPPROTO_IP)
			known = read_control4(at, d) || known;
		else if (at->cmsg_level == IPPROTO_IPV6)
			known = read_control6(at, d) || known;
		else if (at->cmsg_level == IPPROTO_UDP && at->cmsg_type == UDP_GRO &&
			 int_of(at) > 0)
			*segment = (uint32_t)int_of(at);
	}
	return known;
}

/* The buffers of one call, and what the kernel says of each. */
struct call {
	struct mmsghdr msgs[VB_UDP_BUFFERS];
	union {
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} from[VB_UDP_BUFFERS];
	union control control[VB_UDP_BUFFERS];
	struct iovec iov[VB_UDP_BUFFERS];
};

static void prepare(struct call *c, struct vb_udp_inbox *inbox)
{
	memset(c->from, 0, sizeof(c->from));
	for (int i = 0; i < VB_UDP_BUFFERS; i++) {
		c->iov[i] = (struct iovec){inbox->bytes[i], VB_UDP_BUFFER};
		c->msgs[i].msg_hdr = (struct msghdr){.msg_name = &c->from[i],
						     .msg_namelen = sizeof(c->from[i]),
						     .msg_iov = &c->iov[i],
						     .msg_iovlen = 1,
						     .msg_control = &c->control[i],
						     .msg_controllen = sizeof(c->control[i])};
	}
}

uint32_t vb_udp_split(const struct vb_udp_datagram *like, const uint8_t *bytes, uint32_t len,
		      uint32_t segment, struct vb_udp_datagram *to)
{
	uint32_t n = 0;

	for (uint32_t at = 0; at < len && n < VB_UDP_SEGMENTS; at += segment, n++) {
		to[n] = *like;
		to[n].index = (uint16_t)n;
		to[n].bytes = bytes + at;
		to[n].len = len - at < segment ? len - at : segment;
	}
	return n;
}

/* One buffer's packets. Returns how many. */
static uint32_t cut(struct call *c, int i, int which, const uint8_t *bytes,
		    struct vb_udp_datagram *to)
{
	struct msghdr *msg = &c->msgs[i].msg_hdr;
	uint32_t len = c->msgs[i].msg_len, segment = len;
	struct vb_udp_datagram d = {.index = 0};

	if (msg->msg_flags & (MSG_TRUNC | MSG_CTRUNC) || !read_control(msg, &d, &segment))
		return 0;
	if (which)
		memcpy(d.src_gid, &c->from[i].v6.sin6_addr, 16);
	else
		gid_of_v4(d.src_gid, &c->from[i].v4.sin_addr);
	vb_udp_flow(&d.flow, d.src_gid, d.dest_gid,
		    ntohs(which ? c->from[i].v6.sin6_port : c->from[i].v4.sin_port));
	return vb_udp_split(&d, bytes, len, segment, to);
}

uint32_t vb_udp_receive(struct vb_udp *u, int which, struct vb_udp_inbox *inbox, bool *more)
{
	struct call c;
	uint32_t good = 0;
	int n;

	*more = false;
	if (u->in[which] < 0)
		return 0;
	prepare(&c, inbox);
	n = recvmmsg(u->in[which], c.msgs, VB_UDP_BUFFERS, MSG_DONTWAIT, NULL);
	for (int i = 0; i < n; i++)
		good += cut(&c, i, which, inbox->bytes[i], inbox->datagrams + good);
	*more = n == VB_UDP_BUFFERS;
	return good;
}

static bool nobody_has_the_port(const struct cmsghdr *at)
{
	const bool v4 = at->cmsg_level == IPPROTO_IP && at->cmsg_type == IP_RECVERR;
	const bool v6 = at->cmsg_level == IPPROTO_IPV6 && at->cmsg_type == IPV6_RECVERR;
	struct sock_extended_err err;

	if (!v4 && !v6)
		return false;
	memcpy(&err, CMSG_DATA(at), sizeof(err));
	return v4 ? err.ee_origin == SO_EE_ORIGIN_ICMP && err.ee_type == ICMP_DEST_UNREACH &&
			       err.ee_code == ICMP_PORT_UNREACH
		  : err.ee_origin == SO_EE_ORIGIN_ICMP6 && err.ee_type == ICMP6_DST_UNREACH &&
			       err.ee_code == ICMP6_DST_UNREACH_NOPORT;
}

static ssize_t take_error(int fd, struct msghdr *msg)
{
	return fd < 0 ? -1 : recvmsg(fd, msg, MSG_ERRQUEUE | MSG_DONTWAIT);
}

bool vb_udp_refused(struct vb_udp *u, int which, struct vb_udp_refused *refused)
{
	union {
		struct cmsghdr align;
		uint8_t bytes[CMSG_SPACE(sizeof(struct sock_extended_err) +
					 sizeof(struct sockaddr_in6)) +
			      4 * CMSG_SPACE(sizeof(int))];
	} control;
	union {
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} to;
	struct iovec iov = {refused->bytes, sizeof(refused->bytes)};
	struct msghdr msg;
	bool nobody = false;
	ssize_t n = 0;

	while (!nobody) {
		memset(&to, 0, sizeof(to));
		msg = (struct msghdr){.msg_name = &to,
				      .msg_namelen = sizeof(to),
				      .msg_iov = &iov,
				      .msg_iovlen = 1,
				      .msg_control = &control,
				      .msg_controllen = sizeof(control)};
		n = take_error(u->told[which], &msg);
		if (n < 0)
			return false;
		for (struct cmsghdr *at = CMSG_FIRSTHDR(&msg); at; at = CMSG_NXTHDR(&msg, at))
			nobody = nobody || nobody_has_the_port(at);
	}
	refused->len = (uint32_t)n;
	if (which)
		memcpy(refused->dest_gid, &to.v6.sin6_addr, 16);
	else
		gid_of_v4(refused->dest_gid, &to.v4.sin_addr);
	return true;
}

/* Whatever the others' kernel or adapter wrote as identification, a socket does not tell. Ours
 * is 0, or counts the segments of a buffer. */
static bool icrc_good(struct vb_udp_datagram *d)
{
	uint32_t crc;

	d->flow.ip_id = d->index;
	if (vb_icrc_good(vb_icrc_flow(&d->flow, (uint16_t)d->len), d->bytes, d->len))
		return true;
	d->flow.ip_id = 0;
	crc = vb_icrc_flow(&d->flow, (uint16_t)d->len);
	return !d->flow.ipv6 && vb_icrc_ip_id(crc, d->bytes, d->len, &d->flow.ip_id);
}

bool vb_udp_parse(struct vb_udp_datagram *d, struct vb_packet *pkt)
{
	d->intact = d->len <= VB_UDP_BYTES && icrc_good(d);
	return d->intact && vb_packet_parse(d->bytes, d->len, pkt) == VB_PARSE_OK;
}

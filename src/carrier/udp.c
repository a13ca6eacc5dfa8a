/* SPDX-License-Identifier: BSD-2-Clause */
#include "carrier/udp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Source ports of RoCEv2: 0xc000 and above. */
#define FIRST_SPORT 0xc000u
#define SPORTS	    0x4000u
#define BATCH	    16
#define RCVBUF	    (4 << 20)

static const uint8_t v4_prefix[12] = {[10] = 0xff, [11] = 0xff};

static bool is_v4(const uint8_t *gid)
{
	return !memcmp(gid, v4_prefix, sizeof(v4_prefix));
}

static bool is_link_local(const uint8_t *gid)
{
	return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

static void gid_of_v4(uint8_t *gid, const void *addr)
{
	memcpy(gid, v4_prefix, sizeof(v4_prefix));
	memcpy(gid + 12, addr, 4);
}

static int set(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value));
}

static int bind_port(int fd, bool v6, uint16_t port)
{
	struct sockaddr_in any4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_in6 any6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};

	return v6 ? bind(fd, (struct sockaddr *)&any6, sizeof(any6))
		  : bind(fd, (struct sockaddr *)&any4, sizeof(any4));
}

/* A socket that keeps to the path's MTU and leaves the identification 0. */
static int new_socket(bool v6)
{
	int fd = socket(v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	if (v6) {
		set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
		set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
	} else {
		set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
	}
	return fd;
}

static int open_in(bool v6)
{
	int fd = new_socket(v6), err;

	if (fd < 0)
		return fd;
	set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
	/* Beyond net.core.rmem_max where the process may. */
	if (set(fd, SOL_SOCKET, SO_RCVBUFFORCE, RCVBUF))
		set(fd, SOL_SOCKET, SO_RCVBUF, RCVBUF);
	if (v6) {
		set(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
		set(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
		set(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1);
	} else {
		set(fd, IPPROTO_IP, IP_PKTINFO, 1);
		set(fd, IPPROTO_IP, IP_RECVTOS, 1);
		set(fd, IPPROTO_IP, IP_RECVTTL, 1);
	}
	if (!bind_port(fd, v6, VB_UDP_PORT))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

int vb_udp_open(struct vb_udp *u)
{
	int err = 0;

	memset(u, 0xff, sizeof(*u));
	for (int v6 = 0; v6 < 2; v6++) {
		int fd = open_in(v6);

		u->in[v6] = fd < 0 ? -1 : fd;
		if (fd < 0 && !err)
			err = fd;
	}
	return u->in[0] < 0 && u->in[1] < 0 ? err : 0;
}

void vb_udp_close(struct vb_udp *u)
{
	for (int v6 = 0; v6 < 2; v6++) {
		if (u->in[v6] >= 0)
			close(u->in[v6]);
		for (int i = 0; i < VB_UDP_PORTS; i++)
			if (u->out[v6][i] >= 0)
				close(u->out[v6][i]);
	}
	memset(u, 0xff, sizeof(*u));
}

/* The socket that packets of a flow leave by. Two threads may come for the first one at a
 * time: the caller holds its lock. */
static int out_socket(struct vb_udp *u, bool v6, uint32_t flow, uint16_t *sport)
{
	/* Multiplied: neighbours are far from each other. */
	uint32_t hash = flow * 2654435761u;
	int slot = (int)(hash >> 29) % VB_UDP_PORTS;
	int *fd = &u->out[v6][slot];

	if (*fd < 0) {
		int made = new_socket(v6);

		if (made < 0)
			return made;
		for (uint32_t i = 0; i < SPORTS; i++) {
			*sport = (uint16_t)(FIRST_SPORT + ((hash >> 8) + i) % SPORTS);
			if (!bind_port(made, v6, *sport)) {
				*fd = made;
				u->sport[v6][slot] = *sport;
				return *fd;
			}
			if (errno != EADDRINUSE)
				break;
		}
		close(made);
		return -EADDRINUSE;
	}
	*sport = u->sport[v6][slot];
	return *fd;
}

/* Room for one control message of each kind that is used here. */
union control {
	struct cmsghdr align;
	uint8_t bytes[CMSG_SPACE(sizeof(struct in6_pktinfo)) + 3 * CMSG_SPACE(sizeof(int))];
};

static struct cmsghdr *put(struct msghdr *msg, struct cmsghdr *at, int level, int type,
			   const void *data, size_t size)
{
	at->cmsg_level = level;
	at->cmsg_type = type;
	at->cmsg_len = CMSG_LEN(size);
	memcpy(CMSG_DATA(at), data, size);
	return CMSG_NXTHDR(msg, at);
}

static void put_int(struct msghdr *msg, struct cmsghdr **at, int level, int type, int value)
{
	*at = put(msg, *at, level, type, &value, sizeof(value));
}

/* Where it goes and where it comes from, for the kernel. */
static void address4(struct msghdr *msg, const struct vb_udp_path *path, struct sockaddr_in *to)
{
	struct in_pktinfo info = {0};
	struct cmsghdr *at = CMSG_FIRSTHDR(msg);

	*to = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(VB_UDP_PORT)};
	memcpy(&to->sin_addr, path->dest_gid + 12, 4);
	memcpy(&info.ipi_spec_dst, path->own_gid + 12, 4);
	at = put(msg, at, IPPROTO_IP, IP_PKTINFO, &info, sizeof(info));
	put_int(msg, &at, IPPROTO_IP, IP_TOS, path->traffic_class);
	if (path->hop_limit)
		put_int(msg, &at, IPPROTO_IP, IP_TTL, path->hop_limit);
	msg->msg_name = to;
	msg->msg_namelen = sizeof(*to);
	msg->msg_controllen =
		CMSG_SPACE(sizeof(info)) + (path->hop_limit ? 2 : 1) * CMSG_SPACE(sizeof(int));
}

static void address6(struct msghdr *msg, const struct vb_udp_path *path, struct sockaddr_in6 *to)
{
	struct in6_pktinfo info = {0};
	struct cmsghdr *at = CMSG_FIRSTHDR(msg);
	uint32_t scope = is_link_local(path->dest_gid) ? path->ifindex : 0;

	*to = (struct sockaddr_in6){
		.sin6_family = AF_INET6, .sin6_port = htons(VB_UDP_PORT), .sin6_scope_id = scope};
	memcpy(&to->sin6_addr, path->dest_gid, 16);
	memcpy(&info.ipi6_addr, path->own_gid, 16);
	info.ipi6_ifindex = scope;
	at = put(msg, at, IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof(info));
	put_int(msg, &at, IPPROTO_IPV6, IPV6_TCLASS, path->traffic_class);
	if (path->hop_limit)
		put_int(msg, &at, IPPROTO_IPV6, IPV6_HOPLIMIT, path->hop_limit);
	msg->msg_name = to;
	msg->msg_namelen = sizeof(*to);
	msg->msg_controllen =
		CMSG_SPACE(sizeof(info)) + (path->hop_limit ? 2 : 1) * CMSG_SPACE(sizeof(int));
}

static void flow_of(struct vb_flow *flow, const uint8_t *src_gid, const uint8_t *dest_gid,
		    uint16_t sport)
{
	bool v4 = is_v4(dest_gid);

	memset(flow, 0, sizeof(*flow));
	flow->ipv6 = !v4;
	memcpy(flow->saddr, src_gid + (v4 ? 12 : 0), v4 ? 4 : 16);
	memcpy(flow->daddr, dest_gid + (v4 ? 12 : 0), v4 ? 4 : 16);
	flow->sport = sport;
	flow->dport = VB_UDP_PORT;
	flow->df = true;
}

/* The four bytes of padding and ICRC behind headers and payload. */
static uint32_t trailer(const struct vb_flow *flow, const uint8_t *header, size_t header_len,
			const void *payload, uint32_t payload_len, uint8_t *to)
{
	uint32_t pad = vb_packet_pad(payload_len);
	uint32_t crc;

	memset(to, 0, pad);
	crc = vb_icrc_flow(flow, (uint16_t)(header_len + payload_len + pad + VB_ICRC_LEN));
	crc = vb_icrc_bth(crc, header, header_len);
	if (payload_len)
		crc = vb_icrc_add(crc, payload, payload_len);
	crc = vb_icrc_add(crc, to, pad);
	vb_icrc_store(crc, to + pad);
	return pad + VB_ICRC_LEN;
}

int vb_udp_send(struct vb_udp *u, const struct vb_udp_path *path, const struct vb_packet *hdr,
		const void *payload)
{
	uint8_t header[VB_HDR_MAX], end[3 + VB_ICRC_LEN];
	size_t header_len = vb_packet_build(hdr, header, sizeof(header));
	bool v6 = !is_v4(path->dest_gid);
	union {
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} to;
	union control control = {.bytes = {0}};
	struct iovec iov[3] = {{header, header_len},
			       {(void *)(uintptr_t)payload, hdr->payload_len}};
	struct msghdr msg = {.msg_iov = iov,
			     .msg_iovlen = 3,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	struct vb_flow flow;
	uint16_t sport;
	int fd = out_socket(u, v6, path->flow, &sport);

	if (fd < 0)
		return fd;
	if (!header_len)
		return -EINVAL;
	flow_of(&flow, path->own_gid, path->dest_gid, sport);
	iov[2].iov_base = end;
	iov[2].iov_len = trailer(&flow, header, header_len, payload, hdr->payload_len, end);
	if (v6)
		address6(&msg, path, &to.v6);
	else
		address4(&msg, path, &to.v4);
	return sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
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
	if (at->cmsg_type != IPV6_PKTINFO)
		return false;
	memcpy(&info, CMSG_DATA(at), sizeof(info));
	memcpy(d->dest_gid, &info.ipi6_addr, 16);
	return true;
}

static bool read_control(struct msghdr *msg, struct vb_udp_datagram *d)
{
	bool known = false;

	d->traffic_class = d->hop_limit = 0;
	for (struct cmsghdr *at = CMSG_FIRSTHDR(msg); at; at = CMSG_NXTHDR(msg, at)) {
		if (at->cmsg_level == IPPROTO_IP)
			known = read_control4(at, d) || known;
		else if (at->cmsg_level == IPPROTO_IPV6)
			known = read_control6(at, d) || known;
	}
	return known;
}

int vb_udp_receive(struct vb_udp *u, int which, struct vb_udp_datagram *to, int most)
{
	struct mmsghdr msgs[BATCH];
	union {
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} from[BATCH];
	union control control[BATCH];
	struct iovec iov[BATCH];
	int n, good = 0;

	if (u->in[which] < 0)
		return 0;
	memset(from, 0, sizeof(from));
	most = most < BATCH ? most : BATCH;
	for (int i = 0; i < most; i++) {
		iov[i] = (struct iovec){to[i].bytes, sizeof(to[i].bytes)};
		msgs[i].msg_hdr = (struct msghdr){.msg_name = &from[i],
						  .msg_namelen = sizeof(from[i]),
						  .msg_iov = &iov[i],
						  .msg_iovlen = 1,
						  .msg_control = &control[i],
						  .msg_controllen = sizeof(control[i])};
	}
	n = recvmmsg(u->in[which], msgs, (unsigned int)most, MSG_DONTWAIT, NULL);
	for (int i = 0; i < n; i++) {
		struct vb_udp_datagram *d = &to[good];

		if (msgs[i].msg_hdr.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
			continue;
		if (good != i)
			memcpy(d->bytes, to[i].bytes, msgs[i].msg_len);
		d->len = msgs[i].msg_len;
		if (!read_control(&msgs[i].msg_hdr, d))
			continue;
		if (which)
			memcpy(d->src_gid, &from[i].v6.sin6_addr, 16);
		else
			gid_of_v4(d->src_gid, &from[i].v4.sin_addr);
		flow_of(&d->flow, d->src_gid, d->dest_gid,
			ntohs(which ? from[i].v6.sin6_port : from[i].v4.sin_port));
		good++;
	}
	return good;
}

bool vb_udp_parse(const struct vb_udp_datagram *d, struct vb_packet *pkt)
{
	uint32_t crc;

	if (d->len > sizeof(d->bytes))
		return false;
	crc = vb_icrc_flow(&d->flow, (uint16_t)d->len);
	return vb_icrc_good(crc, d->bytes, d->len) &&
	       vb_packet_parse(d->bytes, d->len, pkt) == VB_PARSE_OK;
}

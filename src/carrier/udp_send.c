/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/in6.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/touch.h"
#include "carrier/udp.h"
#include "object/gid.h"

/* What a first packet takes of the room for many. */
#define FIRST_BYTES 1024

/* Room for one control message of each kind that is used here. */
union control {
	struct cmsghdr align;
	uint8_t bytes[CMSG_SPACE(sizeof(struct in6_pktinfo)) + 2 * CMSG_SPACE(sizeof(int)) +
		      CMSG_SPACE(sizeof(uint16_t))];
};

/* Where the burst goes, as the kernel wants it. */
union address {
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static void put(struct msghdr *msg, int level, int type, const void *data, size_t size)
{
	struct cmsghdr *at = (struct cmsghdr *)((uint8_t *)msg->msg_control + msg->msg_controllen);

	at->cmsg_level = level;
	at->cmsg_type = type;
	at->cmsg_len = CMSG_LEN(size);
	memcpy(CMSG_DATA(at), data, size);
	msg->msg_controllen += CMSG_SPACE(size);
}

static void put_int(struct msghdr *msg, int level, int type, int value)
{
	put(msg, level, type, &value, sizeof(value));
}

/* 0: the kernel's, which for a group is another one than for a host. */
static uint8_t hops(const struct vb_udp_path *path)
{
	if (!path->hop_limit && vb_gid_is_multicast(path->dest_gid))
		return VB_UDP_HOPS;
	return path->hop_limit;
}

/* Where it goes and where it comes from, for the kernel. */
static void address4(struct msghdr *msg, const struct vb_udp_path *path, struct sockaddr_in *to)
{
	struct in_pktinfo info = {0};

	*to = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(VB_UDP_PORT)};
	memcpy(&to->sin_addr, path->dest_gid + 12, 4);
	memcpy(&info.ipi_spec_dst, path->own_gid + 12, 4);
	if (vb_gid_is_multicast(path->dest_gid))
		info.ipi_ifindex = (int)path->ifindex;
	msg->msg_name = to;
	msg->msg_namelen = sizeof(*to);
	put(msg, IPPROTO_IP, IP_PKTINFO, &info, sizeof(info));
	put_int(msg, IPPROTO_IP, IP_TOS, path->traffic_class);
	if (hops(path))
		put_int(msg, IPPROTO_IP, IP_TTL, hops(path));
}

static void address6(struct msghdr *msg, const struct vb_udp_path *path, struct sockaddr_in6 *to)
{
	struct in6_pktinfo info = {0};
	bool one_link = vb_gid_is_link_local(path->dest_gid) || vb_gid_is_multicast(path->dest_gid);
	uint32_t scope = one_link ? path->ifindex : 0;

	*to = (struct sockaddr_in6){.sin6_family = AF_INET6,
				    .sin6_port = htons(VB_UDP_PORT),
				    .sin6_flowinfo = htonl(path->flow_label),
				    .sin6_scope_id = scope};
	memcpy(&to->sin6_addr, path->dest_gid, 16);
	memcpy(&info.ipi6_addr, path->own_gid, 16);
	info.ipi6_ifindex = scope;
	msg->msg_name = to;
	msg->msg_namelen = sizeof(*to);
	put(msg, IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof(info));
	put_int(msg, IPPROTO_IPV6, IPV6_TCLASS, path->traffic_class);
	if (hops(path))
		put_int(msg, IPPROTO_IPV6, IPV6_HOPLIMIT, hops(path));
}

/* ---- filling ---- */

void vb_udp_burst_empty(struct vb_udp_burst *b)
{
	b->used = 0;
	b->nruns = 0;
	b->packets = 0;
	b->payload = 0;
}

struct vb_udp_burst *vb_udp_burst_new(void)
{
	struct vb_udp_burst *b = malloc(sizeof(*b));

	if (!b)
		return NULL;
	b->next = NULL;
	vb_touch(b, offsetof(struct vb_udp_burst, bytes) + FIRST_BYTES);
	return b;
}

int vb_udp_burst_begin(struct vb_udp *u, struct vb_udp_burst *b, const struct vb_udp_path *path)
{
	uint16_t sport = 0;

	b->path = *path;
	b->path.flow_label &= 0xfffff;
	if (path->inside) {
		b->fd = -1;
		vb_udp_flow(&b->flow, path->own_gid, path->dest_gid,
			    vb_udp_label_port(b->path.flow_label));
		vb_udp_burst_empty(b);
		return 0;
	}
	if (path->told)
		b->fd = vb_udp_told(u, !vb_gid_is_v4(path->dest_gid), &sport);
	else
		b->fd = vb_udp_out(u, !vb_gid_is_v4(path->dest_gid), path->flow, b->path.flow_label,
				   &sport);
	if (b->fd < 0)
		return b->fd;
	vb_udp_flow(&b->flow, path->own_gid, path->dest_gid, sport);
	vb_udp_burst_empty(b);
	return 0;
}

/* The bytes of a whole packet. */
static uint32_t size_of(const struct vb_packet *hdr)
{
	return vb_op_row(hdr->opcode)->length + hdr->payload_len + vb_packet_pad(hdr->payload_len) +
	       VB_ICRC_LEN;
}

static struct vb_udp_run *last_run(struct vb_udp_burst *b)
{
	return b->nruns ? &b->runs[b->nruns - 1] : NULL;
}

/* Whether a packet continues the last run: none is longer than the first, and none follows a
 * shorter one. */
static bool joins(const struct vb_udp *u, const struct vb_udp_burst *b,
		  const struct vb_udp_run *run, uint32_t size)
{
	return run && !run->closed && !u->one_by_one && !b->path.singly && size <= run->segment &&
	       run->count < VB_UDP_SEGMENTS && run->len + size <= VB_UDP_BUFFER - 1024;
}

bool vb_udp_burst_fits(const struct vb_udp *u, const struct vb_udp_burst *b,
		       const struct vb_packet *hdr)
{
	if (!vb_op_row(hdr->opcode) || hdr->payload_len > VB_UDP_BYTES - VB_HDR_MAX - VB_ICRC_LEN)
		return !b->used; /* no packet: not even an empty one helps */
	if (b->used + size_of(hdr) > sizeof(b->bytes))
		return false;
	return b->nruns < sizeof(b->runs) / sizeof(b->runs[0]) ||
	       joins(u, b, &b->runs[b->nruns - 1], size_of(hdr));
}

uint8_t *vb_udp_burst_room(struct vb_udp_burst *b, const struct vb_packet *hdr)
{
	const struct vb_op_row *op = vb_op_row(hdr->opcode);

	if (!op || hdr->payload_len > VB_UDP_BYTES - VB_HDR_MAX - VB_ICRC_LEN)
		return NULL;
	vb_packet_build(hdr, b->bytes + b->used, VB_HDR_MAX);
	return b->bytes + b->used + op->length;
}

/* Write the ICRC of a packet that stands in the burst. */
static void seal(struct vb_udp_burst *b, uint8_t *packet, uint32_t size, uint32_t index)
{
	uint32_t crc;

	b->flow.ip_id = (uint16_t)index;
	crc = vb_icrc_bth(vb_icrc_flow(&b->flow, (uint16_t)size), packet, size - VB_ICRC_LEN);
	vb_icrc_store(crc, packet + size - VB_ICRC_LEN);
}

void vb_udp_burst_add(struct vb_udp *u, struct vb_udp_burst *b, const struct vb_packet *hdr)
{
	uint32_t size = size_of(hdr), pad = vb_packet_pad(hdr->payload_len);
	struct vb_udp_run *run = last_run(b);

	memset(b->bytes + b->used + size - VB_ICRC_LEN - pad, 0, pad);
	if (!joins(u, b, run, size)) {
		run = &b->runs[b->nruns++];
		*run = (struct vb_udp_run){.at = b->used, .segment = size};
	}
	seal(b, b->bytes + b->used, size, run->count);
	run->closed = size < run->segment;
	run->count++;
	run->len += size;
	b->packets++;
	b->payload += hdr->payload_len;
	b->used += size;
}

uint32_t vb_udp_burst_index(const struct vb_udp_burst *b)
{
	return b->nruns ? b->runs[b->nruns - 1].count - 1 : 0;
}

bool vb_udp_burst_raw(struct vb_udp_burst *b, const uint8_t *bytes, uint32_t len)
{
	if (b->nruns == sizeof(b->runs) / sizeof(b->runs[0]) || b->used + len > sizeof(b->bytes))
		return false;
	if (!len)
		return true; /* nothing is left of it */
	memcpy(b->bytes + b->used, bytes, len);
	b->runs[b->nruns++] = (struct vb_udp_run){
		.at = b->used, .len = len, .segment = len, .count = 1, .closed = true};
	b->used += len;
	return true;
}

bool vb_udp_burst_packet(const struct vb_udp_burst *b, uint32_t *at, struct vb_udp_datagram *d)
{
	uint32_t i = 0, left;
	const struct vb_udp_run *run;

	while (i < b->nruns && *at >= b->runs[i].at + b->runs[i].len)
		i++;
	if (i == b->nruns)
		return false;
	run = &b->runs[i];
	left = run->at + run->len - *at;
	*d = (struct vb_udp_datagram){
		.flow = b->flow,
		.traffic_class = b->path.traffic_class,
		.hop_limit = b->path.hop_limit ? b->path.hop_limit : VB_UDP_HOPS,
		.index = (uint16_t)((*at - run->at) / run->segment),
		.flow_label = b->flow.ipv6 ? b->path.flow_label : 0,
		.len = left < run->segment ? left : run->segment,
		.bytes = b->bytes + *at,
	};
	d->flow.ip_id = d->index;
	memcpy(d->src_gid, b->path.own_gid, 16);
	memcpy(d->dest_gid, b->path.dest_gid, 16);
	*at += d->len;
	return true;
}

/* ---- sending ---- */

/* Room in the socket comes back when the interface has taken what is there. */
#define WAIT_MS	  2
#define WAIT_MOST 5

static bool wait_for_room(int fd)
{
	struct pollfd out = {.fd = fd, .events = POLLOUT};

	return poll(&out, 1, WAIT_MS) >= 0;
}

/* Where somebody in this network namespace has a label for itself, the kernel wants each other one
 * to be asked for. What it does not give, the packet goes without: the kernel chooses one. */
static bool ask_for_label(struct vb_udp_burst *b, struct msghdr *msg)
{
	struct sockaddr_in6 *to = msg->msg_name;
	struct in6_flowlabel_req ask = {.flr_action = IPV6_FL_A_GET,
					.flr_share = IPV6_FL_S_ANY,
					.flr_flags = IPV6_FL_F_CREATE};

	if (!b->flow.ipv6 || !to->sin6_flowinfo)
		return false;
	ask.flr_label = to->sin6_flowinfo;
	memcpy(&ask.flr_dst, &to->sin6_addr, sizeof(ask.flr_dst));
	if (b->asked || setsockopt(b->fd, IPPROTO_IPV6, IPV6_FLOWLABEL_MGR, &ask, sizeof(ask)))
		to->sin6_flowinfo = 0;
	b->asked = true;
	return true;
}

static int send_one(struct vb_udp_burst *b, struct msghdr *msg)
{
	for (int i = 0; sendmsg(b->fd, msg, MSG_NOSIGNAL | MSG_DONTWAIT) < 0; i++) {
		if (errno == EINVAL && ask_for_label(b, msg))
			continue;
		/* Of an earlier packet, and said once. */
		if (b->path.told && !i && errno != EAGAIN && errno != ENOBUFS)
			continue;
		if ((errno != EAGAIN && errno != ENOBUFS) || i >= WAIT_MOST ||
		    !wait_for_room(b->fd))
			return -errno;
	}
	return 0;
}

/* A run that the kernel would not cut. */
static void send_singly(struct vb_udp_burst *b, const struct vb_udp_run *run, struct msghdr *msg)
{
	for (uint32_t at = 0; at < run->len; at += run->segment) {
		uint32_t left = run->len - at;
		uint32_t size = left < run->segment ? left : run->segment;

		if (at)
			seal(b, b->bytes + run->at + at, size, 0);
		*msg->msg_iov = (struct iovec){b->bytes + run->at + at, size};
		if (send_one(b, msg))
			return;
	}
}

static void send_run(struct vb_udp *u, struct vb_udp_burst *b, const struct vb_udp_run *run,
		     struct msghdr *msg)
{
	size_t control = msg->msg_controllen;
	uint16_t segment = (uint16_t)run->segment;
	int err;

	if (run->count == 1) {
		send_singly(b, run, msg);
		return;
	}
	*msg->msg_iov = (struct iovec){b->bytes + run->at, run->len};
	put(msg, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof(segment));
	err = send_one(b, msg);
	msg->msg_controllen = control;
	/* Not on this interface, or not this long: one at a time says more. */
	if (err == -EIO || err == -EOPNOTSUPP || err == -ENOPROTOOPT)
		u->one_by_one = true;
	if (u->one_by_one || err == -EINVAL || err == -EMSGSIZE)
		send_singly(b, run, msg);
}

void vb_udp_burst_send(struct vb_udp *u, struct vb_udp_burst *b)
{
	union control control = {.bytes = {0}};
	struct iovec iov;
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control};
	union address to;

	b->asked = false;
	if (b->flow.ipv6)
		address6(&msg, &b->path, &to.v6);
	else
		address4(&msg, &b->path, &to.v4);
	for (uint32_t i = 0; i < b->nruns; i++)
		send_run(u, b, &b->runs[i], &msg);
	vb_udp_burst_empty(b);
}

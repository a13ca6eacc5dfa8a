/* SPDX-License-Identifier: BSD-2-Clause */
#include "carrier/udp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <linux/in6.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "object/gid.h"

#define SPORTS 0x4000u
#define RCVBUF (4 << 20)
/* In place of a descriptor; no errno. */
#define UNUSED INT_MIN

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
		set(fd, IPPROTO_IPV6, IPV6_FLOWINFO, 1);
		/* RoCEv2 needs no UDP checksum, and Soft-RoCE writes none. */
		set(fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, 1);
	} else {
		set(fd, IPPROTO_IP, IP_PKTINFO, 1);
		set(fd, IPPROTO_IP, IP_RECVTOS, 1);
		set(fd, IPPROTO_IP, IP_RECVTTL, 1);
	}
	set(fd, IPPROTO_UDP, UDP_GRO, 1);
	vb_udp_mcast_only_joined(fd, v6, true);
	if (!bind_port(fd, v6, VB_UDP_PORT))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

static void all_closed(struct vb_udp *u)
{
	memset(u, 0xff, sizeof(*u));
	u->one_by_one = false;
	u->loop = false;
	for (int i = 0; i < VB_UDP_LABELS; i++)
		u->labelled[0][i] = u->labelled[1][i] = UNUSED;
}

int vb_udp_open(struct vb_udp *u)
{
	all_closed(u);
	return vb_udp_bind(u);
}

int vb_udp_bind(struct vb_udp *u)
{
	int err = 0;

	for (int v6 = 0; v6 < 2; v6++) {
		int fd = u->in[v6] < 0 ? open_in(v6) : u->in[v6];

		u->in[v6] = fd < 0 ? -1 : fd;
		if (fd < 0 && !err)
			err = fd;
	}
	return u->in[0] < 0 && u->in[1] < 0 ? err : 0;
}

void vb_udp_close_in(struct vb_udp *u, int which)
{
	if (u->in[which] >= 0)
		close(u->in[which]);
	u->in[which] = -1;
}

void vb_udp_close(struct vb_udp *u)
{
	for (int v6 = 0; v6 < 2; v6++) {
		vb_udp_close_in(u, v6);
		if (u->told[v6] >= 0)
			close(u->told[v6]);
		for (int i = 0; i < VB_UDP_PORTS; i++)
			if (u->out[v6][i] >= 0)
				close(u->out[v6][i]);
		for (int i = 0; i < VB_UDP_JOINS; i++)
			if (u->join[v6][i] >= 0)
				close(u->join[v6][i]);
		for (int i = 0; i < VB_UDP_LABELS; i++)
			if (u->labelled[v6][i] >= 0)
				close(u->labelled[v6][i]);
	}
	all_closed(u);
}

/* A socket whose port is one of @count from @first on: @first where it can be had. */
static int open_out(const struct vb_udp *u, bool v6, uint32_t first, uint32_t count,
		    uint16_t *sport, bool told)
{
	int fd = new_socket(v6), err = -EADDRINUSE;

	*sport = (uint16_t)(VB_UDP_FIRST_SPORT + first % SPORTS);
	if (fd < 0)
		return fd;
	/* Other processes of this user may want the same label; nothing is received here, unless
	 * it is refusals, which are to come to whom they concern. */
	if (told)
		set(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_RECVERR : IP_RECVERR, 1);
	else
		set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
	if (v6)
		set(fd, IPPROTO_IPV6, IPV6_FLOWINFO_SEND, 1);
	vb_udp_mcast_loop(fd, v6, u->loop);
	for (uint32_t i = 0; i < count && err == -EADDRINUSE; i++) {
		*sport = (uint16_t)(VB_UDP_FIRST_SPORT + (first + i) % SPORTS);
		err = bind_port(fd, v6, *sport) ? -errno : 0;
	}
	if (!err)
		return fd;
	close(fd);
	return err;
}

/* Or a negative errno where its port cannot be had: not asked for again. */
static int labelled_out(struct vb_udp *u, bool v6, uint16_t port)
{
	for (int i = 0; i < VB_UDP_LABELS; i++) {
		int *fd = &u->labelled[v6][i];
		uint16_t *sport = &u->label_sport[v6][i];

		if (*fd == UNUSED)
			*fd = open_out(u, v6, port - VB_UDP_FIRST_SPORT, 1, sport, false);
		if (*sport == port)
			return *fd;
	}
	return -EMFILE;
}

int vb_udp_out(struct vb_udp *u, bool v6, uint32_t flow, uint32_t label, uint16_t *sport)
{
	/* Multiplied: neighbours are far from each other. */
	uint32_t hash = (label ? label : flow) * 2654435761u;
	int slot = (int)(hash >> 29) % VB_UDP_PORTS;
	int *fd = &u->out[v6][slot], made;

	if (label) {
		*sport = vb_udp_label_port(label);
		made = labelled_out(u, v6, *sport);
		if (made >= 0)
			return made;
	}
	if (*fd < 0) {
		made = open_out(u, v6, hash >> 8, SPORTS, &u->sport[v6][slot], false);
		if (made < 0)
			return made;
		*fd = made;
	}
	*sport = u->sport[v6][slot];
	return *fd;
}

int vb_udp_told(struct vb_udp *u, bool v6, uint16_t *sport)
{
	uint32_t first = (uint32_t)getpid() * 2654435761u;
	int fd = u->told[v6];

	if (fd < 0)
		fd = open_out(u, v6, first >> 8, SPORTS, &u->told_sport[v6], true);
	if (fd < 0)
		return fd;
	u->told[v6] = fd;
	*sport = u->told_sport[v6];
	return fd;
}

void vb_udp_flow(struct vb_flow *flow, const uint8_t *src_gid, const uint8_t *dest_gid,
		 uint16_t sport)
{
	bool v4 = vb_gid_is_v4(dest_gid);

	memset(flow, 0, sizeof(*flow));
	flow->ipv6 = !v4;
	memcpy(flow->saddr, src_gid + (v4 ? 12 : 0), v4 ? 4 : 16);
	memcpy(flow->daddr, dest_gid + (v4 ? 12 : 0), v4 ? 4 : 16);
	flow->sport = sport;
	flow->dport = VB_UDP_PORT;
	flow->df = true;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Membership in IP multicast groups.
 *
 * The kernel gives a multicast datagram to every socket bound to the port that has joined the group
 * on the interface it came by, and, where IP_MULTICAST_ALL is set, to those that did not. It is
 * not set here: each process gets what its own QPs are attached to, once, and nothing is handed
 * over.
 *
 * A socket can be in a limited number of IPv4 groups (net.ipv4.igmp_max_memberships). Further ones
 * are joined by sockets that do nothing else, and the one bound to the port is then open to
 * all; what nobody here is attached to is dropped.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "carrier/udp.h"
#include "object/gid.h"

#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif

static int set(int fd, int level, int name, const void *value, socklen_t size)
{
	return setsockopt(fd, level, name, value, size) ? -errno : 0;
}

void vb_udp_mcast_only_joined(int fd, bool v6, bool only)
{
	int all = !only;

	if (v6)
		set(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, &all, sizeof(all));
	else
		set(fd, IPPROTO_IP, IP_MULTICAST_ALL, &all, sizeof(all));
}

void vb_udp_mcast_loop(int fd, bool v6, bool loop)
{
	int value = loop;

	if (v6)
		set(fd, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, &value, sizeof(value));
	else
		set(fd, IPPROTO_IP, IP_MULTICAST_LOOP, &value, sizeof(value));
}

static int change(int fd, bool join, const uint8_t *gid, uint32_t ifindex)
{
	struct ip_mreqn group4 = {.imr_ifindex = (int)ifindex};
	struct ipv6_mreq group6 = {.ipv6mr_interface = ifindex};

	if (fd < 0)
		return -ENOTCONN;
	if (vb_gid_is_v4(gid)) {
		memcpy(&group4.imr_multiaddr, gid + 12, 4);
		return set(fd, IPPROTO_IP, join ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP, &group4,
			   sizeof(group4));
	}
	memcpy(&group6.ipv6mr_multiaddr, gid, 16);
	return set(fd, IPPROTO_IPV6, join ? IPV6_JOIN_GROUP : IPV6_LEAVE_GROUP, &group6,
		   sizeof(group6));
}

static bool is_full(int err)
{
	return err == -ENOBUFS || err == -ENOMEM;
}

static int join_by_another(struct vb_udp *u, bool v6, const uint8_t *gid, uint32_t ifindex)
{
	int err = -ENOBUFS;

	for (int i = 0; i < VB_UDP_JOINS && is_full(err); i++) {
		if (u->join[v6][i] < 0)
			u->join[v6][i] =
				socket(v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		if (u->join[v6][i] < 0)
			return -errno;
		err = change(u->join[v6][i], true, gid, ifindex);
	}
	if (!err)
		vb_udp_mcast_only_joined(u->in[v6], v6, false);
	return err;
}

int vb_udp_join(struct vb_udp *u, const uint8_t *gid, uint32_t ifindex)
{
	bool v6 = !vb_gid_is_v4(gid);
	int err = change(u->in[v6], true, gid, ifindex);

	if (is_full(err))
		err = join_by_another(u, v6, gid, ifindex);
	return err == -EADDRINUSE ? 0 : err; /* it is in it */
}

void vb_udp_leave(struct vb_udp *u, const uint8_t *gid, uint32_t ifindex)
{
	bool v6 = !vb_gid_is_v4(gid);

	if (!change(u->in[v6], false, gid, ifindex))
		return;
	for (int i = 0; i < VB_UDP_JOINS; i++)
		if (!change(u->join[v6][i], false, gid, ifindex))
			return;
}

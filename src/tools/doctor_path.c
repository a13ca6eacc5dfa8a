/* SPDX-License-Identifier: BSD-2-Clause */
/* What stands between this host and others: firewalls, routes, what fits through. */
#include "tools/doctor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/errqueue.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host/discover.h"

#define ROCE_PORT 4791
/* How long a datagram of our own may take, and word from the way to a peer. */
#define OWN_MS	500
#define PEER_MS 1000
/* IP, UDP, BTH, RETH, immediate data and ICRC: what a packet takes beside its payload. */
#define HEADERS4 (20 + 8 + 12 + 16 + 4 + 4)
#define HEADERS6 (HEADERS4 + 20)

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static socklen_t size_of(const union address *a)
{
	return a->any.sa_family == AF_INET ? sizeof(a->v4) : sizeof(a->v6);
}

static void set_port(union address *a, uint16_t port)
{
	if (a->any.sa_family == AF_INET)
		a->v4.sin_port = htons(port);
	else
		a->v6.sin6_port = htons(port);
}

static const char *text_of(const union address *a, char text[INET6_ADDRSTRLEN])
{
	return inet_ntop(a->any.sa_family,
			 a->any.sa_family == AF_INET ? (const void *)&a->v4.sin_addr
						     : (const void *)&a->v6.sin6_addr,
			 text, INET6_ADDRSTRLEN);
}

static int set(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value));
}

static int bound(const union address *at)
{
	int fd = socket(at->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -1;
	set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
	if (!bind(fd, &at->any, size_of(at)))
		return fd;
	close(fd);
	return -1;
}

enum arrival { ARRIVED, LOST, FORBIDDEN, NOT_TRIED };

/* A datagram from an address to port 4791 of the same. The receiver is connected to the sender, so
 * that the kernel prefers it to those of programs that run. */
static enum arrival send_to_self(const union address *own)
{
	union address at = *own, from = *own;
	enum arrival arrival = NOT_TRIED;
	socklen_t size = sizeof(from);
	struct pollfd in = {.events = POLLIN};
	int out;

	set_port(&from, 0);
	set_port(&at, ROCE_PORT);
	out = bound(&from);
	in.fd = bound(&at);
	if (out >= 0 && in.fd >= 0 && !getsockname(out, &from.any, &size) &&
	    !connect(in.fd, &from.any, size_of(&from))) {
		if (sendto(out, "", 1, 0, &at.any, size_of(&at)) == 1)
			arrival = poll(&in, 1, OWN_MS) == 1 ? ARRIVED : LOST;
		else if (errno == EPERM)
			arrival = FORBIDDEN;
	}
	if (out >= 0)
		close(out);
	if (in.fd >= 0)
		close(in.fd);
	return arrival;
}

static void show_arrival(const union address *own, const char *ifname)
{
	char text[INET6_ADDRSTRLEN];

	switch (send_to_self(own)) {
	case ARRIVED:
		doctor_line(DOCTOR_OK, "%s: UDP 4791 of %s is open from this host", ifname,
			    text_of(own, text));
		break;
	case LOST:
		doctor_line(
			DOCTOR_WARN,
			"a firewall drops UDP 4791 on %s (%s): let it in, or nothing comes from "
			"other hosts",
			ifname, text_of(own, text));
		break;
	case FORBIDDEN:
		doctor_line(DOCTOR_WARN,
			    "a firewall drops UDP 4791 on %s (%s) on its way out: nothing goes to "
			    "other hosts",
			    ifname, text_of(own, text));
		break;
	case NOT_TRIED:
		break; /* the port is another's, or the address not there: said elsewhere */
	}
}

static void address_of_gid(const struct vb_gid_entry *gid, union address *a)
{
	memset(a, 0, sizeof(*a));
	if (vb_gid_is_v4(gid->raw)) {
		a->v4.sin_family = AF_INET;
		memcpy(&a->v4.sin_addr, gid->raw + 12, 4);
		return;
	}
	a->v6.sin6_family = AF_INET6;
	memcpy(&a->v6.sin6_addr, gid->raw, 16);
	if (vb_gid_is_link_local(gid->raw))
		a->v6.sin6_scope_id = gid->ifindex;
}

/* The next entry in use, of RoCE v2. */
static bool next_gid(struct vb_device *dev, uint32_t *index, struct vb_gid_entry *gid)
{
	for (; *index < dev->gid_tbl_len; ++*index)
		if (!vb_device_gid(dev, VB_PORT, *index, gid) && gid->used &&
		    gid->type == VB_GID_ROCE_V2) {
			++*index;
			return true;
		}
	return false;
}

void doctor_firewall(void)
{
	union address a = {.v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001)}};
	struct vb_gid_entry gid;
	size_t count = 0;

	if (vb_devices(&count) || !count)
		return;
	show_arrival(&a, "lo");
	for (size_t i = 0; i < count; i++)
		for (uint32_t at = 0; next_gid(vb_device_at(i), &at, &gid);) {
			address_of_gid(&gid, &a);
			if (a.any.sa_family != AF_INET || a.v4.sin_addr.s_addr != htonl(0x7f000001))
				show_arrival(&a, gid.ifname);
		}
}

/* ---- a given peer ---- */

static const char *peer_name;

void doctor_set_peer(const char *name)
{
	peer_name = name;
}

static bool same_address(const union address *a, const union address *b)
{
	if (a->any.sa_family != b->any.sa_family)
		return false;
	return a->any.sa_family == AF_INET
		       ? a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr
		       : !memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof(a->v6.sin6_addr));
}

/* The interface that has an address; "" none. */
static void find_interface(const union address *own, char name[IF_NAMESIZE])
{
	struct ifaddrs *all = NULL;

	name[0] = 0;
	if (getifaddrs(&all))
		return;
	for (const struct ifaddrs *i = all; i && !name[0]; i = i->ifa_next)
		if (i->ifa_addr &&
		    same_address(own, (const union address *)(const void *)i->ifa_addr))
			snprintf(name, IF_NAMESIZE, "%s", i->ifa_name);
	freeifaddrs(all);
}

/* Whose GID the address is that packets leave with. Return: the device, or NULL */
static struct vb_device *show_route(const union address *own)
{
	char text[INET6_ADDRSTRLEN], name[IF_NAMESIZE];
	struct vb_gid_entry gid;
	union address a;
	size_t count = 0;

	find_interface(own, name);
	for (size_t i = 0; !vb_devices(&count) && i < count; i++)
		for (uint32_t at = 0; next_gid(vb_device_at(i), &at, &gid);) {
			address_of_gid(&gid, &a);
			if (!same_address(&a, own))
				continue;
			doctor_line(DOCTOR_OK, "the way to %s begins at %s of %s: %s index %u",
				    peer_name, text_of(own, text), name, vb_device_at(i)->ibv.name,
				    at - 1);
			return vb_device_at(i);
		}
	doctor_line(DOCTOR_WARN,
		    "the way to %s begins at %s of %s, which is no GID of a device: "
		    "VERBENA_NETDEV=%s",
		    peer_name, text_of(own, text), name, name);
	return NULL;
}

static int path_mtu(int fd, bool v6)
{
	int mtu = 0;
	socklen_t size = sizeof(mtu);

	getsockopt(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_MTU : IP_MTU, &mtu, &size);
	return mtu;
}

/* A packet of the largest size that fits by what is known. Return: errno of what the way says to
 * it, 0 nothing in the time given. */
static int probe(int fd, bool v6)
{
	static const char zeroes[65536];
	struct pollfd in = {.fd = fd};
	int bytes = path_mtu(fd, v6) - (v6 ? 48 : 28), err = 0;
	socklen_t size = sizeof(err);

	if (bytes < 16)
		bytes = 16;
	if (bytes > HEADERS6 + 4096)
		bytes = HEADERS6 + 4096;
	if (send(fd, zeroes, (size_t)bytes, MSG_NOSIGNAL) < 0)
		return errno;
	if (poll(&in, 1, PEER_MS) != 1)
		return 0;
	getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &size);
	return err;
}

static void show_mtu(int fd, bool v6, struct vb_device *dev)
{
	int mtu = path_mtu(fd, v6), headers = v6 ? HEADERS6 : HEADERS4, fits = 4096;
	struct vb_port_facts facts;

	while (fits > 256 && fits + headers > mtu)
		fits /= 2;
	if (fits + headers > mtu)
		doctor_line(DOCTOR_FAIL, "%d bytes fit through to %s: too few for any path MTU",
			    mtu, peer_name);
	else if (dev && !vb_device_port(dev, VB_PORT, &facts) &&
		 fits < 128 << facts.attr.active_mtu)
		doctor_line(
			DOCTOR_WARN,
			"%d bytes fit through to %s: programs that take the port's path MTU of %d "
			"lose packets; %d fits",
			mtu, peer_name, 128 << facts.attr.active_mtu, fits);
	else
		doctor_line(DOCTOR_OK, "%d bytes fit through to %s: path MTU %d", mtu, peer_name,
			    fits);
}

/* What comes back from the way, and from there. */
static void show_answer(int fd, bool v6)
{
	int err;

	/* Each too narrow part of the way is heard of once. */
	for (int i = 0; i < 8; i++) {
		err = probe(fd, v6);
		if (err != EMSGSIZE)
			break;
	}
	if (!err)
		doctor_line(DOCTOR_OK, "nothing on the way to %s refuses UDP 4791", peer_name);
	else if (err == ECONNREFUSED)
		doctor_line(DOCTOR_OK, "%s is there, and no program has UDP 4791 now", peer_name);
	else if (err == EACCES || err == EPERM)
		doctor_line(DOCTOR_FAIL, "a firewall refuses UDP 4791 to %s", peer_name);
	else
		doctor_line(DOCTOR_FAIL, "UDP 4791 to %s: %s", peer_name, strerror(err));
}

static void look_at(const union address *peer)
{
	bool v6 = peer->any.sa_family == AF_INET6;
	int fd = socket(peer->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	union address own = {.any = {.sa_family = AF_UNSPEC}};
	socklen_t size = sizeof(own);
	struct vb_device *dev;

	if (fd < 0)
		return;
	set(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER,
	    IP_PMTUDISC_DO);
	set(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_RECVERR : IP_RECVERR, 1);
	if (connect(fd, &peer->any, size_of(peer)) || getsockname(fd, &own.any, &size)) {
		doctor_line(DOCTOR_FAIL, "no way to %s: %s", peer_name, strerror(errno));
	} else {
		dev = show_route(&own);
		show_answer(fd, v6);
		show_mtu(fd, v6, dev);
	}
	close(fd);
}

void doctor_peer(void)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_DGRAM};
	struct addrinfo *found = NULL;
	union address peer = {.any = {.sa_family = AF_UNSPEC}};
	int err;

	if (!peer_name)
		return;
	err = getaddrinfo(peer_name, "4791", &hints, &found);
	if (err) {
		doctor_line(DOCTOR_FAIL, "%s: %s", peer_name, gai_strerror(err));
		return;
	}
	if (found->ai_addrlen <= sizeof(peer)) {
		memcpy(&peer, found->ai_addr, found->ai_addrlen);
		look_at(&peer);
	}
	freeaddrinfo(found);
}

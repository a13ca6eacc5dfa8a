/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/netdev.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/if_addr.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#ifndef NETLINK_GET_STRICT_CHK
#define NETLINK_GET_STRICT_CHK 12
#endif
#ifndef IFF_LOWER_UP /* <net/if.h> and <linux/if.h> cannot be included together */
#define IFF_LOWER_UP (1 << 16)
#endif
#ifndef RTEXT_FILTER_SKIP_STATS
#define RTEXT_FILTER_SKIP_STATS (1 << 3)
#endif

/* The kernel never makes a dump's datagram larger than this. */
#define REPLY_BYTES 32768

/* The kernel answers at once; the limit is for sandboxes that swallow requests. */
#define REPLY_SECONDS 2

struct session {
	int fd;
	uint32_t seq;
};

/* Called for every message of a reply. A positive value ends the reading early. */
typedef int (*visit_fn)(const struct nlmsghdr *msg, void *arg);

static int session_open(struct session *s)
{
	struct timeval limit = {.tv_sec = REPLY_SECONDS};
	int one = 1;

	s->seq = 1;
	s->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (s->fd < 0)
		return -errno;
	/* Older kernels do not know it and send more than was asked for. */
	setsockopt(s->fd, SOL_NETLINK, NETLINK_GET_STRICT_CHK, &one, sizeof(one));
	setsockopt(s->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	return 0;
}

static void session_close(struct session *s)
{
	int saved = errno;

	close(s->fd);
	errno = saved;
}

static int send_request(struct session *s, struct nlmsghdr *req)
{
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	ssize_t n;

	req->nlmsg_seq = ++s->seq;
	do
		n = sendto(s->fd, req, req->nlmsg_len, MSG_NOSIGNAL, (struct sockaddr *)&kernel,
			   sizeof(kernel));
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

static ssize_t receive(struct session *s, void *buffer, size_t size)
{
	struct sockaddr_nl from = {0};
	socklen_t len = sizeof(from);
	ssize_t n;

	do {
		len = sizeof(from);
		n = recvfrom(s->fd, buffer, size, MSG_TRUNC, (struct sockaddr *)&from, &len);
	} while ((n < 0 && errno == EINTR) || (n >= 0 && from.nl_pid != 0));
	if (n < 0)
		return -errno;
	return (size_t)n > size ? -EMSGSIZE : n;
}

/* Returns 1 when the reply is complete, 0 when more follows. */
static int take_messages(struct session *s, const void *buffer, size_t size, visit_fn visit,
			 void *arg)
{
	const struct nlmsghdr *msg = buffer;
	bool multi = false;

	for (; NLMSG_OK(msg, size); msg = NLMSG_NEXT(msg, size)) {
		int ret;

		if (msg->nlmsg_seq != s->seq)
			continue;
		if (msg->nlmsg_type == NLMSG_DONE)
			return 1;
		if (msg->nlmsg_type == NLMSG_ERROR) {
			const struct nlmsgerr *err = NLMSG_DATA(msg);

			return msg->nlmsg_len < NLMSG_LENGTH(sizeof(*err)) ? -EPROTO
			       : err->error				   ? err->error
									   : 1;
		}
		multi = msg->nlmsg_flags & NLM_F_MULTI;
		ret = visit(msg, arg);
		if (ret || !multi)
			return ret < 0 ? ret : 1;
	}
	return 0;
}

static int ask(struct session *s, struct nlmsghdr *req, visit_fn visit, void *arg)
{
	/* Not on the stack: programs call verbs from small thread stacks. */
	void *buffer = malloc(REPLY_BYTES);
	int err;

	if (!buffer)
		return -ENOMEM;
	err = send_request(s, req);
	while (!err) {
		ssize_t n = receive(s, buffer, REPLY_BYTES);

		err = n < 0 ? (int)n : take_messages(s, buffer, (size_t)n, visit, arg);
	}
	free(buffer);
	return err < 0 ? err : 0;
}

static void put_attr(struct nlmsghdr *msg, unsigned short type, const void *data, size_t size)
{
	struct rtattr *attr = (void *)((char *)msg + NLMSG_ALIGN(msg->nlmsg_len));

	attr->rta_type = type;
	attr->rta_len = (unsigned short)RTA_LENGTH(size);
	memcpy(RTA_DATA(attr), data, size);
	msg->nlmsg_len = NLMSG_ALIGN(msg->nlmsg_len) + (uint32_t)RTA_SPACE(size);
}

/* The attributes of a message by type; later ones win, foreign ones are left out. */
static void index_attrs(const struct nlmsghdr *msg, size_t header, const struct rtattr **table,
			size_t n)
{
	const struct rtattr *attr =
		(const void *)((const char *)NLMSG_DATA(msg) + NLMSG_ALIGN(header));
	size_t left =
		msg->nlmsg_len < NLMSG_SPACE(header) ? 0 : msg->nlmsg_len - NLMSG_SPACE(header);

	memset(table, 0, n * sizeof(*table));
	for (; RTA_OK(attr, left); attr = RTA_NEXT(attr, left)) {
		size_t type = attr->rta_type & NLA_TYPE_MASK;

		if (type < n)
			table[type] = attr;
	}
}

static uint32_t attr_u32(const struct rtattr *attr, uint32_t otherwise)
{
	uint32_t value = otherwise;

	if (attr && RTA_PAYLOAD(attr) >= sizeof(value))
		memcpy(&value, RTA_DATA(attr), sizeof(value));
	return value;
}

static bool message_is(const struct nlmsghdr *msg, int type, size_t header)
{
	return msg->nlmsg_type == type && msg->nlmsg_len >= NLMSG_LENGTH(header);
}

static int take_link(const struct nlmsghdr *msg, void *arg)
{
	const struct ifinfomsg *info = NLMSG_DATA(msg);
	const struct rtattr *attr[IFLA_MTU + 1];
	struct vb_link *link = arg;

	if (!message_is(msg, RTM_NEWLINK, sizeof(*info)))
		return 0;
	index_attrs(msg, sizeof(*info), attr, IFLA_MTU + 1);
	link->ifindex = (uint32_t)info->ifi_index;
	link->up = info->ifi_flags & IFF_UP;
	link->carrier = info->ifi_flags & IFF_LOWER_UP;
	link->loopback = info->ifi_flags & IFF_LOOPBACK;
	link->mtu = attr_u32(attr[IFLA_MTU], 1500);
	if (attr[IFLA_IFNAME])
		strncpy(link->name, RTA_DATA(attr[IFLA_IFNAME]),
			RTA_PAYLOAD(attr[IFLA_IFNAME]) < sizeof(link->name) - 1
				? RTA_PAYLOAD(attr[IFLA_IFNAME])
				: sizeof(link->name) - 1);
	if ((info->ifi_type == ARPHRD_ETHER || info->ifi_type == ARPHRD_LOOPBACK) &&
	    attr[IFLA_ADDRESS] && RTA_PAYLOAD(attr[IFLA_ADDRESS]) == sizeof(link->mac)) {
		memcpy(link->mac, RTA_DATA(attr[IFLA_ADDRESS]), sizeof(link->mac));
		link->has_mac = true;
	}
	return 0;
}

/* RTM_GETLINK of one interface, or of all with a dump. */
static int ask_link(struct session *s, uint32_t ifindex, visit_fn visit, void *arg)
{
	const uint32_t mask = RTEXT_FILTER_SKIP_STATS;
	union {
		struct nlmsghdr header;
		char space[128];
	} req = {.header = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg)),
			    .nlmsg_type = RTM_GETLINK,
			    .nlmsg_flags = NLM_F_REQUEST | (ifindex ? 0 : NLM_F_DUMP)}};
	struct ifinfomsg *info = NLMSG_DATA(&req.header);

	info->ifi_family = AF_UNSPEC;
	info->ifi_index = (int)ifindex;
	put_attr(&req.header, IFLA_EXT_MASK, &mask, sizeof(mask));
	return ask(s, &req.header, visit, arg);
}

static int ask_addrs(struct session *s, uint32_t ifindex, visit_fn visit, void *arg)
{
	union {
		struct nlmsghdr header;
		char space[64];
	} req = {.header = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct ifaddrmsg)),
			    .nlmsg_type = RTM_GETADDR,
			    .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP}};
	struct ifaddrmsg *info = NLMSG_DATA(&req.header);

	info->ifa_family = AF_UNSPEC;
	info->ifa_index = ifindex;
	return ask(s, &req.header, visit, arg);
}

/* The address of a message as a GID; false for one that cannot be used (yet). */
static bool address_of(const struct nlmsghdr *msg, uint8_t raw[16])
{
	const struct ifaddrmsg *info = NLMSG_DATA(msg);
	const struct rtattr *attr[IFA_FLAGS + 1];
	const struct rtattr *addr;
	uint32_t flags;

	if (!message_is(msg, RTM_NEWADDR, sizeof(*info)))
		return false;
	index_attrs(msg, sizeof(*info), attr, IFA_FLAGS + 1);
	flags = attr_u32(attr[IFA_FLAGS], info->ifa_flags);
	if ((flags & IFA_F_DADFAILED) || ((flags & IFA_F_TENTATIVE) && !(flags & IFA_F_OPTIMISTIC)))
		return false;
	/* On a point-to-point link IFA_ADDRESS is the peer's. */
	addr = attr[IFA_LOCAL] ? attr[IFA_LOCAL] : attr[IFA_ADDRESS];
	memset(raw, 0, 16);
	if (addr && info->ifa_family == AF_INET && RTA_PAYLOAD(addr) == 4) {
		raw[10] = raw[11] = 0xff;
		memcpy(raw + 12, RTA_DATA(addr), 4);
		return true;
	}
	if (addr && info->ifa_family == AF_INET6 && RTA_PAYLOAD(addr) == 16) {
		memcpy(raw, RTA_DATA(addr), 16);
		return true;
	}
	return false;
}

static int take_addr(const struct nlmsghdr *msg, void *arg)
{
	const struct ifaddrmsg *info = NLMSG_DATA(msg);
	struct vb_link *link = arg;

	if (!message_is(msg, RTM_NEWADDR, sizeof(*info)) || info->ifa_index != link->ifindex)
		return 0;
	if (link->n_addrs == VB_ADDRS_MAX)
		return 1;
	if (address_of(msg, link->addrs[link->n_addrs]))
		link->n_addrs++;
	return 0;
}

/* An interface without a MAC (a tunnel) gets a locally administered one, the same at
 * every look and another on every host, so that its GUID and first GID are its own. */
static void invent_mac(struct vb_link *link)
{
	uint64_t hash = 0xcbf29ce484222325ull;
	struct utsname host;
	const char *text[2] = {uname(&host) ? "" : host.nodename, link->name};

	for (int i = 0; i < 2; i++)
		for (const char *c = text[i]; *c; c++)
			hash = (hash ^ (unsigned char)*c) * 0x100000001b3ull;
	hash ^= hash >> 32;
	memcpy(link->mac, &hash, sizeof(link->mac));
	link->mac[0] = (uint8_t)((link->mac[0] & ~1) | 2);
}

/* 0 where the driver does not know, as virtual ones do. */
static uint32_t read_speed(const char *name)
{
	union {
		struct ethtool_link_settings head;
		uint32_t room[sizeof(struct ethtool_link_settings) / 4 + 3 * 127];
	} link;
	struct ifreq req = {0};
	uint32_t speed = 0;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return 0;
	memset(&link, 0, sizeof(link));
	link.head.cmd = ETHTOOL_GLINKSETTINGS;
	memcpy(req.ifr_name, name, sizeof(req.ifr_name));
	req.ifr_data = (void *)&link;
	/* The first call tells how long the three bit maps are, as a negative number. */
	if (!ioctl(fd, SIOCETHTOOL, &req) && link.head.link_mode_masks_nwords < 0) {
		link.head.link_mode_masks_nwords = (int8_t)-link.head.link_mode_masks_nwords;
		link.head.cmd = ETHTOOL_GLINKSETTINGS;
		if (!ioctl(fd, SIOCETHTOOL, &req) && link.head.speed <= INT32_MAX)
			speed = link.head.speed;
	}
	close(fd);
	return speed;
}

int vb_netdev_read(uint32_t ifindex, struct vb_link *link)
{
	struct session s;
	int err;

	memset(link, 0, sizeof(*link));
	err = session_open(&s);
	if (err)
		return err;
	err = ask_link(&s, ifindex, take_link, link);
	if (!err && link->ifindex != ifindex)
		err = -ENODEV;
	if (!err)
		err = ask_addrs(&s, ifindex, take_addr, link);
	session_close(&s);
	if (!err && !link->has_mac && !link->loopback)
		invent_mac(link);
	if (err)
		memset(link, 0, sizeof(*link));
	else
		link->speed_mbps = link->loopback ? 0 : read_speed(link->name);
	return err;
}

uint32_t vb_netdev_find(const char *name)
{
	return strlen(name) < IF_NAMESIZE ? if_nametoindex(name) : 0;
}

struct route_search {
	uint32_t ifindex;
	uint32_t metric;
};

static uint32_t route_ifindex(const struct rtattr *const *attr)
{
	uint32_t ifindex = attr_u32(attr[RTA_OIF], 0);

	if (!ifindex && attr[RTA_MULTIPATH] &&
	    RTA_PAYLOAD(attr[RTA_MULTIPATH]) >= sizeof(struct rtnexthop))
		ifindex =
			(uint32_t)((struct rtnexthop *)RTA_DATA(attr[RTA_MULTIPATH]))->rtnh_ifindex;
	return ifindex;
}

static int take_route(const struct nlmsghdr *msg, void *arg)
{
	const struct rtmsg *info = NLMSG_DATA(msg);
	const struct rtattr *attr[RTA_TABLE + 1];
	struct route_search *search = arg;
	uint32_t ifindex, metric;

	if (!message_is(msg, RTM_NEWROUTE, sizeof(*info)))
		return 0;
	/* Dumps walk a tree from its root, where the default routes are side by side. */
	if (info->rtm_dst_len)
		return search->ifindex != 0;
	index_attrs(msg, sizeof(*info), attr, RTA_TABLE + 1);
	if (info->rtm_type != RTN_UNICAST || (info->rtm_flags & RTM_F_CLONED) ||
	    attr_u32(attr[RTA_TABLE], info->rtm_table) != RT_TABLE_MAIN)
		return 0;
	ifindex = route_ifindex(attr);
	metric = attr_u32(attr[RTA_PRIORITY], 0);
	if (ifindex && (!search->ifindex || metric < search->metric)) {
		search->ifindex = ifindex;
		search->metric = metric;
	}
	return 0;
}

static int find_default_route(uint8_t family, uint32_t *ifindex)
{
	const uint32_t table = RT_TABLE_MAIN;
	union {
		struct nlmsghdr header;
		char space[128];
	} req = {.header = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)),
			    .nlmsg_type = RTM_GETROUTE,
			    .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP}};
	struct rtmsg *info = NLMSG_DATA(&req.header);
	struct route_search search = {0};
	struct session s;
	int err = session_open(&s);

	if (err)
		return err;
	info->rtm_family = family;
	info->rtm_table = RT_TABLE_MAIN;
	put_attr(&req.header, RTA_TABLE, &table, sizeof(table));
	err = ask(&s, &req.header, take_route, &search);
	session_close(&s);
	/* A kernel without IPv6, or a table that was never used, has no such route. */
	if (err == -ENOENT || err == -EOPNOTSUPP || err == -EINVAL || err == -EAFNOSUPPORT)
		err = 0;
	*ifindex = search.ifindex;
	return err;
}

#define CANDIDATES_MAX 1024

struct candidates {
	uint32_t n;
	uint32_t loopback;
	struct {
		uint32_t ifindex;
		bool has_addr;
	} link[CANDIDATES_MAX];
};

static int take_candidate(const struct nlmsghdr *msg, void *arg)
{
	const struct ifinfomsg *info = NLMSG_DATA(msg);
	struct candidates *all = arg;

	if (!message_is(msg, RTM_NEWLINK, sizeof(*info)))
		return 0;
	if (info->ifi_flags & IFF_LOOPBACK)
		all->loopback = (uint32_t)info->ifi_index;
	else if ((info->ifi_flags & IFF_UP) && all->n < CANDIDATES_MAX)
		all->link[all->n++].ifindex = (uint32_t)info->ifi_index;
	return 0;
}

static int mark_candidate(const struct nlmsghdr *msg, void *arg)
{
	const struct ifaddrmsg *info = NLMSG_DATA(msg);
	struct candidates *all = arg;
	uint8_t raw[16];

	if (!address_of(msg, raw) || vb_gid_is_link_local(raw))
		return 0;
	for (uint32_t i = 0; i < all->n; i++)
		if (all->link[i].ifindex == info->ifa_index)
			all->link[i].has_addr = true;
	return 0;
}

/* The rule for machines without a default route. */
static int find_candidate(uint32_t *ifindex)
{
	struct candidates *all = calloc(1, sizeof(*all));
	struct session s;
	int err;

	if (!all)
		return -ENOMEM;
	err = session_open(&s);
	if (!err) {
		err = ask_link(&s, 0, take_candidate, all);
		if (!err)
			err = ask_addrs(&s, 0, mark_candidate, all);
		session_close(&s);
	}
	*ifindex = all->loopback;
	for (uint32_t i = 0, best = UINT32_MAX; i < all->n; i++)
		if (all->link[i].has_addr && all->link[i].ifindex < best)
			*ifindex = best = all->link[i].ifindex;
	free(all);
	return err ? err : *ifindex ? 0 : -ENODEV;
}

int vb_netdev_default(uint32_t *ifindex)
{
	int err = find_default_route(AF_INET, ifindex);

	if (!err && !*ifindex)
		err = find_default_route(AF_INET6, ifindex);
	if (!err && !*ifindex)
		err = find_candidate(ifindex);
	return err;
}

void vb_netdev_fallback(struct vb_link *link)
{
	memset(link, 0, sizeof(*link));
	link->ifindex = 1;
	strcpy(link->name, "lo");
	link->up = link->carrier = link->loopback = link->has_mac = true;
	link->mtu = 65536;
	link->n_addrs = 2;
	memcpy(link->addrs[0], "\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0\1", 16);
	link->addrs[1][15] = 1;
}

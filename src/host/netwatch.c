/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/netwatch.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/forkguard.h"

#define LINKS (RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR)
/* The rules of IPv6 have no name of this kind. */
#define ROUTES                                                                                     \
	(RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE | RTMGRP_IPV4_RULE | 1u << (RTNLGRP_IPV6_RULE - 1))

/* An announcement is about one link or address; a longer one is taken as lost. */
#define MESSAGE_BYTES 8192

int vb_netwatch_open(bool routes)
{
	struct sockaddr_nl address = {
		.nl_family = AF_NETLINK,
		.nl_groups = LINKS | (routes ? ROUTES : 0),
	};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	int err;

	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&address, sizeof(address))) {
		err = -errno;
		close(fd);
		return err;
	}
	return fd;
}

static bool link_is(const struct nlmsghdr *msg, uint32_t ifindex, const char *name)
{
	const struct ifinfomsg *info = NLMSG_DATA(msg);
	const struct rtattr *attr = IFLA_RTA(info);
	size_t left;

	if (msg->nlmsg_len < NLMSG_LENGTH(sizeof(*info)))
		return false;
	if ((uint32_t)info->ifi_index == ifindex)
		return true;
	left = IFLA_PAYLOAD(msg);
	for (; RTA_OK(attr, left); attr = RTA_NEXT(attr, left))
		if (attr->rta_type == IFLA_IFNAME)
			return !strncmp(RTA_DATA(attr), name, RTA_PAYLOAD(attr));
	return false;
}

static bool concerns(const struct nlmsghdr *msg, uint32_t ifindex, const char *name)
{
	const struct ifaddrmsg *address = NLMSG_DATA(msg);

	switch (msg->nlmsg_type) {
	case RTM_NEWLINK:
	case RTM_DELLINK:
		return link_is(msg, ifindex, name);
	case RTM_NEWADDR:
	case RTM_DELADDR:
		return msg->nlmsg_len >= NLMSG_LENGTH(sizeof(*address)) &&
		       address->ifa_index == ifindex;
	default:
		return false;
	}
}

bool vb_netwatch_changed(int fd, uint32_t ifindex, const char *name)
{
	_Alignas(struct nlmsghdr) uint8_t buffer[MESSAGE_BYTES];
	bool changed = false;

	for (;;) {
		const struct nlmsghdr *msg = (const void *)buffer;
		struct sockaddr_nl from = {0};
		socklen_t len = sizeof(from);
		ssize_t n = recvfrom(fd, buffer, sizeof(buffer), MSG_TRUNC,
				     (struct sockaddr *)&from, &len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == ENOBUFS) {
			changed = true;
			continue;
		}
		if (n <= 0)
			return changed;
		if (from.nl_pid != 0)
			continue; /* not the kernel */
		if ((size_t)n > sizeof(buffer)) {
			changed = true;
			continue;
		}
		for (size_t left = (size_t)n; NLMSG_OK(msg, left); msg = NLMSG_NEXT(msg, left))
			if (concerns(msg, ifindex, name))
				changed = true;
	}
}

/* ---- Since the last look ---- */

static bool cookie_of(int fd, uint64_t *cookie)
{
	socklen_t len = sizeof(*cookie);

	return !getsockopt(fd, SOL_SOCKET, SO_COOKIE, cookie, &len);
}

static bool is_ours(const struct vb_netnews *news)
{
	uint64_t cookie;

	return news->guard && news->fd >= 0 && cookie_of(news->fd, &cookie) &&
	       cookie == news->cookie;
}

/* One look for each tick: who closes our descriptor is found out a little later. */
static bool looked(struct vb_netnews *news)
{
	struct timespec now;
	uint64_t tick;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	tick = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	if (tick == news->tick)
		return true;
	news->tick = tick;
	return false;
}

static void forget(struct vb_netnews *news)
{
	if (is_ours(news))
		close(news->fd);
	news->fd = -1;
}

/* What the parent's announcements are about is the parent's to read. */
static void leave_parent(struct vb_netnews *news)
{
	if (!news->guard || *news->guard)
		return;
	forget(news);
	memset(news, 0, sizeof(*news));
}

static void listen_anew(struct vb_netnews *news)
{
	forget(news);
	news->guard = vb_fork_guard();
	if (!news->guard)
		return;
	news->fd = vb_netwatch_open(true);
	if (news->fd >= 0 && !cookie_of(news->fd, &news->cookie)) {
		close(news->fd);
		news->fd = -1;
	}
}

void vb_netnews_begin(struct vb_netnews *news)
{
	leave_parent(news);
	if (!news->users++)
		listen_anew(news);
}

void vb_netnews_end(struct vb_netnews *news)
{
	leave_parent(news);
	if (news->users && !--news->users)
		forget(news);
}

/* Takes nothing: it may be another's. */
static bool nothing_waits(int fd)
{
	uint8_t byte;

	return recv(fd, &byte, sizeof(byte), MSG_DONTWAIT | MSG_PEEK) < 0 && errno == EAGAIN;
}

/* Reads them all: the next call is about what comes after this one. */
static void take_all(int fd)
{
	uint8_t byte;

	while (recv(fd, &byte, sizeof(byte), MSG_DONTWAIT) >= 0 || errno == EINTR ||
	       errno == ENOBUFS)
		;
}

bool vb_netnews_none(struct vb_netnews *news)
{
	leave_parent(news);
	if (!news->users)
		return false;
	if ((looked(news) || is_ours(news)) && nothing_waits(news->fd))
		return true;
	if (is_ours(news))
		take_all(news->fd);
	else
		listen_anew(news);
	return false;
}

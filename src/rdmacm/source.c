/* SPDX-License-Identifier: BSD-2-Clause */
/* Which of this host's addresses the kernel sends from. It is asked once for each destination,
 * until a link, an address or a route changes: who connects by the thousand asks for the same few.
 */
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rdmacm/cm.h"

/* Any port: only the way is looked for, nothing is sent. */
#define DISCARD 9
#define KNOWN	16

static struct known {
	uint64_t news; /* what vb_agent_news() said before the kernel was asked */
	struct sockaddr_storage to, from;
	struct cm_device *device;
} known[KNOWN];
static unsigned oldest;

static pthread_mutex_t *lock_known(void)
{
	pthread_mutex_t *lock = vb_fork_lock(VB_FORK_LOCK_CM_DEVICES);

	pthread_mutex_lock(lock);
	return lock;
}

static struct cm_device *find(const struct sockaddr_storage *to, uint64_t news,
			      struct sockaddr_storage *from)
{
	pthread_mutex_t *lock = lock_known();
	struct cm_device *device = NULL;

	for (int i = 0; i < KNOWN && !device; i++)
		if (known[i].device && known[i].news == news &&
		    !memcmp(&known[i].to, to, sizeof(*to))) {
			*from = known[i].from;
			device = known[i].device;
		}
	pthread_mutex_unlock(lock);
	return device;
}

static void keep(const struct known *now)
{
	pthread_mutex_t *lock = lock_known();

	known[oldest++ % KNOWN] = *now;
	pthread_mutex_unlock(lock);
}

/* ---- Devices ---- */

static bool is_local(const uint8_t *gid)
{
	struct ifaddrs *list;
	bool found = false;

	if (getifaddrs(&list))
		return false;
	for (struct ifaddrs *a = list; a && !found; a = a->ifa_next) {
		uint8_t one[16];

		found = a->ifa_addr && cm_addr_gid(a->ifa_addr, one) && !memcmp(one, gid, 16);
	}
	freeifaddrs(list);
	return found;
}

struct cm_device *cm_device_of_address(const struct cm_id *id, const struct sockaddr *addr)
{
	struct cm_device *device, *all;
	char what[INET6_ADDRSTRLEN], devices[512];
	uint8_t gid[16];

	cm_addr_gid(addr, gid);
	device = cm_device_of_gid(gid);
	if (device)
		return device;
	if (cm_addr_loopback(addr)) {
		if (id->device)
			return id->device;
		return cm_devices(&all) ? &all[0] : NULL;
	}
	return vb_fail_null(
		is_local(gid) ? VB_RULE_CM_NO_DEVICE_ADDRESS : VB_RULE_CM_ADDRESS_NOT_LOCAL,
		"id %p: %s; %s", (const void *)id, cm_text_address(addr, what, sizeof(what)),
		cm_text_devices(devices, sizeof(devices)));
}

/* ---- The kernel's choice ---- */

/* 0, or an errno. */
static int ask(int fd, const struct sockaddr_storage *to, struct sockaddr_storage *from)
{
	const struct sockaddr *at = (const struct sockaddr *)to;
	socklen_t len = sizeof(*from);

	memset(from, 0, sizeof(*from));
	if (connect(fd, at, cm_addr_len(at)) || getsockname(fd, (struct sockaddr *)from, &len))
		return errno ? errno : ENETUNREACH;
	cm_addr_set_port((struct sockaddr *)from, 0);
	return 0;
}

/* -1 by rule. */
static int ask_for(const struct cm_id *id, const struct sockaddr_storage *to,
		   struct sockaddr_storage *from)
{
	char what[INET6_ADDRSTRLEN];
	int fd = socket(to->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int err;

	if (fd < 0)
		return vb_fail_minus1(VB_RULE_CM_DESCRIPTORS, "id %p: %s", (const void *)id,
				      strerror(errno));
	err = ask(fd, to, from);
	close(fd);
	if (!err)
		return 0;
	return vb_fail_minus1(VB_RULE_CM_NO_ROUTE, "id %p: %s: %s", (const void *)id,
			      cm_text_address((const struct sockaddr *)to, what, sizeof(what)),
			      strerror(err));
}

struct cm_device *cm_source(const struct cm_id *id, const struct sockaddr *dst,
			    struct sockaddr_storage *from)
{
	struct known now = {.news = vb_agent_news()};

	memcpy(&now.to, dst, cm_addr_len(dst));
	cm_addr_set_port((struct sockaddr *)&now.to, DISCARD);
	now.device = find(&now.to, now.news, from);
	if (now.device)
		return now.device;
	if (ask_for(id, &now.to, &now.from))
		return NULL;
	*from = now.from;
	now.device = cm_device_of_address(id, (struct sockaddr *)from);
	/* The device of the loopback addresses is the id's. */
	if (now.device && !cm_addr_loopback((struct sockaddr *)from))
		keep(&now);
	return now.device;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses: what of them the library needs, binding, and finding the way to one. */
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "rdmacm/cm.h"

#define HOPS 64

static const struct sockaddr_in *v4(const struct sockaddr *addr)
{
	return (const struct sockaddr_in *)(const void *)addr;
}

static const struct sockaddr_in6 *v6(const struct sockaddr *addr)
{
	return (const struct sockaddr_in6 *)(const void *)addr;
}

static bool family_known(const struct sockaddr *addr)
{
	return addr->sa_family == AF_INET || addr->sa_family == AF_INET6;
}

bool cm_addr_gid(const struct sockaddr *addr, uint8_t *gid)
{
	if (addr->sa_family == AF_INET6) {
		memcpy(gid, v6(addr)->sin6_addr.s6_addr, 16);
		return true;
	}
	memset(gid, 0, 16);
	gid[10] = gid[11] = 0xff;
	memcpy(gid + 12, &v4(addr)->sin_addr, 4);
	return addr->sa_family == AF_INET;
}

bool cm_addr_any(const struct sockaddr *addr)
{
	return addr->sa_family == AF_INET6 ? IN6_IS_ADDR_UNSPECIFIED(&v6(addr)->sin6_addr)
					   : v4(addr)->sin_addr.s_addr == htonl(INADDR_ANY);
}

bool cm_addr_loopback(const struct sockaddr *addr)
{
	return addr->sa_family == AF_INET6
		       ? IN6_IS_ADDR_LOOPBACK(&v6(addr)->sin6_addr)
		       : ntohl(v4(addr)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

/* The port stands at the same place in both. */
uint16_t cm_addr_port(const struct sockaddr *addr)
{
	return family_known(addr) ? ntohs(v4(addr)->sin_port) : 0;
}

void cm_addr_set_port(struct sockaddr *addr, uint16_t port)
{
	((struct sockaddr_in *)(void *)addr)->sin_port = htons(port);
}

socklen_t cm_addr_len(const struct sockaddr *addr)
{
	return addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					   : sizeof(struct sockaddr_in);
}

void cm_addr_from_ip(bool is_v6, const uint8_t *bytes, uint16_t port, struct sockaddr_storage *addr)
{
	struct sockaddr_in *four = (struct sockaddr_in *)(void *)addr;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)(void *)addr;

	memset(addr, 0, sizeof(*addr));
	addr->ss_family = is_v6 ? AF_INET6 : AF_INET;
	cm_addr_set_port((struct sockaddr *)addr, port);
	if (is_v6)
		memcpy(six->sin6_addr.s6_addr, bytes, 16);
	else
		memcpy(&four->sin_addr, bytes + 12, 4);
}

/* ---- Binding ---- */

int cm_bind(struct cm_id *id, const struct sockaddr *addr)
{
	struct cm_device *device = NULL;

	if (!family_known(addr))
		return vb_fail_minus1(VB_RULE_CM_FAMILY, "id %p family=%d", (void *)id,
				      addr->sa_family);
	if (id->state != CM_IDLE)
		return vb_fail_minus1(VB_RULE_CM_STATE, "id %p is bound already", (void *)id);
	if (!cm_addr_any(addr)) {
		device = cm_device_of_address(id, addr);
		if (!device)
			return -1;
	}
	return cm_bind_at(id, device, addr);
}

int rdma_bind_addr(struct rdma_cm_id *rid, struct sockaddr *addr)
{
	if (!cm_usable(rid, "rdma_bind_addr"))
		return -1;
	if (!addr)
		return vb_fail_minus1(VB_RULE_CM_ARGUMENT, "addr is NULL");
	return cm_bind(cm_id_of(rid), addr);
}

/* ---- Finding the way ---- */

static void loopback_of(int family, struct sockaddr *addr)
{
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)(void *)addr;
	struct sockaddr_in *four = (struct sockaddr_in *)(void *)addr;

	if (family == AF_INET6)
		six->sin6_addr = in6addr_loopback;
	else
		four->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
}

/* The GIDs of both ends; 0, or -1 by rule. */
static int find_path(struct cm_id *id)
{
	struct rdma_addr *addr = &id->id.route.addr;
	struct vb_agent_path *path = &id->path;

	memset(path, 0, sizeof(*path));
	path->hop_limit = HOPS;
	path->traffic_class = id->tos;
	if (cm_addr_loopback(&addr->dst_addr)) {
		if (!cm_device_usable_gid(id->device, addr->dst_addr.sa_family == AF_INET6,
					  path->own_gid))
			return vb_fail_minus1(VB_RULE_CM_NO_DEVICE_ADDRESS,
					      "id %p: %s has no address", (void *)id,
					      id->id.verbs->device->name);
		memcpy(path->peer_gid, path->own_gid, 16);
	} else {
		cm_addr_gid(&addr->src_addr, path->own_gid);
		cm_addr_gid(&addr->dst_addr, path->peer_gid);
		if (cm_addr_loopback(&addr->src_addr))
			memcpy(path->own_gid, path->peer_gid, 16);
	}
	memcpy(addr->addr.ibaddr.sgid.raw, path->own_gid, 16);
	memcpy(addr->addr.ibaddr.dgid.raw, path->peer_gid, 16);
	addr->addr.ibaddr.pkey = htobe16(0xffff);
	return 0;
}

/* Bound to a device from here on; 0, or -1 by rule. */
static int have_source(struct cm_id *id, const struct sockaddr *src)
{
	struct sockaddr *own = &id->id.route.addr.src_addr;
	const struct sockaddr *dst = &id->id.route.addr.dst_addr;
	uint16_t port = id->state == CM_BOUND ? cm_addr_port(own) : src ? cm_addr_port(src) : 0;
	struct sockaddr_storage found = {0};
	struct cm_device *device = NULL;

	if (id->state == CM_BOUND && !cm_addr_any(own))
		return 0;
	if (src && !cm_addr_any(src)) {
		memcpy(&found, src, cm_addr_len(src));
		device = cm_device_of_address(id, src);
	} else {
		device = cm_source(id, dst, &found);
	}
	if (!device)
		return -1;
	cm_addr_set_port((struct sockaddr *)&found, port);
	if (id->state == CM_IDLE)
		return cm_bind_at(id, device, (struct sockaddr *)&found);
	/* Bound to a port at every address: now it is known which. */
	if (cm_id_attach(id, device))
		return -1;
	memcpy(own, &found, cm_addr_len((struct sockaddr *)&found));
	return 0;
}

/* ADDR_ERROR is for what shows later. What can be said at once the call says, as
 * rdma_resolve_addr of the kernel does. */
int rdma_resolve_addr(struct rdma_cm_id *rid, struct sockaddr *src_addr, struct sockaddr *dst_addr,
		      int timeout_ms)
{
	struct cm_id *id = cm_id_of(rid);
	struct sockaddr_storage before;
	struct rdma_addr *addr;

	if (!cm_usable(rid, "rdma_resolve_addr"))
		return -1;
	(void)timeout_ms; /* the kernel's routes are asked, which answers at once */
	if (!dst_addr)
		return vb_fail_minus1(VB_RULE_CM_ARGUMENT, "dst_addr is NULL");
	if (!family_known(dst_addr) || (src_addr && src_addr->sa_family != dst_addr->sa_family))
		return vb_fail_minus1(VB_RULE_CM_FAMILY, "id %p src family=%d dst family=%d",
				      (void *)id, src_addr ? src_addr->sa_family : 0,
				      dst_addr->sa_family);
	if (id->state != CM_IDLE && id->state != CM_BOUND)
		return vb_fail_minus1(VB_RULE_CM_STATE, "id %p: the address is resolved already",
				      (void *)id);
	addr = &rid->route.addr;
	before = addr->dst_storage;
	memset(&addr->dst_storage, 0, sizeof(addr->dst_storage));
	memcpy(&addr->dst_storage, dst_addr, cm_addr_len(dst_addr));
	if (cm_addr_any(dst_addr))
		loopback_of(dst_addr->sa_family, &addr->dst_addr);
	if (have_source(id, src_addr) || find_path(id)) {
		addr->dst_storage = before;
		return -1;
	}
	id->state = CM_ADDR_RESOLVED;
	if (cm_event_report(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0))
		return -1;
	return cm_sync(id);
}

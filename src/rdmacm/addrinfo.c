/* SPDX-License-Identifier: BSD-2-Clause */
/* Names and services to addresses: the system's getaddrinfo, its first answer. */
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/cm.h"

/* Of later headers: how a name is looked up. */
#define RAI_SA_FLAG  0x10
#define RAI_DNS_FLAG 0x20

static void from_hints(const struct rdma_addrinfo *hints, struct addrinfo *ask)
{
	memset(ask, 0, sizeof(*ask));
	ask->ai_flags = hints->ai_flags & RAI_PASSIVE ? AI_PASSIVE : 0;
	if (hints->ai_flags & RAI_NUMERICHOST)
		ask->ai_flags |= AI_NUMERICHOST;
	if (hints->ai_flags & RAI_FAMILY)
		ask->ai_family = hints->ai_family;
	switch (hints->ai_qp_type) {
	case IBV_QPT_UD:
		ask->ai_socktype = SOCK_DGRAM;
		break;
	case IBV_QPT_RC:
	case IBV_QPT_UC:
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
		ask->ai_socktype = SOCK_STREAM;
		break;
	default:
		break;
	}
	switch (hints->ai_port_space) {
	case RDMA_PS_TCP:
		ask->ai_protocol = IPPROTO_TCP;
		break;
	case RDMA_PS_IPOIB:
	case RDMA_PS_UDP:
		ask->ai_protocol = IPPROTO_UDP;
		break;
	default:
		break;
	}
}

static int copy_addr(struct sockaddr **to, socklen_t *to_len, const struct sockaddr *from,
		     socklen_t len)
{
	struct sockaddr_storage *copy = calloc(1, sizeof(*copy));

	if (!copy)
		return vb_fail_minus1(VB_RULE_CM_MEMORY, "an address");
	memcpy(copy, from, len);
	*to = (struct sockaddr *)copy;
	*to_len = len;
	return 0;
}

static int copy_name(char **to, const char *from)
{
	*to = from ? strdup(from) : NULL;
	return from && !*to ? vb_fail_minus1(VB_RULE_CM_MEMORY, "a name") : 0;
}

static int convert(const struct addrinfo *found, const struct rdma_addrinfo *hints,
		   struct rdma_addrinfo *rai)
{
	bool datagram = found->ai_socktype == SOCK_DGRAM;

	rai->ai_family = found->ai_family;
	rai->ai_flags = hints->ai_flags & RAI_PASSIVE;
	rai->ai_qp_type = hints->ai_qp_type ? hints->ai_qp_type
			  : datagram	    ? IBV_QPT_UD
					    : IBV_QPT_RC;
	rai->ai_port_space = hints->ai_port_space ? hints->ai_port_space
			     : datagram		  ? RDMA_PS_UDP
						  : RDMA_PS_TCP;
	if (rai->ai_flags & RAI_PASSIVE)
		return copy_addr(&rai->ai_src_addr, &rai->ai_src_len, found->ai_addr,
				 found->ai_addrlen) ||
				       copy_name(&rai->ai_src_canonname, found->ai_canonname)
			       ? -1
			       : 0;
	return copy_addr(&rai->ai_dst_addr, &rai->ai_dst_len, found->ai_addr, found->ai_addrlen) ||
			       copy_name(&rai->ai_dst_canonname, found->ai_canonname)
		       ? -1
		       : 0;
}

/* Addresses given in the hints and not found otherwise. */
static int add_hints(const struct rdma_addrinfo *hints, struct rdma_addrinfo *rai)
{
	if (!rai->ai_src_len && hints->ai_src_len &&
	    copy_addr(&rai->ai_src_addr, &rai->ai_src_len, hints->ai_src_addr, hints->ai_src_len))
		return -1;
	if (!rai->ai_dst_len && hints->ai_dst_len &&
	    copy_addr(&rai->ai_dst_addr, &rai->ai_dst_len, hints->ai_dst_addr, hints->ai_dst_len))
		return -1;
	return 0;
}

static int from_hints_alone(const struct rdma_addrinfo *hints, struct rdma_addrinfo *rai)
{
	rai->ai_flags = hints->ai_flags;
	rai->ai_family = hints->ai_family;
	rai->ai_qp_type = hints->ai_qp_type;
	rai->ai_port_space = hints->ai_port_space;
	if (!rai->ai_family && hints->ai_src_len)
		rai->ai_family = hints->ai_src_addr->sa_family;
	if (!rai->ai_family && hints->ai_dst_len)
		rai->ai_family = hints->ai_dst_addr->sa_family;
	return 0;
}

static int look_up(const char *node, const char *service, const struct rdma_addrinfo *hints,
		   struct rdma_addrinfo *rai)
{
	struct addrinfo ask, *found;
	int err;

	from_hints(hints, &ask);
	err = getaddrinfo(node, service, &ask, &found);
	if (err)
		return err;
	err = convert(found, hints, rai);
	freeaddrinfo(found);
	return err;
}

static void free_one(struct rdma_addrinfo *rai)
{
	free(rai->ai_src_addr);
	free(rai->ai_dst_addr);
	free(rai->ai_src_canonname);
	free(rai->ai_dst_canonname);
	free(rai->ai_route);
	free(rai->ai_connect);
	free(rai);
}

int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
		     struct rdma_addrinfo **res)
{
	static const struct rdma_addrinfo none;
	struct cm_device *devices;
	struct rdma_addrinfo *rai;
	int err;

	if (!res || (!node && !service && !hints))
		return vb_fail_minus1(VB_RULE_CM_ARGUMENT, "%s",
				      res ? "node, service and hints are NULL" : "res is NULL");
	if (!cm_devices(&devices))
		return -1;
	rai = calloc(1, sizeof(*rai));
	if (!rai)
		return vb_fail_minus1(VB_RULE_CM_MEMORY, "an address");
	if (!hints)
		hints = &none;
	err = node || service ? look_up(node, service, hints, rai) : from_hints_alone(hints, rai);
	if (!err)
		err = add_hints(hints, rai);
	if (err) {
		free_one(rai);
		return err;
	}
	*res = rai;
	return 0;
}

void rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
	while (res) {
		struct rdma_addrinfo *rai = res;

		res = rai->ai_next;
		free_one(rai);
	}
}

/* ---- As events of an id ---- */

int rdma_resolve_addrinfo(struct rdma_cm_id *rid, const char *node, const char *service,
			  const struct rdma_addrinfo *hints)
{
	struct cm_id *id = cm_id_of(rid);
	struct rdma_addrinfo *found = NULL;
	int flags = hints ? hints->ai_flags : 0, err;

	if (!cm_usable(rid, "rdma_resolve_addrinfo"))
		return -1;
	if ((flags & RAI_SA_FLAG) && (node || (flags & RAI_DNS_FLAG)))
		return vb_fail_minus1(VB_RULE_NOT_SUPPORTED,
				      "RAI_SA resolves services of an InfiniBand fabric");
	if (!node && !service && !hints)
		return vb_fail_minus1(VB_RULE_CM_ARGUMENT,
				      "id %p: node, service and hints are NULL", (void *)id);
	err = rdma_getaddrinfo(node, service, hints, &found);
	cm_lock();
	rdma_freeaddrinfo(id->info);
	id->info = found;
	cm_unlock();
	if (cm_event_report(id, err ? VB_CM_EVENT_ADDRINFO_ERROR : VB_CM_EVENT_ADDRINFO_RESOLVED,
			    err ? -ENODATA : 0))
		return -1;
	return cm_sync(id);
}

int rdma_query_addrinfo(struct rdma_cm_id *rid, struct rdma_addrinfo **info)
{
	struct cm_id *id = cm_id_of(rid);
	struct rdma_addrinfo *copy;

	if (!cm_usable(rid, "rdma_query_addrinfo"))
		return -1;
	if (!info)
		return vb_fail_minus1(VB_RULE_CM_ARGUMENT, "rdma_query_addrinfo: info is NULL");
	if (!id->info)
		return vb_fail_minus1(VB_RULE_CM_STATE, "id %p: nothing was resolved", (void *)id);
	copy = calloc(1, sizeof(*copy));
	if (!copy)
		return vb_fail_minus1(VB_RULE_CM_MEMORY, "an address");
	from_hints_alone(id->info, copy);
	if (add_hints(id->info, copy) ||
	    copy_name(&copy->ai_src_canonname, id->info->ai_src_canonname) ||
	    copy_name(&copy->ai_dst_canonname, id->info->ai_dst_canonname)) {
		rdma_freeaddrinfo(copy);
		return -1;
	}
	*info = copy;
	return 0;
}

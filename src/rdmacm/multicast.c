/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast groups of UD ids. There is no subnet administrator to join with: the group is its
 * address, and the QP is attached to it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/cm.h"

#define QPN_MULTICAST 0xffffff

struct cm_group {
	struct cm_group *next;
	union ibv_gid mgid;
	void *context;
	bool attached, send_only;
};

static bool same(const struct cm_group *g, const struct sockaddr *addr)
{
	uint8_t gid[16];

	return cm_addr_gid(addr, gid) && !memcmp(gid, g->mgid.raw, 16);
}

static struct cm_group *find(struct cm_id *id, const struct sockaddr *addr)
{
	for (struct cm_group *g = id->groups; g; g = g->next)
		if (same(g, addr))
			return g;
	return NULL;
}

static void detach(struct cm_id *id, struct cm_group *g)
{
	if (g->attached && id->id.qp)
		ibv_detach_mcast(id->id.qp, &g->mgid, 0);
	g->attached = false;
}

static void drop(struct cm_id *id, struct cm_group *group)
{
	cm_lock();
	for (struct cm_group **at = &id->groups; *at; at = &(*at)->next)
		if (*at == group) {
			*at = group->next;
			break;
		}
	cm_unlock();
	detach(id, group);
	free(group);
}

void cm_groups_leave(struct cm_id *id)
{
	while (id->groups)
		drop(id, id->groups);
}

static void fill(const struct cm_id *id, const struct cm_group *g, struct rdma_ud_param *ud)
{
	ud->private_data = g->context;
	cm_fill_ah(id, &ud->ah_attr);
	ud->ah_attr.grh.dgid = g->mgid;
	ud->qp_num = QPN_MULTICAST;
	ud->qkey = RDMA_UDP_QKEY;
}

void cm_joined(struct cm_event *event)
{
	struct cm_id *id = event->id;
	struct cm_group *g;
	int err = 0;

	for (g = id->groups; g; g = g->next)
		if (!memcmp(&g->mgid, &event->event.param.ud.ah_attr.grh.dgid, sizeof(g->mgid)))
			break;
	if (!g)
		return;
	if (!g->send_only && id->id.qp) {
		err = ibv_attach_mcast(id->id.qp, &g->mgid, 0);
		g->attached = !err;
	}
	if (err) {
		event->event.event = RDMA_CM_EVENT_MULTICAST_ERROR;
		event->event.status = -err;
	}
}

static int join(struct cm_id *id, const struct sockaddr *addr, uint32_t flags, void *context)
{
	struct cm_event *event;
	struct cm_group *g;

	if (id->id.qp_type != IBV_QPT_UD || !id->device)
		return vb_fail_minus1(VB_RULE_CM_STATE, "id %p: for UD ids bound to a device",
				      (void *)id);
	if (addr->sa_family != AF_INET && addr->sa_family != AF_INET6)
		return vb_fail_minus1(VB_RULE_CM_FAMILY, "id %p family=%d", (void *)id,
				      addr->sa_family);
	if (find(id, addr))
		return vb_fail_minus1(VB_RULE_CM_ADDRESS_IN_USE, "id %p is a member", (void *)id);
	g = calloc(1, sizeof(*g));
	event = cm_event_new(id, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	if (!g || !event) {
		free(g);
		cm_event_free(event);
		return vb_fail_minus1(VB_RULE_CM_MEMORY, "a group");
	}
	cm_addr_gid(addr, g->mgid.raw);
	g->context = context;
	g->send_only = flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER;
	cm_lock();
	g->next = id->groups;
	id->groups = g;
	cm_unlock();
	fill(id, g, &event->event.param.ud);
	cm_event_post(event);
	return cm_sync(id);
}

int rdma_join_multicast(struct rdma_cm_id *rid, struct sockaddr *addr, void *context)
{
	if (!cm_usable(rid, "rdma_join_multicast"))
		return -1;
	if (!addr)
		return vb_fail_minus1(VB_RULE_CM_ARGUMENT, "addr is NULL");
	return join(cm_id_of(rid), addr, RDMA_MC_JOIN_FLAG_FULLMEMBER, context);
}

int rdma_join_multicast_ex(struct rdma_cm_id *rid, struct rdma_cm_join_mc_attr_ex *attr,
			   void *context)
{
	const uint32_t need = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;

	if (!cm_usable(rid, "rdma_join_multicast_ex"))
		return -1;
	if (!attr || attr->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED)
		return vb_fail_minus1(VB_RULE_CM_ARGUMENT, "comp_mask=0x%x",
				      attr ? attr->comp_mask : 0);
	if ((attr->comp_mask & need) != need || !attr->addr ||
	    attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return vb_fail_minus1(VB_RULE_CM_ARGUMENT, "comp_mask=0x%x join_flags=%u addr=%p",
				      attr->comp_mask, attr->join_flags, (void *)attr->addr);
	return join(cm_id_of(rid), attr->addr, attr->join_flags, context);
}

int rdma_leave_multicast(struct rdma_cm_id *rid, struct sockaddr *addr)
{
	struct cm_id *id = cm_id_of(rid);
	struct cm_group *g;

	if (!cm_usable(rid, "rdma_leave_multicast"))
		return -1;
	g = addr ? find(id, addr) : NULL;
	if (!g)
		return vb_fail_minus1(VB_RULE_CM_NOT_MEMBER, "id %p", (void *)id);
	drop(id, g);
	return 0;
}

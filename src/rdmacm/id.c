/* SPDX-License-Identifier: BSD-2-Clause */
/* Ids: made, bound to a device, destroyed. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "rdmacm/cm.h"

#define PORT 1

static uint32_t random_psn(void)
{
	uint32_t psn = 0;

	if (getrandom(&psn, sizeof(psn), GRND_NONBLOCK) < 0)
		psn = (uint32_t)(uintptr_t)&psn;
	return psn & 0xffffff;
}

bool cm_usable(const struct rdma_cm_id *rid, const char *call)
{
	if (!rid) {
		vb_fail(VB_RULE_CM_ARGUMENT, "%s: id is NULL", call);
		return false;
	}
	if (!cm_alive(((const struct cm_id *)(const void *)rid)->alive)) {
		vb_fail(VB_RULE_FORKED, "%s: id %p", call, (const void *)rid);
		return false;
	}
	return true;
}

struct cm_id *cm_id_new(struct rdma_event_channel *channel, void *context, enum rdma_port_space ps,
			enum ibv_qp_type type)
{
	struct cm_id *id = calloc(1, sizeof(*id));

	if (!id)
		return vb_fail_null(VB_RULE_CM_MEMORY, "an id");
	id->id.channel = channel;
	id->id.context = context;
	id->id.ps = ps;
	id->id.qp_type = type;
	id->psn = random_psn();
	id->alive = vb_fork_guard();
	return id;
}

static int qp_type(enum rdma_port_space ps, enum ibv_qp_type *type)
{
	switch (ps) {
	case RDMA_PS_TCP:
	case RDMA_PS_IB:
		*type = IBV_QPT_RC;
		return 0;
	case RDMA_PS_UDP:
	case RDMA_PS_IPOIB:
		*type = IBV_QPT_UD;
		return 0;
	default:
		return vb_fail_minus1(VB_RULE_CM_PORT_SPACE, "ps=0x%x", (unsigned int)ps);
	}
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **out, void *context,
		   enum rdma_port_space ps)
{
	struct cm_device *devices;
	struct rdma_event_channel *own = NULL;
	enum ibv_qp_type type;
	struct cm_id *id;

	if (!out)
		return vb_fail_minus1(VB_RULE_CM_ARGUMENT, "rdma_create_id: id is NULL");
	if (!cm_devices(&devices) || qp_type(ps, &type) ||
	    (channel && !cm_channel_usable(channel, "rdma_create_id")))
		return -1;
	if (!channel) {
		own = rdma_create_event_channel();
		if (!own)
			return -1;
	}
	id = cm_id_new(channel ? channel : own, context, ps, type);
	if (!id) {
		if (own)
			rdma_destroy_event_channel(own);
		return -1;
	}
	id->sync = own != NULL;
	*out = &id->id;
	return 0;
}

static int agent_failed(int err, const char *what)
{
	switch (err) {
	case -EADDRINUSE:
		return vb_fail_minus1(VB_RULE_CM_ADDRESS_IN_USE, "%s", what);
	case -EMFILE:
	case -ENFILE:
		return vb_fail_minus1(VB_RULE_CM_DESCRIPTORS, "%s", what);
	case -EINVAL:
		return vb_fail_minus1(VB_RULE_CM_STATE, "%s", what);
	default:
		return vb_fail_minus1(VB_RULE_CM_MEMORY, "%s: %s", what, strerror(-err));
	}
}

static void set_device(struct cm_id *id, struct cm_device *device)
{
	id->device = device;
	id->id.verbs = device->verbs;
	id->id.port_num = PORT;
	if (!id->id.pd)
		id->id.pd = cm_device_pd(device);
}

int cm_id_attach(struct cm_id *id, struct cm_device *device)
{
	struct cm_device *all;
	int err = 0, n = cm_devices(&all);

	for (int i = 0; i < n; i++) {
		struct vb_agent_id *one = id->each[i];

		id->each[i] = NULL;
		if (one && &all[i] == device && !id->agent)
			id->agent = one;
		else if (one)
			vb_agent_destroy(one);
	}
	if (!id->agent)
		err = vb_agent_create(device->verbs, cm_happened, id, &id->agent);
	if (err)
		return agent_failed(err, device->verbs->device->name);
	set_device(id, device);
	return id->id.pd ? 0 : -1;
}

/* A new one, of a request: its agent's id is there already. */
int cm_id_adopt(struct cm_id *id, struct cm_device *device, struct vb_agent_id *agent)
{
	id->agent = agent;
	set_device(id, device);
	return id->id.pd ? 0 : -1;
}

static int bind_agent(struct cm_id *id, struct vb_agent_id *agent, struct vb_agent_bind *bind)
{
	int err = vb_agent_bind(agent, bind);
	char what[64];

	if (!err)
		return 0;
	snprintf(what, sizeof(what), "id %p port %u of space 0x%x", (void *)id, bind->port,
		 bind->space);
	return agent_failed(err, what);
}

static void describe_bind(const struct cm_id *id, const struct sockaddr *addr,
			  struct vb_agent_bind *bind)
{
	memset(bind, 0, sizeof(*bind));
	bind->space = (uint16_t)id->id.ps;
	bind->port = cm_addr_port(addr);
	bind->any = cm_addr_any(addr);
	bind->v6 = addr->sa_family == AF_INET6;
	bind->only6 = bind->v6 && id->only6;
	bind->reuse = id->reuse;
	/* Without a destination it may become a listener. */
	bind->claim = !id->id.route.addr.dst_addr.sa_family;
	cm_addr_gid(addr, bind->addr);
}

/* At every device: the first one's port is everybody's. */
static int bind_each(struct cm_id *id, struct vb_agent_bind *bind)
{
	struct cm_device *all;
	int n = cm_devices(&all);

	for (int i = 0; i < n; i++) {
		int err = vb_agent_create(all[i].verbs, cm_happened, id, &id->each[i]);

		if (err)
			return agent_failed(err, all[i].verbs->device->name);
		if (bind_agent(id, id->each[i], bind))
			return -1;
	}
	return n ? 0 : -1;
}

static void release_agents(struct cm_id *id)
{
	for (int i = 0; i < CM_DEVICES_MAX; i++) {
		if (id->each[i])
			vb_agent_destroy(id->each[i]);
		id->each[i] = NULL;
	}
	if (id->agent)
		vb_agent_destroy(id->agent);
	id->agent = NULL;
}

int cm_bind_at(struct cm_id *id, struct cm_device *device, const struct sockaddr *addr)
{
	struct sockaddr *own = &id->id.route.addr.src_addr;
	struct vb_agent_bind bind;
	int err;

	describe_bind(id, addr, &bind);
	if (device)
		err = cm_id_attach(id, device) || bind_agent(id, id->agent, &bind);
	else
		err = bind_each(id, &bind);
	if (err) {
		int saved = errno;

		release_agents(id);
		id->device = NULL;
		id->id.verbs = NULL;
		id->id.pd = NULL;
		id->id.port_num = 0;
		errno = saved;
		return -1;
	}
	memcpy(own, addr, cm_addr_len(addr));
	cm_addr_set_port(own, bind.port);
	id->state = CM_BOUND;
	return 0;
}

/* ---- The end ---- */

static void drop_requests(struct cm_event *requests)
{
	while (requests) {
		struct cm_event *event = requests;

		requests = event->next;
		rdma_destroy_id(&event->id->id);
		cm_event_free(event);
	}
}

void cm_uncount(struct cm_id *id)
{
	if (id->counted && id->listener)
		id->listener->waiting--;
	id->counted = false;
}

/* Its children must not name it any more. */
static void forget_listener(struct cm_id *id)
{
	cm_lock();
	while (id->children) {
		struct cm_id *child = id->children;

		id->children = child->next_child;
		child->listener = NULL;
		child->counted = false;
	}
	cm_unlock();
}

static void leave_listener(struct cm_id *id)
{
	cm_lock();
	cm_uncount(id);
	if (id->listener)
		for (struct cm_id **at = &id->listener->children; *at; at = &(*at)->next_child)
			if (*at == id) {
				*at = id->next_child;
				break;
			}
	id->listener = NULL;
	cm_unlock();
}

int rdma_destroy_id(struct rdma_cm_id *rid)
{
	struct cm_id *id = cm_id_of(rid);

	if (!rid)
		return vb_fail_minus1(VB_RULE_CM_ARGUMENT, "rdma_destroy_id: id is NULL");
	/* The parent has it still; only the memory is this process's. */
	if (!cm_alive(id->alive)) {
		cm_id_free(id);
		return 0;
	}
	cm_groups_leave(id);
	release_agents(id);
	drop_requests(cm_channel_forget(id));
	if (rid->event)
		rdma_ack_cm_event(rid->event);
	rid->event = NULL;
	cm_wait_acked(id, "rdma_destroy_id");
	leave_listener(id);
	forget_listener(id);
	if (id->sync)
		rdma_destroy_event_channel(rid->channel);
	cm_id_free(id);
	return 0;
}

void cm_id_free(struct cm_id *id)
{
	free(id->id.route.path_rec);
	rdma_freeaddrinfo(id->info);
	free(id);
}

/* ---- Waiting for the end of a call ---- */

int cm_sync(struct cm_id *id)
{
	struct rdma_cm_id *rid = &id->id;

	if (!id->sync)
		return 0;
	if (rid->event)
		rdma_ack_cm_event(rid->event);
	rid->event = NULL;
	if (rdma_get_cm_event(rid->channel, &rid->event))
		return -1;
	if (!rid->event->status)
		return 0;
	if (rid->event->event == RDMA_CM_EVENT_REJECTED)
		return vb_fail_minus1(VB_RULE_CM_REFUSED, "id %p: reason %d", (void *)id,
				      rid->event->status);
	if (rid->event->status == -ETIMEDOUT)
		return vb_fail_minus1(VB_RULE_CM_TIMEOUT, "id %p: %s", (void *)id,
				      rdma_event_str(rid->event->event));
	errno = abs(rid->event->status);
	return -1;
}

__be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	uint16_t port = id ? cm_addr_port(&id->route.addr.src_addr) : 0;

	return htobe16(port);
}

__be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
	uint16_t port = id ? cm_addr_port(&id->route.addr.dst_addr) : 0;

	return htobe16(port);
}

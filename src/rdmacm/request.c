/* SPDX-License-Identifier: BSD-2-Clause */
/* What happens to connections becomes events; requests become ids. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/cm.h"

void cm_fill_ah(const struct cm_id *id, struct ibv_ah_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->is_global = 1;
	attr->port_num = id->id.port_num;
	attr->grh.sgid_index = (uint8_t)cm_gid_index(id);
	attr->grh.hop_limit = id->path.hop_limit;
	attr->grh.traffic_class = id->path.traffic_class;
	memcpy(attr->grh.dgid.raw, id->path.peer_gid, 16);
}

static void copy_private(struct cm_event *event, const struct vb_cm_msg *msg, size_t skip,
			 const void **data, uint8_t *len)
{
	size_t size = vb_cm_private_len(msg->attr) - skip;

	memcpy(event->private_data, msg->private_data + skip, size);
	*data = event->private_data;
	*len = (uint8_t)size;
}

static void fill_conn(struct cm_event *event, const struct vb_cm_msg *msg, size_t skip)
{
	struct rdma_conn_param *conn = &event->event.param.conn;

	copy_private(event, msg, skip, &conn->private_data, &conn->private_data_len);
	/* What the peer offers is what we may ask for, and the other way round. */
	conn->responder_resources = msg->depth;
	conn->initiator_depth = msg->resources;
	conn->flow_control = msg->flow_control;
	conn->retry_count = msg->retries;
	conn->rnr_retry_count = msg->rnr_retries;
	conn->srq = msg->srq;
	conn->qp_num = msg->qpn;
}

/* What the peer says holds until this side says less: a program that moves its QP itself may
 * ask for the attributes before it accepts. */
static void note_peer(struct cm_id *id, const struct vb_cm_msg *msg)
{
	struct cm_peer *peer = &id->peer;
	const struct ibv_device_attr *attr = &id->device->attr;

	peer->qpn = msg->qpn;
	peer->psn = msg->psn;
	peer->responder_resources = msg->depth;
	peer->initiator_depth = msg->resources;
	peer->rnr_retry_count = msg->rnr_retries;
	id->responder_resources =
		msg->depth < attr->max_qp_rd_atom ? msg->depth : (uint8_t)attr->max_qp_rd_atom;
	id->initiator_depth = msg->resources < attr->max_qp_init_rd_atom
				      ? msg->resources
				      : (uint8_t)attr->max_qp_init_rd_atom;
	peer->ece.vendor_id = msg->vendor_id;
	peer->ece.comp_mask = 0;
	peer->ece.options = msg->attr_mod;
	if (msg->attr == VB_CM_REQ) {
		peer->retry_count = msg->retries;
		id->retry_count = msg->retries;
		peer->mtu = msg->mtu;
		peer->ack_timeout = msg->path.ack_timeout;
	}
}

static struct cm_device *device_of(struct cm_id *listener, const struct vb_agent_path *path)
{
	return listener->device ? listener->device : cm_device_of_gid(path->own_gid);
}

/* A listener's new child: bound, with addresses and path. */
static struct cm_id *new_child(struct cm_id *listener, const struct vb_agent_event *ev)
{
	struct cm_device *device = device_of(listener, ev->path);
	struct cm_id *id = cm_id_new(listener->id.channel, listener->id.context, listener->id.ps,
				     listener->id.qp_type);
	struct rdma_addr *addr;
	bool v6 = ev->ip->version == 6;

	if (!id || !device || cm_id_adopt(id, device, ev->id)) {
		if (id)
			cm_id_free(id);
		return NULL;
	}
	addr = &id->id.route.addr;
	cm_addr_from_ip(v6, ev->ip->dst, (uint16_t)ev->msg->service_id, &addr->src_storage);
	cm_addr_from_ip(v6, ev->ip->src, ev->ip->port, &addr->dst_storage);
	id->path = *ev->path;
	id->tos = id->path.traffic_class;
	memcpy(addr->addr.ibaddr.sgid.raw, id->path.own_gid, 16);
	memcpy(addr->addr.ibaddr.dgid.raw, id->path.peer_gid, 16);
	addr->addr.ibaddr.pkey = 0xffff;
	id->passive = true;
	id->state = CM_CONNECT;
	note_peer(id, ev->msg);
	if (cm_route_fill(id)) {
		cm_id_free(id);
		return NULL;
	}
	return id;
}

static bool room_in_backlog(struct cm_id *listener)
{
	bool room;

	cm_lock();
	room = listener->waiting < listener->backlog;
	if (room)
		listener->waiting++;
	cm_unlock();
	return room;
}

static void enter_backlog(struct cm_id *listener, struct cm_id *id)
{
	cm_lock();
	id->listener = listener;
	id->counted = true;
	id->next_child = listener->children;
	listener->children = id;
	cm_unlock();
}

static void *request(struct cm_id *listener, const struct vb_agent_event *ev)
{
	struct cm_event *event;
	struct cm_id *id;

	if (!room_in_backlog(listener))
		return NULL;
	id = new_child(listener, ev);
	event = id ? cm_event_new(id, RDMA_CM_EVENT_CONNECT_REQUEST, 0) : NULL;
	if (!event) {
		cm_lock();
		listener->waiting--;
		cm_unlock();
		if (id)
			cm_id_free(id);
		return NULL;
	}
	enter_backlog(listener, id);
	event->counts = listener;
	event->event.listen_id = &listener->id;
	if (ev->msg->attr == VB_CM_REQ)
		fill_conn(event, ev->msg, VB_CM_IP_LEN);
	else
		copy_private(event, ev->msg, VB_CM_IP_LEN, &event->event.param.ud.private_data,
			     &event->event.param.ud.private_data_len);
	cm_event_post(event);
	return id;
}

static void replied(struct cm_id *id, const struct vb_cm_msg *msg)
{
	struct cm_event *event = cm_event_new(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);

	note_peer(id, msg);
	if (!event)
		return;
	fill_conn(event, msg, 0);
	cm_event_post(event);
}

static void answered(struct cm_id *id, const struct vb_cm_msg *msg)
{
	struct cm_event *event;
	struct rdma_ud_param *ud;

	if (msg->status != VB_CM_SIDR_VALID) {
		cm_event_report(id, RDMA_CM_EVENT_UNREACHABLE, msg->status);
		return;
	}
	event = cm_event_new(id, RDMA_CM_EVENT_ESTABLISHED, 0);
	if (!event)
		return;
	ud = &event->event.param.ud;
	copy_private(event, msg, 0, &ud->private_data, &ud->private_data_len);
	cm_fill_ah(id, &ud->ah_attr);
	ud->qp_num = msg->qpn;
	ud->qkey = msg->qkey;
	cm_event_post(event);
}

static void rejected(struct cm_id *id, const struct vb_cm_msg *msg)
{
	struct cm_event *event = cm_event_new(id, RDMA_CM_EVENT_REJECTED, msg->reason);

	if (!event)
		return;
	copy_private(event, msg, 0, &event->event.param.conn.private_data,
		     &event->event.param.conn.private_data_len);
	cm_event_post(event);
}

/* Once, whoever began it and however it ends. */
static void disconnected(struct cm_id *id)
{
	if (id->disconnect_told)
		return;
	id->disconnect_told = true;
	cm_event_report(id, RDMA_CM_EVENT_DISCONNECTED, 0);
}

/* An id that is bound to no device has lost none; a removal is told once, and what comes first is
 * the program's cue to destroy the id. */
static void device_news(struct cm_id *id, int type)
{
	if (!id->device || id->removal_told)
		return;
	id->removal_told = type == RDMA_CM_EVENT_DEVICE_REMOVAL;
	cm_event_report(id, type, 0);
}

void *cm_happened(void *owner, const struct vb_agent_event *ev)
{
	struct cm_id *id = owner;

	switch (ev->what) {
	case VB_AGENT_REQUEST:
		return request(id, ev);
	case VB_CM_REPLY:
		replied(id, ev->msg);
		break;
	case VB_CM_READY:
		cm_event_report(id, RDMA_CM_EVENT_ESTABLISHED, 0);
		break;
	case VB_CM_REJECTED:
		rejected(id, ev->msg);
		break;
	case VB_CM_UNREACHABLE:
	case VB_CM_REPLY_LOST:
		cm_event_report(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
		break;
	case VB_CM_DISCONNECTED:
		disconnected(id);
		break;
	case VB_CM_TIMEWAIT_EXIT:
		cm_event_report(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
		break;
	case VB_AGENT_REMOVED:
		device_news(id, RDMA_CM_EVENT_DEVICE_REMOVAL);
		break;
	case VB_AGENT_ADDR_CHANGED:
		device_news(id, RDMA_CM_EVENT_ADDR_CHANGE);
		break;
	case VB_CM_SIDR_ANSWERED:
		answered(id, ev->msg);
		break;
	default:
		break;
	}
	return NULL;
}

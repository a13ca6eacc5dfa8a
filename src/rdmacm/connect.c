/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections: asked for, accepted, rejected, ended. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/sa.h>

#include "rdmacm/cm.h"

#define BACKLOG_MAX  1024
#define RETRIES_MAX  7
#define SERVICE_RC   0
#define LID_NONE     0xffff
#define PKEY_DEFAULT 0xffff
/* Of target ack delay; what Linux reports for a device that has none. */
#define ACK_DELAY 15

/* What a call may put into the private data of a message that has @room bytes. */
static int put_private(struct vb_cm_msg *msg, const void *data, size_t len, size_t skip,
		       size_t room, const char *call)
{
	if (len > room)
		return vb_fail_minus1(VB_RULE_CM_PRIVATE_DATA, "%s: private_data_len=%zu, most %zu",
				      call, len, room);
	if (len && !data)
		return vb_fail_minus1(VB_RULE_CM_ARGUMENT,
				      "%s: private_data is NULL, private_data_len=%zu", call, len);
	if (len)
		memcpy(msg->private_data + skip, data, len);
	return 0;
}

static bool is_ud(const struct cm_id *id)
{
	return id->id.qp_type == IBV_QPT_UD;
}

static int send_msg(struct cm_id *id, struct vb_cm_msg *msg, const struct vb_agent_path *path)
{
	int err = id->agent ? vb_agent_send(id->agent, msg, path) : -EINVAL;

	if (err == -ENETUNREACH)
		return vb_fail_minus1(VB_RULE_CM_NO_ROUTE,
				      "id %p: packets are not allowed (VERBENA_CARRIER)",
				      (void *)id);
	if (err)
		return vb_fail_minus1(VB_RULE_CM_STATE, "id %p: the connection is %s", (void *)id,
				      id->agent ? "not at this point" : "not begun");
	return 0;
}

/* ---- Listening ---- */

static int listen_any(struct cm_id *id)
{
	struct sockaddr_in any = {.sin_family = AF_INET};

	return cm_bind(id, (struct sockaddr *)&any);
}

static int listen_each(struct cm_id *id)
{
	int err = id->agent ? vb_agent_listen(id->agent) : 0;

	for (int i = 0; i < CM_DEVICES_MAX && !err; i++)
		if (id->each[i])
			err = vb_agent_listen(id->each[i]);
	if (err == -EADDRINUSE)
		return vb_fail_minus1(VB_RULE_CM_ADDRESS_IN_USE, "id %p", (void *)id);
	return err ? vb_fail_minus1(VB_RULE_CM_DESCRIPTORS, "id %p: %s", (void *)id, strerror(-err))
		   : 0;
}

int rdma_listen(struct rdma_cm_id *rid, int backlog)
{
	struct cm_id *id = cm_id_of(rid);

	if (!cm_usable(rid, "rdma_listen"))
		return -1;
	if (id->state == CM_IDLE && listen_any(id))
		return -1;
	if (id->state != CM_BOUND && id->state != CM_LISTEN)
		return vb_fail_minus1(VB_RULE_CM_STATE, "id %p is a connection", (void *)id);
	cm_lock();
	id->backlog = backlog > 0 && backlog < BACKLOG_MAX ? backlog : BACKLOG_MAX;
	cm_unlock();
	if (id->state == CM_BOUND && listen_each(id))
		return -1;
	id->state = CM_LISTEN;
	return 0;
}

int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **out)
{
	struct cm_id *id = cm_id_of(listen);
	struct rdma_cm_event *event;
	struct rdma_event_channel *channel;
	struct cm_id *child;

	if (!cm_usable(listen, "rdma_get_request"))
		return -1;
	if (!out)
		return vb_fail_minus1(VB_RULE_CM_ARGUMENT, "rdma_get_request: id is NULL");
	if (!id->sync || id->state != CM_LISTEN)
		return vb_fail_minus1(VB_RULE_CM_SYNC, "id %p", (void *)id);
	if (listen->event)
		rdma_ack_cm_event(listen->event);
	listen->event = NULL;
	if (rdma_get_cm_event(listen->channel, &event))
		return -1;
	if (event->status || event->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
		int status = event->status;

		rdma_ack_cm_event(event);
		return vb_fail_minus1(VB_RULE_CM_SYNC, "id %p: status %d", (void *)id, status);
	}
	child = cm_id_of(event->id);
	/* A channel of its own; the event counts there from now on, as the caller knows it
	 * by the new id. */
	channel = rdma_create_event_channel();
	if (!channel)
		goto failed;
	cm_move_request(child, channel, event);
	if (id->have_qp_attr) {
		struct ibv_qp_init_attr attr = id->qp_attr;

		if (rdma_create_qp(&child->id, id->qp_pd, &attr)) {
			rdma_destroy_id(&child->id);
			return -1;
		}
	}
	*out = &child->id;
	return 0;
failed:
	rdma_ack_cm_event(event);
	rdma_destroy_id(&child->id);
	return -1;
}

/* ---- Parameters ---- */

static uint8_t limit(uint8_t asked, int most)
{
	return asked == RDMA_MAX_RESP_RES || asked > most ? (uint8_t)(most > 255 ? 255 : most)
							  : asked;
}

static int check_resources(const struct cm_id *id, const struct rdma_conn_param *param)
{
	const struct ibv_device_attr *attr = &id->device->attr;

	if (id->id.ps != RDMA_PS_TCP)
		return 0;
	if ((param->responder_resources != RDMA_MAX_RESP_RES &&
	     param->responder_resources > attr->max_qp_rd_atom) ||
	    (param->initiator_depth != RDMA_MAX_INIT_DEPTH &&
	     param->initiator_depth > attr->max_qp_init_rd_atom))
		return vb_fail_minus1(VB_RULE_CM_RESOURCES,
				      "id %p responder_resources=%u (%d) initiator_depth=%u (%d)",
				      (const void *)id, param->responder_resources,
				      attr->max_qp_rd_atom, param->initiator_depth,
				      attr->max_qp_init_rd_atom);
	return 0;
}

/* What the call's parameters mean: with a QP of the library's some are its own. */
static int settle(struct cm_id *id, const struct rdma_conn_param *given,
		  struct rdma_conn_param *param)
{
	const struct ibv_device_attr *attr = &id->device->attr;
	struct ibv_qp *qp = id->id.qp;

	memset(param, 0, sizeof(*param));
	if (!given && !qp)
		return vb_fail_minus1(VB_RULE_CM_NO_QP, "id %p", (void *)id);
	if (given) {
		*param = *given;
	} else {
		param->responder_resources = RDMA_MAX_RESP_RES;
		param->initiator_depth = RDMA_MAX_INIT_DEPTH;
		param->retry_count = RETRIES_MAX;
		param->rnr_retry_count = RETRIES_MAX;
	}
	if (check_resources(id, param))
		return -1;
	param->responder_resources = limit(param->responder_resources, attr->max_qp_rd_atom);
	param->initiator_depth = limit(param->initiator_depth, attr->max_qp_init_rd_atom);
	if (param->retry_count > RETRIES_MAX)
		param->retry_count = RETRIES_MAX;
	if (param->rnr_retry_count > RETRIES_MAX)
		param->rnr_retry_count = RETRIES_MAX;
	if (qp) {
		param->qp_num = qp->qp_num;
		param->srq = qp->srq != NULL;
	}
	id->responder_resources = param->responder_resources;
	id->initiator_depth = param->initiator_depth;
	id->retry_count = param->retry_count;
	id->rnr_retry_count = param->rnr_retry_count;
	return 0;
}

/* ---- Asking ---- */

static void put_addresses(const struct cm_id *id, struct vb_cm_msg *msg)
{
	const struct rdma_addr *addr = &id->id.route.addr;
	bool v6 = addr->dst_addr.sa_family == AF_INET6;
	struct vb_cm_ip ip = {.version = v6 ? 6 : 4, .port = cm_addr_port(&addr->src_addr)};

	cm_addr_gid(&addr->src_addr, ip.src);
	cm_addr_gid(&addr->dst_addr, ip.dst);
	if (!v6) {
		memset(ip.src, 0, 12);
		memset(ip.dst, 0, 12);
	}
	vb_cm_ip_build(&ip, msg->private_data);
	msg->service_id = VB_CM_SERVICE(id->id.ps, cm_addr_port(&addr->dst_addr));
	msg->pkey = PKEY_DEFAULT;
}

static uint64_t guid_of(const struct cm_id *id)
{
	return be64toh(ibv_get_device_guid(id->id.verbs->device));
}

static void fill_path(const struct cm_id *id, struct vb_cm_path *path)
{
	const struct ibv_sa_path_rec *rec = id->id.route.path_rec;

	path->slid = path->dlid = LID_NONE;
	memcpy(path->sgid, id->path.own_gid, 16);
	memcpy(path->dgid, id->path.peer_gid, 16);
	path->rate = rec->rate;
	path->traffic_class = id->path.traffic_class;
	path->hop_limit = id->path.hop_limit;
	path->ack_timeout = (uint8_t)(rec->packet_life_time + 1);
}

static void fill_req(const struct cm_id *id, const struct rdma_conn_param *param,
		     struct vb_cm_msg *msg)
{
	msg->attr = VB_CM_REQ;
	msg->ca_guid = guid_of(id);
	msg->qpn = param->qp_num;
	msg->psn = id->psn;
	msg->resources = param->responder_resources;
	msg->depth = param->initiator_depth;
	msg->remote_timeout = VB_CM_RESPONSE_TIMEOUT;
	msg->local_timeout = VB_CM_RESPONSE_TIMEOUT;
	msg->transport = SERVICE_RC;
	msg->flow_control = param->flow_control;
	msg->retries = param->retry_count;
	msg->rnr_retries = param->rnr_retry_count;
	msg->cm_retries = VB_CM_RETRIES;
	msg->srq = param->srq;
	msg->mtu = id->id.route.path_rec->mtu;
	msg->vendor_id = id->ece.vendor_id;
	msg->attr_mod = id->ece.options;
	fill_path(id, &msg->path);
}

int rdma_connect(struct rdma_cm_id *rid, struct rdma_conn_param *given)
{
	struct cm_id *id = cm_id_of(rid);
	struct rdma_conn_param param;
	struct vb_cm_msg msg = {.attr = VB_CM_SIDR_REQ};
	size_t room;

	if (!cm_usable(rid, "rdma_connect"))
		return -1;
	room = vb_cm_private_len(is_ud(id) ? VB_CM_SIDR_REQ : VB_CM_REQ) - VB_CM_IP_LEN;
	if (id->state != CM_ROUTE_RESOLVED)
		return vb_fail_minus1(VB_RULE_CM_STATE, "id %p: no route is resolved", (void *)id);
	if (settle(id, given, &param) ||
	    put_private(&msg, param.private_data, param.private_data_len, VB_CM_IP_LEN, room,
			"rdma_connect"))
		return -1;
	put_addresses(id, &msg);
	if (!is_ud(id))
		fill_req(id, &param, &msg);
	id->state = CM_CONNECT;
	if (send_msg(id, &msg, &id->path)) {
		id->state = CM_ROUTE_RESOLVED;
		return -1;
	}
	return cm_sync(id);
}

static int say_ready(struct cm_id *id)
{
	struct vb_cm_msg rtu = {.attr = VB_CM_RTU};

	return send_msg(id, &rtu, NULL);
}

void cm_reply_arrived(struct cm_event *event)
{
	struct cm_id *id = event->id;
	struct vb_cm_msg rej = {.attr = VB_CM_REJ, .reason = VB_CM_REJ_CONSUMER};

	/* Whose QP is the program's own says rdma_establish() itself. */
	if (!id->id.qp)
		return;
	if (!cm_qp_connect(id) && !say_ready(id)) {
		event->event.event = RDMA_CM_EVENT_ESTABLISHED;
		return;
	}
	event->event.event = RDMA_CM_EVENT_CONNECT_ERROR;
	event->event.status = -errno;
	cm_qp_error(id);
	send_msg(id, &rej, NULL);
}

int rdma_establish(struct rdma_cm_id *rid)
{
	struct cm_id *id = cm_id_of(rid);

	if (!cm_usable(rid, "rdma_establish"))
		return -1;
	if (rid->qp || id->passive)
		return vb_fail_minus1(VB_RULE_CM_STATE,
				      "id %p: for the active side of a QP of the program's own",
				      (void *)id);
	return say_ready(id);
}

/* ---- Answering ---- */

static int accept_ud(struct cm_id *id, const struct rdma_conn_param *param)
{
	struct vb_cm_msg msg = {
		.attr = VB_CM_SIDR_REP, .status = VB_CM_SIDR_VALID, .qkey = RDMA_UDP_QKEY};

	if (id->id.qp)
		msg.qpn = id->id.qp->qp_num;
	else if (param)
		msg.qpn = param->qp_num;
	else
		return vb_fail_minus1(VB_RULE_CM_NO_QP, "id %p", (void *)id);
	msg.service_id = VB_CM_SERVICE(id->id.ps, cm_addr_port(&id->id.route.addr.src_addr));
	if (param && put_private(&msg, param->private_data, param->private_data_len, 0,
				 VB_CM_SIDR_REP_PRIV, "rdma_accept"))
		return -1;
	return send_msg(id, &msg, NULL);
}

static int accept_rc(struct cm_id *id, const struct rdma_conn_param *given)
{
	struct vb_cm_msg msg = {.attr = VB_CM_REP};
	struct rdma_conn_param param;

	if (settle(id, given, &param) ||
	    put_private(&msg, param.private_data, param.private_data_len, 0, VB_CM_REP_PRIV,
			"rdma_accept"))
		return -1;
	/* Not more than the peer takes or offers, where the call left it open. */
	if (!given || given->responder_resources == RDMA_MAX_RESP_RES)
		param.responder_resources =
			limit(id->peer.responder_resources, param.responder_resources);
	if (!given || given->initiator_depth == RDMA_MAX_INIT_DEPTH)
		param.initiator_depth = limit(id->peer.initiator_depth, param.initiator_depth);
	id->responder_resources = param.responder_resources;
	id->initiator_depth = param.initiator_depth;
	/* The peer says how often it is worth trying. */
	id->retry_count = id->peer.retry_count;
	if (id->id.qp && cm_qp_connect(id))
		return -1;
	msg.ca_guid = guid_of(id);
	msg.qpn = param.qp_num;
	msg.psn = id->psn;
	msg.resources = param.responder_resources;
	msg.depth = param.initiator_depth;
	msg.ack_delay = ACK_DELAY;
	msg.flow_control = param.flow_control;
	msg.rnr_retries = param.rnr_retry_count;
	msg.srq = param.srq;
	msg.vendor_id = id->ece.vendor_id;
	msg.attr_mod = id->ece.options;
	if (!send_msg(id, &msg, NULL))
		return 0;
	cm_qp_error(id);
	return -1;
}

int rdma_accept(struct rdma_cm_id *rid, struct rdma_conn_param *param)
{
	struct cm_id *id = cm_id_of(rid);

	if (!cm_usable(rid, "rdma_accept"))
		return -1;
	if (!id->passive || id->state != CM_CONNECT)
		return vb_fail_minus1(VB_RULE_CM_STATE, "id %p: no request", (void *)id);
	/* Before its QP is touched. */
	if (vb_agent_state(id->agent) != (is_ud(id) ? VB_CM_SIDR_RCVD : VB_CM_REQ_RCVD))
		return vb_fail_minus1(VB_RULE_CM_STATE, "id %p: the request is answered or over",
				      (void *)id);
	if (is_ud(id) ? accept_ud(id, param) : accept_rc(id, param))
		return -1;
	/* A datagram's answer is the end of it. */
	return is_ud(id) ? 0 : cm_sync(id);
}

static int reject(struct rdma_cm_id *rid, const void *data, uint8_t len, uint16_t reason)
{
	struct cm_id *id = cm_id_of(rid);
	struct vb_cm_msg msg = {.attr = VB_CM_REJ, .reason = reason};

	if (!cm_usable(rid, "rdma_reject"))
		return -1;
	if (is_ud(id)) {
		msg.attr = VB_CM_SIDR_REP;
		msg.status = VB_CM_SIDR_REJECT;
		msg.service_id = VB_CM_SERVICE(id->id.ps, cm_addr_port(&rid->route.addr.src_addr));
	}
	if (put_private(&msg, data, len, 0, vb_cm_private_len(msg.attr), "rdma_reject") ||
	    send_msg(id, &msg, NULL))
		return -1;
	return 0;
}

int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
	return reject(id, private_data, private_data_len, VB_CM_REJ_CONSUMER);
}

int rdma_reject_ece(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
	return reject(id, private_data, private_data_len, VB_CM_REJ_VENDOR_OPTION);
}

int rdma_notify(struct rdma_cm_id *rid, enum ibv_event_type event)
{
	struct cm_id *id = cm_id_of(rid);

	if (!cm_usable(rid, "rdma_notify"))
		return -1;
	if (event != IBV_EVENT_COMM_EST)
		return vb_fail_minus1(VB_RULE_CM_ARGUMENT, "event=%d, want IBV_EVENT_COMM_EST",
				      (int)event);
	if (!id->agent)
		return vb_fail_minus1(VB_RULE_CM_STATE, "id %p", (void *)id);
	/* The ready message may have come meanwhile. */
	vb_agent_data_came(id->agent);
	return 0;
}

int rdma_disconnect(struct rdma_cm_id *rid)
{
	struct cm_id *id = cm_id_of(rid);
	struct vb_cm_msg msg = {.attr = VB_CM_DREQ};

	if (!cm_usable(rid, "rdma_disconnect"))
		return -1;
	if (!id->agent || id->state != CM_CONNECT || is_ud(id))
		return vb_fail_minus1(VB_RULE_CM_STATE, "id %p is not connected", (void *)id);
	cm_qp_error(id);
	/* Where it has ended already there is nothing left to say. */
	if (vb_agent_send(id->agent, &msg, NULL) && !id->disconnect_told)
		return 0;
	if (rid->event && rid->event->event == RDMA_CM_EVENT_DISCONNECTED)
		return 0;
	return cm_sync(id);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* QPs and SRQs of ids, and how a connection sets a QP's attributes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/sa.h>

#include "rdmacm/cm.h"

int cm_gid_index(const struct cm_id *id)
{
	int index = vb_agent_gid_index(id->id.verbs, id->path.own_gid);

	return index < 0 ? 0 : index;
}

/* ---- Attributes ---- */

static void init_attr(const struct cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	attr->port_num = id->id.port_num;
	attr->pkey_index = 0;
	*mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	if (id->id.qp_type == IBV_QPT_UD) {
		attr->qkey = RDMA_UDP_QKEY;
		*mask |= IBV_QP_QKEY;
		return;
	}
	attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	if (id->responder_resources)
		attr->qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	*mask |= IBV_QP_ACCESS_FLAGS;
}

static enum ibv_mtu path_mtu(const struct cm_id *id)
{
	uint8_t own = id->id.route.path_rec->mtu;

	return (enum ibv_mtu)(id->passive && id->peer.mtu && id->peer.mtu < own ? id->peer.mtu
										: own);
}

static void rtr_attr(const struct cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	*mask = IBV_QP_STATE;
	if (id->id.qp_type == IBV_QPT_UD)
		return;
	cm_fill_ah(id, &attr->ah_attr);
	attr->path_mtu = path_mtu(id);
	attr->dest_qp_num = id->peer.qpn;
	attr->rq_psn = id->psn;
	attr->max_dest_rd_atomic = id->responder_resources;
	attr->min_rnr_timer = 0;
	*mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
}

/* The peer's word counts where it gives one: it knows how long its answers take. */
static void rts_attr(const struct cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	/* Each side tells the other where to begin (IBA1 12.7.31). */
	attr->sq_psn = id->id.qp_type == IBV_QPT_UD ? 0 : id->peer.psn;
	*mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	if (id->id.qp_type == IBV_QPT_UD)
		return;
	attr->timeout = id->passive && id->peer.ack_timeout
				? id->peer.ack_timeout
				: (uint8_t)(id->id.route.path_rec->packet_life_time + 1);
	if (id->ack_timeout_set)
		attr->timeout = id->ack_timeout;
	attr->retry_cnt = id->retry_count;
	attr->rnr_retry = id->peer.rnr_retry_count;
	attr->max_rd_atomic = id->initiator_depth;
	*mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
}

static int no_attr(const char *call)
{
	return vb_fail_minus1(VB_RULE_CM_ARGUMENT, "%s: the attributes are NULL", call);
}

int rdma_init_qp_attr(struct rdma_cm_id *rid, struct ibv_qp_attr *attr, int *mask)
{
	struct cm_id *id = cm_id_of(rid);
	enum ibv_qp_state state;
	bool connected;

	if (!cm_usable(rid, "rdma_init_qp_attr"))
		return -1;
	if (!attr || !mask)
		return no_attr("rdma_init_qp_attr");
	state = attr->qp_state;
	connected = id->state == CM_CONNECT || id->id.qp_type == IBV_QPT_UD;
	if (!id->device)
		return vb_fail_minus1(VB_RULE_CM_STATE, "id %p: bound to no device", (void *)id);
	if (state != IBV_QPS_INIT && (!connected || (state != IBV_QPS_RTR && state != IBV_QPS_RTS)))
		return vb_fail_minus1(VB_RULE_CM_STATE, "id %p: no connection for state %d",
				      (void *)id, (int)state);
	memset(attr, 0, sizeof(*attr));
	attr->qp_state = state;
	if (state == IBV_QPS_INIT)
		init_attr(id, attr, mask);
	else if (state == IBV_QPS_RTR)
		rtr_attr(id, attr, mask);
	else
		rts_attr(id, attr, mask);
	return 0;
}

static int to_state(struct cm_id *id, struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};
	int mask = 0, err;

	if (rdma_init_qp_attr(&id->id, &attr, &mask))
		return -1;
	err = ibv_modify_qp(qp, &attr, mask);
	if (err)
		errno = err;
	return err ? -1 : 0;
}

int cm_qp_connect(struct cm_id *id)
{
	/* INIT once more: reading from us is allowed by what was agreed. */
	if (to_state(id, id->id.qp, IBV_QPS_INIT) || to_state(id, id->id.qp, IBV_QPS_RTR))
		return -1;
	return to_state(id, id->id.qp, IBV_QPS_RTS);
}

void cm_qp_error(struct cm_id *id)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	if (id->id.qp)
		ibv_modify_qp(id->id.qp, &attr, IBV_QP_STATE);
}

/* ---- CQs ---- */

static void destroy_cq(struct ibv_cq **cq, struct ibv_comp_channel **channel)
{
	if (*cq)
		ibv_destroy_cq(*cq);
	if (*channel)
		ibv_destroy_comp_channel(*channel);
	*cq = NULL;
	*channel = NULL;
}

static void destroy_cqs(struct rdma_cm_id *id)
{
	destroy_cq(&id->recv_cq, &id->recv_cq_channel);
	destroy_cq(&id->send_cq, &id->send_cq_channel);
}

static int create_cq(struct rdma_cm_id *id, uint32_t size, struct ibv_cq **cq,
		     struct ibv_comp_channel **channel)
{
	*channel = ibv_create_comp_channel(id->verbs);
	if (!*channel)
		return -1;
	/* The context is the id: rdma_get_send_comp() and its like rely on it. */
	*cq = ibv_create_cq(id->verbs, (int)(size ? size : 1), id, *channel, 0);
	return *cq ? 0 : -1;
}

static int create_cqs(struct rdma_cm_id *id, uint32_t send, uint32_t recv)
{
	int err = 0;

	if (send)
		err = create_cq(id, send, &id->send_cq, &id->send_cq_channel);
	if (!err && recv)
		err = create_cq(id, recv, &id->recv_cq, &id->recv_cq_channel);
	if (err) {
		int saved = errno;

		destroy_cqs(id);
		errno = saved;
	}
	return err;
}

/* ---- SRQs ---- */

static int check_pd(const struct rdma_cm_id *id, const struct ibv_pd *pd)
{
	if (pd && pd->context == id->verbs)
		return 0;
	return vb_fail_minus1(VB_RULE_CM_QP_OTHER_DEVICE, "id %p pd %p", (const void *)id,
			      (const void *)pd);
}

int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	bool xrc;

	if (!cm_usable(id, "rdma_create_srq_ex"))
		return -1;
	if (!attr)
		return no_attr("rdma_create_srq_ex");
	xrc = (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) && attr->srq_type != IBV_SRQT_BASIC;
	if (!id->verbs)
		return vb_fail_minus1(VB_RULE_CM_STATE, "id %p: bound to no device", (void *)id);
	if (id->srq)
		return vb_fail_minus1(VB_RULE_CM_QP_EXISTS, "id %p has an SRQ", (void *)id);
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd) {
		attr->pd = id->pd;
		attr->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
	}
	if (check_pd(id, attr->pd))
		return -1;
	if (!xrc) {
		struct ibv_srq_init_attr plain = {.srq_context = attr->srq_context,
						  .attr = attr->attr};

		id->srq = ibv_create_srq(attr->pd, &plain);
		attr->attr = plain.attr;
	} else {
		id->srq = ibv_create_srq_ex(id->verbs, attr);
	}
	if (!id->srq)
		return -1;
	id->pd = attr->pd;
	return 0;
}

int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_init_attr_ex ex = {
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = IBV_SRQT_BASIC,
		.pd = pd,
	};
	int err;

	if (!attr)
		return no_attr("rdma_create_srq");
	ex.srq_context = attr->srq_context;
	ex.attr = attr->attr;
	err = rdma_create_srq_ex(id, &ex);
	if (!err)
		attr->attr = ex.attr;
	return err;
}

void rdma_destroy_srq(struct rdma_cm_id *id)
{
	if (!id)
		return;
	if (id->srq)
		ibv_destroy_srq(id->srq);
	id->srq = NULL;
}

/* ---- QPs ---- */

/* An RC QP may take receives from now on, a UD QP may send. */
static int first_steps(struct cm_id *id, struct ibv_qp *qp)
{
	if (to_state(id, qp, IBV_QPS_INIT))
		return -1;
	if (id->id.qp_type != IBV_QPT_UD)
		return 0;
	if (to_state(id, qp, IBV_QPS_RTR))
		return -1;
	return to_state(id, qp, IBV_QPS_RTS);
}

static int check_qp(const struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	if (!id->verbs)
		return vb_fail_minus1(VB_RULE_CM_STATE, "id %p: bound to no device",
				      (const void *)id);
	if (id->qp)
		return vb_fail_minus1(VB_RULE_CM_QP_EXISTS, "id %p has qp#%u", (const void *)id,
				      id->qp->qp_num);
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd) {
		attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
		attr->pd = id->pd;
	}
	if (check_pd(id, attr->pd))
		return -1;
	if ((id->send_cq && attr->send_cq && attr->send_cq != id->send_cq) ||
	    (id->recv_cq && attr->recv_cq && attr->recv_cq != id->recv_cq) ||
	    (id->srq && attr->srq && attr->srq != id->srq))
		return vb_fail_minus1(VB_RULE_CM_QP_OTHER_DEVICE,
				      "id %p has a CQ or SRQ, and another is given",
				      (const void *)id);
	return 0;
}

int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	struct cm_id *cid = cm_id_of(id);
	struct ibv_qp *qp;

	if (!cm_usable(id, "rdma_create_qp_ex"))
		return -1;
	if (!attr)
		return no_attr("rdma_create_qp_ex");
	if (check_qp(id, attr))
		return -1;
	/* Made in INIT with what the id knows of the connection by now. */
	if (!cid->responder_resources && !cid->passive)
		cid->responder_resources = 1;
	if (create_cqs(id, !attr->send_cq && !id->send_cq ? attr->cap.max_send_wr + 1 : 0,
		       !attr->recv_cq && !id->recv_cq ? attr->cap.max_recv_wr + 1 : 0))
		return -1;
	if (!attr->send_cq)
		attr->send_cq = id->send_cq;
	if (!attr->recv_cq)
		attr->recv_cq = id->recv_cq;
	if (id->srq && !attr->srq)
		attr->srq = id->srq;
	qp = ibv_create_qp_ex(id->verbs, attr);
	if (!qp || first_steps(cid, qp)) {
		int saved = errno;

		if (qp)
			ibv_destroy_qp(qp);
		destroy_cqs(id);
		errno = saved;
		return -1;
	}
	id->qp = qp;
	id->pd = attr->pd;
	return 0;
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex;
	int err;

	if (!cm_usable(id, "rdma_create_qp"))
		return -1;
	if (!attr)
		return no_attr("rdma_create_qp");
	memset(&ex, 0, sizeof(ex));
	memcpy(&ex, attr, sizeof(*attr));
	ex.comp_mask = IBV_QP_INIT_ATTR_PD;
	ex.pd = pd ? pd : id->pd;
	err = rdma_create_qp_ex(id, &ex);
	if (!err)
		memcpy(attr, &ex, sizeof(*attr));
	return err;
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
	if (!id)
		return;
	if (id->qp)
		ibv_destroy_qp(id->qp);
	id->qp = NULL;
	destroy_cqs(id);
}

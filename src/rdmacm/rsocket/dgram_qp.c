/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>

#include "rdmacm/rsocket/dgram.h"
#include "rdmacm/rsocket/service.h"

#define RSLOT_BYTES (VB_DGRAM_GRH + VB_RS_SEND_LOWEST)
#define WC_BATCH    16

static uint32_t at_most(uint32_t value, uint32_t most)
{
	return value < most ? value : most;
}

static uint32_t slots_for(uint32_t buffer, uint32_t queue)
{
	uint32_t slots = at_most(buffer / VB_RS_SEND_LOWEST, queue);

	return slots < VB_RS_MIN_QUEUE ? VB_RS_MIN_QUEUE : slots;
}

static uint8_t *map_pages(size_t bytes, size_t *mapped)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return NULL;
	*mapped = bytes;
	return at;
}

void vb_dgram_qp_destroy(struct vb_dgram *dg, struct vb_dgram_qp *qp)
{
	if (qp->id && qp->id->qp)
		vb_rs_service_destroy_qp(&dg->rs, qp->id);
	if (qp->send_cq) {
		ibv_ack_cq_events(qp->send_cq, qp->send_events);
		ibv_destroy_cq(qp->send_cq);
	}
	if (qp->recv_cq) {
		ibv_ack_cq_events(qp->recv_cq, qp->recv_events);
		ibv_destroy_cq(qp->recv_cq);
	}
	if (qp->channel) {
		epoll_ctl(dg->rs.event_fd, EPOLL_CTL_DEL, qp->channel->fd, NULL);
		ibv_destroy_comp_channel(qp->channel);
	}
	if (qp->smr)
		ibv_dereg_mr(qp->smr);
	if (qp->rmr)
		ibv_dereg_mr(qp->rmr);
	if (qp->sbuf)
		munmap(qp->sbuf, qp->sbuf_mapped);
	if (qp->rbuf)
		munmap(qp->rbuf, qp->rbuf_mapped);
	if (qp->id)
		rdma_destroy_id(qp->id);
	free(qp);
}

static int post_receive(struct vb_dgram_qp *qp, uint32_t slot)
{
	struct ibv_sge sge = {.addr = (uintptr_t)qp->rbuf + (size_t)slot * RSLOT_BYTES,
			      .length = RSLOT_BYTES,
			      .lkey = qp->rmr->lkey};
	struct ibv_recv_wr *bad, wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1};

	return ibv_post_recv(qp->id->qp, &wr, &bad);
}

static int create_queues(struct vb_dgram *dg, struct vb_dgram_qp *qp)
{
	struct epoll_event event = {.events = EPOLLIN};
	struct ibv_qp_init_attr attr;

	qp->channel = ibv_create_comp_channel(qp->id->verbs);
	if (!qp->channel || fcntl(qp->channel->fd, F_SETFL, O_NONBLOCK) ||
	    epoll_ctl(dg->rs.event_fd, EPOLL_CTL_ADD, qp->channel->fd, &event))
		return -1;
	qp->send_cq = ibv_create_cq(qp->id->verbs, (int)qp->slots, qp, qp->channel, 0);
	if (qp->send_cq)
		qp->recv_cq = ibv_create_cq(qp->id->verbs, (int)qp->rslots, qp, qp->channel, 0);
	if (!qp->recv_cq)
		return -1;
	attr = (struct ibv_qp_init_attr){
		.qp_context = qp,
		.send_cq = qp->send_cq,
		.recv_cq = qp->recv_cq,
		.qp_type = IBV_QPT_UD,
		.sq_sig_all = 1,
		.cap = {.max_send_wr = qp->slots,
			.max_recv_wr = qp->rslots,
			.max_send_sge = 1,
			.max_recv_sge = 1},
	};
	return rdma_create_qp(qp->id, NULL, &attr);
}

static int create_buffers(struct vb_dgram_qp *qp)
{
	size_t sends = (size_t)qp->slots * VB_RS_SEND_LOWEST;
	size_t receives = (size_t)qp->rslots * RSLOT_BYTES;

	qp->sbuf = map_pages(sends, &qp->sbuf_mapped);
	qp->rbuf = map_pages(receives, &qp->rbuf_mapped);
	if (!qp->sbuf || !qp->rbuf)
		return -1;
	qp->smr = ibv_reg_mr(qp->id->pd, qp->sbuf, sends, IBV_ACCESS_LOCAL_WRITE);
	qp->rmr = ibv_reg_mr(qp->id->pd, qp->rbuf, receives, IBV_ACCESS_LOCAL_WRITE);
	if (!qp->smr || !qp->rmr)
		return -1;
	for (uint32_t slot = 0; slot < qp->rslots; slot++)
		if (post_receive(qp, slot))
			return -1;
	return 0;
}

static int create(struct vb_dgram *dg, struct vb_dgram_qp *qp)
{
	struct ibv_port_attr port;
	union vb_rs_addr local = qp->local;

	if (rdma_create_id(vb_rs_service_channel(&dg->rs), &qp->id, &dg->rs, RDMA_PS_UDP))
		return -1;
	/* A port of its own: the UDP socket's may be another id's already. */
	local.sin.sin_port = 0;
	if (rdma_bind_addr(qp->id, &local.sa))
		return -1;
	if (!qp->id->verbs) {
		errno = ENODEV;
		return -1;
	}
	qp->slots = slots_for(dg->rs.conf.sbuf_bytes, dg->rs.conf.sq_size);
	qp->rslots = slots_for(dg->rs.conf.rbuf_bytes, dg->rs.conf.rq_size);
	qp->free = qp->slots;
	if (ibv_query_port(qp->id->verbs, qp->id->port_num ? qp->id->port_num : 1, &port))
		return -1;
	qp->most = at_most(128u << port.active_mtu, VB_RS_SEND_LOWEST);
	return create_queues(dg, qp) || create_buffers(qp) ? -1 : 0;
}

struct vb_dgram_qp *vb_dgram_qp_get(struct vb_dgram *dg, const union vb_rs_addr *local)
{
	struct vb_dgram_qp *qp;

	for (qp = dg->qps; qp; qp = qp->next)
		if (vb_dgram_same_addr(&qp->local, local))
			return qp;
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return NULL;
	qp->local = *local;
	if (create(dg, qp)) {
		vb_dgram_qp_destroy(dg, qp);
		return NULL;
	}
	qp->next = dg->qps;
	dg->qps = qp;
	/* Who sleeps now did not arm this one. */
	vb_dgram_arm(dg);
	vb_rs_links_wake(&dg->rs.waiting);
	return qp;
}

static bool has_room(const struct vb_dgram *dg)
{
	return dg->n_queued < slots_for(dg->rs.conf.rbuf_bytes, dg->rs.conf.rq_size);
}

static bool is_from_peer(const struct vb_dgram *dg, const union vb_rs_addr *from)
{
	if (!dg->connected)
		return true;
	if (from->sa.sa_family != dg->to.sa.sa_family)
		return false;
	if (from->sa.sa_family == AF_INET)
		return from->sin.sin_port == dg->to.sin.sin_port &&
		       from->sin.sin_addr.s_addr == dg->to.sin.sin_addr.s_addr;
	return from->sin6.sin6_port == dg->to.sin6.sin6_port &&
	       !memcmp(&from->sin6.sin6_addr, &dg->to.sin6.sin6_addr, 16);
}

void vb_dgram_queue(struct vb_dgram *dg, const union vb_rs_addr *from, const void *data,
		    size_t bytes)
{
	struct vb_dgram_msg *msg;

	if (!has_room(dg) || !is_from_peer(dg, from))
		return;
	msg = malloc(sizeof(*msg) + bytes);
	if (!msg)
		return;
	msg->next = NULL;
	msg->from = *from;
	msg->bytes = (uint32_t)bytes;
	memcpy(msg->data, data, bytes);
	if (dg->last)
		dg->last->next = msg;
	else
		dg->first = msg;
	dg->last = msg;
	dg->n_queued++;
	dg->rs.in_moves++;
}

static void take_receive(struct vb_dgram *dg, struct vb_dgram_qp *qp, const struct ibv_wc *wc)
{
	uint8_t *at = qp->rbuf + wc->wr_id * RSLOT_BYTES + VB_DGRAM_GRH;
	union vb_rs_addr from;
	struct vb_ds_hdr hdr;
	size_t bytes, header;

	if (wc->status != IBV_WC_SUCCESS)
		return;
	bytes = wc->byte_len > VB_DGRAM_GRH ? wc->byte_len - VB_DGRAM_GRH : 0;
	header = vb_ds_hdr_unpack(at, bytes, &hdr);
	if (header && hdr.v6 == (dg->rs.domain == AF_INET6)) {
		memset(&from, 0, sizeof(from));
		from.sa.sa_family = (sa_family_t)dg->rs.domain;
		from.sin.sin_port = hdr.port_be;
		if (hdr.v6) {
			from.sin6.sin6_flowinfo = hdr.flowinfo_be;
			memcpy(&from.sin6.sin6_addr, hdr.addr, 16);
		} else {
			memcpy(&from.sin.sin_addr, hdr.addr, 4);
		}
		vb_dgram_queue(dg, &from, at + header, bytes - header);
	}
	post_receive(qp, (uint32_t)wc->wr_id);
}

void vb_dgram_progress(struct vb_dgram *dg)
{
	struct ibv_wc wc[WC_BATCH];
	int n;

	for (struct vb_dgram_qp *qp = dg->qps; qp; qp = qp->next) {
		while ((n = ibv_poll_cq(qp->send_cq, WC_BATCH, wc)) > 0)
			qp->free += (uint32_t)n;
		while (has_room(dg) && ibv_poll_cq(qp->recv_cq, 1, wc) > 0)
			take_receive(dg, qp, wc);
	}
	vb_dgram_changed(dg);
}

void vb_dgram_arm(struct vb_dgram *dg)
{
	for (struct vb_dgram_qp *qp = dg->qps; qp; qp = qp->next) {
		if (!qp->send_armed)
			qp->send_armed = !ibv_req_notify_cq(qp->send_cq, 0);
		/* With a full queue it would tell again and again of what is left there. */
		if (!qp->recv_armed && has_room(dg))
			qp->recv_armed = !ibv_req_notify_cq(qp->recv_cq, 0);
	}
}

void vb_dgram_drain(struct vb_dgram *dg)
{
	struct ibv_cq *cq;
	void *context;

	for (struct vb_dgram_qp *qp = dg->qps; qp; qp = qp->next) {
		while (!ibv_get_cq_event(qp->channel, &cq, &context)) {
			if (cq == qp->send_cq) {
				qp->send_events++;
				qp->send_armed = false;
			} else {
				qp->recv_events++;
				qp->recv_armed = false;
			}
		}
	}
}

int vb_dgram_post(struct vb_dgram_peer *peer, struct vb_rs_cursor *from, size_t bytes)
{
	struct vb_dgram_qp *qp = peer->qp;
	uint8_t *slot = qp->sbuf + (size_t)qp->next_slot * VB_RS_SEND_LOWEST;
	struct ibv_sge sge = {.addr = (uintptr_t)slot, .lkey = qp->smr->lkey};
	struct ibv_send_wr *bad, wr = {
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_SEND,
					 .wr.ud = {.ah = peer->ah,
						   .remote_qpn = peer->qpn,
						   .remote_qkey = RDMA_UDP_QKEY},
				 };
	struct vb_ds_hdr hdr = {.v6 = qp->local.sa.sa_family == AF_INET6,
				.port_be = qp->local.sin.sin_port};
	size_t header;
	int err;

	if (hdr.v6) {
		hdr.flowinfo_be = qp->local.sin6.sin6_flowinfo;
		memcpy(hdr.addr, &qp->local.sin6.sin6_addr, 16);
	} else {
		memcpy(hdr.addr, &qp->local.sin.sin_addr, 4);
	}
	header = vb_ds_hdr_pack(&hdr, slot);
	vb_rs_gather(from, slot + header, bytes);
	sge.length = (uint32_t)(header + bytes);
	err = ibv_post_send(qp->id->qp, &wr, &bad);
	if (err) {
		errno = err;
		return -1;
	}
	qp->free--;
	qp->next_slot = (qp->next_slot + 1) % qp->slots;
	return 0;
}

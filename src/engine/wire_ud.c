/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams of UD QPs as packets. */
#include <errno.h>
#include <string.h>

#include "carrier/target.h"
#include "engine/datagram.h"
#include "engine/mcast.h"
#include "engine/stats.h"
#include "engine/wire.h"
#include "engine/wire_pace.h"
#include "host/access.h"
#include "host/discover.h"
#include "host/memory.h"
#include "host/words.h"
#include "object/device.h"
#include "object/gid.h"
#include "object/mcast.h"
#include "transport/unacked_msg.h"

int vb_wire_datagram(struct vb_engine *engine, const struct vb_qp *qp, const struct vb_swqe *wqe,
		     const struct vb_local_request *request)
{
	const struct vb_payload *payload = request->msg->payload;
	struct vb_udp_burst *burst;
	uint8_t *to;
	int err = -ENOTCONN;
	struct vb_udp_path path = {
		.ifindex = vb_context_of(qp->ibv.context)->device->ifindex,
		.traffic_class = wqe->path.traffic_class,
		.hop_limit = wqe->path.hop_limit,
		.inside = wqe->path.reach != VB_REACH_WIRE && !wqe->path.outside,
		.hand = vb_mcast_how(&wqe->path),
		.flow = qp->ibv.qp_num ^ wqe->remote_qpn << 8,
		.flow_label = wqe->path.flow_label,
	};
	struct vb_packet pkt = {
		.solicited = request->msg->solicited,
		.pkey = VB_PKEY_DEFAULT,
		.dest_qpn = request->qpn,
		.psn = request->msg->psn.v,
		.qkey = request->qkey,
		.src_qpn = qp->ibv.qp_num,
		.imm = request->msg->imm,
		.payload_len = (uint32_t)wqe->length,
	};

	if (!vb_op_find(VB_SVC_UD, VB_OP_SEND, VB_POS_ONLY,
			request->msg->with_imm ? VB_EXTRA_IMM : VB_EXTRA_NONE, &pkt.opcode))
		return -EMSGSIZE;
	memcpy(path.own_gid, wqe->path.own_gid, sizeof(path.own_gid));
	memcpy(path.dest_gid, wqe->path.dest_gid, sizeof(path.dest_gid));
	burst = vb_wire_begin(engine, &path);
	if (!burst)
		return err;
	to = vb_wire_room(engine, burst, &pkt);
	err = -EMSGSIZE;
	/* The first span is the header. */
	if (to)
		err = vb_memory_gather(to, payload->iov + 1, payload->n - 1, wqe->length,
				       payload->careful);
	if (!err) {
		vb_pace_leaves(vb_wire_pace(engine), wqe->length + VB_WIRE_HEADERS);
		vb_wire_add(engine, burst, &pkt);
	}
	vb_wire_end(engine, burst);
	return err;
}

static void run(struct vb_engine *engine, struct vb_target_call *c, struct vb_qp *qp,
		const struct vb_packet *pkt, const struct vb_msg *msg)
{
	struct vb_msg_result res;
	struct vb_resp_qp as;

	if (!vb_target_read(c, qp->ibv.qp_num))
		return;
	vb_target_describe(c, qp->ibv.qp_num, &as);
	vb_ud_resp_message(&as, c->row.qkey, &vb_target_env, c, msg, pkt->qkey, &res);
	vb_stat_request(engine->adapter, vb_op_row(pkt->opcode), res.verdict);
	if (!res.verdict)
		vb_stat_add(engine->adapter, VB_STAT_RECVS, 1);
	/* A receive that was taken for it and not used. */
	if (c->taken && c->row.rq_shared)
		vb_arrival_void(&c->arrival->word, c->taken);
	if (res.target_err)
		vb_target_fail(c, res.verdict);
}

/* Sent to the port, to a group (whose members have been looked up), or within this host: what comes
 * to another address of the machine is not this device's. */
static bool to_port(const struct vb_qp *qp, const struct vb_packet *pkt, const uint8_t *dest_gid)
{
	static const uint8_t own6[16] = {[15] = 1};

	if (pkt->dest_qpn == VB_MCAST_QPN)
		return vb_gid_is_multicast(dest_gid);
	return vb_device_gid_known(vb_context_of(qp->ibv.context)->device, dest_gid) ||
	       (vb_gid_is_v4(dest_gid) && dest_gid[12] == 127) ||
	       !memcmp(dest_gid, own6, sizeof(own6));
}

void vb_wire_datagram_packet(struct vb_engine *engine, struct vb_qp *qp,
			     const struct vb_packet *pkt, const struct vb_udp_datagram *d)
{
	const struct vb_op_row *op = vb_op_row(pkt->opcode);
	uint8_t grh[VB_GRH_BYTES];
	const struct iovec iov[] = {{grh, sizeof(grh)},
				    {(void *)(uintptr_t)pkt->payload, pkt->payload_len}};
	const struct vb_payload payload = {.iov = iov, .n = pkt->payload_len ? 2 : 1};
	const struct vb_msg msg = {
		.kind = VB_MSG_SEND,
		.with_imm = op && op->extra == VB_EXTRA_IMM,
		.ipv4 = vb_gid_is_v4(d->dest_gid),
		.solicited = pkt->solicited,
		.psn = vb_psn(pkt->psn),
		.npkts = 1,
		.src = {.has_qpn = true, .qpn = pkt->src_qpn},
		.length = pkt->payload_len + sizeof(grh),
		.imm = pkt->imm,
		.payload = &payload,
	};
	struct vb_path path = {.flow_label = d->flow_label,
			       .traffic_class = d->traffic_class,
			       .hop_limit = d->hop_limit};
	struct vb_target_call call = {.peer = engine->adapter->self, .payload = &payload};
	int ticket;

	if (!op || op->service != VB_SVC_UD || op->kind != VB_OP_SEND ||
	    pkt->payload_len > 128u << qp->attr.path_mtu || !to_port(qp, pkt, d->dest_gid) ||
	    vb_wire_not_ready(engine, qp->ibv.qp_num))
		return; /* dropped, as a port does */
	memcpy(path.own_gid, d->src_gid, sizeof(path.own_gid));
	memcpy(path.dest_gid, d->dest_gid, sizeof(path.dest_gid));
	vb_datagram_grh(&path, pkt->payload_len, grh);
	ticket = vb_access_begin(engine->adapter, engine->adapter->self, qp->ibv.qp_num, 0);
	if (ticket < 0)
		return;
	run(engine, &call, qp, pkt, &msg);
	vb_access_end(engine->adapter, ticket);
}

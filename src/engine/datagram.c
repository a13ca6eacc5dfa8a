/* SPDX-License-Identifier: BSD-2-Clause */
/* The send side of UD: every request names its destination. */
#include "engine/datagram.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/ip.h>
#include <string.h>

#include "base/rules.h"
#include "engine/mcast.h"
#include "engine/wire.h"
#include "engine/wire_pace.h"
#include "host/liveness.h"
#include "object/gid.h"

#define QKEY_OWN_BIT 0x80000000u
#define BTH_DETH     20u /* BTH and DETH in front of the data */
#define UDP_ICRC     12u
#define UDP_PROTOCOL 17

static uint16_t ip_checksum(const struct iphdr *ip)
{
	uint16_t words[sizeof(*ip) / 2];
	uint32_t sum = 0;

	memcpy(words, ip, sizeof(words));
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t) ~(sum + (sum >> 16));
}

void vb_datagram_grh(const struct vb_path *path, uint64_t length, uint8_t *grh)
{
	uint16_t payload = (uint16_t)(BTH_DETH + ((length + 3) & ~3ull) + UDP_ICRC);
	struct iphdr ip = {.version = 4,
			   .ihl = 5,
			   .tos = path->traffic_class,
			   .tot_len = htons((uint16_t)(payload + sizeof(ip))),
			   .frag_off = htons(IP_DF),
			   .ttl = path->hop_limit,
			   .protocol = UDP_PROTOCOL};

	memset(grh, 0, VB_GRH_BYTES);
	if (vb_gid_is_v4(path->dest_gid)) {
		memcpy(&ip.saddr, path->own_gid + 12, 4);
		memcpy(&ip.daddr, path->dest_gid + 12, 4);
		ip.check = ip_checksum(&ip);
		memcpy(grh + VB_GRH_BYTES - sizeof(ip), &ip, sizeof(ip));
		return;
	}
	grh[0] = (uint8_t)(0x60 | path->traffic_class >> 4);
	grh[1] = (uint8_t)(path->traffic_class << 4 | (path->flow_label >> 16 & 0xf));
	grh[2] = (uint8_t)(path->flow_label >> 8);
	grh[3] = (uint8_t)path->flow_label;
	grh[4] = (uint8_t)(payload >> 8);
	grh[5] = (uint8_t)payload;
	grh[6] = UDP_PROTOCOL;
	grh[7] = path->hop_limit;
	memcpy(grh + 8, path->own_gid, 16);
	memcpy(grh + 24, path->dest_gid, 16);
}

static enum vb_wc_status check(const struct vb_qp *qp, const struct vb_swqe *wqe)
{
	uint32_t mtu = 128u << qp->attr.path_mtu;

	if (wqe->opcode != IBV_WR_SEND && wqe->opcode != IBV_WR_SEND_WITH_IMM) {
		vb_explain(VB_RULE_WC_OPCODE, "qp#0x%x UD wr_id=0x%llx: opcode %d", qp->ibv.qp_num,
			   (unsigned long long)wqe->wr_id, (int)wqe->opcode);
		return VB_WC_LOC_QP_OP_ERR;
	}
	if (wqe->bad_ah) {
		vb_explain(VB_RULE_WC_AH, "qp#0x%x wr_id=0x%llx", qp->ibv.qp_num,
			   (unsigned long long)wqe->wr_id);
		return VB_WC_LOC_QP_OP_ERR;
	}
	if (wqe->length > mtu) {
		vb_explain(VB_RULE_WC_UD_LENGTH, "qp#0x%x wr_id=0x%llx: %llu bytes, MTU %u",
			   qp->ibv.qp_num, (unsigned long long)wqe->wr_id,
			   (unsigned long long)wqe->length, mtu);
		return VB_WC_LOC_LEN_ERR;
	}
	return VB_WC_SUCCESS;
}

/* What becomes of it nobody here hears. */
static void by_packet(struct vb_engine *engine, const struct vb_qp *qp, const struct vb_swqe *wqe,
		      const struct vb_local_request *request, struct vb_msg_result *res)
{
	int err;

	res->again_ns = vb_pace_again_ns(vb_wire_pace(engine));
	if (!res->again_ns && !wqe->path.outside)
		res->again_ns = vb_wire_again_inside_ns(engine, wqe->remote_qpn);
	err = res->again_ns ? 0 : vb_wire_datagram(engine, qp, wqe, request);
	if (res->again_ns)
		res->verdict = VB_V_DROP_BUSY;
	else if (!err)
		res->verdict = VB_V_ACCEPTED;
	else if (err == -EFAULT)
		res->verdict = VB_V_LOCAL_PROT;
	res->as_packet = true;
}

static void deliver(struct vb_engine *engine, struct vb_qp *qp, const struct vb_swqe *wqe,
		    const struct vb_msg *msg, struct vb_msg_result *res)
{
	struct vb_local_request request = {
		.service = VB_SERVICE_UD,
		.qpn = wqe->remote_qpn,
		.qkey = wqe->remote_qkey & QKEY_OWN_BIT ? qp->attr.qkey : wqe->remote_qkey,
		.msg = msg,
		.arrived = vb_requester_arrived,
		.arrived_arg = qp,
	};
	struct vb_peer *peer;

	memset(res, 0, sizeof(*res));
	res->verdict = VB_V_DROP_NO_QP;
	if (vb_reach_by_packets(wqe->path.reach)) {
		by_packet(engine, qp, wqe, &request, res);
		return;
	}
	if (wqe->path.reach != VB_REACH_LOCAL)
		return;
	if (wqe->path.multicast) {
		vb_mcast_send(engine, qp, wqe, &request, res);
		return;
	}
	if (vb_peer_get(engine->adapter, wqe->remote_qpn >> VB_BLOCK_BITS, &peer)) {
		/* Another user's, perhaps. */
		by_packet(engine, qp, wqe, &request, res);
		return;
	}
	vb_local_send(peer, &request, res);
	vb_peer_put(peer);
}

enum vb_wc_status vb_datagram_send(struct vb_engine *engine, struct vb_qp *qp, struct vb_swqe *wqe,
				   struct vb_msg *msg, struct vb_msg_result *res)
{
	enum vb_wc_status status = check(qp, wqe);
	struct iovec iov[VB_MAX_SGE + 1];
	struct vb_payload payload;
	struct vb_msg sent; /* *msg, with the payload, which ends with this call */
	uint8_t grh[VB_GRH_BYTES];

	if (!status)
		status = vb_local_side(engine, qp, wqe, iov + 1, &payload);
	if (status)
		return status;
	vb_datagram_grh(&wqe->path, wqe->length, grh);
	iov[0] = (struct iovec){.iov_base = grh, .iov_len = VB_GRH_BYTES};
	payload.iov = iov;
	payload.n++;
	*msg = (struct vb_msg){
		.kind = VB_MSG_SEND,
		.with_imm = wqe->opcode == IBV_WR_SEND_WITH_IMM,
		.ipv4 = vb_gid_is_v4(wqe->path.dest_gid),
		.solicited = wqe->flags & IBV_SEND_SOLICITED,
		.psn = qp->sq.psn,
		.npkts = 1,
		.src = {.has_qpn = true, .qpn = qp->ibv.qp_num},
		.length = wqe->length + VB_GRH_BYTES,
		.imm = wqe->imm,
	};
	sent = *msg;
	sent.payload = &payload;
	deliver(engine, qp, wqe, &sent, res);
	return VB_WC_SUCCESS;
}

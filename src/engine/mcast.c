/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/mcast.h"

#include <errno.h>
#include <string.h>

#include "base/rules.h"
#include "engine/requester.h"
#include "engine/stats.h"
#include "engine/wire.h"
#include "engine/wire_pace.h"
#include "host/discover.h"
#include "host/members.h"
#include "object/device.h"
#include "object/gid.h"
#include "object/mcast.h"

/* ---- Membership ---- */

static void join(struct vb_engine *engine, const uint8_t *gid)
{
	const struct vb_device *dev = vb_device_find(engine->adapter->device);
	struct vb_udp *udp = vb_wire_udp(engine);
	int err = udp && dev ? vb_udp_join(udp, gid, dev->ifindex) : -ENOTCONN;

	if (err)
		vb_explain(VB_RULE_MCAST_JOIN, "%s: %s", dev ? dev->ifname : "no interface",
			   err == -ENOTCONN ? "UDP port 4791 is not ours" : strerror(-err));
}

static void leave(struct vb_engine *engine, const uint8_t *gid)
{
	const struct vb_device *dev = vb_device_find(engine->adapter->device);
	struct vb_udp *udp = vb_wire_udp(engine);

	if (udp && dev)
		vb_udp_leave(udp, gid, dev->ifindex);
}

int vb_mcast_attach(struct vb_engine *engine, struct vb_qp *qp, const uint8_t gid[16])
{
	struct vb_members *m = &engine->members;
	int err = vb_members_enter(m);

	if (err)
		return err;
	vb_wire_start(engine);
	pthread_mutex_lock(&m->lock);
	err = vb_members_add(m, gid, qp->ibv.qp_num);
	if (err >= 0)
		qp->groups++;
	if (err == 1)
		join(engine, gid);
	pthread_mutex_unlock(&m->lock);
	return err == -EALREADY || err > 0 ? 0 : err;
}

int vb_mcast_detach(struct vb_engine *engine, struct vb_qp *qp, const uint8_t gid[16])
{
	struct vb_members *m = &engine->members;
	int err;

	pthread_mutex_lock(&m->lock);
	err = vb_members_remove(m, gid, qp->ibv.qp_num);
	if (err >= 0)
		qp->groups--;
	if (err == 1)
		leave(engine, gid);
	pthread_mutex_unlock(&m->lock);
	return err > 0 ? 0 : err;
}

uint32_t vb_mcast_attached(struct vb_engine *engine, const struct vb_qp *qp)
{
	uint32_t n;

	pthread_mutex_lock(&engine->members.lock);
	n = qp->groups;
	pthread_mutex_unlock(&engine->members.lock);
	return n;
}

void vb_mcast_rejoin(struct vb_engine *engine)
{
	struct vb_members *m = &engine->members;
	uint8_t gid[16];

	pthread_mutex_lock(&m->lock);
	for (uint32_t i = 0; i < VB_MCAST_GROUPS; i++)
		if (vb_members_group(m, i, gid))
			join(engine, gid);
	pthread_mutex_unlock(&m->lock);
}

/* ---- Sending ---- */

/* The payload, once for all who get it: the completion comes when it is not needed any more, and
 * before the first of them can answer. */
struct copy {
	struct vb_swqe wqe;  /* without its elements: the program may post into its slot again */
	struct iovec iov[2]; /* network header, data */
	struct vb_payload payload;
	struct vb_msg msg;
	struct vb_local_request request;
	uint8_t bytes[4096];
};

static int take(struct copy *copy, const struct vb_swqe *wqe, const struct vb_local_request *of)
{
	const struct vb_payload *from = of->msg->payload;

	if (wqe->length > sizeof(copy->bytes) ||
	    vb_memory_gather(copy->bytes, from->iov + 1, from->n - 1, wqe->length, from->careful))
		return -EFAULT;
	copy->wqe = *wqe;
	copy->iov[0] = from->iov[0];
	copy->iov[1] = (struct iovec){copy->bytes, wqe->length};
	copy->payload = (struct vb_payload){.iov = copy->iov, .n = wqe->length ? 2 : 1};
	copy->msg = *of->msg;
	copy->msg.payload = &copy->payload;
	copy->request = *of;
	copy->request.msg = &copy->msg;
	return 0;
}

/* To the QPs of one process. Returns how many took it. */
static uint32_t to_process(struct vb_peer *peer, const struct vb_qp *qp, const uint8_t *gid,
			   struct vb_local_request *request)
{
	uint32_t qpns[VB_MCAST_QPS], n = vb_members_of(peer, gid, qpns), took = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct vb_msg_result res;

		if (qp->block_self && qpns[i] == qp->ibv.qp_num)
			continue;
		request->qpn = qpns[i];
		if (vb_local_send(peer, request, &res) == VB_V_ACCEPTED)
			took++;
	}
	return took;
}

/* Whether some were left out, whose memory is closed to us. */
static bool to_members(struct vb_engine *engine, const struct vb_qp *qp, const uint8_t *gid,
		       struct vb_local_request *request)
{
	uint64_t set[VB_BLOCKS / 64];
	uint32_t took = 0;
	bool closed = false;

	vb_members_processes(&engine->members, set);
	for (uint32_t i = 0; i < VB_BLOCKS / 64; i++) {
		for (; set[i]; set[i] &= set[i] - 1) {
			uint32_t block = i * 64 + (uint32_t)__builtin_ctzll(set[i]);
			struct vb_peer *peer;

			if (vb_peer_get(engine->adapter, block, &peer)) {
				closed = true;
				continue;
			}
			took += to_process(peer, qp, gid, request);
			vb_peer_put(peer);
		}
	}
	vb_stat_add(engine->adapter, VB_STAT_RECVS, took);
	return closed;
}

void vb_mcast_send(struct vb_engine *engine, struct vb_qp *qp, const struct vb_swqe *wqe,
		   const struct vb_local_request *request, struct vb_msg_result *res)
{
	struct copy copy;

	res->as_packet = true; /* nobody's answer is waited for */
	if (wqe->remote_qpn != VB_MCAST_QPN || vb_members_enter(&engine->members))
		return;
	res->again_ns = wqe->path.outside ? vb_pace_again_ns(vb_wire_pace(engine)) : 0;
	if (!res->again_ns)
		res->again_ns = vb_wire_again_inside_ns(engine, VB_MCAST_QPN);
	if (res->again_ns) {
		res->verdict = VB_V_DROP_BUSY;
		return;
	}
	if (take(&copy, wqe, request)) {
		res->verdict = VB_V_LOCAL_PROT;
		return;
	}
	res->verdict = VB_V_ACCEPTED;
	request->arrived(request->arrived_arg);
	copy.request.arrived = NULL;
	if (!to_members(engine, qp, copy.wqe.path.dest_gid, &copy.request)) {
		if (!copy.wqe.path.outside)
			return;
		copy.wqe.path.reach = VB_REACH_WIRE;
	}
	copy.request.qpn = VB_MCAST_QPN;
	vb_wire_datagram(engine, qp, &copy.wqe, &copy.request);
}

void vb_mcast_hand(struct vb_engine *engine, enum vb_udp_hand hand, uint64_t set[VB_BLOCKS / 64])
{
	struct vb_peer *peer;

	memset(set, 0, VB_BLOCKS / 8);
	if (vb_members_enter(&engine->members))
		return;
	vb_members_processes(&engine->members, set);
	for (uint32_t i = 0; hand == VB_HAND_CLOSED && i < VB_BLOCKS / 64; i++) {
		for (uint64_t left = set[i]; left; left &= left - 1) {
			uint32_t bit = (uint32_t)__builtin_ctzll(left);

			if (vb_peer_get(engine->adapter, i * 64 + bit, &peer))
				continue;
			vb_peer_put(peer);
			set[i] &= ~(1ull << bit);
		}
	}
}

/* ---- Receiving ---- */

/* A QP that wants none of its own. */
static bool is_own(const struct vb_qp *qp, const struct vb_packet *pkt,
		   const struct vb_udp_datagram *d)
{
	struct vb_device *dev = vb_context_of(qp->ibv.context)->device;

	return qp->block_self && pkt->src_qpn == qp->ibv.qp_num &&
	       vb_device_gid_find(dev, VB_PORT, d->src_gid, VB_GID_ROCE_V2) >= 0;
}

void vb_mcast_packet(struct vb_engine *engine, const struct vb_packet *pkt,
		     const struct vb_udp_datagram *d)
{
	uint32_t qpns[VB_MCAST_QPS], index;
	uint32_t n = vb_members_of(engine->adapter->self, d->dest_gid, qpns);

	for (uint32_t i = 0; i < n; i++) {
		struct vb_qp *qp = NULL;

		if (vb_adapter_index(engine->adapter, qpns[i], &index))
			qp = vb_sparse_get(&engine->qps, index);
		if (!qp || is_own(qp, pkt, d))
			continue;
		vb_requester_hold(qp);
		vb_wire_datagram_packet(engine, qp, pkt, d);
		vb_requester_release(engine, qp);
	}
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* How messages of connection management leave, and find their process. */
#include <string.h>

#include "engine/agent_impl.h"
#include "engine/wire.h"
#include "host/discover.h"
#include "object/device.h"
#include "object/gid.h"

/* Ports of UDP: one flow. */
#define FLOW 1u

#define LOOK_AGAIN_NS 10000000u

static void describe(struct vb_packet *pkt)
{
	*pkt = (struct vb_packet){
		/* As Linux sends them. */
		.ack_req = true,      .pkey = VB_PKEY_DEFAULT, .dest_qpn = VB_CM_QPN,
		.src_qpn = VB_CM_QPN, .qkey = VB_CM_QKEY,      .payload_len = VB_MAD_LEN,
	};
	vb_op_find(VB_SVC_UD, VB_OP_SEND, VB_POS_ONLY, VB_EXTRA_NONE, &pkt->opcode);
}

bool vb_agent_transmit(struct vb_engine *engine, const struct vb_agent_path *path, bool inside,
		       const uint8_t *mad, bool plain)
{
	struct vb_udp_path udp = {.traffic_class = path->traffic_class,
				  .hop_limit = path->hop_limit,
				  .flow = FLOW,
				  .inside = inside,
				  .told = !inside};
	struct vb_udp_burst *burst;
	struct vb_packet pkt;
	uint8_t *to;

	describe(&pkt);
	memcpy(udp.own_gid, path->own_gid, sizeof(udp.own_gid));
	memcpy(udp.dest_gid, path->peer_gid, sizeof(udp.dest_gid));
	udp.ifindex = vb_device_find(engine->adapter->device)->ifindex;
	burst = vb_wire_begin(engine, &udp);
	if (!burst)
		return true;
	to = vb_wire_room(engine, burst, &pkt);
	if (to) {
		memcpy(to, mad, VB_MAD_LEN);
		vb_wire_add(engine, burst, &pkt);
	}
	if (!plain)
		return vb_wire_end(engine, burst);
	vb_wire_end_plain(engine, burst);
	return true;
}

bool vb_agent_service_port(const struct vb_cm_msg *msg, struct vb_cm_ip *ip, struct vb_cmport *at)
{
	memset(at, 0, sizeof(*at));
	if (msg->service_id >> 32 || !(msg->service_id >> 16) ||
	    !vb_cm_ip_parse(msg->private_data, ip))
		return false;
	at->space = (uint16_t)(msg->service_id >> 16);
	at->port = (uint16_t)msg->service_id;
	at->v6 = ip->version == 6;
	memcpy(at->addr, ip->dst, sizeof(at->addr));
	if (!at->v6) {
		memset(at->addr, 0, 10);
		memset(at->addr + 10, 0xff, 2);
	}
	return true;
}

/* ---- Ports of other processes of this host ---- */

#define TICK_BITS 16u

/* A port, and when it took a request, as one word: several threads pass requests on. */
static uint64_t taken_word(uint16_t port)
{
	return (uint64_t)port << 48 | (vb_now_ns() >> TICK_BITS & UINT64_C(0xffffffffffff));
}

static void port_took(struct vb_agent *agent, uint16_t port)
{
	if (agent)
		atomic_store(&agent->taken[port % VB_AGENT_LEFT], taken_word(port));
}

/* Whose socket is not there: its listener has just gone, and comes again perhaps. */
static bool port_took_lately(struct vb_agent *agent, uint16_t port)
{
	uint64_t taken = agent ? atomic_load(&agent->taken[port % VB_AGENT_LEFT]) : 0;

	return taken >> 48 == port && taken_word(port) - taken < VB_AGENT_LEFT_NS >> TICK_BITS;
}

/* The sockets that may stand for a port, the narrowest first. */
static enum vb_wire_handed pass_to_port(struct vb_engine *engine, struct vb_udp_datagram *d,
					const struct vb_cmport *at)
{
	const char *device = engine->adapter->device;
	struct vb_cmport narrowest[4] = {*at, *at, *at, *at};
	enum vb_wire_handed handed = VB_WIRE_REFUSED;
	struct sockaddr_un to;
	socklen_t len;

	for (int i = 1; i < 4; i++) {
		narrowest[i].any = true;
		narrowest[i].v6 = i > 1;
		narrowest[i].only6 = i > 2;
	}
	for (int i = 0; i < 4 && handed == VB_WIRE_REFUSED; i++) {
		if (i && !vb_cmport_conflict(&narrowest[i], at))
			continue;
		len = vb_cmport_address(device, &narrowest[i], &to);
		handed = vb_wire_deliver(engine, d, &to, len);
	}
	if (handed != VB_WIRE_REFUSED)
		return handed;
	/* Chosen by its process, which knows whether it is about to listen. */
	len = vb_cmport_block_address(device, at->space, at->port, &to);
	return vb_wire_deliver(engine, d, &to, len);
}

/* Devices of several names may stand for one interface. The list of all sockets is long: who is
 * asked for what nobody has, again and again, looks through it from time to time. */
static enum vb_wire_handed pass_elsewhere(struct vb_engine *engine, struct vb_udp_datagram *d,
					  const struct vb_cmport *at)
{
	static _Atomic uint64_t looked_ns;
	uint64_t now = vb_now_ns(), last = atomic_load(&looked_ns);
	struct sockaddr_un to;
	socklen_t len;

	if (now - last < LOOK_AGAIN_NS || !atomic_compare_exchange_strong(&looked_ns, &last, now))
		return VB_WIRE_FULL;
	len = vb_cmport_elsewhere(engine->adapter->device, at, &to);
	return len ? vb_wire_deliver(engine, d, &to, len) : VB_WIRE_REFUSED;
}

/* A request for a port that nobody has now is not refused at once where somebody had it just now.
 */
static enum vb_wire_handed pass_request(struct vb_engine *engine, struct vb_udp_datagram *d,
					const struct vb_cmport *at)
{
	struct vb_agent *agent = atomic_load(&engine->agent);
	enum vb_wire_handed handed = pass_to_port(engine, d, at);

	if (handed == VB_WIRE_REFUSED)
		handed = pass_elsewhere(engine, d, at);
	if (handed == VB_WIRE_DELIVERED)
		port_took(agent, at->port);
	if (handed == VB_WIRE_REFUSED && port_took_lately(agent, at->port))
		handed = VB_WIRE_FULL;
	return handed;
}

enum vb_wire_handed vb_agent_pass(struct vb_engine *engine, struct vb_udp_datagram *d,
				  const struct vb_packet *pkt)
{
	struct vb_cm_msg msg;
	struct vb_cm_ip ip;
	struct vb_cmport at;

	/* Nobody has to be told about what is no message. */
	if (!vb_cm_parse(pkt->payload, pkt->payload_len, &msg))
		return VB_WIRE_DELIVERED;
	if (vb_cm_to_service(&msg))
		return vb_agent_service_port(&msg, &ip, &at) ? pass_request(engine, d, &at)
							     : VB_WIRE_REFUSED;
	return vb_wire_deliver_block(engine, d,
				     (msg.attr == VB_CM_SIDR_REP ? msg.local_id : msg.remote_id) >>
					     VB_AGENT_BLOCK_SHIFT);
}

void vb_agent_refuse(struct vb_engine *engine, const struct vb_udp_datagram *d,
		     const struct vb_packet *pkt, bool inside)
{
	struct vb_agent_path back = {.hop_limit = VB_UDP_HOPS, .traffic_class = d->traffic_class};
	struct vb_cm_msg msg;
	struct vb_cm_out out;

	if (!vb_cm_parse(pkt->payload, pkt->payload_len, &msg))
		return;
	vb_cm_answer_unknown(&msg, VB_CM_REJ_INVALID_SERVICE_ID, &out);
	memcpy(back.own_gid, d->dest_gid, sizeof(back.own_gid));
	memcpy(back.peer_gid, d->src_gid, sizeof(back.peer_gid));
	if (out.send)
		vb_agent_transmit(engine, &back, inside, out.bytes, inside);
}

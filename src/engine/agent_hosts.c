/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who dies on another host says nothing any more, and no stream to it ends. So whoever is connected
 * says its last message again from time to time, which a living peer takes for a repetition, and
 * whoever is not ready to answer says that the answer takes longer (MRA). It is refused where that
 * process is not there: by another one of its host (engine/agent_route), or by its kernel where
 * nobody has port 4791 any more. A kernel may refuse for a moment what is there: one user's
 * processes take the port over when another's leave. So it has to do so for a while.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "engine/agent_impl.h"
#include "engine/wire.h"

#define ASK_NS 1000000000u
/* Longer than it takes to take the port over (engine/wire), and not longer than a REQ waits before
 * it is sent again. */
#define SURE_NS 250000000u
/* 4.096 us * 2^24 for an answer: what Linux asks for. */
#define MRA_TIMEOUT 24

/* ---- Asking ---- */

void vb_agent_hosts_fresh(struct vb_agent *agent)
{
	struct vb_udp *udp = vb_wire_udp(agent->engine);
	struct vb_udp_refused refused;

	for (int v6 = 0; v6 < 2 && udp; v6++)
		while (vb_udp_refused(udp, v6, &refused))
			;
}

void vb_agent_hosts_begin(struct vb_agent_id *id)
{
	id->refused = false;
	id->doubted_ns = 0;
	id->asked = true;
}

void vb_agent_hosts_again(struct vb_agent_id *id)
{
	if (!id->refused)
		id->doubted_ns = 0;
	id->refused = false;
	id->asked = true;
}

/* Nothing of ours is repeated, or not soon: the peer has said that the answer takes longer. */
static bool idle(const struct vb_agent_id *id)
{
	switch (id->conn.state) {
	case VB_CM_ESTABLISHED:
	case VB_CM_REQ_RCVD:
	case VB_CM_REP_RCVD:
		return !id->inside;
	case VB_CM_REQ_SENT:
	case VB_CM_REP_SENT:
		return !id->inside && id->conn.due_ns > vb_now_ns() + 2 * ASK_NS;
	default:
		return false;
	}
}

struct asked {
	struct vb_agent_id **ids;
	uint32_t n;
};

static int collect(void *object, void *arg)
{
	struct vb_agent_id *id = object;
	struct asked *asked = arg;

	if (idle(id))
		asked->ids[asked->n++] = id;
	return 0;
}

static int by_process(const void *a, const void *b)
{
	const struct vb_agent_id *one = *(struct vb_agent_id *const *)a;
	const struct vb_agent_id *two = *(struct vb_agent_id *const *)b;
	int order = memcmp(one->path.peer_gid, two->path.peer_gid, sizeof(one->path.peer_gid));
	uint32_t block = one->conn.remote_id >> VB_AGENT_BLOCK_SHIFT;
	uint32_t other = two->conn.remote_id >> VB_AGENT_BLOCK_SHIFT;

	if (!order)
		order = (block > other) - (block < other);
	return order ? order
		     : (two->conn.state == VB_CM_ESTABLISHED) -
			       (one->conn.state == VB_CM_ESTABLISHED);
}

/* The sockets are opened by the first message that leaves. */
static void watch_refusals(struct vb_agent *agent)
{
	struct vb_udp *udp = vb_wire_udp(agent->engine);

	for (int v6 = 0; v6 < 2 && udp; v6++) {
		struct epoll_event event = {.data.fd = udp->told[v6]};

		/* An error is always told. */
		if (agent->told_fd[v6] < 0 && event.data.fd >= 0 &&
		    !epoll_ctl(agent->poll_fd, EPOLL_CTL_ADD, event.data.fd, &event))
			agent->told_fd[v6] = event.data.fd;
	}
}

static void say_again(struct vb_agent_id *id)
{
	struct vb_cm_msg mra = {.service_timeout = MRA_TIMEOUT};
	struct vb_cm_out out = {0};

	if (!vb_cm_send_mra(&id->conn, &mra, &out))
		memcpy(out.bytes, id->conn.last, sizeof(out.bytes));
	vb_agent_transmit(id->agent->engine, &id->path, false, out.bytes, false);
	watch_refusals(id->agent);
}

void vb_agent_hosts_ask(struct vb_agent *agent, uint64_t now_ns)
{
	struct asked asked = {0};

	if (now_ns < agent->ask_ns)
		return;
	agent->ask_ns = now_ns + ASK_NS;
	asked.ids = calloc(vb_idtable_count(&agent->ids) + 1, sizeof(struct vb_agent_id *));
	if (!asked.ids)
		return;
	vb_idtable_each(&agent->ids, collect, &asked);
	if (!asked.n)
		agent->ask_ns = VB_NEVER;
	qsort(asked.ids, asked.n, sizeof(struct vb_agent_id *), by_process);
	/* One for each process that is connected, which is about all of its host. */
	for (uint32_t i = 0; i < asked.n; i++) {
		struct vb_agent_id *id = asked.ids[i];
		bool first = !i || by_process(&asked.ids[i - 1], &asked.ids[i]);
		bool ready = id->conn.state == VB_CM_ESTABLISHED;
		/* Who has only just been asked may answer at once. */
		bool say = ready ? first : id->asked;

		vb_agent_hosts_again(id);
		if (say)
			say_again(id);
	}
	free(asked.ids);
}

struct process {
	const uint8_t *gid;
	uint32_t block;
};

static int ask_one(void *object, void *arg)
{
	struct vb_agent_id *id = object;
	const struct process *of = arg;

	if (id->inside || id->conn.state != VB_CM_ESTABLISHED ||
	    id->conn.remote_id >> VB_AGENT_BLOCK_SHIFT != of->block ||
	    memcmp(id->path.peer_gid, of->gid, sizeof(id->path.peer_gid)) != 0)
		return 0;
	say_again(id);
	return 1;
}

void vb_agent_hosts_ask_next(struct vb_agent *agent, const uint8_t *gid, uint32_t remote_id)
{
	struct process of = {.gid = gid, .block = remote_id >> VB_AGENT_BLOCK_SHIFT};

	vb_idtable_each(&agent->ids, ask_one, &of);
}

bool vb_agent_hosts_watch(struct vb_agent_id *id)
{
	struct vb_agent *agent = id->agent;

	if (!id->inside)
		watch_refusals(agent);
	if (!idle(id) || agent->ask_ns != VB_NEVER)
		return false;
	agent->ask_ns = vb_now_ns() + ASK_NS;
	return true;
}

/* ---- Being refused ---- */

/* Whether it is to hear that nobody is there. */
static bool waits(const struct vb_agent_id *id)
{
	switch (id->conn.state) {
	case VB_CM_REQ_SENT:
	case VB_CM_SIDR_SENT:
	case VB_CM_REP_SENT:
	case VB_CM_DREQ_SENT:
		return !id->inside;
	default:
		return idle(id);
	}
}

struct refused {
	const uint8_t *dest_gid;
	uint64_t now_ns;
};

/* Whichever message it was: nobody of that host took it. */
static bool doubt(struct vb_agent_id *id, void *arg)
{
	const struct refused *r = arg;

	if (!id->asked || !waits(id) ||
	    memcmp(id->path.peer_gid, r->dest_gid, sizeof(id->path.peer_gid)) != 0)
		return false;
	id->refused = true;
	if (!id->doubted_ns)
		id->doubted_ns = r->now_ns;
	return r->now_ns - id->doubted_ns >= SURE_NS;
}

/* Anybody can send an ICMP message about a packet; what is in ours, only who got it knows. */
static bool said_by_us(struct vb_agent *agent, const struct vb_udp_refused *refused)
{
	struct vb_agent_id *id;
	struct vb_packet pkt;
	struct vb_cm_msg msg;

	if (vb_packet_parse(refused->bytes, refused->len, &pkt) != VB_PARSE_OK ||
	    pkt.payload_len != VB_MAD_LEN || !vb_cm_parse(pkt.payload, pkt.payload_len, &msg))
		return false;
	id = vb_idtable_lookup(&agent->ids, msg.local_id & (VB_AGENT_IDS - 1));
	return id && !memcmp(id->conn.last, pkt.payload, VB_MAD_LEN) &&
	       !memcmp(id->path.peer_gid, refused->dest_gid, sizeof(id->path.peer_gid));
}

bool vb_agent_hosts_event(struct vb_agent *agent, int fd)
{
	struct vb_udp *udp = vb_wire_udp(agent->engine);
	struct vb_udp_refused refused;
	struct refused r = {.dest_gid = refused.dest_gid, .now_ns = vb_now_ns()};

	for (int v6 = 0; v6 < 2; v6++) {
		if (fd != agent->told_fd[v6])
			continue;
		while (vb_udp_refused(udp, v6, &refused))
			if (said_by_us(agent, &refused))
				vb_agent_die_each(agent, doubt, &r);
		return true;
	}
	return false;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "carrier/udp.h"
#include "engine/agent_impl.h"
#include "engine/reach.h"
#include "engine/thread.h"
#include "engine/wire.h"
#include "host/discover.h"

/* Messages of our ports taken in one go. */
#define GOES 64
/* Programs tell their port when it is bound, and listen then. A request that comes between is no
 * mistake: left alone it comes again, and an answer may take so long anyway. */
#define ANSWER_NS	(UINT64_C(4096) << VB_CM_RESPONSE_TIMEOUT)
#define LISTENS_SOON_NS 4000000000u

/* ---- The agent ---- */

/* A block of numbers must be ours: comm ids begin with it. */
static int have_block(struct vb_engine *engine)
{
	uint32_t index, number;
	int err;

	if (atomic_load(&engine->adapter->n_blocks))
		return 0;
	err = vb_adapter_new_index(engine->adapter, VB_NUMBER_QP, &index, &number);
	if (!err)
		vb_adapter_free_index(engine->adapter, VB_NUMBER_QP, index);
	return err;
}

static void free_agent(struct vb_agent *agent)
{
	if (agent->poll_fd >= 0)
		close(agent->poll_fd);
	if (agent->timer_fd >= 0)
		close(agent->timer_fd);
	vb_agent_close_ports(agent);
	vb_agent_life_close(agent);
	vb_agent_ids_fini(agent);
	pthread_mutex_destroy(&agent->lock);
	free(agent);
}

static struct vb_agent *new_agent(struct vb_engine *engine, struct vb_context *ctx)
{
	struct epoll_event event = {.events = EPOLLIN};
	struct vb_agent *agent = calloc(1, sizeof(*agent));

	if (!agent)
		return NULL;
	agent->engine = engine;
	agent->device = ctx->device;
	agent->next_ns = agent->ask_ns = agent->look_ns = VB_NEVER;
	agent->told_fd[0] = agent->told_fd[1] = -1;
	pthread_mutex_init(&agent->lock, NULL);
	agent->life_fd = -1;
	agent->poll_fd = epoll_create1(EPOLL_CLOEXEC);
	agent->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	event.data.fd = agent->timer_fd;
	if (vb_agent_ids_init(agent) || agent->poll_fd < 0 || agent->timer_fd < 0 ||
	    epoll_ctl(agent->poll_fd, EPOLL_CTL_ADD, agent->timer_fd, &event) ||
	    !vb_agent_life_open(agent)) {
		free_agent(agent);
		return NULL;
	}
	return agent;
}

/* Of the engine, made when first needed. */
static int get_agent(struct vb_context *ctx, struct vb_agent **out)
{
	struct vb_engine *engine = ctx->engine;
	struct epoll_event event = {.events = EPOLLIN};
	struct vb_agent *agent;
	int err = have_block(engine);

	*out = atomic_load(&engine->agent);
	if (*out)
		return 0;
	if (!err)
		err = vb_wire_start(engine) == -ENOMEM ? -ENOMEM : 0;
	if (err)
		return err;
	pthread_mutex_lock(&engine->thread_lock);
	agent = atomic_load(&engine->agent);
	if (!agent) {
		agent = new_agent(engine, ctx);
		if (agent) {
			event.data.fd = agent->poll_fd;
			if (atomic_load(&engine->thread_runs))
				epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, agent->poll_fd, &event);
			atomic_store(&engine->agent, agent);
		}
	}
	pthread_mutex_unlock(&engine->thread_lock);
	*out = agent;
	return agent ? 0 : -EMFILE;
}

static bool by_host(enum vb_reach reach)
{
	return reach == VB_REACH_LOCAL || reach == VB_REACH_INSIDE;
}

bool vb_agent_inside(struct vb_agent *agent, const uint8_t *gid)
{
	return by_host(vb_reach(agent->device, gid, IBV_GID_TYPE_ROCE_V2));
}

int vb_agent_gid_index(struct ibv_context *context, const uint8_t *gid)
{
	struct vb_context *ctx = vb_context_of(context);

	return vb_device_gid_find(ctx->device, VB_PORT, gid, VB_GID_ROCE_V2);
}

uint64_t vb_agent_news(void)
{
	return vb_devices_news();
}

int vb_agent_fd(struct vb_engine *engine)
{
	struct vb_agent *agent = atomic_load(&engine->agent);

	return agent ? agent->poll_fd : -1;
}

/* ---- Passive sides by the peer's QP number ---- */

static struct vb_agent_id **bucket(struct vb_agent *agent, uint32_t qpn)
{
	return &agent->by_qpn[qpn % VB_AGENT_BUCKETS];
}

/* Of a SIDR request the id takes the place of the number. */
static uint32_t hash_key(const struct vb_cm_msg *msg)
{
	return msg->attr == VB_CM_REQ ? msg->qpn : msg->local_id;
}

static void list_hashed(struct vb_agent_id *id, const struct vb_cm_msg *msg)
{
	struct vb_agent_id **at = bucket(id->agent, hash_key(msg));

	id->hashed = true;
	if (msg->attr != VB_CM_REQ)
		id->conn.peer_qpn = msg->local_id;
	id->next_hashed = *at;
	*at = id;
}

static void unlist_hashed(struct vb_agent_id *id)
{
	if (!id->hashed)
		return;
	for (struct vb_agent_id **at = bucket(id->agent, id->conn.peer_qpn); *at;
	     at = &(*at)->next_hashed)
		if (*at == id) {
			*at = id->next_hashed;
			break;
		}
	id->hashed = false;
}

/* ---- Ids ---- */

static void free_id(struct vb_agent_id *id)
{
	vb_agent_disarm(id);
	unlist_hashed(id);
	vb_agent_unbind(id);
	vb_agent_id_free(id);
}

int vb_agent_create(struct ibv_context *context, vb_agent_handler *handler, void *owner,
		    struct vb_agent_id **out)
{
	struct vb_agent *agent;
	int err = get_agent(vb_context_of(context), &agent);

	if (err)
		return err;
	pthread_mutex_lock(&agent->lock);
	err = vb_agent_id_new(agent, out);
	if (!err) {
		(*out)->handler = handler;
		(*out)->owner = owner;
	}
	pthread_mutex_unlock(&agent->lock);
	return err;
}

void vb_agent_ready(struct ibv_context *context)
{
	struct vb_agent *agent;

	get_agent(vb_context_of(context), &agent);
}

/* Within the host a full queue is known, and costs a moment, not the time of a lost message. */
void vb_agent_send_out(struct vb_agent_id *id, const struct vb_cm_out *out)
{
	bool again = id->unsent;

	if (!out->send)
		return;
	id->unsent =
		!vb_agent_transmit(id->agent->engine, &id->path, id->inside, out->bytes, false);
	if (!id->unsent)
		return;
	if (!again)
		id->unsent_end_ns = vb_now_ns() + ANSWER_NS;
	id->unsent_due_ns = id->conn.due_ns;
	id->conn.due_ns = vb_now_ns() + VB_AGENT_FULL_NS;
}

/* Something newer is said instead, or nothing: the machine's own deadline holds again. */
static void drop_unsent(struct vb_agent_id *id)
{
	if (id->unsent)
		id->conn.due_ns = id->unsent_due_ns;
	id->unsent = false;
}

void vb_agent_tell(struct vb_agent_id *id, int what, const struct vb_cm_msg *msg)
{
	struct vb_agent_event event = {.what = what, .msg = msg};

	if (id->orphan) {
		if (id->conn.state != VB_CM_DREQ_SENT)
			free_id(id);
	} else if (what) {
		id->handler(id->owner, &event);
	}
}

static void unlist_listener(struct vb_agent_id *id)
{
	struct vb_agent *agent = id->agent;

	if (!id->listening)
		return;
	for (struct vb_agent_id **at = &agent->listeners; *at; at = &(*at)->next_listener)
		if (*at == id) {
			*at = id->next_listener;
			break;
		}
	id->listening = false;
	agent->left[agent->n_left++ % VB_AGENT_LEFT] =
		(struct vb_agent_left){.at = id->at, .until_ns = vb_now_ns() + VB_AGENT_LEFT_NS};
}

void vb_agent_destroy(struct vb_agent_id *id)
{
	struct vb_agent *agent = id->agent;
	struct vb_cm_out out = {0};

	pthread_mutex_lock(&agent->lock);
	unlist_listener(id);
	id->orphan = id->conn.state == VB_CM_ESTABLISHED &&
		     vb_cm_disconnect(&id->conn, NULL, vb_now_ns(), &out);
	id->orphan = id->orphan || id->conn.state == VB_CM_DREQ_SENT;
	if (!id->orphan)
		vb_cm_close(&id->conn, &out);
	vb_agent_hosts_begin(id);
	vb_agent_send_out(id, &out);
	vb_agent_arm(id);
	vb_agent_unbind(id);
	if (!id->orphan)
		free_id(id);
	pthread_mutex_unlock(&agent->lock);
}

static bool step(struct vb_agent_id *id, struct vb_cm_msg *msg, struct vb_cm_out *out)
{
	uint64_t now = vb_now_ns();

	switch (msg->attr) {
	case VB_CM_REQ:
		return vb_cm_send_req(&id->conn, msg, now, out);
	case VB_CM_REP:
		return vb_cm_send_rep(&id->conn, msg, now, out);
	case VB_CM_RTU:
		return vb_cm_send_rtu(&id->conn, msg, out);
	case VB_CM_REJ:
		return vb_cm_send_rej(&id->conn, msg, out);
	case VB_CM_MRA:
		return vb_cm_send_mra(&id->conn, msg, out);
	case VB_CM_DREQ:
		return vb_cm_disconnect(&id->conn, msg, now, out);
	case VB_CM_SIDR_REQ:
		return vb_cm_send_sidr_req(&id->conn, msg, now, out);
	case VB_CM_SIDR_REP:
		return vb_cm_send_sidr_rep(&id->conn, msg, out);
	default:
		return false;
	}
}

int vb_agent_send(struct vb_agent_id *id, struct vb_cm_msg *msg, const struct vb_agent_path *path)
{
	struct vb_cm_out out = {0};
	enum vb_reach reach = VB_REACH_NONE;
	uint64_t unsent_due_ns;
	bool unsent;
	int err = 0;

	pthread_mutex_lock(&id->agent->lock);
	unsent = id->unsent;
	unsent_due_ns = id->conn.due_ns;
	drop_unsent(id);
	if (path)
		reach = vb_reach(id->agent->device, path->peer_gid, IBV_GID_TYPE_ROCE_V2);
	if (path && reach == VB_REACH_NONE)
		err = -ENETUNREACH;
	else if (id->listening || !step(id, msg, &out))
		err = -EINVAL;
	if (!err && path) {
		id->path = *path;
		id->inside = by_host(reach);
	}
	if (!err) {
		vb_agent_hosts_begin(id);
	} else if (unsent) {
		/* Nothing has changed: it still waits. */
		id->unsent = true;
		id->conn.due_ns = unsent_due_ns;
	}
	vb_agent_send_out(id, &out);
	vb_agent_arm(id);
	pthread_mutex_unlock(&id->agent->lock);
	return err;
}

int vb_agent_data_came(struct vb_agent_id *id)
{
	struct vb_agent *agent = id->agent;
	int err;

	pthread_mutex_lock(&agent->lock);
	err = vb_cm_data_came(&id->conn) ? 0 : -EINVAL;
	if (!err) {
		/* Who sends data has our answer. */
		id->unsent = false;
		vb_agent_arm(id);
		vb_agent_tell(id, VB_CM_READY, NULL);
	}
	pthread_mutex_unlock(&agent->lock);
	return err;
}

int vb_agent_state(struct vb_agent_id *id)
{
	int state;

	pthread_mutex_lock(&id->agent->lock);
	state = id->conn.state;
	pthread_mutex_unlock(&id->agent->lock);
	return state;
}

/* ---- What comes ---- */

static struct vb_agent_id *find_listener(struct vb_agent *agent, const struct vb_cmport *at)
{
	for (struct vb_agent_id *id = agent->listeners; id; id = id->next_listener)
		if (id->at.space == at->space && id->at.port == at->port &&
		    vb_cmport_conflict(&id->at, at))
			return id;
	return NULL;
}

static void way_back(const struct vb_udp_datagram *d, struct vb_agent_path *path)
{
	memset(path, 0, sizeof(*path));
	memcpy(path->own_gid, d->dest_gid, sizeof(path->own_gid));
	memcpy(path->peer_gid, d->src_gid, sizeof(path->peer_gid));
	path->traffic_class = d->traffic_class;
	path->hop_limit = VB_UDP_HOPS;
}

static void begin(struct vb_agent *agent, struct vb_agent_id *listener, const struct vb_cm_msg *msg,
		  const struct vb_cm_ip *ip, const struct vb_udp_datagram *d)
{
	struct vb_agent_event event = {.what = VB_AGENT_REQUEST, .msg = msg, .ip = ip};
	struct vb_agent_id *id;

	/* Lost, as it were: it comes again. */
	if (vb_agent_id_new(agent, &id))
		return;
	way_back(d, &id->path);
	id->inside = vb_agent_inside(agent, id->path.peer_gid);
	if (msg->attr == VB_CM_REQ)
		vb_cm_take_req(&id->conn, msg);
	else
		vb_cm_take_sidr_req(&id->conn, msg);
	list_hashed(id, msg);
	event.id = id;
	event.path = &id->path;
	id->handler = listener->handler;
	/* The dead ask for nothing. */
	id->owner =
		vb_agent_life_watch_peer(id) ? listener->handler(listener->owner, &event) : NULL;
	/* No room: it comes again, as a SYN does. */
	if (!id->owner) {
		free_id(id);
		return;
	}
	vb_agent_arm(id);
	/* The program goes on meanwhile, and will need it. */
	if (id->inside && msg->attr == VB_CM_REQ)
		vb_reach_prepare(agent->engine, msg->qpn >> VB_BLOCK_BITS);
}

/* One that has begun with this very request; or one whose peer must have begun anew, since it
 * uses the same QP. */
static struct vb_agent_id *find_begun(struct vb_agent *agent, const struct vb_cm_msg *msg,
				      const struct vb_udp_datagram *d, struct vb_agent_id **stale)
{
	struct vb_agent_id *id;

	*stale = NULL;
	for (id = *bucket(agent, hash_key(msg)); id; id = id->next_hashed) {
		if (id->conn.peer_qpn != hash_key(msg) ||
		    memcmp(id->path.peer_gid, d->src_gid, sizeof(d->src_gid)) != 0)
			continue;
		if (id->conn.remote_id == msg->local_id && id->conn.tid == msg->tid)
			return id;
		if (msg->attr == VB_CM_REQ && id->conn.peer_guid == msg->ca_guid &&
		    id->conn.state == VB_CM_ESTABLISHED)
			*stale = id;
	}
	return NULL;
}

static enum vb_cm_what take(struct vb_agent_id *id, const struct vb_cm_msg *msg)
{
	struct vb_cm_out out;
	bool orphan;

	drop_unsent(id);
	vb_cm_receive(&id->conn, msg, vb_now_ns(), &out);
	vb_agent_send_out(id, &out);
	vb_agent_arm(id);
	/* It may be gone after that. */
	orphan = id->orphan;
	vb_agent_tell(id, (int)out.what, msg);
	return orphan ? VB_CM_NOTHING : out.what;
}

void vb_agent_die(struct vb_agent_id *id)
{
	struct vb_cm_msg msg = {.local_id = id->conn.remote_id, .reason = VB_CM_REJ_TIMEOUT};

	switch (id->conn.state) {
	case VB_CM_REQ_SENT:
		/* As a host says that has adapters and nobody who listens. */
		msg.attr = VB_CM_REJ;
		msg.reason = VB_CM_REJ_INVALID_SERVICE_ID;
		break;
	case VB_CM_SIDR_SENT:
		msg.attr = VB_CM_SIDR_REP;
		msg.status = VB_CM_SIDR_UNSUPPORTED;
		break;
	case VB_CM_REQ_RCVD:
	case VB_CM_REP_SENT:
	case VB_CM_REP_RCVD:
		msg.attr = VB_CM_REJ;
		break;
	case VB_CM_ESTABLISHED:
		msg.attr = VB_CM_DREQ;
		break;
	case VB_CM_DREQ_SENT:
		msg.attr = VB_CM_DREP;
		break;
	default:
		return;
	}
	take(id, &msg);
}

static void run(struct vb_agent_id *id, const struct vb_cm_msg *msg)
{
	const bool forgotten = id->conn.state == VB_CM_ESTABLISHED && msg->attr == VB_CM_REJ &&
			       msg->reason == VB_CM_REJ_INVALID_COMM_ID;
	struct vb_agent *agent = id->agent;
	const uint32_t remote_id = id->conn.remote_id;
	uint8_t gid[16];

	memcpy(gid, id->path.peer_gid, sizeof(gid));
	if (take(id, msg) == VB_CM_REPLY && !vb_agent_life_watch_peer(id))
		vb_agent_die(id);
	if (forgotten)
		vb_agent_hosts_ask_next(agent, gid, remote_id);
}

/* What is left of a connection whose peer has forgotten it. */
static void end_stale(struct vb_agent_id *id)
{
	struct vb_cm_msg dreq = {.attr = VB_CM_DREQ, .local_id = id->conn.remote_id};

	run(id, &dreq);
}

static int about_to_listen(void *object, void *arg)
{
	const struct vb_agent_id *id = object;
	const struct vb_cmport *at = arg;

	return id->bound && !id->listening && id->conn.state == VB_CM_IDLE &&
	       id->at.space == at->space && id->at.port == at->port &&
	       vb_now_ns() - id->bound_ns < LISTENS_SOON_NS;
}

static bool request(struct vb_agent *agent, const struct vb_cm_msg *msg,
		    const struct vb_udp_datagram *d)
{
	struct vb_agent_id *id, *stale, *listener;
	struct vb_cmport at;
	struct vb_cm_ip ip;

	if (!vb_agent_service_port(msg, &ip, &at))
		return false;
	id = find_begun(agent, msg, d, &stale);
	if (id) {
		run(id, msg);
		return true;
	}
	listener = find_listener(agent, &at);
	if (!listener)
		return vb_idtable_each(&agent->ids, about_to_listen, &at) != 0;
	if (stale) {
		struct vb_cm_out out;
		struct vb_agent_path path;

		end_stale(stale);
		vb_cm_answer_unknown(msg, VB_CM_REJ_STALE_CONN, &out);
		way_back(d, &path);
		vb_agent_transmit(agent->engine, &path, vb_agent_inside(agent, path.peer_gid),
				  out.bytes, false);
		return true;
	}
	begin(agent, listener, msg, &ip, d);
	return true;
}

/* A request for what was listened on until just now. */
static bool comes_again(struct vb_agent *agent, const struct vb_cm_msg *msg)
{
	struct vb_cmport at;
	struct vb_cm_ip ip;
	bool found = false;

	if (!agent || !vb_cm_to_service(msg) || !vb_agent_service_port(msg, &ip, &at))
		return false;
	pthread_mutex_lock(&agent->lock);
	for (uint32_t i = 0; i < VB_AGENT_LEFT && !found; i++) {
		const struct vb_agent_left *left = &agent->left[i];

		/* perftest's second listener is of another space where its messages are UD. */
		found = left->at.port == at.port && left->until_ns > vb_now_ns() &&
			vb_cmport_conflict(&left->at, &at);
	}
	pthread_mutex_unlock(&agent->lock);
	return found;
}

static bool answer(struct vb_agent *agent, const struct vb_cm_msg *msg,
		   const struct vb_udp_datagram *d)
{
	uint32_t number = msg->attr == VB_CM_SIDR_REP ? msg->local_id : msg->remote_id;
	struct vb_agent_id *id = vb_agent_id_of(agent, number);

	if (!id)
		return false;
	/* Numbers can be guessed; what comes from elsewhere is not the peer's. */
	if (memcmp(id->path.peer_gid, d->src_gid, sizeof(d->src_gid)) != 0)
		return true;
	run(id, msg);
	return true;
}

void vb_agent_packet(struct vb_engine *engine, struct vb_udp_datagram *d,
		     const struct vb_packet *pkt, bool from_network)
{
	struct vb_agent *agent = atomic_load(&engine->agent);
	const struct vb_op_row *op = vb_op_row(pkt->opcode);
	struct vb_cm_msg msg;
	bool mine = false;

	if (op->service != VB_SVC_UD || pkt->qkey != VB_CM_QKEY ||
	    !vb_cm_parse(pkt->payload, pkt->payload_len, &msg) ||
	    (from_network && !vb_reach_by_udp()))
		return;
	if (agent) {
		pthread_mutex_lock(&agent->lock);
		mine = vb_cm_to_service(&msg) ? request(agent, &msg, d) : answer(agent, &msg, d);
		pthread_mutex_unlock(&agent->lock);
	}
	if (mine || (from_network && vb_agent_pass(engine, d, pkt) != VB_WIRE_REFUSED) ||
	    comes_again(agent, &msg))
		return;
	vb_agent_refuse(engine, d, pkt, agent && vb_agent_inside(agent, d->src_gid));
}

/* ---- The thread ---- */

/* Of one descriptor. */
static void run_event(struct vb_agent *agent, const struct epoll_event *event)
{
	int fd = event->data.fd;
	uint64_t expired;
	struct vb_agent_port *port;
	uint32_t dead;
	bool life, ours = false;

	if (fd == agent->timer_fd && read(fd, &expired, sizeof(expired)) < 0)
		return;
	pthread_mutex_lock(&agent->lock);
	if (fd == agent->timer_fd)
		vb_agent_expire(agent);
	life = fd == agent->timer_fd || vb_agent_life_event(agent, event, &dead);
	if (life && fd != agent->timer_fd && dead)
		vb_agent_mourn(agent, dead);
	life = life || vb_agent_hosts_event(agent, fd);
	port = life ? NULL : vb_agent_hold_port(agent, fd, &ours);
	pthread_mutex_unlock(&agent->lock);
	if (!life && ours)
		vb_wire_handed(agent->engine, fd);
	if (!port)
		return;
	pthread_mutex_lock(&agent->lock);
	vb_agent_release_port(agent, port);
	pthread_mutex_unlock(&agent->lock);
}

void vb_agent_run(struct vb_engine *engine)
{
	struct vb_agent *agent = atomic_load(&engine->agent);
	struct epoll_event events[8];

	if (!agent)
		return;
	for (int goes = 0; goes < GOES; goes++) {
		int n = epoll_wait(agent->poll_fd, events, 8, 0);

		if (n <= 0)
			return;
		for (int i = 0; i < n; i++)
			run_event(agent, &events[i]);
	}
}

static int free_visited(void *object, void *arg)
{
	(void)arg;
	free(object);
	return 0;
}

void vb_agent_close(struct vb_engine *engine)
{
	struct vb_agent *agent = atomic_exchange(&engine->agent, NULL);

	if (!agent)
		return;
	vb_idtable_each(&agent->ids, free_visited, NULL);
	free_agent(agent);
}

static int say_goodbye(void *object, void *arg)
{
	struct vb_agent_id *id = object;
	struct vb_cm_out out;

	(void)arg;
	vb_cm_close(&id->conn, &out);
	vb_agent_send_out(id, &out);
	return 0;
}

void vb_agent_farewell(struct vb_engine *engine)
{
	struct vb_agent *agent = atomic_load(&engine->agent);

	if (!agent || pthread_mutex_trylock(&agent->lock))
		return;
	vb_idtable_each(&agent->ids, say_goodbye, NULL);
	pthread_mutex_unlock(&agent->lock);
}

void vb_agent_forked(struct vb_engine *engine)
{
	struct vb_agent *agent = atomic_load(&engine->agent);

	if (!agent)
		return;
	close(agent->poll_fd);
	close(agent->timer_fd);
	vb_agent_close_ports(agent);
	vb_agent_life_close(agent);
}

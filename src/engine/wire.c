/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/settings.h"
#include "base/rules.h"
#include "base/step.h"
#include "base/touch.h"
#include "carrier/pcap.h"
#include "engine/agent_wire.h"
#include "engine/mcast.h"
#include "engine/reach.h"
#include "engine/requester.h"
#include "engine/wire_faults.h"
#include "engine/wire_hand.h"
#include "engine/wire_late.h"
#include "engine/wire_pace.h"
#include "engine/wire_steer.h"
#include "host/counters.h"
#include "host/registry.h"
#include "wire/cm.h"

/* Where packets come from: IPv4, IPv6, other processes of this host. */
#define SOURCES	    3
#define HANDED	    2
#define ALL_SOURCES ((1u << SOURCES) - 1)

/* Packets looked at in one go, and goes in one call. */
#define BATCH 32
#define GOES  8
/* How long pollers look for more after a packet; then the engine's thread wakes for the next. A
 * program that gets none pays no system call a poll. */
#define LIVELY_NS 1000000u

/* Goes that empty a socket before it is closed: packets that keep coming are not waited for. */
#define DRAINS 64

/* Between two looks whether the last packets were taken. */
#define LINGER_NS 50000

/* Between two tries to have the port that another user's process has. */
#define BIND_MS 100

struct vb_wire {
	struct vb_udp udp;
	struct vb_steer steer;
	int bound;	/* 0, or why nothing comes from other hosts but through another process */
	int bind_timer; /* of the thread, while it is not 0; -1 */
	pthread_mutex_t send_lock; /* the sockets that are opened when first needed */
	pthread_mutex_t receive_lock;
	uint32_t watched;		   /* blocks whose sockets the thread looks at */
	_Atomic uint64_t last_ns[SOURCES]; /* when a packet came, the last time */
	uint32_t readable;		   /* the thread's: sources that are, a bit for each */
	struct vb_pace pace;
	struct vb_pcap pcap;
	struct vb_hand *hand;
	struct vb_late late;
	struct vb_wire_faults *faults; /* NULL: none */
	int faults_timer;
	struct vb_udp_burst *bursts; /* that nobody fills, under send_lock */
	struct vb_udp_inbox inbox;
	uint8_t handed[VB_HAND_BYTES];
};

static int watch(struct vb_engine *engine, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	if (fd < 0 || !atomic_load(&engine->thread_runs))
		return 0;
	return epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static void open_capture(struct vb_engine *engine, struct vb_wire *wire)
{
	const char *path = vb_setting("PCAP");
	int err;

	wire->pcap.fd = -1;
	err = path ? vb_pcap_open(&wire->pcap, path, engine->adapter->device) : 0;
	if (err)
		vb_explain(VB_RULE_CAPTURE_FILE, "%s: %s", path,
			   err == -EEXIST ? "holds something else" : strerror(-err));
}

static int open_bind_timer(void)
{
	const struct timespec often = {.tv_nsec = BIND_MS * 1000000};
	const struct itimerspec spec = {.it_interval = often, .it_value = often};
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);

	if (fd >= 0)
		timerfd_settime(fd, 0, &spec, NULL);
	return fd;
}

static void close_bind_timer(struct vb_wire *wire)
{
	if (wire->bind_timer >= 0)
		close(wire->bind_timer);
	wire->bind_timer = -1;
}

/* What the first messages would wait for. */
static void get_ready(struct vb_wire *wire)
{
	wire->bursts = vb_udp_burst_new();
	/* Its code too. */
	vb_icrc_add(0, wire->handed, VB_MAD_LEN);
	vb_touch(wire->handed, 1);
	vb_touch(wire->inbox.datagrams, sizeof(wire->inbox.datagrams[0]));
}

/* Under thread_lock. */
static int open_wire(struct vb_engine *engine)
{
	struct vb_wire *wire = calloc(1, sizeof(*wire));
	int timer;

	if (wire)
		wire->hand = vb_hand_open(engine);
	if (!wire || !wire->hand) {
		free(wire);
		return -ENOMEM;
	}
	wire->bound = vb_steer_open(engine, &wire->steer, &wire->udp);
	wire->udp.loop = vb_reach_only_udp();
	open_capture(engine, wire);
	wire->faults = vb_wire_faults_open(&timer);
	/* Each packet for itself. */
	wire->udp.one_by_one = wire->faults != NULL;
	watch(engine, timer);
	wire->faults_timer = timer;
	vb_pace_init(&wire->pace);
	pthread_mutex_init(&wire->send_lock, NULL);
	pthread_mutex_init(&wire->receive_lock, NULL);
	watch(engine, wire->udp.in[0]);
	watch(engine, wire->udp.in[1]);
	wire->bind_timer = wire->bound ? open_bind_timer() : -1;
	watch(engine, wire->bind_timer);
	get_ready(wire);
	atomic_store(&engine->wire, wire);
	return 0;
}

/* Whoever had the port may have left. Under thread_lock. */
static void bind_again(struct vb_engine *engine, struct vb_wire *wire)
{
	if (!wire->bound)
		return;
	wire->bound = vb_steer_bind(engine, &wire->steer, &wire->udp);
	if (!wire->bound) {
		watch(engine, wire->udp.in[0]);
		watch(engine, wire->udp.in[1]);
		vb_mcast_rejoin(engine);
	}
}

/* Whoever has the port passes on what is ours, and may leave at any time. */
static void look_for_port(struct vb_engine *engine, struct vb_wire *wire)
{
	uint64_t expired;

	if (wire->bind_timer < 0 || read(wire->bind_timer, &expired, sizeof(expired)) < 0)
		return;
	/* Not waited for: who has it may be waiting for this thread's end. */
	if (pthread_mutex_trylock(&engine->thread_lock))
		return;
	bind_again(engine, wire);
	if (!wire->bound)
		close_bind_timer(wire);
	pthread_mutex_unlock(&engine->thread_lock);
}

struct vb_udp *vb_wire_udp(struct vb_engine *engine)
{
	struct vb_wire *wire = atomic_load(&engine->wire);

	return wire ? &wire->udp : NULL;
}

int vb_wire_start(struct vb_engine *engine)
{
	struct vb_wire *wire;
	int err = 0;

	vb_engine_start(engine);
	pthread_mutex_lock(&engine->thread_lock);
	if (!atomic_load(&engine->wire))
		err = open_wire(engine);
	else
		bind_again(engine, atomic_load(&engine->wire));
	wire = atomic_load(&engine->wire);
	while (!err && wire->watched < atomic_load(&engine->adapter->n_blocks))
		watch(engine, vb_adapter_block_socket(engine->adapter, wire->watched++));
	if (!err)
		vb_steer_grown(engine, &wire->steer, &wire->udp);
	if (!err)
		err = wire->bound;
	pthread_mutex_unlock(&engine->thread_lock);
	return err;
}

void vb_wire_forked(struct vb_engine *engine)
{
	struct vb_wire *wire = atomic_load(&engine->wire);

	if (!wire)
		return;
	vb_udp_close(&wire->udp);
	close_bind_timer(wire);
	vb_hand_forked(wire->hand);
	vb_pcap_close(&wire->pcap);
}

/* ---- Handing over ---- */

enum vb_wire_handed vb_wire_deliver(struct vb_engine *engine, struct vb_udp_datagram *d,
				    const struct sockaddr_un *to, socklen_t len)
{
	return vb_hand_to(engine->wire->hand, d, to, len);
}

enum vb_wire_handed vb_wire_deliver_block(struct vb_engine *engine, struct vb_udp_datagram *d,
					  uint32_t block)
{
	uint32_t used;

	return vb_hand_over(engine->wire->hand, block, d, 1, &used);
}

/* Connection management within the host: which process it is for stands in the message. */
static void manage_inside(struct vb_engine *engine, struct vb_udp_burst *b)
{
	struct vb_udp_datagram d;
	struct vb_packet pkt;
	uint32_t at = 0;

	while (vb_udp_burst_packet(b, &at, &d)) {
		enum vb_wire_handed handed = VB_WIRE_DELIVERED;

		/* A damaged one is dropped where its check is looked at. */
		if (vb_packet_parse(d.bytes, d.len, &pkt) == VB_PARSE_OK)
			handed = vb_agent_pass(engine, &d, &pkt);
		if (handed == VB_WIRE_REFUSED)
			vb_agent_refuse(engine, &d, &pkt, true);
		b->full = b->full || handed == VB_WIRE_FULL;
	}
}

/* False: it is no more. */
static bool send_to_block(struct vb_engine *engine, const struct vb_udp_burst *b, uint32_t block)
{
	struct vb_udp_datagram d[VB_HAND_PACKETS];
	uint32_t at = 0, n, sent;

	for (;;) {
		uint32_t next = at;

		for (n = 0; n < VB_HAND_PACKETS && vb_udp_burst_packet(b, &next, &d[n]);)
			n++;
		if (!n)
			return true;
		if (vb_hand_over(engine->wire->hand, block, d, n, &sent) == VB_WIRE_REFUSED)
			return false;
		/* Those that were one too many come again. */
		for (; sent; sent--)
			vb_udp_burst_packet(b, &at, &d[0]);
	}
}

/* To a process of this host: the packets of a burst have one destination. */
static void send_inside(struct vb_engine *engine, struct vb_udp_burst *b)
{
	uint32_t qpn;

	if (b->used < VB_BTH_LEN)
		return;
	qpn = (uint32_t)b->bytes[5] << 16 | (uint32_t)b->bytes[6] << 8 | b->bytes[7];
	if (qpn == VB_CM_QPN)
		manage_inside(engine, b);
	else
		send_to_block(engine, b, qpn >> VB_BLOCK_BITS);
}

/* To the processes of this host that take part in multicast. */
static void send_group(struct vb_engine *engine, const struct vb_udp_burst *b)
{
	uint64_t set[VB_BLOCKS / 64];

	vb_mcast_hand(engine, b->path.hand, set);
	for (uint32_t i = 0; i < VB_BLOCKS / 64; i++) {
		for (; set[i]; set[i] &= set[i] - 1) {
			uint32_t block = i * 64 + (uint32_t)__builtin_ctzll(set[i]);

			if (!send_to_block(engine, b, block))
				vb_members_gone(&engine->members, block);
		}
	}
}

struct vb_udp_burst *vb_wire_begin(struct vb_engine *engine, const struct vb_udp_path *path)
{
	struct vb_wire *wire = atomic_load(&engine->wire);
	struct vb_udp_burst *b;
	int err;

	if (!wire)
		return NULL;
	pthread_mutex_lock(&wire->send_lock);
	b = wire->bursts;
	if (b)
		wire->bursts = b->next;
	else
		b = vb_udp_burst_new();
	if (b)
		b->full = false;
	err = b ? vb_udp_burst_begin(&wire->udp, b, path) : -ENOMEM;
	if (b && err) {
		b->next = wire->bursts;
		wire->bursts = b;
	}
	pthread_mutex_unlock(&wire->send_lock);
	return err ? NULL : b;
}

void vb_wire_add(struct vb_engine *engine, struct vb_udp_burst *b, const struct vb_packet *hdr)
{
	vb_udp_burst_add(&engine->wire->udp, b, hdr);
}

static void give_back(struct vb_wire *wire, struct vb_udp_burst *b)
{
	pthread_mutex_lock(&wire->send_lock);
	b->next = wire->bursts;
	wire->bursts = b;
	pthread_mutex_unlock(&wire->send_lock);
}

/* As it is. */
static void leave(struct vb_engine *engine, struct vb_wire *wire, struct vb_udp_burst *b)
{
	if (b->path.hand)
		send_group(engine, b);
	else if (b->path.inside)
		send_inside(engine, b);
	if (!b->path.inside)
		vb_udp_burst_send(&wire->udp, b);
	vb_udp_burst_empty(b);
}

/* Counted, captured, and by way of faults where some are asked for. */
static void send_all(struct vb_engine *engine, struct vb_wire *wire, struct vb_udp_burst *b,
		     bool plain)
{
	struct vb_udp_datagram d;
	uint32_t at = 0;

	vb_stat_add(engine->adapter, VB_STAT_SENT_PKTS, b->packets);
	vb_stat_add(engine->adapter, VB_STAT_SENT_BYTES, b->payload);
	while (vb_pcap_on(&wire->pcap) && vb_udp_burst_packet(b, &at, &d))
		vb_pcap_packet(&wire->pcap, &d, true);
	if (wire->faults && !plain)
		vb_wire_faults_send(engine, wire->faults, b);
	else
		leave(engine, wire, b);
	vb_udp_burst_empty(b);
}

uint8_t *vb_wire_room(struct vb_engine *engine, struct vb_udp_burst *b, const struct vb_packet *hdr)
{
	struct vb_wire *wire = atomic_load(&engine->wire);

	if (!vb_udp_burst_fits(&wire->udp, b, hdr))
		send_all(engine, wire, b, false);
	return vb_udp_burst_room(b, hdr);
}

bool vb_wire_end(struct vb_engine *engine, struct vb_udp_burst *b)
{
	struct vb_wire *wire = atomic_load(&engine->wire);
	bool full;

	send_all(engine, wire, b, false);
	full = b->full;
	give_back(wire, b);
	return !full;
}

void vb_wire_end_plain(struct vb_engine *engine, struct vb_udp_burst *b)
{
	struct vb_wire *wire = atomic_load(&engine->wire);

	send_all(engine, wire, b, true);
	give_back(wire, b);
}

bool vb_wire_leave(struct vb_engine *engine, struct vb_udp_burst *b)
{
	struct vb_wire *wire = atomic_load(&engine->wire);
	bool full;

	leave(engine, wire, b);
	full = b->full;
	give_back(wire, b);
	return !full;
}

bool vb_wire_not_ready(struct vb_engine *engine, uint32_t qpn)
{
	struct vb_wire *wire = atomic_load(&engine->wire);

	return wire && wire->faults && vb_wire_faults_not_ready(wire->faults, qpn);
}

bool vb_wire_silent(struct vb_engine *engine, const uint8_t *gid, uint32_t qpn)
{
	struct vb_wire *wire = atomic_load(&engine->wire);

	return wire && wire->faults && vb_wire_faults_silent(wire->faults, gid, qpn);
}

void vb_wire_anew(struct vb_engine *engine, const uint8_t *gid, uint32_t qpn)
{
	struct vb_wire *wire = atomic_load(&engine->wire);

	if (wire && wire->faults)
		vb_wire_faults_anew(wire->faults, gid, qpn);
}

uint64_t vb_wire_again_inside_ns(struct vb_engine *engine, uint32_t qpn)
{
	struct vb_wire *wire = atomic_load(&engine->wire);

	if (!wire)
		return 0;
	return vb_hand_again_ns(wire->hand, qpn == VB_MCAST_QPN ? 0 : qpn >> VB_BLOCK_BITS);
}

struct vb_pace *vb_wire_pace(struct vb_engine *engine)
{
	struct vb_wire *wire = atomic_load(&engine->wire);

	return wire ? &wire->pace : NULL;
}

/* A packet that came, and whose it is. */
struct found {
	struct vb_qp *qp;     /* NULL: not for a QP of ours */
	uint32_t other_block; /* another process's, 0: nobody's */
	bool manage;	      /* connection management */
	bool group;	      /* multicast: for all of ours that are attached */
	struct vb_packet pkt;
};

/* @received: From a socket: what another process hands over it has captured */
static void find(struct vb_engine *engine, struct vb_udp_datagram *d, struct found *found,
		 bool received)
{
	struct vb_pcap *pcap = &engine->wire->pcap;
	uint32_t index;

	found->qp = NULL;
	found->other_block = 0;
	found->manage = found->group = false;
	if (!vb_udp_parse(d, &found->pkt)) {
		vb_stat_add(engine->adapter, d->intact ? VB_STAT_MALFORMED : VB_STAT_ICRC_ERRORS,
			    1);
		return;
	}
	if (d->flow.ip_id && d->flow.ip_id != d->index)
		vb_stat_add(engine->adapter, VB_STAT_ICRC_SOLVED, 1);
	if (received && vb_pcap_on(pcap))
		vb_pcap_packet(pcap, d, false);
	if (found->pkt.dest_qpn == VB_CM_QPN)
		found->manage = true;
	else if (found->pkt.dest_qpn == VB_MCAST_QPN)
		found->group = vb_gid_is_multicast(d->dest_gid);
	else if (vb_adapter_index(engine->adapter, found->pkt.dest_qpn, &index))
		found->qp = vb_sparse_get(&engine->qps, index);
	else
		found->other_block = found->pkt.dest_qpn >> VB_BLOCK_BITS;
}

/* All for one block in one message: a socket of this kind queues few of them. */
static void hand_over(struct vb_engine *engine, struct vb_udp_datagram *d, struct found *found,
		      uint32_t n)
{
	struct vb_udp_datagram all[VB_HAND_PACKETS];
	uint32_t block = found[0].other_block, k = 0, from = 0;

	for (uint32_t i = 0; i < n && k < VB_HAND_PACKETS; i++) {
		if (found[i].other_block != block)
			continue;
		all[k++] = d[i];
		found[i].other_block = 0;
	}
	while (from < k) {
		uint32_t sent;

		vb_hand_over(engine->wire->hand, block, all + from, k - from, &sent);
		from += sent;
	}
}

/* What is for a process of ours, and might have come to it at once. */
static bool steered_wrong(struct vb_engine *engine, const struct found *found)
{
	uint32_t slot, ordinal;

	return found->other_block &&
	       !vb_registry_block(&engine->adapter->registry, found->other_block, &slot, &ordinal);
}

static void run_packet(struct vb_engine *engine, struct vb_qp *qp, const struct vb_packet *pkt,
		       const struct vb_udp_datagram *d, bool more)
{
	vb_requester_hold(qp);
	vb_wire_packet(engine, qp, pkt, d, more);
	vb_requester_release(engine, qp);
}

/* Inside a grace section: the QPs stay. */
static void dispatch_some(struct vb_engine *engine, struct vb_udp_datagram *d, uint32_t n,
			  bool may_hand_over)
{
	struct vb_wire *wire = engine->wire;
	struct found found[BATCH];
	uint32_t others = 0;

	for (uint32_t i = 0; i < n; i++) {
		find(engine, &d[i], &found[i], may_hand_over);
		others += steered_wrong(engine, &found[i]);
	}
	if (may_hand_over)
		vb_steer_saw(engine, &wire->steer, &wire->udp, n, others);
	for (uint32_t i = 0; i < n; i++) {
		bool more = i + 1 < n && found[i + 1].qp == found[i].qp;

		if (found[i].manage || found[i].group) {
			vb_stat_add(engine->adapter, VB_STAT_RCVD_PKTS, 1);
			vb_stat_add(engine->adapter, VB_STAT_RCVD_BYTES, found[i].pkt.payload_len);
		}
		if (found[i].manage)
			vb_agent_packet(engine, &d[i], &found[i].pkt, may_hand_over);
		if (found[i].group)
			vb_mcast_packet(engine, &found[i].pkt, &d[i]);
		while (may_hand_over && found[i].other_block)
			hand_over(engine, &d[i], &found[i], n - i);
		if (!found[i].qp)
			continue;
		vb_stat_add(engine->adapter, VB_STAT_RCVD_PKTS, 1);
		vb_stat_add(engine->adapter, VB_STAT_RCVD_BYTES, found[i].pkt.payload_len);
		if (!vb_late_keep(&wire->late, engine, found[i].qp, &found[i].pkt, &d[i]))
			run_packet(engine, found[i].qp, &found[i].pkt, &d[i], more);
	}
}

static void dispatch(struct vb_engine *engine, struct vb_udp_datagram *d, uint32_t n,
		     bool may_hand_over)
{
	if (engine->wire->faults && vb_wire_faults_down(engine->wire->faults))
		return;
	for (uint32_t i = 0; i < n; i += BATCH)
		dispatch_some(engine, d + i, n - i < BATCH ? n - i : BATCH, may_hand_over);
}

/* What waits in our sockets may be others', and would be lost with them. */
static void close_in(struct vb_engine *engine, struct vb_wire *wire, int which)
{
	bool more = true;

	VB_STEP(WIRE_CLOSES);
	vb_steer_pass_on(engine, &wire->steer, &wire->udp, which);
	for (int i = 0; i < DRAINS && more; i++) {
		uint32_t token = vb_grace_enter(&engine->grace);
		uint32_t n = vb_udp_receive(&wire->udp, which, &wire->inbox, &more);

		dispatch(engine, wire->inbox.datagrams, n, true);
		vb_grace_leave(&engine->grace, token);
		more = more || n;
	}
	vb_udp_close_in(&wire->udp, which);
}

void vb_wire_linger(struct vb_engine *engine)
{
	struct vb_wire *wire = atomic_load(&engine->wire);
	const struct timespec pause = {.tv_nsec = LINGER_NS};

	/* Who waits for room may be waited for. */
	while (wire && vb_hand_due(wire->hand, false)) {
		vb_wire_receive(engine, false);
		nanosleep(&pause, NULL);
	}
}

void vb_wire_close(struct vb_engine *engine)
{
	struct vb_wire *wire = atomic_load(&engine->wire);
	struct vb_udp_burst *b;

	if (!wire)
		return;
	vb_steer_leave(engine, &wire->steer);
	close_in(engine, wire, 0);
	close_in(engine, wire, 1);
	vb_wire_linger(engine);
	atomic_store(&engine->wire, NULL);
	while ((b = wire->bursts)) {
		wire->bursts = b->next;
		free(b);
	}
	vb_steer_close(engine, &wire->steer, &wire->udp);
	close_bind_timer(wire);
	vb_pcap_close(&wire->pcap);
	vb_wire_faults_close(wire->faults);
	vb_hand_close(wire->hand);
	vb_late_close(&wire->late);
	pthread_mutex_destroy(&wire->send_lock);
	pthread_mutex_destroy(&wire->receive_lock);
	free(wire);
}

/* What comes by the block sockets was received by another process. One message. */
static uint32_t receive_handed(struct vb_engine *engine, struct vb_wire *wire)
{
	for (uint32_t i = 0; i < wire->watched; i++) {
		int fd = vb_adapter_block_socket(engine->adapter, i);
		ssize_t size = recv(fd, wire->handed, sizeof(wire->handed), MSG_DONTWAIT);

		if (size > 0)
			return vb_handed_unpack(wire->handed, (size_t)size, wire->inbox.datagrams,
						VB_HAND_PACKETS);
	}
	return 0;
}

bool vb_wire_handed(struct vb_engine *engine, int fd)
{
	struct vb_wire *wire = atomic_load(&engine->wire);
	ssize_t size;

	if (!wire)
		return false;
	pthread_mutex_lock(&wire->receive_lock);
	size = recv(fd, wire->handed, sizeof(wire->handed), MSG_DONTWAIT);
	if (size > 0) {
		uint32_t token = vb_grace_enter(&engine->grace);
		uint32_t n = vb_handed_unpack(wire->handed, (size_t)size, wire->inbox.datagrams,
					      VB_HAND_PACKETS);

		dispatch(engine, wire->inbox.datagrams, n, false);
		vb_grace_leave(&engine->grace, token);
	}
	pthread_mutex_unlock(&wire->receive_lock);
	return size > 0;
}

static void look_at_all(struct vb_wire *wire)
{
	for (int from = 0; from < SOURCES; from++)
		atomic_store(&wire->last_ns[from], vb_now_ns());
}

static void release_held(struct vb_engine *engine, struct vb_wire *wire)
{
	uint64_t expired;

	if (wire->faults_timer >= 0 && read(wire->faults_timer, &expired, sizeof(expired)) > 0)
		look_at_all(wire);
	vb_wire_faults_due(engine, wire->faults);
}

void vb_wire_readable(struct vb_engine *engine, int fd)
{
	struct vb_wire *wire = atomic_load(&engine->wire);

	if (!wire)
		return;
	if (fd == wire->udp.in[0])
		wire->readable |= 1u << 0;
	else if (fd == wire->udp.in[1])
		wire->readable |= 1u << 1;
	else
		wire->readable |= 1u << HANDED;
}

/* The sources to look at, a bit for each. */
static uint32_t sources(const struct vb_engine *engine, struct vb_wire *wire, bool thread)
{
	uint32_t set = 0;
	uint64_t now;

	if (thread) {
		set = wire->readable;
		wire->readable = 0;
		return set;
	}
	if (!atomic_load(&engine->thread_runs))
		return ALL_SOURCES;
	now = vb_now_ns();
	for (uint32_t from = 0; from < SOURCES; from++)
		if (now - atomic_load(&wire->last_ns[from]) <= LIVELY_NS)
			set |= 1u << from;
	return set;
}

/* One go. Whether there may be more. */
static bool receive_from(struct vb_engine *engine, struct vb_wire *wire, int from)
{
	uint32_t token = vb_grace_enter(&engine->grace), n;
	bool more;

	if (from == HANDED) {
		n = receive_handed(engine, wire);
		more = n > 0;
	} else {
		n = vb_udp_receive(&wire->udp, from, &wire->inbox, &more);
	}
	dispatch(engine, wire->inbox.datagrams, n, from != HANDED);
	vb_grace_leave(&engine->grace, token);
	if (n)
		atomic_store(&wire->last_ns[from], vb_now_ns());
	return more;
}

static void run_late(struct vb_engine *engine, struct vb_wire *wire)
{
	uint32_t token;

	if (!vb_late_any(&wire->late))
		return;
	token = vb_grace_enter(&engine->grace);
	vb_late_due(&wire->late, engine, run_packet);
	vb_grace_leave(&engine->grace, token);
}

bool vb_wire_waits(struct vb_engine *engine)
{
	struct vb_wire *wire = atomic_load(&engine->wire);

	return wire && vb_late_any(&wire->late);
}

/* @set: Sources. Under receive_lock */
static void receive_some(struct vb_engine *engine, struct vb_wire *wire, uint32_t set)
{
	run_late(engine, wire);
	for (int i = 0; i < GOES && set; i++)
		for (int from = 0; from < SOURCES; from++)
			if (set >> from & 1 && !receive_from(engine, wire, from))
				set &= ~(1u << from);
	run_late(engine, wire);
}

void vb_wire_receive(struct vb_engine *engine, bool thread)
{
	struct vb_wire *wire = atomic_load(&engine->wire);
	uint32_t set;

	if (!wire)
		return;
	if (wire->faults)
		release_held(engine, wire);
	vb_hand_due(wire->hand, thread);
	if (thread)
		look_for_port(engine, wire);
	set = sources(engine, wire, thread);
	if (!set && !vb_late_any(&wire->late))
		return;
	if (thread)
		pthread_mutex_lock(&wire->receive_lock);
	else if (pthread_mutex_trylock(&wire->receive_lock))
		return;
	receive_some(engine, wire, set);
	pthread_mutex_unlock(&wire->receive_lock);
}

void vb_wire_turn(struct vb_engine *engine)
{
	struct vb_wire *wire = atomic_load(&engine->wire);

	if (!wire || !vb_pace_turn(&wire->pace))
		return;
	/* Waited for: who is at it may have lost its processor to this very thread. */
	pthread_mutex_lock(&wire->receive_lock);
	receive_some(engine, wire, ALL_SOURCES);
	pthread_mutex_unlock(&wire->receive_lock);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/wire_faults.h"

#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/rules.h"
#include "base/settings.h"
#include "carrier/faults.h"
#include "carrier/udp.h"
#include "engine/lost.h"
#include "engine/port.h"
#include "engine/thread.h"
#include "engine/wire.h"

/* One that waits for the next packet leaves without it after this long. */
#define ALONE_NS 2000000u
#define MS	 UINT64_C(1000000)
/* Packets that may be held back; more are lost. */
#define HELD_MAX 4096
/* Peers that are heard of no more; with more the oldest comes back. */
#define SILENT_MAX 64

struct held {
	struct held *next;
	bool after_next;
	uint64_t due_ns;
	struct vb_udp_path path;
	uint32_t len;
	uint8_t bytes[VB_UDP_BYTES];
};

struct silent {
	uint8_t gid[16];
	uint32_t qpn; /* 0: no peer */
};

struct vb_wire_faults {
	pthread_mutex_t tell_lock; /* around `lock`: the link's news in their order */
	pthread_mutex_t lock;
	struct vb_faults rules;
	struct held *held;
	uint32_t n_held;
	int timer_fd;
	_Atomic uint64_t due_ns; /* of the first one held back, or of news to tell; VB_NEVER */
	_Atomic uint64_t down_until_ns;
	bool went_down, told_down; /* the link */
	bool fatal;		   /* to be told */
	_Atomic bool lost;
	struct silent silent[SILENT_MAX];
	_Atomic uint32_t n_silent; /* ever */
};

struct vb_wire_faults *vb_wire_faults_open(int *timer)
{
	const char *spec = vb_setting("FAULTS"), *wrong = NULL;
	struct vb_wire_faults *f;

	*timer = -1;
	if (!spec || !*spec)
		return NULL;
	f = calloc(1, sizeof(*f));
	if (!f)
		return NULL;
	if (vb_faults_parse(&f->rules, spec, &wrong) || !f->rules.n) {
		if (wrong)
			vb_explain(VB_RULE_FAULTS_SPEC, "%s: wrong from \"%s\" on", spec, wrong);
		free(f);
		return NULL;
	}
	pthread_mutex_init(&f->lock, NULL);
	pthread_mutex_init(&f->tell_lock, NULL);
	f->due_ns = VB_NEVER;
	f->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	*timer = f->timer_fd;
	return f;
}

void vb_wire_faults_close(struct vb_wire_faults *f)
{
	struct held *h;

	if (!f)
		return;
	while ((h = f->held)) {
		f->held = h->next;
		free(h);
	}
	if (f->timer_fd >= 0)
		close(f->timer_fd);
	pthread_mutex_destroy(&f->lock);
	pthread_mutex_destroy(&f->tell_lock);
	free(f);
}

/* Packets that leave now, as long as they go one way. */
struct leaving {
	struct vb_engine *engine;
	struct vb_udp_burst *burst; /* NULL: none */
	bool full;		    /* one found no room within the host */
};

static void send_leaving(struct leaving *l)
{
	if (l->burst && !vb_wire_leave(l->engine, l->burst))
		l->full = true;
	l->burst = NULL;
}

static bool same_path(const struct vb_udp_path *a, const struct vb_udp_path *b)
{
	return !memcmp(a->own_gid, b->own_gid, sizeof(a->own_gid)) &&
	       !memcmp(a->dest_gid, b->dest_gid, sizeof(a->dest_gid)) && a->ifindex == b->ifindex &&
	       a->traffic_class == b->traffic_class && a->hop_limit == b->hop_limit &&
	       a->flow == b->flow && a->flow_label == b->flow_label && a->inside == b->inside &&
	       a->hand == b->hand;
}

static void leave(struct leaving *l, const struct held *h)
{
	if (l->burst && !same_path(&l->burst->path, &h->path))
		send_leaving(l);
	if (l->burst && vb_udp_burst_raw(l->burst, h->bytes, h->len))
		return;
	send_leaving(l);
	l->burst = vb_wire_begin(l->engine, &h->path);
	if (l->burst)
		vb_udp_burst_raw(l->burst, h->bytes, h->len);
}

static void arm(struct vb_wire_faults *f)
{
	uint64_t due = VB_NEVER;

	for (const struct held *h = f->held; h; h = h->next)
		if (h->due_ns < due)
			due = h->due_ns;
	if (f->told_down && atomic_load(&f->down_until_ns) < due)
		due = atomic_load(&f->down_until_ns);
	if (f->went_down || f->fatal)
		due = 1; /* at once */
	atomic_store(&f->due_ns, due);
	if (f->timer_fd >= 0)
		vb_thread_set_timer(f->timer_fd, due);
}

/* Under the lock. */
static void release(struct leaving *l, struct vb_wire_faults *f, uint64_t now, bool after)
{
	struct held **at = &f->held;

	while (*at) {
		struct held *h = *at;

		if (h->due_ns > now && !(after && h->after_next)) {
			at = &h->next;
			continue;
		}
		*at = h->next;
		f->n_held--;
		leave(l, h);
		free(h);
	}
}

static void hold(struct vb_wire_faults *f, const struct held *packet, uint64_t due_ns, bool after)
{
	struct held *h = f->n_held < HELD_MAX ? malloc(sizeof(*h)) : NULL;
	struct held **end = &f->held;

	if (!h)
		return;
	*h = *packet;
	h->due_ns = due_ns;
	h->after_next = after;
	h->next = NULL;
	while (*end)
		end = &(*end)->next;
	*end = h;
	f->n_held++;
}

/* Under the lock. */
static struct silent *find_silent(struct vb_wire_faults *f, const uint8_t *gid, uint32_t qpn)
{
	for (uint32_t i = 0; i < SILENT_MAX; i++)
		if (f->silent[i].qpn == qpn && qpn && !memcmp(f->silent[i].gid, gid, 16))
			return &f->silent[i];
	return NULL;
}

static void add_silent(struct vb_wire_faults *f, const uint8_t *gid, uint32_t qpn)
{
	struct silent *at = &f->silent[atomic_load(&f->n_silent) % SILENT_MAX];

	if (find_silent(f, gid, qpn))
		return;
	memcpy(at->gid, gid, sizeof(at->gid));
	at->qpn = qpn;
	atomic_fetch_add(&f->n_silent, 1);
}

/* What concerns more than the packet. False: it goes no further. */
static bool carry_out(struct vb_wire_faults *f, const struct vb_fault_plan *plan,
		      const struct held *packet, uint32_t qpn, uint64_t now)
{
	if (plan->reset)
		add_silent(f, packet->path.dest_gid, qpn);
	if (plan->fatal && !atomic_exchange(&f->lost, true))
		f->fatal = true;
	if (plan->down_ms) {
		atomic_store(&f->down_until_ns, now + plan->down_ms * MS);
		f->went_down = true;
	}
	if (plan->up)
		atomic_store(&f->down_until_ns, now);
	return !plan->drop && !atomic_load(&f->lost) && now >= atomic_load(&f->down_until_ns) &&
	       !find_silent(f, packet->path.dest_gid, qpn);
}

static void send_one(struct leaving *l, struct vb_wire_faults *f, struct held *packet,
		     const struct vb_flow *flow, uint64_t now)
{
	struct vb_fault_plan plan;
	const uint8_t *bth = packet->bytes;
	uint32_t qpn = (uint32_t)bth[5] << 16 | (uint32_t)bth[6] << 8 | bth[7];

	vb_faults_plan(&f->rules, packet->bytes, &packet->len, flow, &plan);
	if (!carry_out(f, &plan, packet, qpn, now))
		return;
	if (plan.after_next || plan.ms) {
		hold(f, packet, now + (plan.ms ? plan.ms * MS : ALONE_NS), plan.after_next);
		return;
	}
	leave(l, packet);
	if (plan.twice)
		leave(l, packet);
	release(l, f, now, true);
}

void vb_wire_faults_send(struct vb_engine *engine, struct vb_wire_faults *f, struct vb_udp_burst *b)
{
	struct vb_udp_datagram d;
	struct leaving l = {.engine = engine};
	struct held packet;
	uint32_t at = 0;

	packet.path = b->path;
	pthread_mutex_lock(&f->lock);
	while (vb_udp_burst_packet(b, &at, &d)) {
		memcpy(packet.bytes, d.bytes, d.len);
		packet.len = d.len;
		send_one(&l, f, &packet, &d.flow, vb_now_ns());
	}
	send_leaving(&l);
	b->full = b->full || l.full;
	arm(f);
	pthread_mutex_unlock(&f->lock);
}

/* What became of the link, in order, and of the device. */
static void tell(struct vb_engine *engine, struct vb_wire_faults *f, struct leaving *l)
{
	bool down, up, fatal;
	uint64_t now;

	pthread_mutex_lock(&f->lock);
	now = vb_now_ns();
	release(l, f, now, false);
	send_leaving(l);
	down = f->went_down;
	up = (down || f->told_down) && now >= atomic_load(&f->down_until_ns);
	f->told_down = (down || f->told_down) && !up;
	f->went_down = false;
	fatal = f->fatal;
	f->fatal = false;
	arm(f);
	pthread_mutex_unlock(&f->lock);
	if (down)
		vb_port_fault(engine, true);
	if (up)
		vb_port_fault(engine, false);
	if (fatal)
		vb_engine_lose(engine);
}

void vb_wire_faults_due(struct vb_engine *engine, struct vb_wire_faults *f)
{
	struct leaving l = {.engine = engine};
	uint64_t now;

	if (atomic_load(&f->due_ns) == VB_NEVER)
		return;
	now = vb_now_ns();
	if (now < atomic_load(&f->due_ns))
		return;
	pthread_mutex_lock(&f->tell_lock);
	tell(engine, f, &l);
	pthread_mutex_unlock(&f->tell_lock);
}

bool vb_wire_faults_silent(struct vb_wire_faults *f, const uint8_t *gid, uint32_t qpn)
{
	bool silent;

	if (!atomic_load(&f->n_silent))
		return false;
	pthread_mutex_lock(&f->lock);
	silent = find_silent(f, gid, qpn);
	pthread_mutex_unlock(&f->lock);
	return silent;
}

void vb_wire_faults_anew(struct vb_wire_faults *f, const uint8_t *gid, uint32_t qpn)
{
	struct silent *found;

	pthread_mutex_lock(&f->lock);
	found = find_silent(f, gid, qpn);
	if (found)
		found->qpn = 0;
	pthread_mutex_unlock(&f->lock);
}

bool vb_wire_faults_down(struct vb_wire_faults *f)
{
	uint64_t until = atomic_load(&f->down_until_ns);

	return atomic_load(&f->lost) || (until && vb_now_ns() < until);
}

bool vb_wire_faults_not_ready(struct vb_wire_faults *f, uint32_t qpn)
{
	bool not_ready;

	pthread_mutex_lock(&f->lock);
	not_ready = vb_faults_not_ready(&f->rules, qpn);
	pthread_mutex_unlock(&f->lock);
	return not_ready;
}

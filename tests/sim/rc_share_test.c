/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many RC connections through one link with a short queue, in virtual time: each gets on, none
 * gets much more than another, and all data is right. Data come from the other end of the link
 * with READs, and go there with WRITEs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/fake_env.h"
#include "lib/simnet.h"
#include "transport/rc_comp.h"
#include "transport/rc_req.h"
#include "transport/rc_resp.h"

#define FLOWS_MAX 64
#define MTU	  1024u
#define PACKETS	  32u /* of a message */
#define SIZE	  (PACKETS * MTU)
#define DEPTH	  4 /* messages posted at a time */
#define RING	  8
#define OUT	  64
#define WINDOW	  48u
#define SERVE_NS  1000u	 /* the link takes a packet in that time */
#define DELAY_NS  10000u /* one way */
#define TIMEOUT	  8	 /* 1 ms */
#define RKEY	  0x1234u
#define BASE	  UINT64_C(0x7f0000000000)
#define CNP_NS	  50000u /* between two that tell of marks */
#define EVENTS	  8192
#define STEPS	  20000000u

/* One connection: its requester and its responder, at both sides of the link. */
struct flow {
	struct vb_rc_sq sq;
	struct vb_rc_wqe ring[RING];
	struct fake_env source, target;
	struct vb_resp_qp qp[2]; /* the requester's, the responder's */
	struct vb_rc_resp resp;
	uint8_t from[SIZE], to[SIZE];
	uint32_t posted, done, failed;
	bool reads;	 /* its data are responses */
	uint64_t cnp_ns; /* when its last mark was told */
	uint32_t marked;
};

struct event {
	uint64_t at_ns, order;
	uint32_t flow;
	bool response, marked;
	struct vb_packet pkt;
};

static struct net {
	struct flow flow[FLOWS_MAX];
	uint32_t flows, goal; /* messages of each */
	uint64_t now_ns, order, seed;
	uint64_t free_ns;	       /* when the link has taken all that waits */
	uint32_t room;		       /* packets that may wait */
	uint32_t mark;		       /* from here on they are marked; 0: never */
	uint32_t loss, loss_responses; /* per mille, beside what finds no room */
	uint64_t sent, dropped;
	uint32_t nevents;
	struct event *heap[EVENTS + 1];
	struct event pool[EVENTS];
} * net;

/* ---- events in order of time ---- */

static bool earlier(const struct event *a, const struct event *b)
{
	return a->at_ns < b->at_ns || (a->at_ns == b->at_ns && a->order < b->order);
}

static void swap(uint32_t a, uint32_t b)
{
	struct event *e = net->heap[a];

	net->heap[a] = net->heap[b];
	net->heap[b] = e;
}

static struct event *add(uint64_t at_ns, uint32_t flow, bool response, const struct vb_packet *pkt)
{
	struct event *e;
	uint32_t i;

	assert_true(net->nevents < EVENTS);
	i = ++net->nevents;
	e = net->heap[i];
	*e = (struct event){at_ns, net->order++, flow, response, false, *pkt};
	for (; i > 1 && earlier(net->heap[i], net->heap[i / 2]); i /= 2)
		swap(i, i / 2);
	return e;
}

static struct event take(void)
{
	struct event e = *net->heap[1];
	uint32_t i = 1, least;

	swap(1, net->nevents--);
	for (;; i = least) {
		least = i;
		for (uint32_t k = 2 * i; k <= 2 * i + 1 && k <= net->nevents; k++)
			if (earlier(net->heap[k], net->heap[least]))
				least = k;
		if (least == i)
			return e;
		swap(i, least);
	}
}

/* ---- the link ---- */

static bool chance(uint32_t per_mille)
{
	return sim_random(&net->seed) % 1000 < per_mille;
}

static void to_link(uint32_t flow, const struct vb_packet *pkt, bool response)
{
	/* Nobody's clock is exact: without that the same one would always come too late. */
	uint64_t come = net->now_ns + sim_random(&net->seed) % (4 * SERVE_NS);
	uint64_t from = net->free_ns > come ? net->free_ns : come;

	net->sent++;
	if (from - come > (uint64_t)net->room * SERVE_NS || chance(net->loss)) {
		net->dropped++;
		return;
	}
	net->free_ns = from + SERVE_NS;
	add(net->free_ns + DELAY_NS, flow, response, pkt)->marked =
		net->mark && from - come > (uint64_t)net->mark * SERVE_NS;
}

/* Without data: these fill no queue. */
static void beside_link(uint32_t flow, const struct vb_packet *pkt, bool response)
{
	if (!chance(net->loss_responses))
		add(net->now_ns + DELAY_NS, flow, response, pkt);
}

/* ---- the ends ---- */

static void post(struct flow *f)
{
	uint32_t slot = f->sq.tail % RING;

	if (f->posted == net->goal)
		return;
	f->ring[slot] = (struct vb_rc_wqe){.kind = f->reads ? VB_MSG_READ : VB_MSG_WRITE,
					   .signaled = true,
					   .rkey = RKEY,
					   .remote_addr = BASE,
					   .length = SIZE};
	f->source.local[slot] = f->from;
	f->source.local_len[slot] = SIZE;
	f->posted++;
	vb_rc_sq_posted(&f->sq);
}

static void carry_out(uint32_t flow, struct vb_out *out, bool response)
{
	struct flow *f = &net->flow[flow];

	for (uint32_t i = 0; i < out->count; i++) {
		struct vb_out_record *r = &out->records[i];

		if (r->kind == VB_OUT_SENT) {
			f->failed += r->sent.status != VB_WC_SUCCESS;
			f->done++;
			post(f);
		} else if (r->kind == VB_OUT_PACKET && r->packet.from == VB_PAYLOAD_NONE) {
			beside_link(flow, &r->packet.hdr, response);
		} else if (r->kind == VB_OUT_PACKET) {
			const uint8_t *from = r->packet.from == VB_PAYLOAD_WQE
						      ? f->from
						      : f->to + (r->packet.target.addr - BASE);

			r->packet.hdr.payload = from + r->packet.offset;
			to_link(flow, &r->packet.hdr, response);
		}
	}
	out->count = 0;
}

static void pump(uint32_t flow)
{
	struct vb_out_record records[OUT];
	struct vb_out out = {records, OUT, 0};
	struct flow *f = &net->flow[flow];
	bool more = true;

	while (more) {
		more = vb_rc_req_run(&f->sq, f->ring, &fake_req_env, &f->source, net->now_ns, 16,
				     &out);
		carry_out(flow, &out, false);
	}
	more = true;
	while (more) {
		more = vb_rc_resp_run(&f->resp, &f->qp[1], &fake_resp_env, &f->target, 16, &out);
		carry_out(flow, &out, true);
	}
}

static void arrive(const struct event *e)
{
	static const struct vb_source requester = {.has_gid = true, .gid = {1}};
	static const struct vb_source responder = {.has_gid = true, .gid = {2}};
	struct vb_out_record records[OUT];
	struct vb_out out = {records, OUT, 0};
	struct flow *f = &net->flow[e->flow];

	if (e->marked && net->now_ns - f->cnp_ns >= CNP_NS) {
		struct vb_packet cnp = {.becn = true};

		f->cnp_ns = net->now_ns;
		assert_true(
			vb_op_find(VB_SVC_CNP, VB_OP_CNP, VB_POS_ONLY, VB_EXTRA_NONE, &cnp.opcode));
		beside_link(e->flow, &cnp, !e->response);
		/* Who asked for the data has the window. */
		if (e->response)
			f->marked += vb_rc_sq_marked(&f->sq);
	}
	if (vb_op_row(e->pkt.opcode)->kind == VB_OP_CNP)
		f->marked += e->response && vb_rc_sq_marked(&f->sq);
	else if (e->response)
		vb_rc_comp_packet(&f->sq, f->ring, &f->qp[0], &fake_req_env, &f->source, &e->pkt,
				  &responder, net->now_ns, &out);
	else
		vb_rc_resp_packet(&f->resp, &f->qp[1], &fake_resp_env, &f->target, &e->pkt,
				  &requester, &out);
	carry_out(e->flow, &out, false);
	pump(e->flow);
}

static void init_flow(uint32_t index, bool reads)
{
	struct flow *f = &net->flow[index];
	struct vb_rc_sq_attr attr = {.service = VB_SVC_RC,
				     .ring_mask = RING - 1,
				     .path_mtu = MTU,
				     .pkey = VB_PKEY_DEFAULT,
				     .max_rd_atomic = DEPTH,
				     .timeout = TIMEOUT,
				     .retry_cnt = 7,
				     .window = WINDOW};

	f->reads = reads;
	vb_rc_sq_init(&f->sq, &attr);
	vb_rc_resp_init(&f->resp);
	fake_init(&f->source, NULL, 0, 0);
	fake_init(&f->target, f->to, BASE, SIZE);
	fake_key(&f->target, RKEY, 7, VB_ACCESS_REMOTE_WRITE | VB_ACCESS_REMOTE_READ, BASE, SIZE);
	for (int i = 0; i < 2; i++)
		f->qp[i] = (struct vb_resp_qp){.state = VB_QPS_RTS,
					       .type = VB_QPT_RC,
					       .pd = 7,
					       .access = VB_ACCESS_REMOTE_WRITE |
							 VB_ACCESS_REMOTE_READ,
					       .max_dest_rd_atomic = DEPTH,
					       .path_mtu = MTU,
					       .dest_gid = {i ? 1 : 2}};
	for (uint32_t i = 0; i < SIZE; i++)
		(f->reads ? f->to : f->from)[i] = (uint8_t)(sim_random(&net->seed) | 1);
	for (int i = 0; i < DEPTH; i++)
		post(f);
}

/* @reads: Every so many-th flow READs; 0: none */
static void set_up(uint32_t flows, uint32_t room, uint32_t goal, uint64_t seed, uint32_t reads)
{
	memset(net, 0, sizeof(*net));
	for (uint32_t i = 0; i < EVENTS; i++)
		net->heap[i + 1] = &net->pool[i];
	net->flows = flows;
	net->room = room;
	net->goal = goal;
	net->seed = seed;
	net->now_ns = 1000;
	for (uint32_t i = 0; i < flows; i++)
		init_flow(i, reads && i % reads == 0);
}

/* ---- time ---- */

static bool step(void)
{
	uint64_t when = net->nevents ? net->heap[1]->at_ns : VB_NEVER;
	uint32_t due = net->flows;
	struct event e;

	for (uint32_t i = 0; i < net->flows; i++)
		if (vb_rc_sq_next_ns(&net->flow[i].sq) < when) {
			when = vb_rc_sq_next_ns(&net->flow[i].sq);
			due = i;
		}
	if (when == VB_NEVER)
		return false;
	net->now_ns = when > net->now_ns ? when : net->now_ns;
	if (due < net->flows) {
		vb_rc_sq_timer(&net->flow[due].sq, net->flow[due].ring, net->now_ns);
		pump(due);
		return true;
	}
	e = take();
	arrive(&e);
	return true;
}

/* What has been acknowledged, in packets. */
static uint64_t progress(const struct flow *f)
{
	/* Messages are numbered one after the other. */
	return (uint64_t)f->done * PACKETS +
	       (uint32_t)vb_psn_diff(f->sq.una, vb_psn(f->done * PACKETS));
}

static uint64_t least(void)
{
	uint64_t min = UINT64_MAX;

	for (uint32_t i = 0; i < net->flows; i++)
		if (progress(&net->flow[i]) < min)
			min = progress(&net->flow[i]);
	return min;
}

static bool one_is_done(void)
{
	for (uint32_t i = 0; i < net->flows; i++)
		if (net->flow[i].done == net->goal)
			return true;
	return false;
}

/* Until the first is done: returns what the slowest had by then, in per cent. */
static uint32_t race(void)
{
	uint64_t steps = 0;

	for (uint32_t i = 0; i < net->flows; i++)
		pump(i);
	while (!one_is_done()) {
		assert_true(step());
		assert_true(steps++ < STEPS);
	}
	return (uint32_t)(100 * least() / ((uint64_t)net->goal * PACKETS));
}

static void finish(void)
{
	uint64_t steps = 0;

	while (step())
		assert_true(steps++ < STEPS);
	for (uint32_t i = 0; i < net->flows; i++) {
		assert_int_equal(net->flow[i].failed, 0);
		assert_int_equal(net->flow[i].done, net->goal);
		assert_memory_equal(net->flow[i].from, net->flow[i].to, SIZE);
	}
}

/* ---- the tests ---- */

static void share(uint32_t flows, uint32_t room, uint32_t goal, uint32_t reads)
{
	uint64_t needed = (uint64_t)flows * goal * PACKETS, start;
	uint32_t slowest;

	set_up(flows, room, goal, flows, reads);
	start = net->now_ns;
	slowest = race();
	print_message("%u flows, room for %u: slowest at %u%%, %llu%% sent, %llu%% lost, ", flows,
		      room, slowest, (unsigned long long)(100 * net->sent / needed),
		      (unsigned long long)(100 * net->dropped / net->sent));
	finish();
	print_message("link used %llu%%\n",
		      (unsigned long long)(100 * needed * SERVE_NS / (net->now_ns - start)));
	/* READs hear of a gap at once, WRITEs a round trip later: of both kinds one gets more. */
	assert_true(slowest >= (reads > 1 ? 40 : 50));
	/* Most of what is sent is of use. */
	assert_true(net->sent < 2 * needed);
}

static void test_share(void **state)
{
	share(2, 32, 400, 0);
	share(2, 8, 400, 0);
	share(8, 32, 200, 0);
	share(8, 64, 200, 0);
	share(32, 64, 200, 0);
	share(32, 128, 200, 0);
	share(64, 64, 200, 0);
	share(64, 256, 200, 0);
}

/* Marks come before the queue is full: hardly anything is lost. */
static void marks(uint32_t flows, uint32_t room, uint32_t goal, uint32_t reads)
{
	uint64_t needed = (uint64_t)flows * goal * PACKETS, start;
	uint32_t slowest;

	set_up(flows, room, goal, flows, reads);
	net->mark = room / 4;
	start = net->now_ns;
	slowest = race();
	finish();
	print_message("%u flows, marks from %u: slowest at %u%%, %llu of %llu lost, "
		      "link used %llu%%\n",
		      flows, net->mark, slowest, (unsigned long long)net->dropped,
		      (unsigned long long)net->sent,
		      (unsigned long long)(100 * needed * SERVE_NS / (net->now_ns - start)));
	assert_true(slowest >= 50);
	assert_true(net->flow[0].marked > 0);
	/* Of the windows with which all begin. */
	assert_true(50 * net->dropped < net->sent);
}

static void test_marks(void **state)
{
	marks(2, 64, 400, 0);
	marks(8, 128, 200, 0);
	marks(32, 256, 200, 0);
}

static void test_reads(void **state)
{
	share(2, 32, 400, 1);
	share(8, 32, 200, 1);
	share(32, 128, 200, 1);
	/* Those of one kind and those of the other. */
	share(2, 32, 400, 2);
	share(8, 64, 200, 2);
	marks(8, 128, 200, 1);
	marks(8, 128, 200, 2);
}

/* Loss whatever the rate, as of a bad link. */
static void test_bad_link(void **state)
{
	for (uint32_t per_cent = 10; per_cent <= 30; per_cent += 10) {
		set_up(8, 64, 10, per_cent, 4);
		net->loss = 10 * per_cent;
		net->loss_responses = 10;
		race();
		finish();
	}
}

/* One that comes late gets its share of the others. */
static void test_late(void **state)
{
	uint64_t before, others = 0;
	uint32_t posted;

	set_up(4, 32, 400, 3, 0);
	posted = net->flow[3].sq.tail;
	net->flow[3].sq.tail = 0;
	for (uint32_t i = 0; i < 3; i++)
		pump(i);
	while (net->flow[0].done < 100)
		assert_true(step());
	for (uint32_t i = 0; i < 3; i++)
		others += progress(&net->flow[i]);
	before = others;
	net->flow[3].sq.tail = posted;
	pump(3);
	while (progress(&net->flow[3]) < 100 * PACKETS)
		assert_true(step());
	others = 0;
	for (uint32_t i = 0; i < 3; i++)
		others += progress(&net->flow[i]);
	/* Meanwhile the others did not do twice as much each. */
	assert_true(others - before < 2 * 3 * 100 * PACKETS);
	finish();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_share), cmocka_unit_test(test_marks),
		cmocka_unit_test(test_reads), cmocka_unit_test(test_bad_link),
		cmocka_unit_test(test_late),
	};
	int bad;

	net = calloc(1, sizeof(*net));
	if (!net)
		return 1;
	bad = cmocka_run_group_tests(tests, NULL, NULL);
	free(net);
	return bad;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two sides of a connection on a bad link, in virtual time. Where anything gets through, both
 * establish and disconnect, each being told each thing once; else both end. A failure prints
 * the command that repeats it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cm/conn.h"
#include "lib/simnet.h"

#define FRAMES	512
#define DELAY	UINT64_C(1000000)
#define SECOND	UINT64_C(1000000000)
#define SIDES	2
#define ACTIVE	0
#define PASSIVE 1
#define NONE	0xffffffffu
/* A sanitizer takes ten times as long: it looks at some of the masks and seeds. */
#ifdef VB_SANITIZED
#define STEP 31
#else
#define STEP 1
#endif

/* What the programs on both sides do. Repetitions that come while a program thinks are not
 * answered: what may be lost is that much less. */
struct plan {
	bool hold_req, hold_rep;   /* a MRA first, the answer later */
	bool reject, reject_reply; /* instead of accepting; of ready */
	bool sidr;
	bool early;	       /* the first data comes before the RTU */
	uint32_t who_ends;     /* bit: a side that disconnects */
	bool hasty;	       /* without waiting until the other is established */
	uint64_t think[SIDES]; /* how long a program takes for its answers */
};

struct link {
	uint64_t drop_mask;	     /* bit n: the n-th message is lost */
	uint32_t loss, dup, reorder; /* per mille */
	uint32_t count;
};

struct frame {
	uint64_t at, order;
	int to;
	uint8_t bytes[VB_MAD_LEN];
};

struct side {
	struct vb_cm_conn conn;
	bool begun; /* the passive one: by a request */
	uint32_t told[VB_CM_SIDR_ANSWERED + 1];
	uint64_t act_at; /* when its program does something, 0 never */
	enum vb_cm_what act_on;
	struct link link; /* of what it sends */
};

static struct {
	struct plan plan;
	struct side side[SIDES];
	struct frame frames[FRAMES];
	uint32_t nframes;
	uint64_t now, order, seed, steps;
} run;
static char repeat[200];

static uint32_t chance(void)
{
	return sim_random(&run.seed) % 1000;
}

/* ---- The link ---- */

static void put(int to, const uint8_t *bytes, uint64_t at)
{
	assert_true(run.nframes < FRAMES);
	run.frames[run.nframes] = (struct frame){.at = at, .order = run.order++, .to = to};
	memcpy(run.frames[run.nframes++].bytes, bytes, VB_MAD_LEN);
}

static void transmit(int from, const struct vb_cm_out *out)
{
	struct link *link = &run.side[from].link;
	uint32_t n = link->count++;
	uint64_t delay = DELAY;

	if (n < 64 && link->drop_mask >> n & 1)
		return;
	if (chance() < link->loss)
		return;
	/* Up to some seconds: past later repetitions, and past the end. */
	if (chance() < link->reorder)
		delay += sim_random(&run.seed) % (4 * SECOND);
	put(!from, out->bytes, run.now + delay);
	if (chance() < link->dup)
		put(!from, out->bytes, run.now + delay + sim_random(&run.seed) % (2 * SECOND));
}

/* ---- The programs ---- */

static void later(int s, enum vb_cm_what on)
{
	run.side[s].act_on = on;
	run.side[s].act_at = run.now + 1 + run.plan.think[s];
}

static bool established(int s)
{
	return run.side[s].conn.state == VB_CM_ESTABLISHED;
}

/* Where both are there one may end it. */
static void maybe_end(void)
{
	for (int s = 0; s < SIDES; s++) {
		bool other = established(!s) || run.plan.hasty;

		if (established(s) && other && run.plan.who_ends >> s & 1 && !run.side[s].act_at)
			later(s, VB_CM_NOTHING);
	}
}

static void tell(int s, const struct vb_cm_out *out)
{
	struct side *side = &run.side[s];

	if (out->send)
		transmit(s, out);
	if (out->what) {
		side->told[out->what]++;
		if (out->what == VB_CM_REPLY || out->what == VB_CM_DISCONNECTED)
			later(s, out->what);
	}
	maybe_end();
}

static void answer_request(struct side *side, struct vb_cm_out *out)
{
	struct vb_cm_msg msg = {.qpn = 0x22, .service_timeout = 21, .reason = VB_CM_REJ_CONSUMER};

	if (run.plan.sidr) {
		assert_true(vb_cm_send_sidr_rep(&side->conn, &msg, out));
	} else if (run.plan.hold_req && side->conn.last_attr != VB_CM_MRA) {
		assert_true(vb_cm_send_mra(&side->conn, &msg, out));
		later(PASSIVE, VB_CM_REPLY);
	} else if (run.plan.reject) {
		assert_true(vb_cm_send_rej(&side->conn, &msg, out));
	} else {
		assert_true(vb_cm_send_rep(&side->conn, &msg, run.now, out));
	}
}

static void answer_reply(struct side *side, struct vb_cm_out *out)
{
	struct vb_cm_msg msg = {.service_timeout = 21, .reason = VB_CM_REJ_CONSUMER};

	if (run.plan.hold_rep && side->conn.last_attr != VB_CM_MRA) {
		assert_true(vb_cm_send_mra(&side->conn, &msg, out));
		later(ACTIVE, VB_CM_REPLY);
	} else if (run.plan.reject_reply) {
		assert_true(vb_cm_send_rej(&side->conn, &msg, out));
	} else {
		assert_true(vb_cm_send_rtu(&side->conn, &msg, out));
		if (run.plan.early && vb_cm_data_came(&run.side[PASSIVE].conn))
			run.side[PASSIVE].told[VB_CM_READY]++;
	}
}

static void act(int s)
{
	struct side *side = &run.side[s];
	struct vb_cm_out out = {0};

	side->act_at = 0;
	switch (side->act_on) {
	case VB_CM_REPLY:
		/* It may have ended meanwhile. */
		if (s == PASSIVE &&
		    (side->conn.state == VB_CM_REQ_RCVD || side->conn.state == VB_CM_SIDR_RCVD))
			answer_request(side, &out);
		else if (s == ACTIVE && side->conn.state == VB_CM_REP_RCVD)
			answer_reply(side, &out);
		break;
	default:
		/* To end, or to agree to it. */
		vb_cm_disconnect(&side->conn, NULL, run.now, &out);
	}
	tell(s, &out);
}

/* ---- What comes ---- */

/* What the agent does: a request begins a connection, the rest is for one or for nobody. */
static void arrive(const struct frame *frame)
{
	struct side *side = &run.side[frame->to];
	struct vb_cm_out out = {0};
	struct vb_cm_msg msg;

	assert_true(vb_cm_parse(frame->bytes, VB_MAD_LEN, &msg));
	if (frame->to == PASSIVE && !side->begun) {
		if (!vb_cm_to_service(&msg)) {
			vb_cm_answer_unknown(&msg, 0, &out);
			if (out.send)
				transmit(frame->to, &out);
			return;
		}
		side->begun = true;
		if (msg.attr == VB_CM_REQ)
			vb_cm_take_req(&side->conn, &msg);
		else
			vb_cm_take_sidr_req(&side->conn, &msg);
		later(PASSIVE, VB_CM_REPLY);
		return;
	}
	vb_cm_receive(&side->conn, &msg, run.now, &out);
	tell(frame->to, &out);
}

static uint32_t earliest(void)
{
	uint32_t best = NONE;

	for (uint32_t i = 0; i < run.nframes; i++)
		if (best == NONE || run.frames[i].at < run.frames[best].at ||
		    (run.frames[i].at == run.frames[best].at &&
		     run.frames[i].order < run.frames[best].order))
			best = i;
	return best;
}

static bool sooner(uint64_t at, uint64_t *best)
{
	if (!at || at >= *best)
		return false;
	*best = at;
	return true;
}

/* One step at the next time when something happens; false where nothing will any more. */
static bool step(void)
{
	uint32_t f = earliest();
	uint64_t at = f == NONE ? UINT64_MAX : run.frames[f].at;
	int timer = -1, program = -1;
	struct vb_cm_out out;

	for (int s = 0; s < SIDES; s++) {
		if (sooner(run.side[s].conn.due_ns, &at)) {
			timer = s;
			program = -1;
		}
		if (sooner(run.side[s].act_at, &at))
			program = s;
	}
	if (at == UINT64_MAX)
		return false;
	assert_true(at >= run.now);
	run.now = at;
	if (program >= 0) {
		act(program);
	} else if (timer >= 0) {
		vb_cm_expire(&run.side[timer].conn, run.now, &out);
		tell(timer, &out);
	} else {
		struct frame frame = run.frames[f];

		run.frames[f] = run.frames[--run.nframes];
		arrive(&frame);
	}
	return true;
}

static void begin(uint64_t seed, const struct plan *plan)
{
	memset(&run, 0, sizeof(run));
	run.plan = *plan;
	run.seed = seed + 1;
	run.now = SECOND;
	for (int s = 0; s < SIDES; s++)
		run.side[s].conn.local_id = 0x100 + (uint32_t)s;
}

static void go(void)
{
	struct vb_cm_msg msg = {.qpn = 0x11,
				.remote_timeout = VB_CM_RESPONSE_TIMEOUT,
				.local_timeout = VB_CM_RESPONSE_TIMEOUT,
				.path.ack_timeout = 17};
	struct vb_cm_out out = {0};
	struct side *a = &run.side[ACTIVE];

	assert_true(run.plan.sidr ? vb_cm_send_sidr_req(&a->conn, &msg, run.now, &out)
				  : vb_cm_send_req(&a->conn, &msg, run.now, &out));
	tell(ACTIVE, &out);
	while (step())
		assert_true(++run.steps < 10000);
}

/* ---- What must hold ---- */

static uint32_t told(int s, enum vb_cm_what what)
{
	return run.side[s].told[what];
}

/* However it went. */
static void check_ends(void)
{
	const struct side *p = &run.side[PASSIVE];

	for (int s = 0; s < SIDES; s++) {
		const struct side *side = &run.side[s];
		uint32_t ends = told(s, VB_CM_REJECTED) + told(s, VB_CM_UNREACHABLE) +
				told(s, VB_CM_REPLY_LOST) + told(s, VB_CM_DISCONNECTED);

		for (int what = 1; what <= VB_CM_SIDR_ANSWERED; what++)
			assert_in_range(side->told[what], 0, 1);
		/* One end, of whatever kind, and a rest after what was established. */
		assert_in_range(ends, 0, 1);
		assert_true(told(s, VB_CM_TIMEWAIT_EXIT) <= ends);
		assert_true(side->conn.state == VB_CM_IDLE ||
			    (run.plan.sidr && side->conn.state == VB_CM_SIDR_RCVD));
		assert_int_equal(side->conn.due_ns, 0);
	}
	assert_int_equal(told(ACTIVE, VB_CM_READY), 0);
	assert_int_equal(told(PASSIVE, VB_CM_REPLY), 0);
	/* Nobody is told to be connected by a peer who never answered. */
	assert_true(!told(ACTIVE, VB_CM_REPLY) || p->begun);
}

static void check_connected(void)
{
	check_ends();
	assert_int_equal(told(ACTIVE, VB_CM_REPLY), 1);
	if (!run.plan.hasty)
		assert_int_equal(told(PASSIVE, VB_CM_READY), 1);
	for (int s = 0; s < SIDES; s++) {
		assert_int_equal(told(s, VB_CM_DISCONNECTED), 1);
		assert_int_equal(told(s, VB_CM_TIMEWAIT_EXIT), 1);
	}
}

static void check_rejected(void)
{
	check_ends();
	assert_int_equal(told(ACTIVE, VB_CM_REJECTED), run.plan.reject);
	assert_int_equal(told(PASSIVE, VB_CM_REJECTED), run.plan.reject_reply);
	assert_int_equal(told(PASSIVE, VB_CM_READY), 0);
}

static void check_answered(void)
{
	check_ends();
	assert_int_equal(told(ACTIVE, VB_CM_SIDR_ANSWERED), 1);
}

static void check_good(void)
{
	if (run.plan.sidr)
		check_answered();
	else if (run.plan.reject || run.plan.reject_reply)
		check_rejected();
	else
		check_connected();
}

/* ---- Runs ---- */

static const struct plan plans[] = {
	{.who_ends = 1},
	{.who_ends = 2},
	{.who_ends = 3},
	{.who_ends = 1, .hasty = true},
	{.who_ends = 1, .hold_req = true, .think = {0, 3 * SECOND}},
	{.who_ends = 2, .hold_rep = true, .think = {SECOND / 10, 0}},
	{.who_ends = 2, .early = true},
	{.who_ends = 1, .early = true, .hasty = true},
	{.reject = true},
	{.reject_reply = true},
	{.sidr = true},
	{.who_ends = 1, .think = {0, 2 * SECOND}},
};
#define PLANS (sizeof(plans) / sizeof(plans[0]))

/* So many messages at the start of each direction may be lost. The whole of a direction's first
 * sixteen is a request, or a reply, with all its repetitions. */
static void one_masked(uint32_t plan, uint32_t forth, uint32_t back)
{
	snprintf(repeat, sizeof(repeat), "VB_CM_PLAN=%u VB_CM_MASKS=0x%x,0x%x", plan, forth, back);
	begin(1, &plans[plan]);
	run.side[ACTIVE].link.drop_mask = forth;
	run.side[PASSIVE].link.drop_mask = back;
	go();
	if (forth == 0xffff) {
		check_ends();
		assert_int_equal(told(ACTIVE, VB_CM_UNREACHABLE), 1);
		assert_false(run.side[PASSIVE].begun);
	} else if (back == 0xffff) {
		check_ends();
	} else if (!(forth && back)) {
		check_good();
	} else {
		check_ends();
	}
}

static void one_random(uint64_t seed)
{
	struct plan plan = plans[seed % PLANS];
	uint64_t s = seed * 2654435761u + 17;
	uint32_t most = 0;

	snprintf(repeat, sizeof(repeat), "VB_CM_SEED=%llu", (unsigned long long)seed);
	for (int i = 0; i < SIDES; i++)
		plan.think[i] += sim_random(&s) % (2 * SECOND);
	begin(seed, &plan);
	for (int i = 0; i < SIDES; i++) {
		struct link *link = &run.side[i].link;

		link->loss = sim_random(&s) % 301;
		link->dup = sim_random(&s) % 301;
		link->reorder = sim_random(&s) % 301;
		most = link->loss > most ? link->loss : most;
	}
	go();
	/* Of sixteen tries one gets through, at any loss that is drawn here; but the agreement to
	 * the end is nobody's to repeat, so that one may hear of it by its silence. */
	if (told(ACTIVE, VB_CM_UNREACHABLE) || told(PASSIVE, VB_CM_REPLY_LOST))
		check_ends();
	else
		check_good();
	if (!most)
		check_good();
}

static int print_repeat(void **state)
{
	(void)state;
	if (repeat[0])
		print_message("repeat: %s build/tests/sim.cm_test\n", repeat);
	return 0;
}

static int clear_repeat(void **state)
{
	(void)state;
	repeat[0] = '\0';
	return 0;
}

static void all_masks_of_one_direction(void **state)
{
	(void)state;
	/* All of them for one and the other end, for datagrams, and where both wait; else every
	 * seventh, and those with a long loss at their start or end. */
	for (uint32_t plan = 0; plan < PLANS; plan++)
		for (uint32_t mask = 0; mask <= 0xffff; mask += STEP) {
			if (plan % 4 && mask % 7 && (mask & 0xff) != 0xff && mask < 0xff00)
				continue;
			one_masked(plan, mask, 0);
			one_masked(plan, 0, mask);
		}
	repeat[0] = '\0';
}

static void masks_of_both_directions(void **state)
{
	uint64_t s = 7;

	(void)state;
	for (uint32_t plan = 0; plan < PLANS; plan += 4) {
		for (uint32_t masks = 0; masks <= 0xffff; masks += STEP)
			one_masked(plan, masks & 0xff, masks >> 8);
		for (uint32_t i = 0; i < 3000; i += STEP)
			one_masked(plan, sim_random(&s) & 0xffff, sim_random(&s) & 0xffff);
	}
	repeat[0] = '\0';
}

static void loss_duplicates_and_reorder(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 30000; seed += STEP)
		one_random(seed);
	repeat[0] = '\0';
}

static void again(void **state)
{
	const char *seed = getenv("VB_CM_SEED"), *plan = getenv("VB_CM_PLAN");
	const char *masks = getenv("VB_CM_MASKS");
	unsigned int forth, back;

	(void)state;
	if (seed)
		one_random(strtoull(seed, NULL, 0));
	if (plan && masks && sscanf(masks, "%i,%i", (int *)&forth, (int *)&back) == 2)
		one_masked((uint32_t)strtoul(plan, NULL, 0) % PLANS, forth, back);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(all_masks_of_one_direction, clear_repeat,
						print_repeat),
		cmocka_unit_test_setup_teardown(masks_of_both_directions, clear_repeat,
						print_repeat),
		cmocka_unit_test_setup_teardown(loss_duplicates_and_reorder, clear_repeat,
						print_repeat),
	};
	const struct CMUnitTest one[] = {cmocka_unit_test(again)};

	if (getenv("VB_CM_SEED") || getenv("VB_CM_MASKS"))
		return cmocka_run_group_tests(one, NULL, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

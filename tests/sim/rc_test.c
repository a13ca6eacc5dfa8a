/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two whole RC endpoints on a bad link. Every run posts a mixed workload and checks
 * it against a model that executes the operations one after the other: completions
 * once and in order, all data and all results of atomics right. A failure prints the
 * command that repeats it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/simnet.h"

#define BASE	 UINT64_C(0x7f0000001000)
#define MEM	 (64 * 1024)
#define COUNTERS 0     /* four of 8 bytes */
#define HOT	 4096  /* written and read by all, reads are fenced off */
#define SOURCE	 16384 /* only read */
#define SLOTS	 32768 /* each WRITE its own kilobyte */
#define SLOT	 2048
#define OPS_MAX	 40
#define BUF	 9000
#define RKEY	 0x1234
#define INV_KEY	 0x9000

struct op {
	enum vb_msg_kind kind;
	uint32_t length;
	uint32_t at; /* offset in the target's memory */
	bool imm, inv, fence;
};

/* Everything of one run. */
struct run {
	struct simnet *net;
	struct op ops[OPS_MAX];
	uint32_t nops;
	uint8_t fresh[MEM], mem[2][MEM], model[2][MEM];
	uint8_t local[2][OPS_MAX][BUF];
	uint8_t want[2][OPS_MAX][BUF]; /* READs and atomics: what local must hold */
	uint8_t recv[2][OPS_MAX][BUF];
	uint32_t nrecvs, recvs_posted[2];
	bool both; /* traffic in both directions */
	uint64_t seed;
};

static struct run *run;
static uint64_t seen[VB_V_COUNT]; /* verdicts of all runs so far */
static char repeat[200];

/* ---- workload ---- */

static const struct op mixed[] = {
	{.kind = VB_MSG_SEND, .length = 0, .at = 0},
	{.kind = VB_MSG_SEND, .length = 1, .at = 0, .imm = true},
	{.kind = VB_MSG_WRITE, .length = 255, .at = SLOTS},
	{.kind = VB_MSG_READ, .length = 257, .at = SOURCE},
	{.kind = VB_MSG_FETCH_ADD, .length = 8, .at = COUNTERS},
	{.kind = VB_MSG_WRITE, .length = 256, .at = SLOTS + SLOT, .imm = true},
	{.kind = VB_MSG_SEND, .length = 600, .at = 0},
	{.kind = VB_MSG_CMP_SWP, .length = 8, .at = COUNTERS},
	{.kind = VB_MSG_WRITE, .length = 300, .at = HOT},
	{.kind = VB_MSG_READ, .length = 700, .at = SOURCE + 700},
	{.kind = VB_MSG_READ, .length = 300, .at = HOT},
	{.kind = VB_MSG_WRITE, .length = 513, .at = HOT, .fence = true},
	{.kind = VB_MSG_SEND, .length = 512, .at = 0, .imm = true},
	{.kind = VB_MSG_READ, .length = 0, .at = SOURCE},
	{.kind = VB_MSG_WRITE, .length = 0, .at = SLOTS, .imm = true},
	{.kind = VB_MSG_FETCH_ADD, .length = 8, .at = COUNTERS + 8},
	{.kind = VB_MSG_SEND, .length = 5, .at = 0, .inv = true},
	{.kind = VB_MSG_CMP_SWP, .length = 8, .at = COUNTERS},
};

static uint8_t pattern(int from, uint32_t op, uint32_t i)
{
	return (uint8_t)(from * 97 + op * 131 + i * 7 + (i >> 8) * 31 + 1);
}

static bool takes_recv(const struct op *op)
{
	return op->kind == VB_MSG_SEND || op->imm;
}

/* Run an operation on the model, in posting order. */
static void execute_model(int from, uint32_t i)
{
	const struct op *op = &run->ops[i];
	uint8_t *at = run->model[!from] + op->at;
	uint64_t value, old;

	switch (op->kind) {
	case VB_MSG_WRITE:
		for (uint32_t k = 0; k < op->length; k++)
			at[k] = pattern(from, i, k);
		break;
	case VB_MSG_READ:
		memcpy(run->want[from][i], at, op->length);
		break;
	case VB_MSG_CMP_SWP:
	case VB_MSG_FETCH_ADD:
		memcpy(&old, at, 8);
		/* A compare and swap hits when nothing was done twice. */
		value = op->kind == VB_MSG_FETCH_ADD ? old + i + 1 : i + 1000;
		memcpy(at, &value, 8);
		memcpy(run->want[from][i], &old, 8);
		break;
	default:
		break;
	}
}

static void post(int from, uint32_t i)
{
	const struct op *op = &run->ops[i];
	struct vb_rc_wqe wqe = {
		.wr_id = 100 + i,
		.kind = op->kind,
		.with_imm = op->imm,
		.with_inv = op->inv,
		.solicited = i & 1,
		.fence = op->fence,
		.signaled = true,
		.rkey = RKEY + (uint32_t)!from,
		.remote_addr = BASE + op->at,
		.length = op->length,
		.imm = 0xabcd0000 + i,
		.inv_rkey = INV_KEY + i,
		.compare_add = i + 1,
	};
	uint8_t *local = run->local[from][i];

	execute_model(from, i);
	if (op->kind == VB_MSG_CMP_SWP) {
		memcpy(&wqe.compare_add, run->want[from][i], 8);
		wqe.swap = i + 1000;
	}
	if (op->kind == VB_MSG_SEND || op->kind == VB_MSG_WRITE)
		for (uint32_t k = 0; k < op->length; k++)
			local[k] = pattern(from, i, k);
	else
		memset(local, 0xee, op->length);
	sim_post(run->net, from, &wqe, local);
}

/* ---- receives, some posted late ---- */

static void post_recv(int at)
{
	uint32_t n = run->recvs_posted[at]++;

	memset(run->recv[at][n], 0xdd, BUF);
	fake_post_recv(&run->net->end[at].env, 500 + n, run->recv[at][n], BUF);
}

static void late_recv(void *arg)
{
	int at = arg ? 1 : 0;

	if (run->recvs_posted[at] < run->nrecvs)
		post_recv(at);
}

static void set_up(const struct sim_conf *conf, const struct op *ops, uint32_t nops, bool both,
		   uint32_t early_recvs)
{
	if (!run) {
		run = calloc(1, sizeof(*run));
		assert_non_null(run);
		run->net = sim_new();
		for (uint32_t i = 0; i < MEM; i++)
			run->fresh[i] = (uint8_t)(i * 13 + (i >> 8));
	}
	sim_init(run->net, conf);
	memcpy(run->ops, ops, nops * sizeof(*ops));
	run->nops = nops;
	run->both = both;
	run->seed = conf->seed;
	run->nrecvs = 0;
	for (uint32_t i = 0; i < nops; i++)
		run->nrecvs += takes_recv(&ops[i]);
	for (int e = 0; e < 2; e++) {
		struct fake_env *env = &run->net->end[e].env;

		fake_init(env, run->mem[e], BASE, MEM);
		fake_key(env, RKEY + (uint32_t)e, 7,
			 VB_ACCESS_REMOTE_WRITE | VB_ACCESS_REMOTE_READ | VB_ACCESS_REMOTE_ATOMIC,
			 BASE, MEM);
		for (uint32_t i = 0; i < nops; i++)
			if (ops[i].inv)
				fake_key(env, INV_KEY + i, 7, 0, BASE, 1)->invalidatable = true;
		memcpy(run->mem[e], run->fresh, MEM);
		memcpy(run->model[e], run->fresh, MEM);
		run->recvs_posted[e] = 0;
		for (uint32_t i = 0; i < run->nrecvs; i++) {
			if (i < early_recvs)
				post_recv(e);
			else
				sim_at(run->net, 300000 + i * 50000, late_recv, e ? run : NULL);
		}
	}
}

static void post_all(void)
{
	for (uint32_t i = 0; i < run->nops; i++) {
		post(0, i);
		if (run->both)
			post(1, i);
	}
}

/* ---- what must have come of it ---- */

static void check_sender(int from)
{
	const struct sim_end *end = &run->net->end[from];

	assert_int_equal(end->nsent, run->nops);
	assert_int_equal(end->sq.rd_atomic, 0);
	for (uint32_t i = 0; i < run->nops; i++) {
		const struct op *op = &run->ops[i];

		assert_int_equal(end->sent[i].wr_id, 100 + i);
		assert_int_equal(end->sent[i].status, VB_WC_SUCCESS);
		if (op->kind == VB_MSG_READ || vb_rc_is_atomic(op->kind)) {
			assert_int_equal(end->sent[i].byte_len, op->length);
			assert_memory_equal(run->local[from][i], run->want[from][i], op->length);
		}
	}
}

static void check_recv(int from, uint32_t n, uint32_t i)
{
	const struct fake_env *env = &run->net->end[!from].env;
	const struct vb_recv_completion *c = &env->done[n];
	const struct op *op = &run->ops[i];
	const uint8_t *buf = run->recv[!from][n];
	uint32_t scattered = op->kind == VB_MSG_SEND ? op->length : 0;

	assert_int_equal(env->done_id[n], 500 + n);
	assert_int_equal(c->status, VB_WC_SUCCESS);
	assert_int_equal(c->opcode,
			 op->kind == VB_MSG_SEND ? VB_WC_OP_RECV : VB_WC_OP_RECV_RDMA_WITH_IMM);
	assert_int_equal(c->byte_len, op->length);
	assert_int_equal(c->flags, op->imm ? VB_WC_WITH_IMM : op->inv ? VB_WC_WITH_INV : 0);
	if (op->imm)
		assert_int_equal(c->imm_or_key, 0xabcd0000 + i);
	if (op->inv)
		assert_int_equal(c->imm_or_key, INV_KEY + i);
	assert_int_equal(c->solicited, i & 1);
	assert_int_equal(c->src_qpn, run->net->end[from].qp.qpn);
	for (uint32_t k = 0; k < scattered; k++)
		assert_int_equal(buf[k], pattern(from, i, k));
	assert_int_equal(buf[scattered], 0xdd);
}

static void check_receiver(int from)
{
	const struct sim_end *end = &run->net->end[!from];
	uint32_t n = 0, atomics = 0, inv = 0, pieces = 0, mtu = run->net->end[from].qp.path_mtu;

	for (uint32_t i = 0; i < run->nops; i++) {
		const struct op *op = &run->ops[i];

		/* A READ is one request or, where the window is small, several. */
		if (op->kind == VB_MSG_READ)
			pieces += vb_psn_count(op->length, mtu) - 1;
		if (takes_recv(op))
			check_recv(from, n++, i);
		atomics += vb_rc_is_atomic(op->kind);
		inv += op->inv;
	}
	assert_int_equal(end->env.ndone, n);
	assert_int_equal(end->env.takes, n);
	assert_int_equal(end->env.atomics, atomics);
	assert_int_equal(end->env.invalidates, inv);
	assert_in_range(end->qp.msn, run->nops, run->nops + pieces);
	assert_int_equal(end->qp.epsn.v, run->net->end[from].sq.next.v);
	assert_memory_equal(run->mem[!from], run->model[!from], MEM);
}

static void check_all(void)
{
	for (int from = 0; from <= run->both; from++) {
		check_sender(from);
		check_receiver(from);
	}
	for (int e = 0; e < 2; e++) {
		assert_int_equal(run->net->end[e].qp_errs, 0);
		assert_int_equal(run->net->end[e].nevents, 0);
	}
}

/* ---- one run of each kind, by numbers only ---- */

static const struct sim_conf masked = {
	.seed = 1,
	.mtu = 256,
	.window = 16,
	.timeout = 6, /* 262 us */
	.retry_cnt = 7,
	.rnr_retry = 7,
	.min_rnr_timer = 1, /* 10 us */
	.rd_atomic = 2,
	.psn = 0xfffff8,
};

static void one_masked(uint64_t seed, uint64_t mask_a, uint64_t mask_b)
{
	struct sim_conf conf = masked;

	conf.seed = seed;
	/* The seed chooses how many receives are there from the beginning. */
	set_up(&conf, mixed, sizeof(mixed) / sizeof(mixed[0]), false, (uint32_t)seed);
	run->net->end[0].link.drop_mask = mask_a;
	run->net->end[1].link.drop_mask = mask_b;
	post_all();
	sim_run(run->net);
	check_all();
	/* Every bit of the masks meant a packet. */
	assert_true(run->net->end[0].link.count >= 12 && run->net->end[1].link.count >= 12);
}

static struct op random_op(uint64_t *s, uint32_t i, uint32_t mtu)
{
	const uint32_t sizes[] = {0,	       1,	mtu - 1,     mtu,     mtu + 1,
				  2 * mtu - 1, 2 * mtu, 2 * mtu + 1, 4 * mtu, 5 * mtu + 3};
	struct op op = {.kind = (enum vb_msg_kind)(sim_random(s) % 5)};
	uint32_t room = SLOT;

	op.length = sizes[sim_random(s) % 10];
	if (op.length >= BUF)
		op.length = BUF - 1;
	op.imm = sim_random(s) % 3 == 0 && op.kind <= VB_MSG_WRITE;
	if (op.kind == VB_MSG_SEND) {
		op.inv = !op.imm && i < 6 && sim_random(s) % 2;
		return op;
	}
	if (vb_rc_is_atomic(op.kind)) {
		op.length = 8;
		op.at = COUNTERS + 8 * (sim_random(s) % 4);
		return op;
	}
	if (op.length > room)
		op.length = room;
	if (sim_random(s) % 2) {
		op.at = HOT;
		op.fence = op.kind == VB_MSG_WRITE;
	} else if (op.kind == VB_MSG_READ) {
		op.at = SOURCE + sim_random(s) % 8192;
	} else {
		op.at = SLOTS + (i % 16) * SLOT;
		op.fence = true;
	}
	return op;
}

/* What a seed makes of a link and of the ends. */
static void random_conf(uint64_t *s, struct sim_conf *conf)
{
	static const uint32_t mtus[] = {256, 256, 512, 1024, 4096};
	static const uint32_t psns[] = {0, 0x7ffff8, 0xfffff0, 0xffffff, 0x123456};

	*conf = masked;
	conf->mtu = mtus[sim_random(s) % 5];
	conf->window = 1 + sim_random(s) % 40;
	conf->rd_atomic = (uint8_t)(1 + sim_random(s) % 16);
	conf->psn = psns[sim_random(s) % 5];
	conf->out_cap = 4 + sim_random(s) % 12;
	conf->budget = 1 + sim_random(s) % 20;
	conf->min_rnr_timer = (uint8_t)(1 + sim_random(s) % 8);
}

static void random_link(uint64_t *s, struct sim_link *link, uint32_t mutate)
{
	static const uint32_t rates[] = {0, 5, 20, 50, 80};

	link->loss = rates[sim_random(s) % 5];
	link->dup = rates[sim_random(s) % 5];
	link->reorder = rates[sim_random(s) % 5];
	link->corrupt = rates[sim_random(s) % 3];
	link->mutate = mutate;
	link->delay_ns = 1000 + sim_random(s) % 20000;
}

static void random_set_up(uint64_t seed, uint32_t mutate)
{
	struct op ops[OPS_MAX];
	struct sim_conf conf;
	uint64_t s = seed * 2654435761u;
	uint32_t nops = 1 + sim_random(&s) % OPS_MAX;
	bool both;

	random_conf(&s, &conf);
	conf.seed = seed;
	for (uint32_t i = 0; i < nops; i++)
		ops[i] = random_op(&s, i, conf.mtu);
	both = sim_random(&s) % 2;
	set_up(&conf, ops, nops, both, sim_random(&s) % OPS_MAX);
	for (int e = 0; e < 2; e++)
		random_link(&s, &run->net->end[e].link, mutate);
	post_all();
}

static void one_random(uint64_t seed, uint64_t mask_a, uint64_t mask_b)
{
	random_set_up(seed, 0);
	run->net->end[0].link.drop_mask = mask_a;
	run->net->end[1].link.drop_mask = mask_b;
	sim_run(run->net);
	check_all();
}

/* A peer that sends nonsense with a good ICRC: everything ends, and ends once. */
static void one_mutated(uint64_t seed, uint64_t mask_a, uint64_t mask_b)
{
	random_set_up(seed, 30);
	sim_run(run->net);
	for (int e = 0; e <= run->both; e++) {
		const struct sim_end *end = &run->net->end[e];

		assert_int_equal(end->nsent, run->nops);
		for (uint32_t i = 0; i < end->nsent; i++)
			assert_int_equal(end->sent[i].wr_id, 100 + i);
	}
}

/* ---- the tests ---- */

static const struct kind {
	const char *name;
	void (*one)(uint64_t seed, uint64_t mask_a, uint64_t mask_b);
} kinds[] = {
	{"masked", one_masked},
	{"random", one_random},
	{"mutated", one_mutated},
};

static void go(const char *name, uint64_t seed, uint64_t mask_a, uint64_t mask_b)
{
	snprintf(repeat, sizeof(repeat), "sim.rc_test %s %llu %#llx %#llx", name,
		 (unsigned long long)seed, (unsigned long long)mask_a, (unsigned long long)mask_b);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(kinds[i].name, name) == 0)
			kinds[i].one(seed, mask_a, mask_b);
	for (int v = 0; v < VB_V_COUNT; v++)
		seen[v] += run->net->end[0].verdicts[v] + run->net->end[1].verdicts[v];
	repeat[0] = 0;
}

static int say_how_to_repeat(void **state)
{
	if (repeat[0])
		print_error("repeat with: build/tests/%s\n", repeat);
	repeat[0] = 0;
	return 0;
}

static void test_every_request_mask(void **state)
{
	for (uint64_t mask = 0; mask < 4096; mask++)
		go("masked", 2, mask, 0);
}

static void test_every_response_mask(void **state)
{
	for (uint64_t mask = 0; mask < 4096; mask++)
		go("masked", 2, 0, mask);
}

static void test_masks_in_both(void **state)
{
	uint64_t s = 4711;

	for (int i = 0; i < 4096; i++) {
		uint64_t a = sim_random(&s) & 4095, b = sim_random(&s) & 4095;

		go("masked", sim_random(&s) % 8, a, b);
	}
}

/* Up to k packets of the first 64 lost in each direction. */
static void test_sparse_masks(void **state)
{
	uint64_t s = 1234;

	for (int i = 0; i < 4096; i++) {
		uint64_t a = 0, b = 0;

		for (uint32_t k = sim_random(&s) % 8; k; k--) {
			a |= UINT64_C(1) << sim_random(&s) % 64;
			b |= UINT64_C(1) << sim_random(&s) % 64;
		}
		go("masked", sim_random(&s) % 8, a, b);
	}
}

static void test_random_links(void **state)
{
	for (uint64_t seed = 1; seed <= 3000; seed++)
		go("random", seed, 0, 0);
}

/* The runs before this one went through every way of losing and finding again. */
static void test_all_ways_taken(void **state)
{
	static const enum vb_verdict ways[] = {
		VB_V_ACCEPTED, VB_V_DUPLICATE, VB_V_DROP_GAP,  VB_V_NAK_SEQ,
		VB_V_RNR,      VB_V_ACK_STALE, VB_V_ACK_EARLY,
	};

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (seen[ways[i]] == 0)
			fail_msg("no packet was %s", vb_verdict_name(ways[i]));
}

static void test_nonsense(void **state)
{
	for (uint64_t seed = 1; seed <= 3000; seed++)
		go("mutated", seed, 0, 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_every_request_mask, say_how_to_repeat),
		cmocka_unit_test_teardown(test_every_response_mask, say_how_to_repeat),
		cmocka_unit_test_teardown(test_masks_in_both, say_how_to_repeat),
		cmocka_unit_test_teardown(test_sparse_masks, say_how_to_repeat),
		cmocka_unit_test_teardown(test_random_links, say_how_to_repeat),
		cmocka_unit_test(test_all_ways_taken),
		cmocka_unit_test_teardown(test_nonsense, say_how_to_repeat),
	};

	/* NAME SEED MASK_A MASK_B: one run, failing where it fails. */
	if (argc == 5) {
		go(argv[1], strtoull(argv[2], NULL, 0), strtoull(argv[3], NULL, 0),
		   strtoull(argv[4], NULL, 0));
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}

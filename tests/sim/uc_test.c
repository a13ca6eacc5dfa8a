/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two UC endpoints on a bad link. A message arrives whole or not at all, in order, and the
 * sender never hears of it. Where the link only loses packets, which messages arrive follows
 * from which packets were lost. A failure prints the command that repeats it.
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

#define BASE	UINT64_C(0x7f0000001000)
#define MTU	256
#define BUF	2048
#define OPS_MAX 40
#define RKEY	0x1234
#define NEVER	0xffffffffu

struct op {
	enum vb_msg_kind kind;
	uint32_t length;
	bool imm;
};

static struct {
	struct simnet *net;
	struct op ops[OPS_MAX];
	uint32_t nops;
	uint8_t mem[OPS_MAX * BUF]; /* each WRITE its own part */
	uint8_t local[OPS_MAX][BUF], recv[OPS_MAX][BUF];
} run;
static uint64_t seen[VB_V_COUNT];
static char repeat[200];

static const struct op mixed[] = {
	{VB_MSG_SEND, 0, true},	      {VB_MSG_SEND, MTU - 1, true},  {VB_MSG_WRITE, 2 * MTU, false},
	{VB_MSG_SEND, MTU + 1, true}, {VB_MSG_WRITE, 3 * MTU, true}, {VB_MSG_WRITE, 0, true},
	{VB_MSG_SEND, 5, true},	      {VB_MSG_SEND, 4 * MTU, true},  {VB_MSG_WRITE, 1, false},
};

static uint32_t packets(const struct op *op)
{
	return vb_psn_count(op->length, MTU);
}

static bool takes_recv(const struct op *op)
{
	return op->kind == VB_MSG_SEND || op->imm;
}

static uint8_t pattern(uint32_t op, uint32_t at)
{
	return (uint8_t)(op * 131 + at * 7 + (at >> 8) * 31 + 1);
}

static void set_up(uint64_t seed, const struct op *ops, uint32_t nops)
{
	struct sim_conf conf = {.service = VB_SVC_UC, .seed = seed, .mtu = MTU, .psn = 0xfffff8};
	struct fake_env *env;

	if (!run.net)
		run.net = sim_new();
	conf.out_cap = 4 + (uint32_t)(seed % 9);
	conf.budget = 1 + (uint32_t)(seed % 7);
	sim_init(run.net, &conf);
	memcpy(run.ops, ops, nops * sizeof(*ops));
	run.nops = nops;
	memset(run.mem, 0xee, sizeof(run.mem));
	memset(run.recv, 0xdd, sizeof(run.recv));
	env = &run.net->end[1].env;
	fake_init(env, run.mem, BASE, sizeof(run.mem));
	env->peeks = true;
	fake_key(env, RKEY, 7, VB_ACCESS_REMOTE_WRITE, BASE, sizeof(run.mem));
	for (uint32_t i = 0; i < nops; i++)
		if (takes_recv(&ops[i]))
			fake_post_recv(env, i, run.recv[i], BUF);
}

static void post_all(void)
{
	for (uint32_t i = 0; i < run.nops; i++) {
		const struct op *op = &run.ops[i];
		struct vb_rc_wqe wqe = {
			.wr_id = 100 + i,
			.kind = op->kind,
			.with_imm = op->imm,
			.solicited = i & 1,
			.signaled = true,
			.rkey = RKEY,
			.remote_addr = BASE + (uint64_t)i * BUF,
			.length = op->length,
			.imm = i,
		};

		for (uint32_t k = 0; k < op->length; k++)
			run.local[i][k] = pattern(i, k);
		sim_post(run.net, 0, &wqe, run.local[i]);
	}
	sim_run(run.net);
}

static void check_sender(void)
{
	const struct sim_end *end = &run.net->end[0];

	assert_int_equal(end->nsent, run.nops);
	for (uint32_t i = 0; i < run.nops; i++) {
		assert_int_equal(end->sent[i].wr_id, 100 + i);
		assert_int_equal(end->sent[i].status, VB_WC_SUCCESS);
	}
	assert_int_equal(run.net->end[1].link.count, 0); /* nothing is ever answered */
	assert_int_equal(run.net->end[1].qp_errs, 0);
	assert_int_equal(end->qp_errs, 0);
}

/* The n-th receive holds a whole message. Returns which. */
static uint32_t check_recv(uint32_t n)
{
	const struct fake_env *env = &run.net->end[1].env;
	const struct vb_recv_completion *c = &env->done[n];
	uint32_t i = c->imm_or_key;
	const struct op *op = &run.ops[i];

	assert_true(i < run.nops && takes_recv(op));
	assert_int_equal(c->status, VB_WC_SUCCESS);
	assert_int_equal(c->byte_len, op->length);
	assert_int_equal(c->flags, VB_WC_WITH_IMM);
	assert_int_equal(c->solicited, i & 1);
	assert_int_equal(c->opcode,
			 op->kind == VB_MSG_SEND ? VB_WC_OP_RECV : VB_WC_OP_RECV_RDMA_WITH_IMM);
	for (uint32_t k = 0; k < op->length; k++)
		assert_int_equal(op->kind == VB_MSG_SEND ? run.recv[env->done_id[n]][k]
							 : run.mem[i * BUF + k],
				 pattern(i, k));
	return i;
}

/* A WRITE's memory: each packet's bytes are there or untouched, and nothing else is. */
static void check_write(uint32_t i, bool whole)
{
	const struct op *op = &run.ops[i];
	uint8_t *at = run.mem + i * BUF;

	for (uint32_t k = 0; k < op->length; k += MTU)
		for (uint32_t b = k; b < k + MTU && b < op->length; b++)
			assert_int_equal(at[b], whole || at[k] != 0xee ? pattern(i, b) : 0xee);
	for (uint32_t k = op->length; k < BUF; k++)
		assert_int_equal(at[k], 0xee);
}

static void one_masked(uint64_t seed, uint64_t mask)
{
	const struct fake_env *env;
	uint32_t first = 0, n = 0, whole = 0;

	set_up(seed, mixed, sizeof(mixed) / sizeof(mixed[0]));
	run.net->end[0].link.drop_mask = mask;
	env = &run.net->end[1].env;
	post_all();
	check_sender();
	for (uint32_t i = 0; i < run.nops; i++) {
		uint64_t mine = (UINT64_C(1) << packets(&run.ops[i])) - 1;
		bool arrives = !(mask >> first & mine);

		first += packets(&run.ops[i]);
		whole += arrives;
		if (run.ops[i].kind == VB_MSG_WRITE)
			check_write(i, arrives);
		if (arrives && takes_recv(&run.ops[i]))
			assert_int_equal(check_recv(n++), i);
	}
	assert_int_equal(env->ndone, n);
	assert_int_equal(run.net->end[1].qp.msn, whole);
	assert_int_equal(run.net->end[0].link.count, first);
}

static void one_random(uint64_t seed, uint64_t mask)
{
	static const uint32_t sizes[] = {0, 1, MTU - 1, MTU, MTU + 1, 3 * MTU, 5 * MTU + 3};
	uint64_t s = seed * 2654435761u;
	struct op ops[OPS_MAX];
	struct sim_link *link;

	for (uint32_t i = 0; i < OPS_MAX; i++) {
		bool write = sim_random(&s) % 2;

		ops[i] = (struct op){write ? VB_MSG_WRITE : VB_MSG_SEND, sizes[sim_random(&s) % 7],
				     !write || sim_random(&s) % 2};
	}
	set_up(seed, ops, 1 + sim_random(&s) % OPS_MAX);
	link = &run.net->end[0].link;
	link->drop_mask = mask;
	link->loss = sim_random(&s) % 300;
	link->dup = sim_random(&s) % 300;
	link->reorder = sim_random(&s) % 300;
	link->corrupt = sim_random(&s) % 300;
	post_all();
	check_sender();
	for (uint32_t n = 0; n < run.net->end[1].env.ndone; n++)
		check_recv(n);
	for (uint32_t i = 0; i < run.nops; i++)
		if (ops[i].kind == VB_MSG_WRITE)
			check_write(i, false);
}

static void go(const char *name, uint64_t seed, uint64_t mask)
{
	snprintf(repeat, sizeof(repeat), "sim.uc_test %s %llu 0x%llx", name,
		 (unsigned long long)seed, (unsigned long long)mask);
	if (!strcmp(name, "masked"))
		one_masked(seed, mask);
	else
		one_random(seed, mask);
	for (int v = 0; v < VB_V_COUNT; v++)
		seen[v] += run.net->end[1].verdicts[v];
	repeat[0] = 0;
}

static int say_how_to_repeat(void **state)
{
	if (repeat[0])
		print_message("repeat with: %s\n", repeat);
	return 0;
}

static void test_every_mask(void **state)
{
	for (uint64_t mask = 0; mask < 65536; mask++)
		go("masked", mask % 13, mask);
}

static void test_random_links(void **state)
{
	for (uint64_t seed = 1; seed <= 3000; seed++)
		go("random", seed, 0);
}

static void test_all_ways_taken(void **state)
{
	assert_true(seen[VB_V_ACCEPTED] && seen[VB_V_DROP_BROKEN]);
}

/* Nothing but trouble with its own receive fails the QP; then the receive says why. */
static void test_short_receive(void **state)
{
	static const struct op op = {VB_MSG_SEND, 2 * MTU, true};
	struct sim_end *end;

	set_up(1, &op, 1);
	end = &run.net->end[1];
	end->env.recvs[0].length = MTU + 1;
	post_all();
	assert_int_equal(run.net->end[0].sent[0].status, VB_WC_SUCCESS);
	assert_int_equal(end->env.ndone, 1);
	assert_int_equal(end->env.done[0].status, VB_WC_LOC_LEN_ERR);
	assert_int_equal(end->qp_errs, 1);
	assert_int_equal(end->nevents, 0);
}

/* A bad key, no receive, no right: dropped, and the next message arrives. */
static void test_dropped_in_silence(void **state)
{
	static const struct op ops[] = {{VB_MSG_WRITE, 2 * MTU, false},
					{VB_MSG_WRITE, 3, true},
					{VB_MSG_SEND, 3 * MTU, true}};
	struct sim_end *end;

	for (int what = 0; what < 3; what++) {
		set_up(1, ops, 3);
		end = &run.net->end[1];
		if (what == 0)
			end->env.keys[0].rkey = 1;
		else if (what == 1)
			end->qp.access = 0;
		else
			end->env.recv_tail = 0;
		post_all();
		check_sender();
		assert_int_equal(end->env.ndone, what < 2);
		if (what < 2)
			assert_int_equal(check_recv(0), 2);
		assert_int_equal(run.mem[0], what == 2 ? pattern(0, 0) : 0xee);
	}
}

/* READs and atomics are not for UC, and the send side ends: the QP receives on. */
static void test_read_refused(void **state)
{
	static const struct op op = {VB_MSG_READ, 8, false};

	set_up(1, &op, 1);
	post_all();
	assert_int_equal(run.net->end[0].nsent, 1);
	assert_int_equal(run.net->end[0].sent[0].status, VB_WC_LOC_QP_OP_ERR);
	assert_int_equal(run.net->end[0].qp_errs, 0);
	assert_int_equal(run.net->end[0].link.count, 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_every_mask, say_how_to_repeat),
		cmocka_unit_test_teardown(test_random_links, say_how_to_repeat),
		cmocka_unit_test(test_all_ways_taken),
		cmocka_unit_test(test_short_receive),
		cmocka_unit_test(test_dropped_in_silence),
		cmocka_unit_test(test_read_refused),
	};

	/* NAME SEED MASK: one run, failing where it fails. */
	if (argc == 4) {
		go(argv[1], strtoull(argv[2], NULL, 0), strtoull(argv[3], NULL, 0));
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Every way a message can fail: statuses at both ends, the flush behind, the event, the
 * states, and memory that stays what it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/child.h"
#include "lib/verbs_pair.h"

#define RIGHTS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define BYTES	4096u
#define NOTHING (-1)

/* What is broken, beside the operation. */
enum fault {
	NO_FAULT,
	LKEY_UNKNOWN,
	LKEY_IS_RKEY,
	LKEY_DEREGISTERED,
	LKEY_OTHER_PD,
	LKEY_READ_ONLY,
	LKEY_BEFORE,
	LKEY_BEYOND,
	RKEY_UNKNOWN,
	RKEY_IS_LKEY,
	RKEY_DEREGISTERED,
	RKEY_OTHER_PD,
	RKEY_NO_RIGHT,
	RKEY_BEFORE,
	RKEY_BEYOND,
	RKEY_WRAPS,
	QP_NO_RIGHT,
	QP_NO_DEST_RD_ATOMIC,
	NO_RD_ATOMIC,
	ADDR_UNALIGNED,
	ATOMIC_7,
	ATOMIC_16,
	RECV_SHORT,
	RECV_LKEY,
	RECV_READ_ONLY,
	RECV_RKEY,
	RECV_DEREGISTERED,
	RECV_OTHER_PD,
	TOO_LONG,
	FAULTS
};

#define OP(opcode) (1u << (opcode))
#define SENDS	   (OP(IBV_WR_SEND) | OP(IBV_WR_SEND_WITH_IMM))
#define WRITES	   (OP(IBV_WR_RDMA_WRITE) | OP(IBV_WR_RDMA_WRITE_WITH_IMM))
#define ATOMICS	   (OP(IBV_WR_ATOMIC_CMP_AND_SWP) | OP(IBV_WR_ATOMIC_FETCH_AND_ADD))
#define READS	   (OP(IBV_WR_RDMA_READ) | ATOMICS)
#define REMOTE	   (WRITES | READS)
#define ANY	   (SENDS | REMOTE)

/* One row: the fault, the operations it concerns, and what becomes of both ends. */
static const struct rule {
	enum fault fault;
	unsigned int ops;
	enum ibv_wc_status sender;
	int receiver; /* status of the receive that was taken, NOTHING */
	int event;    /* at the receiver where none was taken, NOTHING */
	bool b_fails;
} rules[] = {
	{LKEY_UNKNOWN, ANY, IBV_WC_LOC_PROT_ERR, NOTHING, NOTHING, false},
	{LKEY_IS_RKEY, ANY, IBV_WC_LOC_PROT_ERR, NOTHING, NOTHING, false},
	{LKEY_DEREGISTERED, ANY, IBV_WC_LOC_PROT_ERR, NOTHING, NOTHING, false},
	{LKEY_OTHER_PD, ANY, IBV_WC_LOC_PROT_ERR, NOTHING, NOTHING, false},
	{LKEY_READ_ONLY, READS, IBV_WC_LOC_PROT_ERR, NOTHING, NOTHING, false},
	{LKEY_BEFORE, ANY, IBV_WC_LOC_PROT_ERR, NOTHING, NOTHING, false},
	{LKEY_BEYOND, ANY, IBV_WC_LOC_PROT_ERR, NOTHING, NOTHING, false},
	{RKEY_UNKNOWN, REMOTE, IBV_WC_REM_ACCESS_ERR, NOTHING, IBV_EVENT_QP_ACCESS_ERR, true},
	{RKEY_IS_LKEY, REMOTE, IBV_WC_REM_ACCESS_ERR, NOTHING, IBV_EVENT_QP_ACCESS_ERR, true},
	{RKEY_DEREGISTERED, REMOTE, IBV_WC_REM_ACCESS_ERR, NOTHING, IBV_EVENT_QP_ACCESS_ERR, true},
	{RKEY_OTHER_PD, REMOTE, IBV_WC_REM_ACCESS_ERR, NOTHING, IBV_EVENT_QP_ACCESS_ERR, true},
	{RKEY_NO_RIGHT, REMOTE, IBV_WC_REM_ACCESS_ERR, NOTHING, IBV_EVENT_QP_ACCESS_ERR, true},
	{RKEY_BEFORE, REMOTE, IBV_WC_REM_ACCESS_ERR, NOTHING, IBV_EVENT_QP_ACCESS_ERR, true},
	{RKEY_BEYOND, REMOTE, IBV_WC_REM_ACCESS_ERR, NOTHING, IBV_EVENT_QP_ACCESS_ERR, true},
	{RKEY_WRAPS, REMOTE, IBV_WC_REM_ACCESS_ERR, NOTHING, IBV_EVENT_QP_ACCESS_ERR, true},
	{QP_NO_RIGHT, REMOTE, IBV_WC_REM_ACCESS_ERR, NOTHING, IBV_EVENT_QP_ACCESS_ERR, true},
	{QP_NO_DEST_RD_ATOMIC, READS, IBV_WC_REM_INV_REQ_ERR, NOTHING, IBV_EVENT_QP_REQ_ERR, true},
	{NO_RD_ATOMIC, READS, IBV_WC_LOC_QP_OP_ERR, NOTHING, NOTHING, false},
	{ADDR_UNALIGNED, ATOMICS, IBV_WC_REM_INV_REQ_ERR, NOTHING, IBV_EVENT_QP_REQ_ERR, true},
	{ATOMIC_7, ATOMICS, IBV_WC_LOC_LEN_ERR, NOTHING, NOTHING, false},
	{ATOMIC_16, ATOMICS, IBV_WC_LOC_LEN_ERR, NOTHING, NOTHING, false},
	{RECV_SHORT, SENDS, IBV_WC_REM_INV_REQ_ERR, IBV_WC_LOC_LEN_ERR, NOTHING, true},
	{RECV_LKEY, SENDS, IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR, NOTHING, true},
	{RECV_READ_ONLY, SENDS, IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR, NOTHING, true},
	{RECV_RKEY, SENDS, IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR, NOTHING, true},
	{RECV_DEREGISTERED, SENDS, IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR, NOTHING, true},
	{RECV_OTHER_PD, SENDS, IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR, NOTHING, true},
	{TOO_LONG, SENDS | WRITES | OP(IBV_WR_RDMA_READ), IBV_WC_LOC_LEN_ERR, NOTHING, NOTHING,
	 false},
};
#define RULES (sizeof(rules) / sizeof(rules[0]))

static unsigned int right_of(enum ibv_wr_opcode opcode)
{
	if (OP(opcode) & WRITES)
		return IBV_ACCESS_REMOTE_WRITE;
	if (OP(opcode) & ATOMICS)
		return IBV_ACCESS_REMOTE_ATOMIC;
	return opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_REMOTE_READ : 0;
}

struct run {
	struct verbs_pair pair;
	const struct rule *rule;
	enum ibv_wr_opcode opcode;
	struct test_mem local;
	struct ibv_pd *other_pd;
	struct pair_rep remote;
	struct ibv_sge sge;
	uint64_t remote_addr;
	uint32_t rkey;
	bool takes;
};

static void set_local(struct run *r)
{
	enum fault fault = r->rule->fault;
	struct ibv_pd *pd = r->pair.a.pd;
	bool atomic = OP(r->opcode) & ATOMICS;

	if (fault == LKEY_OTHER_PD) {
		r->other_pd = ibv_alloc_pd(r->pair.a.context);
		pd = r->other_pd;
	}
	mem_new(&r->local, pd, MEM_ANON, BYTES,
		fault == LKEY_READ_ONLY ? IBV_ACCESS_REMOTE_READ : RIGHTS);
	r->sge = (struct ibv_sge){
		.addr = r->local.start, .length = atomic ? 8 : BYTES, .lkey = r->local.mr->lkey};
	if (fault == LKEY_UNKNOWN)
		r->sge.lkey ^= 0x7f;
	if (fault == LKEY_IS_RKEY)
		r->sge.lkey = r->local.mr->rkey;
	if (fault == LKEY_DEREGISTERED) {
		assert_int_equal(ibv_dereg_mr(r->local.mr), 0);
		r->local.mr = NULL;
	}
	if (fault == LKEY_BEFORE)
		r->sge.addr--;
	if (fault == LKEY_BEYOND)
		r->sge.addr = r->local.start + BYTES - r->sge.length + 1;
	if (fault == ATOMIC_7)
		r->sge.length = 7;
	if (fault == ATOMIC_16)
		r->sge.length = 16;
	if (fault == TOO_LONG)
		r->sge.length = 0x40000001;
}

static void set_remote(struct run *r)
{
	enum fault fault = r->rule->fault;
	struct pair_req req = {.op = PAIR_MEM_NEW, .length = BYTES, .access = RIGHTS};

	req.other_pd = fault == RKEY_OTHER_PD || fault == RECV_OTHER_PD;
	if (fault == RKEY_NO_RIGHT)
		req.access &= ~right_of(r->opcode);
	if (fault == RECV_READ_ONLY)
		req.access = IBV_ACCESS_REMOTE_READ;
	r->remote = pair_call(&r->pair, &req);
	r->remote_addr = r->remote.addr;
	r->rkey = r->remote.rkey;
	if (fault == RKEY_UNKNOWN)
		r->rkey ^= 0x7f;
	if (fault == RKEY_IS_LKEY)
		r->rkey = r->remote.lkey;
	if (fault == RKEY_BEFORE)
		r->remote_addr -= 8;
	if (fault == RKEY_BEYOND)
		r->remote_addr += OP(r->opcode) & ATOMICS ? BYTES : 1;
	if (fault == RKEY_WRAPS)
		r->remote_addr = UINT64_MAX - 7;
	if (fault == ADDR_UNALIGNED)
		r->remote_addr += 4;
	if (fault == RKEY_DEREGISTERED) {
		req = (struct pair_req){.op = PAIR_MEM_DEREG, .mem = r->remote.mem};
		pair_call(&r->pair, &req);
	}
}

static void post_receives(struct run *r)
{
	struct pair_req req = {.op = PAIR_POST_RECV, .mem = r->remote.mem, .n = 1};

	r->takes = r->opcode == IBV_WR_RDMA_WRITE_WITH_IMM || OP(r->opcode) & SENDS;
	req.spans[0].len = BYTES;
	for (int i = 0; i < 3; i++) {
		req.wr_id = 100u + (unsigned)i;
		req.lkey = 0;
		if (!i && r->rule->fault == RECV_SHORT)
			req.spans[0].len = BYTES - 1;
		if (!i && r->rule->fault == RECV_LKEY)
			req.lkey = r->remote.lkey ^ 0x7f;
		if (!i && r->rule->fault == RECV_RKEY)
			req.lkey = r->remote.rkey;
		assert_int_equal(pair_call(&r->pair, &req).ret, 0);
		req.spans[0].len = BYTES;
	}
	if (r->rule->fault == RECV_DEREGISTERED) {
		req = (struct pair_req){.op = PAIR_MEM_DEREG, .mem = r->remote.mem};
		pair_call(&r->pair, &req);
	}
}

static void expect_wc(const struct ibv_wc *wc, uint64_t wr_id, enum ibv_wc_status status,
		      uint32_t qpn)
{
	assert_int_equal(wc->wr_id, wr_id);
	assert_int_equal(wc->status, status);
	assert_int_equal(wc->qp_num, qpn);
}

/* One good message before, the bad one, two more behind that flush, and two posted later. */
static void post_all(struct run *r)
{
	struct ibv_wc wc;

	/* An empty WRITE needs the QP's right as well. */
	if (r->rule->fault != QP_NO_RIGHT) {
		assert_int_equal(post_rdma(&r->pair.a, IBV_WR_RDMA_WRITE, 1, NULL, 0, 0, 0,
					   IBV_SEND_SIGNALED),
				 0);
		wait_wc(r->pair.a.send_cq, &wc);
		expect_wc(&wc, 1, IBV_WC_SUCCESS, r->pair.a.qp->qp_num);
	}
	/* Errors complete though nothing asks for a completion. */
	assert_int_equal(
		post_rdma(&r->pair.a, r->opcode, 2, &r->sge, 1, r->remote_addr, r->rkey, 0), 0);
	assert_int_equal(post_send(&r->pair.a, 3, NULL, 0, 0), 0);
	assert_int_equal(post_send(&r->pair.a, 4, NULL, 0, IBV_SEND_SIGNALED), 0);
}

static void check_a(struct run *r)
{
	struct ibv_wc wc;

	wait_wc(r->pair.a.send_cq, &wc);
	expect_wc(&wc, 2, r->rule->sender, r->pair.a.qp->qp_num);
	for (uint64_t id = 3; id <= 4; id++) {
		wait_wc(r->pair.a.send_cq, &wc);
		expect_wc(&wc, id, IBV_WC_WR_FLUSH_ERR, r->pair.a.qp->qp_num);
	}
	assert_int_equal(end_query(&r->pair.a), IBV_QPS_ERR);
	assert_int_equal(post_send(&r->pair.a, 5, NULL, 0, 0), 0);
	assert_int_equal(post_recv(&r->pair.a, 6, NULL, 0), 0);
	wait_wc(r->pair.a.send_cq, &wc);
	expect_wc(&wc, 5, IBV_WC_WR_FLUSH_ERR, r->pair.a.qp->qp_num);
	wait_wc(r->pair.a.recv_cq, &wc);
	expect_wc(&wc, 6, IBV_WC_WR_FLUSH_ERR, r->pair.a.qp->qp_num);
	assert_true(no_wc(r->pair.a.send_cq));
	assert_true(no_wc(r->pair.a.recv_cq));
	assert_false(readable(r->pair.a.context->async_fd));
}

static void check_b(struct run *r)
{
	int status = r->rule->receiver;
	struct ibv_wc wc;

	if (!r->rule->b_fails) {
		assert_int_equal(pair_b(&r->pair, PAIR_NO_RECV).ret, 0);
		assert_int_equal(pair_b(&r->pair, PAIR_STATE).ret, IBV_QPS_RTS);
		assert_int_equal(pair_b(&r->pair, PAIR_NO_EVENT).ret, 0);
		return;
	}
	for (uint64_t id = 100; id < 103; id++) {
		wc = pair_b(&r->pair, PAIR_WAIT_RECV).wc;
		expect_wc(&wc, id,
			  id == 100 && status != NOTHING ? (enum ibv_wc_status)status
							 : IBV_WC_WR_FLUSH_ERR,
			  r->pair.b_qpn);
	}
	assert_int_equal(pair_b(&r->pair, PAIR_NO_RECV).ret, 0);
	assert_int_equal(pair_b(&r->pair, PAIR_STATE).ret, IBV_QPS_ERR);
	if (r->rule->event != NOTHING) {
		struct pair_rep rep = pair_b(&r->pair, PAIR_EVENT);

		assert_int_equal(rep.ret, r->rule->event);
		assert_int_equal(rep.qp_num, r->pair.b_qpn);
	}
}

static void check_memory(struct run *r)
{
	struct pair_req req = {.op = PAIR_MEM_CHECK, .mem = r->remote.mem};

	assert_int_equal(pair_call(&r->pair, &req).ret, 0);
	assert_true(mem_holds(&r->local, NULL, 0, 0));
}

static struct pair_opts opts_of(const struct rule *rule, enum ibv_wr_opcode opcode)
{
	struct pair_opts opts = pair_defaults;

	if (rule->fault == QP_NO_RIGHT)
		opts.access &= ~right_of(opcode);
	if (rule->fault == QP_NO_DEST_RD_ATOMIC)
		opts.dest_rd_atomic = 0;
	if (rule->fault == NO_RD_ATOMIC)
		opts.rd_atomic = 0;
	return opts;
}

static void run_rule(const struct rule *rule, enum ibv_wr_opcode opcode, bool two)
{
	struct pair_opts opts = opts_of(rule, opcode);
	struct run r = {.rule = rule, .opcode = opcode};

	pair_create(&r.pair, &opts, two);
	set_local(&r);
	set_remote(&r);
	post_receives(&r);
	post_all(&r);
	check_a(&r);
	check_b(&r);
	check_memory(&r);
	mem_free(&r.local);
	if (r.other_pd)
		assert_int_equal(ibv_dealloc_pd(r.other_pd), 0);
	pair_destroy(&r.pair);
}

static void run_rules(bool two)
{
	for (size_t i = 0; i < RULES; i++)
		for (int op = 0; op <= IBV_WR_ATOMIC_FETCH_AND_ADD; op++)
			if (OP(op) & rules[i].ops) {
				print_message("fault %d opcode %d\n", (int)rules[i].fault, op);
				run_rule(&rules[i], (enum ibv_wr_opcode)op, two);
			}
}

static void test_one_process(void **state)
{
	run_rules(false);
}

static void test_two_processes(void **state)
{
	run_rules(true);
}

/* No row was forgotten. */
static void test_all_faults(void **state)
{
	for (int fault = NO_FAULT + 1; fault < FAULTS; fault++) {
		bool found = false;

		for (size_t i = 0; i < RULES; i++)
			found |= (int)rules[i].fault == fault;
		assert_true(found);
	}
}

/* A WRITE with immediate of one packet has taken the receive when its key is looked at. */
static void test_write_imm_access(void **state)
{
	for (int two = 0; two < 2; two++) {
		struct verbs_pair pair;
		struct test_mem local;
		struct pair_rep remote;
		struct ibv_sge sge;
		struct ibv_wc wc;

		pair_create(&pair, &pair_defaults, two);
		mem_new(&local, pair.a.pd, MEM_ANON, 64, 0);
		remote = pair_b_mem(&pair, MEM_ANON, 64, RIGHTS);
		assert_int_equal(pair_b_recv(&pair, 7, 0, NULL, 0), 0);
		sge = (struct ibv_sge){local.start, 64, local.mr->lkey};
		assert_int_equal(post_rdma(&pair.a, IBV_WR_RDMA_WRITE_WITH_IMM, 1, &sge, 1,
					   remote.addr, remote.lkey, 0),
				 0);
		wait_wc(pair.a.send_cq, &wc);
		expect_wc(&wc, 1, IBV_WC_REM_ACCESS_ERR, pair.a.qp->qp_num);
		wc = pair_b(&pair, PAIR_WAIT_RECV).wc;
		expect_wc(&wc, 7, IBV_WC_LOC_ACCESS_ERR, pair.b_qpn);
		assert_int_equal(pair_b(&pair, PAIR_STATE).ret, IBV_QPS_ERR);
		mem_free(&local);
		pair_destroy(&pair);
	}
}

/* Keys are not looked at where there are no bytes. */
static void test_empty_messages(void **state)
{
	for (int two = 0; two < 2; two++) {
		struct ibv_sge sge = {.addr = 1, .length = 0, .lkey = 0xbad};
		struct verbs_pair pair;
		struct ibv_wc wc;

		pair_create(&pair, &pair_defaults, two);
		assert_int_equal(pair_b_recv(&pair, 1, 0, NULL, 0), 0);
		assert_int_equal(post_send(&pair.a, 2, &sge, 1, IBV_SEND_SIGNALED), 0);
		assert_int_equal(post_rdma(&pair.a, IBV_WR_RDMA_WRITE, 3, &sge, 1, 5, 0xbad, 0), 0);
		assert_int_equal(post_rdma(&pair.a, IBV_WR_RDMA_READ, 4, &sge, 1, 5, 0xbad,
					   IBV_SEND_SIGNALED),
				 0);
		for (uint64_t id = 2; id <= 4; id += 2) {
			wait_wc(pair.a.send_cq, &wc);
			expect_wc(&wc, id, IBV_WC_SUCCESS, pair.a.qp->qp_num);
		}
		wc = pair_b(&pair, PAIR_WAIT_RECV).wc;
		expect_wc(&wc, 1, IBV_WC_SUCCESS, pair.b_qpn);
		assert_int_equal(wc.byte_len, 0);
		pair_destroy(&pair);
	}
}

/* ---- Silence ---- */

enum silence { B_RESET, B_INIT, B_ERR, B_NO_QP, B_OTHER_PEER, B_PSN_AHEAD, B_PSN_BEHIND, SILENCES };

static void check_silence(enum silence why, bool two)
{
	const uint64_t timeout_ns = 4096u << 12; /* 16.8 ms */
	struct pair_opts opts = pair_defaults;
	struct verbs_pair pair;
	uint32_t qpn, psn = 0;
	uint64_t begin, took;
	struct ibv_wc wc;

	opts.timeout = 12;
	opts.retry_cnt = 2;
	pair_create_raw(&pair, &opts, two);
	qpn = pair.b_qpn;
	if (why != B_RESET)
		assert_int_equal(pair_b_modify(&pair, IBV_QPS_INIT), 0);
	if (why >= B_OTHER_PEER) {
		/* b believes in another peer, or counts otherwise. */
		struct pair_req connect = {.op = PAIR_CONNECT, .gid = pair.a.gid};

		psn = why == B_PSN_AHEAD ? 5 : why == B_PSN_BEHIND ? 0xfffffb : 0;
		connect.qp_num = pair.a.qp->qp_num ^ (why == B_OTHER_PEER);
		connect.psn = (pair.a.psn + psn) & 0xffffff;
		pair_call(&pair, &connect);
		assert_int_equal(pair_b_modify(&pair, IBV_QPS_RTR), 0);
	}
	if (why == B_ERR)
		assert_int_equal(pair_b_modify(&pair, IBV_QPS_ERR), 0);
	if (why == B_NO_QP)
		qpn ^= 0x800000;
	assert_int_equal(end_init(&pair.a), 0);
	assert_int_equal(end_rtr(&pair.a, qpn, &pair.b_gid, pair.b_psn), 0);
	assert_int_equal(end_rts(&pair.a), 0);
	begin = clock_ns();
	assert_int_equal(post_rdma(&pair.a, IBV_WR_RDMA_WRITE, 1, NULL, 0, 0, 0, 0), 0);
	assert_int_equal(post_send(&pair.a, 2, NULL, 0, 0), 0);
	wait_wc(pair.a.send_cq, &wc);
	took = clock_ns() - begin;
	expect_wc(&wc, 1, IBV_WC_RETRY_EXC_ERR, pair.a.qp->qp_num);
	assert_true(took >= timeout_ns * 3);
	wait_wc(pair.a.send_cq, &wc);
	expect_wc(&wc, 2, IBV_WC_WR_FLUSH_ERR, pair.a.qp->qp_num);
	assert_int_equal(end_query(&pair.a), IBV_QPS_ERR);
	assert_int_equal(pair_b(&pair, PAIR_NO_RECV).ret, 0);
	assert_int_equal(pair_b(&pair, PAIR_NO_EVENT).ret, 0);
	pair_destroy(&pair);
}

static void test_silence(void **state)
{
	for (int two = 0; two < 2; two++)
		for (int why = 0; why < SILENCES; why++)
			if (why != B_PSN_AHEAD)
				check_silence((enum silence)why, two);
}

/* A peer that is not ready in time may become it before the retries end. */
static void test_late_peer(void **state)
{
	for (int two = 0; two < 2; two++) {
		struct verbs_pair pair;
		struct ibv_wc wc;

		pair_create_raw(&pair, &pair_defaults, two);
		assert_int_equal(end_init(&pair.a), 0);
		assert_int_equal(end_rtr(&pair.a, pair.b_qpn, &pair.b_gid, pair.b_psn), 0);
		assert_int_equal(end_rts(&pair.a), 0);
		assert_int_equal(
			post_rdma(&pair.a, IBV_WR_RDMA_WRITE, 1, NULL, 0, 0, 0, IBV_SEND_SIGNALED),
			0);
		assert_true(no_wc(pair.a.send_cq));
		assert_int_equal(pair_b_modify(&pair, IBV_QPS_INIT), 0);
		assert_int_equal(pair_b_modify(&pair, IBV_QPS_RTR), 0);
		wait_wc(pair.a.send_cq, &wc);
		expect_wc(&wc, 1, IBV_WC_SUCCESS, pair.a.qp->qp_num);
		pair_destroy(&pair);
	}
}

/* ---- Receiver not ready ---- */

static void test_rnr(void **state)
{
	for (int two = 0; two < 2; two++)
		for (int op = 0; op < 2; op++) {
			enum ibv_wr_opcode opcode = op ? IBV_WR_SEND : IBV_WR_RDMA_WRITE_WITH_IMM;
			struct pair_opts opts = pair_defaults;
			struct verbs_pair pair;
			uint64_t begin, took;
			struct ibv_wc wc;

			opts.rnr_retry = 2;
			opts.rnr_timer = 20; /* 10.24 ms */
			pair_create(&pair, &opts, two);
			begin = clock_ns();
			assert_int_equal(post_rdma(&pair.a, opcode, 1, NULL, 0, 0, 0, 0), 0);
			assert_int_equal(post_send(&pair.a, 2, NULL, 0, 0), 0);
			wait_wc(pair.a.send_cq, &wc);
			took = clock_ns() - begin;
			expect_wc(&wc, 1, IBV_WC_RNR_RETRY_EXC_ERR, pair.a.qp->qp_num);
			assert_true(took >= 2 * 10240000ull);
			wait_wc(pair.a.send_cq, &wc);
			expect_wc(&wc, 2, IBV_WC_WR_FLUSH_ERR, pair.a.qp->qp_num);
			/* The receiver has broken no rule. */
			assert_int_equal(pair_b(&pair, PAIR_STATE).ret, IBV_QPS_RTS);
			assert_int_equal(pair_b(&pair, PAIR_NO_EVENT).ret, 0);
			pair_destroy(&pair);
		}
}

/* rnr_retry 0: at once. 7: until the receive comes. */
static void test_rnr_edges(void **state)
{
	struct pair_opts opts = pair_defaults;
	struct verbs_pair pair;
	struct ibv_wc wc;

	opts.rnr_retry = 0;
	pair_create(&pair, &opts, true);
	assert_int_equal(post_send(&pair.a, 1, NULL, 0, 0), 0);
	wait_wc(pair.a.send_cq, &wc);
	expect_wc(&wc, 1, IBV_WC_RNR_RETRY_EXC_ERR, pair.a.qp->qp_num);
	pair_destroy(&pair);
	opts.rnr_retry = 7;
	opts.timeout = 1; /* not being ready is an answer: this timer has no part in it */
	opts.retry_cnt = 0;
	pair_create(&pair, &opts, true);
	for (uint64_t i = 1; i <= 3; i++)
		assert_int_equal(post_send(&pair.a, i, NULL, 0, IBV_SEND_SIGNALED), 0);
	for (int i = 0; i < 20; i++)
		assert_true(no_wc(pair.a.send_cq));
	for (uint64_t i = 1; i <= 3; i++) {
		assert_int_equal(pair_b_recv(&pair, i + 10, 0, NULL, 0), 0);
		wait_wc(pair.a.send_cq, &wc);
		expect_wc(&wc, i, IBV_WC_SUCCESS, pair.a.qp->qp_num);
		wc = pair_b(&pair, PAIR_WAIT_RECV).wc;
		expect_wc(&wc, i + 10, IBV_WC_SUCCESS, pair.b_qpn);
	}
	pair_destroy(&pair);
}

/* Both at once: a QP that fails through its own request and through its peer's (itself). */
static void test_self_access(void **state)
{
	struct ibv_async_event event;
	struct test_mem local;
	struct verbs_end end;
	struct ibv_sge sge;
	struct ibv_wc wc;

	end_open(&end, &pair_defaults);
	end_self(&end);
	mem_new(&local, end.pd, MEM_ANON, 64, RIGHTS);
	sge = (struct ibv_sge){local.start, 32, local.mr->lkey};
	assert_int_equal(
		post_rdma(&end, IBV_WR_RDMA_WRITE, 1, &sge, 1, local.start + 32, local.mr->lkey, 0),
		0);
	wait_wc(end.send_cq, &wc);
	expect_wc(&wc, 1, IBV_WC_REM_ACCESS_ERR, end.qp->qp_num);
	assert_int_equal(end_query(&end), IBV_QPS_ERR);
	assert_int_equal(wait_event(end.context, &event), IBV_EVENT_QP_ACCESS_ERR);
	assert_ptr_equal(event.element.qp, end.qp);
	mem_free(&local);
	end_close(&end);
}

/* A peer that reset its QP and connected anew does not hear the old connection. */
static void test_after_error(void **state)
{
	for (int two = 0; two < 2; two++) {
		struct verbs_pair pair;
		struct ibv_wc wc;

		pair_create(&pair, &pair_defaults, two);
		for (int round = 0; round < 50; round++) {
			assert_int_equal(post_rdma(&pair.a, IBV_WR_RDMA_READ, 1, NULL, 0, 0, 0,
						   IBV_SEND_SIGNALED),
					 0);
			wait_wc(pair.a.send_cq, &wc);
			expect_wc(&wc, 1, IBV_WC_SUCCESS, pair.a.qp->qp_num);
			assert_int_equal(pair_b_recv(&pair, 5, 0, NULL, 0), 0);
			assert_int_equal(post_rdma(&pair.a, IBV_WR_ATOMIC_FETCH_AND_ADD, 2, NULL, 0,
						   0, 0, 0),
					 0);
			wait_wc(pair.a.send_cq, &wc);
			expect_wc(&wc, 2, IBV_WC_LOC_LEN_ERR, pair.a.qp->qp_num);
			assert_int_equal(end_state(&pair.a, IBV_QPS_RESET), 0);
			assert_int_equal(pair_b_modify(&pair, IBV_QPS_RESET), 0);
			assert_int_equal(end_init(&pair.a), 0);
			assert_int_equal(pair_b_modify(&pair, IBV_QPS_INIT), 0);
			assert_int_equal(end_rtr(&pair.a, pair.b_qpn, &pair.b_gid, pair.b_psn), 0);
			assert_int_equal(pair_b_modify(&pair, IBV_QPS_RTR), 0);
			assert_int_equal(end_rts(&pair.a), 0);
			assert_int_equal(pair_b_modify(&pair, IBV_QPS_RTS), 0);
			assert_int_equal(pair_b(&pair, PAIR_NO_RECV).ret, 0);
		}
		pair_destroy(&pair);
	}
}

/* Case 23: a server that is killed: one 12, the rest 5, after the time configured. */
static void test_killed_peer(void **state)
{
	struct pair_opts opts = pair_defaults;
	struct verbs_pair pair;
	struct ibv_wc wc;
	uint64_t begin;

	opts.timeout = 12;
	opts.retry_cnt = 3;
	pair_create(&pair, &opts, true);
	assert_int_equal(post_rdma(&pair.a, IBV_WR_RDMA_WRITE, 1, NULL, 0, 0, 0, IBV_SEND_SIGNALED),
			 0);
	wait_wc(pair.a.send_cq, &wc);
	expect_wc(&wc, 1, IBV_WC_SUCCESS, pair.a.qp->qp_num);
	pair_kill_b(&pair);
	begin = clock_ns();
	for (uint64_t id = 2; id < 12; id++)
		assert_int_equal(
			post_rdma(&pair.a, IBV_WR_RDMA_WRITE, id, NULL, 0, 0, 0, IBV_SEND_SIGNALED),
			0);
	wait_wc(pair.a.send_cq, &wc);
	expect_wc(&wc, 2, IBV_WC_RETRY_EXC_ERR, pair.a.qp->qp_num);
	assert_true(clock_ns() - begin >= 4 * (4096ull << 12));
	for (uint64_t id = 3; id < 12; id++) {
		wait_wc(pair.a.send_cq, &wc);
		expect_wc(&wc, id, IBV_WC_WR_FLUSH_ERR, pair.a.qp->qp_num);
	}
	assert_true(no_wc(pair.a.send_cq));
	assert_int_equal(end_query(&pair.a), IBV_QPS_ERR);
	end_close(&pair.a);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_faults),     cmocka_unit_test(test_one_process),
		cmocka_unit_test(test_two_processes),  cmocka_unit_test(test_write_imm_access),
		cmocka_unit_test(test_empty_messages), cmocka_unit_test(test_silence),
		cmocka_unit_test(test_late_peer),      cmocka_unit_test(test_rnr),
		cmocka_unit_test(test_rnr_edges),      cmocka_unit_test(test_self_access),
		cmocka_unit_test(test_after_error),    cmocka_unit_test(test_killed_peer),
	};
	uint8_t frame[PAIR_STACK_BYTES];

	pair_main(argc, argv, frame);
	run_only();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Every operation delivers the bytes it should, and touches no other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "lib/child.h"
#include "lib/verbs_pair.h"

#define RIGHTS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

static const uint64_t sizes[] = {
	0,	 1,
	2,	 7,
	8,	 9,
	64,	 65,
	255,	 256,
	257,	 1023,
	1024,	 1025,
	2048,	 4095,
	4096,	 4097,
	65535,	 65536,
	65537,	 (1 << 20) - 1,
	1 << 20, (1 << 20) + 1,
	8 << 20,
};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static const int counts[] = {1, 2, 3, 30};
#define COUNTS (sizeof(counts) / sizeof(counts[0]))

enum way { PLAIN, BUILT, WAYS };

/* One message under test. */
struct message {
	enum ibv_wr_opcode opcode;
	uint64_t length;
	int sges;
	enum way way;
	enum mem_kind kind; /* of the local side; b's is the next one */
	bool is_inline;
	int seed;
};

struct sides {
	struct verbs_pair *pair;
	struct test_mem local;
	struct span from[PAIR_SPANS], to[PAIR_SPANS];
	int to_n;
	struct pair_rep remote;
};

static bool takes_receive(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
	       opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static bool is_send(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM;
}

static void ask_mem(struct sides *s, enum pair_op op, int n, int seed, int want)
{
	struct pair_req req = {.op = op, .mem = s->remote.mem, .seed = seed, .n = n};

	memcpy(req.spans, s->to, sizeof(req.spans));
	assert_int_equal(pair_call(s->pair, &req).ret, want);
}

static void build(struct verbs_end *a, const struct message *m, struct sides *s, uint64_t wr_id)
{
	struct ibv_qp_ex *qp = a->qpx;
	struct ibv_data_buf bufs[PAIR_SPANS];
	struct ibv_sge sges[PAIR_SPANS];
	uint64_t at = s->remote.addr + s->to[0].off;

	ibv_wr_start(qp);
	qp->wr_id = wr_id;
	qp->wr_flags = IBV_SEND_SIGNALED;
	if (m->opcode == IBV_WR_SEND)
		ibv_wr_send(qp);
	else if (m->opcode == IBV_WR_SEND_WITH_IMM)
		ibv_wr_send_imm(qp, htobe32((uint32_t)wr_id));
	else if (m->opcode == IBV_WR_RDMA_WRITE)
		ibv_wr_rdma_write(qp, s->remote.rkey, at);
	else if (m->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		ibv_wr_rdma_write_imm(qp, s->remote.rkey, at, htobe32((uint32_t)wr_id));
	else
		ibv_wr_rdma_read(qp, s->remote.rkey, at);
	mem_sges(&s->local, s->from, m->sges, sges);
	for (int i = 0; i < m->sges; i++)
		bufs[i] = (struct ibv_data_buf){s->local.base + s->from[i].off, s->from[i].len};
	if (m->is_inline && m->sges == 1)
		ibv_wr_set_inline_data(qp, bufs[0].addr, bufs[0].length);
	else if (m->is_inline)
		ibv_wr_set_inline_data_list(qp, (size_t)m->sges, bufs);
	else if (m->sges == 1)
		ibv_wr_set_sge(qp, sges[0].lkey, sges[0].addr, sges[0].length);
	else
		ibv_wr_set_sge_list(qp, (size_t)m->sges, sges);
	assert_int_equal(ibv_wr_complete(qp), 0);
}

static void post(struct verbs_end *a, const struct message *m, struct sides *s, uint64_t wr_id)
{
	unsigned int flags = IBV_SEND_SIGNALED | (m->is_inline ? IBV_SEND_INLINE : 0);
	struct ibv_sge sges[PAIR_SPANS];

	if (m->way == BUILT) {
		build(a, m, s, wr_id);
		return;
	}
	mem_sges(&s->local, s->from, m->sges, sges);
	for (int i = 0; i < m->sges && m->is_inline; i++) {
		sges[i].lkey = 0xdead; /* is not looked at */
		sges[i].addr = (uintptr_t)s->local.base + s->from[i].off;
	}
	assert_int_equal(post_rdma(a, m->opcode, wr_id, sges, m->sges,
				   s->remote.addr + s->to[0].off, s->remote.rkey, flags),
			 0);
}

static void check_sent(struct verbs_end *a, const struct message *m, uint64_t wr_id)
{
	static const enum ibv_wc_opcode want[] = {
		[IBV_WR_RDMA_WRITE] = IBV_WC_RDMA_WRITE,
		[IBV_WR_RDMA_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE,
		[IBV_WR_SEND] = IBV_WC_SEND,
		[IBV_WR_SEND_WITH_IMM] = IBV_WC_SEND,
		[IBV_WR_RDMA_READ] = IBV_WC_RDMA_READ,
	};
	struct ibv_wc wc;

	wait_wc(a->send_cq, &wc);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.opcode, want[m->opcode]);
	assert_int_equal(wc.qp_num, a->qp->qp_num);
	if (m->opcode == IBV_WR_RDMA_READ)
		assert_int_equal(wc.byte_len, m->length);
}

static void check_received(struct verbs_pair *pair, const struct message *m, uint64_t wr_id)
{
	bool imm = m->opcode != IBV_WR_SEND;
	struct ibv_wc wc = pair_b(pair, PAIR_WAIT_RECV).wc;

	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, wr_id + 1);
	assert_int_equal(wc.opcode, m->opcode == IBV_WR_RDMA_WRITE_WITH_IMM
					    ? IBV_WC_RECV_RDMA_WITH_IMM
					    : IBV_WC_RECV);
	assert_int_equal(wc.byte_len, m->length);
	assert_int_equal(wc.qp_num, pair->b_qpn);
	assert_int_equal(wc.wc_flags, imm ? IBV_WC_WITH_IMM : 0);
	if (imm)
		assert_int_equal(be32toh(wc.imm_data), (uint32_t)wr_id);
}

/* Both sides' memory, with the data where the message takes it from. */
static void prepare(struct sides *s, const struct message *m)
{
	uint64_t local = split(s->from, m->sges, m->length);
	uint64_t remote;

	s->to_n = is_send(m->opcode) ? (m->sges == 30 ? 3 : 31 - m->sges) : 1;
	if (s->to_n == 1) {
		s->to[0] = (struct span){5, m->length};
		remote = m->length + 11;
	} else {
		remote = split(s->to, s->to_n, m->length);
	}
	mem_new(&s->local, s->pair->a.pd, m->kind, local + 8, RIGHTS);
	s->remote = pair_b_mem(s->pair, (m->kind + 1) % MEM_KINDS, remote + 8, RIGHTS);
	if (m->opcode == IBV_WR_RDMA_READ)
		ask_mem(s, PAIR_MEM_FILL, s->to_n, m->seed, 0);
	else
		mem_fill(&s->local, s->from, m->sges, m->seed);
}

static void transfer(struct verbs_pair *pair, const struct message *m)
{
	struct sides s = {.pair = pair};
	uint64_t wr_id = 0x1234567800000000ull + (uint64_t)m->seed;

	prepare(&s, m);
	if (takes_receive(m->opcode))
		assert_int_equal(pair_b_recv(pair, wr_id + 1, s.remote.mem, s.to,
					     is_send(m->opcode) ? s.to_n : 0),
				 0);
	post(&pair->a, m, &s, wr_id);
	if (m->is_inline) /* taken at the call */
		mem_fill(&s.local, s.from, m->sges, m->seed + 1);
	check_sent(&pair->a, m, wr_id);
	if (takes_receive(m->opcode))
		check_received(pair, m, wr_id);
	ask_mem(&s, PAIR_MEM_CHECK, s.to_n, m->seed, 0);
	assert_true(mem_holds(&s.local, s.from, m->sges, m->seed + m->is_inline));
	ask_mem(&s, PAIR_MEM_FREE, 0, 0, 0);
	mem_free(&s.local);
}

static void all_of(struct verbs_pair *pair, enum way way)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_SEND,	  IBV_WR_SEND_WITH_IMM,	      IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE_WITH_IMM,
	};
	struct message m = {.way = way};

	for (size_t o = 0; o < 5; o++)
		for (size_t i = 0; i < SIZES; i++)
			for (size_t c = 0; c < COUNTS; c++) {
				m.opcode = opcodes[o];
				m.length = sizes[i];
				m.sges = counts[c];
				m.seed++;
				m.kind = (enum mem_kind)(m.seed % MEM_KINDS);
				m.is_inline = m.length <= 1024 && m.opcode != IBV_WR_RDMA_READ &&
					      m.seed % 3 == 0;
				if (m.length < 100000 || c % 2 == i % 2)
					transfer(pair, &m);
			}
}

static struct pair_opts opts_for(enum way way, int gid_index)
{
	struct pair_opts opts = pair_defaults;

	opts.sges = 30;
	opts.inline_bytes = 1024;
	opts.wr_api = way == BUILT;
	opts.gid_index = gid_index;
	return opts;
}

static void run_contents(bool two)
{
	for (int way = 0; way < WAYS; way++) {
		struct pair_opts opts = opts_for((enum way)way, way);
		struct verbs_pair pair;

		pair_create(&pair, &opts, two);
		all_of(&pair, (enum way)way);
		pair_destroy(&pair);
	}
}

static void test_one_process(void **state)
{
	run_contents(false);
}

static void test_two_processes(void **state)
{
	run_contents(true);
}

/* Every path MTU, around its multiples. */
static void test_mtus(void **state)
{
	for (int mtu = IBV_MTU_256; mtu <= IBV_MTU_1024; mtu++) {
		struct pair_opts opts = opts_for(PLAIN, 1);
		struct message m = {.sges = 2};
		struct verbs_pair pair;

		opts.mtu = (enum ibv_mtu)mtu;
		pair_create(&pair, &opts, true);
		for (uint64_t n = 1; n <= 4; n++)
			for (uint64_t off = 0; off < 3; off++) {
				m.seed++;
				m.length = (n * (128u << mtu)) - 1 + off;
				m.opcode = IBV_WR_SEND;
				transfer(&pair, &m);
				m.opcode = IBV_WR_RDMA_WRITE;
				transfer(&pair, &m);
				m.opcode = IBV_WR_RDMA_READ;
				transfer(&pair, &m);
			}
		pair_destroy(&pair);
	}
}

/* Three elements of 8, 100 and 4000 bytes, by lists of either kind. */
static void test_unequal_list(void **state)
{
	const struct span from[] = {{0, 8}, {10, 100}, {200, 4000}}, to = {0, 4108};

	for (int way = 0; way < WAYS; way++) {
		struct pair_opts opts = opts_for((enum way)way, 0);
		struct message m = {
			.opcode = IBV_WR_SEND, .length = 4108, .sges = 3, .way = (enum way)way};
		struct verbs_pair pair;
		struct sides s = {.pair = &pair, .to = {to}};

		pair_create(&pair, &opts, false);
		memcpy(s.from, from, sizeof(from));
		mem_new(&s.local, pair.a.pd, MEM_ANON, 5000, 0);
		mem_fill(&s.local, from, 3, 7);
		s.remote = pair_b_mem(&pair, MEM_ANON, 4108, RIGHTS);
		assert_int_equal(pair_b_recv(&pair, 2, s.remote.mem, &to, 1), 0);
		post(&pair.a, &m, &s, 1);
		check_sent(&pair.a, &m, 1);
		check_received(&pair, &m, 1);
		ask_mem(&s, PAIR_MEM_CHECK, 1, 7, 0);
		mem_free(&s.local);
		pair_destroy(&pair);
	}
}

/* Keys whose addresses are not the program's. */
static void check_key_base(bool two, bool zero_based, uint64_t iova)
{
	struct pair_req req = {.op = PAIR_MEM_NEW,
			       .kind = MEM_ANON_PAGE,
			       .length = 8192,
			       .access = RIGHTS,
			       .zero_based = zero_based,
			       .iova = iova};
	struct message m = {.opcode = IBV_WR_RDMA_WRITE, .length = 5000, .sges = 1, .seed = 3};
	struct verbs_pair pair;
	struct sides s = {.pair = &pair, .from = {{0, 5000}}, .to = {{100, 5000}}};

	pair_create(&pair, &pair_defaults, two);
	s.remote = pair_call(&pair, &req);
	assert_int_equal(s.remote.addr, iova);
	mem_new(&s.local, pair.a.pd, MEM_ANON, 5000, RIGHTS);
	mem_fill(&s.local, s.from, 1, 3);
	post(&pair.a, &m, &s, 1);
	check_sent(&pair.a, &m, 1);
	ask_mem(&s, PAIR_MEM_CHECK, 1, 3, 0);
	/* And as what a receive scatters to. */
	ask_mem(&s, PAIR_MEM_FILL, 0, 0, 0);
	m.opcode = IBV_WR_SEND;
	assert_int_equal(pair_b_recv(&pair, 3, s.remote.mem, s.to, 1), 0);
	post(&pair.a, &m, &s, 2);
	check_sent(&pair.a, &m, 2);
	check_received(&pair, &m, 2);
	ask_mem(&s, PAIR_MEM_CHECK, 1, 3, 0);
	mem_free(&s.local);
	pair_destroy(&pair);
}

static void test_key_bases(void **state)
{
	for (int two = 0; two < 2; two++) {
		check_key_base(two, true, 0);
		check_key_base(two, false, 0x7000);
		check_key_base(two, false, 0xffffffff00000000ull);
	}
}

/* ---- Atomics ---- */

static void post_atomic(struct verbs_end *a, struct sides *s, enum ibv_wr_opcode opcode, uint64_t x,
			uint64_t swap, uint64_t off)
{
	struct ibv_sge sges[2];
	struct ibv_send_wr wr = {.wr_id = 9,
				 .opcode = opcode,
				 .sg_list = sges,
				 .num_sge = 2,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.atomic = {.remote_addr = s->remote.addr + off,
					       .rkey = s->remote.rkey,
					       .compare_add = x,
					       .swap = swap}};
	struct ibv_send_wr *bad;

	mem_sges(&s->local, s->from, 2, sges);
	if (!a->qpx) {
		assert_int_equal(ibv_post_send(a->qp, &wr, &bad), 0);
		return;
	}
	ibv_wr_start(a->qpx);
	a->qpx->wr_id = 9;
	a->qpx->wr_flags = IBV_SEND_SIGNALED;
	if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP)
		ibv_wr_atomic_cmp_swp(a->qpx, s->remote.rkey, s->remote.addr + off, x, swap);
	else
		ibv_wr_atomic_fetch_add(a->qpx, s->remote.rkey, s->remote.addr + off, x);
	ibv_wr_set_sge_list(a->qpx, 2, sges);
	assert_int_equal(ibv_wr_complete(a->qpx), 0);
}

static void check_atomic(struct sides *s, enum ibv_wr_opcode opcode, uint64_t x, uint64_t swap,
			 uint64_t old, uint64_t now)
{
	struct pair_req peek = {.op = PAIR_MEM_PEEK, .mem = s->remote.mem, .value = 16};
	uint64_t got = 0;
	struct ibv_wc wc;

	mem_fill(&s->local, NULL, 0, 0);
	post_atomic(&s->pair->a, s, opcode, x, swap, 16);
	wait_wc(s->pair->a.send_cq, &wc);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, 8);
	assert_int_equal(wc.opcode,
			 opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? IBV_WC_COMP_SWAP : IBV_WC_FETCH_ADD);
	/* The old value lands in two elements of 3 and 5 bytes. */
	memcpy(&got, s->local.base + 1, 3);
	memcpy((uint8_t *)&got + 3, s->local.base + 11, 5);
	assert_int_equal(got, old);
	assert_int_equal(s->local.base[0], PAIR_FILL);
	assert_int_equal(s->local.base[4], PAIR_FILL);
	assert_int_equal(s->local.base[16], PAIR_FILL);
	assert_int_equal(pair_call(s->pair, &peek).value, now);
}

static void run_atomics(bool two, bool wr_api, enum mem_kind kind)
{
	const uint64_t fill = 0xc5c5c5c5c5c5c5c5ull, all = UINT64_MAX;
	struct pair_opts opts = pair_defaults;
	struct verbs_pair pair;
	struct sides s = {.pair = &pair, .from = {{1, 3}, {11, 5}}, .to = {{0, 16}, {24, 16}}};

	opts.wr_api = wr_api;
	pair_create(&pair, &opts, two);
	mem_new(&s.local, pair.a.pd, MEM_ANON, 32, RIGHTS);
	s.remote = pair_b_mem(&pair, kind, 40, RIGHTS);
	check_atomic(&s, IBV_WR_ATOMIC_CMP_AND_SWP, 1, 2, fill, fill);
	check_atomic(&s, IBV_WR_ATOMIC_CMP_AND_SWP, fill, all - 1, fill, all - 1);
	check_atomic(&s, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 77, all - 1, all);
	check_atomic(&s, IBV_WR_ATOMIC_FETCH_AND_ADD, 2, 77, all, 1);
	check_atomic(&s, IBV_WR_ATOMIC_FETCH_AND_ADD, all, 0, 1, 0);
	check_atomic(&s, IBV_WR_ATOMIC_CMP_AND_SWP, 0, fill, 0, fill);
	/* Back at the fill: nothing beside the 8 bytes was touched. */
	ask_mem(&s, PAIR_MEM_CHECK, 0, 0, 0);
	mem_free(&s.local);
	pair_destroy(&pair);
}

static void test_atomics(void **state)
{
	for (int two = 0; two < 2; two++)
		for (int way = 0; way < WAYS; way++)
			for (int kind = 0; kind < MEM_KINDS; kind++)
				run_atomics(two, way, (enum mem_kind)kind);
}

/* ---- Lists, and completions asked for or not ---- */

static void test_list_and_signals(void **state)
{
	for (int two = 0; two < 2; two++)
		for (int all = 0; all < 2; all++) {
			struct pair_opts opts = pair_defaults;
			struct verbs_pair pair;
			struct ibv_send_wr wr[24], *bad;
			struct ibv_sge sge[24];
			struct sides s = {.pair = &pair, .to_n = 1, .to = {{0, 2400}}};
			struct ibv_wc wc;

			opts.sig_all = all;
			pair_create(&pair, &opts, two);
			mem_new(&s.local, pair.a.pd, MEM_ANON, 2400, 0);
			s.from[0] = s.to[0];
			mem_fill(&s.local, s.from, 1, 5);
			s.remote = pair_b_mem(&pair, MEM_ANON, 2400, RIGHTS);
			for (int i = 0; i < 24; i++) {
				sge[i] =
					(struct ibv_sge){.addr = s.local.start + 100u * (unsigned)i,
							 .length = 100,
							 .lkey = s.local.mr->lkey};
				wr[i] = (struct ibv_send_wr){
					.wr_id = (uint64_t)i,
					.next = i < 23 ? &wr[i + 1] : NULL,
					.sg_list = &sge[i],
					.num_sge = 1,
					.opcode = IBV_WR_RDMA_WRITE,
					.send_flags = i % 5 == 4 ? IBV_SEND_SIGNALED : 0,
					.wr.rdma = {s.remote.addr + 100u * (unsigned)i,
						    s.remote.rkey}};
			}
			wr[23].send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE;
			assert_int_equal(ibv_post_send(pair.a.qp, wr, &bad), 0);
			for (int i = 0; i < 24; i++) {
				if (!all && i % 5 != 4 && i != 23)
					continue;
				wait_wc(pair.a.send_cq, &wc);
				assert_int_equal(wc.status, IBV_WC_SUCCESS);
				assert_int_equal(wc.wr_id, i);
			}
			assert_true(no_wc(pair.a.send_cq));
			ask_mem(&s, PAIR_MEM_CHECK, 1, 5, 0);
			mem_free(&s.local);
			pair_destroy(&pair);
		}
}

/* A QP connected to itself. */
static void test_self(void **state)
{
	const struct span span = {0, 3000};
	struct test_mem from, to;
	struct verbs_end end;
	struct ibv_sge sge;
	struct ibv_wc wc;

	end_open(&end, &pair_defaults);
	end_self(&end);
	mem_new(&from, end.pd, MEM_ANON, 3000, RIGHTS);
	mem_new(&to, end.pd, MEM_ANON, 3000, RIGHTS);
	mem_fill(&from, &span, 1, 9);
	mem_sges(&to, &span, 1, &sge);
	assert_int_equal(post_recv(&end, 1, &sge, 1), 0);
	mem_sges(&from, &span, 1, &sge);
	assert_int_equal(post_send(&end, 2, &sge, 1, IBV_SEND_SIGNALED), 0);
	wait_wc(end.recv_cq, &wc);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, 3000);
	wait_wc(end.send_cq, &wc);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_true(mem_holds(&to, &span, 1, 9));
	mem_fill(&to, NULL, 0, 0);
	assert_int_equal(post_rdma(&end, IBV_WR_RDMA_WRITE, 3, &sge, 1, to.start, to.mr->rkey,
				   IBV_SEND_SIGNALED),
			 0);
	wait_wc(end.send_cq, &wc);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_true(mem_holds(&to, &span, 1, 9));
	mem_free(&from);
	mem_free(&to);
	end_close(&end);
}

/* Many small messages: rings, PSNs and slots go round. */
static void test_many(void **state)
{
	struct verbs_pair pair;
	struct sides s = {.pair = &pair, .to_n = 1, .to = {{0, 32}}};
	struct ibv_sge sge;
	struct ibv_wc wc;

	pair_create(&pair, &pair_defaults, false);
	mem_new(&s.local, pair.a.pd, MEM_ANON, 32, 0);
	mem_sges(&s.local, s.to, 1, &sge);
	s.remote = pair_b_mem(&pair, MEM_ANON, 32, RIGHTS);
	for (uint64_t i = 0; i < 20000; i++) {
		assert_int_equal(pair_b_recv(&pair, i, s.remote.mem, s.to, 1), 0);
		assert_int_equal(post_send(&pair.a, i, &sge, 1, i % 8 == 7 ? IBV_SEND_SIGNALED : 0),
				 0);
		wc = pair_b(&pair, PAIR_WAIT_RECV).wc;
		assert_int_equal(wc.wr_id, i);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		if (i % 8 == 7) {
			wait_wc(pair.a.send_cq, &wc);
			assert_int_equal(wc.wr_id, i);
		}
	}
	mem_free(&s.local);
	pair_destroy(&pair);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_process),
		cmocka_unit_test(test_two_processes),
		cmocka_unit_test(test_mtus),
		cmocka_unit_test(test_unequal_list),
		cmocka_unit_test(test_key_bases),
		cmocka_unit_test(test_atomics),
		cmocka_unit_test(test_list_and_signals),
		cmocka_unit_test(test_self),
		cmocka_unit_test(test_many),
	};
	uint8_t frame[PAIR_STACK_BYTES];

	pair_main(argc, argv, frame);
	run_only();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

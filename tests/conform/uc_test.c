/* SPDX-License-Identifier: BSD-2-Clause */
/* UC: sends and writes without acknowledgement; what goes wrong stays where it happened. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/rule.h"
#include "lib/verbs_many.h"

#define BIG (1u << 20)

static struct verbs_end a, b; /* b only where two QPs of this process are connected */
static struct test_mem out, in;

static void open_ends(void)
{
	many_open(&a, IBV_QPT_UC, &pair_defaults);
	b = a;
	b.send_cq = ibv_create_cq(a.context, 128, NULL, NULL, 0);
	b.recv_cq = ibv_create_cq(a.context, 128, NULL, NULL, 0);
	CHECK(b.send_cq && b.recv_cq);
	b.qp = many_qp(&b, IBV_QPT_UC, NULL);
	b.psn = 4711;
	mem_new(&out, a.pd, MEM_ANON, BIG, IBV_ACCESS_LOCAL_WRITE);
	mem_new(&in, a.pd, MEM_ANON, BIG, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
}

static void connect_ends(void)
{
	many_up(&a, b.qp->qp_num, &b.gid, b.psn);
	many_up(&b, a.qp->qp_num, &a.gid, a.psn);
}

static void open_up(void)
{
	open_ends();
	connect_ends();
}

static void close_ends(void)
{
	CHECK(!readable(a.context->async_fd));
	CHECK(ibv_destroy_qp(b.qp) == 0);
	CHECK(ibv_destroy_cq(b.send_cq) == 0 && ibv_destroy_cq(b.recv_cq) == 0);
	mem_free(&out);
	mem_free(&in);
	end_close(&a);
}

static struct ibv_sge sge_of(const struct test_mem *mem, uint64_t length)
{
	return (struct ibv_sge){mem->start, (uint32_t)length, mem->mr->lkey};
}

static void post(enum ibv_wr_opcode opcode, uint64_t length, uint32_t rkey)
{
	struct ibv_sge sge = sge_of(&out, length);

	CHECK(post_rdma(&a, opcode, 0x77, &sge, length ? 1 : 0, in.start, rkey,
			IBV_SEND_SIGNALED) == 0);
}

static void sent(enum ibv_wc_status status)
{
	struct ibv_wc wc;

	wait_wc(a.send_cq, &wc);
	CHECK(wc.status == status && wc.wr_id == 0x77 && wc.qp_num == a.qp->qp_num);
}

static void send_ok(enum ibv_wr_opcode opcode, uint64_t length)
{
	post(opcode, length, in.mr->rkey);
	sent(IBV_WC_SUCCESS);
}

static void received(enum ibv_wc_status status, uint64_t wr_id)
{
	struct ibv_wc wc;

	wait_wc(b.recv_cq, &wc);
	CHECK(wc.status == status && wc.wr_id == wr_id && wc.qp_num == b.qp->qp_num);
}

/* ---- Contents ---- */

static const uint64_t lengths[] = {0, 1, 8, 255, 256, 1023, 1024, 1025, 4096, 65537, BIG};

static void one_message(enum ibv_wr_opcode opcode, uint64_t length, int seed)
{
	bool takes = opcode != IBV_WR_RDMA_WRITE;
	bool sends = opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM;
	bool imm = opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	struct ibv_sge sge = sge_of(&in, length);
	struct span span = {0, length};
	struct ibv_wc wc;

	mem_fill(&in, NULL, 0, 0);
	mem_fill(&out, &span, 1, seed);
	if (takes)
		CHECK(post_recv(&b, 9, &sge, sends && length ? 1 : 0) == 0);
	send_ok(opcode, length);
	if (takes) {
		wait_wc(b.recv_cq, &wc);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 9 && wc.byte_len == length);
		CHECK(wc.opcode == (sends ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM));
		CHECK(wc.wc_flags == (imm ? IBV_WC_WITH_IMM : 0));
		CHECK(!imm || be32toh(wc.imm_data) == 0x77);
	}
	CHECK(mem_holds(&in, &span, length ? 1 : 0, seed));
	CHECK(no_wc(b.recv_cq));
}

static void contents(void *arg)
{
	const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
					      IBV_WR_RDMA_WRITE_WITH_IMM};
	int seed = 1;

	open_up();
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		for (int k = 0; k < 4; k++)
			one_message(opcodes[k], lengths[i], seed++);
	close_ends();
}
CASE_IN_CHILD(contents)

static void expect_bytes(uint64_t wr_id, uint32_t bytes)
{
	struct ibv_wc wc;

	wait_wc(b.recv_cq, &wc);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == wr_id && wc.byte_len == bytes);
}

/* Messages that come before their receives, of one packet and of several, wait a moment for them
 * and stay in order; what was sent to a connection that ended is not for the next one. */
static void late_receives(void *arg)
{
	const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE_WITH_IMM,
					      IBV_WR_SEND_WITH_IMM};
	struct ibv_sge sge;

	open_up();
	sge = sge_of(&in, BIG);
	CHECK(post_recv(&b, 0, &sge, 1) == 0);
	send_ok(IBV_WR_SEND, 8);
	expect_bytes(0, 8);
	for (uint32_t round = 1; round <= 30; round++) {
		for (uint32_t i = 0; i < 3; i++)
			post(opcodes[i], 100 * round * (i + 1), in.mr->rkey);
		for (int i = 0; i < 100; i++)
			CHECK(no_wc(b.recv_cq));
		for (uint32_t i = 0; i < 3; i++)
			CHECK(post_recv(&b, i, &sge, 1) == 0);
		for (uint32_t i = 0; i < 3; i++) {
			expect_bytes(i, 100 * round * (i + 1));
			sent(IBV_WC_SUCCESS);
		}
	}
	post(IBV_WR_SEND, 5000, 0);
	for (int i = 0; i < 100; i++)
		CHECK(no_wc(b.recv_cq));
	CHECK(end_state(&a, IBV_QPS_RESET) == 0 && end_state(&b, IBV_QPS_RESET) == 0);
	while (!no_wc(a.send_cq))
		;
	connect_ends();
	CHECK(post_recv(&b, 1, &sge, 1) == 0);
	send_ok(IBV_WR_SEND, 6000);
	expect_bytes(1, 6000);
	close_ends();
}
CASE_IN_CHILD(late_receives)

/* A sender on another host has completed before its message is here. */
static void wait_number(const uint8_t *there, uint32_t number, uint32_t size)
{
	static uint8_t want[BIG];
	uint64_t end = clock_ns() + PAIR_PATIENCE_S * 1000000000ull;

	message_make(want, 3, number, size);
	while (memcmp(want, there, size) != 0) {
		struct ibv_wc wc;

		CHECK(clock_ns() < end);
		/* Polling is what receives. */
		CHECK(ibv_poll_cq(b.recv_cq, 1, &wc) == 0);
	}
}

static void two_processes(void *arg)
{
	const uint32_t sizes[] = {8, 64, 65, 1024, 1025, 9000, 65536};
	struct remote remote;
	struct order order;
	struct ibv_wc wc;
	uint32_t number = 0;

	open_ends();
	remote_start(&remote, 3, IBV_QPT_UC, NULL);
	remote_connect(&remote, &b);
	for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++)
		for (int op = 0; op < 4; op++) {
			struct ibv_sge sge = sge_of(&in, sizes[k]);

			order = (struct order){.op = ORDER_SEND,
					       .first = number,
					       .count = 1,
					       .size = sizes[k],
					       .opcode = (enum ibv_wr_opcode)op,
					       .addr = in.start,
					       .rkey = in.mr->rkey};
			if (op != IBV_WR_RDMA_WRITE)
				CHECK(post_recv(&b, number, &sge, 1) == 0);
			CHECK(remote_ask(&remote, &order) == IBV_WC_SUCCESS);
			if (op != IBV_WR_RDMA_WRITE) {
				wait_wc(b.recv_cq, &wc);
				CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == number);
				CHECK(wc.byte_len == sizes[k]);
			}
			wait_number(in.base, number, sizes[k]);
			number++;
		}
	/* Its process may go without a word. */
	remote_kill(&remote);
	CHECK(no_wc(b.recv_cq) && end_query(&b) == IBV_QPS_RTS);
	close_ends();
}
CASE_IN_CHILD(two_processes)

/* ---- What is dropped without a word ---- */

static void goes_on(void)
{
	CHECK(end_query(&a) == IBV_QPS_RTS && end_query(&b) == IBV_QPS_RTS);
	CHECK(no_wc(b.recv_cq) && mem_holds(&in, NULL, 0, 0));
	one_message(IBV_WR_SEND, 64, 5);
	mem_fill(&in, NULL, 0, 0);
}

static void dropped(void *arg)
{
	struct test_mem no_write, other;
	struct ibv_pd *pd;

	rule_log_start();
	open_up();
	mem_fill(&out, NULL, 0, 0);
	mem_new(&no_write, a.pd, MEM_ANON, 4096, IBV_ACCESS_LOCAL_WRITE);
	pd = ibv_alloc_pd(a.context);
	mem_new(&other, pd, MEM_ANON, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	mem_fill(&out, &(struct span){0, 4096}, 1, 3);
	/* No receive: neither the message nor what a write brings arrives. */
	send_ok(IBV_WR_SEND, 64);
	CHECK(rule_said("wc-ud-dropped"));
	goes_on();
	mem_fill(&out, &(struct span){0, 4096}, 1, 3);
	send_ok(IBV_WR_RDMA_WRITE_WITH_IMM, 64);
	CHECK(no_wc(b.recv_cq) && end_query(&b) == IBV_QPS_RTS);
	mem_fill(&in, NULL, 0, 0);
	/* Keys of nothing, of another PD, without the right, too short. */
	for (int i = 0; i < 4; i++) {
		uint32_t rkeys[] = {in.mr->rkey ^ 1, other.mr->rkey, no_write.mr->rkey,
				    in.mr->rkey};

		mem_fill(&out, &(struct span){0, 4096}, 1, 3);
		if (i == 3) {
			struct ibv_sge sge = sge_of(&out, 64);

			CHECK(post_rdma(&a, IBV_WR_RDMA_WRITE, 0x77, &sge, 1, in.start + BIG - 63,
					in.mr->rkey, IBV_SEND_SIGNALED) == 0);
		} else {
			post(IBV_WR_RDMA_WRITE, 64, rkeys[i]);
		}
		sent(IBV_WC_SUCCESS);
		goes_on();
	}
	CHECK(mem_holds(&no_write, NULL, 0, 0) && mem_holds(&other, NULL, 0, 0));
	mem_free(&no_write);
	mem_free(&other);
	CHECK(ibv_dealloc_pd(pd) == 0);
	close_ends();
}
CASE_IN_CHILD(dropped)

/* A receiver that is not there, or not yet: the sender goes on, and is understood afterwards. */
static void not_ready(void *arg)
{
	open_ends();
	many_up(&a, b.qp->qp_num, &b.gid, b.psn);
	send_ok(IBV_WR_SEND, 64);
	CHECK(many_init(&b) == 0);
	CHECK(post_recv(&b, 1, NULL, 0) == 0);
	send_ok(IBV_WR_SEND, 0);
	CHECK(no_wc(b.recv_cq));
	CHECK(many_rtr(&b, a.qp->qp_num, &a.gid, a.psn) == 0 && many_rts(&b) == 0);
	/* Whatever PSN it counts from. */
	send_ok(IBV_WR_SEND, 0);
	received(IBV_WC_SUCCESS, 1);
	CHECK(post_recv(&b, 2, NULL, 0) == 0);
	CHECK(end_state(&b, IBV_QPS_ERR) == 0);
	received(IBV_WC_WR_FLUSH_ERR, 2);
	send_ok(IBV_WR_SEND, 0);
	CHECK(end_query(&a) == IBV_QPS_RTS);
	/* Nobody there at all. */
	CHECK(end_state(&a, IBV_QPS_RESET) == 0);
	many_up(&a, b.qp->qp_num ^ 0x400000, &b.gid, 0);
	send_ok(IBV_WR_SEND, 0);
	send_ok(IBV_WR_RDMA_WRITE, 64);
	close_ends();
}
CASE_IN_CHILD(not_ready)

/* Only the peer it is connected to is heard. */
static void stranger(void *arg)
{
	struct verbs_end third;

	open_up();
	third = a;
	third.qp = many_qp(&a, IBV_QPT_UC, NULL);
	many_up(&third, b.qp->qp_num, &b.gid, b.psn);
	CHECK(post_recv(&b, 1, NULL, 0) == 0);
	CHECK(post_send(&third, 1, NULL, 0, IBV_SEND_SIGNALED) == 0);
	struct ibv_wc wc;

	wait_wc(a.send_cq, &wc);
	CHECK(wc.status == IBV_WC_SUCCESS && no_wc(b.recv_cq));
	send_ok(IBV_WR_SEND, 0);
	received(IBV_WC_SUCCESS, 1);
	CHECK(ibv_destroy_qp(third.qp) == 0);
	close_ends();
}
CASE_IN_CHILD(stranger)

/* ---- Errors ---- */

/* A receive that cannot take what comes ends the receiver; the sender does not hear of it. */
static void receive_errors(void *arg)
{
	for (int kind = 0; kind < 3; kind++) {
		struct ibv_sge sge;

		open_up();
		sge = sge_of(&in, kind == 0 ? 63 : 64);
		if (kind)
			sge.lkey ^= kind == 1 ? 1 : 0x100;
		CHECK(post_recv(&b, 1, &sge, 1) == 0 && post_recv(&b, 2, NULL, 0) == 0);
		mem_fill(&in, NULL, 0, 0);
		send_ok(IBV_WR_SEND, 64);
		received(kind ? IBV_WC_LOC_PROT_ERR : IBV_WC_LOC_LEN_ERR, 1);
		received(IBV_WC_WR_FLUSH_ERR, 2);
		CHECK(end_query(&b) == IBV_QPS_ERR);
		CHECK(mem_holds(&in, NULL, 0, 0));
		send_ok(IBV_WR_SEND, 64);
		send_ok(IBV_WR_RDMA_WRITE, 64);
		CHECK(end_query(&a) == IBV_QPS_RTS && mem_holds(&in, NULL, 0, 0));
		while (readable(a.context->async_fd)) {
			struct ibv_async_event event;

			wait_event(a.context, &event);
			CHECK(event.element.qp == b.qp);
		}
		close_ends();
	}
}
CASE_IN_CHILD(receive_errors)

/* SQE: sends flush, receives go on, and the way back is open. */
static void sender_errors(void *arg)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQE};
	const enum ibv_wr_opcode not_uc[] = {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP,
					     IBV_WR_ATOMIC_FETCH_AND_ADD};

	rule_log_start();
	open_up();
	for (int kind = 0; kind < 4; kind++) {
		struct ibv_sge sge = sge_of(&out, 64);
		struct ibv_wc wc;

		CHECK(post_recv(&b, 1, NULL, 0) == 0);
		sge.lkey ^= kind ? 0 : 0x100;
		sge.length = 8;
		CHECK(post_rdma(&a, kind ? not_uc[kind - 1] : IBV_WR_SEND, 0x77, &sge, 1, in.start,
				in.mr->rkey, 0) == 0);
		sent(kind ? IBV_WC_LOC_QP_OP_ERR : IBV_WC_LOC_PROT_ERR);
		CHECK(rule_said(kind ? "wc-opcode" : "wc-local-protection"));
		CHECK(end_query(&a) == IBV_QPS_SQE && end_query(&b) == IBV_QPS_RTS);
		post(IBV_WR_SEND, 0, 0);
		sent(IBV_WC_WR_FLUSH_ERR);
		CHECK(no_wc(b.recv_cq));
		/* It still receives. */
		CHECK(post_recv(&a, 5, NULL, 0) == 0);
		CHECK(post_send(&b, 6, NULL, 0, IBV_SEND_SIGNALED) == 0);
		wait_wc(b.send_cq, &wc);
		CHECK(wc.status == IBV_WC_SUCCESS);
		wait_wc(a.recv_cq, &wc);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 5);
		CHECK(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE) == 0);
		CHECK(end_query(&a) == IBV_QPS_RTS);
		send_ok(IBV_WR_SEND, 0);
		received(IBV_WC_SUCCESS, 1);
	}
	close_ends();
}
CASE_IN_CHILD(sender_errors)

/* Operations that it does not offer cannot be asked for. */
static void send_ops(void *arg)
{
	struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_UC,
					   .cap = {1, 1, 1, 1, 0},
					   .comp_mask = IBV_QP_INIT_ATTR_PD |
							IBV_QP_INIT_ATTR_SEND_OPS_FLAGS};
	const uint64_t good = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
			      IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;

	open_ends();
	attr.pd = a.pd;
	attr.send_cq = attr.recv_cq = a.send_cq;
	for (int bit = 0; bit < 13; bit++) {
		struct ibv_qp *qp;

		attr.send_ops_flags = 1ull << bit;
		errno = 0;
		qp = ibv_create_qp_ex(a.context, &attr);
		CHECK(!qp == !(good & 1ull << bit));
		CHECK(qp || errno == EOPNOTSUPP);
		CHECK(!qp || ibv_destroy_qp(qp) == 0);
	}
	close_ends();
}
CASE_IN_CHILD(send_ops)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_contents),      cmocka_unit_test(test_two_processes),
		cmocka_unit_test(test_dropped),	      cmocka_unit_test(test_not_ready),
		cmocka_unit_test(test_stranger),      cmocka_unit_test(test_receive_errors),
		cmocka_unit_test(test_late_receives), cmocka_unit_test(test_sender_errors),
		cmocka_unit_test(test_send_ops),
	};

	many_main(argc, argv);
	run_only();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

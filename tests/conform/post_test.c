/* SPDX-License-Identifier: BSD-2-Clause */
/* What posting refuses at once, what each state does with it, and what RESET and ERR do
 * with what was posted. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "lib/verbs_pair.h"

static struct verbs_end end;
static struct test_mem mem;

static int setup(void **state)
{
	struct pair_opts opts = pair_defaults;

	opts.sends = opts.recvs = 8;
	opts.wr_api = *state != NULL;
	end_open(&end, &opts);
	mem_new(&mem, end.pd, MEM_ANON, 4096, 0xf);
	return 0;
}

static int setup_connected(void **state)
{
	setup(state);
	end_self(&end);
	return 0;
}

static int teardown(void **state)
{
	mem_free(&mem);
	end_close(&end);
	return 0;
}

static void expect(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	wait_wc(cq, &wc);
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
	assert_int_equal(wc.qp_num, end.qp->qp_num);
}

static int post_write(uint64_t wr_id, unsigned int flags)
{
	return post_rdma(&end, IBV_WR_RDMA_WRITE, wr_id, NULL, 0, 0, 0, flags);
}

/* ---- Refused at once ---- */

/* A list with one bad request: those before are posted, *bad_wr is the bad one, errno is
 * the value. */
static void list_fails_at(int at, void (*spoil)(struct ibv_send_wr *wr), int err)
{
	struct ibv_send_wr wr[4], *bad = NULL;
	struct ibv_sge sge = {mem.start, 16, mem.mr->lkey};

	for (int i = 0; i < 4; i++)
		wr[i] = (struct ibv_send_wr){.wr_id = 10u + (unsigned)i,
					     .next = i < 3 ? &wr[i + 1] : NULL,
					     .sg_list = &sge,
					     .num_sge = 1,
					     .opcode = IBV_WR_RDMA_WRITE,
					     .send_flags = IBV_SEND_SIGNALED,
					     .wr.rdma = {mem.start, mem.mr->rkey}};
	spoil(&wr[at]);
	errno = 0;
	assert_int_equal(ibv_post_send(end.qp, wr, &bad), err);
	assert_int_equal(errno, err);
	assert_ptr_equal(bad, &wr[at]);
	for (int i = 0; i < at; i++)
		expect(end.send_cq, 10u + (unsigned)i, IBV_WC_SUCCESS);
	assert_true(no_wc(end.send_cq));
	assert_int_equal(end_query(&end), IBV_QPS_RTS);
}

static void too_many_sges(struct ibv_send_wr *wr)
{
	wr->num_sge = 5;
}

static void negative_sges(struct ibv_send_wr *wr)
{
	wr->num_sge = -1;
}

static void opcode_unknown(struct ibv_send_wr *wr)
{
	wr->opcode = (enum ibv_wr_opcode)99;
}

static void opcode_tso(struct ibv_send_wr *wr)
{
	wr->opcode = IBV_WR_TSO;
}

static void flags_unknown(struct ibv_send_wr *wr)
{
	wr->send_flags |= 1u << 20;
}

static void inline_too_long(struct ibv_send_wr *wr)
{
	wr->send_flags |= IBV_SEND_INLINE;
	wr->sg_list[0].length = 129;
}

static void inline_read(struct ibv_send_wr *wr)
{
	wr->send_flags |= IBV_SEND_INLINE;
	wr->opcode = IBV_WR_RDMA_READ;
}

static void inline_atomic(struct ibv_send_wr *wr)
{
	wr->send_flags |= IBV_SEND_INLINE;
	wr->opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static void test_send_refused(void **state)
{
	static void (*const spoils[])(struct ibv_send_wr *) = {
		too_many_sges, negative_sges,	opcode_unknown, opcode_tso,
		flags_unknown, inline_too_long, inline_read,	inline_atomic,
	};

	for (size_t i = 0; i < sizeof(spoils) / sizeof(spoils[0]); i++)
		for (int at = 0; at < 4; at++)
			if (spoils[i] != inline_too_long || at == 0) /* they share the element */
				list_fails_at(at, spoils[i], EINVAL);
}

/* Lengths that sum up beyond 32 bits are no short inline data. */
static void test_inline_sum(void **state)
{
	struct ibv_sge sges[3] = {
		{mem.start, 0x80000000u, 0}, {mem.start, 0x80000000u, 0}, {mem.start, 8, 0}};

	assert_int_equal(post_send(&end, 1, sges, 3, IBV_SEND_INLINE), EINVAL);
	sges[0].length = 128;
	sges[1].length = 1;
	assert_int_equal(post_send(&end, 1, sges, 2, IBV_SEND_INLINE), EINVAL);
	assert_true(no_wc(end.send_cq));
	sges[1].length = 0;
	assert_int_equal(post_recv(&end, 1, NULL, 0), 0);
	assert_int_equal(end_query(&end), IBV_QPS_RTS);
}

static void test_recv_refused(void **state)
{
	struct ibv_recv_wr wr[3], *bad = NULL;
	struct ibv_sge sge = {mem.start, 16, mem.mr->lkey};

	for (int i = 0; i < 3; i++)
		wr[i] = (struct ibv_recv_wr){(uint64_t)i, i < 2 ? &wr[i + 1] : NULL, &sge, 1};
	wr[2].num_sge = 5;
	assert_int_equal(ibv_post_recv(end.qp, wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr[2]);
	wr[2].num_sge = -1;
	bad = NULL;
	assert_int_equal(ibv_post_recv(end.qp, &wr[2], &bad), EINVAL);
	assert_ptr_equal(bad, &wr[2]);
	/* Two were posted; six more fit. */
	for (uint64_t i = 2; i < 8; i++)
		assert_int_equal(post_recv(&end, i, NULL, 0), 0);
	wr[2].num_sge = 1;
	bad = NULL;
	errno = 0;
	assert_int_equal(ibv_post_recv(end.qp, &wr[2], &bad), ENOMEM);
	assert_int_equal(errno, ENOMEM);
	assert_ptr_equal(bad, &wr[2]);
	assert_int_equal(end_state(&end, IBV_QPS_ERR), 0);
	for (uint64_t i = 0; i < 8; i++)
		expect(end.recv_cq, i, IBV_WC_WR_FLUSH_ERR);
	assert_true(no_wc(end.recv_cq));
}

/* A list that ends in itself ends by the queue's running full. */
static void test_endless_list(void **state)
{
	struct ibv_recv_wr wr = {.wr_id = 7}, *bad = NULL;
	struct ibv_send_wr send = {.wr_id = 7, .opcode = IBV_WR_RDMA_WRITE}, *bad_send = NULL;

	wr.next = &wr;
	assert_int_equal(ibv_post_recv(end.qp, &wr, &bad), ENOMEM);
	assert_ptr_equal(bad, &wr);
	send.next = &send;
	assert_int_equal(ibv_post_send(end.qp, &send, &bad_send), ENOMEM);
	assert_ptr_equal(bad_send, &send);
}

/* ---- Full ---- */

static void test_full_signaled(void **state)
{
	for (uint64_t i = 0; i < 8; i++)
		assert_int_equal(post_write(i, IBV_SEND_SIGNALED), 0);
	assert_int_equal(post_write(8, 0), ENOMEM);
	for (uint64_t i = 0; i < 8; i++) {
		expect(end.send_cq, i, IBV_WC_SUCCESS);
		/* One polled, one slot. */
		assert_int_equal(post_write(100 + i, 0), 0);
		assert_int_equal(post_write(8, 0), ENOMEM);
	}
}

/* Slots come back with the poll of a later signaled request, and only then. */
static void test_full_unsignaled(void **state)
{
	for (int round = 0; round < 100; round++) {
		for (uint64_t i = 0; i < 7; i++)
			assert_int_equal(post_write(i, 0), 0);
		assert_int_equal(post_write(7, IBV_SEND_SIGNALED), 0);
		assert_int_equal(post_write(8, 0), ENOMEM);
		expect(end.send_cq, 7, IBV_WC_SUCCESS);
	}
	for (uint64_t i = 0; i < 8; i++)
		assert_int_equal(post_write(i, 0), 0);
	assert_true(no_wc(end.send_cq));
	/* It can never drain. */
	for (int i = 0; i < 10; i++)
		assert_int_equal(post_write(8, IBV_SEND_SIGNALED), ENOMEM);
	assert_true(no_wc(end.send_cq));
}

/* ---- States ---- */

static void test_reset_loses(void **state)
{
	assert_int_equal(post_recv(&end, 1, NULL, 0), 0);
	assert_int_equal(post_send(&end, 2, NULL, 0, IBV_SEND_SIGNALED), 0);
	end_self(&end);
	assert_true(no_wc(end.send_cq));
	assert_true(no_wc(end.recv_cq));
	/* Neither was kept: the queues hold as much as ever. */
	for (uint64_t i = 0; i < 8; i++)
		assert_int_equal(post_recv(&end, i, NULL, 0), 0);
	for (uint64_t i = 0; i < 8; i++)
		assert_int_equal(post_send(&end, i, NULL, 0, IBV_SEND_SIGNALED), 0);
	for (uint64_t i = 0; i < 8; i++)
		expect(end.recv_cq, i, IBV_WC_SUCCESS);
}

/* Posted in INIT and RTR: accepted, and run when the state comes. */
static void test_init_keeps(void **state)
{
	assert_int_equal(end_init(&end), 0);
	assert_int_equal(post_recv(&end, 1, NULL, 0), 0);
	assert_int_equal(post_send(&end, 2, NULL, 0, IBV_SEND_SIGNALED), 0);
	assert_true(no_wc(end.send_cq));
	assert_int_equal(end_rtr(&end, end.qp->qp_num, &end.gid, end.psn), 0);
	assert_int_equal(post_recv(&end, 3, NULL, 0), 0);
	assert_int_equal(post_send(&end, 4, NULL, 0, IBV_SEND_SIGNALED), 0);
	assert_true(no_wc(end.send_cq));
	assert_true(no_wc(end.recv_cq));
	assert_int_equal(end_rts(&end), 0);
	expect(end.send_cq, 2, IBV_WC_SUCCESS);
	expect(end.send_cq, 4, IBV_WC_SUCCESS);
	expect(end.recv_cq, 1, IBV_WC_SUCCESS);
	expect(end.recv_cq, 3, IBV_WC_SUCCESS);
}

static void test_err_flushes(void **state)
{
	for (int from = IBV_QPS_INIT; from <= IBV_QPS_SQD; from++) {
		assert_int_equal(end_state(&end, IBV_QPS_RESET), 0);
		assert_int_equal(end_init(&end), 0);
		for (uint64_t i = 0; i < 3; i++)
			assert_int_equal(post_recv(&end, i, NULL, 0), 0);
		if (from >= IBV_QPS_RTR)
			assert_int_equal(end_rtr(&end, end.qp->qp_num, &end.gid, end.psn), 0);
		if (from >= IBV_QPS_RTS)
			assert_int_equal(end_rts(&end), 0);
		if (from == IBV_QPS_SQD)
			assert_int_equal(end_state(&end, IBV_QPS_SQD), 0);
		if (from != IBV_QPS_RTS) /* there they would run */
			for (uint64_t i = 10; i < 13; i++)
				assert_int_equal(post_write(i, i == 11 ? IBV_SEND_SIGNALED : 0), 0);
		assert_int_equal(end_state(&end, IBV_QPS_ERR), 0);
		assert_int_equal(post_write(13, 0), 0);
		assert_int_equal(post_recv(&end, 3, NULL, 0), 0);
		for (uint64_t i = from == IBV_QPS_RTS ? 13 : 10; i < 14; i++)
			expect(end.send_cq, i, IBV_WC_WR_FLUSH_ERR);
		for (uint64_t i = 0; i < 4; i++)
			expect(end.recv_cq, i, IBV_WC_WR_FLUSH_ERR);
		assert_true(no_wc(end.send_cq));
		assert_true(no_wc(end.recv_cq));
		assert_false(readable(end.context->async_fd));
	}
}

/* In ERR the queues go on taking and flushing what fits. */
static void test_err_full(void **state)
{
	assert_int_equal(end_state(&end, IBV_QPS_ERR), 0);
	for (int round = 0; round < 3; round++) {
		for (uint64_t i = 0; i < 8; i++) {
			assert_int_equal(post_write(i, 0), 0);
			assert_int_equal(post_recv(&end, i, NULL, 0), 0);
		}
		assert_int_equal(post_write(8, 0), ENOMEM);
		assert_int_equal(post_recv(&end, 8, NULL, 0), ENOMEM);
		for (uint64_t i = 0; i < 8; i++) {
			expect(end.send_cq, i, IBV_WC_WR_FLUSH_ERR);
			expect(end.recv_cq, i, IBV_WC_WR_FLUSH_ERR);
		}
	}
}

/* What is done stays in front of what flushes. */
static void test_err_order(void **state)
{
	assert_int_equal(post_recv(&end, 1, NULL, 0), 0);
	assert_int_equal(post_recv(&end, 2, NULL, 0), 0);
	assert_int_equal(post_send(&end, 3, NULL, 0, IBV_SEND_SIGNALED), 0);
	assert_int_equal(end_state(&end, IBV_QPS_ERR), 0);
	assert_int_equal(post_write(4, 0), 0);
	expect(end.send_cq, 3, IBV_WC_SUCCESS);
	expect(end.send_cq, 4, IBV_WC_WR_FLUSH_ERR);
	expect(end.recv_cq, 1, IBV_WC_SUCCESS);
	expect(end.recv_cq, 2, IBV_WC_WR_FLUSH_ERR);
	assert_true(no_wc(end.recv_cq));
}

static void test_reset_forgets(void **state)
{
	assert_int_equal(post_recv(&end, 1, NULL, 0), 0);
	assert_int_equal(post_recv(&end, 2, NULL, 0), 0);
	assert_int_equal(post_send(&end, 3, NULL, 0, IBV_SEND_SIGNALED), 0);
	assert_int_equal(end_state(&end, IBV_QPS_RESET), 0);
	assert_true(no_wc(end.send_cq));
	assert_true(no_wc(end.recv_cq));
	end_self(&end);
	for (uint64_t i = 0; i < 8; i++)
		assert_int_equal(post_recv(&end, 20 + i, NULL, 0), 0);
	assert_int_equal(post_recv(&end, 28, NULL, 0), ENOMEM);
	assert_int_equal(post_send(&end, 30, NULL, 0, IBV_SEND_SIGNALED), 0);
	expect(end.recv_cq, 20, IBV_WC_SUCCESS);
	expect(end.send_cq, 30, IBV_WC_SUCCESS);
}

/* From ERR with flushes unpolled, from a wait for the receiver, from SQD: hundreds of times. */
static void test_reuse(void **state)
{
	for (int round = 0; round < 500; round++) {
		assert_int_equal(end_state(&end, IBV_QPS_RESET), 0);
		end_self(&end);
		for (uint64_t i = 0; i < 4; i++)
			assert_int_equal(post_recv(&end, i, NULL, 0), 0);
		for (uint64_t i = 0; i < (uint64_t)(4 + round % 4); i++)
			assert_int_equal(post_send(&end, i, NULL, 0, IBV_SEND_SIGNALED), 0);
		for (uint64_t i = 0; i < 4; i++) {
			expect(end.send_cq, i, IBV_WC_SUCCESS);
			expect(end.recv_cq, i, IBV_WC_SUCCESS);
		}
		if (round % 3 == 1)
			assert_int_equal(end_state(&end, IBV_QPS_ERR), 0);
		if (round % 3 == 2)
			assert_int_equal(end_state(&end, IBV_QPS_SQD), 0);
	}
	assert_int_equal(end_state(&end, IBV_QPS_RESET), 0);
	assert_true(no_wc(end.send_cq));
	assert_true(no_wc(end.recv_cq));
	/* What vanished does not count as waiting in the CQ. */
	assert_false(readable(end.context->async_fd));
}

/* ---- SQD ---- */

static void enter_sqd(int notify, int mask)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = (uint8_t)notify};

	assert_int_equal(ibv_modify_qp(end.qp, &attr, IBV_QP_STATE | mask), 0);
}

static void test_sqd(void **state)
{
	struct ibv_async_event event;

	for (int round = 0; round < 3; round++) {
		enter_sqd(1, IBV_QP_EN_SQD_ASYNC_NOTIFY);
		assert_int_equal(wait_event(end.context, &event), IBV_EVENT_SQ_DRAINED);
		assert_ptr_equal(event.element.qp, end.qp);
		assert_int_equal(end_query(&end), IBV_QPS_SQD);
		/* Queued, not begun. */
		assert_int_equal(post_recv(&end, 1, NULL, 0), 0);
		assert_int_equal(post_send(&end, 2, NULL, 0, IBV_SEND_SIGNALED), 0);
		assert_true(no_wc(end.send_cq));
		assert_true(no_wc(end.recv_cq));
		assert_int_equal(end_state(&end, IBV_QPS_RTS), 0);
		expect(end.send_cq, 2, IBV_WC_SUCCESS);
		expect(end.recv_cq, 1, IBV_WC_SUCCESS);
		assert_false(readable(end.context->async_fd));
	}
	/* Asked for each time anew: without the bit there is none. */
	enter_sqd(0, IBV_QP_EN_SQD_ASYNC_NOTIFY);
	assert_int_equal(end_state(&end, IBV_QPS_RTS), 0);
	enter_sqd(0, 0);
	assert_int_equal(end_query(&end), IBV_QPS_SQD);
	assert_false(readable(end.context->async_fd));
	assert_int_equal(end_state(&end, IBV_QPS_RTS), 0);
	assert_false(readable(end.context->async_fd));
}

/* Drained means that what has begun has ended: here, a SEND that the receiver is not
 * ready for. */
static void test_sqd_waits_for_started(void **state)
{
	struct ibv_async_event event;

	assert_int_equal(post_send(&end, 1, NULL, 0, IBV_SEND_SIGNALED), 0);
	assert_int_equal(post_send(&end, 2, NULL, 0, IBV_SEND_SIGNALED), 0);
	assert_true(no_wc(end.send_cq));
	enter_sqd(1, IBV_QP_EN_SQD_ASYNC_NOTIFY);
	assert_true(no_wc(end.send_cq));
	assert_false(readable(end.context->async_fd));
	assert_int_equal(post_recv(&end, 3, NULL, 0), 0);
	assert_int_equal(post_recv(&end, 4, NULL, 0), 0);
	expect(end.send_cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(wait_event(end.context, &event), IBV_EVENT_SQ_DRAINED);
	assert_true(no_wc(end.send_cq));
	assert_int_equal(end_state(&end, IBV_QPS_RTS), 0);
	expect(end.send_cq, 2, IBV_WC_SUCCESS);
}

/* The first packet to a QP in RTR says that the connection stands. */
static void test_comm_est(void **state)
{
	struct verbs_pair pair;
	struct ibv_wc wc;

	pair_create_raw(&pair, &pair_defaults, true);
	assert_int_equal(end_init(&pair.a), 0);
	assert_int_equal(pair_b_modify(&pair, IBV_QPS_INIT), 0);
	assert_int_equal(pair_b_modify(&pair, IBV_QPS_RTR), 0);
	assert_int_equal(end_rtr(&pair.a, pair.b_qpn, &pair.b_gid, pair.b_psn), 0);
	assert_int_equal(end_rts(&pair.a), 0);
	assert_int_equal(pair_b_recv(&pair, 1, 0, NULL, 0), 0);
	assert_int_equal(post_send(&pair.a, 2, NULL, 0, IBV_SEND_SIGNALED), 0);
	wait_wc(pair.a.send_cq, &wc);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(pair_b(&pair, PAIR_WAIT_RECV).wc.wr_id, 1);
	assert_int_equal(pair_b(&pair, PAIR_EVENT).ret, IBV_EVENT_COMM_EST);
	pair_destroy(&pair);
}

/* ---- ibv_wr_* ---- */

static void begin(uint64_t wr_id, unsigned int flags)
{
	end.qpx->wr_id = wr_id;
	end.qpx->wr_flags = flags;
}

static void build_write(uint64_t wr_id, unsigned int flags)
{
	begin(wr_id, flags);
	ibv_wr_rdma_write(end.qpx, mem.mr->rkey, mem.start + 1024);
	ibv_wr_set_sge(end.qpx, mem.mr->lkey, mem.start, 16);
}

/* One bad request drops the whole batch, and the queue is as before. */
static void batch_fails(void (*bad)(void), int err)
{
	ibv_wr_start(end.qpx);
	build_write(1, IBV_SEND_SIGNALED);
	bad();
	build_write(3, IBV_SEND_SIGNALED);
	errno = 0;
	assert_int_equal(ibv_wr_complete(end.qpx), err);
	assert_int_equal(errno, err);
	assert_true(no_wc(end.send_cq));
	for (uint64_t i = 0; i < 8; i++)
		assert_int_equal(post_write(i, IBV_SEND_SIGNALED), 0);
	for (uint64_t i = 0; i < 8; i++)
		expect(end.send_cq, i, IBV_WC_SUCCESS);
}

static void bad_sge_list(void)
{
	struct ibv_sge sges[5] = {{0}};

	begin(2, 0);
	ibv_wr_send(end.qpx);
	ibv_wr_set_sge_list(end.qpx, 5, sges);
}

static void bad_inline(void)
{
	begin(2, 0);
	ibv_wr_send(end.qpx);
	ibv_wr_set_inline_data(end.qpx, mem.base, 129);
}

static void bad_inline_list(void)
{
	struct ibv_data_buf bufs[2] = {{mem.base, 100}, {mem.base, 29}};

	begin(2, 0);
	ibv_wr_send(end.qpx);
	ibv_wr_set_inline_data_list(end.qpx, 2, bufs);
}

static void bad_inline_sum(void)
{
	struct ibv_data_buf bufs[2] = {{mem.base, SIZE_MAX - 3}, {mem.base, 8}};

	begin(2, 0);
	ibv_wr_send(end.qpx);
	ibv_wr_set_inline_data_list(end.qpx, 2, bufs);
}

static void bad_inline_read(void)
{
	begin(2, 0);
	ibv_wr_rdma_read(end.qpx, mem.mr->rkey, mem.start);
	ibv_wr_set_inline_data(end.qpx, mem.base, 8);
}

static void too_many(void)
{
	for (uint64_t i = 0; i < 8; i++)
		build_write(i, 0);
}

static void test_wr_batches(void **state)
{
	batch_fails(bad_sge_list, EINVAL);
	batch_fails(bad_inline, EINVAL);
	batch_fails(bad_inline_list, EINVAL);
	batch_fails(bad_inline_sum, EINVAL);
	batch_fails(bad_inline_read, EINVAL);
	batch_fails(too_many, ENOMEM);
	/* A setter with nothing before it. */
	ibv_wr_start(end.qpx);
	ibv_wr_set_sge(end.qpx, mem.mr->lkey, mem.start, 16);
	assert_int_equal(ibv_wr_complete(end.qpx), EINVAL);
}

static void test_wr_abort(void **state)
{
	ibv_wr_start(end.qpx);
	build_write(1, IBV_SEND_SIGNALED);
	build_write(2, IBV_SEND_SIGNALED);
	ibv_wr_abort(end.qpx);
	assert_true(no_wc(end.send_cq));
	/* An empty batch is fine. */
	ibv_wr_start(end.qpx);
	assert_int_equal(ibv_wr_complete(end.qpx), 0);
	/* Between regions both ways of posting may take turns. */
	for (uint64_t i = 0; i < 20; i += 2) {
		assert_int_equal(post_write(i, IBV_SEND_SIGNALED), 0);
		ibv_wr_start(end.qpx);
		build_write(i + 1, IBV_SEND_SIGNALED);
		assert_int_equal(ibv_wr_complete(end.qpx), 0);
		expect(end.send_cq, i, IBV_WC_SUCCESS);
		expect(end.send_cq, i + 1, IBV_WC_SUCCESS);
	}
}

/* Nothing runs before the batch is complete. */
static void test_wr_all_at_once(void **state)
{
	mem_fill(&mem, NULL, 0, 0);
	memset(mem.base, 0x11, 16);
	ibv_wr_start(end.qpx);
	build_write(1, IBV_SEND_SIGNALED);
	assert_int_equal(mem.base[1024], PAIR_FILL);
	assert_true(no_wc(end.send_cq));
	assert_int_equal(ibv_wr_complete(end.qpx), 0);
	expect(end.send_cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(mem.base[1024], 0x11);
}

/* Only what send_ops_flags named may be built. */
static void test_wr_ops(void **state)
{
	struct ibv_qp_init_attr_ex attr = {.send_cq = end.send_cq,
					   .recv_cq = end.recv_cq,
					   .cap = {4, 4, 1, 1, 0},
					   .qp_type = IBV_QPT_RC,
					   .pd = end.pd,
					   .comp_mask = IBV_QP_INIT_ATTR_PD |
							IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					   .send_ops_flags = IBV_QP_EX_WITH_SEND};
	struct ibv_qp *qp = ibv_create_qp_ex(end.context, &attr);
	struct ibv_qp_ex *ex;

	assert_non_null(qp);
	ex = ibv_qp_to_qp_ex(qp);
	ibv_wr_start(ex);
	ibv_wr_rdma_write(ex, 1, 2);
	ibv_wr_set_sge(ex, 1, 2, 3);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_sge(ex, 1, 2, 3);
	assert_int_equal(ibv_wr_complete(ex), 0); /* RESET: taken, never run */
	assert_int_equal(ibv_destroy_qp(qp), 0);
	attr.send_ops_flags = 1ull << 40;
	errno = 0;
	assert_null(ibv_create_qp_ex(end.context, &attr));
	assert_int_equal(errno, EOPNOTSUPP);
}

/* FENCE, SOLICITED and the rest are taken on every operation. */
static void test_flags(void **state)
{
	struct ibv_sge sge = {mem.start, 8, mem.mr->lkey};

	for (int op = 0; op <= IBV_WR_ATOMIC_FETCH_AND_ADD; op++) {
		assert_int_equal(post_recv(&end, 1, &sge, 1), 0);
		assert_int_equal(post_rdma(&end, (enum ibv_wr_opcode)op, 5, &sge, 1,
					   mem.start + ((-mem.start) & 7), mem.mr->rkey,
					   IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED),
				 0);
		expect(end.send_cq, 5, IBV_WC_SUCCESS);
	}
}

#define CONNECTED(test) cmocka_unit_test_setup_teardown(test, setup_connected, teardown)
#define RAW(test)	cmocka_unit_test_setup_teardown(test, setup, teardown)
#define BUILT(test)                                                                                \
	cmocka_unit_test_prestate_setup_teardown(test, setup_connected, teardown, (void *)1)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		CONNECTED(test_send_refused),
		CONNECTED(test_inline_sum),
		CONNECTED(test_recv_refused),
		CONNECTED(test_endless_list),
		CONNECTED(test_full_signaled),
		CONNECTED(test_full_unsignaled),
		RAW(test_reset_loses),
		RAW(test_init_keeps),
		CONNECTED(test_err_flushes),
		CONNECTED(test_err_full),
		CONNECTED(test_err_order),
		CONNECTED(test_reset_forgets),
		CONNECTED(test_reuse),
		CONNECTED(test_sqd),
		CONNECTED(test_sqd_waits_for_started),
		cmocka_unit_test(test_comm_est),
		BUILT(test_wr_batches),
		BUILT(test_wr_abort),
		BUILT(test_wr_all_at_once),
		BUILT(test_wr_ops),
		CONNECTED(test_flags),
	};
	uint8_t frame[PAIR_STACK_BYTES];

	pair_main(argc, argv, frame);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

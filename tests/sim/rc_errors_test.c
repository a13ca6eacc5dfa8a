/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How connections end: each scenario posts work, breaks something, and looks at the
 * completions of both ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "lib/simnet.h"

#define BASE  UINT64_C(0x20000)
#define SIZE  8192
#define RKEY  0x55
#define START 1000
#define ACK   (UINT64_C(4096) << 8)
/* After 1, 3, 7 and 15 sixteenths of the first ack timer, and half of each of the other three. */
#define PROBES (4 + 3)

static struct simnet *net;
static uint8_t mem[SIZE], recv_buf[8][SIZE], local[16][SIZE];
static struct sim_end *a, *b;

static int set_up(void **state)
{
	const struct sim_conf conf = {.seed = 1,
				      .mtu = 1024,
				      .window = 16,
				      .timeout = 8,
				      .retry_cnt = 3,
				      .rnr_retry = 2,
				      .min_rnr_timer = 20, /* 10.24 ms */
				      .rd_atomic = 4,
				      .psn = 0xfffffe};

	if (!net)
		net = sim_new();
	sim_init(net, &conf);
	a = &net->end[0];
	b = &net->end[1];
	fake_init(&b->env, mem, BASE, SIZE);
	fake_key(&b->env, RKEY, 7,
		 VB_ACCESS_REMOTE_WRITE | VB_ACCESS_REMOTE_READ | VB_ACCESS_REMOTE_ATOMIC, BASE,
		 SIZE);
	return 0;
}

static struct vb_rc_wqe *post(enum vb_msg_kind kind, uint64_t length)
{
	uint32_t i = a->sq.tail % 16;
	struct vb_rc_wqe wqe = {.wr_id = 100 + a->sq.tail,
				.kind = kind,
				.rkey = RKEY,
				.remote_addr = BASE,
				.length = length};

	return &a->ring[sim_post(net, 0, &wqe, local[i])];
}

static void ends(uint32_t n, enum vb_wc_status status)
{
	assert_true(n < a->nsent);
	assert_int_equal(a->sent[n].wr_id, 100 + n);
	assert_int_equal(a->sent[n].status, status);
}

/* Nothing arrives: one timeout more than retries. */
static void test_silence(void **state)
{
	a->link.loss = 1000;
	post(VB_MSG_WRITE, 5000);
	post(VB_MSG_READ, 10);
	sim_run(net);
	ends(0, VB_WC_RETRY_EXC_ERR);
	ends(1, VB_WC_WR_FLUSH_ERR);
	assert_int_equal(a->sent_ns[0], START + 4 * ACK);
	/* All at first, then as few as may be; and the probes between. */
	assert_int_equal(a->link.count, 6 + 3 * 4 + PROBES);
	assert_int_equal(a->qp_errs, 1);
	assert_int_equal(b->qp_errs, 0);
}

/* Everything arrives, no answer does. It is executed once all the same. */
static void test_silent_answers(void **state)
{
	uint64_t value = 0;

	b->link.loss = 1000;
	memset(mem, 0, 8);
	post(VB_MSG_FETCH_ADD, 8)->compare_add = 5;
	sim_run(net);
	ends(0, VB_WC_RETRY_EXC_ERR);
	memcpy(&value, mem, 8);
	assert_int_equal(value, 5);
	assert_int_equal(b->env.atomics, 1);
	assert_int_equal(b->verdicts[VB_V_DUPLICATE], 3 + PROBES);
}

/* The peer is not ready yet, or no longer. */
static void test_states(void **state)
{
	static const enum vb_qp_state states[] = {VB_QPS_RESET, VB_QPS_INIT, VB_QPS_ERR};

	for (size_t i = 0; i < 3; i++) {
		set_up(state);
		b->qp.state = states[i];
		post(VB_MSG_WRITE, 1);
		sim_run(net);
		ends(0, VB_WC_RETRY_EXC_ERR);
		assert_int_equal(b->verdicts[VB_V_DROP_STATE], 4 + PROBES);
	}
}

static void become_ready(void *arg)
{
	b->qp.state = VB_QPS_RTR;
}

static void test_ready_in_time(void **state)
{
	b->qp.state = VB_QPS_INIT;
	sim_at(net, START + 3 * ACK - 1, become_ready, NULL);
	post(VB_MSG_WRITE, 1);
	sim_run(net);
	ends(0, VB_WC_SUCCESS);
	assert_int_equal(b->nevents, 1);
	assert_int_equal(b->events[0], VB_EVENT_COMM_EST);
}

static void test_rnr_exhausted(void **state)
{
	post(VB_MSG_WRITE, 1);
	post(VB_MSG_SEND, 1);
	post(VB_MSG_SEND, 1);
	sim_run(net);
	ends(0, VB_WC_SUCCESS);
	ends(1, VB_WC_RNR_RETRY_EXC_ERR);
	ends(2, VB_WC_WR_FLUSH_ERR);
	assert_int_equal(b->verdicts[VB_V_RNR], 3);
	/* Two waits, and a trip there and back around each. */
	assert_true(a->sent_ns[1] >= START + 2 * 10240000 + 3 * 10000);
	assert_int_equal(b->qp_errs, 0);
}

static void post_late(void *arg)
{
	fake_post_recv(&b->env, 7, recv_buf[0], SIZE);
}

/* rnr_retry 7 waits for ever; a second of it here. */
static void test_rnr_forever(void **state)
{
	a->sq.budget.rnr_retry = 7;
	a->sq.budget.rnr_left = 7;
	sim_at(net, UINT64_C(1000000000), post_late, NULL);
	post(VB_MSG_SEND, 3000);
	sim_run(net);
	ends(0, VB_WC_SUCCESS);
	assert_true(b->verdicts[VB_V_RNR] > 90);
	assert_int_equal(b->env.ndone, 1);
}

/* A refusal behind a READ whose answer is lost: the READ is finished first. */
static void test_nak_after_lost_read(void **state)
{
	b->link.drop_mask = 1;
	post(VB_MSG_READ, 100);
	post(VB_MSG_WRITE, 1)->rkey = 0x1;
	post(VB_MSG_WRITE, 1);
	sim_run(net);
	/* The responder is in ERR by then and answers nothing more. */
	ends(0, VB_WC_RETRY_EXC_ERR);
	ends(1, VB_WC_WR_FLUSH_ERR);
	ends(2, VB_WC_WR_FLUSH_ERR);
	assert_int_equal(b->events[0], VB_EVENT_QP_ACCESS_ERR);

	set_up(state);
	post(VB_MSG_READ, 100);
	post(VB_MSG_WRITE, 1)->rkey = 0x1;
	post(VB_MSG_WRITE, 1);
	sim_run(net);
	ends(0, VB_WC_SUCCESS);
	ends(1, VB_WC_REM_ACCESS_ERR);
	ends(2, VB_WC_WR_FLUSH_ERR);
	assert_int_equal(b->qp_errs, 1);
}

/* A failure of the responder flushes its own send queue, not the answer it owes. */
static void test_responder_fails(void **state)
{
	fake_post_recv(&b->env, 7, recv_buf[0], 10);
	post(VB_MSG_SEND, 11);
	sim_run(net);
	ends(0, VB_WC_REM_INV_REQ_ERR);
	assert_int_equal(b->env.ndone, 1);
	assert_int_equal(b->env.done[0].status, VB_WC_LOC_LEN_ERR);
	assert_int_equal(b->nevents, 0);
	assert_int_equal(b->qp.state, VB_QPS_ERR);
	assert_int_equal(b->sq.state, VB_SQ_ERR);
}

/* The initiator fails in the middle of the peer's message to it: both receives end. */
static void test_receive_in_progress_flushes(void **state)
{
	struct vb_rc_wqe wqe = {.wr_id = 1, .kind = VB_MSG_SEND, .length = 3000};

	fake_post_recv(&a->env, 8, recv_buf[1], SIZE);
	b->link.drop_mask = ~UINT64_C(1); /* the first packet of the SEND arrives */
	sim_post(net, 1, &wqe, local[0]);
	post(VB_MSG_WRITE, 1);
	sim_run(net);
	ends(0, VB_WC_RETRY_EXC_ERR);
	assert_int_equal(a->env.ndone, 1);
	assert_int_equal(a->env.done_id[0], 8);
	assert_int_equal(a->env.done[0].status, VB_WC_WR_FLUSH_ERR);
}

static void key_goes(void *arg)
{
	b->env.keys[0].rkey = 0;
}

/* Deregistered while a READ is answered. */
static void test_key_goes_during_read(void **state)
{
	net->budget = 1;
	vb_rc_window_init(&a->sq.window, 2);
	post(VB_MSG_READ, SIZE);
	post(VB_MSG_READ, 8);
	sim_at(net, START + 12000, key_goes, NULL);
	sim_run(net);
	ends(0, VB_WC_SUCCESS);
	ends(1, VB_WC_REM_ACCESS_ERR);
	assert_int_equal(b->events[0], VB_EVENT_QP_ACCESS_ERR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_silence, set_up),
		cmocka_unit_test_setup(test_silent_answers, set_up),
		cmocka_unit_test_setup(test_states, set_up),
		cmocka_unit_test_setup(test_ready_in_time, set_up),
		cmocka_unit_test_setup(test_rnr_exhausted, set_up),
		cmocka_unit_test_setup(test_rnr_forever, set_up),
		cmocka_unit_test_setup(test_nak_after_lost_read, set_up),
		cmocka_unit_test_setup(test_responder_fails, set_up),
		cmocka_unit_test_setup(test_receive_in_progress_flushes, set_up),
		cmocka_unit_test_setup(test_key_goes_during_read, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Drained send queues: when it is told, and what may change meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "lib/verbs_pair.h"

static void to_sqd(struct verbs_end *end)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};

	assert_int_equal(ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY),
			 0);
}

static void drained(struct verbs_end *end)
{
	struct ibv_async_event event;

	assert_int_equal(wait_event(end->context, &event), IBV_EVENT_SQ_DRAINED);
	assert_ptr_equal(event.element.qp, end->qp);
}

static void expect(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	wait_wc(cq, &wc);
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
}

static void send_goes(struct verbs_pair *pair, uint64_t wr_id)
{
	assert_int_equal(pair_b_recv(pair, wr_id, 0, NULL, 0), 0);
	assert_int_equal(post_send(&pair->a, wr_id, NULL, 0, IBV_SEND_SIGNALED), 0);
	expect(pair->a.send_cq, wr_id, IBV_WC_SUCCESS);
	expect(pair->b.recv_cq, wr_id, IBV_WC_SUCCESS);
}

/* The last answer drains it: without an ack timer nothing else would run the queue. */
static void test_an_answer_drains(void **state)
{
	struct pair_opts opts = pair_defaults;
	struct verbs_pair pair;

	opts.timeout = 0;
	opts.rnr_retry = 7;
	pair_create(&pair, &opts, false);
	for (uint64_t round = 1; round <= 20; round++) {
		/* Begun: its receiver is not ready. */
		assert_int_equal(post_send(&pair.a, round, NULL, 0, IBV_SEND_SIGNALED), 0);
		to_sqd(&pair.a);
		assert_int_equal(pair_b_recv(&pair, round, 0, NULL, 0), 0);
		expect(pair.a.send_cq, round, IBV_WC_SUCCESS);
		drained(&pair.a);
		expect(pair.b.recv_cq, round, IBV_WC_SUCCESS);
		assert_int_equal(end_state(&pair.a, IBV_QPS_RTS), 0);
	}
	pair_destroy(&pair);
}

/* Another address of the port, which its peer goes along with. */
static void move(struct verbs_end *end, int own, const union ibv_gid *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_SQD,
		.timeout = 15,
		.retry_cnt = 6,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = *peer, .sgid_index = (uint8_t)own, .hop_limit = 64}},
	};

	assert_int_equal(
		ibv_modify_qp(end->qp, &attr,
			      IBV_QP_STATE | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT),
		0);
}

static void test_another_address(void **state)
{
	union ibv_gid gids[2];
	struct verbs_pair pair;
	uint64_t wr_id = 1;

	pair_create(&pair, &pair_defaults, false);
	for (int i = 0; i < 2; i++) {
		if (ibv_query_gid(pair.a.context, 1, i, &gids[i]) ||
		    !memcmp(&gids[i], &gids[!i], sizeof(gids[i]))) {
			pair_destroy(&pair);
			skip();
		}
	}
	send_goes(&pair, wr_id++);
	for (int round = 0; round < 4; round++) {
		int index = !(round % 2);

		to_sqd(&pair.a);
		drained(&pair.a);
		to_sqd(&pair.b);
		drained(&pair.b);
		move(&pair.a, index, &gids[index]);
		move(&pair.b, index, &gids[index]);
		assert_int_equal(end_state(&pair.b, IBV_QPS_RTS), 0);
		assert_int_equal(end_state(&pair.a, IBV_QPS_RTS), 0);
		send_goes(&pair, wr_id++);
	}
	pair_destroy(&pair);
}

/* What a silent peer is tried for: without a retry once, and soon. */
static void test_other_retries(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .timeout = 1, .retry_cnt = 0};
	struct pair_opts opts = pair_defaults;
	struct verbs_pair pair;

	/* For ever, as it was made. */
	opts.timeout = 0;
	pair_create(&pair, &opts, false);
	to_sqd(&pair.a);
	drained(&pair.a);
	assert_int_equal(
		ibv_modify_qp(pair.a.qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT),
		0);
	assert_int_equal(end_state(&pair.a, IBV_QPS_RTS), 0);
	assert_int_equal(end_state(&pair.b, IBV_QPS_RESET), 0);
	assert_int_equal(post_send(&pair.a, 1, NULL, 0, IBV_SEND_SIGNALED), 0);
	expect(pair.a.send_cq, 1, IBV_WC_RETRY_EXC_ERR);
	pair_destroy(&pair);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_answer_drains),
		cmocka_unit_test(test_another_address),
		cmocka_unit_test(test_other_retries),
	};
	uint8_t frame[PAIR_STACK_BYTES];

	pair_main(argc, argv, frame);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Notes that accompany no failure: what is going to go wrong, said before it does. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "lib/rule.h"
#include "lib/verbs_pair.h"

static struct ibv_context *context;
static struct ibv_pd *pd;

static int open_device(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	ibv_free_device_list(list);
	pd = context ? ibv_alloc_pd(context) : NULL;
	return pd ? 0 : -1;
}

static int close_device(void **state)
{
	return ibv_dealloc_pd(pd) || ibv_close_device(context);
}

static struct ibv_qp *make_qp(struct ibv_cq *cq, uint32_t sends, uint32_t recvs)
{
	struct ibv_qp_init_attr init = {.send_cq = cq,
					.recv_cq = cq,
					.qp_type = IBV_QPT_RC,
					.cap = {sends, recvs, 1, 1, 0}};

	return ibv_create_qp(pd, &init);
}

/* The sum of the queues is said at creation, not at the overrun. */
static void test_small_cq(void **state)
{
	struct ibv_cq *cq = ibv_create_cq(context, 10, NULL, NULL, 0);
	struct ibv_qp *fits = make_qp(cq, 5, 5), *more;

	assert_non_null(fits);
	assert_false(rule_said("cq-small"));
	more = make_qp(cq, 1, 0);
	assert_non_null(more);
	assert_true(rule_said("cq-small"));
	assert_int_equal(ibv_destroy_qp(more), 0);
	assert_int_equal(ibv_destroy_qp(fits), 0);
	/* What was destroyed no longer counts. */
	fits = make_qp(cq, 10, 0);
	assert_false(rule_said("cq-small"));
	assert_int_equal(ibv_destroy_qp(fits), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

/* Waiting on a channel whose CQ holds completions and is not armed never ends. */
static void test_unarmed_wait(void **state)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq *cq = ibv_create_cq(context, 10, NULL, channel, 0), *got;
	struct ibv_qp *qp = make_qp(cq, 4, 4);
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	void *user;

	assert_int_equal(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(ibv_get_cq_event(channel, &got, &user), -1);
	assert_false(rule_said("wait-unarmed"));
	assert_int_equal(
		ibv_modify_qp(qp, &init,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		0);
	assert_int_equal(ibv_modify_qp(qp, &error, IBV_QP_STATE), 0);
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
	assert_int_equal(ibv_get_cq_event(channel, &got, &user), -1);
	assert_true(rule_said("wait-unarmed"));
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

/* Where every step to the peer's memory is forbidden the requester says so, and hears
 * nothing. */
static void test_unreachable(void **state)
{
	struct pair_opts opts = pair_defaults;
	struct verbs_pair pair;
	struct test_mem mine;
	struct pair_rep theirs;
	struct ibv_sge sge;
	struct ibv_wc wc;

	opts.timeout = 8;
	opts.retry_cnt = 1;
	pair_create(&pair, &opts, true);
	theirs = pair_b_mem(&pair, MEM_ANON, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	mem_new(&mine, pair.a.pd, MEM_ANON, 64, IBV_ACCESS_LOCAL_WRITE);
	sge = (struct ibv_sge){(uintptr_t)mine.base, 64, mine.mr->lkey};
	assert_int_equal(post_rdma(&pair.a, IBV_WR_RDMA_WRITE, 1, &sge, 1, theirs.addr, theirs.rkey,
				   IBV_SEND_SIGNALED),
			 0);
	wait_wc(pair.a.send_cq, &wc);
	assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
	assert_true(rule_said("wc-unreachable"));
	mem_free(&mine);
	pair_destroy(&pair);
}

/* No host has the address: packets go, and no answer comes. */
static void test_no_answer(void **state)
{
	union ibv_gid nobody = {.raw = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 99}};
	struct pair_opts opts = pair_defaults;
	struct verbs_end end;
	struct ibv_wc wc;

	opts.timeout = 8;
	opts.retry_cnt = 1;
	end_open(&end, &opts);
	assert_int_equal(end_init(&end), 0);
	assert_int_equal(end_rtr(&end, 0x17, &nobody, 1), 0);
	assert_int_equal(end_rts(&end), 0);
	assert_int_equal(post_send(&end, 1, NULL, 0, 0), 0);
	wait_wc(end.send_cq, &wc);
	assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(wc.wr_id, 1);
	assert_int_equal(wc.qp_num, end.qp->qp_num);
	assert_true(rule_said("wc-retry"));
	end_close(&end);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_small_cq),
		cmocka_unit_test(test_unarmed_wait),
		cmocka_unit_test(test_unreachable),
		cmocka_unit_test(test_no_answer),
	};
	uint8_t frame[PAIR_STACK_BYTES];

	/* For the last test; the others stay within this process. */
	setenv("VERBENA_MEMORY", "own", 1);
	pair_main(argc, argv, frame);

	rule_log_start();
	return cmocka_run_group_tests(tests, open_device, close_device);
}

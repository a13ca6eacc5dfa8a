/* SPDX-License-Identifier: BSD-2-Clause */
/* Case 42: a CQ that gets more than it holds fails, with every QP that completes there. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/rule.h"
#include "lib/verbs_many.h"

static struct verbs_end end; /* its CQs are large */
static struct slots in;

static void open_end(void)
{
	struct pair_opts opts = pair_defaults;

	opts.cqe = 1024;
	opts.sends = opts.recvs = 64;
	many_open(&end, IBV_QPT_RC, &opts);
	slots_new(&in, end.pd, 2048, 64);
}

static void close_end(void)
{
	slots_free(&in);
	end_close(&end);
}

static struct verbs_end on_cqs(struct ibv_cq *send_cq, struct ibv_cq *recv_cq,
			       enum ibv_qp_type type)
{
	struct verbs_end more = end;

	more.send_cq = send_cq;
	more.recv_cq = recv_cq;
	more.qp = many_qp(&more, type, NULL);
	many_up(&more, more.qp->qp_num, &more.gid, more.psn);
	return more;
}

static struct ibv_cq *cq_of(int cqe, unsigned int flags)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = (uint32_t)cqe,
					   .wc_flags = IBV_WC_STANDARD_FLAGS,
					   .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
					   .flags = flags};
	struct ibv_cq *cq = flags ? ibv_cq_ex_to_cq(ibv_create_cq_ex(end.context, &attr))
				  : ibv_create_cq(end.context, cqe, NULL, NULL, 0);

	CHECK(cq && cq->cqe >= cqe);
	return cq;
}

static uint32_t drain(struct ibv_cq *cq, uint32_t *good)
{
	uint32_t found = 0;
	struct ibv_wc wc;

	for (int looks = 0; looks < 1000; looks++)
		while (ibv_poll_cq(cq, 1, &wc) == 1) {
			found++;
			*good += wc.status == IBV_WC_SUCCESS;
		}
	return found;
}

/* CQ_ERR once, and QP_FATAL once for each of the QPs; in whatever order, and no more. */
static void want_events(struct ibv_cq *cq, struct verbs_end *qps, int count)
{
	uint32_t fatal = 0, errs = 0;

	for (int i = 0; i < count + 1; i++) {
		struct ibv_async_event event;
		int type = wait_event(end.context, &event);

		if (type == IBV_EVENT_CQ_ERR) {
			CHECK(event.element.cq == cq);
			errs++;
			continue;
		}
		CHECK(type == IBV_EVENT_QP_FATAL);
		for (int k = 0; k < count; k++)
			if (event.element.qp == qps[k].qp)
				fatal |= 1u << k;
	}
	CHECK(errs == 1 && fatal == (1u << count) - 1);
	for (int k = 0; k < count; k++)
		CHECK(end_query(&qps[k]) == IBV_QPS_ERR);
	CHECK(!readable(end.context->async_fd));
}

static void sends(void *arg)
{
	struct ibv_cq *cq;
	struct verbs_end qps[3], apart;
	struct ibv_wc wc;
	uint32_t good = 0, found, done;

	rule_log_start();
	open_end();
	cq = cq_of(10, 0);
	/* All three complete there, each in its way; one does not. */
	qps[0] = on_cqs(cq, end.recv_cq, IBV_QPT_RC);
	qps[1] = on_cqs(end.send_cq, cq, IBV_QPT_RC);
	qps[2] = on_cqs(cq, cq, IBV_QPT_UD);
	apart = on_cqs(end.send_cq, end.recv_cq, IBV_QPT_RC);
	for (int i = 0; i < cq->cqe; i++)
		CHECK(post_rdma(&qps[0], IBV_WR_RDMA_WRITE, 1, NULL, 0, 0, 0, IBV_SEND_SIGNALED) ==
		      0);
	/* Full is not too full. */
	CHECK(!readable(end.context->async_fd));
	for (done = 0; done < 10; done++)
		CHECK(post_rdma(&qps[0], IBV_WR_RDMA_WRITE, 1, NULL, 0, 0, 0, IBV_SEND_SIGNALED) ==
		      0);
	want_events(cq, qps, 3);
	CHECK(rule_said("cq-overrun"));
	found = drain(cq, &good);
	CHECK(found <= (uint32_t)cq->cqe);
	/* Nothing comes any more. */
	CHECK(post_recv(&qps[1], 1, NULL, 0) == 0);
	CHECK(no_wc(cq));
	CHECK(!readable(end.context->async_fd));
	/* The other one lives. */
	CHECK(post_recv(&apart, 5, NULL, 0) == 0);
	CHECK(post_send(&apart, 6, NULL, 0, IBV_SEND_SIGNALED) == 0);
	wait_wc(end.send_cq, &wc);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 6);
	wait_wc(end.recv_cq, &wc);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 5);
	for (int i = 0; i < 3; i++)
		CHECK(ibv_destroy_qp(qps[i].qp) == 0);
	CHECK(ibv_destroy_qp(apart.qp) == 0 && ibv_destroy_cq(cq) == 0);
	close_end();
}
CASE_IN_CHILD(sends)

/* Overrun by what another process sends. */
static void receives(void *arg)
{
	struct ibv_cq *cq;
	struct verbs_end qps[2];
	struct remote remote;
	uint32_t good = 0;

	open_end();
	cq = cq_of(8, 0);
	remote_start(&remote, 0, IBV_QPT_RC, NULL);
	qps[0] = end;
	qps[0].recv_cq = cq;
	qps[0].qp = many_qp(&qps[0], IBV_QPT_RC, NULL);
	remote_connect(&remote, &qps[0]);
	qps[1] = on_cqs(cq, end.recv_cq, IBV_QPT_RC);
	for (uint64_t i = 0; i < 60; i++) {
		struct ibv_sge sge = slots_sge(&in, i);

		CHECK(post_recv(&qps[0], i, &sge, 1) == 0);
	}
	remote_send(&remote, &qps[0], 0, (uint32_t)cq->cqe, 100);
	CHECK(remote_hear(&remote) == 0);
	CHECK(!readable(end.context->async_fd));
	remote_send(&remote, &qps[0], 0, 50, 100);
	remote_hear(&remote);
	want_events(cq, qps, 2);
	CHECK(drain(cq, &good) <= (uint32_t)cq->cqe);
	CHECK(no_wc(cq) && !readable(end.context->async_fd));
	for (int i = 0; i < 2; i++)
		CHECK(ibv_destroy_qp(qps[i].qp) == 0);
	CHECK(ibv_destroy_cq(cq) == 0);
	remote_quit(&remote);
	close_end();
}
CASE_IN_CHILD(receives)

/* Polled in time, it goes on for ever. */
static void in_time(void *arg)
{
	struct ibv_cq *cq;
	struct verbs_end qp;
	struct ibv_wc wc;

	open_end();
	cq = cq_of(4, 0);
	qp = on_cqs(cq, cq, IBV_QPT_RC);
	for (int round = 0; round < 500; round++) {
		for (int i = 0; i < cq->cqe / 2; i++) {
			CHECK(post_recv(&qp, 1, NULL, 0) == 0);
			CHECK(post_send(&qp, 2, NULL, 0, IBV_SEND_SIGNALED) == 0);
		}
		for (int i = 0; i < cq->cqe / 2 * 2; i++)
			wait_wc(cq, &wc);
	}
	/* What a QP took with it does not count any more. */
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < cq->cqe / 2; i++) {
			CHECK(post_recv(&qp, 1, NULL, 0) == 0);
			CHECK(post_send(&qp, 2, NULL, 0, IBV_SEND_SIGNALED) == 0);
		}
		if (round & 1) {
			CHECK(ibv_destroy_qp(qp.qp) == 0);
			qp = on_cqs(cq, cq, IBV_QPT_RC);
		} else {
			CHECK(end_state(&qp, IBV_QPS_RESET) == 0);
			end_self(&qp);
		}
	}
	CHECK(!readable(end.context->async_fd) && no_wc(cq));
	CHECK(end_query(&qp) == IBV_QPS_RTS);
	CHECK(ibv_destroy_qp(qp.qp) == 0 && ibv_destroy_cq(cq) == 0);
	close_end();
}
CASE_IN_CHILD(in_time)

/* With the flag there is no error, and the latest completion is there. */
static void ignored(void *arg)
{
	struct ibv_cq *cq;
	struct verbs_end qp;
	struct ibv_wc wc;
	uint64_t last = 0;

	open_end();
	cq = cq_of(4, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN);
	qp = on_cqs(cq, cq, IBV_QPT_RC);
	for (uint64_t i = 1; i <= 60; i++)
		CHECK(post_rdma(&qp, IBV_WR_RDMA_WRITE, i, NULL, 0, 0, 0, IBV_SEND_SIGNALED) == 0);
	CHECK(!readable(end.context->async_fd) && end_query(&qp) == IBV_QPS_RTS);
	while (ibv_poll_cq(cq, 1, &wc) == 1) {
		CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id > last);
		last = wc.wr_id;
	}
	CHECK(last == 60);
	CHECK(post_rdma(&qp, IBV_WR_RDMA_WRITE, 61, NULL, 0, 0, 0, IBV_SEND_SIGNALED) == 0);
	wait_wc(cq, &wc);
	CHECK(wc.wr_id == 61);
	CHECK(ibv_destroy_qp(qp.qp) == 0 && ibv_destroy_cq(cq) == 0);
	close_end();
}
CASE_IN_CHILD(ignored)

/* Flushing may overrun, too; and destroying in the middle of it all is safe. */
static void flushed(void *arg)
{
	struct ibv_async_event event;
	struct ibv_cq *cq;
	struct verbs_end qp;
	uint32_t good = 0;
	int errs = 0;

	open_end();
	cq = cq_of(4, 0);
	qp = on_cqs(cq, cq, IBV_QPT_RC);
	for (int i = 0; i < 20; i++)
		CHECK(post_recv(&qp, 1, NULL, 0) == 0);
	CHECK(end_state(&qp, IBV_QPS_ERR) == 0);
	for (int i = 0; i < 40; i++)
		CHECK(post_send(&qp, 1, NULL, 0, 0) == 0);
	do
		errs += wait_event(end.context, &event) == IBV_EVENT_CQ_ERR;
	while (readable(end.context->async_fd));
	CHECK(errs == 1);
	CHECK(drain(cq, &good) <= (uint32_t)cq->cqe && !good);
	CHECK(ibv_destroy_qp(qp.qp) == 0 && ibv_destroy_cq(cq) == 0);
	CHECK(!readable(end.context->async_fd));
	close_end();
}
CASE_IN_CHILD(flushed)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sends),	cmocka_unit_test(test_receives),
		cmocka_unit_test(test_in_time), cmocka_unit_test(test_ignored),
		cmocka_unit_test(test_flushed),
	};

	many_main(argc, argv);
	run_only();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

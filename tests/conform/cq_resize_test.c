/* SPDX-License-Identifier: BSD-2-Clause */
/* Resizing a CQ: what waits in it stays, in order; what it must hold decides how small. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "lib/rule.h"
#include "lib/verbs_many.h"

static struct verbs_end end;
static struct ibv_cq *cq;

static void open_end(int cqe)
{
	struct pair_opts opts = pair_defaults;

	opts.cqe = cqe;
	opts.sends = opts.recvs = 512;
	opts.same_cq = true;
	end_open(&end, &opts);
	end_self(&end);
	cq = end.send_cq;
}

static void complete(uint64_t first, uint64_t count)
{
	for (uint64_t i = first; i < first + count; i++)
		CHECK(post_rdma(&end, IBV_WR_RDMA_WRITE, i, NULL, 0, 0, 0, IBV_SEND_SIGNALED) == 0);
}

static void take(uint64_t first, uint64_t count)
{
	for (uint64_t i = first; i < first + count; i++) {
		struct ibv_wc wc;

		CHECK(ibv_poll_cq(cq, 1, &wc) == 1);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == i);
	}
}

static void resize(int cqe)
{
	CHECK(ibv_resize_cq(cq, cqe) == 0 && cq->cqe >= cqe);
}

static void refuse(int cqe)
{
	int before = cq->cqe;

	CHECK(ibv_resize_cq(cq, cqe) == EINVAL && cq->cqe == before);
	CHECK(rule_said("resize-cq-small"));
}

static void up_and_down(void *arg)
{
	struct ibv_device_attr dev;

	rule_log_start();
	open_end(8);
	CHECK(ibv_query_device(end.context, &dev) == 0);
	complete(0, 8);
	refuse(0);
	refuse(-1);
	refuse(INT32_MIN);
	refuse(dev.max_cqe + 1);
	refuse(7);
	take(0, 2);
	refuse(5);
	resize(100);
	complete(8, 90);
	refuse(50);
	take(2, 40);
	resize(56);
	take(42, 56);
	CHECK(no_wc(cq));
	resize(1);
	resize(dev.max_cqe);
	resize(300);
	complete(98, 300);
	resize(301);
	take(98, 300);
	CHECK(!readable(end.context->async_fd) && end_query(&end) == IBV_QPS_RTS);
	end_close(&end);
}
CASE_IN_CHILD(up_and_down)

/* The size that counts for an overrun is the new one. */
static void overrun_of_new_size(void *arg)
{
	struct ibv_async_event event;

	open_end(4);
	resize(64);
	complete(0, 64);
	CHECK(!readable(end.context->async_fd));
	take(0, 64);
	resize(8);
	complete(64, (uint64_t)cq->cqe);
	CHECK(!readable(end.context->async_fd));
	complete(100, 1);
	CHECK(wait_event(end.context, &event) == IBV_EVENT_CQ_ERR && event.element.cq == cq);
	CHECK(wait_event(end.context, &event) == IBV_EVENT_QP_FATAL);
	end_close(&end);
}
CASE_IN_CHILD(overrun_of_new_size)

/* Arrivals of another process count and stay as well. */
static void arrivals(void *arg)
{
	struct slots in;
	struct remote remote;
	struct ibv_wc wc;

	rule_log_start();
	open_end(16);
	CHECK(ibv_destroy_qp(end.qp) == 0);
	end.qp = many_qp(&end, IBV_QPT_RC, NULL);
	slots_new(&in, end.pd, 256, 64);
	remote_start(&remote, 2, IBV_QPT_RC, NULL);
	remote_connect(&remote, &end);
	for (uint64_t i = 0; i < 40; i++) {
		struct ibv_sge sge = slots_sge(&in, i);

		CHECK(post_recv(&end, i, &sge, 1) == 0);
	}
	remote_send(&remote, &end, 0, 12, 200);
	CHECK(remote_hear(&remote) == 0);
	refuse(11);
	resize(12);
	resize(40);
	remote_send(&remote, &end, 12, 28, 200);
	CHECK(remote_hear(&remote) == 0);
	for (uint64_t i = 0; i < 40; i++) {
		wait_wc(cq, &wc);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == i);
	}
	resize(1);
	remote_quit(&remote);
	slots_free(&in);
	end_close(&end);
}
CASE_IN_CHILD(arrivals)

static atomic_bool done;

static void *resize_always(void *arg)
{
	for (int i = 0; !atomic_load(&done); i++)
		CHECK(ibv_resize_cq(cq, 200 + i % 50) == 0);
	return NULL;
}

/* While others post and poll. */
static void meanwhile(void *arg)
{
	pthread_t thread;

	open_end(200);
	CHECK(pthread_create(&thread, NULL, resize_always, NULL) == 0);
	for (uint64_t round = 0; round < 300; round++) {
		complete(round * 100, 100);
		take(round * 100, 100);
	}
	atomic_store(&done, true);
	pthread_join(thread, NULL);
	CHECK(!readable(end.context->async_fd) && no_wc(cq));
	end_close(&end);
}
CASE_IN_CHILD(meanwhile)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_up_and_down),
		cmocka_unit_test(test_overrun_of_new_size),
		cmocka_unit_test(test_arrivals),
		cmocka_unit_test(test_meanwhile),
	};

	many_main(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

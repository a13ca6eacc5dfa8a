/* SPDX-License-Identifier: BSD-2-Clause */
/* post_states = strict: what is posted in a state that has no use for it is refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "lib/verbs_many.h"

static struct verbs_end end;

/* One request by the builder. */
static int build(void)
{
	ibv_wr_start(end.qpx);
	end.qpx->wr_id = 3;
	end.qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(end.qpx);
	ibv_wr_set_sge_list(end.qpx, 0, NULL);
	return ibv_wr_complete(end.qpx);
}

/* Both ways of posting, a list among them, are refused, and nothing of it was taken. */
static void no_sends(void)
{
	struct ibv_send_wr second = {.wr_id = 2, .opcode = IBV_WR_SEND};
	struct ibv_send_wr first = {.wr_id = 1, .opcode = IBV_WR_SEND, .next = &second},
			   *bad = NULL;

	for (int i = 0; i < 100; i++) { /* more than the queue holds */
		CHECK(ibv_post_send(end.qp, &first, &bad) == EINVAL && bad == &first);
		CHECK(build() == EINVAL);
	}
}

static void strict(void *arg)
{
	struct pair_opts opts = pair_defaults;
	struct ibv_recv_wr recv = {.wr_id = 4}, *bad = NULL;
	struct ibv_wc wc;

	CHECK(!setenv("VERBENA_POST_STATES", "strict", 1));
	opts.wr_api = true;
	end_open(&end, &opts);
	no_sends();
	CHECK(ibv_post_recv(end.qp, &recv, &bad) == EINVAL && bad == &recv);
	CHECK(end_init(&end) == 0);
	no_sends();
	CHECK(ibv_post_recv(end.qp, &recv, &bad) == 0);
	CHECK(end_rtr(&end, end.qp->qp_num, &end.gid, end.psn) == 0);
	no_sends();
	CHECK(no_wc(end.send_cq) && no_wc(end.recv_cq));
	CHECK(end_rts(&end) == 0);
	CHECK(build() == 0);
	wait_wc(end.send_cq, &wc);
	CHECK(wc.wr_id == 3 && wc.status == IBV_WC_SUCCESS);
	wait_wc(end.recv_cq, &wc);
	CHECK(wc.wr_id == 4 && wc.status == IBV_WC_SUCCESS);
	CHECK(end_state(&end, IBV_QPS_ERR) == 0);
	CHECK(build() == 0 && ibv_post_recv(end.qp, &recv, &bad) == 0);
	wait_wc(end.send_cq, &wc);
	CHECK(wc.status == IBV_WC_WR_FLUSH_ERR);
	wait_wc(end.recv_cq, &wc);
	CHECK(wc.status == IBV_WC_WR_FLUSH_ERR);
	CHECK(end_state(&end, IBV_QPS_RESET) == 0);
	no_sends();
	CHECK(no_wc(end.send_cq) && no_wc(end.recv_cq));
	end_close(&end);
}
CASE_IN_CHILD(strict)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_strict)};

	many_main(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

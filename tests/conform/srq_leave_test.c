/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared receive queues: receives whose QP leaves, or whose sender stops or dies. */
#include "lib/srq_bed.h"

/* ---- QPs that leave ---- */

/* Receives whose completions nobody will poll are offered again, and count as posted. */
static void given_back(void *arg)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	struct tally tally = {.got = 0};
	struct verbs_end more;
	uint32_t sender = 0;

	open_up(DEEP);
	for (int destroy = 0; destroy < 2; destroy++)
		for (uint32_t taken = 1; taken <= DEEP; taken += 5) {
			struct ibv_sge sge = slots_sge(&in, 0);

			post_slots(0, DEEP);
			more = one_more();
			for (uint32_t i = 0; i < taken; i++)
				send_to_self(&more, 15, i);
			if (destroy)
				CHECK(ibv_destroy_qp(more.qp) == 0);
			else
				CHECK(ibv_modify_qp(more.qp, &reset, IBV_QP_STATE) == 0);
			CHECK(no_wc(end.recv_cq));
			CHECK(post_srq(srq, 0, &sge, 1) == ENOMEM);
			has_receives(DEEP, sender++, &tally);
			if (!destroy)
				CHECK(ibv_destroy_qp(more.qp) == 0);
		}
	CHECK(!tally.gaps);
	close_end();
}
CASE_IN_CHILD(given_back)

/* Events of an SRQ that is destroyed go with it. */
static void destroyed_with_event(void *arg)
{
	struct ibv_srq *other;
	struct verbs_end more = {.gid = {.raw = {0}}};

	open_up(DEEP);
	other = srq;
	srq = many_srq(end.pd, DEEP);
	post_slots(0, 4);
	CHECK(arm(4) == 0);
	more = one_more();
	send_to_self(&more, 0, 0);
	CHECK(limit_of() == 0 || (wait_readable(end.context->async_fd), true));
	CHECK(ibv_destroy_qp(more.qp) == 0);
	CHECK(ibv_destroy_srq(srq) == 0);
	srq = other;
	CHECK(!event_waits());
	close_end();
}
CASE_IN_CHILD(destroyed_with_event)

/* ---- Senders that stop or die in the middle ---- */

static const char *const steps[] = {"ARRIVAL_TAKEN",  "HEAD_ADVANCED", "SEND_COPIED",
				    "ARRIVAL_FILLED", "READY_LEAF",    "PSN_ADVANCED"};

static void others_go_on(struct verbs_end *other, uint32_t *number, uint32_t count,
			 struct tally *tally)
{
	for (uint32_t i = 0; i < count; i++)
		send_to_self(other, 1, *number + i);
	*number += count;
	while (tally->next[1] != *number)
		receive(tally, true);
}

static void hurt(void *arg)
{
	const char *step = ((struct hurt *)arg)->step, *action = ((struct hurt *)arg)->action;
	struct tally tally = {.got = 0};
	struct verbs_end target;
	struct remote victim;
	uint32_t number = 0;
	char what[64];
	bool killed, published;

	fprintf(stderr, "%s:%s\n", step, action);
	open_up(DEEP);
	post_slots(0, 3);
	snprintf(what, sizeof(what), "%s:%s", step, action);
	remote_start(&victim, 0, IBV_QPT_RC, what);
	target = end;
	target.qp = many_qp(&end, IBV_QPT_RC, srq);
	remote_connect(&victim, &target);
	remote_send(&victim, &target, 0, 1, 500);
	killed = remote_stopped(&victim);
	CHECK(killed == !strcmp(action, "kill"));
	for (int round = 0; round < 20; round++)
		others_go_on(&end, &number, 2, &tally);
	if (!killed) {
		remote_resume(&victim);
		CHECK(remote_hear(&victim) == 0);
		while (!tally.next[0])
			receive(&tally, true);
		remote_quit(&victim);
	}
	published = !strcmp(step, "READY_LEAF") || !strcmp(step, "PSN_ADVANCED");
	/* Three receives again: the last one of the dead is offered a moment later. */
	for (int round = 0; round < 10; round++)
		others_go_on(&end, &number, 3, &tally);
	while (published && !tally.next[0])
		receive(&tally, true);
	CHECK(tally.next[0] == (!killed || published));
	CHECK(!tally.gaps && tally.got == number + tally.next[0]);
	CHECK(no_wc(end.recv_cq));
	CHECK(ibv_destroy_qp(target.qp) == 0);
	others_go_on(&end, &number, 3, &tally);
	close_end();
}

/* The QP that a stopped sender was sending to leaves: others have the receive. */
static void left_by_target(void *arg)
{
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	struct tally tally = {.got = 0};
	struct verbs_end target;
	struct remote victim;
	uint32_t number = 0;
	const char *how = arg;

	open_up(DEEP);
	post_slots(0, 3);
	remote_start(&victim, 0, IBV_QPT_RC, "ARRIVAL_TAKEN:stop");
	target = end;
	target.qp = many_qp(&end, IBV_QPT_RC, srq);
	remote_connect(&victim, &target);
	remote_send(&victim, &target, 0, 1, 500);
	CHECK(!remote_stopped(&victim));
	others_go_on(&end, &number, 2, &tally);
	if (!strcmp(how, "destroy")) {
		CHECK(ibv_destroy_qp(target.qp) == 0);
		target.qp = NULL;
	} else {
		CHECK(ibv_modify_qp(target.qp, &err, IBV_QP_STATE) == 0);
		want_event(IBV_EVENT_QP_LAST_WQE_REACHED, target.qp);
	}
	for (int round = 0; round < 10; round++)
		others_go_on(&end, &number, 3, &tally);
	remote_resume(&victim);
	CHECK(remote_hear(&victim) == IBV_WC_RETRY_EXC_ERR);
	for (int round = 0; round < 10; round++)
		others_go_on(&end, &number, 3, &tally);
	CHECK(!tally.next[0] && !tally.gaps && no_wc(end.recv_cq));
	if (target.qp)
		CHECK(ibv_destroy_qp(target.qp) == 0);
	remote_quit(&victim);
	close_end();
}

/* A sender that stopped while it filled a record, and goes on long after its target has left,
 * writes over nobody else's. */
#define RING 128u /* slots of a queue of 8 */

static void late_writer(void *arg)
{
	uint32_t size = (uint32_t)(uintptr_t)arg;
	struct order order = {
		.op = ORDER_SEND, .count = 8, .opcode = IBV_WR_SEND, .size = size - 9};
	struct tally tally = {.got = 0};
	struct verbs_end target;
	struct remote victim, other;

	open_up(8);
	post_slots(0, 8);
	remote_start(&victim, 0, IBV_QPT_RC, "SEND_COPIED:stop");
	remote_start(&other, 1, IBV_QPT_RC, NULL);
	target = end;
	target.qp = many_qp(&end, IBV_QPT_RC, srq);
	remote_connect(&victim, &target);
	CHECK(ibv_destroy_qp(end.qp) == 0);
	end.qp = many_qp(&end, IBV_QPT_RC, srq);
	remote_connect(&other, &end);
	remote_send(&victim, &target, 0, 1, size);
	CHECK(!remote_stopped(&victim));
	CHECK(ibv_destroy_qp(target.qp) == 0);
	/* Round the ring: when it goes on, an arrival waits where it was writing. */
	for (; order.first < 2 * RING; order.first += 8) {
		CHECK(remote_ask(&other, &order) == 0);
		if (order.first == RING - 8) {
			remote_resume(&victim);
			CHECK(remote_hear(&victim) == IBV_WC_RETRY_EXC_ERR);
		}
		for (int i = 0; i < 8; i++)
			receive(&tally, true);
	}
	CHECK(!tally.gaps && tally.next[1] == order.first && no_wc(end.recv_cq));
	remote_quit(&victim);
	remote_quit(&other);
	close_end();
}

static void test_stopped(void **state)
{
	assert_int_equal(hurt_each(hurt, steps, sizeof(steps) / sizeof(steps[0]), "stop"), 0);
}

static void test_killed(void **state)
{
	assert_int_equal(hurt_each(hurt, steps, sizeof(steps) / sizeof(steps[0]), "kill"), 0);
}

static void test_left_by_target(void **state)
{
	assert_int_equal(run_in_child(left_by_target, "destroy"), 0);
	assert_int_equal(run_in_child(left_by_target, "error"), 0);
}

static void test_late_writer(void **state)
{
	assert_int_equal(run_in_child(late_writer, (void *)40), 0);
	assert_int_equal(run_in_child(late_writer, (void *)700), 0);
	assert_int_equal(run_in_child(late_writer, (void *)1500), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_given_back),     cmocka_unit_test(test_destroyed_with_event),
		cmocka_unit_test(test_stopped),	       cmocka_unit_test(test_killed),
		cmocka_unit_test(test_left_by_target), cmocka_unit_test(test_late_writer),
	};

	many_main(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

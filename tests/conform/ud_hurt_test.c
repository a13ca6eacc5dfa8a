/* SPDX-License-Identifier: BSD-2-Clause */
/* UD: senders that stop or die in the middle hold up nobody else. */
#include "lib/ud_bed.h"

static const char *const steps[] = {"ACCESS_ANNOUNCED", "ARRIVAL_TAKEN",  "HEAD_ADVANCED",
				    "SEND_COPIED",	"ARRIVAL_FILLED", "ARRIVAL_PUBLISHED",
				    "READY_LEAF",	"READY_TOP",	  "ACCESS_CLEARED"};

/* Has the message of a sender that came to this step arrived? */
static bool is_published(const char *step)
{
	return !strcmp(step, "ARRIVAL_PUBLISHED") || !strncmp(step, "READY", 5) ||
	       !strcmp(step, "ACCESS_CLEARED");
}

/* Others go on, through all receives but the one that is held. */
static void others_go_on(struct remote *other, struct tally *tally, uint32_t *first, uint32_t count)
{
	struct ibv_wc wc;

	remote_send(other, &end, *first, count, 500);
	CHECK(remote_hear(other) == 0);
	*first += count;
	while (tally->next[1] != *first) {
		wait_wc(end.recv_cq, &wc);
		CHECK(wc.status == IBV_WC_SUCCESS);
		message_count(tally, in.bytes + wc.wr_id * in.size + MANY_GRH,
			      wc.byte_len - MANY_GRH);
		recv_slot(wc.wr_id, in.size);
	}
}

static void hurt(void *arg)
{
	const char *step = ((struct hurt *)arg)->step, *action = ((struct hurt *)arg)->action;
	struct remote victim, other;
	struct tally tally = {.got = 0};
	struct ibv_wc wc;
	char what[64];
	uint32_t first = 0, receives = 4;
	bool killed;

	fprintf(stderr, "%s:%s\n", step, action);
	open_up();
	for (uint64_t i = 0; i < receives; i++)
		recv_slot(i, in.size);
	snprintf(what, sizeof(what), "%s:%s", step, action);
	remote_start(&victim, 0, IBV_QPT_UD, what);
	remote_start(&other, 1, IBV_QPT_UD, NULL);
	remote_send(&victim, &end, 0, 1, 500);
	killed = remote_stopped(&victim);
	CHECK(killed == !strcmp(action, "kill"));
	for (int round = 0; round < 20; round++)
		others_go_on(&other, &tally, &first, receives - 1);
	if (!killed) {
		remote_resume(&victim);
		CHECK(remote_hear(&victim) == 0);
		while (!tally.next[0]) {
			wait_wc(end.recv_cq, &wc);
			message_count(&tally, in.bytes + wc.wr_id * in.size + MANY_GRH,
				      wc.byte_len - MANY_GRH);
			recv_slot(wc.wr_id, in.size);
		}
		remote_quit(&victim);
	}
	/* What was published came, what was not did not; all receives are there again. */
	CHECK(tally.next[0] == (!killed || is_published(step)));
	CHECK(!tally.gaps);
	for (int round = 0; round < 3; round++)
		others_go_on(&other, &tally, &first, receives);
	CHECK(tally.got == first + tally.next[0]);
	CHECK(no_wc(end.recv_cq));
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

/* The dead one held the only receive, and nobody polls: it is offered again all the same. */
static void last_receive(void *arg)
{
	struct remote victim, other;
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};

	open_up();
	recv_slot(0, in.size);
	remote_start(&victim, 0, IBV_QPT_UD, "ARRIVAL_TAKEN:kill");
	remote_start(&other, 1, IBV_QPT_UD, NULL);
	remote_send(&victim, &end, 0, 1, 500);
	CHECK(remote_stopped(&victim));
	CHECK(!memcmp(in.bytes, (char[8]){0}, 8));
	/* Each datagram is lost or not; the sender's patience is longer than the owner takes. */
	for (uint32_t i = 0; i < 1000; i++) {
		remote_send(&other, &end, i, 1, 500);
		CHECK(remote_hear(&other) == 0);
		if (ibv_poll_cq(end.recv_cq, 1, &wc) == 1)
			break;
	}
	CHECK(wc.status == IBV_WC_SUCCESS && wc.byte_len == MANY_GRH + 500);
	CHECK(no_wc(end.recv_cq));
	remote_quit(&other);
	close_end();
}
CASE_IN_CHILD(last_receive)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stopped),
		cmocka_unit_test(test_killed),
		cmocka_unit_test(test_last_receive),
	};

	many_main(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets that are handed to a process of this host whose queue is full wait for room, and those
 * for a process that takes nothing hold up nobody else. */
#include <signal.h>

#include "lib/ud_bed.h"

/* No packet is the one: but what may suffer goes as packets. */
#define AS_PACKETS "drop=#1000000000"

static void open_handed(void)
{
	CHECK(!setenv("VERBENA_FAULTS", AS_PACKETS, 1));
	open_up();
}

/* To a QP without receives: each is dropped there, after it went through the queue. */
static void send_to(struct ibv_ah *ah, uint32_t qpn, uint32_t count, uint32_t bytes)
{
	struct ibv_sge sge = slots_sge(&in, 63);
	struct ibv_wc wc;

	sge.length = bytes;
	for (uint32_t i = 0; i < count; i++) {
		CHECK(post_ud(&end, IBV_WR_SEND, i, &sge, 1, ah, qpn, MANY_QKEY,
			      IBV_SEND_SIGNALED) == 0);
		wait_wc(end.send_cq, &wc);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == i);
	}
}

/* All send to one that sends to all of them: more than the queues hold, and nothing is lost. */
static void crossing(void *arg)
{
	enum { SENDERS = 3, EACH = 300, RECEIVES = 60 };
	struct tally tally = {.got = 0};
	struct remote remotes[SENDERS];
	struct ibv_wc wc;

	open_handed();
	for (uint64_t i = 0; i < RECEIVES; i++)
		recv_slot(i, in.size);
	for (uint32_t i = 0; i < SENDERS; i++)
		remote_start(&remotes[i], i, IBV_QPT_UD, NULL);
	for (uint32_t part = 0; part < EACH / (RECEIVES / SENDERS); part++) {
		uint32_t each = RECEIVES / SENDERS, before = tally.got;

		for (uint32_t i = 0; i < SENDERS; i++)
			remote_send(&remotes[i], &end, part * each, each, 1000);
		for (uint32_t i = 0; i < SENDERS; i++)
			send_to(self, remotes[i].facts.qpn, 2 * each, 1000);
		while (tally.got < before + RECEIVES) {
			wait_wc(end.recv_cq, &wc);
			CHECK(wc.status == IBV_WC_SUCCESS);
			message_count(&tally, in.bytes + wc.wr_id * in.size + MANY_GRH,
				      wc.byte_len - MANY_GRH);
			recv_slot(wc.wr_id, in.size);
		}
		for (uint32_t i = 0; i < SENDERS; i++)
			CHECK(remote_hear(&remotes[i]) == IBV_WC_SUCCESS);
	}
	CHECK(!tally.gaps);
	for (uint32_t i = 0; i < SENDERS; i++)
		remote_quit(&remotes[i]);
	close_end();
}
CASE_IN_CHILD(crossing)

/* Writes of nothing, which are acknowledged. */
static void answered(struct verbs_end *rc, uint32_t count)
{
	struct ibv_wc wc;

	for (uint32_t i = 0; i < count; i++) {
		CHECK(post_rdma(rc, IBV_WR_RDMA_WRITE, i, NULL, 0, 0, 0, IBV_SEND_SIGNALED) == 0);
		wait_wc(rc->send_cq, &wc);
		CHECK(wc.status == IBV_WC_SUCCESS);
	}
}

/* More than a socket's buffer holds, to one that is stopped: all leave or are lost. Meanwhile and
 * afterwards another one hears and answers, and so does the first one when it goes on. */
static void stopped(void *arg)
{
	struct remote still, other;
	struct verbs_end rc, again;

	open_handed();
	remote_start(&still, 0, IBV_QPT_UD, NULL);
	remote_start(&other, 1, IBV_QPT_RC, NULL);
	many_open(&rc, IBV_QPT_RC, &pair_defaults);
	remote_connect(&other, &rc);
	answered(&rc, 1);
	send_to(self, still.facts.qpn, 1, 1000);
	CHECK(kill(still.pid, SIGSTOP) == 0);
	CHECK(remote_stopped(&still) == false);
	send_to(self, still.facts.qpn, 600, 1000);
	answered(&rc, 100);
	remote_resume(&still);
	/* It takes what is in its queue, and what comes then. */
	send_to(self, still.facts.qpn, 600, 1000);
	recv_slot(0, in.size);
	remote_send(&still, &end, 0, 1, 1000);
	CHECK(remote_hear(&still) == IBV_WC_SUCCESS);
	wait_wc(end.recv_cq, &(struct ibv_wc){.wr_id = 0});
	remote_quit(&still);
	/* Another process has its block of numbers now, perhaps. */
	remote_start(&still, 2, IBV_QPT_RC, NULL);
	many_open(&again, IBV_QPT_RC, &pair_defaults);
	remote_connect(&still, &again);
	answered(&again, 100);
	remote_quit(&still);
	remote_quit(&other);
	end_close(&again);
	end_close(&rc);
	close_end();
}
CASE_IN_CHILD(stopped)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_crossing),
		cmocka_unit_test(test_stopped),
	};

	many_main(argc, argv);
	run_only();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

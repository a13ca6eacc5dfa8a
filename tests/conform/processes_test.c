/* SPDX-License-Identifier: BSD-2-Clause */
/* As many processes as a large job starts on one host, all on one device, at the same time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "lib/verbs_many.h"

#define PROCESSES 64u
#define EACH	  24u
#define BYTES	  128u /* of a receive */

static struct verbs_end end;
static struct slots in;
static struct ibv_srq *srq;
static struct remote remote[PROCESSES];
static struct verbs_end own[PROCESSES]; /* our end of each connection */

static const enum ibv_qp_type types[] = {IBV_QPT_UD, IBV_QPT_RC, IBV_QPT_UC};

static enum ibv_qp_type type_of(uint32_t i)
{
	return types[i % 3];
}

/* RC receives from the SRQ, UC from its own queue, and all of UD from one QP. */
static void open_all(void)
{
	struct pair_opts opts = pair_defaults;

	opts.recvs = PROCESSES * EACH;
	opts.cqe = 2 * PROCESSES * EACH;
	many_open(&end, IBV_QPT_UD, &opts);
	many_up(&end, 0, NULL, 0);
	srq = many_srq(end.pd, PROCESSES * EACH);
	slots_new(&in, end.pd, BYTES, PROCESSES * EACH);
	for (uint32_t i = 0; i < PROCESSES; i++) {
		remote_start(&remote[i], i, type_of(i), NULL);
		own[i] = end;
		if (type_of(i) == IBV_QPT_UD)
			continue;
		own[i].opts.recvs = EACH;
		own[i].qp = many_qp(&own[i], type_of(i), type_of(i) == IBV_QPT_RC ? srq : NULL);
		remote_connect(&remote[i], &own[i]);
	}
}

static void post_all(void)
{
	for (uint32_t slot = 0; slot < PROCESSES * EACH; slot++) {
		struct ibv_sge sge = slots_sge(&in, slot);
		struct verbs_end *to = &own[slot / EACH];

		CHECK((to->qp->srq ? post_srq(srq, slot, &sge, 1) : post_recv(to, slot, &sge, 1)) ==
		      0);
	}
}

/* Nothing is lost, doubled or mixed up, and each is heard in order. */
static void hear_all(struct tally *tally)
{
	struct ibv_wc wc;

	for (uint32_t i = 0; i < PROCESSES * EACH; i++) {
		uint32_t header;

		wait_wc(end.recv_cq, &wc);
		CHECK(wc.status == IBV_WC_SUCCESS);
		header = wc.wc_flags & IBV_WC_GRH ? MANY_GRH : 0;
		message_count(tally, in.bytes + wc.wr_id * in.size + header, wc.byte_len - header);
	}
	CHECK(no_wc(end.recv_cq));
}

static void everybody(void *arg)
{
	struct tally tally = {.got = 0};

	open_all();
	for (uint32_t round = 0; round < 2; round++) {
		post_all();
		for (uint32_t i = 0; i < PROCESSES; i++)
			remote_send(&remote[i], &own[i], round * EACH, EACH, 8 + i);
		hear_all(&tally);
		for (uint32_t i = 0; i < PROCESSES; i++)
			CHECK(remote_hear(&remote[i]) == IBV_WC_SUCCESS);
	}
	CHECK(tally.got == 2 * PROCESSES * EACH && !tally.gaps);
	for (uint32_t i = 0; i < PROCESSES; i++) {
		remote_quit(&remote[i]);
		if (type_of(i) != IBV_QPT_UD)
			CHECK(ibv_destroy_qp(own[i].qp) == 0);
	}
	slots_free(&in);
	CHECK(ibv_destroy_srq(srq) == 0);
	end_close(&end);
}
CASE_IN_CHILD(everybody)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_everybody)};

	many_main(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

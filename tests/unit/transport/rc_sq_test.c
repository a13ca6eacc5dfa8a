/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "lib/sq_bed.h"

static struct sq_bed bed;

static void test_timeouts(void **state)
{
	bed_init(&bed);
	bed_post(&bed, VB_MSG_SEND, 1);
	bed_post(&bed, VB_MSG_SEND, 1);
	bed_run(&bed, 100);
	/* retry_cnt is 2: sent three times, failed at the third timeout. */
	for (int i = 0; i < 3; i++) {
		assert_int_equal(bed.sq.deadline_ns, BED_NOW + (uint64_t)(i + 1) * BED_ACK);
		bed.now = bed.sq.deadline_ns - 1;
		assert_int_not_equal(vb_rc_sq_timer(&bed.sq, bed.ring, bed.now), VB_TIMER_SILENCE);
		bed.now++;
		assert_int_equal(vb_rc_sq_timer(&bed.sq, bed.ring, bed.now), VB_TIMER_SILENCE);
		bed_run(&bed, 100);
		assert_int_equal(bed_packet(&bed, 1) != NULL, i < 2);
	}
	assert_int_equal(bed.records[0].kind, VB_OUT_QP_ERR);
	assert_int_equal(bed_sent(&bed, 0)->status, VB_WC_RETRY_EXC_ERR);
	assert_int_equal(bed_sent(&bed, 0)->wr_id, 100);
	assert_int_equal(bed_sent(&bed, 1)->status, VB_WC_WR_FLUSH_ERR);
	assert_true(bed.sq.deadline_ns == VB_NEVER);
	assert_false(vb_rc_sq_timer(&bed.sq, bed.ring, UINT64_MAX));
}

static void test_no_timer(void **state)
{
	bed_init(&bed);
	bed.sq.budget.timeout = 0;
	bed_post(&bed, VB_MSG_SEND, 1);
	bed_run(&bed, 100);
	assert_true(bed.sq.deadline_ns == VB_NEVER);
}

static void expect_probe(uint64_t after, uint32_t n)
{
	assert_true(vb_rc_sq_next_ns(&bed.sq) == after);
	bed.now = after - 1;
	assert_int_equal(vb_rc_sq_timer(&bed.sq, bed.ring, bed.now), VB_TIMER_RUNS);
	bed.now = after;
	assert_int_equal(vb_rc_sq_timer(&bed.sq, bed.ring, bed.now), VB_TIMER_PROBE);
	bed_run(&bed, 100);
	assert_non_null(bed_packet(&bed, 0));
	assert_null(bed_packet(&bed, 1));
	assert_int_equal(bed_packet(&bed, 0)->hdr.psn, vb_psn(BED_PSN + n).v);
	assert_true(bed_packet(&bed, 0)->hdr.ack_req);
}

/* An overdue answer is asked for: that spends no retry, and takes no packet out of turn. */
static void test_probes(void **state)
{
	uint32_t window;

	bed_init(&bed);
	bed_post(&bed, VB_MSG_WRITE, 16 * BED_MTU);
	bed_run(&bed, 100);
	window = bed.sq.window.size;
	expect_probe(BED_NOW + BED_ACK / 16, 0);
	expect_probe(BED_NOW + 3 * BED_ACK / 16, 0);
	expect_probe(BED_NOW + 7 * BED_ACK / 16, 0);
	assert_int_equal(bed.sq.budget.retry_left, 2);
	assert_int_equal(bed.sq.window.size, window);
	/* All had come, and it goes on where it was. */
	bed_ack(&bed, 7, VB_AETH_ACK, 31);
	bed_run(&bed, 100);
	assert_int_equal(bed_packet(&bed, 0)->hdr.psn, vb_psn(BED_PSN + 8).v);
	assert_int_equal(bed.sq.window.size, window);
	/* Half of each ack timer now, as no answer has been timed. */
	expect_probe(bed.now + BED_ACK / 2, 8);
	assert_true(bed.sq.probe_ns == VB_NEVER);
	/* The peer was merely away. */
	bed_ack(&bed, 9, VB_AETH_ACK, 31);
	bed_run(&bed, 100);
	assert_null(bed_packet(&bed, 0));
	assert_int_equal(bed.sq.window.size, window);
	expect_probe(bed.now + BED_ACK / 2, 10);
	/* The probe was the first it got: what was sent before is lost. */
	bed_ack(&bed, 10, VB_AETH_ACK, 31);
	bed_run(&bed, 100);
	assert_int_equal(bed_packet(&bed, 0)->hdr.psn, vb_psn(BED_PSN + 11).v);
	assert_int_equal(bed_packet(&bed, 3)->hdr.psn, vb_psn(BED_PSN + 14).v);
	assert_null(bed_packet(&bed, 4));
	assert_int_equal(bed.sq.window.size, window / 2);
}

/* Or the peer was away, and acknowledges packet by packet: without retries it lives on. */
static void test_probe_spends_no_retry(void **state)
{
	bed_init(&bed);
	bed.sq.budget.retry_cnt = bed.sq.budget.retry_left = 0;
	bed_post(&bed, VB_MSG_WRITE, 4 * BED_MTU);
	bed_run(&bed, 100);
	expect_probe(BED_NOW + BED_ACK / 16, 0);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(bed_ack(&bed, i, VB_AETH_ACK, 31), VB_V_ACCEPTED);
		assert_int_equal(bed.sq.state, VB_SQ_RTS);
	}
	assert_int_equal(bed_sent(&bed, 0)->status, VB_WC_SUCCESS);
}

static void test_retune(void **state)
{
	bed_init(&bed);
	vb_rc_sq_retune(&bed.sq, 1, 11, 0, 7);
	assert_int_equal(bed.sq.attr.max_rd_atomic, 1);
	bed_post(&bed, VB_MSG_SEND, 1);
	bed_run(&bed, 100);
	assert_int_equal(bed.sq.deadline_ns, BED_NOW + 2 * BED_ACK);
	bed.now = bed.sq.deadline_ns;
	vb_rc_sq_timer(&bed.sq, bed.ring, bed.now);
	bed_run(&bed, 100);
	assert_int_equal(bed_sent(&bed, 0)->status, VB_WC_RETRY_EXC_ERR);
}

/* With a known round trip the probe comes soon; none without a timer. */
static void test_probe_times(void **state)
{
	bed_init(&bed);
	bed_post(&bed, VB_MSG_SEND, 1);
	bed_run(&bed, 100);
	bed.now += 200000;
	bed_ack(&bed, 0, VB_AETH_ACK, 31);
	assert_true(vb_rc_sq_next_ns(&bed.sq) == VB_NEVER);
	assert_true(bed.sq.rtt.mean_ns == 200000);
	bed_post(&bed, VB_MSG_SEND, 1);
	bed_run(&bed, 100);
	expect_probe(bed.now + 800000, 1);
	/* The receiver is not ready: its timer, and no probe. */
	bed_ack(&bed, 1, VB_AETH_RNR, 1);
	assert_true(bed.sq.probe_ns == VB_NEVER);
	bed_init(&bed);
	bed.sq.budget.timeout = 0;
	bed_post(&bed, VB_MSG_SEND, 1);
	bed_run(&bed, 100);
	assert_true(vb_rc_sq_next_ns(&bed.sq) == VB_NEVER);
}

/* A probe waits for room in the output like any packet. */
static void test_probe_without_room(void **state)
{
	bed_init(&bed);
	bed_post(&bed, VB_MSG_SEND, 1);
	bed_run(&bed, 100);
	bed.now = vb_rc_sq_next_ns(&bed.sq);
	assert_int_equal(vb_rc_sq_timer(&bed.sq, bed.ring, bed.now), VB_TIMER_PROBE);
	assert_true(bed_run(&bed, 0));
	bed.out.capacity = 0;
	assert_true(bed_run(&bed, 100));
	bed.out.capacity = BED_ROOM;
	assert_false(bed_run(&bed, 100));
	assert_non_null(bed_packet(&bed, 0));
	/* Acknowledged before it could leave: there is nothing to send. */
	bed.now = vb_rc_sq_next_ns(&bed.sq);
	assert_int_equal(vb_rc_sq_timer(&bed.sq, bed.ring, bed.now), VB_TIMER_PROBE);
	bed_ack(&bed, 0, VB_AETH_ACK, 31);
	assert_false(bed_run(&bed, 100));
	assert_int_equal(bed.out.count, 0);
}

/* What is acknowledged after all is not sent again, though it was to be. */
static void test_late_answer(void **state)
{
	bed_init(&bed);
	bed_post(&bed, VB_MSG_WRITE, 8 * BED_MTU);
	bed_run(&bed, 100);
	bed.now = bed.sq.deadline_ns;
	assert_int_equal(vb_rc_sq_timer(&bed.sq, bed.ring, bed.now), VB_TIMER_SILENCE);
	bed_ack(&bed, 5, VB_AETH_ACK, 31);
	bed_run(&bed, 100);
	assert_int_equal(bed_packet(&bed, 0)->hdr.psn, vb_psn(BED_PSN + 6).v);
	assert_null(bed_packet(&bed, 2));
}

/* What was acknowledged is not sent again, and fills the budget. */
static void test_go_back(void **state)
{
	bed_init(&bed);
	bed_post(&bed, VB_MSG_SEND, 1);
	bed_post(&bed, VB_MSG_WRITE, 3 * BED_MTU);
	bed_run(&bed, 100);
	bed.now = bed.sq.deadline_ns;
	vb_rc_sq_timer(&bed.sq, bed.ring, bed.now);
	bed_run(&bed, 100);
	assert_int_equal(bed.sq.budget.retry_left, 1);
	bed_ack(&bed, 1, VB_AETH_ACK, 31);
	assert_int_equal(bed.sq.budget.retry_left, 2);
	assert_int_equal(bed.sq.deadline_ns, bed.now + BED_ACK);
	bed.now = bed.sq.deadline_ns;
	assert_true(vb_rc_sq_timer(&bed.sq, bed.ring, bed.now));
	bed_run(&bed, 100);
	assert_int_equal(bed_packet(&bed, 0)->hdr.opcode, 0x07);
	assert_int_equal(bed_packet(&bed, 0)->hdr.psn, vb_psn(BED_PSN + 2).v);
	assert_int_equal(bed_packet(&bed, 0)->offset, BED_MTU);
	assert_int_equal(bed_packet(&bed, 1)->hdr.opcode, 0x08);
	assert_null(bed_packet(&bed, 2));
}

/* What is acknowledged but found no room for its completion is not sent again. */
static void test_go_back_over_unretired(void **state)
{
	bed_init(&bed);
	for (int i = 0; i < 3; i++)
		bed_post(&bed, VB_MSG_SEND, 1);
	bed_run(&bed, 100);
	bed.out.capacity = 0;
	bed_ack(&bed, 1, VB_AETH_ACK, 31);
	assert_int_equal(bed.sq.head, 0);
	vb_rc_sq_go_back(&bed.sq, bed.ring);
	assert_int_equal(bed.sq.cursor, 2);
	assert_int_equal(bed.sq.cursor_pkt, 0);
	bed.out.capacity = BED_ROOM;
	bed_run(&bed, 100);
	assert_int_equal(bed_sent(&bed, 1)->wr_id, 101);
	assert_int_equal(bed_packet(&bed, 0)->hdr.psn, vb_psn(BED_PSN + 2).v);
	assert_null(bed_packet(&bed, 1));
}

/* A move to ERR by the user: everything flushes, nothing has a status of its own. */
static void test_flush(void **state)
{
	bed_init(&bed);
	for (int i = 0; i < 5; i++)
		bed_post(&bed, VB_MSG_FETCH_ADD, 8);
	bed_run(&bed, 100);
	bed_atomic(&bed, 0, 1);
	vb_rc_sq_fail(&bed.sq, VB_WC_WR_FLUSH_ERR);
	vb_rc_sq_fail(&bed.sq, VB_WC_REM_OP_ERR);
	bed.out.capacity = 3;
	bed.out.count = 0;
	assert_true(vb_rc_sq_retire(&bed.sq, bed.ring, &bed.out));
	assert_int_equal(bed_sent(&bed, 0)->wr_id, 101);
	assert_int_equal(bed_sent(&bed, 0)->status, VB_WC_WR_FLUSH_ERR);
	bed.out.capacity = BED_ROOM;
	bed.out.count = 0;
	assert_false(vb_rc_sq_retire(&bed.sq, bed.ring, &bed.out));
	for (uint32_t i = 0; bed_sent(&bed, i); i++)
		assert_int_equal(bed_sent(&bed, i)->status, VB_WC_WR_FLUSH_ERR);
	assert_int_equal(bed.sq.head, bed.sq.tail);
	assert_int_equal(bed.sq.rd_atomic, 0);
	/* Posted afterwards: flushes too. */
	bed_post(&bed, VB_MSG_SEND, 1);
	bed_run(&bed, 100);
	assert_int_equal(bed.out.count, 1);
	assert_int_equal(bed_sent(&bed, 0)->status, VB_WC_WR_FLUSH_ERR);
}

/* A failure says QP_ERR once, before the first completion. */
static void test_fail(void **state)
{
	bed_init(&bed);
	bed_post(&bed, VB_MSG_SEND, 1);
	bed_post(&bed, VB_MSG_SEND, 1);
	vb_rc_sq_fail(&bed.sq, VB_WC_REM_OP_ERR);
	bed.out.count = 0;
	vb_rc_sq_retire(&bed.sq, bed.ring, &bed.out);
	assert_int_equal(bed.out.count, 3);
	assert_int_equal(bed.records[0].kind, VB_OUT_QP_ERR);
	assert_int_equal(bed_sent(&bed, 0)->status, VB_WC_REM_OP_ERR);
	assert_int_equal(bed_sent(&bed, 1)->status, VB_WC_WR_FLUSH_ERR);
	vb_rc_sq_drain(&bed.sq, false, false);
	assert_int_equal(bed.sq.state, VB_SQ_ERR);
}

static void test_may_start(void **state)
{
	assert_true(vb_rc_sq_may_start(VB_MSG_SEND, false, 5, 0));
	assert_false(vb_rc_sq_may_start(VB_MSG_SEND, true, 1, 9));
	assert_true(vb_rc_sq_may_start(VB_MSG_SEND, true, 0, 0));
	assert_true(vb_rc_sq_may_start(VB_MSG_READ, false, 1, 2));
	assert_false(vb_rc_sq_may_start(VB_MSG_READ, false, 2, 2));
	assert_false(vb_rc_sq_may_start(VB_MSG_FETCH_ADD, false, 2, 2));
	assert_false(vb_rc_sq_may_start(VB_MSG_CMP_SWP, false, 0, 0));
}

static void test_drained_at_once(void **state)
{
	bed_init(&bed);
	vb_rc_sq_drain(&bed.sq, true, true);
	bed.out.capacity = 0;
	assert_true(vb_rc_sq_retire(&bed.sq, bed.ring, &bed.out));
	bed.out.capacity = 1;
	assert_false(vb_rc_sq_retire(&bed.sq, bed.ring, &bed.out));
	assert_int_equal(bed.records[0].event, VB_EVENT_SQ_DRAINED);
	bed.out.count = 0;
	assert_false(vb_rc_sq_retire(&bed.sq, bed.ring, &bed.out));
	assert_int_equal(bed.out.count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_timeouts),
		cmocka_unit_test(test_no_timer),
		cmocka_unit_test(test_probes),
		cmocka_unit_test(test_probe_spends_no_retry),
		cmocka_unit_test(test_retune),
		cmocka_unit_test(test_probe_times),
		cmocka_unit_test(test_probe_without_room),
		cmocka_unit_test(test_late_answer),
		cmocka_unit_test(test_go_back),
		cmocka_unit_test(test_go_back_over_unretired),
		cmocka_unit_test(test_flush),
		cmocka_unit_test(test_fail),
		cmocka_unit_test(test_may_start),
		cmocka_unit_test(test_drained_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

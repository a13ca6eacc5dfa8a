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
		assert_false(vb_rc_sq_timer(&bed.sq, bed.ring, bed.now));
		bed.now++;
		assert_true(vb_rc_sq_timer(&bed.sq, bed.ring, bed.now));
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
		cmocka_unit_test(test_timeouts),  cmocka_unit_test(test_no_timer),
		cmocka_unit_test(test_go_back),	  cmocka_unit_test(test_go_back_over_unretired),
		cmocka_unit_test(test_flush),	  cmocka_unit_test(test_fail),
		cmocka_unit_test(test_may_start), cmocka_unit_test(test_drained_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "lib/sq_bed.h"

static struct sq_bed bed;

/* Three SENDs of one packet are under way. */
static void three_sends(void)
{
	bed_init(&bed);
	for (int i = 0; i < 3; i++)
		bed_post(&bed, VB_MSG_SEND, 1);
	bed_run(&bed, 100);
}

static void test_ack(void **state)
{
	three_sends();
	/* One for two. */
	assert_int_equal(bed_ack(&bed, 1, VB_AETH_ACK, 31), VB_V_ACCEPTED);
	assert_int_equal(bed_sent(&bed, 0)->wr_id, 100);
	assert_int_equal(bed_sent(&bed, 1)->wr_id, 101);
	assert_int_equal(bed_sent(&bed, 1)->status, VB_WC_SUCCESS);
	assert_null(bed_sent(&bed, 2));
	assert_int_equal(bed_ack(&bed, 1, VB_AETH_ACK, 31), VB_V_ACK_STALE);
	assert_int_equal(bed_ack(&bed, 3, VB_AETH_ACK, 31), VB_V_ACK_BEYOND);
	assert_int_equal(bed_ack(&bed, 2, VB_AETH_ACK, 31), VB_V_ACCEPTED);
	assert_true(bed.sq.deadline_ns == VB_NEVER);
}

static void test_not_for_it(void **state)
{
	struct vb_packet pkt = {.opcode = 0x04, .psn = BED_PSN};

	three_sends();
	assert_int_equal(bed_give(&bed, &pkt), VB_V_DROP_MALFORMED);
	pkt.opcode = 0x15;
	assert_int_equal(bed_give(&bed, &pkt), VB_V_DROP_MALFORMED);
	assert_int_equal(bed_ack(&bed, 0, VB_AETH_RESERVED, 0), VB_V_DROP_MALFORMED);
	bed.src.gid[3]++;
	assert_int_equal(bed_ack(&bed, 0, VB_AETH_ACK, 31), VB_V_DROP_PEER);
	assert_int_equal(bed.sq.head, 0);
	bed.src.gid[3]--;
	/* A UC queue obeys nobody. */
	bed.sq.attr.service = VB_SVC_UC;
	assert_int_equal(bed_ack(&bed, 0, VB_AETH_NAK, VB_NAK_REM_ACCESS), VB_V_DROP_TYPE);
	assert_int_equal(bed.sq.state, VB_SQ_RTS);
	bed.sq.attr.service = VB_SVC_RC;
	vb_rc_sq_fail(&bed.sq, VB_WC_WR_FLUSH_ERR);
	assert_int_equal(bed_ack(&bed, 0, VB_AETH_ACK, 31), VB_V_DROP_STATE);
}

/* Every NAK code, in the middle of three: the one before ends well, the one after
 * flushes. */
static void test_nak_codes(void **state)
{
	static const struct {
		uint8_t code;
		enum vb_verdict verdict;
		enum vb_wc_status status;
	} rows[] = {
		{VB_NAK_INV_REQ, VB_V_PEER_INV_REQ, VB_WC_REM_INV_REQ_ERR},
		{VB_NAK_REM_ACCESS, VB_V_PEER_ACCESS, VB_WC_REM_ACCESS_ERR},
		{VB_NAK_REM_OP, VB_V_PEER_OP, VB_WC_REM_OP_ERR},
		{4, VB_V_BAD_RESPONSE, VB_WC_BAD_RESP_ERR},
		{31, VB_V_BAD_RESPONSE, VB_WC_BAD_RESP_ERR},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		three_sends();
		assert_int_equal(bed_ack(&bed, 1, VB_AETH_NAK, rows[i].code), rows[i].verdict);
		assert_int_equal(bed_sent(&bed, 0)->status, VB_WC_SUCCESS);
		assert_int_equal(bed_sent(&bed, 1)->status, rows[i].status);
		assert_int_equal(bed_sent(&bed, 2)->status, VB_WC_WR_FLUSH_ERR);
		assert_int_equal(bed.records[1].kind, VB_OUT_QP_ERR);
	}
}

static void test_nak_sequence(void **state)
{
	three_sends();
	assert_int_equal(bed_ack(&bed, 1, VB_AETH_NAK, VB_NAK_SEQ), VB_V_NAK_SEQ);
	assert_int_equal(bed_sent(&bed, 0)->wr_id, 100);
	assert_int_equal(bed.sq.budget.retry_left, 1);
	bed_run(&bed, 100);
	assert_int_equal(bed_packet(&bed, 0)->hdr.psn, vb_psn(BED_PSN + 1).v);
	assert_non_null(bed_packet(&bed, 1));
	/* The same gap is answered once until something moves. */
	assert_int_equal(bed_ack(&bed, 1, VB_AETH_NAK, VB_NAK_SEQ), VB_V_ACK_STALE);
	assert_int_equal(bed.sq.budget.retry_left, 1);
	assert_int_equal(bed_ack(&bed, 1, VB_AETH_ACK, 31), VB_V_ACCEPTED);
	assert_int_equal(bed.sq.budget.retry_left, 2);
	assert_int_equal(bed_ack(&bed, 2, VB_AETH_NAK, VB_NAK_SEQ), VB_V_NAK_SEQ);
}

/* A timeout is a new beginning: the next NAK of the same gap counts. */
static void test_nak_sequence_after_timeout(void **state)
{
	three_sends();
	assert_int_equal(bed_ack(&bed, 0, VB_AETH_NAK, VB_NAK_SEQ), VB_V_NAK_SEQ);
	bed_run(&bed, 100);
	bed.now = bed.sq.deadline_ns;
	assert_true(vb_rc_sq_timer(&bed.sq, bed.ring, bed.now));
	bed_run(&bed, 100);
	bed.sq.budget.retry_left = 1;
	assert_int_equal(bed_ack(&bed, 0, VB_AETH_NAK, VB_NAK_SEQ), VB_V_NAK_SEQ);
	assert_int_equal(bed.sq.budget.retry_left, 0);
}

/* The end of the wait is not a timeout: with retry_cnt 0 it costs nothing. */
static void test_rnr_spends_no_retry(void **state)
{
	three_sends();
	bed.sq.budget.retry_cnt = bed.sq.budget.retry_left = 0;
	bed_ack(&bed, 0, VB_AETH_RNR, 14);
	bed.now = bed.sq.deadline_ns;
	assert_true(vb_rc_sq_timer(&bed.sq, bed.ring, bed.now));
	assert_int_equal(bed.sq.state, VB_SQ_RTS);
	bed_run(&bed, 100);
	assert_non_null(bed_packet(&bed, 2));
}

static void test_nak_sequence_budget(void **state)
{
	three_sends();
	bed.sq.budget.retry_left = 0;
	assert_int_equal(bed_ack(&bed, 0, VB_AETH_NAK, VB_NAK_SEQ), VB_V_NAK_SEQ);
	assert_int_equal(bed_sent(&bed, 0)->status, VB_WC_RETRY_EXC_ERR);
	assert_int_equal(bed_sent(&bed, 1)->status, VB_WC_WR_FLUSH_ERR);
}

static void wait_for_receiver(void)
{
	bed.now = bed.sq.deadline_ns;
	assert_true(vb_rc_sq_timer(&bed.sq, bed.ring, bed.now));
	bed_run(&bed, 100);
}

static void test_rnr(void **state)
{
	three_sends();
	assert_int_equal(bed_ack(&bed, 1, VB_AETH_RNR, 14), VB_V_RNR);
	assert_int_equal(bed_sent(&bed, 0)->wr_id, 100);
	assert_int_equal(bed.sq.deadline_ns, BED_NOW + 1280000);
	/* Nothing is sent meanwhile, an echo does not count. */
	bed_post(&bed, VB_MSG_SEND, 1);
	assert_false(bed_run(&bed, 100));
	assert_int_equal(bed.out.count, 0);
	assert_int_equal(bed_ack(&bed, 1, VB_AETH_RNR, 1), VB_V_ACK_STALE);
	assert_int_equal(bed_ack(&bed, 1, VB_AETH_NAK, VB_NAK_SEQ), VB_V_ACK_STALE);
	wait_for_receiver();
	assert_int_equal(bed_packet(&bed, 0)->hdr.psn, vb_psn(BED_PSN + 1).v);
	/* rnr_retry is 1 and was spent: a receiver that took a message has a moment more. */
	for (uint64_t end = bed.now + VB_RNR_MOMENT_NS; bed.now < end;) {
		assert_int_equal(bed_ack(&bed, 1, VB_AETH_RNR, 14), VB_V_RNR);
		assert_int_equal(bed.sq.state, VB_SQ_RTS);
		wait_for_receiver();
	}
	assert_int_equal(bed_ack(&bed, 1, VB_AETH_RNR, 14), VB_V_RNR);
	assert_int_equal(bed_sent(&bed, 0)->status, VB_WC_RNR_RETRY_EXC_ERR);
	assert_int_equal(bed_sent(&bed, 0)->wr_id, 101);
}

/* One that never took a message has not; what it acknowledges gives the moment anew. */
static void test_rnr_last_moment(void **state)
{
	three_sends();
	bed.sq.budget.rnr_left = 0;
	assert_int_equal(bed_ack(&bed, 0, VB_AETH_RNR, 14), VB_V_RNR);
	assert_int_equal(bed_sent(&bed, 0)->status, VB_WC_RNR_RETRY_EXC_ERR);

	three_sends();
	bed.sq.attr.rnr_retry = bed.sq.budget.rnr_retry = bed.sq.budget.rnr_left = 0;
	for (uint32_t n = 1; n < 3; n++) {
		assert_int_equal(bed_ack(&bed, n, VB_AETH_RNR, 0), VB_V_RNR);
		assert_int_equal(bed.sq.state, VB_SQ_RTS);
		/* 655 ms: longer than the moment. */
		wait_for_receiver();
	}
	assert_int_equal(bed_ack(&bed, 2, VB_AETH_RNR, 0), VB_V_RNR);
	assert_int_equal(bed_sent(&bed, 0)->status, VB_WC_RNR_RETRY_EXC_ERR);
}

static void test_read(void **state)
{
	bed_init(&bed);
	bed_post(&bed, VB_MSG_SEND, 1);
	bed_post(&bed, VB_MSG_READ, 2 * BED_MTU + 5);
	bed_run(&bed, 100);
	/* A response acknowledges what came before. */
	assert_int_equal(bed_data(&bed, 1, VB_POS_FIRST, BED_MTU), VB_V_ACCEPTED);
	assert_int_equal(bed_sent(&bed, 0)->wr_id, 100);
	assert_int_equal(bed_data(&bed, 1, VB_POS_FIRST, BED_MTU), VB_V_ACK_STALE);
	assert_int_equal(bed_data(&bed, 2, VB_POS_MIDDLE, BED_MTU), VB_V_ACCEPTED);
	assert_null(bed_sent(&bed, 0));
	assert_int_equal(bed_data(&bed, 3, VB_POS_LAST, 5), VB_V_ACCEPTED);
	assert_int_equal(bed_sent(&bed, 0)->wr_id, 101);
	assert_int_equal(bed_sent(&bed, 0)->opcode, VB_WC_OP_RDMA_READ);
	assert_int_equal(bed_sent(&bed, 0)->byte_len, 2 * BED_MTU + 5);
	assert_int_equal(bed.local[1][0], 0x41);
	assert_int_equal(bed.local[1][BED_MTU], 0x42);
	assert_int_equal(bed.local[1][2 * BED_MTU + 4], 0x43);
	assert_int_equal(bed.local[1][2 * BED_MTU + 5], 0);
}

/* A lost response: the rest is asked for from the first missing byte. */
static void test_read_gap(void **state)
{
	bed_init(&bed);
	bed_post(&bed, VB_MSG_READ, 2 * BED_MTU + 5);
	bed_run(&bed, 100);
	bed_data(&bed, 0, VB_POS_FIRST, BED_MTU);
	assert_int_equal(bed_data(&bed, 2, VB_POS_LAST, 5), VB_V_ACK_EARLY);
	bed_run(&bed, 100);
	assert_int_equal(bed_packet(&bed, 0)->hdr.opcode, 0x0c);
	assert_int_equal(bed_packet(&bed, 0)->hdr.psn, vb_psn(BED_PSN + 1).v);
	assert_int_equal(bed_packet(&bed, 0)->hdr.va, 0x10000 + BED_MTU);
	assert_int_equal(bed_packet(&bed, 0)->hdr.dma_len, BED_MTU + 5);
	assert_int_equal(bed_data(&bed, 1, VB_POS_FIRST, BED_MTU), VB_V_ACCEPTED);
	assert_int_equal(bed_data(&bed, 2, VB_POS_LAST, 5), VB_V_ACCEPTED);
	assert_int_equal(bed_sent(&bed, 0)->status, VB_WC_SUCCESS);
}

/* An acknowledgement beyond a READ or atomic without response: it was lost. */
static void test_implied_loss(void **state)
{
	for (int atomic = 0; atomic < 2; atomic++) {
		bed_init(&bed);
		bed_post(&bed, VB_MSG_SEND, 1);
		bed_post(&bed, atomic ? VB_MSG_FETCH_ADD : VB_MSG_READ, 8);
		bed_post(&bed, VB_MSG_SEND, 1);
		bed_run(&bed, 100);
		assert_int_equal(bed_ack(&bed, 2, VB_AETH_ACK, 31), VB_V_ACK_EARLY);
		assert_int_equal(bed_sent(&bed, 0)->wr_id, 100);
		assert_null(bed_sent(&bed, 1));
		bed_run(&bed, 100);
		assert_int_equal(bed_packet(&bed, 0)->hdr.psn, vb_psn(BED_PSN + 1).v);
		assert_int_equal(bed_packet(&bed, 1)->hdr.psn, vb_psn(BED_PSN + 2).v);
		/* NAK and "not ready" beyond it say the same. */
		bed.sq.gone_back = false;
		assert_int_equal(bed_ack(&bed, 2, VB_AETH_NAK, VB_NAK_REM_OP), VB_V_ACK_EARLY);
		bed.sq.gone_back = false;
		bed.sq.budget.retry_left = 1;
		assert_int_equal(bed_ack(&bed, 2, VB_AETH_RNR, 1), VB_V_ACK_EARLY);
		assert_int_equal(bed.sq.state, VB_SQ_RTS);
	}
}

static void test_atomic(void **state)
{
	uint64_t old;

	bed_init(&bed);
	bed_post(&bed, VB_MSG_CMP_SWP, 8);
	bed_run(&bed, 100);
	assert_int_equal(bed_atomic(&bed, 0, UINT64_C(0x1122334455667788)), VB_V_ACCEPTED);
	memcpy(&old, bed.local[0], 8);
	assert_int_equal(old, UINT64_C(0x1122334455667788));
	assert_int_equal(bed_sent(&bed, 0)->opcode, VB_WC_OP_COMP_SWAP);
	assert_int_equal(bed_sent(&bed, 0)->byte_len, 8);
	assert_int_equal(bed.sq.rd_atomic, 0);
}

static void bad(enum vb_verdict v)
{
	assert_int_equal(v, VB_V_BAD_RESPONSE);
	assert_int_equal(bed_sent(&bed, 0)->status, VB_WC_BAD_RESP_ERR);
}

static void start(enum vb_msg_kind kind, uint32_t length)
{
	bed_init(&bed);
	bed_post(&bed, kind, length);
	bed_run(&bed, 100);
}

static void test_bad_responses(void **state)
{
	start(VB_MSG_READ, 2 * BED_MTU);
	bad(bed_data(&bed, 0, VB_POS_FIRST, BED_MTU - 1));
	start(VB_MSG_READ, 2 * BED_MTU);
	bad(bed_data(&bed, 0, VB_POS_LAST, BED_MTU));
	start(VB_MSG_READ, 2 * BED_MTU);
	bad(bed_data(&bed, 0, VB_POS_MIDDLE, BED_MTU));
	start(VB_MSG_READ, 10);
	bad(bed_data(&bed, 0, VB_POS_ONLY, 11));
	start(VB_MSG_READ, 10);
	bad(bed_data(&bed, 0, VB_POS_FIRST, 10));
	start(VB_MSG_READ, 10);
	bad(bed_atomic(&bed, 0, 1));
	start(VB_MSG_FETCH_ADD, 8);
	bad(bed_data(&bed, 0, VB_POS_ONLY, 8));
	start(VB_MSG_SEND, 8);
	bad(bed_data(&bed, 0, VB_POS_ONLY, 8));
	start(VB_MSG_WRITE, 8);
	bad(bed_atomic(&bed, 0, 8));
}

static void test_scatter_fault(void **state)
{
	start(VB_MSG_READ, 10);
	bed.env.scatter = VB_COPY_FAULT_REMOTE;
	assert_int_equal(bed_data(&bed, 0, VB_POS_ONLY, 10), VB_V_LOCAL_PROT);
	assert_int_equal(bed_sent(&bed, 0)->status, VB_WC_LOC_PROT_ERR);
	start(VB_MSG_FETCH_ADD, 8);
	bed.env.scatter = VB_COPY_FAULT_LOCAL;
	assert_int_equal(bed_atomic(&bed, 0, 1), VB_V_LOCAL_PROT);
	/* Nothing is placed for zero bytes. */
	start(VB_MSG_READ, 0);
	bed.env.scatter = VB_COPY_FAULT_LOCAL;
	assert_int_equal(bed_data(&bed, 0, VB_POS_ONLY, 0), VB_V_ACCEPTED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ack),
		cmocka_unit_test(test_not_for_it),
		cmocka_unit_test(test_nak_codes),
		cmocka_unit_test(test_nak_sequence),
		cmocka_unit_test(test_nak_sequence_after_timeout),
		cmocka_unit_test(test_rnr_spends_no_retry),
		cmocka_unit_test(test_nak_sequence_budget),
		cmocka_unit_test(test_rnr),
		cmocka_unit_test(test_rnr_last_moment),
		cmocka_unit_test(test_read),
		cmocka_unit_test(test_read_gap),
		cmocka_unit_test(test_implied_loss),
		cmocka_unit_test(test_atomic),
		cmocka_unit_test(test_bad_responses),
		cmocka_unit_test(test_scatter_fault),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

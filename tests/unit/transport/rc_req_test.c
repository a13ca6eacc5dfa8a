/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "lib/sq_bed.h"

static struct sq_bed bed;

static void expect(uint32_t n, uint8_t opcode, uint32_t psn, uint32_t len, bool ack_req)
{
	const struct vb_out_packet *p = bed_packet(&bed, n);

	assert_non_null(p);
	assert_int_equal(p->hdr.opcode, opcode);
	assert_int_equal(p->hdr.psn, vb_psn(psn).v);
	assert_int_equal(p->hdr.payload_len, len);
	assert_int_equal(p->hdr.ack_req, ack_req);
	assert_int_equal(p->hdr.dest_qpn, 0x31);
	assert_int_equal(p->hdr.pkey, VB_PKEY_DEFAULT);
	assert_true(p->hdr.migreq);
	assert_int_equal(p->from, len ? VB_PAYLOAD_WQE : VB_PAYLOAD_NONE);
}

static void test_segments(void **state)
{
	bed_init(&bed);
	bed_post(&bed, VB_MSG_SEND, 0)->solicited = true;
	bed_post(&bed, VB_MSG_SEND, 2 * BED_MTU + 1)->with_imm = true;
	bed_post(&bed, VB_MSG_WRITE, BED_MTU)->with_imm = true;
	bed_post(&bed, VB_MSG_SEND, BED_MTU + 1)->with_inv = true;
	assert_false(bed_run(&bed, 100));
	expect(0, 0x04, BED_PSN, 0, true);
	assert_true(bed_packet(&bed, 0)->hdr.solicited);
	expect(1, 0x00, BED_PSN + 1, BED_MTU, false);
	expect(2, 0x01, BED_PSN + 2, BED_MTU, true); /* a quarter of the window */
	expect(3, 0x03, BED_PSN + 3, 1, true);
	assert_int_equal(bed_packet(&bed, 3)->offset, 2 * BED_MTU);
	assert_int_equal(bed_packet(&bed, 3)->wqe, 1);
	assert_int_equal(bed_packet(&bed, 3)->hdr.imm, 0x11223344);
	expect(4, 0x0b, BED_PSN + 4, BED_MTU, true);
	assert_int_equal(bed_packet(&bed, 4)->hdr.va, 0x10000);
	assert_int_equal(bed_packet(&bed, 4)->hdr.dma_len, BED_MTU);
	expect(5, 0x00, BED_PSN + 5, BED_MTU, false);
	expect(6, 0x16, BED_PSN + 6, 1, true);
	assert_int_equal(bed_packet(&bed, 6)->hdr.inv_rkey, 0x99);
	assert_null(bed_packet(&bed, 7));
	assert_int_equal(bed.sq.next.v, 5);
	assert_int_equal(bed.sq.deadline_ns, BED_NOW + BED_ACK);
}

/* Only the last packet is solicited. */
static void test_solicited_last(void **state)
{
	bed_init(&bed);
	bed_post(&bed, VB_MSG_SEND, 2 * BED_MTU)->solicited = true;
	bed_run(&bed, 100);
	assert_false(bed_packet(&bed, 0)->hdr.solicited);
	assert_true(bed_packet(&bed, 1)->hdr.solicited);
}

static void test_read_and_atomics(void **state)
{
	bed_init(&bed);
	bed_post(&bed, VB_MSG_READ, 3 * BED_MTU);
	bed_post(&bed, VB_MSG_CMP_SWP, 8);
	bed_run(&bed, 100);
	expect(0, 0x0c, BED_PSN, 0, true);
	assert_int_equal(bed_packet(&bed, 0)->hdr.dma_len, 3 * BED_MTU);
	expect(1, 0x13, BED_PSN + 3, 0, true);
	assert_int_equal(bed_packet(&bed, 1)->hdr.compare, 3);
	assert_int_equal(bed_packet(&bed, 1)->hdr.swap_add, 4);

	bed_init(&bed);
	bed_post(&bed, VB_MSG_FETCH_ADD, 8);
	bed_run(&bed, 100);
	expect(0, 0x14, BED_PSN, 0, true);
	assert_int_equal(bed_packet(&bed, 0)->hdr.swap_add, 3);
}

static void expect_read(uint32_t psn, uint32_t offset, uint32_t dma_len)
{
	bed_run(&bed, 100);
	expect(0, 0x0c, psn, 0, true);
	assert_int_equal(bed_packet(&bed, 0)->hdr.va, 0x10000 + offset);
	assert_int_equal(bed_packet(&bed, 0)->hdr.dma_len, dma_len);
	assert_null(bed_packet(&bed, 1));
}

/* Packets from @from up to @end arrive: a whole response. */
static void read_arrives(uint32_t from, uint32_t end)
{
	for (uint32_t i = from; i < end; i++) {
		enum vb_op_pos pos = (enum vb_op_pos)((i == from ? VB_POS_FIRST : 0) |
						      (i + 1 == end ? VB_POS_LAST : 0));

		assert_int_equal(bed_data(&bed, i, pos, BED_MTU), VB_V_ACCEPTED);
	}
}

/* A long READ is asked for in pieces: long ones, and of the window after a loss. */
static void test_read_pieces(void **state)
{
	bed_init(&bed);
	vb_rc_window_init(&bed.sq.window, 1);
	bed_post(&bed, VB_MSG_READ, 7 * BED_MTU);
	expect_read(BED_PSN, 0, 4 * BED_MTU);
	for (uint32_t i = 0; i < 4; i++) {
		/* Not before all of it is there. */
		bed_run(&bed, 100);
		assert_int_equal(bed.out.count, 0);
		assert_int_equal(bed_data(&bed, i,
					  i == 0   ? VB_POS_FIRST
					  : i == 3 ? VB_POS_LAST
						   : VB_POS_MIDDLE,
					  BED_MTU),
				 VB_V_ACCEPTED);
	}
	assert_null(bed_sent(&bed, 0));
	/* A fence waits for the whole. */
	bed_post(&bed, VB_MSG_SEND, 1)->fence = true;
	expect_read(BED_PSN + 4, 4 * BED_MTU, 3 * BED_MTU);
	read_arrives(4, 7);
	assert_int_equal(bed_sent(&bed, 0)->status, VB_WC_SUCCESS);
	bed_run(&bed, 100);
	expect(0, 0x04, BED_PSN + 7, 1, true);
}

/* What is asked for again ends where it did: the peer knows it by that. */
static void test_read_piece_again(void **state)
{
	bed_init(&bed);
	vb_rc_window_init(&bed.sq.window, 2);
	bed.sq.window.size = 1;
	bed_post(&bed, VB_MSG_READ, 5 * BED_MTU);
	expect_read(BED_PSN, 0, BED_MTU);
	bed.sq.window.size = 2;
	read_arrives(0, 1);
	expect_read(BED_PSN + 1, BED_MTU, 4 * BED_MTU);
	assert_int_equal(bed_data(&bed, 1, VB_POS_FIRST, BED_MTU), VB_V_ACCEPTED);
	/* The second is lost. */
	assert_int_equal(bed_data(&bed, 3, VB_POS_MIDDLE, BED_MTU), VB_V_ACK_EARLY);
	bed.sq.window.size = 1;
	expect_read(BED_PSN + 2, 2 * BED_MTU, 3 * BED_MTU);
	read_arrives(2, 5);
	assert_int_equal(bed_sent(&bed, 0)->status, VB_WC_SUCCESS);
	/* A response that ends early, or does not end with its piece, is wrong. */
	for (int i = 0; i < 2; i++) {
		bed_init(&bed);
		vb_rc_window_init(&bed.sq.window, 2);
		bed.sq.window.size = 1;
		bed_post(&bed, VB_MSG_READ, 5 * BED_MTU);
		bed_run(&bed, 100);
		assert_int_equal(bed_data(&bed, 0, i ? VB_POS_FIRST : VB_POS_ONLY,
					  i ? BED_MTU : BED_MTU - 4),
				 VB_V_BAD_RESPONSE);
	}
}

static void test_rd_atomic_credits(void **state)
{
	bed_init(&bed);
	for (int i = 0; i < 3; i++)
		bed_post(&bed, VB_MSG_FETCH_ADD, 8);
	bed_post(&bed, VB_MSG_SEND, 1);
	bed_run(&bed, 100);
	/* Two at a time, and nothing overtakes the third. */
	assert_non_null(bed_packet(&bed, 1));
	assert_null(bed_packet(&bed, 2));
	assert_int_equal(bed_atomic(&bed, 0, 0), VB_V_ACCEPTED);
	bed_run(&bed, 100);
	expect(0, 0x14, BED_PSN + 2, 0, true);
	expect(1, 0x04, BED_PSN + 3, 1, true);
}

static void test_fence(void **state)
{
	bed_init(&bed);
	bed_post(&bed, VB_MSG_READ, 10);
	bed_post(&bed, VB_MSG_SEND, 1);
	bed_post(&bed, VB_MSG_SEND, 1)->fence = true;
	bed_run(&bed, 100);
	assert_non_null(bed_packet(&bed, 1));
	assert_null(bed_packet(&bed, 2));
	bed_data(&bed, 0, VB_POS_ONLY, 10);
	bed_run(&bed, 100);
	expect(0, 0x04, BED_PSN + 2, 1, true);
}

static void test_window(void **state)
{
	bed_init(&bed);
	bed_post(&bed, VB_MSG_WRITE, 12 * BED_MTU);
	assert_false(bed_run(&bed, 100));
	assert_non_null(bed_packet(&bed, 7));
	assert_null(bed_packet(&bed, 8));
	assert_int_equal(bed_ack(&bed, 2, VB_AETH_ACK, 31), VB_V_ACCEPTED);
	bed_run(&bed, 100);
	expect(0, 0x07, BED_PSN + 8, BED_MTU, false);
	assert_non_null(bed_packet(&bed, 2));
	assert_null(bed_packet(&bed, 3));
}

/* It stops at any budget and any room, and goes on where it stopped. */
static void test_budget(void **state)
{
	for (uint32_t budget = 1; budget < 6; budget++) {
		uint32_t n = 0;

		bed_init(&bed);
		bed_post(&bed, VB_MSG_WRITE, 5 * BED_MTU);
		bed.out.capacity = budget == 5 ? 2 : BED_ROOM;
		for (bool more = true; more;) {
			more = bed_run(&bed, budget == 5 ? 100 : budget);
			for (uint32_t i = 0; bed_packet(&bed, i); i++, n++)
				assert_int_equal(bed_packet(&bed, i)->hdr.psn,
						 vb_psn(BED_PSN + n).v);
		}
		assert_int_equal(n, 5);
	}
}

static void check_blocked(enum vb_wc_status status)
{
	/* The SEND before it ends well first. */
	assert_false(bed_run(&bed, 100));
	expect(0, 0x04, BED_PSN, 1, true);
	assert_null(bed_packet(&bed, 1));
	assert_null(bed_sent(&bed, 0));
	bed_ack(&bed, 0, VB_AETH_ACK, 31);
	assert_int_equal(bed_sent(&bed, 0)->status, VB_WC_SUCCESS);
	assert_int_equal(bed_sent(&bed, 1)->status, status);
	assert_int_equal(bed_sent(&bed, 1)->wr_id, 101);
	assert_int_equal(bed_sent(&bed, 2)->status, VB_WC_WR_FLUSH_ERR);
	assert_null(bed_sent(&bed, 3));
	assert_int_equal(bed.sq.state, VB_SQ_ERR);
	assert_int_equal(bed.records[1].kind, VB_OUT_QP_ERR);
}

static void test_local_errors(void **state)
{
	bed_init(&bed);
	bed_post(&bed, VB_MSG_SEND, 1);
	bed_post(&bed, VB_MSG_SEND, 1);
	bed_post(&bed, VB_MSG_SEND, 1);
	bed.env.local_bad[1] = true;
	check_blocked(VB_WC_LOC_PROT_ERR);

	bed_init(&bed);
	bed_post(&bed, VB_MSG_SEND, 1);
	bed_post(&bed, VB_MSG_WRITE, VB_MAX_MSG + 1);
	bed_post(&bed, VB_MSG_SEND, 1);
	check_blocked(VB_WC_LOC_LEN_ERR);

	bed_init(&bed);
	bed.sq.attr.max_rd_atomic = 0;
	bed_post(&bed, VB_MSG_SEND, 1);
	bed_post(&bed, VB_MSG_READ, 1);
	bed_post(&bed, VB_MSG_SEND, 1);
	check_blocked(VB_WC_LOC_QP_OP_ERR);

	/* Nothing before it: at once. */
	bed_init(&bed);
	bed_post(&bed, VB_MSG_SEND, 1);
	bed.env.local_bad[0] = true;
	assert_false(bed_run(&bed, 100));
	assert_int_equal(bed_sent(&bed, 0)->status, VB_WC_LOC_PROT_ERR);
	assert_null(bed_packet(&bed, 0));
}

/* What could not be sent is not tried again while those before it end. */
static void test_blocked_stays(void **state)
{
	bed_init(&bed);
	bed_post(&bed, VB_MSG_SEND, 1);
	bed_post(&bed, VB_MSG_SEND, 1);
	bed.env.local_bad[1] = true;
	bed_run(&bed, 100);
	bed.env.local_bad[1] = false;
	bed_run(&bed, 100);
	assert_int_equal(bed.out.count, 0);
	bed_ack(&bed, 0, VB_AETH_ACK, 31);
	assert_int_equal(bed_sent(&bed, 1)->status, VB_WC_LOC_PROT_ERR);
}

/* Packets before a work request that cannot be sent are still sent again. */
static void test_blocked_still_repeats(void **state)
{
	bed_init(&bed);
	bed_post(&bed, VB_MSG_SEND, 1);
	bed_post(&bed, VB_MSG_SEND, 1);
	bed.env.local_bad[1] = true;
	bed_run(&bed, 100);
	bed.now += BED_ACK;
	assert_true(vb_rc_sq_timer(&bed.sq, bed.ring, bed.now));
	bed_run(&bed, 100);
	expect(0, 0x04, BED_PSN, 1, true);
	assert_null(bed_packet(&bed, 1));
}

/* Numbers under way stay comparable, however long the READs. */
static void test_psn_space(void **state)
{
	bed_init(&bed);
	vb_rc_window_init(&bed.sq.window, 0x700000);
	for (int i = 0; i < 3; i++)
		bed_post(&bed, VB_MSG_READ, UINT64_C(0x180000) * BED_MTU);
	bed.sq.attr.max_rd_atomic = 16;
	bed_run(&bed, 100);
	assert_non_null(bed_packet(&bed, 1));
	assert_null(bed_packet(&bed, 2));
}

static void test_drain(void **state)
{
	bed_init(&bed);
	bed_post(&bed, VB_MSG_WRITE, 3 * BED_MTU);
	assert_true(bed_run(&bed, 1));
	vb_rc_sq_drain(&bed.sq, true, true);
	bed_post(&bed, VB_MSG_SEND, 1);
	/* What began goes on, nothing new begins. */
	bed_run(&bed, 100);
	assert_non_null(bed_packet(&bed, 1));
	assert_null(bed_packet(&bed, 2));
	bed_ack(&bed, 2, VB_AETH_ACK, 31);
	assert_int_equal(bed_sent(&bed, 0)->status, VB_WC_SUCCESS);
	assert_int_equal(bed.records[1].kind, VB_OUT_EVENT);
	assert_int_equal(bed.records[1].event, VB_EVENT_SQ_DRAINED);
	bed_run(&bed, 100);
	assert_int_equal(bed.out.count, 0);
	vb_rc_sq_drain(&bed.sq, false, false);
	bed_run(&bed, 100);
	expect(0, 0x04, BED_PSN + 3, 1, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_segments),
		cmocka_unit_test(test_solicited_last),
		cmocka_unit_test(test_read_and_atomics),
		cmocka_unit_test(test_read_pieces),
		cmocka_unit_test(test_read_piece_again),
		cmocka_unit_test(test_rd_atomic_credits),
		cmocka_unit_test(test_fence),
		cmocka_unit_test(test_window),
		cmocka_unit_test(test_budget),
		cmocka_unit_test(test_local_errors),
		cmocka_unit_test(test_blocked_stays),
		cmocka_unit_test(test_blocked_still_repeats),
		cmocka_unit_test(test_psn_space),
		cmocka_unit_test(test_drain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

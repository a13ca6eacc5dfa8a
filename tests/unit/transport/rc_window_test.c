/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lib/sq_bed.h"
#include "transport/rc_window.h"

static struct sq_bed bed;

static void test_begins_whole(void **state)
{
	struct vb_rc_window w;

	vb_rc_window_init(&w, 24);
	assert_int_equal(w.size, 24);
	vb_rc_window_acked(&w, 1000, vb_psn(1000));
	assert_int_equal(w.size, 24);
	vb_rc_window_init(&w, 0);
	assert_int_equal(w.size, 1);
}

static void test_loss_halves(void **state)
{
	struct vb_rc_window w;

	vb_rc_window_init(&w, 24);
	vb_rc_window_lost(&w, vb_psn(24));
	assert_int_equal(w.size, 12);
	/* One more for each window of acknowledged packets. */
	vb_rc_window_acked(&w, 11, vb_psn(11));
	assert_int_equal(w.size, 12);
	vb_rc_window_acked(&w, 1, vb_psn(12));
	assert_int_equal(w.size, 13);
	vb_rc_window_acked(&w, 12, vb_psn(24));
	assert_int_equal(w.size, 13);
	vb_rc_window_acked(&w, 1, vb_psn(25));
	assert_int_equal(w.size, 14);
	/* Many at once count like one after the other. */
	vb_rc_window_acked(&w, 14 + 15 + 16, vb_psn(70));
	assert_int_equal(w.size, 17);
	for (int i = 0; i < 20; i++)
		vb_rc_window_lost(&w, vb_psn(100));
	assert_int_equal(w.size, 2);
}

static void test_silence_begins_anew(void **state)
{
	struct vb_rc_window w;

	vb_rc_window_init(&w, 24);
	vb_rc_window_silent(&w, vb_psn(24));
	assert_int_equal(w.size, 4);
	vb_rc_window_silent(&w, vb_psn(24));
	vb_rc_window_silent(&w, vb_psn(24));
	assert_int_equal(w.size, 4);
	/* Doubles up to half of what it was, then one by one. */
	vb_rc_window_acked(&w, 4, vb_psn(7));
	assert_int_equal(w.size, 8);
	vb_rc_window_acked(&w, 8, vb_psn(15));
	assert_int_equal(w.size, 12);
	vb_rc_window_acked(&w, 8, vb_psn(23));
	assert_int_equal(w.size, 13);
	/* Marks alone go below two; a loss does not make it larger then. */
	for (uint32_t i = 0; i < 12; i++) {
		vb_rc_window_acked(&w, 0, vb_psn(30 + i));
		assert_true(vb_rc_window_marked(&w, vb_psn(30 + i)));
	}
	assert_int_equal(w.size, 1);
	vb_rc_window_lost(&w, vb_psn(24));
	vb_rc_window_silent(&w, vb_psn(24));
	assert_int_equal(w.size, 1);
}

static void test_marks(void **state)
{
	struct vb_rc_window w;

	vb_rc_window_init(&w, 25);
	assert_true(vb_rc_window_marked(&w, vb_psn(0x10)));
	assert_int_equal(w.size, 20);
	/* Those of the same round trip say nothing new. */
	assert_false(vb_rc_window_marked(&w, vb_psn(0x11)));
	vb_rc_window_acked(&w, 5, vb_psn(0x0f));
	assert_false(vb_rc_window_marked(&w, vb_psn(0x20)));
	assert_int_equal(w.size, 20);
	vb_rc_window_acked(&w, 1, vb_psn(0x10));
	assert_true(vb_rc_window_marked(&w, vb_psn(0xfffffff0)));
	assert_int_equal(w.size, 16);
	/* Numbers wrap. */
	vb_rc_window_acked(&w, 1, vb_psn(0xffffef));
	assert_true(w.held);
	vb_rc_window_acked(&w, 1, vb_psn(2));
	assert_false(w.held);
	/* Down to one, not to none. */
	for (uint32_t i = 0; i < 20; i++) {
		vb_rc_window_marked(&w, vb_psn(i));
		vb_rc_window_acked(&w, 0, vb_psn(i));
	}
	assert_int_equal(w.size, 1);
	/* Nor does what was lost in this round trip count twice. */
	vb_rc_window_init(&w, 24);
	vb_rc_window_lost(&w, vb_psn(24));
	assert_false(vb_rc_window_marked(&w, vb_psn(24)));
}

static void test_smallest(void **state)
{
	struct vb_rc_window w;

	vb_rc_window_init(&w, 1);
	vb_rc_window_lost(&w, vb_psn(1));
	assert_int_equal(w.size, 1);
	vb_rc_window_silent(&w, vb_psn(1));
	assert_int_equal(w.size, 1);
	vb_rc_window_marked(&w, vb_psn(1));
	assert_int_equal(w.size, 1);
	vb_rc_window_acked(&w, 100, vb_psn(100));
	assert_int_equal(w.size, 1);
}

static uint32_t packets(void)
{
	uint32_t n = 0;

	while (bed_packet(&bed, n))
		n++;
	return n;
}

/* The requester keeps to it, and asks for an acknowledgement before it stops. */
static void test_requester(void **state)
{
	bed_init(&bed);
	bed_post(&bed, VB_MSG_WRITE, 64 * BED_MTU);
	bed_run(&bed, 100);
	assert_int_equal(packets(), 8);
	/* The first packet is lost: half of the window from there on. */
	assert_int_equal(bed_ack(&bed, 0, VB_AETH_NAK, VB_NAK_SEQ), VB_V_NAK_SEQ);
	bed_run(&bed, 100);
	assert_int_equal(packets(), 4);
	assert_int_equal(bed_packet(&bed, 0)->hdr.psn, BED_PSN);
	assert_int_equal(bed_ack(&bed, 3, VB_AETH_ACK, 31), VB_V_ACCEPTED);
	bed_run(&bed, 100);
	assert_int_equal(packets(), 5);
	/* Silence: as few as may be, and they ask. */
	bed.now = bed.sq.deadline_ns;
	assert_true(vb_rc_sq_timer(&bed.sq, bed.ring, bed.now));
	bed_run(&bed, 100);
	assert_int_equal(packets(), 4);
	assert_true(bed_packet(&bed, 0)->hdr.ack_req);
	bed_ack(&bed, 4, VB_AETH_ACK, 31);
	bed_run(&bed, 100);
	assert_int_equal(bed.sq.window.size, 4);
	/* Not being ready is no sign of congestion. */
	bed_ack(&bed, 5, VB_AETH_RNR, 1);
	bed.now = bed.sq.deadline_ns;
	assert_true(vb_rc_sq_timer(&bed.sq, bed.ring, bed.now));
	assert_int_equal(bed.sq.window.size, 4);
}

/* However the window shrinks while packets are under way, one of them has asked. */
static void test_never_stops(void **state)
{
	for (uint32_t first = 1; first <= 64; first++) {
		for (int how = 0; how < 3; how++) {
			bool asked = false;

			bed_init(&bed);
			vb_rc_window_init(&bed.sq.window, first);
			bed_post(&bed, VB_MSG_WRITE, 200 * BED_MTU);
			bed.out.capacity = BED_ROOM;
			bed_run(&bed, 100);
			if (how == 0)
				vb_rc_sq_marked(&bed.sq);
			else if (how == 1)
				vb_rc_window_lost(&bed.sq.window, bed.sq.sent);
			else
				vb_rc_window_silent(&bed.sq.window, bed.sq.sent);
			/* All but those after the last that asked are acknowledged. */
			for (uint32_t n = packets(); n && !asked; n--) {
				asked = bed_packet(&bed, n - 1)->hdr.ack_req;
				if (asked)
					bed_ack(&bed, n - 1, VB_AETH_ACK, 31);
			}
			assert_true(asked);
			if (how == 2)
				vb_rc_sq_go_back(&bed.sq, bed.ring);
			bed_run(&bed, 100);
			assert_true(packets() > 0);
		}
	}
}

static void test_marked_queue(void **state)
{
	bed_init(&bed);
	/* Nothing is under way: whatever it is about, it is over. */
	assert_false(vb_rc_sq_marked(&bed.sq));
	bed_post(&bed, VB_MSG_WRITE, 64 * BED_MTU);
	bed_run(&bed, 100);
	assert_true(vb_rc_sq_marked(&bed.sq));
	assert_int_equal(bed.sq.window.size, 6);
	assert_false(vb_rc_sq_marked(&bed.sq));
	vb_rc_sq_fail(&bed.sq, VB_WC_WR_FLUSH_ERR);
	assert_false(vb_rc_sq_marked(&bed.sq));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_begins_whole),
		cmocka_unit_test(test_loss_halves),
		cmocka_unit_test(test_silence_begins_anew),
		cmocka_unit_test(test_marks),
		cmocka_unit_test(test_smallest),
		cmocka_unit_test(test_requester),
		cmocka_unit_test(test_never_stops),
		cmocka_unit_test(test_marked_queue),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

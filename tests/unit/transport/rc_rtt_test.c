/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "transport/rc_rtt.h"
#include "transport/timers.h"

#define ACK UINT64_C(64000000)

static void sample(struct vb_rc_rtt *r, uint64_t ns)
{
	vb_rc_rtt_sent(r, vb_psn(5), 1000);
	vb_rc_rtt_acked(r, vb_psn(5), 1000 + ns);
}

static void test_estimate(void **state)
{
	struct vb_rc_rtt r = {.timing = false};

	/* The first packet that asks is timed, up to the answer that covers it. */
	vb_rc_rtt_sent(&r, vb_psn(0xffffff), 1000);
	vb_rc_rtt_sent(&r, vb_psn(4), 1500);
	vb_rc_rtt_acked(&r, vb_psn(0xfffffe), 1800);
	assert_true(r.mean_ns == 0);
	vb_rc_rtt_acked(&r, vb_psn(2), 2000);
	assert_true(r.mean_ns == 1000 && r.varies_ns == 500);
	/* It follows what it sees. */
	for (int i = 0; i < 100; i++)
		sample(&r, 80000);
	assert_true(r.mean_ns > 79000 && r.mean_ns <= 80000);
	assert_true(r.varies_ns < 2000);
	for (int i = 0; i < 100; i++)
		sample(&r, i % 2 ? 10000 : 50000);
	assert_true(r.mean_ns > 20000 && r.mean_ns < 40000);
	assert_true(r.varies_ns > 10000 && r.varies_ns < 30000);
	/* A clock that stands still gives a time all the same. */
	r = (struct vb_rc_rtt){.timing = false};
	sample(&r, 0);
	assert_true(r.mean_ns == 1);
}

static void test_forget(void **state)
{
	struct vb_rc_rtt r = {.timing = false};

	vb_rc_rtt_sent(&r, vb_psn(5), 1000);
	vb_rc_rtt_forget(&r);
	vb_rc_rtt_acked(&r, vb_psn(5), 2000);
	assert_true(r.mean_ns == 0);
}

static void test_patience(void **state)
{
	struct vb_rc_rtt r = {.timing = false};

	assert_true(vb_rc_rtt_patience(&r, VB_NEVER) == VB_NEVER);
	/* Nothing known: a part of the timer, and of a long one a fixed time. */
	assert_true(vb_rc_rtt_patience(&r, ACK / 64) == ACK / 64 / 16);
	assert_true(vb_rc_rtt_patience(&r, 100 * ACK) == 4000000);
	/* A short one has one probe, and no more. */
	assert_true(vb_rc_rtt_patience(&r, 262144) == 50000);
	assert_true(vb_rc_rtt_patience(&r, 8192) == 4096);
	sample(&r, 2000000);
	assert_true(vb_rc_rtt_patience(&r, ACK) == 8000000);
	/* Doubled by each probe, but each timer has one. */
	vb_rc_rtt_probed(&r);
	assert_true(vb_rc_rtt_patience(&r, ACK) == 16000000);
	for (int i = 0; i < 100; i++)
		vb_rc_rtt_probed(&r);
	assert_true(vb_rc_rtt_patience(&r, ACK) == ACK / 2);
	assert_true(vb_rc_rtt_patience(&r, UINT64_C(4096) << 31) == UINT64_C(8000000) << 16);
	/* Until an answer is timed. */
	sample(&r, 2000000);
	assert_true(vb_rc_rtt_patience(&r, ACK) < 8000000);
	/* Also where the timer is shorter than the round trip. */
	assert_true(vb_rc_rtt_patience(&r, 1000000) == 500000);
	/* What comes without being timed leaves some. */
	for (int i = 0; i < 100; i++)
		vb_rc_rtt_probed(&r);
	vb_rc_rtt_acked(&r, vb_psn(5), 1000);
	assert_int_equal(r.doublings, 3);
	vb_rc_rtt_acked(&r, vb_psn(5), 1000);
	assert_int_equal(r.doublings, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_estimate),
		cmocka_unit_test(test_forget),
		cmocka_unit_test(test_patience),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "transport/rc_budget.h"

static struct vb_rc_budget budget;
static struct vb_sq_step step;

static void tell(enum vb_verdict verdict, uint64_t now)
{
	vb_rc_sq_verdict(&budget, verdict, 5, now, &step);
}

/* Whatever makes a peer silent: retry_cnt + 1 timeouts, then the end. */
static void test_silence(void **state)
{
	static const enum vb_verdict silent[] = {
		VB_V_DROP_NO_QP, VB_V_DROP_STALE, VB_V_DROP_TYPE,     VB_V_DROP_STATE,
		VB_V_DROP_PEER,	 VB_V_DROP_DEAD,  VB_V_DROP_GONE,     VB_V_DROP_UNREACHABLE,
		VB_V_NAK_SEQ,	 VB_V_DUPLICATE,  VB_V_DUP_FORGOTTEN,
	};
	uint64_t timeout = 4096 << 4;

	for (size_t i = 0; i < sizeof(silent) / sizeof(silent[0]); i++) {
		for (uint8_t retry_cnt = 0; retry_cnt < 8; retry_cnt++) {
			uint64_t now = 1000;

			vb_rc_budget_init(&budget, 4, retry_cnt, 0);
			for (int n = 0; n <= retry_cnt; n++) {
				tell(silent[i], now);
				assert_int_equal(step.kind, n < retry_cnt ? VB_STEP_RETRY_AT
									  : VB_STEP_FAIL_AT);
				assert_int_equal(step.deadline_ns, now + timeout);
				now = step.deadline_ns;
			}
			assert_int_equal(now, 1000 + (retry_cnt + 1) * timeout);
			assert_int_equal(step.status, VB_WC_RETRY_EXC_ERR);
		}
	}
}

static void test_no_timer(void **state)
{
	vb_rc_budget_init(&budget, 0, 0, 0);
	for (int i = 0; i < 20; i++) {
		tell(VB_V_DROP_DEAD, 1000);
		assert_int_equal(step.kind, VB_STEP_RETRY_AT);
		assert_true(step.deadline_ns == VB_NEVER);
	}
}

static void test_rnr(void **state)
{
	vb_rc_budget_init(&budget, 4, 0, 2);
	for (int i = 0; i < 2; i++) {
		tell(VB_V_RNR, 1000);
		assert_int_equal(step.kind, VB_STEP_RETRY_AT);
		assert_int_equal(step.deadline_ns, 1000 + 60000);
	}
	tell(VB_V_RNR, 1000);
	assert_int_equal(step.kind, VB_STEP_FAIL);
	assert_int_equal(step.status, VB_WC_RNR_RETRY_EXC_ERR);

	vb_rc_budget_init(&budget, 4, 0, 0);
	tell(VB_V_RNR, 1000);
	assert_int_equal(step.kind, VB_STEP_FAIL);

	vb_rc_budget_init(&budget, 4, 0, 7);
	for (int i = 0; i < 1000; i++) {
		tell(VB_V_RNR, 1000);
		assert_int_equal(step.kind, VB_STEP_RETRY_AT);
	}
}

/* Success fills both budgets, not being ready fills that of silence. */
static void test_progress(void **state)
{
	vb_rc_budget_init(&budget, 4, 1, 1);
	tell(VB_V_DROP_STATE, 0);
	tell(VB_V_RNR, 0);
	assert_int_equal(step.kind, VB_STEP_RETRY_AT);
	tell(VB_V_DROP_STATE, 0);
	assert_int_equal(step.kind, VB_STEP_RETRY_AT);
	tell(VB_V_DROP_STATE, 0);
	assert_int_equal(step.kind, VB_STEP_FAIL_AT);

	vb_rc_budget_init(&budget, 4, 1, 1);
	tell(VB_V_DROP_STATE, 0);
	tell(VB_V_RNR, 0);
	tell(VB_V_ACCEPTED, 77);
	assert_int_equal(step.kind, VB_STEP_DONE);
	assert_int_equal(step.status, VB_WC_SUCCESS);
	tell(VB_V_RNR, 0);
	assert_int_equal(step.kind, VB_STEP_RETRY_AT);
	tell(VB_V_DROP_STATE, 0);
	assert_int_equal(step.kind, VB_STEP_RETRY_AT);
}

/* A refusal does not wait for any budget. */
static void test_refused(void **state)
{
	vb_rc_budget_init(&budget, 4, 7, 7);
	for (int v = 0; v < VB_V_COUNT; v++) {
		const struct vb_verdict_row *row = vb_verdict_row((enum vb_verdict)v);

		if (row->cls != VB_VC_NAK && row->cls != VB_VC_LOCAL)
			continue;
		tell((enum vb_verdict)v, 5);
		assert_int_equal(step.kind, VB_STEP_FAIL);
		assert_int_equal(step.status, row->req);
		assert_int_not_equal(step.status, VB_WC_SUCCESS);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_silence), cmocka_unit_test(test_no_timer),
		cmocka_unit_test(test_rnr),	cmocka_unit_test(test_progress),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

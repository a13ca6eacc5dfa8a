/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "transport/verdict.h"

static void test_names(void **state)
{
	for (int i = 0; i < VB_V_COUNT; i++) {
		const char *name = vb_verdict_name((enum vb_verdict)i);

		assert_string_not_equal(name, "unknown");
		for (int k = 0; k < i; k++)
			assert_string_not_equal(name, vb_verdict_name((enum vb_verdict)k));
	}
	assert_string_equal(vb_verdict_name(VB_V_COUNT), "unknown");
	assert_string_equal(vb_verdict_name(VB_V_RNR), "rnr_nak");
}

/* A NAK says the same at both ends: the code on the wire gives the status that the
 * verdict gives within a host. */
static void test_rows_agree(void **state)
{
	for (int i = 0; i < VB_V_COUNT; i++) {
		const struct vb_verdict_row *row = vb_verdict_row((enum vb_verdict)i);

		if (row->cls == VB_VC_NAK) {
			assert_int_not_equal(row->nak, VB_NAK_SEQ);
			assert_int_equal(vb_nak_status(row->nak), row->req);
		} else if (row->cls != VB_VC_LOCAL && row->cls != VB_VC_RNR) {
			assert_int_equal(row->req, VB_WC_SUCCESS);
			assert_int_equal(row->event, VB_EVENT_NONE);
		}
	}
	assert_true(vb_verdict_is(VB_V_ACCEPTED, VB_VC_OK));
	assert_true(vb_verdict_is(VB_V_DROP_DEAD, VB_VC_SILENT));
	assert_false(vb_verdict_is(VB_V_RNR, VB_VC_NAK));
}

static void test_nak_codes(void **state)
{
	assert_int_equal(vb_nak_status(0), VB_WC_SUCCESS);
	assert_int_equal(vb_nak_status(1), VB_WC_REM_INV_REQ_ERR);
	assert_int_equal(vb_nak_status(2), VB_WC_REM_ACCESS_ERR);
	assert_int_equal(vb_nak_status(3), VB_WC_REM_OP_ERR);
	assert_int_equal(vb_nak_status(4), VB_WC_BAD_RESP_ERR);
	assert_int_equal(vb_nak_status(255), VB_WC_BAD_RESP_ERR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_rows_agree),
		cmocka_unit_test(test_nak_codes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

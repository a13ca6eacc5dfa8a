/* SPDX-License-Identifier: BSD-2-Clause */
/* What is answered to a message for no connection and no listener. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cm/conn.h"

#define TID  UINT64_C(0x1122334455667788)
#define OWN  0x00a00007u
#define PEER 0x00b00009u

static void nobody_answers(void **state)
{
	(void)state;
	for (uint16_t attr = VB_CM_REQ; attr <= VB_CM_APR; attr++) {
		struct vb_cm_msg msg = {
			.attr = attr, .tid = TID, .local_id = PEER, .remote_id = OWN};
		struct vb_cm_msg back;
		struct vb_cm_out out;

		msg.service_id = 0x1060007;
		vb_cm_answer_unknown(&msg, VB_CM_REJ_INVALID_SERVICE_ID, &out);
		assert_int_equal(out.what, VB_CM_NOTHING);
		assert_int_equal(out.send, attr == VB_CM_REQ || attr == VB_CM_REP ||
						   attr == VB_CM_MRA || attr == VB_CM_RTU ||
						   attr == VB_CM_DREQ || attr == VB_CM_SIDR_REQ);
		if (!out.send)
			continue;
		assert_true(vb_cm_parse(out.bytes, VB_MAD_LEN, &back));
		assert_int_equal(back.tid, TID);
		if (attr == VB_CM_SIDR_REQ) {
			assert_int_equal(back.attr, VB_CM_SIDR_REP);
			assert_int_equal(back.local_id, PEER);
			assert_int_equal(back.service_id, 0x1060007);
			assert_int_equal(back.status, VB_CM_SIDR_UNSUPPORTED);
			continue;
		}
		assert_int_equal(back.remote_id, PEER);
		assert_int_equal(back.local_id, attr == VB_CM_REQ ? 0 : OWN);
		assert_int_equal(back.attr, attr == VB_CM_DREQ ? VB_CM_DREP : VB_CM_REJ);
		if (attr == VB_CM_REQ)
			assert_int_equal(back.reason, VB_CM_REJ_INVALID_SERVICE_ID);
		if (attr == VB_CM_REP || attr == VB_CM_MRA || attr == VB_CM_RTU)
			assert_int_equal(back.reason, VB_CM_REJ_INVALID_COMM_ID);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

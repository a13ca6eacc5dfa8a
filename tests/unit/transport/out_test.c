/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "transport/out.h"

static void test_add(void **state)
{
	struct vb_out_record records[2];
	struct vb_out out = {records, 2, 0};

	memset(records, 0xff, sizeof(records));
	assert_int_equal(vb_out_room(&out), 2);
	assert_ptr_equal(vb_out_add(&out, VB_OUT_PACKET), &records[0]);
	assert_int_equal(records[0].packet.hdr.payload_len, 0);
	assert_int_equal(records[0].packet.from, VB_PAYLOAD_NONE);
	vb_out_event(&out, VB_EVENT_SQ_DRAINED);
	assert_int_equal(records[1].kind, VB_OUT_EVENT);
	assert_int_equal(records[1].event, VB_EVENT_SQ_DRAINED);
	assert_int_equal(vb_out_room(&out), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_add)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

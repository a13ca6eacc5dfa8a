/* SPDX-License-Identifier: BSD-2-Clause */
/* The rows of resp_rows.h go through it in rc_resp_test.c and uc_resp_test.c; here is what a
 * message of several packets must be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "lib/resp_rows.h"
#include "transport/msg_in.h"

static struct row_bed bed;
static struct vb_msg_in msg;
static struct vb_packet pkt;
static struct vb_out_record record;
static struct vb_out out;

static void setup(enum vb_msg_kind kind, uint64_t length)
{
	row_bed_init(&bed, kind);
	bed.msg.length = length;
	memset(&msg, 0, sizeof(msg));
}

/* One packet: checked, and where accepted carried on. */
static enum vb_verdict give(enum vb_msg_kind kind, enum vb_op_pos pos, uint32_t len, bool *last)
{
	struct vb_msg_step step = {
		.msg = &msg, .qp = &bed.qp, .env = &fake_resp_env, .ctx = &bed.env, .pkt = &pkt};
	enum vb_verdict v;

	pkt = (struct vb_packet){.va = bed.msg.remote_addr,
				 .rkey = bed.msg.rkey,
				 .dma_len = (uint32_t)bed.msg.length,
				 .payload = bed.payload,
				 .payload_len = len};
	assert_true(vb_op_find(VB_SVC_RC, (enum vb_op_kind)kind, pos, VB_EXTRA_NONE, &pkt.opcode));
	step.op = vb_op_row(pkt.opcode);
	out = (struct vb_out){&record, 1, 0};
	v = vb_msg_in_packet(&step);
	if (!v)
		*last = vb_msg_in_advance(&step, &out);
	return v;
}

static void test_whole(void **state)
{
	bool last = true;

	setup(VB_MSG_SEND, 2 * ROW_MTU + 3);
	assert_int_equal(give(VB_MSG_SEND, VB_POS_FIRST, ROW_MTU, &last), VB_V_ACCEPTED);
	assert_false(last);
	assert_int_equal(give(VB_MSG_SEND, VB_POS_MIDDLE, ROW_MTU, &last), VB_V_ACCEPTED);
	assert_int_equal(out.count, 0);
	assert_int_equal(give(VB_MSG_SEND, VB_POS_LAST, 3, &last), VB_V_ACCEPTED);
	assert_true(last);
	assert_int_equal(record.received.completion.byte_len, 2 * ROW_MTU + 3);
	assert_int_equal(bed.env.takes, 1);
}

static void test_order(void **state)
{
	bool last;

	setup(VB_MSG_SEND, 2 * ROW_MTU);
	assert_int_equal(give(VB_MSG_SEND, VB_POS_MIDDLE, ROW_MTU, &last), VB_V_INV_OP_SEQ);
	assert_int_equal(give(VB_MSG_SEND, VB_POS_LAST, 1, &last), VB_V_INV_OP_SEQ);
	assert_int_equal(give(VB_MSG_SEND, VB_POS_FIRST, ROW_MTU, &last), VB_V_ACCEPTED);
	assert_int_equal(give(VB_MSG_SEND, VB_POS_ONLY, 1, &last), VB_V_INV_OP_SEQ);
	assert_int_equal(give(VB_MSG_WRITE, VB_POS_LAST, 1, &last), VB_V_INV_OP_SEQ);
	assert_int_equal(give(VB_MSG_SEND, VB_POS_LAST, 1, &last), VB_V_ACCEPTED);
}

/* Packets are full but for the last, and a WRITE has the bytes it announced. */
static void test_lengths(void **state)
{
	bool last;

	setup(VB_MSG_WRITE, ROW_MTU + 5);
	assert_int_equal(give(VB_MSG_WRITE, VB_POS_FIRST, ROW_MTU - 1, &last), VB_V_INV_PACKET_LEN);
	assert_int_equal(give(VB_MSG_WRITE, VB_POS_ONLY, ROW_MTU + 1, &last), VB_V_INV_PACKET_LEN);
	assert_int_equal(give(VB_MSG_WRITE, VB_POS_ONLY, 5, &last), VB_V_INV_MSG_LEN);
	assert_int_equal(give(VB_MSG_WRITE, VB_POS_FIRST, ROW_MTU, &last), VB_V_ACCEPTED);
	assert_int_equal(give(VB_MSG_WRITE, VB_POS_MIDDLE, ROW_MTU, &last), VB_V_INV_MSG_LEN);
	assert_int_equal(give(VB_MSG_WRITE, VB_POS_LAST, 0, &last), VB_V_INV_PACKET_LEN);
	assert_int_equal(give(VB_MSG_WRITE, VB_POS_LAST, 4, &last), VB_V_INV_MSG_LEN);
	assert_int_equal(give(VB_MSG_WRITE, VB_POS_LAST, 5, &last), VB_V_ACCEPTED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_lengths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "lib/resp_rows.h"
#include "transport/uc_resp.h"
#include "transport/unacked_msg.h"

static struct row_bed bed;
static struct vb_msg_in msg;
static struct vb_out_record records[VB_UC_RESP_OUT_MAX];
static struct vb_out out;

static void setup(enum vb_msg_kind kind)
{
	row_bed_init(&bed, kind);
	bed.qp.type = VB_QPT_UC;
	bed.env.peeks = true;
	memset(&msg, 0, sizeof(msg));
}

/* A packet of the bed's message. */
static enum vb_verdict give(enum vb_op_pos pos, uint32_t psn, uint32_t len)
{
	struct vb_packet pkt = {
		.pkey = VB_PKEY_DEFAULT,
		.dest_qpn = bed.qp.qpn,
		.psn = psn,
		.va = bed.msg.remote_addr,
		.rkey = bed.msg.rkey,
		.dma_len = (uint32_t)bed.msg.length,
		.imm = bed.msg.imm,
		.payload = bed.payload,
		.payload_len = len,
	};

	assert_true(vb_op_find(VB_SVC_UC, (enum vb_op_kind)bed.msg.kind, pos,
			       bed.msg.with_imm ? VB_EXTRA_IMM : VB_EXTRA_NONE, &pkt.opcode));
	out = (struct vb_out){records, VB_UC_RESP_OUT_MAX, 0};
	return vb_uc_resp_packet(&msg, &bed.qp, &fake_resp_env, &bed.env, &pkt, &bed.msg.src, &out);
}

static const struct vb_out_record *find(enum vb_out_kind kind)
{
	for (uint32_t i = 0; i < out.count; i++)
		if (records[i].kind == kind)
			return &records[i];
	return NULL;
}

/* RC's rows over UC: trouble with its own receive ends the connection, all else is dropped. */
static void test_rows(void **state)
{
	int rows = 0;

	for (size_t i = 0; i < RESP_ROWS; i++) {
		const struct resp_row *row = &resp_rows[i];
		bool fatal = vb_unacked_own_fault(row->verdict) && row->recv != NO_RECV;
		const struct vb_out_record *received;
		enum vb_verdict v;

		if (row->kind > VB_MSG_WRITE || !(row->forms & AS_PACKET) || row->spoil == xrc ||
		    row->spoil == type_ud || row->spoil == type_xrc_send ||
		    row->spoil == psn_behind || row->spoil == psn_ahead)
			continue;
		setup(row->kind);
		row->spoil(&bed);
		if (bed.msg.with_inv)
			continue; /* UC has no such packet */
		v = give(VB_POS_ONLY, ROW_PSN, (uint32_t)bed.msg.length);
		received = find(VB_OUT_RECEIVED);
		assert_null(find(VB_OUT_PACKET));
		assert_int_equal(find(VB_OUT_QP_ERR) != NULL, fatal);
		assert_int_equal(bed.qp.state == VB_QPS_ERR, fatal || row->spoil == err);
		if (row->verdict == VB_V_ACCEPTED || fatal) {
			assert_int_equal(v, row->verdict);
			assert_int_equal(received != NULL, row->recv != NO_RECV);
			if (received)
				assert_int_equal(received->received.completion.status, row->recv);
		} else {
			assert_true(vb_verdict_is(v, VB_VC_SILENT));
			assert_int_equal(out.count, 0);
			assert_false(msg.in_message || msg.has_recv);
		}
		rows++;
	}
	assert_true(rows > 25);
}

static void test_other_service(void **state)
{
	setup(VB_MSG_SEND);
	bed.qp.type = VB_QPT_RC;
	assert_int_equal(give(VB_POS_ONLY, ROW_PSN, 100), VB_V_DROP_TYPE);
}

/* What belongs to no message is dropped, and whatever its number the next follows it. */
static void test_numbers(void **state)
{
	setup(VB_MSG_SEND);
	assert_int_equal(give(VB_POS_MIDDLE, ROW_PSN, ROW_MTU), VB_V_DROP_BROKEN);
	assert_int_equal(give(VB_POS_LAST, ROW_PSN + 1, 1), VB_V_DROP_BROKEN);
	/* A first packet counts with any number. */
	assert_int_equal(give(VB_POS_FIRST, 0xffffff, ROW_MTU), VB_V_ACCEPTED);
	assert_int_equal(bed.qp.epsn.v, 0);
	assert_int_equal(give(VB_POS_MIDDLE, 1, ROW_MTU), VB_V_DROP_BROKEN);
	assert_int_equal(give(VB_POS_LAST, 2, 1), VB_V_DROP_BROKEN);
	assert_int_equal(bed.qp.msn, 0xffffff);
	/* Begun again without an end: the receive serves the second one. */
	assert_int_equal(give(VB_POS_FIRST, 3, ROW_MTU), VB_V_ACCEPTED);
	assert_int_equal(give(VB_POS_FIRST, 4, ROW_MTU), VB_V_ACCEPTED);
	assert_int_equal(give(VB_POS_LAST, 5, 7), VB_V_ACCEPTED);
	assert_int_equal(find(VB_OUT_RECEIVED)->received.completion.byte_len, ROW_MTU + 7);
	assert_int_equal(bed.qp.msn, 0);
}

/* The rest of a message without a receive is dropped; the next finds one. */
static void test_no_receive(void **state)
{
	setup(VB_MSG_SEND);
	bed.env.recv_tail = 0;
	assert_int_equal(give(VB_POS_FIRST, ROW_PSN, ROW_MTU), VB_V_DROP_NO_RECV);
	bed.env.recv_tail = 1;
	assert_int_equal(give(VB_POS_LAST, ROW_PSN + 1, 1), VB_V_DROP_BROKEN);
	assert_int_equal(give(VB_POS_ONLY, ROW_PSN + 2, 1), VB_V_ACCEPTED);
	assert_non_null(find(VB_OUT_RECEIVED));
}

static void test_established(void **state)
{
	setup(VB_MSG_WRITE);
	bed.qp.state = VB_QPS_RTR;
	assert_int_equal(give(VB_POS_ONLY, ROW_PSN, 100), VB_V_ACCEPTED);
	assert_int_equal(find(VB_OUT_EVENT)->event, VB_EVENT_COMM_EST);
	assert_int_equal(give(VB_POS_ONLY, ROW_PSN + 1, 100), VB_V_ACCEPTED);
	assert_null(find(VB_OUT_EVENT));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),	    cmocka_unit_test(test_other_service),
		cmocka_unit_test(test_numbers),	    cmocka_unit_test(test_no_receive),
		cmocka_unit_test(test_established),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

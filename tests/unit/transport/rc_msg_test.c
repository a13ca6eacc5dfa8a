/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "lib/resp_rows.h"

static struct row_bed bed;
static struct vb_msg_result res;

static enum vb_verdict send_it(void)
{
	return vb_rc_resp_message(&bed.qp, &fake_resp_env, &bed.env, &bed.msg, &res);
}

static void check_row(const struct resp_row *row)
{
	enum vb_verdict_class cls = vb_verdict_row(row->verdict)->cls;
	bool ok = row->verdict == VB_V_ACCEPTED, fatal = cls == VB_VC_NAK;

	assert_int_equal(res.verdict, row->verdict);
	assert_int_equal(res.epsn.v, ok ? ROW_PSN + bed.msg.npkts : bed.qp.epsn.v);
	assert_int_equal(res.msn, ok ? 0 : 0xffffff);
	assert_int_equal(res.event, row->event);
	assert_int_equal(res.target_err, fatal);
	assert_int_equal(res.rnr_timer, row->verdict == VB_V_RNR ? 12 : 0);
	assert_false(res.comm_est);
	assert_int_equal(bed.env.ndone, row->recv != NO_RECV);
	if (row->recv != NO_RECV) {
		assert_int_equal(bed.env.done[0].status, row->recv);
		assert_int_equal(bed.env.done_id[0], 42);
	}
}

static void test_rows(void **state)
{
	for (size_t i = 0; i < RESP_ROWS; i++) {
		const struct resp_row *row = &resp_rows[i];
		enum vb_verdict v;

		if (!(row->forms & AS_MESSAGE))
			continue;
		row_bed_init(&bed, row->kind);
		row->spoil(&bed);
		v = send_it();
		if (v != row->verdict)
			fail_msg("%s: %s, not %s", row->name, vb_verdict_name(v),
				 vb_verdict_name(row->verdict));
		check_row(row);
	}
}

/* Nothing of a refused message is executed. */
static void test_refused_does_nothing(void **state)
{
	for (size_t i = 0; i < RESP_ROWS; i++) {
		const struct resp_row *row = &resp_rows[i];

		if (row->verdict == VB_V_ACCEPTED || row->verdict == VB_V_ACC_INVALIDATE ||
		    row->spoil == cq_gone)
			continue;
		row_bed_init(&bed, row->kind);
		row->spoil(&bed);
		send_it();
		assert_int_equal(bed.env.copies_in + bed.env.copies_out + bed.env.atomics, 0);
		assert_int_equal(bed.env.invalidates, 0);
	}
}

static void test_data(void **state)
{
	uint64_t value;

	row_bed_init(&bed, VB_MSG_SEND);
	bed.msg.with_imm = bed.msg.solicited = true;
	assert_int_equal(send_it(), VB_V_ACCEPTED);
	assert_memory_equal(bed.recv, bed.payload, 100);
	assert_int_equal(bed.recv[100], 0);
	assert_int_equal(bed.env.done[0].opcode, VB_WC_OP_RECV);
	assert_int_equal(bed.env.done[0].byte_len, 100);
	assert_int_equal(bed.env.done[0].flags, VB_WC_WITH_IMM);
	assert_int_equal(bed.env.done[0].imm_or_key, 0x01020304);
	assert_int_equal(bed.env.done[0].qpn, 0x21);
	assert_int_equal(bed.env.done[0].src_qpn, 0x31);
	assert_true(bed.env.done[0].solicited);

	row_bed_init(&bed, VB_MSG_SEND);
	bed.msg.with_inv = true;
	assert_int_equal(send_it(), VB_V_ACCEPTED);
	assert_int_equal(bed.env.done[0].flags, VB_WC_WITH_INV);
	assert_int_equal(bed.env.done[0].imm_or_key, ROW_INV);
	assert_false(bed.env.done[0].solicited);
	assert_int_equal(bed.env.invalidates, 1);
	assert_int_equal(bed.env.keys[1].rkey, 0);

	row_bed_init(&bed, VB_MSG_WRITE);
	bed.msg.with_imm = true;
	assert_int_equal(send_it(), VB_V_ACCEPTED);
	assert_memory_equal(bed.mem + 64, bed.payload, 100);
	assert_int_equal(bed.mem[164], 0xa5);
	assert_int_equal(bed.env.done[0].opcode, VB_WC_OP_RECV_RDMA_WITH_IMM);
	assert_int_equal(bed.env.done[0].byte_len, 100);

	row_bed_init(&bed, VB_MSG_READ);
	assert_int_equal(send_it(), VB_V_ACCEPTED);
	assert_memory_equal(bed.mem + 64, bed.payload, 100);
	assert_int_equal(bed.payload[100], 0x5a);

	row_bed_init(&bed, VB_MSG_CMP_SWP);
	assert_int_equal(send_it(), VB_V_ACCEPTED);
	memcpy(&value, bed.mem + 64, 8);
	assert_int_equal(value, 9);
	assert_int_equal(res.old, 7);

	row_bed_init(&bed, VB_MSG_FETCH_ADD);
	assert_int_equal(send_it(), VB_V_ACCEPTED);
	memcpy(&value, bed.mem + 64, 8);
	assert_int_equal(value, 14);
	assert_int_equal(res.old, 7);
}

/* A WRITE of several packets with an immediate: the key is its first packet's matter,
 * the receive its last's. */
static void test_order_of_many_packets(void **state)
{
	row_bed_init(&bed, VB_MSG_WRITE);
	bed.msg.with_imm = true;
	bed.msg.length = 2 * ROW_MTU + 1;
	bed.msg.npkts = 3;
	assert_int_equal(send_it(), VB_V_ACCEPTED);
	assert_int_equal(res.epsn.v, ROW_PSN + 3);
	assert_int_equal(bed.env.done[0].byte_len, 2 * ROW_MTU + 1);

	bed.msg.rkey = 1;
	bed.env.ndone = 0;
	fake_post_recv(&bed.env, 43, bed.recv, ROW_SIZE);
	assert_int_equal(send_it(), VB_V_ACC_KEY_UNKNOWN);
	assert_int_equal(res.event, VB_EVENT_QP_ACCESS_ERR);
	assert_int_equal(bed.env.ndone, 0);
	/* Of one packet: not being ready comes first. */
	row_bed_init(&bed, VB_MSG_WRITE);
	imm_key_unknown(&bed);
	bed.env.recv_tail = 0;
	assert_int_equal(send_it(), VB_V_RNR);
	/* Of several: the key comes first. */
	bed.msg.length = 2 * ROW_MTU;
	bed.msg.npkts = 2;
	assert_int_equal(send_it(), VB_V_ACC_KEY_UNKNOWN);
}

static void test_comm_est_once(void **state)
{
	row_bed_init(&bed, VB_MSG_SEND);
	bed.qp.state = VB_QPS_RTR;
	assert_int_equal(send_it(), VB_V_ACCEPTED);
	assert_true(res.comm_est);
	row_bed_init(&bed, VB_MSG_SEND);
	bed.qp.state = VB_QPS_RTR;
	bed.qp.comm_est = true;
	send_it();
	assert_false(res.comm_est);
	row_bed_init(&bed, VB_MSG_SEND);
	bed.qp.state = VB_QPS_RTR;
	bed.env.recv_tail = 0;
	assert_int_equal(send_it(), VB_V_RNR);
	assert_false(res.comm_est);
}

static void test_wrap(void **state)
{
	row_bed_init(&bed, VB_MSG_WRITE);
	bed.msg.length = 4 * ROW_MTU - 64;
	bed.msg.npkts = 4;
	bed.msg.psn.v = bed.qp.epsn.v = 0xfffffe;
	assert_int_equal(send_it(), VB_V_ACCEPTED);
	assert_int_equal(res.epsn.v, 2);
	assert_int_equal(res.msn, 0);
	bed.qp.epsn.v = 1;
	assert_int_equal(send_it(), VB_V_DUPLICATE);
	bed.qp.epsn.v = 0xfffff0;
	assert_int_equal(send_it(), VB_V_NAK_SEQ);
}

/* What each end makes of each verdict. */
static void test_requester_side(void **state)
{
	static const struct {
		enum vb_verdict verdict;
		enum vb_wc_status status;
	} want[] = {
		{VB_V_ACC_QP_FLAGS, VB_WC_REM_ACCESS_ERR},
		{VB_V_ACC_KEY_UNKNOWN, VB_WC_REM_ACCESS_ERR},
		{VB_V_ACC_KEY_PD, VB_WC_REM_ACCESS_ERR},
		{VB_V_ACC_KEY_QP, VB_WC_REM_ACCESS_ERR},
		{VB_V_ACC_KEY_RIGHT, VB_WC_REM_ACCESS_ERR},
		{VB_V_ACC_KEY_RANGE, VB_WC_REM_ACCESS_ERR},
		{VB_V_ACC_FAULT, VB_WC_REM_ACCESS_ERR},
		{VB_V_ACC_INVALIDATE, VB_WC_REM_ACCESS_ERR},
		{VB_V_INV_OPCODE, VB_WC_REM_INV_REQ_ERR},
		{VB_V_INV_RD_ATOMIC, VB_WC_REM_INV_REQ_ERR},
		{VB_V_INV_ALIGNMENT, VB_WC_REM_INV_REQ_ERR},
		{VB_V_INV_MSG_LEN, VB_WC_REM_INV_REQ_ERR},
		{VB_V_INV_PACKET_LEN, VB_WC_REM_INV_REQ_ERR},
		{VB_V_INV_RECV_LEN, VB_WC_REM_INV_REQ_ERR},
		{VB_V_OP_RECV_PROT, VB_WC_REM_OP_ERR},
		{VB_V_OP_SRQ, VB_WC_REM_OP_ERR},
		{VB_V_LOCAL_PROT, VB_WC_LOC_PROT_ERR},
	};
	struct vb_rc_budget budget;
	struct vb_sq_step step;

	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		vb_rc_budget_init(&budget, 14, 7, 7);
		vb_rc_sq_verdict(&budget, want[i].verdict, 0, 5, &step);
		assert_int_equal(step.kind, VB_STEP_FAIL);
		assert_int_equal(step.status, want[i].status);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),	       cmocka_unit_test(test_refused_does_nothing),
		cmocka_unit_test(test_data),	       cmocka_unit_test(test_order_of_many_packets),
		cmocka_unit_test(test_comm_est_once),  cmocka_unit_test(test_wrap),
		cmocka_unit_test(test_requester_side),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

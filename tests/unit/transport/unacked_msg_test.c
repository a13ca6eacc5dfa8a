/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "lib/resp_rows.h"
#include "transport/unacked_msg.h"

#define QKEY 0x11111111

static struct row_bed bed;
static struct vb_msg_result res;

static enum vb_verdict uc(void)
{
	return vb_uc_resp_message(&bed.qp, &fake_resp_env, &bed.env, &bed.msg, &res);
}

/* RC's rows over UC: what fails without a receive is dropped in silence, what took one
 * ends the connection. */
static void test_uc_rows(void **state)
{
	for (size_t i = 0; i < RESP_ROWS; i++) {
		const struct resp_row *row = &resp_rows[i];
		bool fatal = vb_unacked_own_fault(row->verdict) && row->recv != NO_RECV;
		bool completes = fatal || row->verdict == VB_V_ACCEPTED;

		if (row->kind > VB_MSG_WRITE || row->spoil == xrc || row->spoil == type_ud ||
		    row->spoil == type_xrc_send || row->spoil == psn_behind ||
		    row->spoil == psn_ahead || row->spoil == fault_local)
			continue;
		row_bed_init(&bed, row->kind);
		bed.qp.type = VB_QPT_UC;
		row->spoil(&bed);
		uc();
		assert_int_equal(res.event, VB_EVENT_NONE);
		assert_int_equal(res.target_err, fatal);
		assert_int_equal(bed.env.ndone, completes && row->recv != NO_RECV);
		if (bed.env.ndone)
			assert_int_equal(bed.env.done[0].status, row->recv);
		if (row->verdict == VB_V_ACCEPTED || fatal)
			assert_int_equal(res.verdict, row->verdict);
		else
			assert_true(vb_verdict_is(res.verdict, VB_VC_SILENT));
	}
}

/* Messages lost before do not matter: any PSN is the expected one. */
static void test_uc_psn(void **state)
{
	row_bed_init(&bed, VB_MSG_SEND);
	bed.qp.type = VB_QPT_UC;
	bed.msg.psn.v = 0x700000;
	assert_int_equal(uc(), VB_V_ACCEPTED);
	assert_int_equal(res.epsn.v, 0x700001);
}

static void test_uc_kinds(void **state)
{
	for (int kind = VB_MSG_READ; kind <= VB_MSG_FETCH_ADD; kind++) {
		row_bed_init(&bed, (enum vb_msg_kind)kind);
		bed.qp.type = VB_QPT_UC;
		assert_int_equal(uc(), VB_V_DROP_MALFORMED);
	}
	row_bed_init(&bed, VB_MSG_SEND);
	assert_int_equal(uc(), VB_V_DROP_TYPE);
}

static enum vb_verdict ud(uint32_t qkey)
{
	return vb_ud_resp_message(&bed.qp, QKEY, &fake_resp_env, &bed.env, &bed.msg, qkey, &res);
}

static void ud_bed(void)
{
	row_bed_init(&bed, VB_MSG_SEND);
	bed.qp.type = VB_QPT_UD;
	/* Datagrams come from anywhere. */
	bed.msg.src.qpn = 0x99;
}

static void test_ud(void **state)
{
	ud_bed();
	bed.msg.with_imm = bed.msg.solicited = true;
	assert_int_equal(ud(QKEY), VB_V_ACCEPTED);
	assert_int_equal(bed.env.ndone, 1);
	assert_int_equal(bed.env.done[0].status, VB_WC_SUCCESS);
	assert_int_equal(bed.env.done[0].flags, VB_WC_GRH | VB_WC_WITH_IMM);
	assert_int_equal(bed.env.done[0].imm_or_key, 0x01020304);
	assert_int_equal(bed.env.done[0].src_qpn, 0x99);
	assert_int_equal(bed.env.done[0].byte_len, 100);
	assert_true(bed.env.done[0].solicited);
	assert_memory_equal(bed.recv, bed.payload, 100);
}

static void test_ud_drops(void **state)
{
	ud_bed();
	assert_int_equal(ud(QKEY + 1), VB_V_DROP_QKEY);
	assert_int_equal(bed.env.takes, 0);
	ud_bed();
	bed.qp.type = VB_QPT_RC;
	assert_int_equal(ud(QKEY), VB_V_DROP_TYPE);
	ud_bed();
	bed.qp.state = VB_QPS_INIT;
	assert_int_equal(ud(QKEY), VB_V_DROP_STATE);
	ud_bed();
	bed.msg.kind = VB_MSG_WRITE;
	assert_int_equal(ud(QKEY), VB_V_DROP_MALFORMED);
	ud_bed();
	bed.env.recv_tail = 0;
	assert_int_equal(ud(QKEY), VB_V_DROP_NO_RECV);
	ud_bed();
	bed.env.recvs[0].length = 99;
	assert_int_equal(ud(QKEY), VB_V_DROP_RECV_LEN);
	assert_int_equal(bed.env.ndone, 0);
	assert_false(res.target_err);
	ud_bed();
	bed.env.complete_fails = true;
	assert_int_equal(ud(QKEY), VB_V_DROP_GONE);
}

/* Trouble with its own receive fails the responder's QP, never the sender. */
static void test_ud_receive_fails(void **state)
{
	ud_bed();
	bed.env.recvs[0].sges_ok = false;
	assert_int_equal(ud(QKEY), VB_V_OP_RECV_PROT);
	assert_true(res.target_err);
	assert_int_equal(bed.env.done[0].status, VB_WC_LOC_PROT_ERR);
	ud_bed();
	bed.env.copy = VB_COPY_FAULT_REMOTE;
	assert_int_equal(ud(QKEY), VB_V_OP_RECV_PROT);
	assert_int_equal(bed.env.done[0].status, VB_WC_LOC_PROT_ERR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_uc_rows),	 cmocka_unit_test(test_uc_psn),
		cmocka_unit_test(test_uc_kinds), cmocka_unit_test(test_ud),
		cmocka_unit_test(test_ud_drops), cmocka_unit_test(test_ud_receive_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

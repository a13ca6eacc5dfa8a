/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/stats.h"

static const enum vb_stat by_kind[] = {
	[VB_MSG_SEND] = VB_STAT_SENDS,	      [VB_MSG_WRITE] = VB_STAT_WRITES,
	[VB_MSG_READ] = VB_STAT_READS,	      [VB_MSG_CMP_SWP] = VB_STAT_ATOMICS,
	[VB_MSG_FETCH_ADD] = VB_STAT_ATOMICS,
};

static void count_packets(struct vb_adapter *a, const struct vb_msg *msg, bool acked)
{
	/* A READ is one request and many responses, everything else the other way round. */
	vb_stat_add(a, VB_STAT_LOCAL_PKTS, (uint64_t)msg->npkts + (acked ? 1 : 0));
	if (msg->length)
		vb_stat_add(a, VB_STAT_LOCAL_BYTES, msg->length);
	vb_stat_add(a, by_kind[msg->kind], 1);
	if (msg->kind == VB_MSG_SEND || msg->with_imm)
		vb_stat_add(a, VB_STAT_RECVS, 1);
}

/* What a responder finds, whichever way the request came. */
static void count_verdict(struct vb_adapter *a, enum vb_verdict verdict, bool acked)
{
	const struct vb_verdict_row *row = vb_verdict_row(verdict);

	switch (row->cls) {
	case VB_VC_DUPLICATE:
		vb_stat_add(a, VB_STAT_DUPLICATES, 1);
		break;
	case VB_VC_SEQ:
		vb_stat_add(a, VB_STAT_OUT_OF_SEQ, 1);
		break;
	case VB_VC_SILENT:
		/* UC and UD have no timer: what is dropped is gone. A broken message is counted
		 * once. */
		if (!acked && verdict != VB_V_DROP_BROKEN)
			vb_stat_add(a, VB_STAT_DROPPED, 1);
		break;
	case VB_VC_RNR:
		vb_stat_add(a, VB_STAT_RNR_SENT, 1);
		break;
	case VB_VC_NAK:
		if (row->recv == VB_WC_LOC_LEN_ERR)
			vb_stat_add(a, VB_STAT_RESP_LENGTH, 1);
		if (row->req == VB_WC_REM_ACCESS_ERR)
			vb_stat_add(a, VB_STAT_RESP_ACCESS, 1);
		break;
	default:
		break;
	}
}

void vb_stat_message(struct vb_adapter *a, const struct vb_msg *msg, bool acked,
		     enum vb_verdict verdict)
{
	if (verdict == VB_V_DROP_BUSY)
		return; /* not sent yet */
	if (verdict == VB_V_ACCEPTED)
		count_packets(a, msg, acked);
	count_verdict(a, verdict, acked);
	/* The call is both ends: the answer is heard here, and silence too. */
	vb_stat_response(a, verdict);
	if (acked && vb_verdict_is(verdict, VB_VC_SILENT))
		vb_stat_add(a, VB_STAT_TIMEOUTS, 1);
}

void vb_stat_request(struct vb_adapter *a, const struct vb_op_row *op, enum vb_verdict verdict)
{
	if (verdict == VB_V_ACCEPTED && op->kind != VB_OP_SEND && vb_op_is_last(op))
		vb_stat_add(a, by_kind[op->kind], 1);
	count_verdict(a, verdict, op->service == VB_SVC_RC);
}

void vb_stat_response(struct vb_adapter *a, enum vb_verdict verdict)
{
	if (verdict == VB_V_RNR)
		vb_stat_add(a, VB_STAT_RNR_RCVD, 1);
	else if (verdict == VB_V_NAK_SEQ)
		vb_stat_add(a, VB_STAT_SEQ_NAKS_RCVD, 1);
}

void vb_stat_failure(struct vb_adapter *a, enum vb_wc_status status)
{
	if (status == VB_WC_WR_FLUSH_ERR) {
		vb_stat_add(a, VB_STAT_REQ_FLUSHED, 1);
		return;
	}
	vb_stat_add(a, VB_STAT_REQ_ERROR, 1);
	if (status == VB_WC_REM_ACCESS_ERR)
		vb_stat_add(a, VB_STAT_REM_ACCESS, 1);
	else if (status == VB_WC_REM_INV_REQ_ERR)
		vb_stat_add(a, VB_STAT_REM_INVALID, 1);
	else if (status == VB_WC_RETRY_EXC_ERR)
		vb_stat_add(a, VB_STAT_RETRY_EXCEEDED, 1);
	else if (status == VB_WC_RNR_RETRY_EXC_ERR)
		vb_stat_add(a, VB_STAT_RNR_EXCEEDED, 1);
}

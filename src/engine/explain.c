/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/explain.h"

#include <stdio.h>

#include "base/rules.h"
#include "object/mr.h"

typedef unsigned long long ull;

void vb_explain_local(const struct vb_qp *qp, const struct vb_swqe *wqe, int sge,
		      enum vb_sge_fault fault)
{
	if (vb_explain_on())
		vb_explain(VB_RULE_WC_LOC_PROT,
			   "qp#0x%x wr_id=0x%llx sge[%d] addr=0x%llx length=%u lkey=0x%x: %s",
			   qp->ibv.qp_num, (ull)wqe->wr_id, sge, (ull)wqe->sge[sge].addr,
			   wqe->sge[sge].length, wqe->sge[sge].lkey, vb_sge_fault_text(fault));
}

/* What is said of a verdict: the rule, and the check in words. */
static const struct {
	enum vb_rule rule;
	const char *text;
} verdicts[VB_V_COUNT] = {
	[VB_V_DUPLICATE] = {VB_RULE_WC_RETRY, "its expected PSN is ahead of our sq_psn"},
	[VB_V_DROP_NO_QP] = {VB_RULE_WC_RETRY, "no process of this host has a QP of that number"},
	[VB_V_DROP_STALE] = {VB_RULE_WC_RETRY, "that QP number names another QP by now, or none"},
	[VB_V_DROP_TYPE] = {VB_RULE_WC_RETRY, "the QP of that number is of another type"},
	[VB_V_DROP_STATE] = {VB_RULE_WC_RETRY, "the peer QP is not in RTR or RTS"},
	[VB_V_DROP_PEER] = {VB_RULE_WC_RETRY,
			    "the peer QP is connected to another QP number or GID than ours"},
	[VB_V_DROP_DEAD] = {VB_RULE_WC_RETRY, "the peer's process has ended"},
	[VB_V_DROP_GONE] = {VB_RULE_WC_RETRY, "the peer QP left while the message arrived"},
	[VB_V_DROP_UNREACHABLE] = {VB_RULE_WC_UNREACHABLE, "see verbena doctor"},
	[VB_V_DROP_BUSY] = {VB_RULE_WC_RETRY, "too many accesses are under way"},
	[VB_V_NAK_SEQ] = {VB_RULE_WC_RETRY, "its expected PSN is behind our sq_psn"},
	[VB_V_DROP_QKEY] = {VB_RULE_WC_UD_DROPPED, "the Q_Key differs from the receiver's"},
	[VB_V_DROP_NO_RECV] = {VB_RULE_WC_UD_DROPPED, "the receiver has no receive posted"},
	[VB_V_DROP_RECV_LEN] = {VB_RULE_WC_UD_DROPPED,
				"the receive posted is shorter than 40 bytes and the message"},
	[VB_V_DROP_ACCESS] = {VB_RULE_WC_UD_DROPPED, "the receiver's access checks refused it"},
	[VB_V_RNR] = {VB_RULE_WC_RNR, "the peer QP has no receive posted"},
	[VB_V_INV_RD_ATOMIC] = {VB_RULE_WC_RD_ATOMIC, "the peer's max_dest_rd_atomic is too small"},
	[VB_V_INV_ALIGNMENT] = {VB_RULE_WC_ALIGNMENT, "the remote address is not a multiple of 8"},
	[VB_V_INV_MSG_LEN] = {VB_RULE_WC_MSG_LENGTH, "the message is too long"},
	[VB_V_INV_RECV_LEN] = {VB_RULE_WC_RECV_LENGTH, "the receive posted by the peer is shorter"},
	[VB_V_ACC_QP_FLAGS] = {VB_RULE_WC_QP_ACCESS,
			       "the peer QP's qp_access_flags do not allow the operation"},
	[VB_V_ACC_KEY_UNKNOWN] = {VB_RULE_WC_RKEY, "no MR of the peer has this rkey"},
	[VB_V_ACC_KEY_PD] = {VB_RULE_WC_RKEY, "the MR belongs to another PD than the peer QP"},
	[VB_V_ACC_KEY_QP] = {VB_RULE_WC_RKEY, "the window is bound to another QP"},
	[VB_V_ACC_KEY_RIGHT] = {VB_RULE_WC_RKEY, "the MR was registered without that right"},
	[VB_V_ACC_KEY_RANGE] = {VB_RULE_WC_RKEY, "the range lies outside the MR"},
	[VB_V_ACC_FAULT] = {VB_RULE_WC_RKEY, "the memory behind the rkey is gone"},
	[VB_V_OP_RECV_PROT] = {VB_RULE_WC_RECV_PROT,
			       "a buffer of the peer's receive is not covered by its lkey"},
	[VB_V_LOCAL_PROT] = {VB_RULE_WC_LOC_PROT, "the local buffer cannot be accessed"},
};

static void facts_of(const struct vb_swqe *wqe, const struct vb_msg_result *res, char *text,
		     size_t size)
{
	const struct vb_key *key = &res->target.key;
	char access[96];

	if (res->verdict < VB_V_ACC_QP_FLAGS || res->verdict > VB_V_ACC_INVALIDATE) {
		text[0] = '\0';
		return;
	}
	if (!key->length) {
		snprintf(text, size, "; rkey=0x%x [0x%llx,+%llu)%s", wqe->rkey,
			 (ull)wqe->remote_addr, (ull)wqe->length,
			 wqe->rkey & VB_RKEY_TAG ? "" : " (this looks like an lkey)");
		return;
	}
	snprintf(text, size, "; rkey=0x%x [0x%llx,+%llu) against MR [0x%llx,+%llu) access %s",
		 wqe->rkey, (ull)wqe->remote_addr, (ull)wqe->length, (ull)key->start,
		 (ull)key->length, vb_mr_access_text(key->access, access, sizeof(access)));
}

void vb_explain_verdict(const struct vb_qp *qp, const struct vb_swqe *wqe,
			const struct vb_msg_result *res, const struct vb_sq_step *next)
{
	char facts[256];

	enum vb_rule rule = verdicts[res->verdict].rule;
	bool ud = qp->ibv.qp_type == IBV_QPT_UD;

	if (!vb_explain_on() || !verdicts[res->verdict].text)
		return;
	facts_of(wqe, res, facts, sizeof(facts));
	if (qp->ibv.qp_type != IBV_QPT_RC)
		rule = VB_RULE_WC_UD_DROPPED;
	vb_explain(rule, "qp#0x%x wr_id=0x%llx to qp#0x%x: %s%s%s", qp->ibv.qp_num, (ull)wqe->wr_id,
		   ud ? wqe->remote_qpn : qp->attr.dest_qp_num, verdicts[res->verdict].text, facts,
		   next->kind == VB_STEP_RETRY_AT ? " (trying again)" : "");
}

void vb_explain_answer(const struct vb_qp *qp, uint64_t wr_id, enum vb_wc_status status)
{
	static const struct {
		enum vb_rule rule;
		const char *text;
	} answers[] = {
		[VB_WC_LOC_PROT_ERR] = {VB_RULE_WC_LOC_PROT, "the local buffer cannot be accessed"},
		[VB_WC_REM_INV_REQ_ERR] = {VB_RULE_WC_RECV_LENGTH,
					   "the peer calls the request invalid"},
		[VB_WC_REM_ACCESS_ERR] = {VB_RULE_WC_RKEY, "the peer refuses the access"},
		[VB_WC_REM_OP_ERR] = {VB_RULE_WC_RECV_PROT, "the peer could not carry it out"},
		[VB_WC_RETRY_EXC_ERR] = {VB_RULE_WC_RETRY, "no answer came"},
		[VB_WC_RNR_RETRY_EXC_ERR] = {VB_RULE_WC_RNR, "the peer has no receive posted"},
	};

	if (!vb_explain_on() || (size_t)status >= sizeof(answers) / sizeof(answers[0]) ||
	    !answers[status].text)
		return;
	vb_explain(answers[status].rule, "qp#0x%x wr_id=0x%llx to qp#0x%x of another %s: %s",
		   qp->ibv.qp_num, (ull)wr_id, qp->attr.dest_qp_num,
		   qp->reach == VB_REACH_INSIDE ? "process, by packets handed over"
						: "host, by UDP port 4791",
		   answers[status].text);
}

void vb_explain_responder(const struct vb_qp *qp, enum vb_verdict verdict)
{
	if (vb_explain_on() && verdicts[verdict].text)
		vb_explain(VB_RULE_QP_FAILED_BY_PEER, "qp#0x%x, message of qp#0x%x: %s",
			   qp->ibv.qp_num, qp->attr.dest_qp_num, vb_verdict_name(verdict));
}

void vb_explain_flush(const struct vb_qp *qp, uint64_t wr_id)
{
	if (!vb_explain_on())
		return;
	if (qp->first_error_told)
		vb_explain(VB_RULE_WC_FLUSH, "qp#0x%x: first failure was wr_id=0x%llx status %d",
			   qp->ibv.qp_num, (ull)qp->first_error_wr_id, qp->first_error_status);
	else
		vb_explain(VB_RULE_WC_FLUSH,
			   "qp#0x%x was moved to ERR by the program or by a peer's message",
			   qp->ibv.qp_num);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/rc_budget.h"

void vb_rc_budget_init(struct vb_rc_budget *budget, uint8_t timeout, uint8_t retry_cnt,
		       uint8_t rnr_retry)
{
	budget->timeout = timeout & 31;
	budget->retry_cnt = retry_cnt & 7;
	budget->rnr_retry = rnr_retry & 7;
	vb_rc_budget_progress(budget);
}

void vb_rc_budget_progress(struct vb_rc_budget *budget)
{
	budget->retry_left = budget->retry_cnt;
	budget->rnr_left = budget->rnr_retry;
}

bool vb_rc_budget_retry(struct vb_rc_budget *budget)
{
	if (budget->retry_left == 0)
		return false;
	budget->retry_left--;
	return true;
}

bool vb_rc_budget_rnr(struct vb_rc_budget *budget)
{
	/* Not being ready is an answer: the peer is not silent. */
	budget->retry_left = budget->retry_cnt;
	if (budget->rnr_retry == VB_RNR_FOREVER)
		return true;
	if (budget->rnr_left == 0)
		return false;
	budget->rnr_left--;
	return true;
}

static void silence(struct vb_rc_budget *budget, uint64_t now_ns, struct vb_sq_step *step)
{
	step->deadline_ns = vb_timer_after(now_ns, vb_timer_ack_ns(budget->timeout));
	/* Without a timer nobody ever finds out. */
	if (step->deadline_ns == VB_NEVER || vb_rc_budget_retry(budget)) {
		step->kind = VB_STEP_RETRY_AT;
	} else {
		step->kind = VB_STEP_FAIL_AT;
		step->status = VB_WC_RETRY_EXC_ERR;
	}
}

void vb_rc_sq_verdict(struct vb_rc_budget *budget, enum vb_verdict verdict, uint8_t rnr_timer,
		      uint64_t now_ns, struct vb_sq_step *step)
{
	const struct vb_verdict_row *row = vb_verdict_row(verdict);

	*step = (struct vb_sq_step){VB_STEP_DONE, VB_WC_SUCCESS, now_ns};
	switch (row->cls) {
	case VB_VC_OK:
		vb_rc_budget_progress(budget);
		break;
	case VB_VC_RNR:
		if (vb_rc_budget_rnr(budget)) {
			step->kind = VB_STEP_RETRY_AT;
			step->deadline_ns = vb_timer_after(now_ns, vb_timer_rnr_ns(rnr_timer));
			break;
		}
		step->kind = VB_STEP_FAIL;
		step->status = row->req;
		break;
	case VB_VC_NAK:
	case VB_VC_LOCAL:
		step->kind = VB_STEP_FAIL;
		step->status = row->req;
		break;
	default:
		/* A PSN the target does not expect: on the wire its answer would name
		 * packets that this requester never sent, and be ignored. */
		silence(budget, now_ns, step);
		break;
	}
}

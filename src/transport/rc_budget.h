/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_TRANSPORT_RC_BUDGET_H
#define VB_TRANSPORT_RC_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/timers.h"
#include "transport/verdict.h"

#define VB_RNR_FOREVER 7
/* How long a receiver that has kept up may be late beyond rnr_retry: a time slice of a loaded
 * machine, or one wait of its own timer if that is longer. */
#define VB_RNR_MOMENT_NS 250000000ull

/* How often the head of a send queue may still be tried. Owned by the requester. */
struct vb_rc_budget {
	uint8_t timeout;   /* code of the ack timeout, ibv_qp_attr.timeout */
	uint8_t retry_cnt; /* as configured, 0..7 */
	uint8_t rnr_retry; /* as configured, 7 is without limit */
	uint8_t retry_left;
	uint8_t rnr_left;
};

enum vb_sq_step_kind {
	VB_STEP_DONE,	  /* complete the head with status SUCCESS */
	VB_STEP_RETRY_AT, /* run the head again at deadline_ns */
	VB_STEP_FAIL_AT,  /* at deadline_ns complete the head with status, do not try again */
	VB_STEP_FAIL,	  /* complete the head with status now */
};

/* What a requester does next. After a failure its QP is in ERR and the rest flushes. */
struct vb_sq_step {
	enum vb_sq_step_kind kind;
	enum vb_wc_status status;
	uint64_t deadline_ns; /* VB_NEVER: wait for ever */
};

/** vb_rc_budget_init() - Full budgets from the QP's attributes */
void vb_rc_budget_init(struct vb_rc_budget *budget, uint8_t timeout, uint8_t retry_cnt,
		       uint8_t rnr_retry);

/** vb_rc_budget_progress() - The peer answered: everything is full again */
void vb_rc_budget_progress(struct vb_rc_budget *budget);

/** vb_rc_budget_retry() - Spend one retry on silence or a sequence error
 * Return:  false when none is left
 */
bool vb_rc_budget_retry(struct vb_rc_budget *budget);

/** vb_rc_budget_rnr() - Spend one retry on a receiver that is not ready
 * Return:  false when none is left
 */
bool vb_rc_budget_rnr(struct vb_rc_budget *budget);

/** vb_rc_sq_verdict() - What the requester does about the verdict of its head message
 * @verdict: Any verdict of vb_rc_resp_message(), or one of the carrier's own such as
 *          VB_V_DROP_NO_QP or VB_V_DROP_DEAD
 * @rnr_timer: Code from the result, counts for VB_V_RNR only
 * @now_ns: Monotonic time
 * @step:   Filled
 * Return:  nothing; a silent peer gives VB_STEP_RETRY_AT retry_cnt times and then
 *          VB_STEP_FAIL_AT, so the work request fails after retry_cnt + 1 timeouts
 */
void vb_rc_sq_verdict(struct vb_rc_budget *budget, enum vb_verdict verdict, uint8_t rnr_timer,
		      uint64_t now_ns, struct vb_sq_step *step);

#endif

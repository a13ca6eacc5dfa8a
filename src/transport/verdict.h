/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_TRANSPORT_VERDICT_H
#define VB_TRANSPORT_VERDICT_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/types.h"

/* What became of one packet or one message: exactly one value, one meaning each.
 * Accepted is 0, so that checks can be chained: if ((v = check(...))) return v; */
enum vb_verdict {
#define VB_V(sym, name, cls, nak, req, recv, event) VB_V_##sym,
#include "transport/verdict.def"
#undef VB_V
	VB_V_COUNT
};
_Static_assert(VB_V_ACCEPTED == 0, "a chain of checks stops at the first non-zero verdict");

/* What the requester does about a verdict. */
enum vb_verdict_class {
	VB_VC_OK,	 /* done */
	VB_VC_DUPLICATE, /* executed earlier */
	VB_VC_SILENT,	 /* hears nothing: ack timer and retry_cnt */
	VB_VC_SEQ,	 /* sends again from the expected PSN: retry_cnt */
	VB_VC_RNR,	 /* waits, sends again: rnr_retry */
	VB_VC_NAK,	 /* fails; the responder's QP goes to ERR too */
	VB_VC_LOCAL,	 /* fails; the responder knows nothing */
};

struct vb_verdict_row {
	const char *name; /* counter name, lower case */
	enum vb_verdict_class cls;
	uint8_t nak;		/* NAK code of the syndrome, for VB_VC_NAK */
	enum vb_wc_status req;	/* status of the requester's work request */
	enum vb_wc_status recv; /* status of a receive that was taken */
	enum vb_event event;	/* at the responder where no receive was taken */
};

/* NAK codes: the low five bits of a negative acknowledgement's syndrome. */
enum vb_nak { VB_NAK_SEQ, VB_NAK_INV_REQ, VB_NAK_REM_ACCESS, VB_NAK_REM_OP, VB_NAK_COUNT };

/** vb_verdict_row() - What a verdict means
 * @verdict: Any value below VB_V_COUNT
 * Return:  the row, static storage
 */
const struct vb_verdict_row *vb_verdict_row(enum vb_verdict verdict);

/** vb_verdict_name() - The name of a verdict's counter, "unknown" out of range */
const char *vb_verdict_name(enum vb_verdict verdict);

/** vb_nak_status() - The status a NAK code gives at the requester
 * @nak:    Code from a syndrome, any value
 * Return:  VB_WC_SUCCESS for a sequence error, VB_WC_BAD_RESP_ERR for a reserved code
 */
enum vb_wc_status vb_nak_status(uint8_t nak);

/** vb_verdict_is() - Whether a verdict has a class */
static inline bool vb_verdict_is(enum vb_verdict verdict, enum vb_verdict_class cls)
{
	return vb_verdict_row(verdict)->cls == cls;
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/verdict.h"

static const struct vb_verdict_row rows[VB_V_COUNT] = {
#define VB_V(sym, name, cls, nak, req, recv, event)                                                \
	[VB_V_##sym] = {name, VB_VC_##cls, nak, VB_WC_##req, VB_WC_##recv, VB_EVENT_##event},
#include "transport/verdict.def"
#undef VB_V
};

const struct vb_verdict_row *vb_verdict_row(enum vb_verdict verdict)
{
	return &rows[verdict];
}

const char *vb_verdict_name(enum vb_verdict verdict)
{
	return verdict < VB_V_COUNT ? rows[verdict].name : "unknown";
}

enum vb_wc_status vb_nak_status(uint8_t nak)
{
	static const enum vb_wc_status status[VB_NAK_COUNT] = {
		[VB_NAK_SEQ] = VB_WC_SUCCESS,
		[VB_NAK_INV_REQ] = VB_WC_REM_INV_REQ_ERR,
		[VB_NAK_REM_ACCESS] = VB_WC_REM_ACCESS_ERR,
		[VB_NAK_REM_OP] = VB_WC_REM_OP_ERR,
	};

	return nak < VB_NAK_COUNT ? status[nak] : VB_WC_BAD_RESP_ERR;
}

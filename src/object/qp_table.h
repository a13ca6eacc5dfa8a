/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_OBJECT_QP_TABLE_H
#define VB_OBJECT_QP_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include <infiniband/verbs.h>

/* Which attributes a transition needs and takes. */
struct vb_qp_transition {
	bool valid;
	int required; /* IBV_QP_* bits that must be in the mask */
	int optional; /* bits that may be; IBV_QP_STATE always may */
};

/** vb_qp_transition() - The row for one transition
 * @type:   IBV_QPT_RC, UC, UD, XRC_SEND, XRC_RECV or RAW_PACKET
 * @from:   Current state
 * @to:     State asked for; equal to @from when IBV_QP_STATE is not in the mask
 * Return:  the row; valid is false when there is no such transition
 * Spec:    man ibv_modify_qp(3) for the required columns, IBA1 11.2.5.2 table 91, and
 *          Linux drivers/infiniband/core/verbs.c for the optional ones
 */
struct vb_qp_transition vb_qp_transition(enum ibv_qp_type type, enum ibv_qp_state from,
					 enum ibv_qp_state to);

/** vb_qp_state_name() - "RESET", "INIT", ... or "unknown" */
const char *vb_qp_state_name(enum ibv_qp_state state);

/** vb_qp_type_name() - "RC", "UC", ... or "unknown" */
const char *vb_qp_type_name(enum ibv_qp_type type);

/** vb_qp_mask_text() - Names of the bits of an attribute mask, "IBV_QP_STATE|IBV_QP_PORT"
 * @mask:   Bits; unknown ones are written in hex
 * @text:   Receives the NUL-terminated text, "none" for 0
 * @size:   Bytes of @text
 * Return:  @text
 */
const char *vb_qp_mask_text(int mask, char *text, size_t size);

#endif

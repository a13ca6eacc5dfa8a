/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_VERBS_POLL_H
#define VB_VERBS_POLL_H

#include "object/cq.h"

/** vb_poll_cq() - The op slot behind ibv_poll_cq
 * Return: completions taken, negative on error
 */
int vb_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);

/** vb_poll_ex_fill() - Set the function pointers of an extended CQ */
void vb_poll_ex_fill(struct vb_cq *cq);

#endif

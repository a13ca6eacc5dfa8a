/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_CARRIER_FAULTS_H
#define VB_CARRIER_FAULTS_H

#include "base/faults.h"
#include "carrier/udp.h"

/* What is to become of a packet that leaves. */
struct vb_fault_plan {
	bool drop;
	bool twice;
	bool after_next; /* it leaves after the one that comes next */
	uint32_t ms;	 /* it leaves so much later; 0: now */
	uint32_t down_ms;
	bool up;    /* the link is there again; then it leaves */
	bool reset; /* its connection is over */
	bool fatal; /* the device is */
};

/** vb_faults_plan() - Ask the rules about a packet, and damage it as they say
 * @bytes:  The packet, BTH to ICRC; changed
 * @len:    Its bytes; may become less
 * @flow:   As it is sent, to write a new ICRC
 * Context: one thread at a time: the rules count
 */
void vb_faults_plan(struct vb_faults *f, uint8_t *bytes, uint32_t *len, const struct vb_flow *flow,
		    struct vb_fault_plan *plan);

/** vb_faults_not_ready() - Whether a receiver is to say that it is not ready
 * @qpn:    Its QP
 */
bool vb_faults_not_ready(struct vb_faults *f, uint32_t qpn);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#include "carrier/faults.h"

#include <string.h>

/* splitmix64 */
static uint32_t random32(struct vb_faults *f)
{
	uint64_t z = (f->seed += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return (uint32_t)((z ^ z >> 31) >> 16);
}

static bool is_kind(uint32_t kind, uint8_t opcode)
{
	static const uint32_t kind_of[] = {
		[VB_OP_SEND] = VB_FAULT_SEND,	     [VB_OP_WRITE] = VB_FAULT_WRITE,
		[VB_OP_READ] = VB_FAULT_READ,	     [VB_OP_CMP_SWP] = VB_FAULT_ATOMIC,
		[VB_OP_FETCH_ADD] = VB_FAULT_ATOMIC, [VB_OP_READ_RESP] = VB_FAULT_RESPONSE,
		[VB_OP_ACK] = VB_FAULT_ACK,	     [VB_OP_ATOMIC_ACK] = VB_FAULT_RESPONSE,
		[VB_OP_CNP] = VB_FAULT_CNP,
	};
	const struct vb_op_row *op = vb_op_row(opcode);

	if (kind == VB_FAULT_ANY || kind == opcode)
		return true;
	return op && kind_of[op->kind] == kind;
}

/* Datagrams belong to no connection. */
static bool concerns(const struct vb_fault_rule *rule, uint8_t opcode)
{
	const struct vb_op_row *op = vb_op_row(opcode);

	if (rule->action == VB_FAULT_RNR)
		return false;
	return rule->action != VB_FAULT_RESET || (op && op->service != VB_SVC_UD);
}

/* Whether a rule's turn has come with something that it looks at. */
static bool hits(struct vb_faults *f, struct vb_fault_rule *rule)
{
	rule->matched++;
	if (rule->nth)
		return rule->matched == rule->nth;
	if (rule->every)
		return rule->matched % rule->every == 0;
	return random32(f) % VB_FAULT_WHOLE < rule->share;
}

static void flip(struct vb_faults *f, uint8_t *bytes, uint32_t len)
{
	uint32_t bit = random32(f) % (8 * len);

	/* Where the ICRC does not look. */
	if (bit / 8 == 4)
		bit += 8;
	bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
}

/* A wrong bit that the ICRC vouches for. */
static void mangle(struct vb_faults *f, uint8_t *bytes, uint32_t len, const struct vb_flow *flow)
{
	uint32_t data = len - VB_ICRC_LEN;

	flip(f, bytes, data);
	vb_icrc_store(vb_icrc_bth(vb_icrc_flow(flow, (uint16_t)len), bytes, data), bytes + data);
}

static void apply(struct vb_faults *f, const struct vb_fault_rule *rule, uint8_t *bytes,
		  uint32_t *len, const struct vb_flow *flow, struct vb_fault_plan *plan)
{
	switch (rule->action) {
	case VB_FAULT_DROP:
		plan->drop = true;
		break;
	case VB_FAULT_DUPLICATE:
		plan->twice = true;
		break;
	case VB_FAULT_REORDER:
		plan->after_next = true;
		break;
	case VB_FAULT_DELAY:
		plan->ms = rule->ms;
		break;
	case VB_FAULT_CORRUPT:
		flip(f, bytes, *len);
		break;
	case VB_FAULT_MANGLE:
		mangle(f, bytes, *len, flow);
		break;
	case VB_FAULT_TRUNCATE:
		*len = random32(f) % *len;
		break;
	case VB_FAULT_DOWN:
		plan->drop = true;
		plan->down_ms = rule->ms;
		break;
	case VB_FAULT_UP:
		plan->up = true;
		break;
	case VB_FAULT_RESET:
		plan->drop = true;
		plan->reset = true;
		break;
	case VB_FAULT_FATAL:
		plan->drop = true;
		plan->fatal = true;
		break;
	default:
		break;
	}
}

void vb_faults_plan(struct vb_faults *f, uint8_t *bytes, uint32_t *len, const struct vb_flow *flow,
		    struct vb_fault_plan *plan)
{
	uint8_t opcode = bytes[0];
	uint32_t qpn = (uint32_t)bytes[5] << 16 | (uint32_t)bytes[6] << 8 | bytes[7];

	memset(plan, 0, sizeof(*plan));
	for (uint32_t i = 0; i < f->n; i++) {
		struct vb_fault_rule *rule = &f->rule[i];

		if (!concerns(rule, opcode) || !is_kind(rule->kind, opcode) ||
		    (rule->qpn && rule->qpn != qpn) || *len < VB_BTH_LEN + VB_ICRC_LEN)
			continue;
		if (hits(f, rule))
			apply(f, rule, bytes, len, flow, plan);
	}
}

bool vb_faults_not_ready(struct vb_faults *f, uint32_t qpn)
{
	for (uint32_t i = 0; i < f->n; i++) {
		struct vb_fault_rule *rule = &f->rule[i];

		if (rule->action == VB_FAULT_RNR && (!rule->qpn || rule->qpn == qpn) &&
		    hits(f, rule))
			return true;
	}
	return false;
}

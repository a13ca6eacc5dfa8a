/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "transport/rc_check.h"

enum vb_verdict vb_rc_check_qp(const struct vb_resp_qp *qp)
{
	if (qp->other_generation)
		return VB_V_DROP_STALE;
	if (qp->type != VB_QPT_RC && qp->type != VB_QPT_XRC_RECV)
		return VB_V_DROP_TYPE;
	return vb_rc_check_state(qp);
}

enum vb_verdict vb_rc_check_state(const struct vb_resp_qp *qp)
{
	if (qp->other_generation)
		return VB_V_DROP_STALE;
	switch (qp->state) {
	case VB_QPS_RTR:
	case VB_QPS_RTS:
	case VB_QPS_SQD:
		return VB_V_ACCEPTED;
	default:
		return VB_V_DROP_STATE;
	}
}

enum vb_verdict vb_rc_check_peer(const struct vb_resp_qp *qp, const struct vb_source *src)
{
	if (src->has_qpn && src->qpn != qp->dest_qpn)
		return VB_V_DROP_PEER;
	if (src->has_gid && memcmp(src->gid, qp->dest_gid, sizeof(src->gid)) != 0)
		return VB_V_DROP_PEER;
	return VB_V_ACCEPTED;
}

enum vb_verdict vb_rc_check_psn(struct vb_psn expected, struct vb_psn psn)
{
	int32_t ahead = vb_psn_diff(psn, expected);

	if (ahead == 0)
		return VB_V_ACCEPTED;
	return ahead < 0 ? VB_V_DUPLICATE : VB_V_NAK_SEQ;
}

enum vb_verdict vb_rc_check_kind(uint32_t kind)
{
	return kind <= VB_MSG_FETCH_ADD ? VB_V_ACCEPTED : VB_V_INV_OPCODE;
}

static uint32_t right_for(enum vb_msg_kind kind)
{
	switch (kind) {
	case VB_MSG_WRITE:
		return VB_ACCESS_REMOTE_WRITE;
	case VB_MSG_READ:
		return VB_ACCESS_REMOTE_READ;
	case VB_MSG_CMP_SWP:
	case VB_MSG_FETCH_ADD:
		return VB_ACCESS_REMOTE_ATOMIC;
	default:
		return 0;
	}
}

enum vb_verdict vb_rc_check_qp_access(const struct vb_resp_qp *qp, enum vb_msg_kind kind)
{
	uint32_t right = right_for(kind);

	return (qp->access & right) == right ? VB_V_ACCEPTED : VB_V_ACC_QP_FLAGS;
}

enum vb_verdict vb_rc_check_rd_atomic(const struct vb_resp_qp *qp, enum vb_msg_kind kind,
				      uint32_t busy)
{
	if (kind != VB_MSG_READ && !vb_rc_is_atomic(kind))
		return VB_V_ACCEPTED;
	return busy < qp->max_dest_rd_atomic ? VB_V_ACCEPTED : VB_V_INV_RD_ATOMIC;
}

enum vb_verdict vb_rc_check_msg_length(enum vb_msg_kind kind, uint64_t length)
{
	if (vb_rc_is_atomic(kind))
		return length == 8 ? VB_V_ACCEPTED : VB_V_INV_MSG_LEN;
	return length <= VB_MAX_MSG ? VB_V_ACCEPTED : VB_V_INV_MSG_LEN;
}

enum vb_verdict vb_rc_check_packets(const struct vb_resp_qp *qp, enum vb_msg_kind kind,
				    uint64_t length, uint32_t npkts)
{
	uint32_t count = vb_rc_is_atomic(kind) ? 1 : vb_psn_count(length, qp->path_mtu);

	return npkts == count ? VB_V_ACCEPTED : VB_V_INV_PACKET_LEN;
}

enum vb_verdict vb_rc_check_take(enum vb_take taken)
{
	switch (taken) {
	case VB_TAKE_OK:
		return VB_V_ACCEPTED;
	case VB_TAKE_NONE:
		return VB_V_RNR;
	case VB_TAKE_SRQ:
		return VB_V_OP_SRQ;
	case VB_TAKE_UNREACHABLE:
		return VB_V_DROP_UNREACHABLE;
	default:
		return VB_V_DROP_GONE;
	}
}

enum vb_verdict vb_rc_check_recv_length(const struct vb_recv *recv, uint64_t length)
{
	return length <= recv->length ? VB_V_ACCEPTED : VB_V_INV_RECV_LEN;
}

enum vb_verdict vb_rc_check_recv_sges(const struct vb_recv *recv, uint64_t length)
{
	return recv->sges_ok || length == 0 ? VB_V_ACCEPTED : VB_V_OP_RECV_PROT;
}

enum vb_verdict vb_rc_check_alignment(enum vb_msg_kind kind, uint64_t addr)
{
	return vb_rc_is_atomic(kind) && (addr & 7) ? VB_V_INV_ALIGNMENT : VB_V_ACCEPTED;
}

enum vb_verdict vb_rc_check_key(const struct vb_resp_qp *qp, bool known, const struct vb_key *key,
				enum vb_msg_kind kind, uint64_t addr, uint64_t length)
{
	uint32_t right = right_for(kind);

	if (!known)
		return VB_V_ACC_KEY_UNKNOWN;
	if (key->pd != qp->pd)
		return VB_V_ACC_KEY_PD;
	if (key->qpn != 0 && key->qpn != qp->qpn)
		return VB_V_ACC_KEY_QP;
	if ((key->access & right) != right)
		return VB_V_ACC_KEY_RIGHT;
	/* No sum that could wrap; an address before the start gives a huge offset. */
	if (length > key->length || addr - key->start > key->length - length)
		return VB_V_ACC_KEY_RANGE;
	return VB_V_ACCEPTED;
}

enum vb_verdict vb_rc_check_invalidate(const struct vb_resp_qp *qp, bool known,
				       const struct vb_key *key)
{
	if (!known || !key->invalidatable || key->pd != qp->pd)
		return VB_V_ACC_INVALIDATE;
	if (key->qpn != 0 && key->qpn != qp->qpn)
		return VB_V_ACC_INVALIDATE;
	return VB_V_ACCEPTED;
}

enum vb_verdict vb_rc_check_copy(enum vb_copy copy, bool to_recv)
{
	switch (copy) {
	case VB_COPY_OK:
		return VB_V_ACCEPTED;
	case VB_COPY_FAULT_LOCAL:
		return VB_V_LOCAL_PROT;
	case VB_COPY_FAULT_REMOTE:
		return to_recv ? VB_V_OP_RECV_PROT : VB_V_ACC_FAULT;
	case VB_COPY_UNREACHABLE:
		/* A taken receive cannot be given back for another path. */
		return to_recv ? VB_V_OP_RECV_PROT : VB_V_DROP_UNREACHABLE;
	default:
		return VB_V_DROP_GONE;
	}
}

enum vb_verdict vb_rc_resolve(const struct vb_resp_qp *qp, const struct vb_resp_env *env, void *ctx,
			      enum vb_msg_kind kind, uint32_t rkey, uint64_t addr, uint64_t length,
			      struct vb_target *out)
{
	bool known;

	memset(out, 0, sizeof(*out));
	out->addr = addr;
	if (length == 0)
		return VB_V_ACCEPTED;
	known = env->lookup_key(ctx, rkey, &out->key);
	return vb_rc_check_key(qp, known, &out->key, kind, addr, length);
}

void vb_rc_recv_completion(struct vb_recv_completion *out, const struct vb_resp_qp *qp,
			   enum vb_wc_status status, enum vb_msg_kind kind, uint64_t length)
{
	*out = (struct vb_recv_completion){
		.status = status,
		.opcode = kind == VB_MSG_WRITE ? VB_WC_OP_RECV_RDMA_WITH_IMM : VB_WC_OP_RECV,
		.byte_len = (uint32_t)length,
		.qpn = qp->qpn,
		.src_qpn = qp->dest_qpn,
	};
}

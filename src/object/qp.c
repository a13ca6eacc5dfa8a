/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/qp.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/rules.h"
#include "object/qp_table.h"
#include "transport/types.h"

/* One limit of the cap block. */
static int check_cap(const char *field, uint32_t asked, uint32_t limit)
{
	return asked > limit ? vb_fail(VB_RULE_CREATE_QP_CAP, "%s %u > %u", field, asked, limit)
			     : 0;
}

int vb_qp_check_init(const struct ibv_qp_init_attr *attr, const struct ibv_device_attr *limits,
		     uint32_t max_inline)
{
	const struct ibv_qp_cap *cap = &attr->cap;
	int err;

	switch ((int)attr->qp_type) {
	case IBV_QPT_RC:
	case IBV_QPT_UC:
	case IBV_QPT_UD:
		break;
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
	case IBV_QPT_RAW_PACKET:
	case IBV_QPT_DRIVER:
		return vb_fail(VB_RULE_CREATE_QP_TYPE_NOT_OFFERED, "qp_type=%s (%d)",
			       vb_qp_type_name(attr->qp_type), (int)attr->qp_type);
	default:
		return vb_fail(VB_RULE_CREATE_QP_TYPE, "qp_type=%d", (int)attr->qp_type);
	}
	if (attr->srq && attr->qp_type == IBV_QPT_UC)
		return vb_fail(VB_RULE_CREATE_QP_SRQ, "qp_type=UC");
	if ((err = check_cap("max_send_wr", cap->max_send_wr, (uint32_t)limits->max_qp_wr)) ||
	    (err = check_cap("max_send_sge", cap->max_send_sge, (uint32_t)limits->max_sge)))
		return err;
	/* With an SRQ the receive numbers are not looked at. */
	if (!attr->srq &&
	    ((err = check_cap("max_recv_wr", cap->max_recv_wr, (uint32_t)limits->max_qp_wr)) ||
	     (err = check_cap("max_recv_sge", cap->max_recv_sge, (uint32_t)limits->max_sge))))
		return err;
	return check_cap("max_inline_data", cap->max_inline_data, max_inline);
}

/* Values that have a range of their own, whatever the transition. */
static int check_values(const struct ibv_qp_attr *attr, int mask,
			const struct ibv_device_attr *limits, enum ibv_mtu active_mtu)
{
	const struct {
		int bit;
		const char *name;
		uint64_t value, min, max;
	} ranges[] = {
		{IBV_QP_PORT, "port_num", attr->port_num, 1, limits->phys_port_cnt},
		{IBV_QP_PKEY_INDEX, "pkey_index", attr->pkey_index, 0,
		 limits->max_pkeys ? limits->max_pkeys - 1u : 0},
		{IBV_QP_PATH_MTU, "path_mtu", (uint64_t)attr->path_mtu, IBV_MTU_256,
		 (uint64_t)active_mtu},
		{IBV_QP_DEST_QPN, "dest_qp_num", attr->dest_qp_num, 0, 0xffffff},
		{IBV_QP_TIMEOUT, "timeout", attr->timeout, 0, 31},
		{IBV_QP_RETRY_CNT, "retry_cnt", attr->retry_cnt, 0, 7},
		{IBV_QP_RNR_RETRY, "rnr_retry", attr->rnr_retry, 0, 7},
		{IBV_QP_MIN_RNR_TIMER, "min_rnr_timer", attr->min_rnr_timer, 0, 31},
		{IBV_QP_MAX_QP_RD_ATOMIC, "max_rd_atomic", attr->max_rd_atomic, 0,
		 (uint64_t)limits->max_qp_init_rd_atom},
		{IBV_QP_MAX_DEST_RD_ATOMIC, "max_dest_rd_atomic", attr->max_dest_rd_atomic, 0,
		 (uint64_t)limits->max_qp_rd_atom},
		{IBV_QP_ACCESS_FLAGS, "qp_access_flags", attr->qp_access_flags, 0, 0xfff},
	};

	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
		if (mask & ranges[i].bit &&
		    (ranges[i].value < ranges[i].min || ranges[i].value > ranges[i].max))
			return vb_fail(VB_RULE_MODIFY_QP_VALUE, "%s=%llu, allowed %llu..%llu",
				       ranges[i].name, (unsigned long long)ranges[i].value,
				       (unsigned long long)ranges[i].min,
				       (unsigned long long)ranges[i].max);
	return 0;
}

static int check_path(const struct vb_qp *qp, const struct ibv_qp_attr *attr,
		      const struct ibv_device_attr *limits)
{
	if (!attr->ah_attr.is_global)
		return vb_fail(VB_RULE_MODIFY_QP_GRH,
			       "qp#0x%x: ah_attr.is_global is 0 (LID addressing), dlid=%u",
			       qp->ibv.qp_num, attr->ah_attr.dlid);
	if (attr->ah_attr.port_num < 1 || attr->ah_attr.port_num > limits->phys_port_cnt)
		return vb_fail(VB_RULE_MODIFY_QP_VALUE, "ah_attr.port_num=%u, allowed 1..%u",
			       attr->ah_attr.port_num, limits->phys_port_cnt);
	return 0;
}

static int check_mask(const struct vb_qp *qp, enum ibv_qp_state from, enum ibv_qp_state to,
		      int mask)
{
	struct vb_qp_transition row = vb_qp_transition(qp->ibv.qp_type, from, to);
	int missing = row.required & ~mask;
	int foreign = mask & ~(row.required | row.optional | IBV_QP_STATE);
	char missing_text[256], foreign_text[256];

	if (!row.valid)
		return vb_fail(VB_RULE_MODIFY_QP_TRANSITION, "qp#0x%x %s: %s -> %s", qp->ibv.qp_num,
			       vb_qp_type_name(qp->ibv.qp_type), vb_qp_state_name(from),
			       vb_qp_state_name(to));
	if (from == IBV_QPS_RTS && to == IBV_QPS_RTS && foreign & IBV_QP_AV)
		return vb_fail(VB_RULE_MODIFY_QP_PATH_IN_RTS, "qp#0x%x in RTS: IBV_QP_AV",
			       qp->ibv.qp_num);
	if (missing || foreign)
		return vb_fail(VB_RULE_MODIFY_QP_MASK,
			       "qp#0x%x %s %s -> %s: missing %s, not allowed %s", qp->ibv.qp_num,
			       vb_qp_type_name(qp->ibv.qp_type), vb_qp_state_name(from),
			       vb_qp_state_name(to),
			       vb_qp_mask_text(missing, missing_text, sizeof(missing_text)),
			       vb_qp_mask_text(foreign, foreign_text, sizeof(foreign_text)));
	return 0;
}

int vb_qp_check_modify(const struct vb_qp *qp, const struct ibv_qp_attr *attr, int mask,
		       const struct ibv_device_attr *limits, enum ibv_mtu active_mtu)
{
	enum ibv_qp_state from = (enum ibv_qp_state)atomic_load(&qp->state);
	enum ibv_qp_state to = mask & IBV_QP_STATE ? attr->qp_state : from;
	int err;

	if (mask & IBV_QP_CUR_STATE && attr->cur_qp_state != from)
		return vb_fail(VB_RULE_MODIFY_QP_CUR_STATE, "qp#0x%x: cur_qp_state=%s, is %s",
			       qp->ibv.qp_num, vb_qp_state_name(attr->cur_qp_state),
			       vb_qp_state_name(from));
	err = check_mask(qp, from, to, mask);
	if (!err)
		err = check_values(attr, mask, limits, active_mtu);
	if (!err && mask & IBV_QP_AV)
		err = check_path(qp, attr, limits);
	return err;
}

void vb_qp_apply(struct vb_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	struct ibv_qp_attr *to = &qp->attr;

#define TAKE(bit, field)                                                                           \
	do {                                                                                       \
		if (mask & (bit))                                                                  \
			to->field = attr->field;                                                   \
	} while (0)
	TAKE(IBV_QP_ACCESS_FLAGS, qp_access_flags);
	TAKE(IBV_QP_PKEY_INDEX, pkey_index);
	TAKE(IBV_QP_PORT, port_num);
	TAKE(IBV_QP_QKEY, qkey);
	TAKE(IBV_QP_AV, ah_attr);
	TAKE(IBV_QP_PATH_MTU, path_mtu);
	TAKE(IBV_QP_TIMEOUT, timeout);
	TAKE(IBV_QP_RETRY_CNT, retry_cnt);
	TAKE(IBV_QP_RNR_RETRY, rnr_retry);
	TAKE(IBV_QP_RQ_PSN, rq_psn);
	TAKE(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	TAKE(IBV_QP_ALT_PATH, alt_ah_attr);
	TAKE(IBV_QP_ALT_PATH, alt_pkey_index);
	TAKE(IBV_QP_ALT_PATH, alt_port_num);
	TAKE(IBV_QP_ALT_PATH, alt_timeout);
	TAKE(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
	TAKE(IBV_QP_SQ_PSN, sq_psn);
	TAKE(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	TAKE(IBV_QP_PATH_MIG_STATE, path_mig_state);
	TAKE(IBV_QP_DEST_QPN, dest_qp_num);
	TAKE(IBV_QP_EN_SQD_ASYNC_NOTIFY, en_sqd_async_notify);
#undef TAKE
	to->rq_psn &= VB_PSN_MASK;
	to->sq_psn &= VB_PSN_MASK;
}

static uint32_t power_of_two(uint32_t at_least)
{
	uint32_t size = 1;

	while (size < at_least)
		size *= 2;
	return size;
}

int vb_qp_sq_init(struct vb_qp *qp)
{
	uint32_t sends = power_of_two(qp->cap.max_send_wr ? qp->cap.max_send_wr : 1);
	struct vb_sq *sq = &qp->sq;

	sq->stride =
		(uint32_t)(sizeof(struct vb_swqe) + qp->cap.max_send_sge * sizeof(struct ibv_sge) +
			   qp->cap.max_inline_data + 7) &
		~7u;
	sq->mask = sends - 1;
	sq->slots = calloc(sends, sq->stride);
	return sq->slots ? 0 : -ENOMEM;
}

/* The transport repeats numbers of the public headers: they must agree. */
#define SAME(ours, theirs) static_assert((int)(ours) == (int)(theirs), #ours)

SAME(VB_QPS_RESET, IBV_QPS_RESET);
SAME(VB_QPS_RTR, IBV_QPS_RTR);
SAME(VB_QPS_RTS, IBV_QPS_RTS);
SAME(VB_QPS_SQD, IBV_QPS_SQD);
SAME(VB_QPS_ERR, IBV_QPS_ERR);
SAME(VB_QPT_RC, IBV_QPT_RC);
SAME(VB_QPT_UC, IBV_QPT_UC);
SAME(VB_QPT_UD, IBV_QPT_UD);
SAME(VB_ACCESS_LOCAL_WRITE, IBV_ACCESS_LOCAL_WRITE);
SAME(VB_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_WRITE);
SAME(VB_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_READ);
SAME(VB_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_REMOTE_ATOMIC);
SAME(VB_WC_LOC_LEN_ERR, IBV_WC_LOC_LEN_ERR);
SAME(VB_WC_LOC_QP_OP_ERR, IBV_WC_LOC_QP_OP_ERR);
SAME(VB_WC_LOC_PROT_ERR, IBV_WC_LOC_PROT_ERR);
SAME(VB_WC_WR_FLUSH_ERR, IBV_WC_WR_FLUSH_ERR);
SAME(VB_WC_LOC_ACCESS_ERR, IBV_WC_LOC_ACCESS_ERR);
SAME(VB_WC_REM_INV_REQ_ERR, IBV_WC_REM_INV_REQ_ERR);
SAME(VB_WC_REM_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR);
SAME(VB_WC_REM_OP_ERR, IBV_WC_REM_OP_ERR);
SAME(VB_WC_RETRY_EXC_ERR, IBV_WC_RETRY_EXC_ERR);
SAME(VB_WC_RNR_RETRY_EXC_ERR, IBV_WC_RNR_RETRY_EXC_ERR);
SAME(VB_WC_GENERAL_ERR, IBV_WC_GENERAL_ERR);
SAME(VB_WC_OP_RDMA_READ, IBV_WC_RDMA_READ);
SAME(VB_WC_OP_COMP_SWAP, IBV_WC_COMP_SWAP);
SAME(VB_WC_OP_FETCH_ADD, IBV_WC_FETCH_ADD);
SAME(VB_WC_OP_RECV, IBV_WC_RECV);
SAME(VB_WC_OP_RECV_RDMA_WITH_IMM, IBV_WC_RECV_RDMA_WITH_IMM);
SAME(VB_WC_GRH, IBV_WC_GRH);
SAME(VB_WC_WITH_IMM, IBV_WC_WITH_IMM);
SAME(VB_WC_WITH_INV, IBV_WC_WITH_INV);
SAME(VB_EVENT_QP_FATAL, IBV_EVENT_QP_FATAL);
SAME(VB_EVENT_QP_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
SAME(VB_EVENT_QP_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
SAME(VB_EVENT_COMM_EST, IBV_EVENT_COMM_EST);
SAME(VB_EVENT_SQ_DRAINED, IBV_EVENT_SQ_DRAINED);

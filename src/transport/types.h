/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_TRANSPORT_TYPES_H
#define VB_TRANSPORT_TYPES_H

/*
 * The numbers of the verbs that the machines need. They are the public headers'
 * numbers, repeated here because a pure layer includes no public header; the
 * object layer asserts that both agree.
 */

/* As enum ibv_qp_state. */
enum vb_qp_state {
	VB_QPS_RESET,
	VB_QPS_INIT,
	VB_QPS_RTR,
	VB_QPS_RTS,
	VB_QPS_SQD,
	VB_QPS_SQE,
	VB_QPS_ERR,
};

/* As enum ibv_qp_type. */
enum vb_qp_type {
	VB_QPT_RC = 2,
	VB_QPT_UC = 3,
	VB_QPT_UD = 4,
	VB_QPT_XRC_SEND = 9,
	VB_QPT_XRC_RECV = 10,
};

/* As enum ibv_access_flags. */
enum vb_access {
	VB_ACCESS_LOCAL_WRITE = 1,
	VB_ACCESS_REMOTE_WRITE = 2,
	VB_ACCESS_REMOTE_READ = 4,
	VB_ACCESS_REMOTE_ATOMIC = 8,
};

/* As enum ibv_wc_status. */
enum vb_wc_status {
	VB_WC_SUCCESS,
	VB_WC_LOC_LEN_ERR,
	VB_WC_LOC_QP_OP_ERR,
	VB_WC_LOC_PROT_ERR = 4,
	VB_WC_WR_FLUSH_ERR,
	VB_WC_MW_BIND_ERR,
	VB_WC_BAD_RESP_ERR,
	VB_WC_LOC_ACCESS_ERR,
	VB_WC_REM_INV_REQ_ERR,
	VB_WC_REM_ACCESS_ERR,
	VB_WC_REM_OP_ERR,
	VB_WC_RETRY_EXC_ERR,
	VB_WC_RNR_RETRY_EXC_ERR,
	VB_WC_GENERAL_ERR = 21,
};

/* As enum ibv_wc_opcode. */
enum vb_wc_opcode {
	VB_WC_OP_SEND,
	VB_WC_OP_RDMA_WRITE,
	VB_WC_OP_RDMA_READ,
	VB_WC_OP_COMP_SWAP,
	VB_WC_OP_FETCH_ADD,
	VB_WC_OP_RECV = 128,
	VB_WC_OP_RECV_RDMA_WITH_IMM = 129,
};

/* As enum ibv_wc_flags. */
enum vb_wc_flags {
	VB_WC_GRH = 1,
	VB_WC_WITH_IMM = 2,
	VB_WC_WITH_INV = 8,
	/* Not one of them: the network header in the buffer is of IPv4. */
	VB_WC_IPV4 = 128,
};

/* As enum ibv_event_type. */
enum vb_event {
	VB_EVENT_NONE = -1,
	VB_EVENT_QP_FATAL = 1,
	VB_EVENT_QP_REQ_ERR = 2,
	VB_EVENT_QP_ACCESS_ERR = 3,
	VB_EVENT_COMM_EST = 4,
	VB_EVENT_SQ_DRAINED = 5,
	VB_EVENT_QP_LAST_WQE_REACHED = 16,
};

/* The longest message, 2^31 bytes. */
#define VB_MAX_MSG UINT64_C(0x80000000)

#endif

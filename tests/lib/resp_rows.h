/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_TESTS_RESP_ROWS_H
#define VB_TESTS_RESP_ROWS_H

#include <string.h>

#include "lib/fake_env.h"
#include "transport/rc_msg.h"

/*
 * One row per way a request can end at a responder: a request that would be accepted,
 * what is wrong with it, and what must come of it. Both forms of the responder go
 * through the same rows, so a check that is missing from one of them shows.
 */

#define ROW_BASE UINT64_C(0x10000)
#define ROW_SIZE 4096
#define ROW_MTU	 1024
#define ROW_KEY	 0x77
#define ROW_INV	 0x88
#define ROW_PSN	 100
#define ROW_PD	 5

struct row_bed {
	struct vb_resp_qp qp;
	struct vb_msg msg;
	struct fake_env env;
	uint8_t mem[ROW_SIZE], recv[ROW_SIZE], payload[ROW_SIZE];
};

enum row_forms {
	AS_MESSAGE = 1,
	AS_PACKET = 2,
	AS_BOTH = 3,
};

/* No receive completes, no event is raised. */
#define NO_RECV (-1)

struct resp_row {
	const char *name;
	void (*spoil)(struct row_bed *bed);
	enum vb_msg_kind kind;
	enum vb_verdict verdict;
	int recv;  /* status of the receive, NO_RECV */
	int event; /* VB_EVENT_NONE, or for the QP */
	enum row_forms forms;
};

static inline void row_bed_init(struct row_bed *bed, enum vb_msg_kind kind)
{
	uint32_t all = VB_ACCESS_REMOTE_WRITE | VB_ACCESS_REMOTE_READ | VB_ACCESS_REMOTE_ATOMIC;

	memset(bed, 0, sizeof(*bed));
	bed->qp = (struct vb_resp_qp){
		.state = VB_QPS_RTS,
		.type = VB_QPT_RC,
		.qpn = 0x21,
		.pd = ROW_PD,
		.access = all,
		.path_mtu = ROW_MTU,
		.dest_qpn = 0x31,
		.dest_gid = {1, 2, 3},
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 12,
		.epsn = {ROW_PSN},
		.msn = 0xffffff,
	};
	bed->msg = (struct vb_msg){
		.kind = kind,
		.psn = {ROW_PSN},
		.npkts = 1,
		.src = {.has_qpn = true, .has_gid = true, .qpn = 0x31, .gid = {1, 2, 3}},
		.remote_addr = ROW_BASE + 64,
		.rkey = ROW_KEY,
		.length = vb_rc_is_atomic(kind) ? 8 : 100,
		.imm = 0x01020304,
		.inv_rkey = ROW_INV,
		.compare_add = 7,
		.swap = 9,
		.payload = bed->payload,
	};
	fake_init(&bed->env, bed->mem, ROW_BASE, ROW_SIZE);
	fake_key(&bed->env, ROW_KEY, ROW_PD, all, ROW_BASE, ROW_SIZE);
	fake_key(&bed->env, ROW_INV, ROW_PD, 0, ROW_BASE, ROW_SIZE)->invalidatable = true;
	fake_post_recv(&bed->env, 42, bed->recv, ROW_SIZE);
	memset(bed->payload, 0x5a, sizeof(bed->payload));
	memset(bed->mem, 0xa5, sizeof(bed->mem));
	memcpy(bed->mem + 64, &bed->msg.compare_add, 8);
}

#define SPOIL(name, ...)                                                                           \
	static void name(struct row_bed *bed)                                                      \
	{                                                                                          \
		__VA_ARGS__;                                                                       \
	}

SPOIL(nothing, (void)bed)
SPOIL(with_imm, bed->msg.with_imm = true)
SPOIL(with_inv, bed->msg.with_inv = true)
SPOIL(rtr, bed->qp.state = VB_QPS_RTR; bed->qp.comm_est = true)
SPOIL(sqd, bed->qp.state = VB_QPS_SQD)
SPOIL(xrc, bed->qp.type = VB_QPT_XRC_RECV)
SPOIL(zero_bad_key, bed->msg.length = 0; bed->msg.rkey = 1)
SPOIL(zero_bad_sges, bed->msg.length = 0; bed->env.recvs[0].sges_ok = false)
SPOIL(to_the_end, bed->msg.remote_addr = ROW_BASE + ROW_SIZE - bed->msg.length)
SPOIL(exact_recv, bed->env.recvs[0].length = bed->msg.length)
SPOIL(imm_short_recv, bed->msg.with_imm = true; bed->env.recvs[0].length = 0)
SPOIL(bound_here, bed->env.keys[0].qpn = 0x21)
SPOIL(inv_bound_here, bed->msg.with_inv = true; bed->env.keys[1].qpn = 0x21)

SPOIL(stale, bed->qp.other_generation = true)
SPOIL(type_ud, bed->qp.type = VB_QPT_UD)
SPOIL(type_xrc_send, bed->qp.type = VB_QPT_XRC_SEND)
SPOIL(reset, bed->qp.state = VB_QPS_RESET)
SPOIL(init, bed->qp.state = VB_QPS_INIT)
SPOIL(sqe, bed->qp.state = VB_QPS_SQE)
SPOIL(err, bed->qp.state = VB_QPS_ERR)
SPOIL(other_gid, bed->msg.src.gid[15] = 9)
SPOIL(other_qpn, bed->msg.src.qpn = 0x32)
SPOIL(psn_behind, bed->qp.epsn.v = ROW_PSN + 1000)
SPOIL(psn_ahead, bed->qp.epsn.v = ROW_PSN - 10)
SPOIL(unknown_kind, bed->msg.kind = (enum vb_msg_kind)5)
SPOIL(qp_no_rights, bed->qp.access = VB_ACCESS_LOCAL_WRITE)
SPOIL(no_rd_atomic, bed->qp.max_dest_rd_atomic = 0)
SPOIL(no_recv, bed->env.recv_tail = 0)
SPOIL(no_recv_imm, bed->env.recv_tail = 0; bed->msg.with_imm = true)
SPOIL(srq_error, bed->env.take = VB_TAKE_SRQ)
SPOIL(recv_gone, bed->env.take = VB_TAKE_GONE)
SPOIL(recv_unreachable, bed->env.take = VB_TAKE_UNREACHABLE)
SPOIL(too_long, bed->msg.length = VB_MAX_MSG + 1;
      bed->msg.npkts = vb_psn_count(bed->msg.length, ROW_MTU))
SPOIL(atomic_length, bed->msg.length = 4)
SPOIL(mtu_differs, bed->msg.npkts = 2)
SPOIL(short_recv, bed->env.recvs[0].length = 99)
SPOIL(bad_sges, bed->env.recvs[0].sges_ok = false)
SPOIL(unaligned, bed->msg.remote_addr += 4)
SPOIL(key_unknown, bed->msg.rkey = 1)
SPOIL(key_pd, bed->env.keys[0].pd++)
SPOIL(key_qp, bed->env.keys[0].qpn = 0x22)
SPOIL(key_write_only, bed->env.keys[0].access = VB_ACCESS_REMOTE_WRITE)
SPOIL(key_read_only, bed->env.keys[0].access = VB_ACCESS_REMOTE_READ)
SPOIL(key_below, bed->msg.remote_addr = ROW_BASE - 8)
SPOIL(key_beyond, bed->msg.remote_addr = ROW_BASE + ROW_SIZE - bed->msg.length + 8)
SPOIL(key_far, bed->msg.remote_addr = ROW_BASE + ROW_SIZE + 8)
SPOIL(key_wraps, bed->msg.remote_addr = UINT64_MAX - 7)
SPOIL(key_smaller, bed->env.keys[0].length = 7)
SPOIL(imm_key_unknown, bed->msg.rkey = 1; bed->msg.with_imm = true)
SPOIL(fault_local, bed->env.copy = VB_COPY_FAULT_LOCAL)
SPOIL(fault_remote, bed->env.copy = VB_COPY_FAULT_REMOTE)
SPOIL(copy_gone, bed->env.copy = VB_COPY_GONE)
SPOIL(copy_unreachable, bed->env.copy = VB_COPY_UNREACHABLE)
SPOIL(inv_unknown, bed->msg.with_inv = true; bed->msg.inv_rkey = 1)
SPOIL(inv_fixed, bed->msg.with_inv = true; bed->env.keys[1].invalidatable = false)
SPOIL(inv_pd, bed->msg.with_inv = true; bed->env.keys[1].pd++)
SPOIL(inv_qp, bed->msg.with_inv = true; bed->env.keys[1].qpn = 0x22)
SPOIL(cq_gone, bed->env.complete_fails = true)

/* clang-format off */
#define FINE(spoil, kind, recv) \
	{#spoil " " #kind, spoil, VB_MSG_##kind, VB_V_ACCEPTED, recv, VB_EVENT_NONE, AS_BOTH}
#define BAD(spoil, kind, verdict, recv, event, forms) \
	{#spoil " " #kind, spoil, VB_MSG_##kind, VB_V_##verdict, recv, VB_EVENT_##event, forms}

static const struct resp_row resp_rows[] = {
	FINE(nothing, SEND, VB_WC_SUCCESS),
	FINE(nothing, WRITE, NO_RECV),
	FINE(nothing, READ, NO_RECV),
	FINE(nothing, CMP_SWP, NO_RECV),
	FINE(nothing, FETCH_ADD, NO_RECV),
	FINE(with_imm, SEND, VB_WC_SUCCESS),
	FINE(with_imm, WRITE, VB_WC_SUCCESS),
	FINE(with_inv, SEND, VB_WC_SUCCESS),
	FINE(rtr, SEND, VB_WC_SUCCESS),
	FINE(sqd, SEND, VB_WC_SUCCESS),
	FINE(xrc, SEND, VB_WC_SUCCESS),
	FINE(zero_bad_key, WRITE, NO_RECV),
	FINE(zero_bad_key, READ, NO_RECV),
	FINE(zero_bad_sges, SEND, VB_WC_SUCCESS),
	FINE(to_the_end, WRITE, NO_RECV),
	FINE(to_the_end, FETCH_ADD, NO_RECV),
	FINE(exact_recv, SEND, VB_WC_SUCCESS),
	FINE(imm_short_recv, WRITE, VB_WC_SUCCESS),
	FINE(bound_here, READ, NO_RECV),
	FINE(inv_bound_here, SEND, VB_WC_SUCCESS),

	BAD(stale, SEND, DROP_STALE, NO_RECV, NONE, AS_BOTH),
	BAD(type_ud, SEND, DROP_TYPE, NO_RECV, NONE, AS_BOTH),
	BAD(type_xrc_send, SEND, DROP_TYPE, NO_RECV, NONE, AS_BOTH),
	BAD(reset, WRITE, DROP_STATE, NO_RECV, NONE, AS_BOTH),
	BAD(init, SEND, DROP_STATE, NO_RECV, NONE, AS_BOTH),
	BAD(sqe, READ, DROP_STATE, NO_RECV, NONE, AS_BOTH),
	BAD(err, SEND, DROP_STATE, NO_RECV, NONE, AS_BOTH),
	BAD(other_gid, WRITE, DROP_PEER, NO_RECV, NONE, AS_BOTH),
	BAD(other_qpn, WRITE, DROP_PEER, NO_RECV, NONE, AS_BOTH),
	BAD(psn_behind, SEND, DUPLICATE, NO_RECV, NONE, AS_BOTH),
	BAD(psn_behind, WRITE, DUPLICATE, NO_RECV, NONE, AS_BOTH),
	BAD(psn_ahead, SEND, NAK_SEQ, NO_RECV, NONE, AS_BOTH),
	BAD(unknown_kind, SEND, INV_OPCODE, NO_RECV, QP_REQ_ERR, AS_MESSAGE),
	BAD(qp_no_rights, WRITE, ACC_QP_FLAGS, NO_RECV, QP_ACCESS_ERR, AS_BOTH),
	BAD(qp_no_rights, READ, ACC_QP_FLAGS, NO_RECV, QP_ACCESS_ERR, AS_BOTH),
	BAD(qp_no_rights, CMP_SWP, ACC_QP_FLAGS, NO_RECV, QP_ACCESS_ERR, AS_BOTH),
	BAD(qp_no_rights, FETCH_ADD, ACC_QP_FLAGS, NO_RECV, QP_ACCESS_ERR, AS_BOTH),
	BAD(no_rd_atomic, READ, INV_RD_ATOMIC, NO_RECV, QP_REQ_ERR, AS_BOTH),
	BAD(no_rd_atomic, FETCH_ADD, INV_RD_ATOMIC, NO_RECV, QP_REQ_ERR, AS_BOTH),
	BAD(no_recv, SEND, RNR, NO_RECV, NONE, AS_BOTH),
	BAD(no_recv_imm, WRITE, RNR, NO_RECV, NONE, AS_BOTH),
	BAD(srq_error, SEND, OP_SRQ, NO_RECV, QP_FATAL, AS_BOTH),
	BAD(recv_gone, SEND, DROP_GONE, NO_RECV, NONE, AS_BOTH),
	BAD(recv_unreachable, SEND, DROP_UNREACHABLE, NO_RECV, NONE, AS_BOTH),
	BAD(too_long, WRITE, INV_MSG_LEN, NO_RECV, QP_REQ_ERR, AS_MESSAGE),
	BAD(too_long, READ, INV_MSG_LEN, NO_RECV, QP_REQ_ERR, AS_BOTH),
	BAD(atomic_length, CMP_SWP, INV_MSG_LEN, NO_RECV, QP_REQ_ERR, AS_MESSAGE),
	BAD(mtu_differs, WRITE, INV_PACKET_LEN, NO_RECV, QP_REQ_ERR, AS_MESSAGE),
	BAD(short_recv, SEND, INV_RECV_LEN, VB_WC_LOC_LEN_ERR, NONE, AS_BOTH),
	BAD(bad_sges, SEND, OP_RECV_PROT, VB_WC_LOC_PROT_ERR, NONE, AS_BOTH),
	BAD(unaligned, CMP_SWP, INV_ALIGNMENT, NO_RECV, QP_REQ_ERR, AS_BOTH),
	BAD(unaligned, FETCH_ADD, INV_ALIGNMENT, NO_RECV, QP_REQ_ERR, AS_BOTH),
	BAD(key_unknown, WRITE, ACC_KEY_UNKNOWN, NO_RECV, QP_ACCESS_ERR, AS_BOTH),
	BAD(key_unknown, READ, ACC_KEY_UNKNOWN, NO_RECV, QP_ACCESS_ERR, AS_BOTH),
	BAD(key_unknown, CMP_SWP, ACC_KEY_UNKNOWN, NO_RECV, QP_ACCESS_ERR, AS_BOTH),
	BAD(key_pd, WRITE, ACC_KEY_PD, NO_RECV, QP_ACCESS_ERR, AS_BOTH),
	BAD(key_qp, WRITE, ACC_KEY_QP, NO_RECV, QP_ACCESS_ERR, AS_BOTH),
	BAD(key_read_only, WRITE, ACC_KEY_RIGHT, NO_RECV, QP_ACCESS_ERR, AS_BOTH),
	BAD(key_write_only, READ, ACC_KEY_RIGHT, NO_RECV, QP_ACCESS_ERR, AS_BOTH),
	BAD(key_write_only, CMP_SWP, ACC_KEY_RIGHT, NO_RECV, QP_ACCESS_ERR, AS_BOTH),
	BAD(key_read_only, FETCH_ADD, ACC_KEY_RIGHT, NO_RECV, QP_ACCESS_ERR, AS_BOTH),
	BAD(key_below, WRITE, ACC_KEY_RANGE, NO_RECV, QP_ACCESS_ERR, AS_BOTH),
	BAD(key_beyond, READ, ACC_KEY_RANGE, NO_RECV, QP_ACCESS_ERR, AS_BOTH),
	BAD(key_far, WRITE, ACC_KEY_RANGE, NO_RECV, QP_ACCESS_ERR, AS_BOTH),
	BAD(key_wraps, READ, ACC_KEY_RANGE, NO_RECV, QP_ACCESS_ERR, AS_BOTH),
	BAD(key_wraps, FETCH_ADD, ACC_KEY_RANGE, NO_RECV, QP_ACCESS_ERR, AS_BOTH),
	BAD(key_smaller, WRITE, ACC_KEY_RANGE, NO_RECV, QP_ACCESS_ERR, AS_BOTH),
	BAD(imm_key_unknown, WRITE, ACC_KEY_UNKNOWN, VB_WC_LOC_ACCESS_ERR, NONE, AS_BOTH),
	BAD(fault_local, SEND, LOCAL_PROT, NO_RECV, NONE, AS_MESSAGE),
	BAD(fault_local, WRITE, LOCAL_PROT, NO_RECV, NONE, AS_MESSAGE),
	BAD(fault_remote, SEND, OP_RECV_PROT, VB_WC_LOC_PROT_ERR, NONE, AS_BOTH),
	BAD(fault_remote, WRITE, ACC_FAULT, NO_RECV, QP_ACCESS_ERR, AS_BOTH),
	BAD(fault_remote, FETCH_ADD, ACC_FAULT, NO_RECV, QP_ACCESS_ERR, AS_BOTH),
	BAD(fault_remote, READ, ACC_FAULT, NO_RECV, QP_ACCESS_ERR, AS_MESSAGE),
	BAD(copy_gone, WRITE, DROP_GONE, NO_RECV, NONE, AS_BOTH),
	BAD(copy_gone, SEND, DROP_GONE, NO_RECV, NONE, AS_BOTH),
	BAD(copy_unreachable, WRITE, DROP_UNREACHABLE, NO_RECV, NONE, AS_BOTH),
	BAD(copy_unreachable, SEND, OP_RECV_PROT, VB_WC_LOC_PROT_ERR, NONE, AS_BOTH),
	BAD(inv_unknown, SEND, ACC_INVALIDATE, VB_WC_LOC_ACCESS_ERR, NONE, AS_BOTH),
	BAD(inv_fixed, SEND, ACC_INVALIDATE, VB_WC_LOC_ACCESS_ERR, NONE, AS_BOTH),
	BAD(inv_pd, SEND, ACC_INVALIDATE, VB_WC_LOC_ACCESS_ERR, NONE, AS_BOTH),
	BAD(inv_qp, SEND, ACC_INVALIDATE, VB_WC_LOC_ACCESS_ERR, NONE, AS_BOTH),
	BAD(cq_gone, SEND, DROP_GONE, NO_RECV, NONE, AS_MESSAGE),
};
/* clang-format on */

#define RESP_ROWS (sizeof(resp_rows) / sizeof(resp_rows[0]))

#endif

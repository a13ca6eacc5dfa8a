/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_TESTS_SQ_BED_H
#define VB_TESTS_SQ_BED_H

#include <string.h>

#include "lib/fake_env.h"
#include "transport/rc_comp.h"
#include "transport/rc_req.h"

/* One send queue without a link: what it sends is looked at, answers are made up. */

#define BED_MTU	 1024
#define BED_PSN	 0xfffffe
#define BED_NOW	 UINT64_C(1000000)
#define BED_ACK	 (UINT64_C(4096) << 10)
#define BED_ROOM 64

struct sq_bed {
	struct vb_rc_sq sq;
	struct vb_rc_wqe ring[16];
	struct vb_resp_qp qp;
	struct vb_source src;
	struct fake_env env;
	struct vb_out_record records[BED_ROOM];
	struct vb_out out;
	uint64_t now;
	uint8_t local[16][8192];
};

static inline void bed_init(struct sq_bed *bed)
{
	struct vb_rc_sq_attr attr = {
		.ring_mask = 15,
		.dest_qpn = 0x31,
		.path_mtu = BED_MTU,
		.pkey = VB_PKEY_DEFAULT,
		.max_rd_atomic = 2,
		.timeout = 10,
		.retry_cnt = 2,
		.rnr_retry = 1,
		.window = 8,
		.psn = {BED_PSN},
	};

	memset(bed, 0, sizeof(*bed));
	vb_rc_sq_init(&bed->sq, &attr);
	fake_init(&bed->env, NULL, 0, 0);
	bed->qp.dest_gid[3] = 1;
	bed->src.has_gid = true;
	bed->src.gid[3] = 1;
	bed->out = (struct vb_out){bed->records, BED_ROOM, 0};
	bed->now = BED_NOW;
}

static inline struct vb_rc_wqe *bed_post(struct sq_bed *bed, enum vb_msg_kind kind, uint64_t length)
{
	uint32_t i = bed->sq.tail & 15;

	bed->ring[i] = (struct vb_rc_wqe){
		.wr_id = 100 + bed->sq.tail,
		.kind = kind,
		.signaled = true,
		.rkey = 0x77,
		.remote_addr = 0x10000,
		.length = length,
		.compare_add = 3,
		.swap = 4,
		.imm = 0x11223344,
		.inv_rkey = 0x99,
	};
	bed->env.local[i] = bed->local[i];
	bed->env.local_len[i] = sizeof(bed->local[i]);
	vb_rc_sq_posted(&bed->sq);
	return &bed->ring[i];
}

/* Run the requester from an empty output. */
static inline bool bed_run(struct sq_bed *bed, uint32_t budget)
{
	bed->out.count = 0;
	return vb_rc_req_run(&bed->sq, bed->ring, &fake_req_env, &bed->env, bed->now, budget,
			     &bed->out);
}

/* The n-th packet of the output, NULL after the last. */
static inline const struct vb_out_packet *bed_packet(const struct sq_bed *bed, uint32_t n)
{
	for (uint32_t i = 0; i < bed->out.count; i++)
		if (bed->records[i].kind == VB_OUT_PACKET && n-- == 0)
			return &bed->records[i].packet;
	return NULL;
}

static inline const struct vb_out_sent *bed_sent(const struct sq_bed *bed, uint32_t n)
{
	for (uint32_t i = 0; i < bed->out.count; i++)
		if (bed->records[i].kind == VB_OUT_SENT && n-- == 0)
			return &bed->records[i].sent;
	return NULL;
}

static inline enum vb_verdict bed_give(struct sq_bed *bed, const struct vb_packet *pkt)
{
	bed->out.count = 0;
	return vb_rc_comp_packet(&bed->sq, bed->ring, &bed->qp, &fake_req_env, &bed->env, pkt,
				 &bed->src, bed->now, &bed->out);
}

/* An acknowledgement of the packet @n after the first. */
static inline enum vb_verdict bed_ack(struct sq_bed *bed, uint32_t n, enum vb_aeth_type type,
				      uint8_t value)
{
	struct vb_packet pkt = {.opcode = 0x11,
				.psn = vb_psn_add(vb_psn(BED_PSN), n).v,
				.aeth_type = (uint8_t)type,
				.aeth_value = value};

	return bed_give(bed, &pkt);
}

/* A READ response packet at @n. */
static inline enum vb_verdict bed_data(struct sq_bed *bed, uint32_t n, enum vb_op_pos pos,
				       uint32_t len)
{
	static uint8_t payload[8192];
	struct vb_packet pkt = {
		.psn = vb_psn_add(vb_psn(BED_PSN), n).v, .payload = payload, .payload_len = len};

	memset(payload, 0x40 + (int)n, sizeof(payload));
	vb_op_find(VB_SVC_RC, VB_OP_READ_RESP, pos, VB_EXTRA_NONE, &pkt.opcode);
	return bed_give(bed, &pkt);
}

static inline enum vb_verdict bed_atomic(struct sq_bed *bed, uint32_t n, uint64_t old)
{
	struct vb_packet pkt = {
		.opcode = 0x12, .psn = vb_psn_add(vb_psn(BED_PSN), n).v, .atomic_orig = old};

	return bed_give(bed, &pkt);
}

#endif

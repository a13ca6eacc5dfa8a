/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/poll.h"

#include <errno.h>
#include <time.h>

#include "base/rules.h"
#include "engine/engine.h"
#include "engine/receive.h"
#include "engine/wire.h"
#include "host/words.h"

static void to_wc(const struct vb_cqe *cqe, struct ibv_wc *wc)
{
	wc->wr_id = cqe->wr_id;
	wc->status = cqe->status;
	wc->opcode = cqe->opcode;
	wc->vendor_err = cqe->vendor_err;
	wc->byte_len = cqe->byte_len;
	wc->imm_data = cqe->imm_data;
	wc->qp_num = cqe->qp_num;
	wc->src_qp = cqe->src_qp;
	wc->wc_flags = cqe->wc_flags;
	wc->pkey_index = 0;
	wc->slid = 0;
	wc->sl = cqe->sl;
	wc->dlid_path_bits = 0;
}

/* Pollers do the engine's work where it is due: an engine thread may be asleep, busy, or
 * not to be had. */
static void help_engine(struct vb_engine *engine)
{
	if (vb_ready_any(&engine->adapter->mbx->attention))
		vb_engine_attention(engine);
	vb_wire_receive(engine, false);
	vb_engine_due(engine);
}

int vb_poll_cq(struct ibv_cq *ibv, int num_entries, struct ibv_wc *wc)
{
	struct vb_context *ctx = vb_context_of(ibv->context);
	struct vb_cq *cq = vb_cq_of(ibv);
	struct vb_cqe cqe;
	int n = 0;

	if (!vb_context_alive(ctx))
		return -vb_fail(VB_RULE_FORKED, "ibv_poll_cq");
	vb_spin_lock(&cq->lock);
	while (n < num_entries && vb_receive_poll(ctx->engine, cq, &cqe))
		to_wc(&cqe, &wc[n++]);
	vb_spin_unlock(&cq->lock);
	if (n < num_entries)
		help_engine(ctx->engine);
	return n;
}

/* ---- The extended form: one completion at a time, between start and end ---- */

static struct vb_cq *cq_of(struct ibv_cq_ex *ibv)
{
	return (struct vb_cq *)(void *)ibv;
}

static int take(struct vb_cq *cq)
{
	struct vb_context *ctx = vb_context_of(cq->ibv.context);
	bool found;

	vb_spin_lock(&cq->lock);
	found = vb_receive_poll(ctx->engine, cq, &cq->current);
	vb_spin_unlock(&cq->lock);
	if (!found) {
		help_engine(ctx->engine);
		return ENOENT; /* no refusal: the queue is empty */
	}
	cq->ibv_ex.wr_id = cq->current.wr_id;
	cq->ibv_ex.status = cq->current.status;
	return 0;
}

static int start_poll(struct ibv_cq_ex *ibv, struct ibv_poll_cq_attr *attr)
{
	struct vb_context *ctx = vb_context_of(ibv->context);

	if (!vb_context_alive(ctx))
		return vb_fail(VB_RULE_FORKED, "ibv_start_poll");
	if (attr && attr->comp_mask)
		return vb_fail(VB_RULE_START_POLL_MASK, "comp_mask=0x%x", attr->comp_mask);
	return take(cq_of(ibv));
}

static int next_poll(struct ibv_cq_ex *ibv)
{
	return take(cq_of(ibv));
}

static void end_poll(struct ibv_cq_ex *ibv)
{
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ibv)
{
	return cq_of(ibv)->current.opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *ibv)
{
	return cq_of(ibv)->current.vendor_err;
}

static uint32_t read_byte_len(struct ibv_cq_ex *ibv)
{
	return cq_of(ibv)->current.byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *ibv)
{
	return cq_of(ibv)->current.imm_data;
}

static uint32_t read_qp_num(struct ibv_cq_ex *ibv)
{
	return cq_of(ibv)->current.qp_num;
}

static uint32_t read_src_qp(struct ibv_cq_ex *ibv)
{
	return cq_of(ibv)->current.src_qp;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *ibv)
{
	return cq_of(ibv)->current.wc_flags;
}

static uint32_t read_slid(struct ibv_cq_ex *ibv)
{
	return 0;
}

static uint8_t read_sl(struct ibv_cq_ex *ibv)
{
	return cq_of(ibv)->current.sl;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *ibv)
{
	return 0;
}

/* The device clock counts nanoseconds of CLOCK_MONOTONIC. */
static uint64_t read_completion_ts(struct ibv_cq_ex *ibv)
{
	return cq_of(ibv)->current.time_ns;
}

static uint64_t read_wallclock(struct ibv_cq_ex *ibv)
{
	struct timespec real;

	clock_gettime(CLOCK_REALTIME, &real);
	return (uint64_t)real.tv_sec * 1000000000u + (uint64_t)real.tv_nsec -
	       (vb_now_ns() - cq_of(ibv)->current.time_ns);
}

static uint16_t read_cvlan(struct ibv_cq_ex *ibv)
{
	return 0;
}

static uint32_t read_flow_tag(struct ibv_cq_ex *ibv)
{
	return 0;
}

static void read_tm_info(struct ibv_cq_ex *ibv, struct ibv_wc_tm_info *info)
{
	info->tag = 0;
	info->priv = 0;
}

void vb_poll_ex_fill(struct vb_cq *cq)
{
	struct ibv_cq_ex *ex = &cq->ibv_ex;

	ex->start_poll = start_poll;
	ex->next_poll = next_poll;
	ex->end_poll = end_poll;
	ex->read_opcode = read_opcode;
	ex->read_vendor_err = read_vendor_err;
	ex->read_byte_len = read_byte_len;
	ex->read_imm_data = read_imm_data;
	ex->read_qp_num = read_qp_num;
	ex->read_src_qp = read_src_qp;
	ex->read_wc_flags = read_wc_flags;
	ex->read_slid = read_slid;
	ex->read_sl = read_sl;
	ex->read_dlid_path_bits = read_dlid_path_bits;
	ex->read_completion_ts = read_completion_ts;
	ex->read_completion_wallclock_ns = read_wallclock;
	ex->read_cvlan = read_cvlan;
	ex->read_flow_tag = read_flow_tag;
	ex->read_tm_info = read_tm_info;
}

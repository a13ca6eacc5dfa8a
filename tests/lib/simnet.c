/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/simnet.h"

#define SIM_STEPS 200000

struct simnet *sim_new(void)
{
	struct simnet *sim = calloc(1, sizeof(*sim));

	assert_non_null(sim);
	return sim;
}

void sim_free(struct simnet *sim)
{
	free(sim);
}

uint32_t sim_random(uint64_t *seed)
{
	/* splitmix64 */
	uint64_t z = (*seed += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return (uint32_t)((z ^ z >> 31) >> 16);
}

static bool chance(struct simnet *sim, uint32_t per_mille)
{
	return per_mille && sim_random(&sim->seed) % 1000 < per_mille;
}

static void init_end(struct sim_end *end, int which, const struct sim_conf *conf)
{
	struct vb_rc_sq_attr attr = {
		.service = conf->service,
		.ring_mask = SIM_RING - 1,
		.dest_qpn = 0x20 + !which,
		.path_mtu = conf->mtu,
		.pkey = VB_PKEY_DEFAULT,
		.max_rd_atomic = conf->rd_atomic,
		.timeout = conf->timeout,
		.retry_cnt = conf->retry_cnt,
		.rnr_retry = conf->rnr_retry,
		.window = conf->window,
		.psn = vb_psn(conf->psn),
	};

	memset(end, 0, sizeof(*end));
	vb_rc_sq_init(&end->sq, &attr);
	vb_rc_resp_init(&end->resp);
	end->qp = (struct vb_resp_qp){
		.state = VB_QPS_RTS,
		.type = conf->service == VB_SVC_UC ? VB_QPT_UC : VB_QPT_RC,
		.qpn = 0x20 + which,
		.pd = 7,
		.access = VB_ACCESS_LOCAL_WRITE | VB_ACCESS_REMOTE_WRITE | VB_ACCESS_REMOTE_READ |
			  VB_ACCESS_REMOTE_ATOMIC,
		.path_mtu = conf->mtu,
		.dest_qpn = 0x20 + !which,
		.dest_gid = {[15] = !which},
		.max_dest_rd_atomic = conf->rd_atomic,
		.min_rnr_timer = conf->min_rnr_timer,
		.epsn = vb_psn(conf->psn),
	};
	end->src = (struct vb_source){.has_gid = true, .gid = {[15] = !which}};
	end->flow = (struct vb_flow){.sport = 49152, .dport = VB_UDP_PORT, .df = true};
	end->flow.saddr[3] = (uint8_t)which;
	end->flow.daddr[3] = !which;
	end->link.delay_ns = 5000;
}

void sim_init(struct simnet *sim, const struct sim_conf *conf)
{
	for (int i = 0; i < 2; i++)
		init_end(&sim->end[i], i, conf);
	for (int i = 0; i < SIM_FRAMES; i++)
		sim->frames[i] = &sim->pool[i];
	sim->now_ns = 1000;
	sim->seed = conf->seed;
	sim->order = 0;
	sim->steps = 0;
	sim->nframes = sim->ntimers = 0;
	sim->out_cap = conf->out_cap ? conf->out_cap : SIM_OUT_MAX;
	sim->budget = conf->budget ? conf->budget : 64;
	assert_true(sim->out_cap <= SIM_OUT_MAX);
}

void sim_at(struct simnet *sim, uint64_t at_ns, void (*run)(void *arg), void *arg)
{
	assert_true(sim->ntimers < SIM_TIMERS);
	sim->timers[sim->ntimers++] = (struct sim_timer){at_ns, run, arg};
}

/* ---- the link ---- */

static void put(struct simnet *sim, int from, const uint8_t *bytes, uint32_t len)
{
	struct sim_link *link = &sim->end[from].link;
	struct sim_frame *frame;

	assert_true(sim->nframes < SIM_FRAMES);
	frame = sim->frames[sim->nframes++];
	frame->to = !from;
	frame->at_ns = sim->now_ns + link->delay_ns;
	if (chance(sim, link->reorder))
		frame->at_ns += sim_random(&sim->seed) % (8 * link->delay_ns);
	frame->order = sim->order++;
	frame->len = len;
	memcpy(frame->bytes, bytes, len);
	if (chance(sim, link->corrupt)) {
		uint32_t bit = sim_random(&sim->seed) % (8 * len);

		/* Not where the ICRC does not look. */
		if (bit / 8 != 4)
			frame->bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

static void transmit(struct simnet *sim, int from, const uint8_t *bytes, uint32_t len)
{
	struct sim_link *link = &sim->end[from].link;
	uint32_t n = link->count++;

	if ((n < 64 && link->drop_mask >> n & 1) || chance(sim, link->loss))
		return;
	put(sim, from, bytes, len);
	if (chance(sim, link->dup))
		put(sim, from, bytes, len);
}

static void carry_out(struct simnet *sim, int which, const struct vb_out *out);

static void read_fault(struct simnet *sim, int which, struct vb_psn psn)
{
	struct vb_out_record records[VB_RC_RESP_OUT_MAX];
	struct vb_out out = {records, VB_RC_RESP_OUT_MAX, 0};

	vb_rc_resp_read_fault(&sim->end[which].resp, &sim->end[which].qp, psn, &out);
	carry_out(sim, which, &out);
}

static void send_packet(struct simnet *sim, int from, const struct vb_out_packet *p)
{
	struct sim_end *end = &sim->end[from];
	uint8_t bytes[SIM_BYTES];
	uint32_t at = (uint32_t)vb_packet_build(&p->hdr, bytes, sizeof(bytes));
	uint32_t len = p->hdr.payload_len, total;
	uint32_t crc;

	assert_true(at > 0);
	assert_true((len == 0) == (p->from == VB_PAYLOAD_NONE));
	if (p->from == VB_PAYLOAD_WQE) {
		assert_true(p->offset + len <= end->env.local_len[p->wqe]);
		memcpy(bytes + at, end->env.local[p->wqe] + p->offset, len);
	} else if (p->from == VB_PAYLOAD_TARGET &&
		   fake_resp_env.copy_out(&end->env, &p->target, p->offset, bytes + at, len)) {
		read_fault(sim, from, vb_psn(p->hdr.psn));
		return;
	}
	memset(bytes + at + len, 0, vb_packet_pad(len));
	total = at + len + vb_packet_pad(len);
	if (chance(sim, end->link.mutate)) {
		uint32_t bit = sim_random(&sim->seed) % (8 * (at + 4 < total ? at + 4 : total));

		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	crc = vb_icrc_bth(vb_icrc_flow(&end->flow, (uint16_t)(total + VB_ICRC_LEN)), bytes, total);
	vb_icrc_store(crc, bytes + total);
	transmit(sim, from, bytes, total + VB_ICRC_LEN);
}

/* ---- the ends ---- */

static void to_error(struct sim_end *end)
{
	struct vb_out_record record;
	struct vb_out out = {&record, 1, 0};

	end->qp_errs++;
	end->qp.state = VB_QPS_ERR;
	vb_rc_sq_fail(&end->sq, VB_WC_WR_FLUSH_ERR);
	vb_rc_resp_flush(&end->resp, &end->qp, &out);
	if (out.count)
		assert_true(fake_resp_env.complete(&end->env, &record.received.recv,
						   &record.received.completion));
}

static void carry_out(struct simnet *sim, int which, const struct vb_out *out)
{
	struct sim_end *end = &sim->end[which];
	bool failed = false;

	for (uint32_t i = 0; i < out->count; i++) {
		const struct vb_out_record *r = &out->records[i];

		switch (r->kind) {
		case VB_OUT_PACKET:
			send_packet(sim, which, &r->packet);
			break;
		case VB_OUT_SENT:
			assert_true(end->nsent < FAKE_WQES);
			end->sent_ns[end->nsent] = sim->now_ns;
			end->sent[end->nsent++] = r->sent;
			break;
		case VB_OUT_RECEIVED:
			assert_true(fake_resp_env.complete(&end->env, &r->received.recv,
							   &r->received.completion));
			break;
		case VB_OUT_EVENT:
			assert_true(end->nevents < 16);
			end->events[end->nevents++] = r->event;
			break;
		case VB_OUT_QP_ERR:
			failed = true;
			end->qp.state = VB_QPS_ERR;
			break;
		}
	}
	if (failed)
		to_error(end);
}

static void pump(struct simnet *sim, int which)
{
	struct vb_out_record records[SIM_OUT_MAX];
	struct sim_end *end = &sim->end[which];
	bool more = true;

	while (more) {
		struct vb_out out = {records, sim->out_cap, 0};

		assert_true(sim->steps++ < SIM_STEPS);
		more = vb_rc_resp_run(&end->resp, &end->qp, &fake_resp_env, &end->env, sim->budget,
				      &out);
		carry_out(sim, which, &out);
		/* A READ that could not be read leaves a NAK to send. */
		more |= end->resp.reply != VB_REPLY_NONE;
		out.count = 0;
		more |= vb_rc_req_run(&end->sq, end->ring, &fake_req_env, &end->env, sim->now_ns,
				      sim->budget, &out);
		carry_out(sim, which, &out);
	}
}

static void arrive(struct simnet *sim, const struct sim_frame *frame)
{
	struct sim_end *end = &sim->end[frame->to];
	uint32_t crc = vb_icrc_flow(&sim->end[!frame->to].flow, (uint16_t)frame->len);
	struct vb_out_record records[SIM_OUT_MAX];
	struct vb_out out = {records, sim->out_cap, 0};
	const struct vb_op_row *op;
	struct vb_packet pkt;
	enum vb_verdict v;

	if (!vb_icrc_good(crc, frame->bytes, frame->len) ||
	    vb_packet_parse(frame->bytes, frame->len, &pkt) != VB_PARSE_OK ||
	    pkt.dest_qpn != end->qp.qpn)
		return;
	op = vb_op_row(pkt.opcode);
	if (end->qp.type == VB_QPT_UC)
		v = vb_uc_resp_packet(&end->resp.msg, &end->qp, &fake_resp_env, &end->env, &pkt,
				      &end->src, &out);
	else if (vb_op_is_request(op))
		v = vb_rc_resp_packet(&end->resp, &end->qp, &fake_resp_env, &end->env, &pkt,
				      &end->src, &out);
	else
		v = vb_rc_comp_packet(&end->sq, end->ring, &end->qp, &fake_req_env, &end->env, &pkt,
				      &end->src, sim->now_ns, &out);
	assert_true(v < VB_V_COUNT);
	end->verdicts[v]++;
	carry_out(sim, frame->to, &out);
	pump(sim, frame->to);
}

uint32_t sim_post(struct simnet *sim, int which, const struct vb_rc_wqe *wqe, uint8_t *local)
{
	struct sim_end *end = &sim->end[which];
	uint32_t index = end->sq.tail & (SIM_RING - 1);

	end->ring[index] = *wqe;
	end->env.local[index] = local;
	end->env.local_len[index] = wqe->length;
	vb_rc_sq_posted(&end->sq);
	return index;
}

/* ---- time ---- */

static uint32_t next_frame(const struct simnet *sim)
{
	uint32_t best = 0;

	for (uint32_t i = 1; i < sim->nframes; i++) {
		const struct sim_frame *a = sim->frames[i], *b = sim->frames[best];

		if (a->at_ns < b->at_ns || (a->at_ns == b->at_ns && a->order < b->order))
			best = i;
	}
	return best;
}

static void take_frame(struct simnet *sim, uint32_t index)
{
	struct sim_frame *frame = sim->frames[index];

	sim->frames[index] = sim->frames[--sim->nframes];
	sim->frames[sim->nframes] = frame;
	/* What arrival sends may use the slot again. */
	sim->frames[sim->nframes] = sim->frames[SIM_FRAMES - 1];
	sim->frames[SIM_FRAMES - 1] = frame;
	arrive(sim, frame);
}

static bool step(struct simnet *sim)
{
	uint64_t when = VB_NEVER;
	uint32_t frame = next_frame(sim), timer = 0;

	if (sim->nframes)
		when = sim->frames[frame]->at_ns;
	for (int i = 0; i < 2; i++)
		if (vb_rc_sq_next_ns(&sim->end[i].sq) < when)
			when = vb_rc_sq_next_ns(&sim->end[i].sq);
	for (uint32_t i = 0; i < sim->ntimers; i++)
		if (sim->timers[i].at_ns < sim->timers[timer].at_ns)
			timer = i;
	if (sim->ntimers && sim->timers[timer].at_ns < when)
		when = sim->timers[timer].at_ns;
	if (when == VB_NEVER)
		return false;
	if (when > sim->now_ns)
		sim->now_ns = when;
	if (sim->ntimers && sim->timers[timer].at_ns <= sim->now_ns) {
		struct sim_timer t = sim->timers[timer];

		sim->timers[timer] = sim->timers[--sim->ntimers];
		t.run(t.arg);
	} else if (sim->nframes && sim->frames[frame]->at_ns <= sim->now_ns) {
		take_frame(sim, frame);
		return true;
	}
	for (int i = 0; i < 2; i++) {
		vb_rc_sq_timer(&sim->end[i].sq, sim->end[i].ring, sim->now_ns);
		pump(sim, i);
	}
	return true;
}

void sim_run(struct simnet *sim)
{
	pump(sim, 0);
	pump(sim, 1);
	while (step(sim))
		assert_true(sim->steps++ < SIM_STEPS);
}

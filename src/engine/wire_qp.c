/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/rules.h"
#include "base/settings.h"
#include "carrier/target.h"
#include "engine/explain.h"
#include "engine/requester.h"
#include "engine/stats.h"
#include "engine/wire.h"
#include "engine/wire_pace.h"
#include "host/access.h"
#include "host/async.h"
#include "host/memory.h"
#include "host/words.h"
#include "object/device.h"
#include "object/gid.h"
#include "transport/cut.h"
#include "transport/rc_comp.h"
#include "transport/rc_req.h"
#include "transport/rc_resp.h"
#include "transport/uc_resp.h"
#include "wire/ident.h"

/* Records of one step of a machine; packets a QP sends before others come in turn. */
#define RECORDS 64
#define BUDGET	64
/* Bytes that a UC QP sends between two looks at the pace. */
#define UC_BUDGET (32u << 10)
/* Bytes that may be unacknowledged: what a receiver's default socket buffer holds, with
 * what the kernel adds to each datagram. */
#define WINDOW_BYTES (128u << 10)
#define SKB_BYTES    1300u

/* The bits of the traffic class that are ECN's: may be marked, was marked. */
#define ECN_MASK 3u
#define ECN_ECT0 2u
#define ECN_CE	 3u
/* Between two packets that tell a peer of congestion, as adapters do. */
#define CNP_NS 50000u

struct vb_wire_qp {
	struct vb_rc_sq sq;
	struct vb_rc_resp resp;
	struct vb_resp_qp peer; /* our attributes, as the responder wants them */
	struct vb_udp_path path;
	uint64_t cnp_ns; /* when the peer was told of congestion, the last time */
	struct vb_cut asked, answered;
	struct vb_ident ident;
	uint64_t base;	 /* the QP's number of the machine's request 0 */
	uint64_t posted; /* requests given to the machine */
	struct vb_rc_wqe ring[];
};

/* A QP's machines at work. */
struct turn {
	struct vb_engine *engine;
	struct vb_qp *qp;
	struct vb_wire_qp *w;
	struct vb_target_call call; /* our own QP as the target of the peer */
	struct vb_payload none;
	uint64_t again_ns;	    /* when more may be sent */
	struct vb_udp_burst *burst; /* packets that have not left */
	bool failed;		    /* the responder ended the connection */
	enum vb_verdict verdict;
};

static void begin(struct turn *t, struct vb_engine *engine, struct vb_qp *qp)
{
	t->engine = engine;
	t->qp = qp;
	t->w = qp->wire;
	t->none = (struct vb_payload){.n = 0};
	t->burst = NULL;
	t->again_ns = 0;
	t->failed = false;
	t->verdict = VB_V_ACCEPTED;
	t->call.peer = engine->adapter->self;
	t->call.payload = &t->none;
	t->call.arrived = NULL;
	t->call.taken = 0;
	t->call.index = 0;
	/* The word is ours and nobody else changes it while we run the QP, but for a peer that
	 * scribbles: then nothing is found. */
	if (!vb_target_read(&t->call, qp->ibv.qp_num))
		memset(&t->call.row, 0, sizeof(t->call.row));
}

/* ---- Local memory of our own requests ---- */

static struct vb_swqe *swqe_of(const struct turn *t, uint32_t slot)
{
	/* Both rings have the same size. */
	return vb_sq_slot(&t->qp->sq, t->w->base + slot);
}

static bool check_local(void *ctx, uint32_t slot)
{
	struct turn *t = ctx;
	struct iovec iov[VB_MAX_SGE];
	struct vb_payload payload;

	return !vb_local_side(t->engine, t->qp, swqe_of(t, slot), iov, &payload) && !payload.fault;
}

/* The spans of a request from one of its bytes on. */
static bool spans(struct turn *t, uint32_t slot, uint64_t offset, struct iovec *iov,
		  struct iovec **from, struct vb_payload *payload)
{
	if (vb_local_side(t->engine, t->qp, swqe_of(t, slot), iov, payload) || payload->fault)
		return false;
	*from = iov;
	vb_memory_advance(from, &payload->n, offset);
	return true;
}

static enum vb_copy scatter(void *ctx, uint32_t slot, uint64_t offset, const void *bytes,
			    uint64_t length)
{
	struct turn *t = ctx;
	struct iovec iov[VB_MAX_SGE], *from;
	struct vb_payload payload;

	if (!spans(t, slot, offset, iov, &from, &payload) ||
	    vb_memory_scatter(from, payload.n, bytes, length, payload.careful) < 0)
		return VB_COPY_FAULT_LOCAL;
	return VB_COPY_OK;
}

static const struct vb_req_env req_env = {.check_local = check_local, .scatter = scatter};

/* ---- Our memory as the target ---- */

/* While a key or a receive is used, its owner, who may be another thread, waits. */
static int announce(struct turn *t, uint32_t key)
{
	return vb_access_begin(t->engine->adapter, t->engine->adapter->self, t->qp->ibv.qp_num,
			       key);
}

static enum vb_copy conclude(struct turn *t, int ticket, enum vb_copy copy)
{
	vb_access_end(t->engine->adapter, ticket);
	return copy;
}

static bool lookup_key(void *ctx, uint32_t rkey, struct vb_key *out)
{
	return vb_target_env.lookup_key(&((struct turn *)ctx)->call, rkey, out);
}

static enum vb_take take_recv(void *ctx, struct vb_recv *out)
{
	const struct turn *t = ctx;

	if (vb_wire_not_ready(t->engine, t->qp->ibv.qp_num))
		return VB_TAKE_NONE;
	return vb_target_env.take_recv(&((struct turn *)ctx)->call, out);
}

static enum vb_copy copy_in(void *ctx, const struct vb_place *to, uint64_t offset,
			    const void *bytes, uint64_t length)
{
	struct turn *t = ctx;
	const struct iovec iov = {(void *)(uintptr_t)bytes, length};
	const struct vb_payload payload = {.iov = &iov, .n = 1};

	int ticket = announce(t, to->recv ? 0 : to->target->key.rkey);

	if (ticket < 0)
		return VB_COPY_GONE;
	if (to->recv && !vb_target_resume(&t->call, to->recv))
		return conclude(t, ticket, VB_COPY_GONE);
	return conclude(t, ticket, vb_target_env.copy_in(&t->call, to, offset, &payload, length));
}

static enum vb_copy fetch(struct turn *t, const struct vb_target *from, uint64_t offset,
			  void *bytes, uint64_t length)
{
	const struct iovec iov = {bytes, length};
	const struct vb_payload payload = {.iov = &iov, .n = 1};
	int ticket = announce(t, from->key.rkey);
	struct vb_key key;

	if (ticket < 0)
		return VB_COPY_GONE;
	/* The key may have gone since the responder looked it up. */
	if (!lookup_key(t, from->key.rkey, &key))
		return conclude(t, ticket, VB_COPY_FAULT_REMOTE);
	return conclude(t, ticket,
			vb_target_env.copy_out(&t->call, from, offset, &payload, length));
}

static enum vb_copy copy_out(void *ctx, const struct vb_target *from, uint64_t offset,
			     const void *bytes, uint64_t length)
{
	return fetch(ctx, from, offset, (void *)(uintptr_t)bytes, length);
}

static enum vb_copy atomic(void *ctx, const struct vb_target *target, enum vb_atomic kind,
			   uint64_t compare_add, uint64_t swap, uint64_t *old)
{
	struct turn *t = ctx;
	int ticket = announce(t, target->key.rkey);

	if (ticket < 0)
		return VB_COPY_GONE;
	return conclude(t, ticket,
			vb_target_env.atomic(&t->call, target, kind, compare_add, swap, old));
}

static enum vb_copy invalidate(void *ctx, const struct vb_key *key)
{
	return vb_target_env.invalidate(&((struct turn *)ctx)->call, key);
}

static const struct vb_resp_env resp_env = {
	.lookup_key = lookup_key,
	.take_recv = take_recv,
	.copy_in = copy_in,
	.copy_out = copy_out,
	.atomic = atomic,
	.invalidate = invalidate,
};

/* ---- What the machines want done ---- */

static void read_fault(struct turn *t, struct vb_psn psn);

/* What was posted has been flushed: nothing more ends. */
static bool failed(const struct vb_qp *qp)
{
	int state = atomic_load(&qp->state);

	return state == IBV_QPS_ERR || state == IBV_QPS_SQE;
}

/* The data of a request is not there, or not any more. Those before it end first: its packets are
 * not sent, and are tried again until it is the oldest. */
static void local_fault(struct turn *t, uint32_t slot)
{
	uint64_t oldest = atomic_load(&t->qp->sq.next) - t->w->base;

	if (slot == (oldest & t->w->sq.attr.ring_mask) && !failed(t->qp))
		vb_requester_fail(t->engine, t->qp, VB_WC_LOC_PROT_ERR);
}

/* The payload of a packet, where it stands on its way out. False: it cannot be had. */
static bool fill(struct turn *t, const struct vb_out_packet *p, uint8_t *to)
{
	struct iovec iov[VB_MAX_SGE], *from;
	struct vb_payload local;
	uint32_t len = p->hdr.payload_len;

	if (p->from == VB_PAYLOAD_TARGET)
		return !fetch(t, &p->target, p->offset, to, len);
	if (p->from == VB_PAYLOAD_WQE)
		return spans(t, p->wqe, p->offset, iov, &from, &local) &&
		       !vb_memory_gather(to, from, local.n, len, local.careful);
	return true;
}

/* An IPv4 packet left: whether those that share a buffer arrive shows in what is sent again. An
 * acknowledgement says nothing, since a later one does as well. */
static void watch_cutting(struct turn *t, const struct vb_packet *hdr)
{
	const struct vb_op_row *op = vb_op_row(hdr->opcode);
	struct vb_wire_qp *w = t->w;
	struct vb_cut *cut = vb_op_is_request(op) ? &w->asked : &w->answered;

	if (w->path.inside || !vb_gid_is_v4(w->path.dest_gid) || op->kind == VB_OP_ACK)
		return;
	vb_cut_leaves(cut, vb_psn(hdr->psn), vb_udp_burst_index(t->burst));
	w->path.singly |= vb_cut_singly(cut);
}

static void send_packet(struct turn *t, const struct vb_out_packet *p)
{
	uint8_t *payload;

	if (!t->burst)
		t->burst = vb_wire_begin(t->engine, &t->w->path);
	payload = t->burst ? vb_wire_room(t->engine, t->burst, &p->hdr) : NULL;
	if (!payload)
		return; /* lost as on a link */
	if (t->qp->ibv.qp_type == IBV_QPT_UC)
		vb_pace_leaves(vb_wire_pace(t->engine), p->hdr.payload_len + VB_WIRE_HEADERS);
	if (fill(t, p, payload)) {
		vb_wire_add(t->engine, t->burst, &p->hdr);
		watch_cutting(t, &p->hdr);
	} else if (p->from == VB_PAYLOAD_WQE) {
		local_fault(t, p->wqe);
	} else {
		read_fault(t, vb_psn(p->hdr.psn));
	}
}

/* What the records before this one have put together leaves. */
static void flush(struct turn *t)
{
	if (t->burst)
		vb_wire_end(t->engine, t->burst);
	t->burst = NULL;
}

static void sent(struct turn *t, const struct vb_out_sent *s)
{
	if (failed(t->qp))
		return;
	if (s->status == VB_WC_SUCCESS && s->opcode == VB_WC_OP_SEND)
		vb_stat_add(t->engine->adapter, VB_STAT_SENDS, 1);
	if (s->status == VB_WC_SUCCESS)
		vb_requester_done(t->engine, t->qp);
	else
		vb_requester_fail(t->engine, t->qp, s->status);
}

static void received(struct turn *t, const struct vb_out_received *r)
{
	if (vb_target_resume(&t->call, &r->recv) &&
	    vb_target_env.complete(&t->call, &r->recv, &r->completion) &&
	    r->completion.status == VB_WC_SUCCESS)
		vb_stat_add(t->engine->adapter, VB_STAT_RECVS, 1);
	t->call.taken = 0;
}

static void carry_out(struct turn *t, const struct vb_out *out)
{
	for (uint32_t i = 0; i < out->count; i++) {
		const struct vb_out_record *r = &out->records[i];

		switch (r->kind) {
		case VB_OUT_PACKET:
			send_packet(t, &r->packet);
			break;
		case VB_OUT_SENT:
			sent(t, &r->sent);
			break;
		case VB_OUT_RECEIVED:
			received(t, &r->received);
			break;
		case VB_OUT_EVENT:
			/* COMM_EST is told when the message is polled. */
			if (r->event != VB_EVENT_COMM_EST && r->event != VB_EVENT_SQ_DRAINED &&
			    r->event != VB_EVENT_NONE)
				vb_async_post(vb_context_of(t->qp->ibv.context),
					      (enum ibv_event_type)r->event, t->qp->handle);
			break;
		case VB_OUT_QP_ERR:
			t->failed = true;
			break;
		}
	}
	flush(t);
}

static void read_fault(struct turn *t, struct vb_psn psn)
{
	struct vb_out_record records[VB_RC_RESP_OUT_MAX];
	struct vb_out out = {records, VB_RC_RESP_OUT_MAX, 0};

	vb_rc_resp_read_fault(&t->w->resp, &t->w->peer, psn, &out);
	carry_out(t, &out);
}

static bool sends(const struct vb_qp *qp)
{
	int state = atomic_load(&qp->state);

	return state == IBV_QPS_RTS || state == IBV_QPS_SQD;
}

static bool answer(struct turn *t)
{
	struct vb_out_record records[RECORDS];
	struct vb_out out = {records, RECORDS, 0};
	bool more = vb_rc_resp_run(&t->w->resp, &t->w->peer, &resp_env, t, BUDGET, &out);

	carry_out(t, &out);
	/* A READ that could not be read leaves a NAK to send. */
	return more || t->w->resp.reply != VB_REPLY_NONE;
}

static bool unsent(const struct turn *t)
{
	return t->w->sq.cursor != t->w->sq.tail;
}

static bool ask(struct turn *t, uint64_t now)
{
	struct vb_out_record records[RECORDS];
	struct vb_out out = {records, RECORDS, 0};
	uint32_t budget = BUDGET;
	bool more;

	if (t->qp->ibv.qp_type == IBV_QPT_UC) {
		t->again_ns = unsent(t) ? vb_pace_again_ns(vb_wire_pace(t->engine)) : 0;
		budget = UC_BUDGET / t->w->sq.attr.path_mtu;
	}
	if (!t->again_ns && t->w->path.inside && unsent(t))
		t->again_ns = vb_wire_again_inside_ns(t->engine, t->qp->attr.dest_qp_num);
	if (t->again_ns)
		return true;
	more = vb_rc_req_run(&t->w->sq, t->w->ring, &req_env, t, now, budget, &out);
	carry_out(t, &out);
	return more;
}

/* Answers, then requests; a QP with many lets others have their turn. */
static void pump(struct turn *t)
{
	uint64_t now = vb_now_ns();
	bool more = true;

	for (int i = 0; i < 4 && more && !t->again_ns; i++) {
		more = answer(t);
		if (sends(t->qp))
			more = ask(t, now) || more;
	}
	/* Nobody comes again for what a QP in ERR has to say. */
	if (t->failed && t->w->resp.reply != VB_REPLY_NONE)
		answer(t);
	if (more)
		vb_engine_wake_at(t->engine, t->qp, t->again_ns);
	else if (vb_rc_sq_next_ns(&t->w->sq) != VB_NEVER)
		vb_engine_wake_at(t->engine, t->qp, vb_rc_sq_next_ns(&t->w->sq));
	if (t->failed && atomic_load(&t->qp->state) != IBV_QPS_ERR) {
		vb_explain_responder(t->qp, t->verdict);
		vb_stat_add(t->engine->adapter, VB_STAT_RESP_ERROR, 1);
		vb_requester_error(t->engine, t->qp);
	}
}

/* ---- Requests ---- */

static void translate(const struct vb_qp *qp, const struct vb_swqe *from, struct vb_rc_wqe *to)
{
	struct vb_msg msg;

	vb_requester_describe(qp, from, &msg);
	*to = (struct vb_rc_wqe){
		.wr_id = from->wr_id,
		.kind = msg.kind,
		.with_imm = msg.with_imm,
		.solicited = msg.solicited,
		.fence = from->flags & IBV_SEND_FENCE,
		.signaled = true, /* push() looks at the flag */
		.rkey = from->rkey,
		.remote_addr = from->remote_addr,
		.length = from->length,
		.imm = from->imm,
		.compare_add = from->compare_add,
		.swap = from->swap,
	};
	/* Too long for this device: the machine refuses it when its turn comes. */
	if (vb_requester_check(qp, from) == VB_WC_LOC_LEN_ERR)
		to->length = VB_MAX_MSG + 1;
}

static void take_posted(struct vb_qp *qp, struct vb_wire_qp *w)
{
	uint64_t posted = atomic_load_explicit(&qp->sq.posted, memory_order_acquire);

	for (; w->posted < posted; w->posted++) {
		translate(qp, vb_sq_slot(&qp->sq, w->posted),
			  &w->ring[w->sq.tail & w->sq.attr.ring_mask]);
		vb_rc_sq_posted(&w->sq);
	}
}

static void run_timer(struct turn *t)
{
	if (vb_rc_sq_timer(&t->w->sq, t->w->ring, vb_now_ns()) == VB_TIMER_SILENCE)
		vb_stat_add(t->engine->adapter, VB_STAT_TIMEOUTS, 1);
}

bool vb_wire_work(struct vb_engine *engine, struct vb_qp *qp)
{
	struct vb_wire_qp *w = qp->wire;
	struct turn t;

	begin(&t, engine, qp);
	if (sends(qp)) {
		vb_rc_sq_drain(&w->sq, atomic_load(&qp->state) == IBV_QPS_SQD, false);
		take_posted(qp, w);
		run_timer(&t);
	}
	pump(&t);
	return vb_rc_sq_in_flight(&w->sq);
}

bool vb_wire_busy(const struct vb_qp *qp)
{
	return vb_rc_sq_in_flight(&qp->wire->sq);
}

/* Where only sending has ended, receiving goes on. */
static enum vb_qp_state receiving_state(const struct vb_qp *qp)
{
	int state = atomic_load(&qp->state);

	return state == IBV_QPS_SQE ? VB_QPS_RTS : (enum vb_qp_state)state;
}

static enum vb_verdict respond(struct turn *t, const struct vb_packet *pkt,
			       const struct vb_source *src, struct vb_out *out)
{
	struct vb_wire_qp *w = t->w;

	if (t->qp->ibv.qp_type == IBV_QPT_UC)
		return vb_uc_resp_packet(&w->resp.msg, &w->peer, &resp_env, t, pkt, src, out);
	return vb_rc_resp_packet(&w->resp, &w->peer, &resp_env, t, pkt, src, out);
}

/* ---- Congestion ---- */

/* Tell the peer that its packets met a queue. */
static void send_cnp(struct turn *t)
{
	struct vb_packet cnp = {
		.pkey = VB_PKEY_DEFAULT, .becn = true, .dest_qpn = t->w->peer.dest_qpn};
	struct vb_udp_path path = t->w->path;
	struct vb_udp_burst *burst;

	path.traffic_class &= (uint8_t)~ECN_MASK;
	burst = vb_wire_begin(t->engine, &path);
	if (!burst)
		return;
	vb_op_find(VB_SVC_CNP, VB_OP_CNP, VB_POS_ONLY, VB_EXTRA_NONE, &cnp.opcode);
	if (vb_wire_room(t->engine, burst, &cnp)) {
		vb_wire_add(t->engine, burst, &cnp);
		vb_stat_add(t->engine->adapter, VB_STAT_CNP_SENT, 1);
	}
	vb_wire_end(t->engine, burst);
}

/* A packet of the peer was marked on the way. Acknowledgements fill no queue. Of what we asked
 * for, the window is ours. */
static void on_mark(struct turn *t, const struct vb_packet *pkt)
{
	uint64_t now = vb_now_ns();

	vb_stat_add(t->engine->adapter, VB_STAT_MARKED, 1);
	if (vb_op_row(pkt->opcode)->kind == VB_OP_READ_RESP && sends(t->qp))
		vb_rc_sq_marked(&t->w->sq);
	if (!pkt->payload_len || now - t->w->cnp_ns < CNP_NS)
		return;
	t->w->cnp_ns = now;
	send_cnp(t);
}

static void on_cnp(struct turn *t, bool from_peer)
{
	bool good = from_peer && t->qp->ibv.qp_type == IBV_QPT_RC && sends(t->qp);

	vb_stat_add(t->engine->adapter, good ? VB_STAT_CNP_HANDLED : VB_STAT_CNP_IGNORED, 1);
	if (good)
		vb_rc_sq_marked(&t->w->sq);
}

/* From the QP's peer to the QP's address, and undamaged. */
static bool is_ours(struct vb_engine *engine, const struct vb_qp *qp,
		    const struct vb_udp_datagram *d)
{
	struct vb_wire_qp *w = qp->wire;

	if (memcmp(d->dest_gid, qp->own_gid.raw, sizeof(d->dest_gid)) != 0 ||
	    vb_wire_silent(engine, w->path.dest_gid, qp->attr.dest_qp_num))
		return false;
	if (vb_ident_take(&w->ident, d->flow.ip_id, VB_UDP_SEGMENTS))
		return true;
	vb_stat_add(engine->adapter, VB_STAT_ICRC_ERRORS, 1);
	return false;
}

/* What those before it left to do waited for this packet, which has nothing to say. */
static void pass_over(struct vb_engine *engine, struct vb_qp *qp)
{
	struct turn t;

	begin(&t, engine, qp);
	pump(&t);
}

static bool is_marked(const struct vb_qp *qp, const struct vb_udp_datagram *d)
{
	return (d->traffic_class & ECN_MASK) == ECN_CE && qp->ibv.qp_type == IBV_QPT_RC;
}

void vb_wire_packet(struct vb_engine *engine, struct vb_qp *qp, const struct vb_packet *pkt,
		    const struct vb_udp_datagram *d, bool more)
{
	struct vb_out_record records[RECORDS];
	struct vb_out out = {records, RECORDS, 0};
	struct vb_source src = {.has_gid = true};
	const struct vb_op_row *op = vb_op_row(pkt->opcode);
	struct vb_wire_qp *w = qp->wire;
	struct turn t;

	if (qp->ibv.qp_type == IBV_QPT_UD)
		vb_wire_datagram_packet(engine, qp, pkt, d);
	if (!w || !op)
		return;
	if (!is_ours(engine, qp, d)) {
		if (!more)
			pass_over(engine, qp);
		return;
	}
	begin(&t, engine, qp);
	w->peer.state = receiving_state(qp);
	w->peer.access = qp->attr.qp_access_flags;
	w->peer.min_rnr_timer = qp->attr.min_rnr_timer & 31;
	memcpy(src.gid, d->src_gid, sizeof(src.gid));
	if (is_marked(qp, d) && !vb_rc_check_peer(&w->peer, &src))
		on_mark(&t, pkt);
	if (op->kind == VB_OP_CNP) {
		on_cnp(&t, !vb_rc_check_peer(&w->peer, &src));
	} else if (vb_op_is_request(op)) {
		t.verdict = respond(&t, pkt, &src, &out);
		vb_stat_request(engine->adapter, op, t.verdict);
	} else if (sends(qp)) {
		vb_stat_response(engine->adapter,
				 vb_rc_comp_packet(&w->sq, w->ring, &w->peer, &req_env, &t, pkt,
						   &src, vb_now_ns(), &out));
		if (w->sq.rnr_wait)
			vb_cut_refused(&w->asked);
	}
	carry_out(&t, &out);
	if (!more || t.failed)
		pump(&t);
	/* Who runs the QP says that it is drained. */
	if (atomic_load(&qp->state) == IBV_QPS_SQD && !vb_rc_sq_in_flight(&w->sq))
		vb_engine_wake_at(engine, qp, 0);
}

/* ---- States ---- */

static uint32_t window(uint32_t mtu)
{
	uint32_t packets = WINDOW_BYTES / (mtu + SKB_BYTES);

	return packets < 4 ? 4 : packets;
}

static void set_path(const struct vb_qp *qp, struct vb_wire_qp *w)
{
	memcpy(w->path.own_gid, qp->own_gid.raw, 16);
	memcpy(w->path.dest_gid, qp->attr.ah_attr.grh.dgid.raw, 16);
	w->path.ifindex = vb_context_of(qp->ibv.context)->device->ifindex;
	w->path.traffic_class = qp->attr.ah_attr.grh.traffic_class;
	if (qp->ibv.qp_type == IBV_QPT_RC && vb_setting_number(NULL, "ECN"))
		w->path.traffic_class = (w->path.traffic_class & ~ECN_MASK) | ECN_ECT0;
	w->path.inside = qp->reach == VB_REACH_INSIDE;
	w->path.hop_limit = qp->attr.ah_attr.grh.hop_limit;
	w->path.flow = qp->ibv.qp_num ^ qp->attr.dest_qp_num << 8;
	w->path.flow_label = qp->attr.ah_attr.grh.flow_label;
}

static void to_rtr(struct vb_engine *engine, struct vb_qp *qp, struct vb_wire_qp *w)
{
	struct turn t;

	set_path(qp, w);
	vb_wire_anew(engine, w->path.dest_gid, qp->attr.dest_qp_num);
	begin(&t, engine, qp);
	vb_target_describe(&t.call, qp->ibv.qp_num, &w->peer);
	w->peer.epsn = vb_psn(qp->attr.rq_psn);
	w->peer.msn = 0;
	vb_rc_sq_disarm(&w->sq); /* there is no send queue before RTS */
	vb_rc_resp_init(&w->resp);
}

/* What may change while the send queue is drained. */
static void while_drained(struct vb_engine *engine, struct vb_qp *qp, struct vb_wire_qp *w)
{
	struct vb_psn epsn = w->peer.epsn;
	uint32_t msn = w->peer.msn;
	struct turn t;

	set_path(qp, w);
	begin(&t, engine, qp);
	vb_target_describe(&t.call, qp->ibv.qp_num, &w->peer);
	w->peer.epsn = epsn;
	w->peer.msn = msn;
	vb_rc_sq_retune(&w->sq, qp->attr.max_rd_atomic, qp->attr.timeout, qp->attr.retry_cnt,
			qp->attr.rnr_retry);
}

/* @psn: Of the first packet */
static void to_rts(struct vb_qp *qp, struct vb_wire_qp *w, struct vb_psn psn)
{
	bool rc = qp->ibv.qp_type == IBV_QPT_RC;
	uint32_t mtu = 128u << qp->attr.path_mtu;
	struct vb_rc_sq_attr attr = {
		.service = rc ? VB_SVC_RC : VB_SVC_UC,
		.ring_mask = qp->sq.mask,
		.dest_qpn = qp->attr.dest_qp_num,
		.path_mtu = mtu,
		.pkey = VB_PKEY_DEFAULT,
		.max_rd_atomic = rc ? qp->attr.max_rd_atomic : 0,
		.timeout = qp->attr.timeout,
		.retry_cnt = qp->attr.retry_cnt,
		.rnr_retry = qp->attr.rnr_retry,
		.window = window(mtu),
		.psn = psn,
	};

	vb_rc_sq_init(&w->sq, &attr);
	w->base = w->posted = atomic_load(&qp->sq.next);
}

/* Nothing comes or goes where this fails, as where a port is down: requests end by their
 * timers. */
static struct vb_wire_qp *new_wire(struct vb_engine *engine, struct vb_qp *qp)
{
	struct vb_wire_qp *w = NULL;
	int err = vb_wire_start(engine);

	if (err != -ENOMEM) {
		w = calloc(1, sizeof(*w) + ((size_t)qp->sq.mask + 1) * sizeof(struct vb_rc_wqe));
		err = w ? err : -ENOMEM;
	}
	if (err && qp->reach == VB_REACH_WIRE)
		vb_explain(VB_RULE_MODIFY_QP_UNREACHABLE, "qp#0x%x: UDP port %d: %s",
			   qp->ibv.qp_num, VB_UDP_PORT, strerror(-err));
	return w;
}

void vb_wire_connect(struct vb_engine *engine, struct vb_qp *qp, int to)
{
	if (to == IBV_QPS_RTR && !qp->wire) {
		qp->wire = new_wire(engine, qp);
		if (qp->wire)
			to_rtr(engine, qp, qp->wire);
	} else if (to == IBV_QPS_RTS && qp->wire && atomic_load(&qp->state) == IBV_QPS_RTR) {
		to_rts(qp, qp->wire, vb_psn(qp->attr.sq_psn));
	} else if (to == IBV_QPS_RTS && qp->wire && atomic_load(&qp->state) == IBV_QPS_SQE) {
		to_rts(qp, qp->wire, qp->wire->sq.next);
	} else if (to == IBV_QPS_SQD && qp->wire && atomic_load(&qp->state) == IBV_QPS_SQD) {
		while_drained(engine, qp, qp->wire);
	}
}

void vb_wire_disconnect(struct vb_engine *engine, struct vb_qp *qp)
{
	free(qp->wire);
	qp->wire = NULL;
}

void vb_wire_error(struct vb_engine *engine, struct vb_qp *qp)
{
	struct vb_out_record record;
	struct vb_out out = {&record, 1, 0};
	struct turn t;

	begin(&t, engine, qp);
	vb_rc_sq_fail(&qp->wire->sq, VB_WC_WR_FLUSH_ERR);
	vb_rc_resp_flush(&qp->wire->resp, &qp->wire->peer, &out);
	carry_out(&t, &out);
}

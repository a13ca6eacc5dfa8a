/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "transport/rc_resp.h"

/* One call: a request packet, or the sending of answers. */
struct run {
	struct vb_rc_resp *rs;
	struct vb_resp_qp *qp;
	const struct vb_resp_env *env;
	void *ctx;
	const struct vb_packet *pkt;
	const struct vb_op_row *op;
	enum vb_msg_kind kind;
	struct vb_out *out;
};

void vb_rc_resp_init(struct vb_rc_resp *rs)
{
	memset(rs, 0, sizeof(*rs));
}

static void reply(struct vb_rc_resp *rs, enum vb_reply kind, uint8_t value, struct vb_psn psn)
{
	/* A NAK is not overtaken by an acknowledgement of what came before it. */
	if (kind == VB_REPLY_ACK && rs->reply > VB_REPLY_ACK)
		return;
	rs->reply = kind;
	rs->reply_value = value;
	rs->reply_psn = psn;
}

/* The request at @psn ends the connection: NAK, and the QP goes to ERR. */
static void fail(struct vb_rc_resp *rs, struct vb_resp_qp *qp, enum vb_verdict verdict,
		 struct vb_psn psn, struct vb_out *out)
{
	const struct vb_verdict_row *row = vb_verdict_row(verdict);

	reply(rs, VB_REPLY_NAK, row->nak, psn);
	qp->state = VB_QPS_ERR;
	vb_out_add(out, VB_OUT_QP_ERR);
	if (rs->msg.has_recv)
		vb_msg_in_end_recv(&rs->msg, qp, row->recv, NULL, out);
	else
		vb_out_event(out, row->event);
	rs->msg.in_message = false;
}

/* ---- expected requests ---- */

static uint32_t busy(const struct vb_rc_resp *rs)
{
	uint32_t n = 0;

	/* A request that comes again while its answer is on the way takes none of the next one's.
	 */
	for (int i = 0; i < VB_RD_ATOMIC_MAX; i++)
		n += rs->res[i].todo && !rs->res[i].answered;
	return n;
}

/* A READ or atomic: it may be asked for again. */
static void remember(const struct run *r, const struct vb_msg_step *step, uint32_t count)
{
	struct vb_rc_resp *rs = r->rs;
	uint32_t slots = r->qp->max_dest_rd_atomic;

	if (slots > VB_RD_ATOMIC_MAX)
		slots = VB_RD_ATOMIC_MAX;
	rs->res[rs->res_next % slots] = (struct vb_rd_res){
		.kind = r->kind,
		.first = vb_psn(r->pkt->psn),
		.count = count,
		.rkey = r->pkt->rkey,
		.va = r->pkt->va,
		.length = vb_msg_in_announced(step),
		.old = step->old,
		.msn = (r->qp->msn + 1) & VB_PSN_MASK,
		.todo = true,
	};
	/* Counted modulo the slots, so that it never wraps in between. */
	rs->res_next = (rs->res_next + 1) % slots;
}

static void advance(struct run *r, const struct vb_msg_step *step)
{
	struct vb_rc_resp *rs = r->rs;
	uint32_t count =
		r->kind == VB_MSG_READ ? vb_psn_count(r->pkt->dma_len, r->qp->path_mtu) : 1;

	if (r->kind >= VB_MSG_READ)
		remember(r, step, count);
	r->qp->epsn = vb_psn_add(r->qp->epsn, count);
	rs->nak_sent = false;
	if (rs->reply > VB_REPLY_ACK)
		rs->reply = VB_REPLY_NONE;
	if (vb_msg_in_advance(step, r->out))
		r->qp->msn = (r->qp->msn + 1) & VB_PSN_MASK;
	if (r->pkt->ack_req && r->kind < VB_MSG_READ)
		reply(rs, VB_REPLY_ACK, 0, r->qp->epsn);
	if (r->qp->state == VB_QPS_RTR && !r->qp->comm_est) {
		r->qp->comm_est = true;
		vb_out_event(r->out, VB_EVENT_COMM_EST);
	}
}

/* The packet that was expected. */
static enum vb_verdict expected(struct run *r)
{
	struct vb_rc_resp *rs = r->rs;
	struct vb_msg_step step = {.msg = &rs->msg,
				   .qp = r->qp,
				   .env = r->env,
				   .ctx = r->ctx,
				   .pkt = r->pkt,
				   .op = r->op,
				   .busy = busy(rs)};
	enum vb_verdict v = vb_msg_in_packet(&step);

	if (v == VB_V_ACCEPTED) {
		advance(r, &step);
	} else if (v == VB_V_RNR) {
		rs->nak_sent = true;
		reply(rs, VB_REPLY_RNR, r->qp->min_rnr_timer, r->qp->epsn);
	} else if (vb_verdict_is(v, VB_VC_NAK)) {
		fail(rs, r->qp, v, r->qp->epsn, r->out);
	}
	return v;
}

/* ---- requests seen before ---- */

static bool same_request(const struct run *r, const struct vb_rd_res *res, int32_t pkt)
{
	uint64_t offset = (uint64_t)pkt * r->qp->path_mtu;

	if (res->kind != r->kind || res->rkey != r->pkt->rkey)
		return false;
	if (vb_rc_is_atomic(r->kind))
		return pkt == 0 && res->va == r->pkt->va;
	return res->va + offset == r->pkt->va && res->length - offset == r->pkt->dma_len;
}

static enum vb_verdict duplicate(const struct run *r)
{
	struct vb_rc_resp *rs = r->rs;
	struct vb_psn psn = vb_psn(r->pkt->psn);

	if (r->kind < VB_MSG_READ) {
		reply(rs, VB_REPLY_ACK, 0, r->qp->epsn);
		return VB_V_DUPLICATE;
	}
	for (int i = 0; i < VB_RD_ATOMIC_MAX; i++) {
		struct vb_rd_res *res = &rs->res[i];
		int32_t pkt = vb_psn_diff(psn, res->first);

		if (res->count == 0 || pkt < 0 || pkt >= (int64_t)res->count ||
		    !same_request(r, res, pkt))
			continue;
		/* Later ones under way begin anew, or their rest would come after a gap. */
		for (int k = 0; k < VB_RD_ATOMIC_MAX; k++)
			if (rs->res[k].todo && vb_psn_before(res->first, rs->res[k].first))
				rs->res[k].next = rs->res[k].from;
		res->todo = true;
		res->again = res->answered;
		res->from = res->next = (uint32_t)pkt;
		return VB_V_DUPLICATE;
	}
	return VB_V_DUP_FORGOTTEN;
}

enum vb_verdict vb_rc_resp_packet(struct vb_rc_resp *rs, struct vb_resp_qp *qp,
				  const struct vb_resp_env *env, void *ctx,
				  const struct vb_packet *pkt, const struct vb_source *src,
				  struct vb_out *out)
{
	struct run r = {.rs = rs,
			.qp = qp,
			.env = env,
			.ctx = ctx,
			.pkt = pkt,
			.op = vb_op_row(pkt->opcode),
			.out = out};
	enum vb_verdict v;

	if ((v = vb_rc_check_qp(qp)) || (v = vb_rc_check_peer(qp, src)))
		return v;
	if (!r.op || r.op->service != VB_SVC_RC || !vb_op_is_request(r.op))
		return VB_V_DROP_MALFORMED;
	r.kind = (enum vb_msg_kind)r.op->kind;
	v = vb_rc_check_psn(qp->epsn, vb_psn(pkt->psn));
	if (v == VB_V_DUPLICATE)
		return duplicate(&r);
	if (v == VB_V_NAK_SEQ) {
		if (rs->nak_sent)
			return VB_V_DROP_GAP;
		rs->nak_sent = true;
		reply(rs, VB_REPLY_NAK, VB_NAK_SEQ, qp->epsn);
		return v;
	}
	return expected(&r);
}

/* ---- answers ---- */

static struct vb_rd_res *first_todo(struct vb_rc_resp *rs)
{
	struct vb_rd_res *first = NULL;

	for (int i = 0; i < VB_RD_ATOMIC_MAX; i++) {
		struct vb_rd_res *res = &rs->res[i];

		if (res->todo && (!first || vb_psn_before(res->first, first->first)))
			first = res;
	}
	return first;
}

static struct vb_packet *answer(const struct vb_resp_qp *qp, enum vb_op_kind kind,
				enum vb_op_pos pos, struct vb_psn psn, uint32_t msn,
				struct vb_out *out)
{
	struct vb_packet *hdr = &vb_out_add(out, VB_OUT_PACKET)->packet.hdr;

	vb_op_find(VB_SVC_RC, kind, pos, VB_EXTRA_NONE, &hdr->opcode);
	hdr->pkey = VB_PKEY_DEFAULT;
	hdr->migreq = true; /* the migrated state: there is no other path */
	hdr->dest_qpn = qp->dest_qpn;
	hdr->psn = psn.v;
	hdr->aeth_type = VB_AETH_ACK;
	hdr->aeth_value = VB_AETH_NO_CREDITS;
	hdr->msn = msn;
	return hdr;
}

static enum vb_verdict answer_read(const struct run *r, struct vb_rd_res *res)
{
	uint64_t offset = (uint64_t)res->next * r->qp->path_mtu, left = res->length - offset;
	struct vb_psn psn = vb_psn_add(res->first, res->next);
	bool first = res->next == res->from, last = res->next == res->count - 1;
	struct vb_out_packet *p;
	struct vb_target target;
	enum vb_verdict v;

	v = vb_rc_resolve(r->qp, r->env, r->ctx, VB_MSG_READ, res->rkey, res->va, res->length,
			  &target);
	if (v)
		return v;
	p = &r->out->records[r->out->count].packet;
	answer(r->qp, VB_OP_READ_RESP,
	       (enum vb_op_pos)((first ? VB_POS_FIRST : 0) | (last ? VB_POS_LAST : 0)), psn,
	       res->msn, r->out);
	p->hdr.payload_len = (uint32_t)(left < r->qp->path_mtu ? left : r->qp->path_mtu);
	p->from = p->hdr.payload_len ? VB_PAYLOAD_TARGET : VB_PAYLOAD_NONE;
	p->offset = offset;
	p->target = target;
	res->next++;
	res->todo = !last;
	res->answered = res->answered || last;
	return VB_V_ACCEPTED;
}

static void answer_reply(struct vb_rc_resp *rs, const struct vb_resp_qp *qp, struct vb_out *out)
{
	bool ack = rs->reply == VB_REPLY_ACK;
	struct vb_psn psn = ack ? vb_psn_add(qp->epsn, -1) : rs->reply_psn;
	struct vb_packet *hdr = answer(qp, VB_OP_ACK, VB_POS_ONLY, psn, qp->msn, out);

	if (!ack) {
		hdr->aeth_type = rs->reply == VB_REPLY_RNR ? VB_AETH_RNR : VB_AETH_NAK;
		hdr->aeth_value = rs->reply_value;
	}
	rs->reply = VB_REPLY_NONE;
}

static void forget_todo(struct vb_rc_resp *rs)
{
	for (int i = 0; i < VB_RD_ATOMIC_MAX; i++)
		rs->res[i].todo = false;
}

/* Of the READ whose answer has a packet of this number; false: it is a new one. */
static bool give_up_repeated(struct vb_rc_resp *rs, struct vb_psn psn)
{
	for (int i = 0; i < VB_RD_ATOMIC_MAX; i++) {
		struct vb_rd_res *res = &rs->res[i];
		int32_t pkt = vb_psn_diff(psn, res->first);

		if (!res->again || pkt < 0 || pkt >= (int64_t)res->count)
			continue;
		res->todo = false;
		return true;
	}
	return false;
}

bool vb_rc_resp_run(struct vb_rc_resp *rs, struct vb_resp_qp *qp, const struct vb_resp_env *env,
		    void *ctx, uint32_t budget, struct vb_out *out)
{
	struct run r = {.rs = rs, .qp = qp, .env = env, .ctx = ctx, .out = out};
	struct vb_rd_res *res;

	for (; (res = first_todo(rs)); budget--) {
		if (budget == 0 || vb_out_room(out) < VB_RC_RESP_OUT_MAX)
			return true;
		if (res->kind != VB_MSG_READ) {
			answer(qp, VB_OP_ATOMIC_ACK, VB_POS_ONLY, res->first, res->msn, out)
				->atomic_orig = res->old;
			res->todo = false;
			res->answered = true;
		} else if (answer_read(&r, res)) {
			vb_rc_resp_read_fault(rs, qp, vb_psn_add(res->first, res->next), out);
		}
	}
	if (rs->reply == VB_REPLY_NONE)
		return false;
	if (budget == 0 || !vb_out_room(out))
		return true;
	answer_reply(rs, qp, out);
	return false;
}

void vb_rc_resp_read_fault(struct vb_rc_resp *rs, struct vb_resp_qp *qp, struct vb_psn psn,
			   struct vb_out *out)
{
	if (give_up_repeated(rs, psn)) {
		reply(rs, VB_REPLY_NAK, vb_verdict_row(VB_V_ACC_FAULT)->nak, psn);
		return;
	}
	forget_todo(rs);
	if (qp->state != VB_QPS_ERR)
		fail(rs, qp, VB_V_ACC_FAULT, psn, out);
}

void vb_rc_resp_flush(struct vb_rc_resp *rs, const struct vb_resp_qp *qp, struct vb_out *out)
{
	if (rs->msg.has_recv)
		vb_msg_in_end_recv(&rs->msg, qp, VB_WC_WR_FLUSH_ERR, NULL, out);
	rs->msg.in_message = false;
	if (rs->reply == VB_REPLY_NAK)
		return;
	rs->reply = VB_REPLY_NONE;
	forget_todo(rs);
}

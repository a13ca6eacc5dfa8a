/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm/conn.h"

#include <string.h>

/* The first repetition comes after a quarter of a second, each later one after twice the time, up
 * to what was promised for the answer: a lost message costs little, a busy peer is not flooded. */
#define FIRST_WAIT_NS 268435456u

static uint64_t timeout_ns(uint8_t timeout)
{
	return (uint64_t)4096 << (timeout & 31);
}

/* When the message sent now is to be repeated. */
static void wait_for_answer(struct vb_cm_conn *c, uint64_t now_ns)
{
	uint64_t most = timeout_ns(c->peer_timeout);
	uint64_t wait = (uint64_t)FIRST_WAIT_NS << c->wait_shift;

	if (wait < most)
		c->wait_shift++;
	c->due_ns = now_ns + (wait < most ? wait : most);
}

static void build(struct vb_cm_conn *c, struct vb_cm_msg *msg, uint16_t attr)
{
	msg->attr = attr;
	msg->local_id = c->local_id;
	msg->remote_id = c->remote_id;
	msg->tid = c->tid;
	vb_cm_build(msg, c->last);
	c->last_attr = (uint8_t)attr;
}

static void send_last(const struct vb_cm_conn *c, struct vb_cm_out *out)
{
	out->send = true;
	memcpy(out->bytes, c->last, VB_MAD_LEN);
}

/* A question: repeated until the answer comes. */
static void ask(struct vb_cm_conn *c, struct vb_cm_msg *msg, uint16_t attr, uint64_t now_ns,
		struct vb_cm_out *out)
{
	build(c, msg, attr);
	c->retries = VB_CM_RETRIES;
	c->wait_shift = 0;
	wait_for_answer(c, now_ns);
	send_last(c, out);
}

/* An answer: repeated when the question comes again. */
static void answer(struct vb_cm_conn *c, struct vb_cm_msg *msg, uint16_t attr,
		   struct vb_cm_out *out)
{
	build(c, msg, attr);
	c->due_ns = 0;
	send_last(c, out);
}

static void enter(struct vb_cm_conn *c, enum vb_cm_state state)
{
	c->state = (uint8_t)state;
	c->due_ns = 0;
}

static void rest(struct vb_cm_conn *c, uint64_t now_ns)
{
	c->state = VB_CM_TIMEWAIT;
	c->due_ns = now_ns + timeout_ns(c->timewait);
}

/* ---- What this side does ---- */

bool vb_cm_send_req(struct vb_cm_conn *c, struct vb_cm_msg *msg, uint64_t now_ns,
		    struct vb_cm_out *out)
{
	if (c->state != VB_CM_IDLE)
		return false;
	c->active = true;
	c->tid = c->local_id;
	c->remote_id = 0;
	c->qpn = msg->qpn;
	c->peer_timeout = msg->remote_timeout;
	c->timewait = (uint8_t)(msg->path.ack_timeout + 1);
	c->state = VB_CM_REQ_SENT;
	ask(c, msg, VB_CM_REQ, now_ns, out);
	return true;
}

void vb_cm_take_req(struct vb_cm_conn *c, const struct vb_cm_msg *req)
{
	c->active = false;
	c->tid = req->tid;
	c->remote_id = req->local_id;
	c->peer_qpn = req->qpn;
	c->peer_guid = req->ca_guid;
	c->peer_timeout = req->local_timeout;
	c->timewait = (uint8_t)(req->path.ack_timeout + 1);
	c->last_attr = 0;
	enter(c, VB_CM_REQ_RCVD);
}

bool vb_cm_send_rep(struct vb_cm_conn *c, struct vb_cm_msg *msg, uint64_t now_ns,
		    struct vb_cm_out *out)
{
	if (c->state != VB_CM_REQ_RCVD)
		return false;
	c->qpn = msg->qpn;
	c->state = VB_CM_REP_SENT;
	ask(c, msg, VB_CM_REP, now_ns, out);
	return true;
}

bool vb_cm_send_rtu(struct vb_cm_conn *c, struct vb_cm_msg *msg, struct vb_cm_out *out)
{
	if (c->state != VB_CM_REP_RCVD)
		return false;
	enter(c, VB_CM_ESTABLISHED);
	answer(c, msg, VB_CM_RTU, out);
	return true;
}

bool vb_cm_send_rej(struct vb_cm_conn *c, struct vb_cm_msg *msg, struct vb_cm_out *out)
{
	switch (c->state) {
	case VB_CM_REQ_SENT:
	case VB_CM_REQ_RCVD:
		msg->about = VB_CM_ABOUT_REQ;
		break;
	case VB_CM_REP_SENT:
	case VB_CM_REP_RCVD:
		msg->about = VB_CM_ABOUT_REP;
		break;
	default:
		return false;
	}
	if (c->state == VB_CM_REQ_SENT || c->state == VB_CM_REP_SENT)
		msg->about = VB_CM_ABOUT_OTHER;
	enter(c, VB_CM_IDLE);
	answer(c, msg, VB_CM_REJ, out);
	return true;
}

bool vb_cm_send_mra(struct vb_cm_conn *c, struct vb_cm_msg *msg, struct vb_cm_out *out)
{
	if (c->state != VB_CM_REQ_RCVD && c->state != VB_CM_REP_RCVD)
		return false;
	msg->about = c->state == VB_CM_REQ_RCVD ? VB_CM_ABOUT_REQ : VB_CM_ABOUT_REP;
	answer(c, msg, VB_CM_MRA, out);
	return true;
}

bool vb_cm_disconnect(struct vb_cm_conn *c, const struct vb_cm_msg *msg, uint64_t now_ns,
		      struct vb_cm_out *out)
{
	struct vb_cm_msg own = {0};

	if (msg)
		memcpy(own.private_data, msg->private_data, sizeof(own.private_data));
	switch (c->state) {
	case VB_CM_ESTABLISHED:
		own.qpn = c->peer_qpn;
		c->state = VB_CM_DREQ_SENT;
		/* Begins an exchange of its own. */
		c->tid = c->local_id;
		ask(c, &own, VB_CM_DREQ, now_ns, out);
		return true;
	case VB_CM_DREQ_RCVD:
		answer(c, &own, VB_CM_DREP, out);
		rest(c, now_ns);
		return true;
	default:
		return false;
	}
}

bool vb_cm_data_came(struct vb_cm_conn *c)
{
	if (c->state != VB_CM_REP_SENT)
		return false;
	enter(c, VB_CM_ESTABLISHED);
	return true;
}

bool vb_cm_send_sidr_req(struct vb_cm_conn *c, struct vb_cm_msg *msg, uint64_t now_ns,
			 struct vb_cm_out *out)
{
	if (c->state != VB_CM_IDLE)
		return false;
	c->active = true;
	c->tid = c->local_id;
	c->peer_timeout = VB_CM_RESPONSE_TIMEOUT;
	c->state = VB_CM_SIDR_SENT;
	ask(c, msg, VB_CM_SIDR_REQ, now_ns, out);
	return true;
}

void vb_cm_take_sidr_req(struct vb_cm_conn *c, const struct vb_cm_msg *req)
{
	c->active = false;
	c->tid = req->tid;
	c->remote_id = req->local_id;
	c->last_attr = 0;
	enter(c, VB_CM_SIDR_RCVD);
}

bool vb_cm_send_sidr_rep(struct vb_cm_conn *c, struct vb_cm_msg *msg, struct vb_cm_out *out)
{
	uint32_t own = c->local_id;

	if (c->state != VB_CM_SIDR_RCVD || c->last_attr == (VB_CM_SIDR_REP & 0xff))
		return false;
	/* The answer carries the id of the request. */
	c->local_id = c->remote_id;
	answer(c, msg, VB_CM_SIDR_REP, out);
	c->local_id = own;
	return true;
}

void vb_cm_close(struct vb_cm_conn *c, struct vb_cm_out *out)
{
	struct vb_cm_msg msg = {.reason = VB_CM_REJ_CONSUMER};

	memset(out, 0, sizeof(*out));
	switch (c->state) {
	case VB_CM_REQ_SENT:
	case VB_CM_REP_SENT:
		msg.reason = VB_CM_REJ_TIMEOUT;
		vb_cm_send_rej(c, &msg, out);
		break;
	case VB_CM_REQ_RCVD:
	case VB_CM_REP_RCVD:
		vb_cm_send_rej(c, &msg, out);
		break;
	case VB_CM_ESTABLISHED:
	case VB_CM_DREQ_RCVD:
		vb_cm_disconnect(c, NULL, 0, out);
		break;
	case VB_CM_SIDR_RCVD:
		msg.status = VB_CM_SIDR_REJECT;
		vb_cm_send_sidr_rep(c, &msg, out);
		break;
	default:
		break;
	}
	enter(c, VB_CM_IDLE);
}

/* ---- What comes ---- */

static void on_req(struct vb_cm_conn *c, struct vb_cm_out *out)
{
	bool waits = c->state == VB_CM_REQ_RCVD || c->state == VB_CM_REP_SENT;
	bool refused = c->state == VB_CM_IDLE && c->last_attr == VB_CM_REJ;

	/* Again: what was said is said again. */
	if (!c->active && ((waits && c->last_attr) || refused))
		send_last(c, out);
}

static void on_rep(struct vb_cm_conn *c, const struct vb_cm_msg *msg, struct vb_cm_out *out)
{
	switch (c->state) {
	case VB_CM_IDLE:
		/* Too late, or the refusal was lost: its sender would wait for long. */
		if (c->active && c->last_attr == VB_CM_REJ && msg->local_id == c->remote_id)
			send_last(c, out);
		else if (c->active)
			vb_cm_answer_unknown(msg, 0, out);
		break;
	case VB_CM_REQ_SENT:
		c->remote_id = msg->local_id;
		c->peer_qpn = msg->qpn;
		c->peer_guid = msg->ca_guid;
		c->last_attr = 0;
		enter(c, VB_CM_REP_RCVD);
		out->what = VB_CM_REPLY;
		break;
	case VB_CM_REP_RCVD:
	case VB_CM_ESTABLISHED:
		/* A MRA or the RTU was lost. */
		if (msg->local_id == c->remote_id && c->active &&
		    (c->last_attr == VB_CM_RTU || c->last_attr == VB_CM_MRA))
			send_last(c, out);
		break;
	default:
		break;
	}
}

static void on_rtu(struct vb_cm_conn *c, struct vb_cm_out *out)
{
	if (vb_cm_data_came(c))
		out->what = VB_CM_READY;
}

static void on_rej(struct vb_cm_conn *c, const struct vb_cm_msg *msg, uint64_t now_ns,
		   struct vb_cm_out *out)
{
	switch (c->state) {
	case VB_CM_REQ_SENT:
	case VB_CM_REQ_RCVD:
	case VB_CM_REP_SENT:
		enter(c, VB_CM_IDLE);
		out->what = VB_CM_REJECTED;
		break;
	case VB_CM_ESTABLISHED:
		/* Of a repeated message: the peer is not there any more, and says no DREQ. */
		if (msg->reason == VB_CM_REJ_INVALID_COMM_ID) {
			enter(c, VB_CM_DREQ_RCVD);
			out->what = VB_CM_DISCONNECTED;
			break;
		}
		rest(c, now_ns);
		out->what = VB_CM_REJECTED;
		break;
	case VB_CM_REP_RCVD:
		rest(c, now_ns);
		out->what = VB_CM_REJECTED;
		break;
	case VB_CM_DREQ_SENT:
		rest(c, now_ns);
		out->what = VB_CM_DISCONNECTED;
		break;
	default:
		break;
	}
}

static void on_mra(struct vb_cm_conn *c, const struct vb_cm_msg *msg, uint64_t now_ns)
{
	bool fits = (c->state == VB_CM_REQ_SENT && msg->about == VB_CM_ABOUT_REQ) ||
		    (c->state == VB_CM_REP_SENT && msg->about == VB_CM_ABOUT_REP);

	if (!fits)
		return;
	c->due_ns = now_ns + timeout_ns(msg->service_timeout) + timeout_ns(c->peer_timeout);
	c->retries = VB_CM_RETRIES;
}

static void agree(struct vb_cm_conn *c, const struct vb_cm_msg *dreq, struct vb_cm_out *out)
{
	struct vb_cm_msg msg = {0};

	c->tid = dreq->tid;
	build(c, &msg, VB_CM_DREP);
	send_last(c, out);
}

static void on_dreq(struct vb_cm_conn *c, const struct vb_cm_msg *msg, uint64_t now_ns,
		    struct vb_cm_out *out)
{
	switch (c->state) {
	case VB_CM_REP_SENT:
	case VB_CM_REP_RCVD:
	case VB_CM_ESTABLISHED:
		c->tid = msg->tid;
		enter(c, VB_CM_DREQ_RCVD);
		out->what = VB_CM_DISCONNECTED;
		break;
	case VB_CM_DREQ_SENT:
		/* Both want it: nobody has to be asked. */
		agree(c, msg, out);
		rest(c, now_ns);
		out->what = VB_CM_DISCONNECTED;
		break;
	case VB_CM_TIMEWAIT:
		agree(c, msg, out);
		break;
	case VB_CM_IDLE:
		/* It has ended here, and the answer was lost. */
		vb_cm_answer_unknown(msg, 0, out);
		break;
	default:
		break;
	}
}

static void on_drep(struct vb_cm_conn *c, uint64_t now_ns, struct vb_cm_out *out)
{
	if (c->state != VB_CM_DREQ_SENT)
		return;
	rest(c, now_ns);
	out->what = VB_CM_DISCONNECTED;
}

static void on_lap(struct vb_cm_conn *c, const struct vb_cm_msg *lap, struct vb_cm_out *out)
{
	struct vb_cm_msg msg = {.attr = VB_CM_APR,
				.tid = lap->tid,
				.local_id = c->local_id,
				.remote_id = c->remote_id,
				.status = VB_CM_APR_NOT_SUPPORTED};

	if (c->state != VB_CM_ESTABLISHED)
		return;
	vb_cm_build(&msg, out->bytes);
	out->send = true;
}

/* Whether it comes from whom it should. A REP tells the peer's id first, a REJ may come from
 * somebody who never had one. */
static bool from_peer(const struct vb_cm_conn *c, const struct vb_cm_msg *msg)
{
	switch (msg->attr) {
	case VB_CM_SIDR_REP:
	case VB_CM_REP:
		return true;
	case VB_CM_MRA:
	case VB_CM_REJ:
		return c->state == VB_CM_REQ_SENT || msg->local_id == c->remote_id ||
		       !msg->local_id;
	default:
		return msg->local_id == c->remote_id;
	}
}

void vb_cm_receive(struct vb_cm_conn *c, const struct vb_cm_msg *msg, uint64_t now_ns,
		   struct vb_cm_out *out)
{
	memset(out, 0, sizeof(*out));
	if (!from_peer(c, msg))
		return;
	switch (msg->attr) {
	case VB_CM_REQ:
		on_req(c, out);
		break;
	case VB_CM_REP:
		on_rep(c, msg, out);
		break;
	case VB_CM_RTU:
		on_rtu(c, out);
		break;
	case VB_CM_REJ:
		on_rej(c, msg, now_ns, out);
		break;
	case VB_CM_MRA:
		on_mra(c, msg, now_ns);
		break;
	case VB_CM_DREQ:
		on_dreq(c, msg, now_ns, out);
		break;
	case VB_CM_DREP:
		on_drep(c, now_ns, out);
		break;
	case VB_CM_LAP:
		on_lap(c, msg, out);
		break;
	case VB_CM_SIDR_REQ:
		if (c->state == VB_CM_SIDR_RCVD && c->last_attr)
			send_last(c, out);
		break;
	case VB_CM_SIDR_REP:
		if (c->state != VB_CM_SIDR_SENT)
			break;
		enter(c, VB_CM_IDLE);
		out->what = VB_CM_SIDR_ANSWERED;
		break;
	default:
		break;
	}
}

static void give_up(struct vb_cm_conn *c, uint64_t now_ns, struct vb_cm_out *out)
{
	struct vb_cm_msg msg = {.reason = VB_CM_REJ_TIMEOUT};

	switch (c->state) {
	case VB_CM_REQ_SENT:
		vb_cm_send_rej(c, &msg, out);
		out->what = VB_CM_UNREACHABLE;
		break;
	case VB_CM_REP_SENT:
		vb_cm_send_rej(c, &msg, out);
		out->what = VB_CM_REPLY_LOST;
		break;
	case VB_CM_DREQ_SENT:
		rest(c, now_ns);
		out->what = VB_CM_DISCONNECTED;
		break;
	default:
		enter(c, VB_CM_IDLE);
		out->what = VB_CM_UNREACHABLE;
	}
}

void vb_cm_expire(struct vb_cm_conn *c, uint64_t now_ns, struct vb_cm_out *out)
{
	memset(out, 0, sizeof(*out));
	if (!c->due_ns || now_ns < c->due_ns)
		return;
	if (c->state == VB_CM_TIMEWAIT) {
		enter(c, VB_CM_IDLE);
		out->what = VB_CM_TIMEWAIT_EXIT;
	} else if (c->retries) {
		c->retries--;
		wait_for_answer(c, now_ns);
		send_last(c, out);
	} else {
		give_up(c, now_ns, out);
	}
}

void vb_cm_answer_unknown(const struct vb_cm_msg *msg, uint16_t reason, struct vb_cm_out *out)
{
	struct vb_cm_msg back = {.tid = msg->tid, .remote_id = msg->local_id};

	memset(out, 0, sizeof(*out));
	switch (msg->attr) {
	case VB_CM_REQ:
		back.attr = VB_CM_REJ;
		back.about = VB_CM_ABOUT_REQ;
		back.reason = reason;
		break;
	case VB_CM_REP:
	case VB_CM_MRA:
	case VB_CM_RTU:
		/* Whose it was may have gone without a word. */
		back.attr = VB_CM_REJ;
		back.about = msg->attr == VB_CM_REP ? VB_CM_ABOUT_REP : VB_CM_ABOUT_OTHER;
		back.local_id = msg->remote_id;
		back.reason = VB_CM_REJ_INVALID_COMM_ID;
		break;
	case VB_CM_DREQ:
		back.attr = VB_CM_DREP;
		back.local_id = msg->remote_id;
		break;
	case VB_CM_SIDR_REQ:
		back.attr = VB_CM_SIDR_REP;
		back.local_id = msg->local_id;
		back.service_id = msg->service_id;
		back.status = VB_CM_SIDR_UNSUPPORTED;
		break;
	default:
		return;
	}
	vb_cm_build(&back, out->bytes);
	out->send = true;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every state of a connection meets every message, of its peer and of somebody who is not, every
 * call and every timer. The table names what happens; what it does not name must neither send,
 * tell nor change anything.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cm/conn.h"

#define OWN	0x1001u
#define PEER	0x2002u
#define OTHER	0x3003u
#define OWN_QP	0x11u
#define PEER_QP 0x22u
#define GUID	UINT64_C(0x1122334455667788)
#define TID	UINT64_C(0xabcdef)
#define NOW	UINT64_C(1000000000)
#define LIFE	5 /* of a packet: time waits are 2^(LIFE + 1) */

/* Where a connection may stand. */
enum start {
	FRESH,
	REQ_SENT,
	REQ_RCVD,
	REQ_HELD, /* REQ_RCVD, and a MRA was sent */
	REP_SENT,
	REP_RCVD,
	REP_HELD, /* REP_RCVD, likewise */
	OPEN_A,	  /* ESTABLISHED, the active side */
	OPEN_P,
	OPEN_EARLY, /* of the passive one, by its first data */
	DREQ_SENT,
	DREQ_RCVD,
	TIMEWAIT,
	REFUSED_P, /* IDLE: the request was rejected */
	REFUSED_A, /* IDLE: the reply was */
	LATE,	   /* IDLE: nobody answered */
	OVER,	   /* IDLE: after TIMEWAIT */
	SIDR_SENT,
	SIDR_RCVD,
	SIDR_DONE, /* SIDR_RCVD, and answered */
	STARTS
};

/* What may happen: VB_CM_REQ to VB_CM_APR, and */
enum happens {
	DO_REQ = VB_CM_APR + 1,
	DO_REP,
	DO_RTU,
	DO_REJ,
	DO_MRA,
	DO_DISCONNECT,
	DO_DATA,
	DO_SIDR_REQ,
	DO_SIDR_REP,
	DO_CLOSE,
	TIME_EARLY,
	TIME_AGAIN,
	TIME_LAST,
	ENDS
};

static const char *const starts[] = {
	"FRESH",     "REQ_SENT", "REQ_RCVD",   "REQ_HELD",  "REP_SENT",	 "REP_RCVD",  "REP_HELD",
	"OPEN_A",    "OPEN_P",	 "OPEN_EARLY", "DREQ_SENT", "DREQ_RCVD", "TIMEWAIT",  "REFUSED_P",
	"REFUSED_A", "LATE",	 "OVER",       "SIDR_SENT", "SIDR_RCVD", "SIDR_DONE",
};

static const char *const ends[] = {
	"REQ",	       "MRA",	      "REJ",	  "REP",	"RTU",		 "DREQ",
	"DREP",	       "SIDR_REQ",    "SIDR_REP", "LAP",	"APR",		 "DO_REQ",
	"DO_REP",      "DO_RTU",      "DO_REJ",	  "DO_MRA",	"DO_DISCONNECT", "DO_DATA",
	"DO_SIDR_REQ", "DO_SIDR_REP", "DO_CLOSE", "TIME_EARLY", "TIME_AGAIN",	 "TIME_LAST",
};

#define PEERS(...)                                                                                 \
	{                                                                                          \
		__VA_ARGS__, false                                                                 \
	}
#define ANYONE(...)                                                                                \
	{                                                                                          \
		__VA_ARGS__, true                                                                  \
	}

static const struct cell {
	enum start from;
	int on; /* a message's attribute, or enum happens */
	uint16_t sends;
	enum vb_cm_what tells;
	enum vb_cm_state to;
	bool anyone; /* a message: also from somebody else */
} table[] = {
	PEERS(FRESH, DO_REQ, VB_CM_REQ, 0, VB_CM_REQ_SENT),
	PEERS(FRESH, DO_SIDR_REQ, VB_CM_SIDR_REQ, 0, VB_CM_SIDR_SENT),
	PEERS(FRESH, DO_CLOSE, 0, 0, VB_CM_IDLE),

	ANYONE(REQ_SENT, VB_CM_REP, 0, VB_CM_REPLY, VB_CM_REP_RCVD),
	ANYONE(REQ_SENT, VB_CM_REJ, 0, VB_CM_REJECTED, VB_CM_IDLE),
	ANYONE(REQ_SENT, VB_CM_MRA, 0, 0, VB_CM_REQ_SENT),
	PEERS(REQ_SENT, DO_REJ, VB_CM_REJ, 0, VB_CM_IDLE),
	PEERS(REQ_SENT, DO_CLOSE, VB_CM_REJ, 0, VB_CM_IDLE),
	PEERS(REQ_SENT, TIME_AGAIN, VB_CM_REQ, 0, VB_CM_REQ_SENT),
	PEERS(REQ_SENT, TIME_LAST, VB_CM_REJ, VB_CM_UNREACHABLE, VB_CM_IDLE),

	PEERS(REQ_RCVD, VB_CM_REJ, 0, VB_CM_REJECTED, VB_CM_IDLE),
	PEERS(REQ_RCVD, DO_REP, VB_CM_REP, 0, VB_CM_REP_SENT),
	PEERS(REQ_RCVD, DO_REJ, VB_CM_REJ, 0, VB_CM_IDLE),
	PEERS(REQ_RCVD, DO_MRA, VB_CM_MRA, 0, VB_CM_REQ_RCVD),
	PEERS(REQ_RCVD, DO_CLOSE, VB_CM_REJ, 0, VB_CM_IDLE),

	PEERS(REQ_HELD, VB_CM_REQ, VB_CM_MRA, 0, VB_CM_REQ_RCVD),
	PEERS(REQ_HELD, VB_CM_REJ, 0, VB_CM_REJECTED, VB_CM_IDLE),
	PEERS(REQ_HELD, DO_REP, VB_CM_REP, 0, VB_CM_REP_SENT),
	PEERS(REQ_HELD, DO_REJ, VB_CM_REJ, 0, VB_CM_IDLE),
	PEERS(REQ_HELD, DO_MRA, VB_CM_MRA, 0, VB_CM_REQ_RCVD),
	PEERS(REQ_HELD, DO_CLOSE, VB_CM_REJ, 0, VB_CM_IDLE),

	PEERS(REP_SENT, VB_CM_REQ, VB_CM_REP, 0, VB_CM_REP_SENT),
	PEERS(REP_SENT, VB_CM_RTU, 0, VB_CM_READY, VB_CM_ESTABLISHED),
	PEERS(REP_SENT, VB_CM_REJ, 0, VB_CM_REJECTED, VB_CM_IDLE),
	PEERS(REP_SENT, VB_CM_MRA, 0, 0, VB_CM_REP_SENT),
	PEERS(REP_SENT, VB_CM_DREQ, 0, VB_CM_DISCONNECTED, VB_CM_DREQ_RCVD),
	PEERS(REP_SENT, DO_REJ, VB_CM_REJ, 0, VB_CM_IDLE),
	PEERS(REP_SENT, DO_DATA, 0, 0, VB_CM_ESTABLISHED),
	PEERS(REP_SENT, DO_CLOSE, VB_CM_REJ, 0, VB_CM_IDLE),
	PEERS(REP_SENT, TIME_AGAIN, VB_CM_REP, 0, VB_CM_REP_SENT),
	PEERS(REP_SENT, TIME_LAST, VB_CM_REJ, VB_CM_REPLY_LOST, VB_CM_IDLE),

	PEERS(REP_RCVD, VB_CM_REJ, 0, VB_CM_REJECTED, VB_CM_TIMEWAIT),
	PEERS(REP_RCVD, VB_CM_DREQ, 0, VB_CM_DISCONNECTED, VB_CM_DREQ_RCVD),
	PEERS(REP_RCVD, DO_RTU, VB_CM_RTU, 0, VB_CM_ESTABLISHED),
	PEERS(REP_RCVD, DO_REJ, VB_CM_REJ, 0, VB_CM_IDLE),
	PEERS(REP_RCVD, DO_MRA, VB_CM_MRA, 0, VB_CM_REP_RCVD),
	PEERS(REP_RCVD, DO_CLOSE, VB_CM_REJ, 0, VB_CM_IDLE),

	PEERS(REP_HELD, VB_CM_REP, VB_CM_MRA, 0, VB_CM_REP_RCVD),
	PEERS(REP_HELD, VB_CM_REJ, 0, VB_CM_REJECTED, VB_CM_TIMEWAIT),
	PEERS(REP_HELD, VB_CM_DREQ, 0, VB_CM_DISCONNECTED, VB_CM_DREQ_RCVD),
	PEERS(REP_HELD, DO_RTU, VB_CM_RTU, 0, VB_CM_ESTABLISHED),
	PEERS(REP_HELD, DO_REJ, VB_CM_REJ, 0, VB_CM_IDLE),
	PEERS(REP_HELD, DO_MRA, VB_CM_MRA, 0, VB_CM_REP_RCVD),
	PEERS(REP_HELD, DO_CLOSE, VB_CM_REJ, 0, VB_CM_IDLE),

	PEERS(OPEN_A, VB_CM_REP, VB_CM_RTU, 0, VB_CM_ESTABLISHED),
	PEERS(OPEN_A, VB_CM_REJ, 0, VB_CM_REJECTED, VB_CM_TIMEWAIT),
	PEERS(OPEN_A, VB_CM_DREQ, 0, VB_CM_DISCONNECTED, VB_CM_DREQ_RCVD),
	PEERS(OPEN_A, VB_CM_LAP, VB_CM_APR, 0, VB_CM_ESTABLISHED),
	PEERS(OPEN_A, DO_DISCONNECT, VB_CM_DREQ, 0, VB_CM_DREQ_SENT),
	PEERS(OPEN_A, DO_CLOSE, VB_CM_DREQ, 0, VB_CM_IDLE),

	PEERS(OPEN_P, VB_CM_REJ, 0, VB_CM_REJECTED, VB_CM_TIMEWAIT),
	PEERS(OPEN_P, VB_CM_DREQ, 0, VB_CM_DISCONNECTED, VB_CM_DREQ_RCVD),
	PEERS(OPEN_P, VB_CM_LAP, VB_CM_APR, 0, VB_CM_ESTABLISHED),
	PEERS(OPEN_P, DO_DISCONNECT, VB_CM_DREQ, 0, VB_CM_DREQ_SENT),
	PEERS(OPEN_P, DO_CLOSE, VB_CM_DREQ, 0, VB_CM_IDLE),

	PEERS(OPEN_EARLY, VB_CM_REJ, 0, VB_CM_REJECTED, VB_CM_TIMEWAIT),
	PEERS(OPEN_EARLY, VB_CM_DREQ, 0, VB_CM_DISCONNECTED, VB_CM_DREQ_RCVD),
	PEERS(OPEN_EARLY, VB_CM_LAP, VB_CM_APR, 0, VB_CM_ESTABLISHED),
	PEERS(OPEN_EARLY, DO_DISCONNECT, VB_CM_DREQ, 0, VB_CM_DREQ_SENT),
	PEERS(OPEN_EARLY, DO_CLOSE, VB_CM_DREQ, 0, VB_CM_IDLE),

	PEERS(DREQ_SENT, VB_CM_DREQ, VB_CM_DREP, VB_CM_DISCONNECTED, VB_CM_TIMEWAIT),
	PEERS(DREQ_SENT, VB_CM_DREP, 0, VB_CM_DISCONNECTED, VB_CM_TIMEWAIT),
	PEERS(DREQ_SENT, VB_CM_REJ, 0, VB_CM_DISCONNECTED, VB_CM_TIMEWAIT),
	PEERS(DREQ_SENT, DO_CLOSE, 0, 0, VB_CM_IDLE),
	PEERS(DREQ_SENT, TIME_AGAIN, VB_CM_DREQ, 0, VB_CM_DREQ_SENT),
	PEERS(DREQ_SENT, TIME_LAST, 0, VB_CM_DISCONNECTED, VB_CM_TIMEWAIT),

	PEERS(DREQ_RCVD, DO_DISCONNECT, VB_CM_DREP, 0, VB_CM_TIMEWAIT),
	PEERS(DREQ_RCVD, DO_CLOSE, VB_CM_DREP, 0, VB_CM_IDLE),

	PEERS(TIMEWAIT, VB_CM_DREQ, VB_CM_DREP, 0, VB_CM_TIMEWAIT),
	PEERS(TIMEWAIT, DO_CLOSE, 0, 0, VB_CM_IDLE),
	PEERS(TIMEWAIT, TIME_AGAIN, 0, VB_CM_TIMEWAIT_EXIT, VB_CM_IDLE),
	PEERS(TIMEWAIT, TIME_LAST, 0, VB_CM_TIMEWAIT_EXIT, VB_CM_IDLE),

	PEERS(REFUSED_P, VB_CM_REQ, VB_CM_REJ, 0, VB_CM_IDLE),
	PEERS(REFUSED_P, VB_CM_DREQ, VB_CM_DREP, 0, VB_CM_IDLE),
	PEERS(REFUSED_P, DO_REQ, VB_CM_REQ, 0, VB_CM_REQ_SENT),
	PEERS(REFUSED_P, DO_SIDR_REQ, VB_CM_SIDR_REQ, 0, VB_CM_SIDR_SENT),
	PEERS(REFUSED_P, DO_CLOSE, 0, 0, VB_CM_IDLE),

	ANYONE(REFUSED_A, VB_CM_REP, VB_CM_REJ, 0, VB_CM_IDLE),
	PEERS(REFUSED_A, VB_CM_DREQ, VB_CM_DREP, 0, VB_CM_IDLE),
	PEERS(REFUSED_A, DO_REQ, VB_CM_REQ, 0, VB_CM_REQ_SENT),
	PEERS(REFUSED_A, DO_SIDR_REQ, VB_CM_SIDR_REQ, 0, VB_CM_SIDR_SENT),
	PEERS(REFUSED_A, DO_CLOSE, 0, 0, VB_CM_IDLE),

	ANYONE(LATE, VB_CM_REP, VB_CM_REJ, 0, VB_CM_IDLE),
	PEERS(LATE, DO_REQ, VB_CM_REQ, 0, VB_CM_REQ_SENT),
	PEERS(LATE, DO_SIDR_REQ, VB_CM_SIDR_REQ, 0, VB_CM_SIDR_SENT),
	PEERS(LATE, DO_CLOSE, 0, 0, VB_CM_IDLE),

	ANYONE(OVER, VB_CM_REP, VB_CM_REJ, 0, VB_CM_IDLE),
	PEERS(OVER, VB_CM_DREQ, VB_CM_DREP, 0, VB_CM_IDLE),
	PEERS(OVER, DO_REQ, VB_CM_REQ, 0, VB_CM_REQ_SENT),
	PEERS(OVER, DO_SIDR_REQ, VB_CM_SIDR_REQ, 0, VB_CM_SIDR_SENT),
	PEERS(OVER, DO_CLOSE, 0, 0, VB_CM_IDLE),

	ANYONE(SIDR_SENT, VB_CM_SIDR_REP, 0, VB_CM_SIDR_ANSWERED, VB_CM_IDLE),
	PEERS(SIDR_SENT, DO_CLOSE, 0, 0, VB_CM_IDLE),
	PEERS(SIDR_SENT, TIME_AGAIN, VB_CM_SIDR_REQ, 0, VB_CM_SIDR_SENT),
	PEERS(SIDR_SENT, TIME_LAST, 0, VB_CM_UNREACHABLE, VB_CM_IDLE),

	PEERS(SIDR_RCVD, DO_SIDR_REP, VB_CM_SIDR_REP, 0, VB_CM_SIDR_RCVD),
	PEERS(SIDR_RCVD, DO_CLOSE, VB_CM_SIDR_REP, 0, VB_CM_IDLE),

	PEERS(SIDR_DONE, VB_CM_SIDR_REQ, VB_CM_SIDR_REP, 0, VB_CM_SIDR_RCVD),
	PEERS(SIDR_DONE, DO_CLOSE, 0, 0, VB_CM_IDLE),
};

/* ---- Making ---- */

static struct vb_cm_msg message(uint16_t attr, uint32_t sender)
{
	struct vb_cm_msg msg = {.attr = attr,
				.tid = TID,
				.local_id = sender,
				.remote_id = OWN,
				.qpn = PEER_QP,
				.ca_guid = GUID,
				.local_timeout = 10,
				.remote_timeout = 10,
				.service_timeout = 8,
				.path.ack_timeout = LIFE};

	if (attr == VB_CM_DREQ)
		msg.qpn = OWN_QP;
	if (attr == VB_CM_SIDR_REP)
		msg.local_id = OWN;
	return msg;
}

static struct vb_cm_out take(struct vb_cm_conn *c, uint16_t attr)
{
	struct vb_cm_msg msg = message(attr, PEER);
	struct vb_cm_out out;

	vb_cm_receive(c, &msg, NOW, &out);
	return out;
}

static bool call(struct vb_cm_conn *c, enum happens what, struct vb_cm_out *out)
{
	struct vb_cm_msg msg = {.qpn = OWN_QP,
				.remote_timeout = 10,
				.path.ack_timeout = LIFE,
				.reason = VB_CM_REJ_CONSUMER,
				.service_timeout = 9,
				.private_data = "said"};

	memset(out, 0, sizeof(*out));
	switch (what) {
	case DO_REQ:
		return vb_cm_send_req(c, &msg, NOW, out);
	case DO_REP:
		return vb_cm_send_rep(c, &msg, NOW, out);
	case DO_RTU:
		return vb_cm_send_rtu(c, &msg, out);
	case DO_REJ:
		return vb_cm_send_rej(c, &msg, out);
	case DO_MRA:
		return vb_cm_send_mra(c, &msg, out);
	case DO_DISCONNECT:
		return vb_cm_disconnect(c, &msg, NOW, out);
	case DO_DATA:
		return vb_cm_data_came(c);
	case DO_SIDR_REQ:
		return vb_cm_send_sidr_req(c, &msg, NOW, out);
	case DO_SIDR_REP:
		return vb_cm_send_sidr_rep(c, &msg, out);
	default:
		return false;
	}
}

static void do_it(struct vb_cm_conn *c, enum happens what)
{
	struct vb_cm_out out;

	assert_true(call(c, what, &out));
}

/* The last repetition has gone unanswered. */
static struct vb_cm_out give_up(struct vb_cm_conn *c)
{
	struct vb_cm_out out = {0};

	for (int i = 0; i <= VB_CM_RETRIES; i++)
		vb_cm_expire(c, c->due_ns, &out);
	return out;
}

static void ask_to(struct vb_cm_conn *c)
{
	struct vb_cm_msg req = message(VB_CM_REQ, PEER);

	vb_cm_take_req(c, &req);
}

static void make_active(struct vb_cm_conn *c, enum start start)
{
	do_it(c, DO_REQ);
	if (start == REQ_SENT)
		return;
	if (start == LATE) {
		give_up(c);
		return;
	}
	take(c, VB_CM_REP);
	if (start == REP_HELD)
		do_it(c, DO_MRA);
	if (start == REFUSED_A)
		do_it(c, DO_REJ);
	if (start == REP_RCVD || start == REP_HELD || start == REFUSED_A)
		return;
	do_it(c, DO_RTU);
	if (start == OPEN_A)
		return;
	do_it(c, DO_DISCONNECT);
	if (start == DREQ_SENT)
		return;
	take(c, VB_CM_DREP);
	if (start == OVER) {
		struct vb_cm_out out;

		vb_cm_expire(c, c->due_ns, &out);
	}
}

static void make_passive(struct vb_cm_conn *c, enum start start)
{
	ask_to(c);
	if (start == REQ_HELD)
		do_it(c, DO_MRA);
	if (start == REFUSED_P)
		do_it(c, DO_REJ);
	if (start == REQ_RCVD || start == REQ_HELD || start == REFUSED_P)
		return;
	do_it(c, DO_REP);
	if (start == REP_SENT)
		return;
	if (start == OPEN_EARLY)
		do_it(c, DO_DATA);
	else
		take(c, VB_CM_RTU);
	if (start == DREQ_RCVD)
		take(c, VB_CM_DREQ);
}

static void make(struct vb_cm_conn *c, enum start start)
{
	struct vb_cm_msg req = message(VB_CM_SIDR_REQ, PEER);

	memset(c, 0, sizeof(*c));
	c->local_id = OWN;
	switch (start) {
	case FRESH:
		break;
	case REQ_RCVD:
	case REQ_HELD:
	case REP_SENT:
	case OPEN_P:
	case OPEN_EARLY:
	case DREQ_RCVD:
	case REFUSED_P:
		make_passive(c, start);
		break;
	case SIDR_SENT:
		do_it(c, DO_SIDR_REQ);
		break;
	case SIDR_RCVD:
	case SIDR_DONE:
		vb_cm_take_sidr_req(c, &req);
		if (start == SIDR_DONE)
			do_it(c, DO_SIDR_REP);
		break;
	default:
		make_active(c, start);
	}
}

/* ---- The table ---- */

static char where[80];
#define HOLDS(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			fail_msg("%s: %s", where, #condition);                                     \
	} while (0)

static const struct cell *find(enum start from, int on)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (table[i].from == from && table[i].on == on)
			return &table[i];
	return NULL;
}

static void step(struct vb_cm_conn *c, int on, uint32_t sender, bool *done, struct vb_cm_out *out)
{
	struct vb_cm_msg msg = message((uint16_t)on, sender);

	*done = true;
	switch (on) {
	case DO_CLOSE:
		vb_cm_close(c, out);
		break;
	case TIME_EARLY:
		vb_cm_expire(c, c->due_ns ? c->due_ns - 1 : UINT64_MAX, out);
		break;
	case TIME_AGAIN:
		vb_cm_expire(c, c->due_ns, out);
		break;
	case TIME_LAST:
		c->retries = 0;
		vb_cm_expire(c, c->due_ns, out);
		break;
	default:
		if (on > VB_CM_APR)
			*done = call(c, (enum happens)on, out);
		else
			vb_cm_receive(c, &msg, NOW + 1, out);
	}
}

static void check_sent(const struct cell *cell, uint32_t sender, const struct vb_cm_out *out)
{
	bool to_service = cell->sends == VB_CM_REQ || cell->sends == VB_CM_SIDR_REQ;
	struct vb_cm_msg msg;

	HOLDS(vb_cm_parse(out->bytes, VB_MAD_LEN, &msg));
	HOLDS(msg.attr == (cell->sends));
	HOLDS(msg.local_id == (cell->sends == VB_CM_SIDR_REP ? PEER : OWN));
	if (to_service || cell->sends == VB_CM_SIDR_REP || cell->from == REQ_SENT)
		HOLDS(msg.remote_id == 0);
	else
		HOLDS(msg.remote_id == sender);
	if (cell->sends == VB_CM_DREQ)
		HOLDS(msg.qpn == PEER_QP);
	if (cell->sends == VB_CM_REQ || cell->sends == VB_CM_REP)
		HOLDS(msg.qpn == OWN_QP);
	if (cell->sends == VB_CM_APR)
		HOLDS(msg.status == VB_CM_APR_NOT_SUPPORTED);
	if (cell->on <= VB_CM_APR && cell->from != REFUSED_A && cell->sends != VB_CM_RTU &&
	    cell->sends != VB_CM_MRA)
		HOLDS(msg.tid == TID);
}

static void check_cell(enum start from, int on, uint32_t sender)
{
	const struct cell *cell = find(from, on);
	struct vb_cm_conn c, before;
	struct vb_cm_out out;
	bool done;

	snprintf(where, sizeof(where), "%s <- %s%s", starts[from], ends[on - VB_CM_REQ],
		 sender == OTHER ? " of another" : "");
	make(&c, from);
	before = c;
	if (sender == OTHER && cell && !cell->anyone)
		cell = NULL;
	step(&c, on, sender, &done, &out);
	if (!cell) {
		if (on == TIME_LAST)
			before.retries = 0;
		HOLDS(!(done && on > VB_CM_APR && on < DO_CLOSE));
		HOLDS(!(out.send));
		HOLDS(out.what == VB_CM_NOTHING);
		HOLDS(!memcmp(&c, &before, sizeof(c)));
		return;
	}
	HOLDS(done);
	HOLDS(out.send == (cell->sends != 0));
	HOLDS(out.what == (cell->tells));
	HOLDS(c.state == (cell->to));
	if (cell->sends)
		check_sent(cell, sender, &out);
}

static void every_state_meets_everything(void **state)
{
	(void)state;
	for (int from = 0; from < STARTS; from++)
		for (int on = VB_CM_REQ; on < ENDS; on++)
			for (int who = 0; who < (on <= VB_CM_APR ? 2 : 1); who++)
				check_cell((enum start)from, on, who ? OTHER : PEER);
}

/* A row nothing reaches would be a test that cannot fail. */
static void rows_are_unique(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		assert_ptr_equal(find(table[i].from, table[i].on), &table[i]);
}

static void unknown_messages_change_nothing(void **state)
{
	static const uint16_t attrs[] = {0, 1, VB_CM_REQ - 1, VB_CM_APR + 1, 0xffff};
	struct vb_cm_conn c, before;

	(void)state;
	for (int from = 0; from < STARTS; from++)
		for (size_t i = 0; i < sizeof(attrs) / sizeof(attrs[0]); i++) {
			struct vb_cm_out out;

			make(&c, (enum start)from);
			before = c;
			out = take(&c, attrs[i]);
			assert_false(out.send);
			assert_int_equal(out.what, VB_CM_NOTHING);
			assert_memory_equal(&c, &before, sizeof(c));
		}
}

/* ---- Time ---- */

static void check_repeats(enum start start, uint16_t attr, uint64_t most)
{
	uint64_t wait = UINT64_C(268435456), now;
	struct vb_cm_out first, out;
	struct vb_cm_conn c;

	make(&c, start);
	now = NOW;
	memcpy(first.bytes, c.last, VB_MAD_LEN);
	for (int i = 0; i < VB_CM_RETRIES; i++) {
		struct vb_cm_msg msg;

		assert_int_equal(c.due_ns - now, wait < most ? wait : most);
		wait *= 2;
		now = c.due_ns;
		vb_cm_expire(&c, now, &out);
		assert_true(out.send);
		assert_int_equal(out.what, VB_CM_NOTHING);
		/* The very same message. */
		assert_memory_equal(out.bytes, first.bytes, VB_MAD_LEN);
		assert_true(vb_cm_parse(out.bytes, VB_MAD_LEN, &msg));
		assert_int_equal(msg.attr, attr);
	}
	vb_cm_expire(&c, c.due_ns, &out);
	assert_int_not_equal(out.what, VB_CM_NOTHING);
}

static void questions_are_repeated_ever_more_slowly(void **state)
{
	const uint64_t most = UINT64_C(4096) << 10;

	(void)state;
	check_repeats(REQ_SENT, VB_CM_REQ, most);
	check_repeats(REP_SENT, VB_CM_REP, most);
	check_repeats(DREQ_SENT, VB_CM_DREQ, most);
	check_repeats(SIDR_SENT, VB_CM_SIDR_REQ, UINT64_C(4096) << VB_CM_RESPONSE_TIMEOUT);
}

static void a_time_out_is_said_with_its_reason(void **state)
{
	struct vb_cm_conn c;
	struct vb_cm_out out;
	struct vb_cm_msg msg;

	(void)state;
	make(&c, REQ_SENT);
	out = give_up(&c);
	assert_int_equal(out.what, VB_CM_UNREACHABLE);
	assert_true(vb_cm_parse(out.bytes, VB_MAD_LEN, &msg));
	assert_int_equal(msg.reason, VB_CM_REJ_TIMEOUT);
	assert_int_equal(c.due_ns, 0);

	make(&c, REP_SENT);
	out = give_up(&c);
	assert_int_equal(out.what, VB_CM_REPLY_LOST);
	assert_true(vb_cm_parse(out.bytes, VB_MAD_LEN, &msg));
	assert_int_equal(msg.reason, VB_CM_REJ_TIMEOUT);
	assert_int_equal(msg.remote_id, PEER);
}

static void an_mra_gives_its_sender_time(void **state)
{
	const uint64_t wait = (UINT64_C(4096) << 8) + (UINT64_C(4096) << 10);
	struct vb_cm_msg mra = message(VB_CM_MRA, PEER);
	struct vb_cm_conn c, before;
	struct vb_cm_out out;

	(void)state;
	for (int i = 0; i < 2; i++) {
		make(&c, i ? REP_SENT : REQ_SENT);
		c.retries = 1;
		before = c;
		/* About the other message: not meant. */
		mra.about = i ? VB_CM_ABOUT_REQ : VB_CM_ABOUT_REP;
		vb_cm_receive(&c, &mra, NOW + 5, &out);
		assert_memory_equal(&c, &before, sizeof(c));
		mra.about = i ? VB_CM_ABOUT_REP : VB_CM_ABOUT_REQ;
		vb_cm_receive(&c, &mra, NOW + 5, &out);
		assert_int_equal(c.due_ns, NOW + 5 + wait);
		assert_int_equal(c.retries, VB_CM_RETRIES);
	}
}

static void an_mra_says_what_it_is_about(void **state)
{
	struct vb_cm_conn c;
	struct vb_cm_out out;
	struct vb_cm_msg msg;

	(void)state;
	for (int i = 0; i < 2; i++) {
		make(&c, i ? REP_RCVD : REQ_RCVD);
		assert_true(call(&c, DO_MRA, &out));
		assert_true(vb_cm_parse(out.bytes, VB_MAD_LEN, &msg));
		assert_int_equal(msg.about, i ? VB_CM_ABOUT_REP : VB_CM_ABOUT_REQ);
		assert_int_equal(msg.service_timeout, 9);
	}
}

static void time_wait_lasts_two_packet_lives(void **state)
{
	struct vb_cm_conn c;
	struct vb_cm_out out;

	(void)state;
	make(&c, DREQ_SENT);
	take(&c, VB_CM_DREP);
	assert_int_equal(c.due_ns, NOW + (UINT64_C(4096) << (LIFE + 1)));
	vb_cm_expire(&c, c.due_ns, &out);
	vb_cm_expire(&c, UINT64_MAX, &out);
	assert_int_equal(out.what, VB_CM_NOTHING);

	make(&c, DREQ_RCVD);
	assert_true(call(&c, DO_DISCONNECT, &out));
	assert_int_equal(c.due_ns, NOW + (UINT64_C(4096) << (LIFE + 1)));
}

/* ---- Contents ---- */

static void private_data_travels(void **state)
{
	static const struct {
		enum start start;
		enum happens call;
		uint16_t attr;
	} rows[] = {
		{FRESH, DO_REQ, VB_CM_REQ},	      {REQ_RCVD, DO_REP, VB_CM_REP},
		{REP_RCVD, DO_RTU, VB_CM_RTU},	      {REQ_RCVD, DO_REJ, VB_CM_REJ},
		{REP_RCVD, DO_REJ, VB_CM_REJ},	      {REQ_RCVD, DO_MRA, VB_CM_MRA},
		{OPEN_A, DO_DISCONNECT, VB_CM_DREQ},  {DREQ_RCVD, DO_DISCONNECT, VB_CM_DREP},
		{FRESH, DO_SIDR_REQ, VB_CM_SIDR_REQ}, {SIDR_RCVD, DO_SIDR_REP, VB_CM_SIDR_REP},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct vb_cm_conn c;
		struct vb_cm_out out;
		struct vb_cm_msg msg;

		make(&c, rows[i].start);
		assert_true(call(&c, rows[i].call, &out));
		assert_true(vb_cm_parse(out.bytes, VB_MAD_LEN, &msg));
		assert_int_equal(msg.attr, rows[i].attr);
		assert_string_equal((char *)msg.private_data, "said");
		assert_memory_equal(out.bytes, c.last, VB_MAD_LEN);
	}
}

static void a_rejection_says_what_it_rejects(void **state)
{
	static const struct {
		enum start start;
		uint8_t about;
	} rows[] = {{REQ_RCVD, VB_CM_ABOUT_REQ},
		    {REP_RCVD, VB_CM_ABOUT_REP},
		    {REQ_SENT, VB_CM_ABOUT_OTHER},
		    {REP_SENT, VB_CM_ABOUT_OTHER}};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct vb_cm_conn c;
		struct vb_cm_out out;
		struct vb_cm_msg msg;

		make(&c, rows[i].start);
		assert_true(call(&c, DO_REJ, &out));
		assert_true(vb_cm_parse(out.bytes, VB_MAD_LEN, &msg));
		assert_int_equal(msg.about, rows[i].about);
		assert_int_equal(msg.reason, VB_CM_REJ_CONSUMER);
	}
}

static void close_says_why(void **state)
{
	static const struct {
		enum start start;
		uint16_t reason;
	} rows[] = {{REQ_SENT, VB_CM_REJ_TIMEOUT},
		    {REP_SENT, VB_CM_REJ_TIMEOUT},
		    {REQ_RCVD, VB_CM_REJ_CONSUMER},
		    {REP_RCVD, VB_CM_REJ_CONSUMER}};
	struct vb_cm_conn c;
	struct vb_cm_out out;
	struct vb_cm_msg msg;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		make(&c, rows[i].start);
		vb_cm_close(&c, &out);
		assert_true(vb_cm_parse(out.bytes, VB_MAD_LEN, &msg));
		assert_int_equal(msg.reason, rows[i].reason);
		assert_int_equal(c.due_ns, 0);
		vb_cm_close(&c, &out);
		assert_false(out.send);
	}
	make(&c, SIDR_RCVD);
	vb_cm_close(&c, &out);
	assert_true(vb_cm_parse(out.bytes, VB_MAD_LEN, &msg));
	assert_int_equal(msg.status, VB_CM_SIDR_REJECT);
}

static void what_the_peer_said_is_kept(void **state)
{
	struct vb_cm_conn c;

	(void)state;
	make(&c, REP_RCVD);
	assert_int_equal(c.remote_id, PEER);
	assert_int_equal(c.peer_qpn, PEER_QP);
	assert_int_equal(c.peer_guid, GUID);
	make(&c, REQ_RCVD);
	assert_int_equal(c.remote_id, PEER);
	assert_int_equal(c.peer_qpn, PEER_QP);
	assert_int_equal(c.peer_guid, GUID);
	assert_int_equal(c.tid, TID);
}

/* Told by somebody else of its host that the peer is not there: as its DREQ would have been. */
static void a_peer_that_is_not_there_has_ended(void **state)
{
	static const enum start open[] = {OPEN_A, OPEN_P, OPEN_EARLY};

	(void)state;
	for (size_t i = 0; i < sizeof(open) / sizeof(open[0]); i++) {
		struct vb_cm_msg rej = message(VB_CM_REJ, PEER);
		struct vb_cm_conn c;
		struct vb_cm_out out;

		make(&c, open[i]);
		rej.about = VB_CM_ABOUT_OTHER;
		rej.reason = VB_CM_REJ_INVALID_COMM_ID;
		rej.local_id = OTHER;
		vb_cm_receive(&c, &rej, NOW, &out);
		assert_int_equal(out.what, VB_CM_NOTHING);
		rej.local_id = PEER;
		vb_cm_receive(&c, &rej, NOW, &out);
		assert_int_equal(out.what, VB_CM_DISCONNECTED);
		assert_false(out.send);
		assert_int_equal(c.state, VB_CM_DREQ_RCVD);
		assert_true(vb_cm_disconnect(&c, NULL, NOW, &out));
		assert_int_equal(c.state, VB_CM_TIMEWAIT);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_are_unique),
		cmocka_unit_test(every_state_meets_everything),
		cmocka_unit_test(unknown_messages_change_nothing),
		cmocka_unit_test(questions_are_repeated_ever_more_slowly),
		cmocka_unit_test(a_time_out_is_said_with_its_reason),
		cmocka_unit_test(an_mra_gives_its_sender_time),
		cmocka_unit_test(an_mra_says_what_it_is_about),
		cmocka_unit_test(time_wait_lasts_two_packet_lives),
		cmocka_unit_test(private_data_travels),
		cmocka_unit_test(a_rejection_says_what_it_rejects),
		cmocka_unit_test(close_says_why),
		cmocka_unit_test(what_the_peer_said_is_kept),
		cmocka_unit_test(a_peer_that_is_not_there_has_ended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The conversations of the captures, with one end replaced by our machines: the responder answers
 * the captured requests with the captured answers, byte for byte; the requester makes the captured
 * requests of the same work requests, fed with the captured answers. What the standard leaves open
 * is not compared: MigReq, and when an acknowledgement is asked for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/capture.h"
#include "lib/fake_env.h"
#include "transport/rc_comp.h"
#include "transport/rc_req.h"
#include "transport/rc_resp.h"
#include "wire/icrc.h"

#define MTU	1024
#define RING	256
#define ROOM	512
#define RECEIVE (64 << 10)
#define PD	5
#define MIGREQ	0x40 /* of the BTH's second byte */
#define ACK_REQ 0x80 /* of its ninth */

enum { ANSWERS, REQUESTS };

struct seen {
	bool from_second;    /* the host whose packet is not the first */
	bool request, again; /* a request that was sent before */
	const uint8_t *bytes;
	struct vb_packet pkt;
	const struct vb_op_row *op;
};

static struct seen seen[CAPTURE_FRAMES];
static size_t n_seen;
/* What a side repeats because of its timer, only the responder is given. */
static bool sent_before(const struct seen *s)
{
	for (const struct seen *before = seen; before < s; before++)
		if (before->request && before->from_second == s->from_second &&
		    before->pkt.psn == s->pkt.psn)
			return true;
	return false;
}

static struct vb_out_record records[ROOM];
static struct vb_out out;

/* The packets of RC. */
static void load(struct capture *cap, const char *name)
{
	const uint8_t *first = NULL;

	n_seen = 0;
	capture_load(name, cap);
	for (size_t i = 0; i < cap->count; i++) {
		const uint8_t *ip = cap->frame[i].ip;
		size_t at = ip[0] >> 4 == 6 ? 8 : 12, len = ip[0] >> 4 == 6 ? 16 : 4;
		struct seen *s = &seen[n_seen];
		uint32_t crc = 0;
		size_t skip = vb_icrc_headers(ip, cap->frame[i].len, &crc);

		s->bytes = ip + skip;
		assert_int_equal(vb_packet_parse(s->bytes, cap->frame[i].len - skip, &s->pkt),
				 VB_PARSE_OK);
		s->op = vb_op_row(s->pkt.opcode);
		if (s->op->service != VB_SVC_RC)
			continue;
		if (!first)
			first = ip;
		s->from_second = memcmp(ip + at, first + at, len) != 0;
		s->request = vb_op_is_request(s->op);
		s->again = s->request && sent_before(s);
		n_seen++;
	}
}

/* Is it what this side of the connection whose requester is there has sent? */
static bool part(const struct seen *s, bool second_asks, int what)
{
	return s->request == (what == REQUESTS) &&
	       s->from_second == (what == REQUESTS ? second_asks : !second_asks);
}

static const struct seen *next(size_t *at, bool second_asks, int what)
{
	while (*at < n_seen)
		if (part(&seen[(*at)++], second_asks, what))
			return &seen[*at - 1];
	return NULL;
}

/* Of the requests, in the order in which they were sent for the first time. */
static const struct seen *next_new(size_t *at, bool second_asks)
{
	const struct seen *s;

	do
		s = next(at, second_asks, REQUESTS);
	while (s && s->again);
	return s;
}

static void same(const struct vb_out_packet *ours, const struct seen *s, int what)
{
	uint8_t bytes[VB_HDR_MAX], want[VB_HDR_MAX];
	size_t n = vb_packet_build(&ours->hdr, bytes, sizeof(bytes));

	assert_non_null(s);
	assert_int_equal(n, s->op->length);
	memcpy(want, s->bytes, n);
	bytes[1] &= (uint8_t)~MIGREQ;
	want[1] &= (uint8_t)~MIGREQ;
	if (what == REQUESTS) {
		bytes[8] &= (uint8_t)~ACK_REQ;
		want[8] &= (uint8_t)~ACK_REQ;
	}
	assert_memory_equal(bytes, want, n);
	assert_int_equal(ours->hdr.payload_len, s->pkt.payload_len);
}

/* ---- Our responder ---- */

struct memory {
	struct fake_env env;
	uint8_t *bytes;
	uint64_t base;
	size_t size;
	uint8_t receive[RECEIVE];
};

static uint64_t touches(const struct vb_packet *pkt, const struct vb_op_row *op)
{
	return vb_op_is_atomic(op) ? 8 : op->headers & VB_HDR_RETH ? pkt->dma_len : 0;
}

/* All that the requests touch, under all their keys. */
static void make_memory(struct memory *m, bool second_asks)
{
	uint64_t low = UINT64_MAX, high = 0;
	const struct seen *s;
	size_t at = 0;

	while ((s = next(&at, second_asks, REQUESTS))) {
		uint64_t bytes = touches(&s->pkt, s->op);

		if (bytes && s->pkt.va < low)
			low = s->pkt.va;
		if (bytes && s->pkt.va + bytes > high)
			high = s->pkt.va + bytes;
	}
	m->base = high ? low : 0;
	m->size = high ? high - low : 0;
	assert_true(m->size < 1 << 24);
	m->bytes = calloc(1, m->size + 1);
	assert_non_null(m->bytes);
	fake_init(&m->env, m->bytes, m->base, m->size);
	for (at = 0; (s = next(&at, second_asks, REQUESTS));) {
		bool known = false;

		for (int i = 0; i < FAKE_KEYS; i++)
			known = known || m->env.keys[i].rkey == s->pkt.rkey;
		if (touches(&s->pkt, s->op) && !known)
			fake_key(&m->env, s->pkt.rkey, PD, 15, m->base, m->size);
	}
}

/* What a READ or atomic found at the captured responder stands in our memory, too. */
static void fill_memory(struct memory *m, const struct seen *request, bool second_asks)
{
	const struct seen *s;
	size_t at = (size_t)(request - seen);
	uint64_t bytes = touches(&request->pkt, request->op);
	uint8_t *to = m->bytes + (request->pkt.va - m->base);

	if (request->op->kind < VB_OP_READ)
		return;
	while ((s = next(&at, second_asks, ANSWERS))) {
		int32_t n = vb_psn_diff(vb_psn(s->pkt.psn), vb_psn(request->pkt.psn));

		if (n == 0 && s->op->kind == VB_OP_ATOMIC_ACK)
			memcpy(to, &s->pkt.atomic_orig, 8);
		else if (n >= 0 && (uint64_t)n * MTU < bytes && s->op->kind == VB_OP_READ_RESP)
			memcpy(to + n * MTU, s->pkt.payload, s->pkt.payload_len);
	}
}

static void same_data(struct memory *m, const struct vb_out_packet *p, const struct seen *s)
{
	uint8_t data[MTU] = {0};

	if (p->from != VB_PAYLOAD_TARGET)
		return;
	assert_int_equal(
		fake_resp_env.copy_out(&m->env, &p->target, p->offset, data, p->hdr.payload_len),
		VB_COPY_OK);
	assert_memory_equal(data, s->pkt.payload, s->pkt.payload_len);
}

static void replay_responder(bool second_asks)
{
	static struct memory m;
	struct vb_source src = {.has_gid = true, .gid = {1}};
	struct vb_rc_resp rs;
	struct vb_resp_qp qp = {.state = VB_QPS_RTS,
				.type = VB_QPT_RC,
				.pd = PD,
				.access = 15,
				.path_mtu = MTU,
				.dest_gid = {1},
				.max_dest_rd_atomic = VB_RD_ATOMIC_MAX};
	const struct seen *s;
	size_t at = 0, answer = 0, asked = 0;

	s = next(&answer, second_asks, ANSWERS);
	qp.dest_qpn = s ? s->pkt.dest_qpn : 0;
	s = next(&asked, second_asks, REQUESTS);
	if (!s)
		return;
	qp.epsn = vb_psn(s->pkt.psn);
	qp.qpn = s->pkt.dest_qpn;
	answer = 0;
	vb_rc_resp_init(&rs);
	make_memory(&m, second_asks);
	while ((s = next(&at, second_asks, REQUESTS))) {
		fake_post_recv(&m.env, at, m.receive, RECEIVE);
		fill_memory(&m, s, second_asks);
		out.count = 0;
		assert_int_equal(
			vb_rc_resp_packet(&rs, &qp, &fake_resp_env, &m.env, &s->pkt, &src, &out),
			s->again ? VB_V_DUPLICATE : VB_V_ACCEPTED);
		out.count = 0;
		assert_false(vb_rc_resp_run(&rs, &qp, &fake_resp_env, &m.env, ROOM, &out));
		for (uint32_t i = 0; i < out.count; i++) {
			const struct seen *want = next(&answer, second_asks, ANSWERS);

			assert_int_equal(records[i].kind, VB_OUT_PACKET);
			same(&records[i].packet, want, ANSWERS);
			same_data(&m, &records[i].packet, want);
		}
	}
	assert_null(next(&answer, second_asks, ANSWERS));
	free(m.bytes);
}

/* ---- Our requester ---- */

struct sender {
	struct vb_rc_sq sq;
	struct vb_rc_wqe ring[RING];
	struct fake_env env;
	uint8_t *local;
	size_t sent; /* in seen[], of the requests */
	uint32_t ended;
};

/* The work request of a message that begins with this packet. */
static void post(struct sender *r, const struct seen *s, bool second_asks)
{
	struct vb_rc_wqe *wqe = &r->ring[r->sq.tail & (RING - 1)];
	uint32_t i = r->sq.tail & (RING - 1);
	size_t at = (size_t)(s - seen);
	const struct seen *p;

	*wqe = (struct vb_rc_wqe){.kind = (enum vb_msg_kind)s->op->kind,
				  .signaled = true,
				  .rkey = s->pkt.rkey,
				  .remote_addr = s->pkt.va,
				  .compare_add = s->pkt.swap_add,
				  .length = touches(&s->pkt, s->op)};
	if (s->op->kind == VB_OP_CMP_SWP) {
		wqe->compare_add = s->pkt.compare;
		wqe->swap = s->pkt.swap_add;
	}
	while ((p = next_new(&at, second_asks))) {
		if (s->op->kind == VB_OP_SEND)
			wqe->length += p->pkt.payload_len;
		if (!vb_op_is_last(p->op))
			continue;
		wqe->solicited = p->pkt.solicited;
		wqe->with_imm = p->op->extra == VB_EXTRA_IMM;
		wqe->imm = p->pkt.imm;
		break;
	}
	assert_true(wqe->length <= RECEIVE);
	r->env.local[i] = r->local;
	r->env.local_len[i] = RECEIVE;
	vb_rc_sq_posted(&r->sq);
}

static void take_output(struct sender *r, bool second_asks)
{
	for (uint32_t i = 0; i < out.count; i++) {
		if (records[i].kind == VB_OUT_PACKET)
			same(&records[i].packet, next_new(&r->sent, second_asks), REQUESTS);
		if (records[i].kind == VB_OUT_SENT) {
			assert_int_equal(records[i].sent.status, VB_WC_SUCCESS);
			r->ended++;
		}
	}
	out.count = 0;
}

static void run_sender(struct sender *r, bool second_asks)
{
	out.count = 0;
	assert_false(vb_rc_req_run(&r->sq, r->ring, &fake_req_env, &r->env, 1, ROOM, &out));
	take_output(r, second_asks);
}

static bool answered_before(const struct seen *s)
{
	for (const struct seen *before = seen; before < s; before++)
		if (!before->request && before->from_second == s->from_second &&
		    before->pkt.psn == s->pkt.psn)
			return true;
	return false;
}

static void replay_requester(bool second_asks)
{
	static struct sender r;
	struct vb_resp_qp qp = {.dest_gid = {1}};
	struct vb_source src = {.has_gid = true, .gid = {1}};
	struct vb_rc_sq_attr attr = {.ring_mask = RING - 1,
				     .path_mtu = MTU,
				     .pkey = VB_PKEY_DEFAULT,
				     .max_rd_atomic = VB_RD_ATOMIC_MAX,
				     .timeout = 14,
				     .retry_cnt = 7,
				     .window = RING};
	const struct seen *s;
	enum vb_verdict v;
	size_t at = 0;

	s = next_new(&at, second_asks);
	if (!s)
		return;
	attr.psn = vb_psn(s->pkt.psn);
	attr.dest_qpn = s->pkt.dest_qpn;
	memset(&r, 0, sizeof(r));
	r.local = calloc(1, RECEIVE);
	assert_non_null(r.local);
	fake_init(&r.env, NULL, 0, 0);
	vb_rc_sq_init(&r.sq, &attr);
	for (at = 0; (s = next_new(&at, second_asks));)
		if (vb_op_is_first(s->op))
			post(&r, s, second_asks);
	run_sender(&r, second_asks);
	for (at = 0; (s = next(&at, second_asks, ANSWERS));) {
		v = vb_rc_comp_packet(&r.sq, r.ring, &qp, &fake_req_env, &r.env, &s->pkt, &src, 1,
				      &out);
		assert_true(v == VB_V_ACCEPTED || (v == VB_V_ACK_STALE && answered_before(s)));
		take_output(&r, second_asks);
		run_sender(&r, second_asks);
	}
	assert_null(next_new(&r.sent, second_asks));
	assert_int_equal(r.ended, r.sq.tail);
	free(r.local);
}

static void test_conversations(void **state)
{
	static const char *const names[] = {
		"rc-pingpong.pcap",  "send.pcap",	"write.pcap",
		"read.pcap",	     "atomic-cas.pcap", "atomic-fadd.pcap",
		"write-lat-64.pcap", "rping.pcap",	"ipv6-gid.pcap",
	};
	struct capture cap = {0};

	out = (struct vb_out){records, ROOM, 0};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		print_message("%s\n", names[i]);
		load(&cap, names[i]);
		assert_true(n_seen > 0);
		for (int second = 0; second < 2; second++) {
			replay_responder(second);
			replay_requester(second);
		}
		capture_free(&cap);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_conversations)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "lib/resp_rows.h"
#include "transport/rc_resp.h"

static struct row_bed bed;
static struct vb_rc_resp rs;
static struct vb_out_record records[16];
static struct vb_out out;

static void setup(enum vb_msg_kind kind)
{
	row_bed_init(&bed, kind);
	vb_rc_resp_init(&rs);
	out = (struct vb_out){records, 16, 0};
}

/* The message of the bed as its first or only packet. */
static struct vb_packet packet(enum vb_op_pos pos)
{
	const struct vb_msg *msg = &bed.msg;
	struct vb_packet pkt = {
		.ack_req = true,
		.solicited = msg->solicited,
		.pkey = VB_PKEY_DEFAULT,
		.dest_qpn = bed.qp.qpn,
		.psn = msg->psn.v,
		.va = msg->remote_addr,
		.rkey = msg->rkey,
		.dma_len = (uint32_t)msg->length,
		.swap_add = msg->kind == VB_MSG_CMP_SWP ? msg->swap : msg->compare_add,
		.compare = msg->kind == VB_MSG_CMP_SWP ? msg->compare_add : 0,
		.imm = msg->imm,
		.inv_rkey = msg->inv_rkey,
		.payload = bed.payload,
	};

	assert_true(vb_op_find(VB_SVC_RC, (enum vb_op_kind)msg->kind, pos,
			       msg->with_imm   ? VB_EXTRA_IMM
			       : msg->with_inv ? VB_EXTRA_INV
					       : VB_EXTRA_NONE,
			       &pkt.opcode));
	if (vb_op_row(pkt.opcode)->payload)
		pkt.payload_len = (uint32_t)msg->length;
	return pkt;
}

static enum vb_verdict give(const struct vb_packet *pkt)
{
	out.count = 0;
	return vb_rc_resp_packet(&rs, &bed.qp, &fake_resp_env, &bed.env, pkt, &bed.msg.src, &out);
}

/* A packet at the expected PSN. */
static enum vb_verdict give_next(enum vb_op_pos pos, uint32_t len)
{
	struct vb_packet pkt = packet(pos);

	pkt.psn = bed.qp.epsn.v;
	if (vb_op_row(pkt.opcode)->payload)
		pkt.payload_len = len;
	return give(&pkt);
}

static const struct vb_out_record *find(enum vb_out_kind kind)
{
	for (uint32_t i = 0; i < out.count; i++)
		if (records[i].kind == kind)
			return &records[i];
	return NULL;
}

static const struct vb_packet *answer(void)
{
	out.count = 0;
	assert_false(vb_rc_resp_run(&rs, &bed.qp, &fake_resp_env, &bed.env, 16, &out));
	assert_true(out.count <= 1);
	return out.count ? &records[0].packet.hdr : NULL;
}

static void check_answer(const struct resp_row *row)
{
	const struct vb_verdict_row *v = vb_verdict_row(row->verdict);
	const struct vb_packet *a = answer();

	if (v->cls == VB_VC_SILENT) {
		assert_null(a);
		return;
	}
	/* The data of a READ is fetched by whoever sends. */
	assert_non_null(a);
	assert_int_equal(a->dest_qpn, 0x31);
	if (v->cls == VB_VC_OK) {
		assert_int_equal(a->psn, ROW_PSN);
		assert_int_equal(a->aeth_type, VB_AETH_ACK);
		assert_int_equal(a->aeth_value, VB_AETH_NO_CREDITS);
		assert_int_equal(a->msn, 0);
	} else if (v->cls == VB_VC_DUPLICATE) {
		assert_int_equal(a->psn, bed.qp.epsn.v - 1);
		assert_int_equal(a->aeth_type, VB_AETH_ACK);
	} else {
		assert_int_equal(a->psn, bed.qp.epsn.v);
		assert_int_equal(a->aeth_type, v->cls == VB_VC_RNR ? VB_AETH_RNR : VB_AETH_NAK);
		assert_int_equal(a->aeth_value, v->cls == VB_VC_RNR ? 12 : v->nak);
		assert_int_equal(a->msn, 0xffffff);
	}
}

static void check_row(const struct resp_row *row)
{
	const struct vb_out_record *received = find(VB_OUT_RECEIVED), *event = find(VB_OUT_EVENT);
	bool fatal = vb_verdict_is(row->verdict, VB_VC_NAK);

	assert_int_equal(received != NULL, row->recv != NO_RECV);
	if (received) {
		assert_int_equal(received->received.completion.status, row->recv);
		assert_int_equal(received->received.recv.wr_id, 42);
	}
	assert_int_equal(event ? event->event : VB_EVENT_NONE, row->event);
	assert_int_equal(find(VB_OUT_QP_ERR) != NULL, fatal);
	if (fatal)
		assert_int_equal(bed.qp.state, VB_QPS_ERR);
	assert_true(out.count <= VB_RC_RESP_OUT_MAX);
	check_answer(row);
}

static void test_rows(void **state)
{
	for (size_t i = 0; i < RESP_ROWS; i++) {
		const struct resp_row *row = &resp_rows[i];
		struct vb_packet pkt;
		enum vb_verdict v;

		if (!(row->forms & AS_PACKET))
			continue;
		setup(row->kind);
		row->spoil(&bed);
		pkt = packet(VB_POS_ONLY);
		v = give(&pkt);
		if (v != row->verdict)
			fail_msg("%s: %s, not %s", row->name, vb_verdict_name(v),
				 vb_verdict_name(row->verdict));
		check_row(row);
	}
}

/* ---- what only packets have ---- */

static void test_responses_are_not_for_it(void **state)
{
	struct vb_packet pkt;

	setup(VB_MSG_SEND);
	pkt = packet(VB_POS_ONLY);
	pkt.opcode = 0x11;
	assert_int_equal(give(&pkt), VB_V_DROP_MALFORMED);
	pkt.opcode = 0x24; /* UC */
	assert_int_equal(give(&pkt), VB_V_DROP_MALFORMED);
	pkt.opcode = 0x15;
	assert_int_equal(give(&pkt), VB_V_DROP_MALFORMED);
	assert_null(answer());
}

static void test_many_packets(void **state)
{
	setup(VB_MSG_SEND);
	bed.msg.with_imm = bed.msg.solicited = true;
	assert_int_equal(give_next(VB_POS_FIRST, ROW_MTU), VB_V_ACCEPTED);
	assert_int_equal(give_next(VB_POS_MIDDLE, ROW_MTU), VB_V_ACCEPTED);
	assert_int_equal(out.count, 0);
	assert_int_equal(bed.qp.msn, 0xffffff);
	assert_int_equal(give_next(VB_POS_LAST, 3), VB_V_ACCEPTED);
	assert_int_equal(out.count, 1);
	assert_int_equal(records[0].received.completion.byte_len, 2 * ROW_MTU + 3);
	assert_int_equal(records[0].received.completion.flags, VB_WC_WITH_IMM);
	assert_true(records[0].received.completion.solicited);
	assert_int_equal(bed.env.takes, 1);
	assert_int_equal(bed.qp.msn, 0);
	assert_memory_equal(bed.recv, bed.payload, 2 * ROW_MTU + 3);
	assert_int_equal(answer()->psn, ROW_PSN + 2);
	assert_null(answer());
}

static void test_sequence(void **state)
{
	static const enum vb_op_pos wrong[] = {VB_POS_MIDDLE, VB_POS_LAST, VB_POS_FIRST,
					       VB_POS_ONLY};

	for (int i = 0; i < 4; i++) {
		setup(VB_MSG_WRITE);
		bed.msg.length = 3 * ROW_MTU;
		/* The first two outside of a message, the others inside of one. */
		if (i >= 2)
			assert_int_equal(give_next(VB_POS_FIRST, ROW_MTU), VB_V_ACCEPTED);
		assert_int_equal(give_next(wrong[i], ROW_MTU), VB_V_INV_OP_SEQ);
		assert_int_equal(records[1].event, VB_EVENT_QP_REQ_ERR);
	}
	/* A SEND goes on as a WRITE: its receive ends. */
	setup(VB_MSG_SEND);
	assert_int_equal(give_next(VB_POS_FIRST, ROW_MTU), VB_V_ACCEPTED);
	bed.msg.kind = VB_MSG_WRITE;
	assert_int_equal(give_next(VB_POS_LAST, 5), VB_V_INV_OP_SEQ);
	assert_int_equal(find(VB_OUT_RECEIVED)->received.completion.status, VB_WC_REM_INV_REQ_ERR);
	/* An atomic in the middle of a SEND. */
	setup(VB_MSG_SEND);
	assert_int_equal(give_next(VB_POS_FIRST, ROW_MTU), VB_V_ACCEPTED);
	bed.msg.kind = VB_MSG_FETCH_ADD;
	assert_int_equal(give_next(VB_POS_ONLY, 0), VB_V_INV_OP_SEQ);
	assert_int_equal(bed.env.atomics, 0);
}

static void test_packet_length(void **state)
{
	static const struct {
		enum vb_op_pos pos;
		uint32_t len;
		enum vb_verdict want;
	} rows[] = {
		{VB_POS_FIRST, ROW_MTU - 1, VB_V_INV_PACKET_LEN},
		{VB_POS_FIRST, ROW_MTU + 1, VB_V_INV_PACKET_LEN},
		{VB_POS_MIDDLE, ROW_MTU - 1, VB_V_INV_PACKET_LEN},
		{VB_POS_LAST, 0, VB_V_INV_PACKET_LEN},
		{VB_POS_LAST, ROW_MTU + 1, VB_V_INV_PACKET_LEN},
		{VB_POS_LAST, 1, VB_V_ACCEPTED},
		{VB_POS_LAST, ROW_MTU, VB_V_ACCEPTED},
		{VB_POS_ONLY, ROW_MTU + 1, VB_V_INV_PACKET_LEN},
		{VB_POS_ONLY, 0, VB_V_ACCEPTED},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		setup(VB_MSG_SEND);
		if (!(rows[i].pos & VB_POS_FIRST))
			assert_int_equal(give_next(VB_POS_FIRST, ROW_MTU), VB_V_ACCEPTED);
		assert_int_equal(give_next(rows[i].pos, rows[i].len), rows[i].want);
		if (rows[i].want)
			assert_int_equal(find(VB_OUT_RECEIVED)->received.completion.status,
					 VB_WC_LOC_LEN_ERR);
	}
}

/* A WRITE's packets against the length its first announced. */
static void test_write_total(void **state)
{
	setup(VB_MSG_WRITE);
	bed.msg.length = ROW_MTU + 10;
	assert_int_equal(give_next(VB_POS_FIRST, ROW_MTU), VB_V_ACCEPTED);
	assert_int_equal(give_next(VB_POS_LAST, 9), VB_V_INV_MSG_LEN);
	setup(VB_MSG_WRITE);
	bed.msg.length = ROW_MTU + 10;
	assert_int_equal(give_next(VB_POS_FIRST, ROW_MTU), VB_V_ACCEPTED);
	assert_int_equal(give_next(VB_POS_LAST, 11), VB_V_INV_MSG_LEN);
	setup(VB_MSG_WRITE);
	bed.msg.length = ROW_MTU + 10;
	assert_int_equal(give_next(VB_POS_FIRST, ROW_MTU), VB_V_ACCEPTED);
	assert_int_equal(give_next(VB_POS_MIDDLE, ROW_MTU), VB_V_INV_MSG_LEN);
	setup(VB_MSG_WRITE);
	bed.msg.length = ROW_MTU;
	assert_int_equal(give_next(VB_POS_FIRST, ROW_MTU), VB_V_INV_MSG_LEN);
	setup(VB_MSG_WRITE);
	assert_int_equal(give_next(VB_POS_ONLY, 99), VB_V_INV_MSG_LEN);
	setup(VB_MSG_WRITE);
	bed.msg.length = ROW_MTU + 10;
	assert_int_equal(give_next(VB_POS_FIRST, ROW_MTU), VB_V_ACCEPTED);
	assert_int_equal(give_next(VB_POS_LAST, 10), VB_V_ACCEPTED);
	assert_memory_equal(bed.mem + 64 + ROW_MTU, bed.payload, 10);
	assert_int_equal(bed.mem[64 + ROW_MTU + 10], 0xa5);
}

/* The key goes away between two packets, the receive is too short for the third. */
static void test_checked_again(void **state)
{
	setup(VB_MSG_WRITE);
	bed.msg.length = 2 * ROW_MTU;
	assert_int_equal(give_next(VB_POS_FIRST, ROW_MTU), VB_V_ACCEPTED);
	bed.env.keys[0].rkey = 0;
	assert_int_equal(give_next(VB_POS_LAST, ROW_MTU), VB_V_ACC_KEY_UNKNOWN);
	assert_int_equal(find(VB_OUT_EVENT)->event, VB_EVENT_QP_ACCESS_ERR);

	setup(VB_MSG_SEND);
	bed.env.recvs[0].length = 2 * ROW_MTU;
	assert_int_equal(give_next(VB_POS_FIRST, ROW_MTU), VB_V_ACCEPTED);
	assert_int_equal(give_next(VB_POS_MIDDLE, ROW_MTU), VB_V_ACCEPTED);
	assert_int_equal(give_next(VB_POS_LAST, 1), VB_V_INV_RECV_LEN);
	assert_int_equal(find(VB_OUT_RECEIVED)->received.completion.status, VB_WC_LOC_LEN_ERR);
}

static void test_gap(void **state)
{
	struct vb_packet pkt;

	setup(VB_MSG_SEND);
	pkt = packet(VB_POS_ONLY);
	pkt.psn = ROW_PSN + 1;
	assert_int_equal(give(&pkt), VB_V_NAK_SEQ);
	assert_int_equal(answer()->psn, ROW_PSN);
	pkt.psn++;
	assert_int_equal(give(&pkt), VB_V_DROP_GAP);
	assert_null(answer());
	assert_int_equal(give_next(VB_POS_ONLY, 100), VB_V_ACCEPTED);
	/* A new gap is said anew. */
	pkt.psn = ROW_PSN + 3;
	assert_int_equal(give(&pkt), VB_V_NAK_SEQ);
}

/* A NAK that waits to be sent is not hidden by an acknowledgement of something older,
 * and is not sent when the gap has closed meanwhile. */
static void test_nak_waits(void **state)
{
	struct vb_packet old, ahead;

	setup(VB_MSG_WRITE);
	old = packet(VB_POS_ONLY);
	assert_int_equal(give(&old), VB_V_ACCEPTED);
	assert_non_null(answer());
	ahead = old;
	ahead.psn = ROW_PSN + 2;
	assert_int_equal(give(&ahead), VB_V_NAK_SEQ);
	assert_int_equal(give(&old), VB_V_DUPLICATE);
	assert_int_equal(answer()->aeth_type, VB_AETH_NAK);
	assert_null(answer());

	ahead.psn++;
	assert_int_equal(give_next(VB_POS_ONLY, 100), VB_V_ACCEPTED);
	assert_int_equal(give(&ahead), VB_V_NAK_SEQ);
	assert_int_equal(give_next(VB_POS_ONLY, 100), VB_V_ACCEPTED);
	assert_int_equal(answer()->aeth_type, VB_AETH_ACK);
}

/* After "not ready" what follows is dropped in silence. */
static void test_rnr_silence(void **state)
{
	struct vb_packet pkt;

	setup(VB_MSG_SEND);
	bed.env.recv_tail = 0;
	pkt = packet(VB_POS_ONLY);
	assert_int_equal(give(&pkt), VB_V_RNR);
	pkt.psn++;
	assert_int_equal(give(&pkt), VB_V_DROP_GAP);
	assert_int_equal(answer()->aeth_type, VB_AETH_RNR);
	fake_post_recv(&bed.env, 1, bed.recv, ROW_SIZE);
	assert_int_equal(give_next(VB_POS_ONLY, 100), VB_V_ACCEPTED);
	assert_int_equal(answer()->aeth_type, VB_AETH_ACK);
}

static void test_ack_only_when_asked(void **state)
{
	struct vb_packet pkt;

	setup(VB_MSG_WRITE);
	pkt = packet(VB_POS_ONLY);
	pkt.ack_req = false;
	assert_int_equal(give(&pkt), VB_V_ACCEPTED);
	assert_null(answer());
	/* One acknowledgement for several. */
	give_next(VB_POS_ONLY, 100);
	give_next(VB_POS_ONLY, 100);
	assert_int_equal(answer()->psn, ROW_PSN + 2);
	assert_null(answer());
}

/* ---- READs and atomics ---- */

/* All packets that are to be sent. */
static uint32_t answers(void)
{
	out.count = 0;
	while (vb_rc_resp_run(&rs, &bed.qp, &fake_resp_env, &bed.env, 1, &out))
		;
	return out.count;
}

static void test_read(void **state)
{
	setup(VB_MSG_READ);
	bed.msg.length = 2 * ROW_MTU + 10;
	assert_int_equal(give_next(VB_POS_ONLY, 0), VB_V_ACCEPTED);
	assert_int_equal(bed.qp.epsn.v, ROW_PSN + 3);
	assert_int_equal(answers(), 3);
	for (uint32_t i = 0; i < 3; i++) {
		const struct vb_out_packet *p = &records[i].packet;

		assert_int_equal(p->hdr.opcode, 0x0d + i);
		assert_int_equal(p->hdr.psn, ROW_PSN + i);
		assert_int_equal(p->hdr.payload_len, i < 2 ? ROW_MTU : 10);
		assert_int_equal(p->from, VB_PAYLOAD_TARGET);
		assert_int_equal(p->offset, i * ROW_MTU);
		assert_int_equal(p->target.addr, bed.msg.remote_addr);
		assert_int_equal(p->target.key.rkey, ROW_KEY);
	}
	assert_int_equal(answers(), 0);
}

/* Answers leave in order of the requests, the acknowledgement of a later SEND last. */
static void test_answers_in_order(void **state)
{
	setup(VB_MSG_READ);
	bed.msg.length = ROW_MTU + 1;
	give_next(VB_POS_ONLY, 0);
	bed.msg.kind = VB_MSG_FETCH_ADD;
	bed.msg.length = 8;
	give_next(VB_POS_ONLY, 0);
	bed.msg.kind = VB_MSG_SEND;
	give_next(VB_POS_ONLY, 8);
	assert_int_equal(answers(), 4);
	assert_int_equal(records[0].packet.hdr.opcode, 0x0d);
	assert_int_equal(records[1].packet.hdr.opcode, 0x0f);
	assert_int_equal(records[2].packet.hdr.opcode, 0x12);
	assert_int_equal(records[2].packet.hdr.atomic_orig, 7);
	assert_int_equal(records[2].packet.hdr.msn, 1);
	assert_int_equal(records[3].packet.hdr.opcode, 0x11);
	assert_int_equal(records[3].packet.hdr.psn, ROW_PSN + 3);
	assert_int_equal(records[3].packet.hdr.msn, 2);
}

/* Also when the table of resources has gone round. */
static void test_answers_in_order_wrapped(void **state)
{
	setup(VB_MSG_READ);
	for (int i = 0; i < 3; i++) {
		give_next(VB_POS_ONLY, 0);
		assert_int_equal(answers(), 1);
	}
	give_next(VB_POS_ONLY, 0);
	give_next(VB_POS_ONLY, 0);
	assert_int_equal(answers(), 2);
	assert_int_equal(records[0].packet.hdr.psn, ROW_PSN + 3);
	assert_int_equal(records[1].packet.hdr.psn, ROW_PSN + 4);
}

static void test_atomic_once(void **state)
{
	struct vb_packet pkt;

	setup(VB_MSG_FETCH_ADD);
	pkt = packet(VB_POS_ONLY);
	assert_int_equal(give(&pkt), VB_V_ACCEPTED);
	assert_int_equal(answer()->atomic_orig, 7);
	assert_int_equal(give(&pkt), VB_V_DUPLICATE);
	assert_int_equal(answer()->atomic_orig, 7);
	assert_int_equal(bed.env.atomics, 1);
	/* A compare-and-swap by that number was never seen. */
	bed.msg.kind = VB_MSG_CMP_SWP;
	pkt = packet(VB_POS_ONLY);
	assert_int_equal(give(&pkt), VB_V_DUP_FORGOTTEN);
	assert_null(answer());
}

/* As many results are kept as may be under way, and no more. */
static void test_resources(void **state)
{
	struct vb_packet first, pkt;

	setup(VB_MSG_FETCH_ADD);
	first = packet(VB_POS_ONLY);
	for (int i = 0; i < 4; i++)
		assert_int_equal(give_next(VB_POS_ONLY, 0), VB_V_ACCEPTED);
	/* Four unanswered: a fifth is more than this QP takes. */
	assert_int_equal(give_next(VB_POS_ONLY, 0), VB_V_INV_RD_ATOMIC);

	setup(VB_MSG_FETCH_ADD);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(give_next(VB_POS_ONLY, 0), VB_V_ACCEPTED);
		assert_non_null(answer());
	}
	assert_int_equal(give(&first), VB_V_DUP_FORGOTTEN);
	pkt = first;
	pkt.psn++;
	assert_int_equal(give(&pkt), VB_V_DUPLICATE);
	assert_int_equal(answer()->atomic_orig, 14);
}

/* One that comes again before its second answer has left: its asker has the first, and goes on. */
static void test_again_takes_no_resource(void **state)
{
	struct vb_packet first[4];

	setup(VB_MSG_FETCH_ADD);
	for (int i = 0; i < 4; i++) {
		first[i] = packet(VB_POS_ONLY);
		first[i].psn = (first[i].psn + (uint32_t)i) & 0xffffff;
		assert_int_equal(give_next(VB_POS_ONLY, 0), VB_V_ACCEPTED);
		assert_non_null(answer());
	}
	for (int i = 0; i < 4; i++)
		assert_int_equal(give(&first[i]), VB_V_DUPLICATE);
	assert_int_equal(give_next(VB_POS_ONLY, 0), VB_V_ACCEPTED);
}

static void test_read_again(void **state)
{
	struct vb_packet pkt;

	setup(VB_MSG_READ);
	bed.msg.length = 2 * ROW_MTU + 10;
	give_next(VB_POS_ONLY, 0);
	assert_int_equal(answers(), 3);
	/* From the second packet. */
	pkt = packet(VB_POS_ONLY);
	pkt.psn++;
	pkt.va += ROW_MTU;
	pkt.dma_len -= ROW_MTU;
	assert_int_equal(give(&pkt), VB_V_DUPLICATE);
	assert_int_equal(answers(), 2);
	assert_int_equal(records[0].packet.hdr.opcode, 0x0d);
	assert_int_equal(records[0].packet.hdr.psn, ROW_PSN + 1);
	assert_int_equal(records[0].packet.offset, ROW_MTU);
	assert_int_equal(records[1].packet.hdr.opcode, 0x0f);
	/* Only the last. */
	pkt.psn++;
	pkt.va += ROW_MTU;
	pkt.dma_len -= ROW_MTU;
	assert_int_equal(give(&pkt), VB_V_DUPLICATE);
	assert_int_equal(answers(), 1);
	assert_int_equal(records[0].packet.hdr.opcode, 0x10);
	/* What it does not remember it does not read. */
	pkt.va++;
	assert_int_equal(give(&pkt), VB_V_DUP_FORGOTTEN);
	pkt.va--;
	pkt.dma_len++;
	assert_int_equal(give(&pkt), VB_V_DUP_FORGOTTEN);
	pkt.dma_len--;
	pkt.rkey++;
	assert_int_equal(give(&pkt), VB_V_DUP_FORGOTTEN);
	assert_int_equal(bed.qp.epsn.v, ROW_PSN + 3);
}

/* An earlier READ is asked again while a later one is half sent. */
static void test_read_again_restarts_later(void **state)
{
	struct vb_packet pkt;

	setup(VB_MSG_READ);
	bed.msg.length = 2 * ROW_MTU;
	pkt = packet(VB_POS_ONLY);
	give_next(VB_POS_ONLY, 0);
	answers();
	give_next(VB_POS_ONLY, 0);
	out.count = 0;
	assert_true(vb_rc_resp_run(&rs, &bed.qp, &fake_resp_env, &bed.env, 1, &out));
	assert_int_equal(records[0].packet.hdr.psn, ROW_PSN + 2);
	give(&pkt);
	assert_int_equal(answers(), 4);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(records[i].packet.hdr.psn, ROW_PSN + i);
}

/* A READ looks its key up for every packet. */
static void test_read_key_goes(void **state)
{
	setup(VB_MSG_READ);
	bed.msg.length = 2 * ROW_MTU;
	give_next(VB_POS_ONLY, 0);
	out.count = 0;
	vb_rc_resp_run(&rs, &bed.qp, &fake_resp_env, &bed.env, 1, &out);
	bed.env.keys[0].pd++;
	out.count = 0;
	assert_false(vb_rc_resp_run(&rs, &bed.qp, &fake_resp_env, &bed.env, 16, &out));
	assert_int_equal(find(VB_OUT_EVENT)->event, VB_EVENT_QP_ACCESS_ERR);
	assert_non_null(find(VB_OUT_QP_ERR));
	assert_int_equal(bed.qp.state, VB_QPS_ERR);
	assert_int_equal(find(VB_OUT_PACKET)->packet.hdr.psn, ROW_PSN + 1);
	assert_true(find(VB_OUT_PACKET)->packet.hdr.migreq);
	assert_int_equal(find(VB_OUT_PACKET)->packet.hdr.aeth_value, VB_NAK_REM_ACCESS);
}

static void test_read_fault(void **state)
{
	setup(VB_MSG_READ);
	bed.msg.length = 3 * ROW_MTU;
	give_next(VB_POS_ONLY, 0);
	out.count = 0;
	vb_rc_resp_run(&rs, &bed.qp, &fake_resp_env, &bed.env, 1, &out);
	out.count = 0;
	vb_rc_resp_read_fault(&rs, &bed.qp, vb_psn(ROW_PSN), &out);
	assert_non_null(find(VB_OUT_QP_ERR));
	assert_int_equal(answers(), 1);
	assert_int_equal(records[0].packet.hdr.psn, ROW_PSN);
	assert_int_equal(records[0].packet.hdr.aeth_value, VB_NAK_REM_ACCESS);
}

/* One that was answered, and is asked for again: its requester may have given up the memory since.
 */
static void test_read_again_fault(void **state)
{
	struct vb_packet pkt;

	setup(VB_MSG_READ);
	bed.msg.length = 2 * ROW_MTU;
	pkt = packet(VB_POS_ONLY);
	give_next(VB_POS_ONLY, 0);
	assert_int_equal(answers(), 2);
	give_next(VB_POS_ONLY, 0);
	assert_int_equal(answers(), 2);
	assert_int_equal(give(&pkt), VB_V_DUPLICATE);
	out.count = 0;
	vb_rc_resp_run(&rs, &bed.qp, &fake_resp_env, &bed.env, 1, &out);
	out.count = 0;
	vb_rc_resp_read_fault(&rs, &bed.qp, vb_psn(ROW_PSN), &out);
	assert_int_equal(out.count, 0);
	assert_int_equal(bed.qp.state, VB_QPS_RTS);
	assert_int_equal(answers(), 1);
	assert_int_equal(records[0].packet.hdr.psn, ROW_PSN);
	assert_int_equal(records[0].packet.hdr.aeth_value, VB_NAK_REM_ACCESS);
	/* So with a key that has gone, at the second packet of the second. */
	pkt.psn += 3;
	pkt.va += ROW_MTU;
	pkt.dma_len -= ROW_MTU;
	assert_int_equal(give(&pkt), VB_V_DUPLICATE);
	bed.env.keys[0].pd++;
	assert_int_equal(answers(), 1);
	assert_int_equal(records[0].packet.hdr.psn, ROW_PSN + 3);
	assert_int_equal(records[0].packet.hdr.aeth_value, VB_NAK_REM_ACCESS);
	assert_int_equal(bed.qp.state, VB_QPS_RTS);
	bed.env.keys[0].pd--;
	/* A new one that fails is the end. */
	give_next(VB_POS_ONLY, 0);
	bed.env.keys[0].pd++;
	answers();
	assert_int_equal(bed.qp.state, VB_QPS_ERR);
}

static void test_flush(void **state)
{
	setup(VB_MSG_SEND);
	give_next(VB_POS_FIRST, ROW_MTU);
	out.count = 0;
	vb_rc_resp_flush(&rs, &bed.qp, &out);
	assert_int_equal(out.count, 1);
	assert_int_equal(records[0].received.completion.status, VB_WC_WR_FLUSH_ERR);
	assert_int_equal(records[0].received.recv.wr_id, 42);
	assert_null(answer());
	vb_rc_resp_flush(&rs, &bed.qp, &out);
	assert_null(answer());
}

static void test_comm_est_once(void **state)
{
	setup(VB_MSG_WRITE);
	bed.qp.state = VB_QPS_RTR;
	assert_int_equal(give_next(VB_POS_ONLY, 100), VB_V_ACCEPTED);
	assert_int_equal(find(VB_OUT_EVENT)->event, VB_EVENT_COMM_EST);
	assert_int_equal(give_next(VB_POS_ONLY, 100), VB_V_ACCEPTED);
	assert_null(find(VB_OUT_EVENT));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_responses_are_not_for_it),
		cmocka_unit_test(test_many_packets),
		cmocka_unit_test(test_sequence),
		cmocka_unit_test(test_packet_length),
		cmocka_unit_test(test_write_total),
		cmocka_unit_test(test_checked_again),
		cmocka_unit_test(test_gap),
		cmocka_unit_test(test_nak_waits),
		cmocka_unit_test(test_rnr_silence),
		cmocka_unit_test(test_ack_only_when_asked),
		cmocka_unit_test(test_read),
		cmocka_unit_test(test_answers_in_order),
		cmocka_unit_test(test_answers_in_order_wrapped),
		cmocka_unit_test(test_atomic_once),
		cmocka_unit_test(test_resources),
		cmocka_unit_test(test_again_takes_no_resource),
		cmocka_unit_test(test_read_again),
		cmocka_unit_test(test_read_again_restarts_later),
		cmocka_unit_test(test_read_key_goes),
		cmocka_unit_test(test_read_fault),
		cmocka_unit_test(test_read_again_fault),
		cmocka_unit_test(test_flush),
		cmocka_unit_test(test_comm_est_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets of any kind, one after the other, to a QP with work under way: nothing
 * outside of its memory is touched (fake_env looks), every work request ends once.
 *
 * Input: for each packet two bytes of length, then BTH to ICRC; the ICRC is not
 * looked at. A length of 0 means that time passes until the next deadline.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/fake_env.h"
#include "transport/rc_comp.h"
#include "transport/rc_req.h"
#include "transport/rc_resp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BASE 0x10000
#define SIZE 4096
#define RING 16

static struct fake_env env;
static uint8_t mem[SIZE], recv_buf[SIZE], local[RING][SIZE];
static struct vb_rc_sq sq;
static struct vb_rc_wqe ring[RING];
static struct vb_resp_qp qp;
static struct vb_rc_resp resp;
static struct vb_source src;
static uint32_t ended;
static uint64_t now;

static void check(int ok)
{
	if (!ok)
		abort();
}

static void set_up(void)
{
	struct vb_rc_sq_attr attr = {.ring_mask = RING - 1,
				     .dest_qpn = 0x11,
				     .path_mtu = 256,
				     .max_rd_atomic = 2,
				     .timeout = 10,
				     .retry_cnt = 3,
				     .rnr_retry = 3,
				     .window = 8,
				     .psn = {0xfffffc}};

	fake_init(&env, mem, BASE, SIZE);
	fake_key(&env, 1, 1, 14, BASE, SIZE);
	fake_key(&env, 2, 1, 0, BASE, SIZE)->invalidatable = true;
	for (uint64_t i = 0; i < 8; i++)
		fake_post_recv(&env, i, recv_buf, 1000);
	vb_rc_sq_init(&sq, &attr);
	vb_rc_resp_init(&resp);
	memset(&src, 0, sizeof(src));
	src.has_gid = true;
	qp = (struct vb_resp_qp){.state = VB_QPS_RTR,
				 .type = VB_QPT_RC,
				 .qpn = 0x10,
				 .pd = 1,
				 .access = 14,
				 .path_mtu = 256,
				 .dest_qpn = 0x11,
				 .max_dest_rd_atomic = 2,
				 .epsn = {0xfffffc}};
	ended = 0;
	now = 0;
	for (uint32_t i = 0; i < 10; i++) {
		ring[i] = (struct vb_rc_wqe){.wr_id = i,
					     .kind = (enum vb_msg_kind)(i % 5),
					     .length = i % 5 > 2 ? 8 : i * 100,
					     .fence = i == 7};
		env.local[i] = local[i];
		env.local_len[i] = ring[i].length;
		vb_rc_sq_posted(&sq);
	}
}

static void carry_out(const struct vb_out *out)
{
	check(out->count <= out->capacity);
	for (uint32_t i = 0; i < out->count; i++) {
		const struct vb_out_record *r = &out->records[i];

		if (r->kind == VB_OUT_PACKET)
			check(vb_op_row(r->packet.hdr.opcode) && r->packet.hdr.payload_len <= 256);
		if (r->kind == VB_OUT_SENT)
			check(r->sent.wr_id == ended++);
		if (r->kind == VB_OUT_QP_ERR) {
			qp.state = VB_QPS_ERR;
			vb_rc_sq_fail(&sq, VB_WC_WR_FLUSH_ERR);
		}
	}
}

static void run(void)
{
	struct vb_out_record records[16];
	bool more = true;

	while (more) {
		struct vb_out out = {records, 16, 0};

		more = vb_rc_resp_run(&resp, &qp, &fake_resp_env, &env, 8, &out);
		carry_out(&out);
		out.count = 0;
		more |= vb_rc_req_run(&sq, ring, &fake_req_env, &env, now, 8, &out);
		carry_out(&out);
	}
}

static void give(const uint8_t *bytes, size_t len)
{
	struct vb_out_record records[16];
	struct vb_out out = {records, 16, 0};
	struct vb_packet pkt;
	enum vb_verdict v;

	if (vb_packet_parse(bytes, len, &pkt) != VB_PARSE_OK)
		return;
	if (vb_op_is_request(vb_op_row(pkt.opcode)))
		v = vb_rc_resp_packet(&resp, &qp, &fake_resp_env, &env, &pkt, &src, &out);
	else
		v = vb_rc_comp_packet(&sq, ring, &qp, &fake_req_env, &env, &pkt, &src, now, &out);
	check(v < VB_V_COUNT);
	carry_out(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	set_up();
	run();
	while (size >= 2) {
		size_t len = (size_t)data[0] << 8 | data[1];

		data += 2;
		size -= 2;
		if (len > size)
			len = size;
		if (len) {
			give(data, len);
		} else if (vb_rc_sq_next_ns(&sq) != VB_NEVER) {
			now = vb_rc_sq_next_ns(&sq);
			vb_rc_sq_timer(&sq, ring, now);
		}
		run();
		data += len;
		size -= len;
	}
	/* Whatever came, the timers bring it to an end. */
	while (vb_rc_sq_next_ns(&sq) != VB_NEVER) {
		now = vb_rc_sq_next_ns(&sq);
		vb_rc_sq_timer(&sq, ring, now);
		run();
	}
	check(ended == 10);
	return 0;
}

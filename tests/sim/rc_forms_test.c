/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a program sees does not depend on the carrier: every row of resp_rows.h goes
 * once as a call within a host and once as packets over a link, and both ends must
 * end alike: status and time at the requester, receive and event at the responder,
 * every byte of memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/resp_rows.h"
#include "lib/simnet.h"

#define TIMEOUT	  10
#define RETRY_CNT 3
#define RNR_RETRY 2
#define START	  1000

/* What can be seen afterwards. */
struct seen {
	enum vb_wc_status status;
	uint64_t silent_ns; /* when it ended, for a peer that never answered */
	bool target_err;
	int event;
	uint32_t nrecvs;
	struct vb_recv_completion recv;
	uint32_t epsn, msn;
	uint64_t old;
	uint8_t mem[ROW_SIZE], recv_buf[ROW_SIZE], local[ROW_SIZE];
};

static struct row_bed bed;
static struct simnet *net;

static void lay_out(const struct resp_row *row, uint32_t mtu)
{
	row_bed_init(&bed, row->kind);
	bed.qp.path_mtu = mtu;
	row->spoil(&bed);
	if (!vb_rc_is_atomic(bed.msg.kind))
		bed.msg.npkts = vb_psn_count(bed.msg.length, mtu);
}

static void look_at_memory(struct seen *seen)
{
	memcpy(seen->mem, bed.mem, ROW_SIZE);
	memcpy(seen->recv_buf, bed.recv, ROW_SIZE);
	memcpy(seen->local, bed.payload, ROW_SIZE);
}

static void as_message(struct seen *seen)
{
	struct vb_rc_budget budget;
	struct vb_msg_result res;
	struct vb_sq_step step;
	uint64_t now = START;

	vb_rc_budget_init(&budget, TIMEOUT, RETRY_CNT, RNR_RETRY);
	do {
		vb_rc_resp_message(&bed.qp, &fake_resp_env, &bed.env, &bed.msg, &res);
		vb_rc_sq_verdict(&budget, res.verdict, res.rnr_timer, now, &step);
		now = step.deadline_ns;
	} while (step.kind == VB_STEP_RETRY_AT);
	seen->status = step.status;
	seen->silent_ns = step.status == VB_WC_RETRY_EXC_ERR ? now : 0;
	seen->target_err = res.target_err;
	seen->event = res.event;
	seen->nrecvs = bed.env.ndone;
	seen->recv = bed.env.done[0];
	seen->epsn = res.epsn.v;
	seen->msn = res.msn;
	seen->old = res.old;
	look_at_memory(seen);
}

static void as_packets(struct seen *seen, uint32_t mtu)
{
	struct sim_conf conf = {.seed = 1,
				.mtu = mtu,
				.window = 16,
				.timeout = TIMEOUT,
				.retry_cnt = RETRY_CNT,
				.rnr_retry = RNR_RETRY,
				.rd_atomic = 4,
				.psn = ROW_PSN};
	const struct vb_msg *msg = &bed.msg;
	struct vb_rc_wqe wqe = {.wr_id = 1,
				.kind = msg->kind,
				.with_imm = msg->with_imm,
				.with_inv = msg->with_inv,
				.solicited = msg->solicited,
				.rkey = msg->rkey,
				.remote_addr = msg->remote_addr,
				.length = msg->length,
				.imm = msg->imm,
				.inv_rkey = msg->inv_rkey,
				.compare_add = msg->compare_add,
				.swap = msg->swap};
	struct sim_end *a, *b;
	uint8_t old[8];

	sim_init(net, &conf);
	a = &net->end[0];
	b = &net->end[1];
	a->qp.qpn = bed.qp.dest_qpn;
	a->sq.attr.dest_qpn = bed.qp.qpn;
	b->qp = bed.qp;
	b->src = msg->src;
	b->env = bed.env;
	sim_post(net, 0, &wqe, vb_rc_is_atomic(msg->kind) ? old : bed.payload);
	sim_run(net);
	assert_int_equal(a->nsent, 1);
	seen->status = a->sent[0].status;
	seen->silent_ns = seen->status == VB_WC_RETRY_EXC_ERR ? a->sent_ns[0] : 0;
	seen->target_err = b->qp_errs > 0;
	seen->event = b->nevents ? b->events[0] : VB_EVENT_NONE;
	assert_true(b->nevents <= 1);
	seen->nrecvs = b->env.ndone;
	seen->recv = b->env.done[0];
	seen->epsn = b->qp.epsn.v;
	seen->msn = b->qp.msn;
	if (vb_rc_is_atomic(msg->kind) && seen->status == VB_WC_SUCCESS)
		memcpy(&seen->old, old, 8);
	look_at_memory(seen);
}

static void compare(const struct resp_row *row, uint32_t mtu)
{
	static struct seen call, wire;

	memset(&call, 0, sizeof(call));
	memset(&wire, 0, sizeof(wire));
	lay_out(row, mtu);
	as_message(&call);
	lay_out(row, mtu);
	as_packets(&wire, mtu);
	if (call.status != wire.status)
		fail_msg("%s, MTU %u: status %d as a call, %d on the wire", row->name, mtu,
			 call.status, wire.status);
	/* The second packet after one that was swallowed is answered: go back at once. */
	if (mtu == ROW_MTU)
		assert_int_equal(call.silent_ns, wire.silent_ns);
	assert_int_equal(call.target_err, wire.target_err);
	assert_int_equal(call.event, wire.event);
	assert_int_equal(call.nrecvs, wire.nrecvs);
	assert_int_equal(call.recv.status, wire.recv.status);
	assert_int_equal(call.recv.opcode, wire.recv.opcode);
	if (call.status != VB_WC_SUCCESS)
		return;
	/* Byte counts and memory count where all went well. */
	assert_memory_equal(&call.recv, &wire.recv, sizeof(call.recv));
	assert_int_equal(call.epsn, wire.epsn);
	assert_int_equal(call.msn, wire.msn);
	assert_int_equal(call.old, wire.old);
	assert_memory_equal(call.mem, wire.mem, ROW_SIZE);
	assert_memory_equal(call.recv_buf, wire.recv_buf, ROW_SIZE);
	assert_memory_equal(call.local, wire.local, ROW_SIZE);
}

static void test_rows(void **state)
{
	/* One packet, two, many. */
	static const uint32_t mtus[] = {ROW_MTU, 64, 7};
	int rows = 0;

	net = sim_new();
	for (size_t i = 0; i < RESP_ROWS; i++) {
		const struct resp_row *row = &resp_rows[i];
		bool read_fault = row->spoil == fault_remote && row->kind == VB_MSG_READ;

		/* Too long a message does not leave the requester at all; who is gone in
		 * the middle of a message is not there for the next attempt. */
		if ((row->forms != AS_BOTH && !read_fault) || row->spoil == too_long ||
		    row->spoil == copy_gone)
			continue;
		for (size_t m = 0; m < sizeof(mtus) / sizeof(mtus[0]); m++)
			compare(row, mtus[m]);
		rows++;
	}
	sim_free(net);
	assert_true(rows > 70);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* ibv_modify_qp of an RC QP: masks, values, states. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "lib/verbs_pair.h"

#define ALL_BITS (IBV_QP_RATE_LIMIT * 2 - 1)
#define STATES	 7

/* The table of the man page and of Linux, written down a second time. */
static const struct row {
	enum ibv_qp_state from, to;
	int required, optional;
} rows[] = {
	{IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
	{IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
	{IBV_QPS_INIT, IBV_QPS_RTR,
	 IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
		 IBV_QP_MIN_RNR_TIMER,
	 IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
	{IBV_QPS_RTR, IBV_QPS_RTS,
	 IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		 IBV_QP_MAX_QP_RD_ATOMIC,
	 IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER |
		 IBV_QP_PATH_MIG_STATE},
	{IBV_QPS_RTS, IBV_QPS_RTS, 0,
	 IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE |
		 IBV_QP_MIN_RNR_TIMER},
	{IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
	{IBV_QPS_SQD, IBV_QPS_RTS, 0,
	 IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER |
		 IBV_QP_PATH_MIG_STATE},
	{IBV_QPS_SQD, IBV_QPS_SQD, 0,
	 IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		 IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_ALT_PATH |
		 IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_MIN_RNR_TIMER |
		 IBV_QP_PATH_MIG_STATE},
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

static struct verbs_end end;

/* Valid values for everything, different from those that bring_to() sets. */
static void fill_attr(struct ibv_qp_attr *attr, enum ibv_qp_state from, enum ibv_qp_state to)
{
	attr_rtr(&end, attr, end.qp->qp_num, &end.gid, 0x123456);
	attr->qp_state = to;
	attr->cur_qp_state = from;
	attr->port_num = 1;
	attr->qp_access_flags = IBV_ACCESS_REMOTE_READ;
	attr->path_mtu = IBV_MTU_512;
	attr->timeout = 18;
	attr->retry_cnt = 3;
	attr->rnr_retry = 5;
	attr->sq_psn = 0x654321;
	attr->min_rnr_timer = 30;
	attr->max_rd_atomic = 2;
	attr->max_dest_rd_atomic = 3;
	attr->alt_ah_attr = attr->ah_attr;
	attr->alt_port_num = 1;
	attr->path_mig_state = IBV_MIG_MIGRATED;
	attr->qkey = 0x11111111;
	attr->en_sqd_async_notify = 0;
}

static void bring_to(enum ibv_qp_state state)
{
	assert_int_equal(end_state(&end, IBV_QPS_RESET), 0);
	if (state == IBV_QPS_RESET)
		return;
	assert_int_equal(end_init(&end), 0);
	if (state == IBV_QPS_INIT)
		return;
	if (state != IBV_QPS_ERR) {
		assert_int_equal(end_rtr(&end, end.qp->qp_num, &end.gid, 7), 0);
		if (state == IBV_QPS_RTR)
			return;
		assert_int_equal(end_rts(&end), 0);
		if (state == IBV_QPS_RTS)
			return;
	}
	assert_int_equal(end_state(&end, state), 0);
}

static void query(struct ibv_qp_attr *attr)
{
	struct ibv_qp_init_attr init;

	memset(attr, 0, sizeof(*attr));
	assert_int_equal(ibv_query_qp(end.qp, attr, ALL_BITS, &init), 0);
}

static void fails_unchanged(struct ibv_qp_attr *attr, int mask)
{
	struct ibv_qp_attr before, after;
	enum ibv_qp_state state;

	query(&before);
	state = end.qp->state;
	errno = 0;
	if (ibv_modify_qp(end.qp, attr, mask) != EINVAL)
		print_error("%d -> %d with mask 0x%x\n", (int)before.qp_state, (int)attr->qp_state,
			    (unsigned)mask);
	assert_int_equal(errno, EINVAL);
	query(&after);
	assert_memory_equal(&before, &after, sizeof(before));
	assert_int_equal(end.qp->state, state);
}

static void succeeds(struct ibv_qp_attr *attr, int mask, enum ibv_qp_state want)
{
	struct ibv_qp_attr after;
	int err = ibv_modify_qp(end.qp, attr, mask);

	if (err)
		print_error("%d -> %d with mask 0x%x: %d\n", (int)end.qp->state,
			    (int)attr->qp_state, (unsigned)mask, err);
	assert_int_equal(err, 0);
	assert_int_equal(end.qp->state, want);
	query(&after);
	assert_int_equal(after.qp_state, want);
	assert_int_equal(after.cur_qp_state, want);
}

/* A row: each required bit dropped, each foreign bit added, exact, each optional bit. */
static void check_row(const struct row *row)
{
	int foreign = ALL_BITS & ~(row->required | row->optional | IBV_QP_STATE);
	struct ibv_qp_attr attr;

	bring_to(row->from);
	fill_attr(&attr, row->from, row->to);
	for (int bit = 1; bit <= IBV_QP_RATE_LIMIT; bit <<= 1) {
		if (bit & row->required)
			fails_unchanged(&attr, (row->required | IBV_QP_STATE) & ~bit);
		if (bit & foreign)
			fails_unchanged(&attr, row->required | IBV_QP_STATE | bit);
	}
	fails_unchanged(&attr, row->required | IBV_QP_STATE | IBV_QP_RATE_LIMIT << 1);
	succeeds(&attr, row->required | IBV_QP_STATE, row->to);
	for (int bit = 1; bit <= IBV_QP_RATE_LIMIT; bit <<= 1)
		if (bit & row->optional) {
			bring_to(row->from);
			succeeds(&attr, row->required | IBV_QP_STATE | bit, row->to);
		}
	bring_to(row->from);
	succeeds(&attr, row->required | row->optional | IBV_QP_STATE, row->to);
}

static void test_masks(void **state)
{
	for (size_t i = 0; i < ROWS; i++)
		check_row(&rows[i]);
}

/* Without IBV_QP_STATE the state stays, and the row of X -> X holds. */
static void test_no_state_bit(void **state)
{
	for (size_t i = 0; i < ROWS; i++) {
		struct ibv_qp_attr attr;
		int foreign = ALL_BITS & ~(rows[i].optional | IBV_QP_STATE);

		if (rows[i].from != rows[i].to)
			continue;
		bring_to(rows[i].from);
		fill_attr(&attr, rows[i].from, IBV_QPS_ERR);
		for (int bit = 1; bit <= IBV_QP_RATE_LIMIT; bit <<= 1)
			if (bit & foreign)
				fails_unchanged(&attr, bit);
		succeeds(&attr, rows[i].optional, rows[i].from);
	}
	bring_to(IBV_QPS_RTR);
	{
		struct ibv_qp_attr attr;

		fill_attr(&attr, IBV_QPS_RTR, IBV_QPS_RTR);
		fails_unchanged(&attr, IBV_QP_ACCESS_FLAGS);
	}
}

/* Every pair of states that is no row. */
static void test_transitions(void **state)
{
	for (int from = 0; from < STATES; from++) {
		if (from == IBV_QPS_SQE)
			continue; /* an RC QP is never there */
		for (int to = 0; to <= STATES + 1; to++) {
			struct ibv_qp_attr attr;
			const struct row *row = NULL;

			for (size_t i = 0; i < ROWS; i++)
				if ((int)rows[i].from == from && (int)rows[i].to == to)
					row = &rows[i];
			if (row)
				continue;
			bring_to((enum ibv_qp_state)from);
			fill_attr(&attr, (enum ibv_qp_state)from, (enum ibv_qp_state)to);
			if (to == IBV_QPS_RESET || (to == IBV_QPS_ERR && from != IBV_QPS_RESET)) {
				for (int bit = 2; bit <= IBV_QP_RATE_LIMIT; bit <<= 1)
					fails_unchanged(&attr, IBV_QP_STATE | bit);
				succeeds(&attr, IBV_QP_STATE, (enum ibv_qp_state)to);
			} else {
				fails_unchanged(&attr, IBV_QP_STATE);
				for (size_t i = 0; i < ROWS; i++)
					fails_unchanged(&attr, IBV_QP_STATE | rows[i].required);
			}
		}
	}
}

static void test_cur_state(void **state)
{
	struct ibv_qp_attr attr;

	bring_to(IBV_QPS_RTR);
	for (int cur = 0; cur <= STATES; cur++) {
		if (cur == IBV_QPS_RTR)
			continue;
		fill_attr(&attr, (enum ibv_qp_state)cur, IBV_QPS_RTS);
		fails_unchanged(&attr, rows[3].required | IBV_QP_STATE | IBV_QP_CUR_STATE);
	}
	fill_attr(&attr, IBV_QPS_RTR, IBV_QPS_RTS);
	succeeds(&attr, rows[3].required | IBV_QP_STATE | IBV_QP_CUR_STATE, IBV_QPS_RTS);
	fill_attr(&attr, IBV_QPS_SQD, IBV_QPS_RTS);
	fails_unchanged(&attr, IBV_QP_STATE | IBV_QP_CUR_STATE);
	fill_attr(&attr, IBV_QPS_RTS, IBV_QPS_RTS);
	succeeds(&attr, IBV_QP_CUR_STATE, IBV_QPS_RTS);
}

/* One attribute's values at a transition, the rest being right. */
static void check_value(const struct row *row, size_t offset, size_t size, uint32_t value,
			bool good, int extra)
{
	int mask = row->required | IBV_QP_STATE | extra;
	struct ibv_qp_attr attr;

	bring_to(row->from);
	fill_attr(&attr, row->from, row->to);
	memcpy((char *)&attr + offset, &value, size); /* little end first; see below */
	if (good)
		succeeds(&attr, mask, row->to);
	else
		fails_unchanged(&attr, mask);
}

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "check_value copies the low bytes of a number"
#endif

#define VALUE(row, field, value, good, extra)                                                      \
	check_value(row, offsetof(struct ibv_qp_attr, field),                                      \
		    sizeof(((struct ibv_qp_attr *)0)->field), value, good, extra)

static void test_values_init(void **state)
{
	const struct row *init = &rows[0];

	VALUE(init, port_num, 0, false, 0);
	VALUE(init, port_num, 2, false, 0);
	VALUE(init, port_num, 255, false, 0);
	VALUE(init, pkey_index, 0, true, 0);
	VALUE(init, pkey_index, 1, false, 0);
	VALUE(init, pkey_index, 0xffff, false, 0);
	VALUE(init, qp_access_flags, 0, true, 0);
	VALUE(init, qp_access_flags, 0xf, true, 0);
	VALUE(init, qp_access_flags, 0x40000000, false, 0);
}

static void test_values_rtr(void **state)
{
	const struct row *rtr = &rows[2];
	struct ibv_device_attr dev;
	struct ibv_port_attr port;

	assert_int_equal(ibv_query_device(end.context, &dev), 0);
	assert_int_equal(ibv_query_port(end.context, 1, &port), 0);
	VALUE(rtr, path_mtu, 0, false, 0);
	for (uint32_t mtu = IBV_MTU_256; mtu <= 8; mtu++)
		VALUE(rtr, path_mtu, mtu, mtu <= (uint32_t)port.active_mtu, 0);
	VALUE(rtr, dest_qp_num, 0, true, 0);
	VALUE(rtr, dest_qp_num, 0xffffff, true, 0);
	VALUE(rtr, dest_qp_num, 0x1000000, false, 0);
	VALUE(rtr, min_rnr_timer, 0, true, 0);
	VALUE(rtr, min_rnr_timer, 31, true, 0);
	VALUE(rtr, min_rnr_timer, 32, false, 0);
	VALUE(rtr, max_dest_rd_atomic, 0, true, 0);
	VALUE(rtr, max_dest_rd_atomic, (uint32_t)dev.max_qp_rd_atom, true, 0);
	VALUE(rtr, max_dest_rd_atomic, (uint32_t)dev.max_qp_rd_atom + 1, false, 0);
	VALUE(rtr, ah_attr.is_global, 0, false, 0);
	VALUE(rtr, ah_attr.port_num, 0, false, 0);
	VALUE(rtr, ah_attr.port_num, 2, false, 0);
	for (uint32_t i = 0; i < 256; i++) {
		union ibv_gid gid = {.raw = {0}}, zero = {.raw = {0}};
		bool used = (int)i < port.gid_tbl_len &&
			    !ibv_query_gid(end.context, 1, (int)i, &gid) &&
			    memcmp(&gid, &zero, sizeof(gid)) != 0;

		VALUE(rtr, ah_attr.grh.sgid_index, i, used, 0);
	}
	VALUE(rtr, pkey_index, 1, false, IBV_QP_PKEY_INDEX);
}

static void test_values_rts(void **state)
{
	const struct row *rts = &rows[3];
	struct ibv_device_attr dev;

	assert_int_equal(ibv_query_device(end.context, &dev), 0);
	VALUE(rts, timeout, 0, true, 0);
	VALUE(rts, timeout, 31, true, 0);
	VALUE(rts, timeout, 32, false, 0);
	VALUE(rts, retry_cnt, 0, true, 0);
	VALUE(rts, retry_cnt, 7, true, 0);
	VALUE(rts, retry_cnt, 8, false, 0);
	VALUE(rts, rnr_retry, 0, true, 0);
	VALUE(rts, rnr_retry, 7, true, 0);
	VALUE(rts, rnr_retry, 8, false, 0);
	VALUE(rts, max_rd_atomic, 0, true, 0);
	VALUE(rts, max_rd_atomic, (uint32_t)dev.max_qp_init_rd_atom, true, 0);
	VALUE(rts, max_rd_atomic, (uint32_t)dev.max_qp_init_rd_atom + 1, false, 0);
	VALUE(rts, min_rnr_timer, 32, false, IBV_QP_MIN_RNR_TIMER);
}

/* Sequence numbers have 24 bits; what is above is cut off. */
static void test_psns(void **state)
{
	struct ibv_qp_attr attr;

	bring_to(IBV_QPS_INIT);
	fill_attr(&attr, IBV_QPS_INIT, IBV_QPS_RTR);
	attr.rq_psn = 0xff123456;
	succeeds(&attr, rows[2].required | IBV_QP_STATE, IBV_QPS_RTR);
	query(&attr);
	assert_int_equal(attr.rq_psn, 0x123456);
	fill_attr(&attr, IBV_QPS_RTR, IBV_QPS_RTS);
	attr.sq_psn = 0xff654321;
	succeeds(&attr, rows[3].required | IBV_QP_STATE, IBV_QPS_RTS);
	query(&attr);
	assert_int_equal(attr.sq_psn, 0x654321);
}

/* What was set is what is told; RESET forgets it. */
static void test_query(void **state)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr, got;

	bring_to(IBV_QPS_INIT);
	fill_attr(&attr, IBV_QPS_INIT, IBV_QPS_RTR);
	succeeds(&attr, rows[2].required | rows[2].optional | IBV_QP_STATE, IBV_QPS_RTR);
	attr.qp_state = IBV_QPS_RTS;
	succeeds(&attr, rows[3].required | IBV_QP_STATE, IBV_QPS_RTS);
	memset(&init, 0xff, sizeof(init));
	assert_int_equal(ibv_query_qp(end.qp, &got, ALL_BITS, &init), 0);
	assert_int_equal(got.qp_state, IBV_QPS_RTS);
	assert_int_equal(got.path_mtu, attr.path_mtu);
	assert_int_equal(got.rq_psn, attr.rq_psn);
	assert_int_equal(got.sq_psn, attr.sq_psn);
	assert_int_equal(got.dest_qp_num, attr.dest_qp_num);
	assert_int_equal(got.qp_access_flags, attr.qp_access_flags);
	assert_memory_equal(&got.ah_attr.grh, &attr.ah_attr.grh, sizeof(got.ah_attr.grh));
	assert_int_equal(got.ah_attr.is_global, 1);
	assert_int_equal(got.ah_attr.port_num, 1);
	assert_int_equal(got.pkey_index, 0);
	assert_int_equal(got.sq_draining, 0);
	assert_int_equal(got.max_rd_atomic, attr.max_rd_atomic);
	assert_int_equal(got.max_dest_rd_atomic, attr.max_dest_rd_atomic);
	assert_int_equal(got.min_rnr_timer, attr.min_rnr_timer);
	assert_int_equal(got.port_num, 1);
	assert_int_equal(got.timeout, attr.timeout);
	assert_int_equal(got.retry_cnt, attr.retry_cnt);
	assert_int_equal(got.rnr_retry, attr.rnr_retry);
	assert_true(got.cap.max_send_wr >= end.opts.sends);
	assert_memory_equal(&got.cap, &init.cap, sizeof(got.cap));
	assert_ptr_equal(init.qp_context, &end);
	assert_ptr_equal(init.send_cq, end.send_cq);
	assert_ptr_equal(init.recv_cq, end.recv_cq);
	assert_null(init.srq);
	assert_int_equal(init.qp_type, IBV_QPT_RC);
	assert_int_equal(init.sq_sig_all, 0);
	bring_to(IBV_QPS_RESET);
	query(&got);
	assert_int_equal(got.qp_state, IBV_QPS_RESET);
	assert_int_equal(got.dest_qp_num, 0);
	assert_int_equal(got.timeout, 0);
	assert_int_equal(got.ah_attr.is_global, 0);
}

/* A path given in RTS is refused, and the QP goes on working. */
static void test_path_in_rts(void **state)
{
	struct ibv_qp_attr attr;
	struct ibv_wc wc;

	bring_to(IBV_QPS_RESET);
	end_self(&end);
	fill_attr(&attr, IBV_QPS_RTS, IBV_QPS_RTS);
	attr.ah_attr.static_rate = IBV_RATE_10_GBPS;
	fails_unchanged(&attr, IBV_QP_AV);
	fails_unchanged(&attr, IBV_QP_AV | IBV_QP_STATE);
	assert_int_equal(post_recv(&end, 1, NULL, 0), 0);
	assert_int_equal(post_send(&end, 2, NULL, 0, IBV_SEND_SIGNALED), 0);
	wait_wc(end.send_cq, &wc);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	wait_wc(end.recv_cq, &wc);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

/* The port says that a path needs a GRH. */
static void test_grh_flag(void **state)
{
	struct ibv_port_attr port;

	assert_int_equal(ibv_query_port(end.context, 1, &port), 0);
	assert_true(port.flags & 1);
	assert_int_equal(port.link_layer, IBV_LINK_LAYER_ETHERNET);
}

static int open_end(void **state)
{
	end_open(&end, &pair_defaults);
	return 0;
}

static int close_end(void **state)
{
	end_close(&end);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_masks),	    cmocka_unit_test(test_no_state_bit),
		cmocka_unit_test(test_transitions), cmocka_unit_test(test_cur_state),
		cmocka_unit_test(test_values_init), cmocka_unit_test(test_values_rtr),
		cmocka_unit_test(test_values_rts),  cmocka_unit_test(test_psns),
		cmocka_unit_test(test_query),	    cmocka_unit_test(test_path_in_rts),
		cmocka_unit_test(test_grh_flag),
	};

	return cmocka_run_group_tests(tests, open_end, close_end);
}

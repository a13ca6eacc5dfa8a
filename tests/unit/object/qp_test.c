/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "object/qp.h"

static const struct ibv_device_attr limits = {.max_qp_wr = 100,
					      .max_sge = 10,
					      .phys_port_cnt = 1,
					      .max_pkeys = 1,
					      .max_qp_rd_atom = 8,
					      .max_qp_init_rd_atom = 6};

static void test_init(void **state)
{
	static const struct {
		struct ibv_qp_cap cap;
		int err;
	} rows[] = {
		{{0, 0, 0, 0, 0}, 0},
		{{100, 100, 10, 10, 64}, 0},
		{{101, 1, 1, 1, 0}, EINVAL},
		{{1, 101, 1, 1, 0}, EINVAL},
		{{1, 1, 11, 1, 0}, EINVAL},
		{{1, 1, 1, 11, 0}, EINVAL},
		{{1, 1, 1, 1, 65}, EINVAL},
		{{UINT32_MAX, 1, 1, 1, 0}, EINVAL},
		{{1, 1, 1, 1, UINT32_MAX}, EINVAL},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_qp_init_attr attr = {.cap = rows[i].cap, .qp_type = IBV_QPT_RC};

		assert_int_equal(vb_qp_check_init(&attr, &limits, 64), rows[i].err);
	}
}

static void test_types(void **state)
{
	struct ibv_qp_init_attr attr = {.cap = {1, 1, 1, 1, 0}};

	for (int type = 0; type < 300; type++) {
		int want = EINVAL;

		attr.qp_type = (enum ibv_qp_type)type;
		if (type == IBV_QPT_RC || type == IBV_QPT_UC || type == IBV_QPT_UD)
			want = 0;
		else if (type == IBV_QPT_RAW_PACKET || type == IBV_QPT_XRC_SEND ||
			 type == IBV_QPT_XRC_RECV || type == IBV_QPT_DRIVER)
			continue; /* offered or not, by what the device can do */
		assert_int_equal(vb_qp_check_init(&attr, &limits, 64), want);
	}
}

/* One attribute at a time: the first bad value below, the edges, the first above. */
static void test_values(void **state)
{
	struct vb_qp qp = {.ibv.qp_type = IBV_QPT_RC};
	struct ibv_qp_attr good = {.qp_state = IBV_QPS_RTR,
				   .path_mtu = IBV_MTU_1024,
				   .ah_attr = {.is_global = 1, .port_num = 1}};
	const int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			 IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	struct ibv_qp_attr attr;

	atomic_store(&qp.state, IBV_QPS_INIT);
#define CHECK_ONE(field, value, err)                                                               \
	do {                                                                                       \
		attr = good;                                                                       \
		attr.field = value;                                                                \
		assert_int_equal(vb_qp_check_modify(&qp, &attr, mask, &limits, IBV_MTU_1024),      \
				 err);                                                             \
	} while (0)
	CHECK_ONE(path_mtu, IBV_MTU_256, 0);
	CHECK_ONE(path_mtu, IBV_MTU_2048, EINVAL);
	CHECK_ONE(path_mtu, (enum ibv_mtu)0, EINVAL);
	CHECK_ONE(dest_qp_num, 0xffffff, 0);
	CHECK_ONE(dest_qp_num, 0x1000000, EINVAL);
	CHECK_ONE(max_dest_rd_atomic, 8, 0);
	CHECK_ONE(max_dest_rd_atomic, 9, EINVAL);
	CHECK_ONE(min_rnr_timer, 31, 0);
	CHECK_ONE(min_rnr_timer, 32, EINVAL);
	CHECK_ONE(ah_attr.is_global, 0, EINVAL);
	CHECK_ONE(ah_attr.port_num, 0, EINVAL);
	CHECK_ONE(ah_attr.port_num, 2, EINVAL);
	CHECK_ONE(qp_state, IBV_QPS_RTS, EINVAL);
#undef CHECK_ONE
	assert_int_equal(vb_qp_check_modify(&qp, &good, mask & ~IBV_QP_AV, &limits, IBV_MTU_1024),
			 EINVAL);
	assert_int_equal(atomic_load(&qp.state), IBV_QPS_INIT);
}

/* Only what is in the mask is taken over. */
static void test_apply(void **state)
{
	struct vb_qp qp = {.attr = {.timeout = 1, .retry_cnt = 2, .rnr_retry = 3}};
	struct ibv_qp_attr attr = {.timeout = 11, .retry_cnt = 7, .rnr_retry = 6, .port_num = 1};

	vb_qp_apply(&qp, &attr, IBV_QP_TIMEOUT | IBV_QP_PORT);
	assert_int_equal(qp.attr.timeout, 11);
	assert_int_equal(qp.attr.port_num, 1);
	assert_int_equal(qp.attr.retry_cnt, 2);
	assert_int_equal(qp.attr.rnr_retry, 3);
	attr.rq_psn = attr.sq_psn = 0xff000001;
	vb_qp_apply(&qp, &attr, IBV_QP_RQ_PSN | IBV_QP_SQ_PSN);
	assert_int_equal(qp.attr.rq_psn & 0xffffff, 1);
}

/* Slots do not overlap, and inline data has its room behind the elements. */
static void test_queue(void **state)
{
	for (uint32_t wr = 0; wr <= 100; wr += 7)
		for (uint32_t sge = 0; sge <= 10; sge += 5)
			for (uint32_t bytes = 0; bytes < 70; bytes += 13) {
				struct vb_qp qp = {.cap = {.max_send_wr = wr,
							   .max_send_sge = sge,
							   .max_inline_data = bytes}};
				uint8_t *slot, *end;

				assert_int_equal(vb_qp_sq_init(&qp), 0);
				assert_true(qp.sq.mask + 1 >= wr);
				assert_int_equal(qp.sq.mask & (qp.sq.mask + 1), 0);
				slot = (uint8_t *)vb_sq_slot(&qp.sq, 0);
				end = vb_swqe_inline(&qp, vb_sq_slot(&qp.sq, 0)) + bytes;
				assert_true(end <= slot + qp.sq.stride);
				assert_ptr_equal(vb_sq_slot(&qp.sq, qp.sq.mask + 1), slot);
				free(qp.sq.slots);
			}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_init),   cmocka_unit_test(test_types),
		cmocka_unit_test(test_values), cmocka_unit_test(test_apply),
		cmocka_unit_test(test_queue),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "object/qp_table.h"

static const enum ibv_qp_type types[] = {IBV_QPT_RC,	   IBV_QPT_UC,	     IBV_QPT_UD,
					 IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV, IBV_QPT_RAW_PACKET};

#define RC (1 << 0)
#define UC (1 << 1)
#define UD (1 << 2)
#define XS (1 << 3)
#define XR (1 << 4)
#define RP (1 << 5)

/* Which types have which transitions, beside those to RESET and ERR. */
static const struct {
	enum ibv_qp_state from, to;
	int types;
} ways[] = {
	{IBV_QPS_RESET, IBV_QPS_INIT, RC | UC | UD | XS | XR | RP},
	{IBV_QPS_INIT, IBV_QPS_INIT, RC | UC | UD | XS | XR},
	{IBV_QPS_INIT, IBV_QPS_RTR, RC | UC | UD | XS | XR | RP},
	{IBV_QPS_RTR, IBV_QPS_RTS, RC | UC | UD | XS | XR | RP},
	{IBV_QPS_RTS, IBV_QPS_RTS, RC | UC | UD | XS | XR | RP},
	{IBV_QPS_RTS, IBV_QPS_SQD, RC | UC | UD | XS | XR},
	{IBV_QPS_SQD, IBV_QPS_RTS, RC | UC | UD | XS | XR},
	{IBV_QPS_SQD, IBV_QPS_SQD, RC | UC | UD | XS | XR},
	{IBV_QPS_SQE, IBV_QPS_RTS, UC | UD},
};

static bool expected(int type, int from, int to)
{
	if (to == IBV_QPS_RESET)
		return true;
	if (to == IBV_QPS_ERR)
		return from != IBV_QPS_RESET;
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if ((int)ways[i].from == from && (int)ways[i].to == to)
			return ways[i].types >> type & 1;
	return false;
}

static void test_transitions(void **state)
{
	for (int type = 0; type < 6; type++)
		for (int from = 0; from <= IBV_QPS_ERR; from++)
			for (int to = 0; to <= IBV_QPS_ERR; to++) {
				struct vb_qp_transition row =
					vb_qp_transition(types[type], (enum ibv_qp_state)from,
							 (enum ibv_qp_state)to);

				if (row.valid != expected(type, from, to))
					print_error("type %d: %d -> %d\n", type, from, to);
				assert_int_equal(row.valid, expected(type, from, to));
				/* What must be there is not optional, and the state is implied. */
				assert_int_equal(row.required & row.optional, 0);
				assert_int_equal((row.required | row.optional) & IBV_QP_STATE, 0);
				if (!row.valid || to == IBV_QPS_RESET || to == IBV_QPS_ERR)
					assert_int_equal(row.required | row.optional, 0);
			}
}

static void test_required(void **state)
{
	const int path = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	const int rnr = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	const int init = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	const int retries = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			    IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_SQ_PSN;
	const int want[3][6] = {
		{init, init, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, init, init,
		 IBV_QP_PORT},
		{path | rnr, path, 0, path, path | rnr, 0},
		{retries, IBV_QP_SQ_PSN, IBV_QP_SQ_PSN, retries, IBV_QP_TIMEOUT | IBV_QP_SQ_PSN, 0},
	};

	for (int step = 0; step < 3; step++)
		for (int type = 0; type < 6; type++)
			assert_int_equal(vb_qp_transition(types[type], (enum ibv_qp_state)step,
							  (enum ibv_qp_state)(step + 1))
						 .required,
					 want[step][type]);
}

static void test_strange(void **state)
{
	assert_false(vb_qp_transition((enum ibv_qp_type)0, IBV_QPS_RESET, IBV_QPS_INIT).valid);
	assert_false(vb_qp_transition(IBV_QPT_DRIVER, IBV_QPS_RESET, IBV_QPS_INIT).valid);
	assert_false(vb_qp_transition(IBV_QPT_RC, (enum ibv_qp_state)7, IBV_QPS_RESET).valid);
	assert_false(vb_qp_transition(IBV_QPT_RC, IBV_QPS_RESET, (enum ibv_qp_state)7).valid);
	assert_false(vb_qp_transition(IBV_QPT_RC, (enum ibv_qp_state) - 1, IBV_QPS_ERR).valid);
}

static void test_texts(void **state)
{
	char text[600], small[8];

	assert_string_equal(vb_qp_state_name(IBV_QPS_RESET), "RESET");
	assert_string_equal(vb_qp_state_name(IBV_QPS_ERR), "ERR");
	assert_string_equal(vb_qp_state_name((enum ibv_qp_state)7), "unknown");
	assert_string_equal(vb_qp_type_name(IBV_QPT_RC), "RC");
	assert_string_equal(vb_qp_type_name((enum ibv_qp_type)1), "unknown");
	assert_string_equal(vb_qp_mask_text(0, text, sizeof(text)), "none");
	assert_string_equal(vb_qp_mask_text(IBV_QP_STATE | IBV_QP_PORT, text, sizeof(text)),
			    "IBV_QP_STATE|IBV_QP_PORT");
	assert_string_equal(vb_qp_mask_text(1 << 30 | IBV_QP_AV, text, sizeof(text)),
			    "IBV_QP_AV|0x40000000");
	vb_qp_mask_text(-1, text, sizeof(text));
	assert_non_null(strstr(text, "IBV_QP_RATE_LIMIT"));
	/* Too little room cuts, and nothing behind it is touched. */
	memset(small, 'x', sizeof(small));
	vb_qp_mask_text(-1, small, 4);
	assert_int_equal(strlen(small), 3);
	assert_int_equal(small[4], 'x');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_transitions),
		cmocka_unit_test(test_required),
		cmocka_unit_test(test_strange),
		cmocka_unit_test(test_texts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

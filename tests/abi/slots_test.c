/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A context none of whose operations is implemented, used through the header's inline
 * verbs: every one refuses in its own way and none jumps to NULL.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* The slots' functions are private to the library; here with a vb_fail() that remembers. */
#include "verbs/unsupported_ops.c"

static enum vb_rule broken = VB_RULE_COUNT;

int vb_fail(enum vb_rule rule, const char *fmt, ...)
{
	broken = rule;
	errno = EOPNOTSUPP;
	return EOPNOTSUPP;
}

#define assert_refused()                                                                           \
	do {                                                                                       \
		assert_int_equal(broken, VB_RULE_NOT_SUPPORTED);                                   \
		assert_int_equal(errno, EOPNOTSUPP);                                               \
		broken = VB_RULE_COUNT;                                                            \
		errno = 0;                                                                         \
	} while (0)
#define assert_code(call)                                                                          \
	do {                                                                                       \
		assert_int_equal(call, EOPNOTSUPP);                                                \
		assert_refused();                                                                  \
	} while (0)
#define assert_object(call)                                                                        \
	do {                                                                                       \
		assert_null(call);                                                                 \
		assert_refused();                                                                  \
	} while (0)

static struct vb_context ctx;
static struct ibv_context *const context = &ctx.vctx.context;

static int setup(void **state)
{
	memset(&ctx, 0xee, sizeof(ctx));
	vb_ops_fill_unsupported(&ctx);
	context->abi_compat = __VERBS_ABI_IS_EXTENDED;
	ctx.vctx.sz = VB_CTX_SIZE;
	broken = VB_RULE_COUNT;
	errno = 0;
	return 0;
}

static void every_slot_has_a_function(void **state)
{
	for (size_t before = 24; before <= VB_CTX_FRONT; before += 8) {
		uintptr_t slot = (uintptr_t)VB_CTX_SLOT(&ctx, before);

		if (before == 112) /* priv: the library's own */
			continue;
		if (!slot || slot == (uintptr_t)0xeeeeeeeeeeeeeeeeull)
			fail_msg("the slot %zu bytes before the context is not set", before);
	}
}

static void old_programs_find_the_flow_functions(void **state)
{
	assert_ptr_equal(VB_CTX_SLOT(&ctx, 72), VB_CTX_SLOT(&ctx, 80));
	assert_ptr_equal(VB_CTX_SLOT(&ctx, 88), VB_CTX_SLOT(&ctx, 96));
	assert_ptr_equal((void *)ctx.vctx.ibv_create_flow, VB_CTX_SLOT(&ctx, 80));
	assert_ptr_equal((void *)ctx.vctx.ibv_destroy_flow, VB_CTX_SLOT(&ctx, 96));
	assert_non_null((void *)context->ops._compat_query_device);
	assert_non_null((void *)context->ops._compat_query_port);
}

static void data_path(void **state)
{
	struct ibv_qp qp = {.context = context};
	struct ibv_cq cq = {.context = context};
	struct ibv_srq srq = {.context = context};
	struct ibv_send_wr send = {0}, *bad_send = NULL;
	struct ibv_recv_wr recv = {0}, *bad_recv = NULL;
	struct ibv_ops_wr op = {0}, *bad_op = NULL;
	struct ibv_wc wc;

	assert_code(ibv_post_send(&qp, &send, &bad_send));
	assert_ptr_equal(bad_send, &send);
	assert_code(ibv_post_recv(&qp, &recv, &bad_recv));
	assert_ptr_equal(bad_recv, &recv);
	bad_recv = NULL;
	assert_code(ibv_post_srq_recv(&srq, &recv, &bad_recv));
	assert_ptr_equal(bad_recv, &recv);
	assert_code(ibv_post_srq_ops(&srq, &op, &bad_op));
	assert_ptr_equal(bad_op, &op);
	assert_code(ibv_req_notify_cq(&cq, 0));
	/* A positive number would be read as a count of completions. */
	assert_true(ibv_poll_cq(&cq, 1, &wc) < 0);
	assert_refused();
}

static void memory(void **state)
{
	struct ibv_pd pd = {.context = context};
	struct ibv_mw mw = {.context = context, .pd = &pd, .type = IBV_MW_TYPE_1};
	struct ibv_qp qp = {.context = context};
	struct ibv_mw_bind bind = {0};
	struct ibv_dm dm = {.context = context};
	struct ibv_alloc_dm_attr dm_attr = {0};
	struct ibv_sge sge = {0};
	struct ibv_td_init_attr td_attr = {0};
	struct ibv_td td = {.context = context};
	struct ibv_parent_domain_init_attr parent = {.pd = &pd};

	assert_object(ibv_alloc_mw(&pd, IBV_MW_TYPE_1));
	assert_code(ibv_bind_mw(&qp, &mw, &bind));
	assert_code(ibv_dealloc_mw(&mw));
	assert_code(ibv_advise_mr(&pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1));
	assert_object(ibv_alloc_null_mr(&pd));
	assert_object(ibv_alloc_dm(context, &dm_attr));
	assert_object(ibv_reg_dm_mr(&pd, &dm, 0, 1, 0));
	assert_code(ibv_free_dm(&dm));
	assert_object(ibv_alloc_td(context, &td_attr));
	assert_code(ibv_dealloc_td(&td));
	assert_object(ibv_alloc_parent_domain(context, &parent));
}

static void queues(void **state)
{
	struct ibv_cq cq = {.context = context};
	struct ibv_cq_init_attr_ex cq_attr = {.cqe = 1};
	struct ibv_modify_cq_attr cq_change = {0};
	struct ibv_srq srq = {.context = context};
	struct ibv_srq_init_attr_ex srq_attr = {.comp_mask = IBV_SRQ_INIT_ATTR_XRCD};
	struct ibv_qp qp = {.context = context};
	struct ibv_qp_init_attr_ex qp_attr = {.comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS};
	struct ibv_qp_open_attr open = {0};
	struct ibv_qp_rate_limit_attr limit = {0};
	struct ibv_xrcd_init_attr xrcd_attr = {0};
	struct ibv_xrcd xrcd = {.context = context};
	struct ibv_wq_init_attr wq_attr = {0};
	struct ibv_wq wq = {.context = context};
	struct ibv_wq_attr wq_change = {0};
	struct ibv_rwq_ind_table_init_attr table_attr = {0};
	struct ibv_rwq_ind_table table = {.context = context};
	uint32_t number;

	assert_object(ibv_create_cq_ex(context, &cq_attr));
	assert_code(ibv_modify_cq(&cq, &cq_change));
	assert_object(ibv_create_srq_ex(context, &srq_attr));
	assert_code(ibv_get_srq_num(&srq, &number));
	assert_object(ibv_create_qp_ex(context, &qp_attr));
	assert_object(ibv_open_qp(context, &open));
	assert_code(ibv_modify_qp_rate_limit(&qp, &limit));
	assert_object(ibv_open_xrcd(context, &xrcd_attr));
	assert_code(ibv_close_xrcd(&xrcd));
	assert_object(ibv_create_wq(context, &wq_attr));
	assert_code(ibv_modify_wq(&wq, &wq_change));
	assert_code(ibv_destroy_wq(&wq));
	assert_object(ibv_create_rwq_ind_table(context, &table_attr));
	assert_code(ibv_destroy_rwq_ind_table(&table));
}

static void device_and_flows(void **state)
{
	struct ibv_port_attr port;
	struct ibv_values_ex values = {0};
	struct ibv_counters counters = {.context = context};
	struct ibv_counters_init_attr counters_attr = {0};
	struct ibv_counter_attach_attr attach = {0};
	struct ibv_flow flow = {.context = context};
	struct ibv_flow_attr flow_attr = {0};
	struct ibv_flow_action action = {.context = context};
	struct ibv_flow_action_esp_attr esp = {0};
	struct ibv_qp qp = {.context = context};
	uint64_t value;

	assert_code(___ibv_query_port(context, 1, &port));
	assert_code(ibv_query_rt_values_ex(context, &values));
	assert_object(ibv_create_counters(context, &counters_attr));
	assert_code(ibv_read_counters(&counters, &value, 1, 0));
	assert_code(ibv_attach_counters_point_flow(&counters, &attach, &flow));
	assert_code(ibv_destroy_counters(&counters));
	assert_object(ibv_create_flow(&qp, &flow_attr));
	assert_code(ibv_destroy_flow(&flow));
	assert_object(ibv_create_flow_action_esp(context, &esp));
	assert_code(ibv_modify_flow_action_esp(&action, &esp));
	assert_code(ibv_destroy_flow_action(&action));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(every_slot_has_a_function, setup),
		cmocka_unit_test_setup(old_programs_find_the_flow_functions, setup),
		cmocka_unit_test_setup(data_path, setup),
		cmocka_unit_test_setup(memory, setup),
		cmocka_unit_test_setup(queues, setup),
		cmocka_unit_test_setup(device_and_flows, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

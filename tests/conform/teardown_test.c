/* SPDX-License-Identifier: BSD-2-Clause */
/* Who depends on whom, handles that name nothing, and limits that are exact. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/child.h"
#include "lib/verbs_pair.h"

/* Fails with EBUSY, in errno as well. */
#define IS_BUSY(call)                                                                              \
	do {                                                                                       \
		errno = 0;                                                                         \
		assert_int_equal(call, EBUSY);                                                     \
		assert_int_equal(errno, EBUSY);                                                    \
	} while (0)

/* After a refused destroy everything works as before. */
static void still_works(struct verbs_end *end, struct test_mem *mem)
{
	struct ibv_sge sge = {mem->start, 16, mem->mr->lkey};
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	assert_int_equal(ibv_req_notify_cq(end->recv_cq, 0), 0);
	assert_int_equal(post_recv(end, 1, &sge, 1), 0);
	assert_int_equal(post_send(end, 2, &sge, 1, IBV_SEND_SIGNALED), 0);
	wait_wc(end->recv_cq, &wc);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	wait_wc(end->send_cq, &wc);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_get_cq_event(end->channel, &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
}

static void test_busy(void **state)
{
	struct pair_opts opts = pair_defaults;
	struct verbs_end end;
	struct test_mem mem;

	opts.channel = true;
	end_open(&end, &opts);
	end_self(&end);
	mem_new(&mem, end.pd, MEM_ANON, 64, IBV_ACCESS_LOCAL_WRITE);
	for (int round = 0; round < 3; round++) {
		IS_BUSY(ibv_dealloc_pd(end.pd));
		IS_BUSY(ibv_destroy_cq(end.send_cq));
		IS_BUSY(ibv_destroy_cq(end.recv_cq));
		IS_BUSY(ibv_destroy_comp_channel(end.channel));
		still_works(&end, &mem);
	}
	assert_int_equal(ibv_destroy_qp(end.qp), 0);
	IS_BUSY(ibv_dealloc_pd(end.pd)); /* the MR */
	IS_BUSY(ibv_destroy_comp_channel(end.channel));
	assert_int_equal(ibv_destroy_cq(end.send_cq), 0);
	IS_BUSY(ibv_destroy_comp_channel(end.channel));
	assert_int_equal(ibv_destroy_cq(end.recv_cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(end.channel), 0);
	mem_free(&mem);
	assert_int_equal(ibv_dealloc_pd(end.pd), 0);
	assert_int_equal(ibv_close_device(end.context), 0);
}

/* Case 20: a program that forgot one MR; the PD stays usable. */
static void test_forgotten_mr(void **state)
{
	struct ibv_context *context = open_verbs();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	static char buffer[64];
	struct ibv_mr *mr = ibv_reg_mr(pd, buffer, sizeof(buffer), 0), *other;

	assert_non_null(mr);
	IS_BUSY(ibv_dealloc_pd(pd));
	other = ibv_reg_mr(pd, buffer, sizeof(buffer), 0);
	assert_non_null(other);
	assert_int_not_equal(other->lkey, mr->lkey);
	assert_int_equal(ibv_dereg_mr(other), 0);
	IS_BUSY(ibv_dealloc_pd(pd));
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(context), 0);
}

/* Each call on an object whose handle was overwritten, with several wrong handles. */
#define BAD(object, call)                                                                          \
	do {                                                                                       \
		uint32_t good_ = (object)->handle;                                                 \
		for (size_t i_ = 0; i_ < 4; i_++) {                                                \
			(object)->handle = wrong[i_];                                              \
			errno = 0;                                                                 \
			assert_int_equal(call, ENOENT);                                            \
			assert_int_equal(errno, ENOENT);                                           \
		}                                                                                  \
		(object)->handle = good_;                                                          \
	} while (0)

/* NULL and errno where a parent's handle is wrong. */
#define BAD_PARENT(object, call)                                                                   \
	do {                                                                                       \
		uint32_t good_ = (object)->handle;                                                 \
		for (size_t i_ = 0; i_ < 4; i_++) {                                                \
			(object)->handle = wrong[i_];                                              \
			errno = 0;                                                                 \
			assert_null(call);                                                         \
			assert_int_equal(errno, ENOENT);                                           \
		}                                                                                  \
		(object)->handle = good_;                                                          \
	} while (0)

static void test_handles(void **state)
{
	static const uint32_t wrong[] = {0, 0xdeadbeef, UINT32_MAX, 4242};
	struct ibv_qp_init_attr init = {.cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	struct ibv_qp_init_attr got;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct pair_opts opts = pair_defaults;
	struct verbs_end end;
	struct test_mem mem;

	opts.channel = true;
	end_open(&end, &opts);
	end_self(&end);
	mem_new(&mem, end.pd, MEM_ANON, 64, IBV_ACCESS_LOCAL_WRITE);
	init.send_cq = end.send_cq;
	init.recv_cq = end.recv_cq;
	BAD(end.pd, ibv_dealloc_pd(end.pd));
	BAD(mem.mr, ibv_dereg_mr(mem.mr));
	BAD(end.send_cq, ibv_destroy_cq(end.send_cq));
	BAD(end.send_cq, ibv_req_notify_cq(end.send_cq, 0));
	BAD(end.qp, ibv_modify_qp(end.qp, &attr, IBV_QP_STATE));
	BAD(end.qp, ibv_query_qp(end.qp, &attr, IBV_QP_STATE, &got));
	BAD(end.qp, ibv_destroy_qp(end.qp));
	BAD_PARENT(end.pd, ibv_reg_mr(end.pd, mem.base, 64, 0));
	BAD_PARENT(end.pd, ibv_create_qp(end.pd, &init));
	BAD_PARENT(end.send_cq, ibv_create_qp(end.pd, &init));
	BAD_PARENT(end.recv_cq, ibv_create_qp(end.pd, &init));
	assert_int_equal(end_query(&end), IBV_QPS_RTS);
	still_works(&end, &mem);
	mem_free(&mem);
	end_close(&end);
}

/* Objects of two contexts do not mix. */
static void test_contexts(void **state)
{
	struct ibv_qp_init_attr init = {.cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	struct pair_opts opts = pair_defaults;
	struct verbs_end a, b;

	opts.channel = true;
	end_open(&a, &opts);
	end_open(&b, &opts);
	for (int i = 0; i < 3; i++) {
		init.send_cq = i == 1 ? b.send_cq : a.send_cq;
		init.recv_cq = i == 2 ? b.recv_cq : a.recv_cq;
		errno = 0;
		assert_null(ibv_create_qp(i ? a.pd : b.pd, &init));
		assert_int_equal(errno, EINVAL);
	}
	errno = 0;
	assert_null(ibv_create_cq(a.context, 1, NULL, b.channel, 0));
	assert_int_equal(errno, EINVAL);
	end_close(&a);
	end_close(&b);
}

/* ---- Limits ---- */

#define MOST 5

struct limit {
	const char *setting;
	void *(*make)(struct verbs_end *end);
	int (*drop)(void *object);
	int taken; /* by the end itself */
};

static void *make_pd(struct verbs_end *end)
{
	return ibv_alloc_pd(end->context);
}

static int drop_pd(void *pd)
{
	return ibv_dealloc_pd(pd);
}

static void *make_mr(struct verbs_end *end)
{
	static char buffer[64];

	return ibv_reg_mr(end->pd, buffer, sizeof(buffer), 0);
}

static int drop_mr(void *mr)
{
	return ibv_dereg_mr(mr);
}

static void *make_cq(struct verbs_end *end)
{
	return ibv_create_cq(end->context, 1, NULL, NULL, 0);
}

static int drop_cq(void *cq)
{
	return ibv_destroy_cq(cq);
}

static void *make_qp(struct verbs_end *end)
{
	struct ibv_qp_init_attr init = {.cap = {1, 1, 1, 1, 0},
					.qp_type = IBV_QPT_RC,
					.send_cq = end->send_cq,
					.recv_cq = end->recv_cq};

	return ibv_create_qp(end->pd, &init);
}

static int drop_qp(void *qp)
{
	return ibv_destroy_qp(qp);
}

static const struct limit limits[] = {
	{"VERBENA_MAX_PD", make_pd, drop_pd, 1},
	{"VERBENA_MAX_MR", make_mr, drop_mr, 0},
	{"VERBENA_MAX_CQ", make_cq, drop_cq, 2},
	{"VERBENA_MAX_QP", make_qp, drop_qp, 1},
};

/* As many as advertised and not one more; one given back, one to be had. */
static void check_limit(void *arg)
{
	const struct limit *limit = arg;
	void *objects[MOST];
	struct verbs_end end;
	int n = MOST - limit->taken;

	setenv(limit->setting, "5", 1);
	end_open(&end, &pair_defaults);
	for (int round = 0; round < 50; round++) {
		for (int i = 0; i < n; i++)
			CHECK((objects[i] = limit->make(&end)) != NULL);
		errno = 0;
		CHECK(!limit->make(&end) && errno == ENOMEM);
		CHECK(limit->drop(objects[round % n]) == 0);
		CHECK((objects[round % n] = limit->make(&end)) != NULL);
		CHECK(!limit->make(&end) && errno == ENOMEM);
		for (int i = 0; i < n; i++)
			CHECK(limit->drop(objects[i]) == 0);
	}
	end_close(&end);
}

static void test_object_limits(void **state)
{
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
		assert_int_equal(run_in_child(check_limit, (void *)(uintptr_t)&limits[i]), 0);
}

static void *try_qp(struct verbs_end *end, struct ibv_qp_cap cap)
{
	struct ibv_qp_init_attr init = {.cap = cap,
					.qp_type = IBV_QPT_RC,
					.send_cq = end->send_cq,
					.recv_cq = end->recv_cq};
	struct ibv_qp *qp = ibv_create_qp(end->pd, &init);

	CHECK(!qp ||
	      (init.cap.max_send_wr >= cap.max_send_wr && init.cap.max_recv_wr >= cap.max_recv_wr &&
	       init.cap.max_send_sge >= cap.max_send_sge &&
	       init.cap.max_recv_sge >= cap.max_recv_sge &&
	       init.cap.max_inline_data >= cap.max_inline_data));
	return qp;
}

/* The sizes of queues: at the limit they can be had, one above they are EINVAL. Case 13. */
static void check_sizes(void *arg)
{
	const struct ibv_qp_cap most = {20, 20, 3, 3, 101};
	struct verbs_end end;
	struct ibv_qp *qp;

	setenv("VERBENA_MAX_QP_WR", "20", 1);
	setenv("VERBENA_MAX_SGE", "3", 1);
	setenv("VERBENA_MAX_INLINE", "101", 1);
	setenv("VERBENA_MAX_CQE", "200", 1);
	end_open(&end, &(struct pair_opts){.sends = 1,
					   .recvs = 1,
					   .sges = 1,
					   .cqe = 200,
					   .mtu = IBV_MTU_256,
					   .gid_index = 1});
	qp = try_qp(&end, most);
	CHECK(qp && ibv_destroy_qp(qp) == 0);
	for (int field = 0; field < 5; field++) {
		struct ibv_qp_cap cap = most;

		((uint32_t *)(void *)&cap)[field]++;
		errno = 0;
		CHECK(!try_qp(&end, cap) && errno == EINVAL);
		((uint32_t *)(void *)&cap)[field] = UINT32_MAX;
		CHECK(!try_qp(&end, cap) && errno == EINVAL);
	}
	qp = try_qp(&end, (struct ibv_qp_cap){0, 0, 0, 0, 0});
	CHECK(qp && ibv_destroy_qp(qp) == 0);
	CHECK(!ibv_create_cq(end.context, 201, NULL, NULL, 0) && errno == EINVAL);
	end_close(&end);
}

static void test_sizes(void **state)
{
	assert_int_equal(run_in_child(check_sizes, NULL), 0);
}

/* perftest's and others' inline sizes at the default limit. */
static void test_inline_defaults(void **state)
{
	static const uint32_t good[] = {64, 220, 912, 1005};
	struct verbs_end end;

	end_open(&end, &pair_defaults);
	for (size_t i = 0; i < 4; i++) {
		struct ibv_qp *qp = try_qp(&end, (struct ibv_qp_cap){4, 4, 1, 1, good[i]});

		assert_non_null(qp);
		assert_int_equal(ibv_destroy_qp(qp), 0);
	}
	end_close(&end);
}

/* Keys: never the same twice soon, lkey is not rkey, a number comes back with another tag. */
static void test_key_reuse(void **state)
{
	struct ibv_context *context = open_verbs();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	static char buffer[4096];
	uint32_t last[100];

	for (int i = 0; i < 2000; i++) {
		struct ibv_mr *mr = ibv_reg_mr(pd, buffer, sizeof(buffer),
					       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

		assert_non_null(mr);
		assert_int_not_equal(mr->lkey, mr->rkey);
		assert_ptr_equal(mr->addr, buffer);
		assert_int_equal(mr->length, sizeof(buffer));
		assert_ptr_equal(mr->pd, pd);
		assert_ptr_equal(mr->context, context);
		for (int k = 0; k < 100 && k < i; k++)
			assert_int_not_equal(last[k], mr->lkey);
		last[i % 100] = mr->lkey;
		assert_int_equal(ibv_dereg_mr(mr), 0);
	}
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(context), 0);
}

/* A context with objects alive may be closed; nothing crashes. */
static void leave_everything(void *arg)
{
	struct verbs_end end;
	struct test_mem mem;

	end_open(&end, &pair_defaults);
	end_self(&end);
	mem_new(&mem, end.pd, MEM_ANON, 64, 1);
	CHECK(post_recv(&end, 1, NULL, 0) == 0);
	CHECK(post_send(&end, 1, NULL, 0, IBV_SEND_SIGNALED) == 0);
	if (arg)
		CHECK(ibv_close_device(end.context) == 0);
	exit(0);
}

static void test_left_open(void **state)
{
	assert_int_equal(run_in_child(leave_everything, NULL), 0);
	assert_int_equal(run_in_child(leave_everything, (void *)1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* In processes that have not read the settings before. */
		cmocka_unit_test(test_object_limits), cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_left_open),     cmocka_unit_test(test_busy),
		cmocka_unit_test(test_forgotten_mr),  cmocka_unit_test(test_handles),
		cmocka_unit_test(test_contexts),      cmocka_unit_test(test_inline_defaults),
		cmocka_unit_test(test_key_reuse),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* The limits that a device reports are the ones it has: so many and not one more. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/verbs_many.h"

static struct verbs_end end;
static struct ibv_device_attr dev;
static uint8_t memory[64];

static void *new_pd(void)
{
	return ibv_alloc_pd(end.context);
}

static int free_pd(void *pd)
{
	return ibv_dealloc_pd(pd);
}

static void *new_mr(void)
{
	return ibv_reg_mr(end.pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
}

static int free_mr(void *mr)
{
	return ibv_dereg_mr(mr);
}

static void *new_cq(void)
{
	return ibv_create_cq(end.context, 1, NULL, NULL, 0);
}

static int free_cq(void *cq)
{
	return ibv_destroy_cq(cq);
}

static void *new_srq(void)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 1, .max_sge = 1}};

	return ibv_create_srq(end.pd, &init);
}

static int free_srq(void *srq)
{
	return ibv_destroy_srq(srq);
}

static void *new_qp(void)
{
	struct ibv_qp_init_attr init = {.send_cq = end.send_cq,
					.recv_cq = end.recv_cq,
					.cap = {1, 1, 1, 1, 0},
					.qp_type = IBV_QPT_RC};

	return ibv_create_qp(end.pd, &init);
}

static int free_qp(void *qp)
{
	return ibv_destroy_qp(qp);
}

static void *new_ah(void)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};

	attr.grh.dgid = end.gid;
	attr.grh.sgid_index = (uint8_t)end.opts.gid_index;
	return ibv_create_ah(end.pd, &attr);
}

static int free_ah(void *ah)
{
	return ibv_destroy_ah(ah);
}

/* All there are, of which `there` exist already; then none; and one for each that goes. */
static void exactly(const char *what, int limit, int there, void *(*make)(void),
		    int (*drop)(void *))
{
	int count = limit - there;
	void **all = calloc((size_t)count, sizeof(*all));

	fprintf(stderr, "%d %s\n", limit, what);
	CHECK(all && count > 0);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < count; i++) {
			all[i] = make();
			if (!all[i])
				fprintf(stderr, "%s: %d of %d: %s\n", what, i, limit,
					strerror(errno));
			CHECK(all[i]);
		}
		for (int i = 0; i < 3; i++) {
			errno = 0;
			CHECK(!make() && errno == ENOMEM);
			CHECK(drop(all[i * (count / 3)]) == 0);
			all[i * (count / 3)] = make();
			CHECK(all[i * (count / 3)]);
		}
		for (int i = 0; i < count; i++)
			CHECK(drop(all[i]) == 0);
	}
	free(all);
}

static void open_dev(void)
{
	end_open(&end, &pair_defaults);
	CHECK(ibv_query_device(end.context, &dev) == 0);
}

static void objects(void *arg)
{
	open_dev();
	exactly("PDs", dev.max_pd, 1, new_pd, free_pd);
	exactly("MRs", dev.max_mr, 0, new_mr, free_mr);
	exactly("CQs", dev.max_cq, 2, new_cq, free_cq);
	exactly("SRQs", dev.max_srq, 0, new_srq, free_srq);
	exactly("QPs", dev.max_qp, 1, new_qp, free_qp);
	exactly("AHs", dev.max_ah, 0, new_ah, free_ah);
	end_close(&end);
}
#ifndef VB_SANITIZED
CASE_IN_CHILD(objects)
#endif

/* The same of a device that is small in all of them. */
static void small(void *arg)
{
	static const char *const names[] = {"PD", "MR", "CQ", "SRQ", "QP", "AH"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char name[32];

		snprintf(name, sizeof(name), "VERBENA_MAX_%s", names[i]);
		CHECK(setenv(name, "9", 1) == 0);
	}
	objects(arg);
	CHECK(dev.max_pd == 9 && dev.max_mr == 9 && dev.max_cq == 9 && dev.max_srq == 9 &&
	      dev.max_qp == 9 && dev.max_ah == 9);
}
CASE_IN_CHILD(small)

/* Sizes of one object: what a queue pair can ask for, each alone. */
static void capacities(void *arg)
{
	open_dev();
	const struct {
		uint32_t sends, recvs, send_sge, recv_sge;
	} most[] = {
		{(uint32_t)dev.max_qp_wr, 1, 1, 1},
		{1, (uint32_t)dev.max_qp_wr, 1, 1},
		{1, 1, (uint32_t)dev.max_sge, 1},
		{1, 1, 1, (uint32_t)dev.max_sge},
	};

	for (size_t i = 0; i < sizeof(most) / sizeof(most[0]); i++) {
		for (uint32_t more = 0; more < 2; more++) {
			struct ibv_qp_init_attr init = {.send_cq = end.send_cq,
							.recv_cq = end.recv_cq,
							.cap = {most[i].sends + (i == 0) * more,
								most[i].recvs + (i == 1) * more,
								most[i].send_sge + (i == 2) * more,
								most[i].recv_sge + (i == 3) * more,
								0},
							.qp_type = IBV_QPT_RC};
			struct ibv_qp *qp;

			errno = 0;
			qp = ibv_create_qp(end.pd, &init);
			CHECK(more ? !qp && errno == EINVAL : qp != NULL);
			CHECK(!qp || ibv_destroy_qp(qp) == 0);
		}
	}
	end_close(&end);
}
CASE_IN_CHILD(capacities)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
#ifndef VB_SANITIZED /* minutes there; the small device takes the same ways */
		cmocka_unit_test(test_objects),
#endif
		cmocka_unit_test(test_small),
		cmocka_unit_test(test_capacities),
	};

	many_main(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

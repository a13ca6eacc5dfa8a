/* SPDX-License-Identifier: BSD-2-Clause */
/* Re-registration, on-demand regions and their prefetching, and null regions. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/rule.h"
#include "lib/verbs_pair.h"

#define PAGE   4096u
#define LOCAL  IBV_ACCESS_LOCAL_WRITE
#define RIGHTS (LOCAL | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

static struct ibv_context *context;
static struct ibv_pd *pd, *other_pd;

static int open_all(void **state)
{
	context = open_verbs();
	pd = ibv_alloc_pd(context);
	other_pd = ibv_alloc_pd(context);
	return pd && other_pd ? 0 : -1;
}

static int close_all(void **state)
{
	return ibv_dealloc_pd(pd) | ibv_dealloc_pd(other_pd) | ibv_close_device(context);
}

static uint8_t *pages(size_t n, int prot)
{
	uint8_t *addr = mmap(NULL, n * PAGE, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(addr != MAP_FAILED);
	return addr;
}

/* An address where nothing is mapped, with room for @n pages. */
static uint8_t *nowhere(size_t n)
{
	return pages(n, PROT_NONE);
}

static struct ibv_mr *reg(struct ibv_pd *in, void *addr, size_t length, unsigned int access)
{
	struct ibv_mr *mr = ibv_reg_mr_iova2(in, addr, length, (uintptr_t)addr, access);

	assert_non_null(mr);
	return mr;
}

/* ---- ibv_rereg_mr ---- */

/* Refused with this code by this rule, and nothing about the region has changed. */
static void expect_rereg(struct ibv_mr *mr, int flags, struct ibv_pd *in, void *addr, size_t length,
			 int access, int code, int error, const char *rule)
{
	struct ibv_mr before = *mr;

	errno = 0;
	assert_int_equal(ibv_rereg_mr(mr, flags, in, addr, length, access), code);
	assert_int_equal(errno, error);
	assert_true(rule_said(rule));
	assert_memory_equal(mr, &before, sizeof(before));
}

static void test_rereg_refusals(void **state)
{
	uint8_t *memory = pages(2, PROT_READ | PROT_WRITE), *none = nowhere(1);
	struct ibv_mr *mr = reg(pd, memory, PAGE, LOCAL);
	struct ibv_mr *null = ibv_alloc_null_mr(pd);
	const int where = IBV_REREG_MR_CHANGE_TRANSLATION, rights = IBV_REREG_MR_CHANGE_ACCESS;
	uint32_t handle = mr->handle;

	expect_rereg(mr, 8, NULL, NULL, 0, 0, IBV_REREG_MR_ERR_INPUT, EINVAL, "rereg-mr-flags");
	expect_rereg(mr, where, NULL, NULL, PAGE, 0, IBV_REREG_MR_ERR_INPUT, EINVAL,
		     "rereg-mr-input");
	expect_rereg(mr, where, NULL, memory, 0, 0, IBV_REREG_MR_ERR_INPUT, EINVAL,
		     "rereg-mr-input");
	expect_rereg(mr, IBV_REREG_MR_CHANGE_PD, NULL, NULL, 0, 0, IBV_REREG_MR_ERR_INPUT, EINVAL,
		     "rereg-mr-input");
	expect_rereg(mr, where, NULL, memory, PAGE, LOCAL, IBV_REREG_MR_ERR_INPUT, EINVAL,
		     "rereg-mr-input");
	expect_rereg(mr, 0, NULL, NULL, 0, 0, IBV_REREG_MR_ERR_CMD, EINVAL, "rereg-mr-nothing");
	expect_rereg(mr, rights, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE, IBV_REREG_MR_ERR_CMD,
		     EINVAL, "reg-mr-local-write");
	expect_rereg(mr, where, NULL, none, PAGE, 0, IBV_REREG_MR_ERR_CMD, EFAULT, "reg-mr-memory");
	expect_rereg(null, rights, NULL, NULL, 0, LOCAL, IBV_REREG_MR_ERR_INPUT, EINVAL,
		     "rereg-mr-kind");
	mr->handle = 0xdeadbeef;
	expect_rereg(mr, rights, NULL, NULL, 0, 0, IBV_REREG_MR_ERR_CMD, ENOENT, "bad-handle");
	mr->handle = handle;
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dereg_mr(null), 0);
	munmap(memory, 2 * PAGE);
	munmap(none, PAGE);
}

static void test_rereg_moves(void **state)
{
	uint8_t *memory = pages(2, PROT_READ | PROT_WRITE);
	struct ibv_mr *mr = reg(pd, memory, PAGE, LOCAL);
	uint32_t lkey = mr->lkey, rkey = mr->rkey;

	/* PD and rights change under the same keys. */
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS,
				      other_pd, NULL, 0, RIGHTS),
			 0);
	assert_ptr_equal(mr->pd, other_pd);
	assert_ptr_equal(mr->addr, memory);
	assert_int_equal(mr->length, PAGE);
	assert_int_equal(mr->lkey, lkey);
	assert_int_equal(mr->rkey, rkey);
	assert_int_equal(ibv_dealloc_pd(other_pd), EBUSY);
	/* Other memory gets other keys. */
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD,
				      pd, memory + PAGE, 100, 0),
			 0);
	assert_ptr_equal(mr->pd, pd);
	assert_ptr_equal(mr->addr, memory + PAGE);
	assert_int_equal(mr->length, 100);
	assert_int_not_equal(mr->lkey, lkey);
	assert_int_not_equal(mr->rkey, rkey);
	assert_int_equal(ibv_dealloc_pd(other_pd), 0);
	other_pd = ibv_alloc_pd(context);
	assert_non_null(other_pd);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(memory, 2 * PAGE);
}

/* One message of end a; the status it completes with. */
static enum ibv_wc_status send_one(struct verbs_pair *pair, enum ibv_wr_opcode opcode,
				   struct ibv_sge *sges, int n, uint64_t addr, uint32_t rkey)
{
	struct ibv_wc wc;

	assert_int_equal(post_rdma(&pair->a, opcode, 7, sges, n, addr, rkey, IBV_SEND_SIGNALED), 0);
	wait_wc(pair->a.send_cq, &wc);
	assert_int_equal(wc.wr_id, 7);
	return wc.status;
}

static void test_rereg_traffic(void **state)
{
	uint8_t *memory = pages(2, PROT_READ | PROT_WRITE);
	struct verbs_pair pair;
	struct ibv_mr *mr, *from;
	struct ibv_sge sge;
	uint32_t old;

	pair_create(&pair, &pair_defaults, false);
	mr = reg(pair.b.pd, memory, PAGE, RIGHTS);
	from = reg(pair.a.pd, memory, 8, LOCAL);
	old = mr->rkey;
	strcpy((char *)memory, "first");
	strcpy((char *)memory + PAGE, "other");
	assert_int_equal(
		ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory + PAGE, PAGE, 0), 0);
	sge = (struct ibv_sge){(uintptr_t)memory, 8, from->lkey};
	assert_int_equal(send_one(&pair, IBV_WR_RDMA_WRITE, &sge, 1, (uintptr_t)mr->addr, mr->rkey),
			 IBV_WC_SUCCESS);
	assert_string_equal((char *)memory + PAGE, "first");
	/* The old key leads nowhere, least of all to the new memory. */
	assert_int_equal(send_one(&pair, IBV_WR_RDMA_WRITE, &sge, 1, (uintptr_t)mr->addr, old),
			 IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dereg_mr(from), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	pair_destroy(&pair);
	munmap(memory, 2 * PAGE);
}

/* ---- on demand ---- */

static void test_odp_caps(void **state)
{
	struct ibv_device_attr_ex attr;
	const uint32_t all = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE |
			     IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC;

	assert_int_equal(ibv_query_device_ex(context, NULL, &attr), 0);
	assert_int_equal(attr.odp_caps.general_caps, IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT);
	assert_int_equal(attr.odp_caps.per_transport_caps.rc_odp_caps & all, all);
}

static void test_on_demand_registration(void **state)
{
	uint8_t *none = nowhere(2), *memory = pages(1, PROT_READ | PROT_WRITE);
	unsigned char residence;
	struct ibv_mr *mr;

	/* Nothing has to be there, and nothing is made present. */
	mr = reg(pd, none, 2 * PAGE, RIGHTS | IBV_ACCESS_ON_DEMAND);
	assert_ptr_equal(mr->addr, none);
	assert_int_equal(mr->length, 2 * PAGE);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	mr = reg(pd, memory, PAGE, RIGHTS | IBV_ACCESS_ON_DEMAND);
	assert_int_equal(mincore(memory, PAGE, &residence), 0);
	assert_int_equal(residence & 1, 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	/* The whole address space. */
	mr = reg(pd, NULL, SIZE_MAX, RIGHTS | IBV_ACCESS_ON_DEMAND);
	assert_null(mr->addr);
	assert_int_equal(mr->length, SIZE_MAX);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	/* Without the flag that is no range. */
	assert_null(ibv_reg_mr_iova2(pd, NULL, SIZE_MAX, 0, LOCAL));
	assert_int_equal(errno, EFAULT);
	/* HUGETLB is a promise about an on-demand range, kept or refused. */
	assert_null(
		ibv_reg_mr_iova2(pd, memory, PAGE, (uintptr_t)memory, LOCAL | IBV_ACCESS_HUGETLB));
	assert_int_equal(errno, EINVAL);
	assert_true(rule_said("reg-mr-hugetlb"));
	assert_null(ibv_reg_mr_iova2(pd, NULL, SIZE_MAX, 0,
				     LOCAL | IBV_ACCESS_HUGETLB | IBV_ACCESS_ON_DEMAND));
	assert_int_equal(errno, EINVAL);
	assert_true(rule_said("reg-mr-hugetlb"));
	assert_null(ibv_reg_mr_iova2(pd, memory, PAGE, (uintptr_t)memory,
				     LOCAL | IBV_ACCESS_HUGETLB | IBV_ACCESS_ON_DEMAND));
	assert_int_equal(errno, EINVAL);
	assert_true(rule_said("reg-mr-hugetlb"));
	munmap(none, 2 * PAGE);
	munmap(memory, PAGE);
}

/* All that on-demand memory is used for, both ends the same region of the whole space or an
 * explicit one; larger than one copy of the kernel's, and unaligned. */
static void on_demand_traffic(bool two, bool implicit)
{
	const uint32_t bytes = 300 * 1024 + 5;
	const enum ibv_wr_opcode ops[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};
	uint8_t *memory = pages(80, PROT_READ | PROT_WRITE);
	const struct span whole = {0, bytes};
	struct verbs_pair pair;
	struct ibv_wc wc;
	struct pair_rep remote;
	struct ibv_sge sge;
	struct ibv_mr *mr;

	pair_create(&pair, &pair_defaults, two);
	remote = pair_b_mem(&pair, MEM_ANON, bytes, RIGHTS | IBV_ACCESS_ON_DEMAND);
	mr = implicit ? reg(pair.a.pd, NULL, SIZE_MAX, RIGHTS | IBV_ACCESS_ON_DEMAND)
		      : reg(pair.a.pd, memory, 80 * PAGE, RIGHTS | IBV_ACCESS_ON_DEMAND);
	sge = (struct ibv_sge){(uintptr_t)memory + 3, bytes, mr->lkey};
	for (uint32_t i = 0; i < bytes; i++)
		memory[3 + i] = pattern_byte(5, i);
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		assert_int_equal(send_one(&pair, ops[i], &sge, 1, remote.addr, remote.rkey),
				 IBV_WC_SUCCESS);
		for (uint32_t k = 0; k < bytes; k++)
			assert_int_equal(memory[3 + k], pattern_byte(5, k));
		/* What is read back was gone here in between. */
		assert_int_equal(madvise(memory, 80 * PAGE, MADV_DONTNEED), 0);
	}
	for (uint32_t i = 0; i < bytes; i++)
		memory[3 + i] = pattern_byte(6, i);
	assert_int_equal(pair_b_recv(&pair, 9, remote.mem, &whole, 1), 0);
	assert_int_equal(send_one(&pair, IBV_WR_SEND, &sge, 1, 0, 0), IBV_WC_SUCCESS);
	wc = pair_b(&pair, PAIR_WAIT_RECV).wc;
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, bytes);
	assert_int_equal(pair_call(&pair, &(struct pair_req){.op = PAIR_MEM_CHECK,
							     .mem = remote.mem,
							     .seed = 6,
							     .n = 1,
							     .spans = {whole}})
				 .ret,
			 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	pair_destroy(&pair);
	munmap(memory, 80 * PAGE);
}

static void test_on_demand_traffic(void **state)
{
	for (int i = 0; i < 4; i++)
		on_demand_traffic(i & 1, i & 2);
}

/* The local side is not there. Small and large, since they travel differently. */
static void local_missing(bool two, enum ibv_wr_opcode opcode, uint32_t bytes)
{
	uint8_t *none = nowhere(64);
	struct verbs_pair pair;
	struct pair_rep remote;
	struct ibv_sge sge;
	struct ibv_mr *mr;

	pair_create(&pair, &pair_defaults, two);
	remote = pair_b_mem(&pair, MEM_ANON_PAGE, 64 * PAGE, RIGHTS);
	if (opcode == IBV_WR_SEND)
		pair_b_recv(&pair, 1, remote.mem, &(struct span){0, 64 * PAGE}, 1);
	/* Of many pages the first is there. */
	if (bytes > PAGE)
		assert_int_equal(mprotect(none, PAGE, PROT_READ | PROT_WRITE), 0);
	mr = reg(pair.a.pd, none, 64 * PAGE, RIGHTS | IBV_ACCESS_ON_DEMAND);
	sge = (struct ibv_sge){(uintptr_t)none, bytes, mr->lkey};
	assert_int_equal(send_one(&pair, opcode, &sge, 1, remote.addr, remote.rkey),
			 IBV_WC_LOC_PROT_ERR);
	assert_int_equal(end_query(&pair.a), IBV_QPS_ERR);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	pair_destroy(&pair);
	munmap(none, 64 * PAGE);
}

static void test_local_missing(void **state)
{
	const enum ibv_wr_opcode ops[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};

	for (int two = 0; two < 2; two++) {
		for (int i = 0; i < 3; i++) {
			local_missing(two, ops[i], 16);
			local_missing(two, ops[i], 900);
			local_missing(two, ops[i], 60 * PAGE);
		}
		local_missing(two, IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
		local_missing(two, IBV_WR_ATOMIC_CMP_AND_SWP, 8);
	}
}

/* The remote side is not there. */
static void remote_missing(bool two, enum ibv_wr_opcode opcode, uint32_t bytes)
{
	const struct span whole = {0, 64 * PAGE};
	uint8_t *memory = pages(64, PROT_READ | PROT_WRITE);
	struct verbs_pair pair;
	struct pair_rep remote;
	struct ibv_mr *from;
	struct ibv_sge sge;
	struct ibv_wc wc;

	pair_create(&pair, &pair_defaults, two);
	from = reg(pair.a.pd, memory, 64 * PAGE, RIGHTS);
	remote = pair_b_mem(&pair, MEM_ANON_PAGE, 64 * PAGE, RIGHTS | IBV_ACCESS_ON_DEMAND);
	pair_call(&pair, &(struct pair_req){.op = PAIR_MEM_HIDE, .mem = remote.mem});
	if (opcode == IBV_WR_SEND)
		assert_int_equal(pair_b_recv(&pair, 4, remote.mem, &whole, 1), 0);
	sge = (struct ibv_sge){(uintptr_t)memory, bytes, from->lkey};
	assert_int_equal(send_one(&pair, opcode, &sge, 1, remote.addr, remote.rkey),
			 opcode == IBV_WR_SEND ? IBV_WC_REM_OP_ERR : IBV_WC_REM_ACCESS_ERR);
	if (opcode == IBV_WR_SEND) {
		wc = pair_b(&pair, PAIR_WAIT_RECV).wc;
		assert_int_equal(wc.wr_id, 4);
		assert_int_equal(wc.status, IBV_WC_LOC_PROT_ERR);
	}
	assert_int_equal(pair_b(&pair, PAIR_STATE).ret, IBV_QPS_ERR);
	assert_int_equal(ibv_dereg_mr(from), 0);
	pair_destroy(&pair);
	munmap(memory, 64 * PAGE);
}

static void test_remote_missing(void **state)
{
	const enum ibv_wr_opcode ops[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};

	for (int two = 0; two < 2; two++) {
		for (int i = 0; i < 3; i++) {
			remote_missing(two, ops[i], 16);
			remote_missing(two, ops[i], 900);
			remote_missing(two, ops[i], 60 * PAGE);
		}
		remote_missing(two, IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
	}
}

/* Memory that goes and comes all the time while it is written to. */
static _Atomic bool enough;

static void *unmapper(void *arg)
{
	while (!atomic_load(&enough)) {
		mprotect(arg, 16 * PAGE, PROT_NONE);
		mprotect(arg, 16 * PAGE, PROT_READ | PROT_WRITE);
	}
	return NULL;
}

static void test_pages_come_and_go(void **state)
{
	uint8_t *memory = pages(16, PROT_READ | PROT_WRITE);
	uint8_t *source = pages(16, PROT_READ | PROT_WRITE);
	int good = 0, bad = 0;
	pthread_t thread;

	atomic_store(&enough, false);
	assert_int_equal(pthread_create(&thread, NULL, unmapper, memory), 0);
	while (good + bad < 60) {
		struct verbs_pair pair;
		enum ibv_wc_status status = IBV_WC_SUCCESS;
		struct ibv_mr *from, *to;
		struct ibv_sge sge;

		pair_create(&pair, &pair_defaults, false);
		from = reg(pair.a.pd, source, 16 * PAGE, RIGHTS);
		to = reg(pair.b.pd, memory, 16 * PAGE, RIGHTS | IBV_ACCESS_ON_DEMAND);
		sge = (struct ibv_sge){(uintptr_t)source, 16 * PAGE, from->lkey};
		for (int i = 0; i < 20 && status == IBV_WC_SUCCESS; i++) {
			status = send_one(&pair, i & 1 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, &sge,
					  1, (uintptr_t)memory, to->rkey);
			*(status ? &bad : &good) += 1;
			assert_true(status == IBV_WC_SUCCESS || status == IBV_WC_REM_ACCESS_ERR);
		}
		assert_int_equal(ibv_dereg_mr(from), 0);
		assert_int_equal(ibv_dereg_mr(to), 0);
		pair_destroy(&pair);
	}
	atomic_store(&enough, true);
	pthread_join(thread, NULL);
	munmap(memory, 16 * PAGE);
	munmap(source, 16 * PAGE);
}

/* ---- ibv_advise_mr ---- */

static void expect_advise(struct ibv_pd *in, enum ibv_advise_mr_advice advice, uint32_t flags,
			  struct ibv_sge sge, int error, const char *rule)
{
	errno = 0;
	assert_int_equal(ibv_advise_mr(in, advice, flags, &sge, 1), error);
	assert_int_equal(errno, error);
	assert_true(rule_said(rule));
}

static void test_advise_refusals(void **state)
{
	const enum ibv_advise_mr_advice read = IBV_ADVISE_MR_ADVICE_PREFETCH;
	const uint32_t flush = IBV_ADVISE_MR_FLAG_FLUSH;
	uint8_t *memory = pages(1, PROT_READ | PROT_WRITE), *none = nowhere(1);
	struct ibv_mr *mr = reg(pd, memory, PAGE, IBV_ACCESS_ON_DEMAND);
	struct ibv_mr *missing = reg(pd, none, PAGE, IBV_ACCESS_ON_DEMAND);
	struct ibv_mr *plain = reg(pd, memory, PAGE, LOCAL);
	struct ibv_mr *gone = reg(pd, memory, PAGE, IBV_ACCESS_ON_DEMAND);
	struct ibv_sge sge = {(uintptr_t)memory, PAGE, mr->lkey}, other;

	expect_advise(pd, (enum ibv_advise_mr_advice)3, flush, sge, ENOTSUP, "advise-mr-advice");
	expect_advise(pd, read, 2, sge, EINVAL, "advise-mr-flags");
	assert_int_equal(ibv_advise_mr(pd, read, flush, &sge, 0), EINVAL);
	assert_true(rule_said("advise-mr-flags"));
	expect_advise(other_pd, read, flush, sge, EPERM, "advise-mr-pd");
	expect_advise(pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, flush, sge, EPERM,
		      "advise-mr-write");
	other = (struct ibv_sge){sge.addr, PAGE, plain->lkey};
	expect_advise(pd, read, flush, other, EINVAL, "advise-mr-not-on-demand");
	other = (struct ibv_sge){sge.addr, PAGE, mr->rkey};
	expect_advise(pd, read, flush, other, ENOENT, "advise-mr-tag");
	other = (struct ibv_sge){sge.addr, PAGE, gone->lkey};
	assert_int_equal(ibv_dereg_mr(gone), 0);
	expect_advise(pd, read, flush, other, EFAULT, "advise-mr-key");
	other = (struct ibv_sge){sge.addr, PAGE + 1, mr->lkey};
	expect_advise(pd, read, flush, other, EFAULT, "advise-mr-range");
	other = (struct ibv_sge){sge.addr - 1, 1, mr->lkey};
	expect_advise(pd, read, 0, other, EFAULT, "advise-mr-range");
	other = (struct ibv_sge){(uintptr_t)none, PAGE, missing->lkey};
	expect_advise(pd, read, flush, other, EFAULT, "advise-mr-range");
	/* Not asked to wait, nobody would find out; not asked to fault, nobody looks. */
	assert_int_equal(ibv_advise_mr(pd, read, 0, &other, 1), 0);
	assert_int_equal(
		ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, flush, &other, 1), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dereg_mr(missing), 0);
	assert_int_equal(ibv_dereg_mr(plain), 0);
	munmap(memory, PAGE);
	munmap(none, PAGE);
}

static void test_advise_fetches(void **state)
{
	uint8_t *memory = pages(4, PROT_READ | PROT_WRITE);
	struct ibv_mr *mr = reg(pd, NULL, SIZE_MAX, RIGHTS | IBV_ACCESS_ON_DEMAND);
	struct ibv_sge sges[] = {{(uintptr_t)memory, PAGE, mr->lkey},
				 {(uintptr_t)memory + 2 * PAGE, PAGE, mr->lkey}};
	unsigned char residence[4];

	assert_int_equal(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
				       IBV_ADVISE_MR_FLAG_FLUSH, sges, 2),
			 0);
	assert_int_equal(mincore(memory, 4 * PAGE, residence), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(residence[i] & 1, i % 2 == 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(memory, 4 * PAGE);
}

/* ---- null regions ---- */

static void null_traffic(bool two)
{
	const uint32_t bytes = 20000;
	struct verbs_pair pair;
	struct pair_rep remote;
	struct test_mem mem;
	struct ibv_sge sges[2];
	struct ibv_mr *null;

	pair_create(&pair, &pair_defaults, two);
	null = ibv_alloc_null_mr(pair.a.pd);
	assert_non_null(null);
	assert_null(null->addr);
	assert_int_equal(null->length, SIZE_MAX);
	assert_int_equal(null->rkey, 0);
	remote = pair_b_mem(&pair, MEM_ANON, 2 * bytes, RIGHTS);
	mem_new(&mem, pair.a.pd, MEM_ANON, 2 * bytes, RIGHTS);
	/* Zeroes go out, in the middle of what is sent. */
	sges[0] = (struct ibv_sge){0x1234, bytes, null->lkey};
	sges[1] = (struct ibv_sge){mem.start, 8, mem.mr->lkey};
	assert_int_equal(send_one(&pair, IBV_WR_RDMA_WRITE, sges, 2, remote.addr, remote.rkey),
			 IBV_WC_SUCCESS);
	/* What is read vanishes up to the last element. */
	sges[0].length = bytes - 8;
	sges[1].length = 16;
	assert_int_equal(send_one(&pair, IBV_WR_RDMA_READ, sges, 2, remote.addr, remote.rkey),
			 IBV_WC_SUCCESS);
	for (int i = 0; i < 16; i++)
		assert_int_equal(mem.base[i], i < 8 ? 0 : PAIR_FILL);
	/* The old value of an atomic has nowhere to go. */
	sges[0].length = 8;
	assert_int_equal(send_one(&pair, IBV_WR_ATOMIC_FETCH_AND_ADD, sges, 1,
				  (remote.addr + 7) & ~7ull, remote.rkey),
			 IBV_WC_SUCCESS);
	mem_free(&mem);
	assert_int_equal(ibv_dereg_mr(null), 0);
	pair_destroy(&pair);
}

static void test_null_traffic(void **state)
{
	null_traffic(false);
	null_traffic(true);
}

/* A message out of nothing into nothing; how it travels depends on its length. */
static void test_null_receives(void **state)
{
	const uint32_t lengths[] = {1, 32, 900, 200000};
	struct verbs_pair pair;
	struct ibv_mr *from, *to;
	struct ibv_sge sge;
	struct ibv_wc wc;

	pair_create(&pair, &pair_defaults, false);
	from = ibv_alloc_null_mr(pair.a.pd);
	to = ibv_alloc_null_mr(pair.b.pd);
	assert_non_null(from);
	assert_non_null(to);
	for (size_t i = 0; i < 4; i++) {
		sge = (struct ibv_sge){0, lengths[i], to->lkey};
		assert_int_equal(post_recv(&pair.b, 3, &sge, 1), 0);
		sge.lkey = from->lkey;
		assert_int_equal(send_one(&pair, IBV_WR_SEND, &sge, 1, 0, 0), IBV_WC_SUCCESS);
		wait_wc(pair.b.recv_cq, &wc);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.byte_len, lengths[i]);
	}
	assert_int_equal(ibv_dereg_mr(from), 0);
	assert_int_equal(ibv_dereg_mr(to), 0);
	pair_destroy(&pair);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rereg_refusals),
		cmocka_unit_test(test_rereg_moves),
		cmocka_unit_test(test_rereg_traffic),
		cmocka_unit_test(test_odp_caps),
		cmocka_unit_test(test_on_demand_registration),
		cmocka_unit_test(test_on_demand_traffic),
		cmocka_unit_test(test_local_missing),
		cmocka_unit_test(test_remote_missing),
		cmocka_unit_test(test_pages_come_and_go),
		cmocka_unit_test(test_advise_refusals),
		cmocka_unit_test(test_advise_fetches),
		cmocka_unit_test(test_null_traffic),
		cmocka_unit_test(test_null_receives),
	};
	uint8_t frame[PAIR_STACK_BYTES];

	pair_main(argc, argv, frame);
	rule_log_start();
	return cmocka_run_group_tests(tests, open_all, close_all);
}

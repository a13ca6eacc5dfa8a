/* SPDX-License-Identifier: BSD-2-Clause */
/* Thread and parent domains, imports, device memory, buffers and ibv_reg_mr_ex. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/child.h"
#include "lib/rule.h"
#include "lib/verbs_pair.h"

/* Newer than the installed header may be. */
struct ibv_buf;
struct ibv_mr_init_attr;
void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);
void ibv_free_buf(struct ibv_buf *buf);
struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
			      int access);
int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf);
struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attr);
int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm);

struct init_attr {
	size_t length;
	int access;
	uint64_t comp_mask;
	uint64_t iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *dmah;
	struct ibv_buf *buf;
};
enum { IOVA = 1, ADDR = 2, FD = 4, FD_OFFSET = 8, DMAH = 16, BUF = 32 };

#define PAGE   4096u
#define LOCAL  IBV_ACCESS_LOCAL_WRITE
#define REMOTE (LOCAL | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

static struct ibv_context *context;
static struct ibv_pd *pd, *other_pd;
static uint64_t max_dm_size;

static int open_all(void **state)
{
	struct ibv_device_attr_ex attr;

	context = open_verbs();
	pd = ibv_alloc_pd(context);
	other_pd = ibv_alloc_pd(context);
	ibv_query_device_ex(context, NULL, &attr);
	max_dm_size = attr.max_dm_size;
	return pd && other_pd && max_dm_size >= 65536 ? 0 : -1;
}

static int close_all(void **state)
{
	return ibv_dealloc_pd(pd) | ibv_dealloc_pd(other_pd) | ibv_close_device(context);
}

/* The pointer is NULL, errno is this, and this rule was named. */
#define assert_refused(call, error, rule)                                                          \
	do {                                                                                       \
		errno = 0;                                                                         \
		assert_null(call);                                                                 \
		assert_int_equal(errno, (error));                                                  \
		assert_true(rule_said(rule));                                                      \
	} while (0)

/* ---- thread and parent domains ---- */

static void test_thread_domain(void **state)
{
	struct ibv_td_init_attr td_attr = {.comp_mask = 1};
	struct ibv_parent_domain_init_attr attr = {.pd = pd};
	struct ibv_pd *parent;

	assert_refused(ibv_alloc_td(context, &td_attr), EINVAL, "comp-mask");
	td_attr.comp_mask = 0;
	attr.td = ibv_alloc_td(context, &td_attr);
	assert_non_null(attr.td);
	assert_ptr_equal(attr.td->context, context);
	parent = ibv_alloc_parent_domain(context, &attr);
	assert_non_null(parent);
	errno = 0;
	assert_int_equal(ibv_dealloc_td(attr.td), EBUSY);
	assert_int_equal(errno, EBUSY);
	assert_true(rule_said("busy"));
	assert_int_equal(ibv_dealloc_pd(parent), 0);
	assert_int_equal(ibv_dealloc_td(attr.td), 0);
}

static void *alloc_default(struct ibv_pd *domain, void *pd_context, size_t size, size_t alignment,
			   uint64_t resource)
{
	return IBV_ALLOCATOR_USE_DEFAULT;
}

static void free_none(struct ibv_pd *domain, void *pd_context, void *ptr, uint64_t resource)
{
}

static void test_parent_refusals(void **state)
{
	struct ibv_parent_domain_init_attr attr = {.pd = NULL};
	struct ibv_pd *parent;

	assert_refused(ibv_alloc_parent_domain(context, &attr), EINVAL, "parent-domain-pd");
	attr.pd = pd;
	attr.comp_mask = 8;
	assert_refused(ibv_alloc_parent_domain(context, &attr), EINVAL, "comp-mask");
	attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
	assert_refused(ibv_alloc_parent_domain(context, &attr), EINVAL, "parent-domain-callbacks");
	attr.alloc = alloc_default;
	assert_refused(ibv_alloc_parent_domain(context, &attr), EINVAL, "parent-domain-callbacks");
	attr.free = free_none;
	/* With the bit of a later release beside, which changes nothing here. */
	attr.comp_mask |= IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT | 4;
	parent = ibv_alloc_parent_domain(context, &attr);
	assert_non_null(parent);
	attr = (struct ibv_parent_domain_init_attr){.pd = parent};
	assert_refused(ibv_alloc_parent_domain(context, &attr), EINVAL, "parent-domain-pd");
	assert_int_equal(ibv_dealloc_pd(parent), 0);
}

static void test_parent_busy(void **state)
{
	struct ibv_pd *base = ibv_alloc_pd(context);
	struct ibv_parent_domain_init_attr attr = {.pd = base};
	struct ibv_pd *parent = ibv_alloc_parent_domain(context, &attr);
	static uint8_t memory[64];
	struct ibv_mr *mr;

	assert_non_null(parent);
	mr = ibv_reg_mr(parent, memory, sizeof(memory), 0);
	assert_non_null(mr);
	assert_ptr_equal(mr->pd, parent);
	assert_int_equal(ibv_dealloc_pd(base), EBUSY);
	assert_int_equal(ibv_dealloc_pd(parent), EBUSY);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(base), EBUSY);
	assert_true(rule_said("busy"));
	assert_int_equal(ibv_dealloc_pd(parent), 0);
	assert_int_equal(ibv_dealloc_pd(base), 0);
}

static enum ibv_wc_status write_one(struct verbs_end *end, uint64_t from, uint32_t lkey,
				    uint64_t to, uint32_t rkey, uint32_t length)
{
	struct ibv_sge sge = {from, length, lkey};
	struct ibv_wc wc;

	assert_int_equal(post_rdma(end, IBV_WR_RDMA_WRITE, 1, &sge, 1, to, rkey, IBV_SEND_SIGNALED),
			 0);
	wait_wc(end->send_cq, &wc);
	return wc.status;
}

/* Regions on the PD and QPs on the parent domain, and the other way round, are of one
 * domain; a QP of another PD is not. */
static void test_parent_interchangeable(void **state)
{
	struct verbs_pair pair;
	struct ibv_parent_domain_init_attr attr;
	static uint8_t from[8], to[8];
	struct ibv_mr *local, *remote;
	struct ibv_pd *parents[2];

	pair_create(&pair, &pair_defaults, false);
	attr = (struct ibv_parent_domain_init_attr){.pd = pair.a.pd};
	parents[0] = ibv_alloc_parent_domain(pair.a.context, &attr);
	attr.pd = pair.b.pd;
	parents[1] = ibv_alloc_parent_domain(pair.b.context, &attr);
	local = ibv_reg_mr(parents[0], from, 8, LOCAL);
	remote = ibv_reg_mr(parents[1], to, 8, REMOTE);
	assert_non_null(local);
	assert_non_null(remote);
	strcpy((char *)from, "across");
	assert_int_equal(
		write_one(&pair.a, (uintptr_t)from, local->lkey, (uintptr_t)to, remote->rkey, 8),
		IBV_WC_SUCCESS);
	assert_string_equal((char *)to, "across");
	assert_int_equal(ibv_dereg_mr(local), 0);
	assert_int_equal(ibv_dereg_mr(remote), 0);
	assert_int_equal(ibv_dealloc_pd(parents[0]), 0);
	assert_int_equal(ibv_dealloc_pd(parents[1]), 0);
	pair_destroy(&pair);
}

static void test_parent_qp(void **state)
{
	struct ibv_parent_domain_init_attr attr = {.pd = pd};
	struct ibv_pd *parent = ibv_alloc_parent_domain(context, &attr);
	struct verbs_end end;
	static uint8_t from[8], to[8];
	struct ibv_mr *mr, *target;
	struct ibv_pd *own;

	/* A loop through a QP whose PD is the parent domain. */
	end_objects(&end, &pair_defaults, context);
	assert_int_equal(ibv_destroy_qp(end.qp), 0);
	own = end.pd;
	{
		struct ibv_qp_init_attr init = {.send_cq = end.send_cq,
						.recv_cq = end.recv_cq,
						.qp_type = IBV_QPT_RC,
						.cap = {4, 4, 1, 1, 0}};

		end.qp = ibv_create_qp(parent, &init);
	}
	assert_non_null(end.qp);
	assert_ptr_equal(end.qp->pd, parent);
	assert_int_equal(ibv_dealloc_pd(parent), EBUSY);
	end_self(&end);
	mr = ibv_reg_mr(pd, from, 8, LOCAL);
	target = ibv_reg_mr(pd, to, 8, REMOTE);
	strcpy((char *)from, "loop");
	assert_int_equal(write_one(&end, (uintptr_t)from, mr->lkey, (uintptr_t)to, target->rkey, 8),
			 IBV_WC_SUCCESS);
	assert_string_equal((char *)to, "loop");
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dereg_mr(target), 0);
	end.pd = own;
	end_objects_close(&end);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
}

/* A CQ may stand in a parent domain, which is busy then; in nothing else. */
static void test_parent_cq(void **state)
{
	struct ibv_parent_domain_init_attr attr = {.pd = pd};
	struct ibv_pd *parent = ibv_alloc_parent_domain(context, &attr);
	struct ibv_cq_init_attr_ex init = {
		.cqe = 8, .wc_flags = IBV_WC_STANDARD_FLAGS, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD};
	struct ibv_context *other = open_verbs();
	struct ibv_pd *foreign = ibv_alloc_pd(other);
	struct ibv_cq_ex *cq;

	assert_non_null(foreign);
	assert_refused(ibv_create_cq_ex(context, &init), EINVAL, "create-cq-domain");
	init.parent_domain = pd;
	assert_refused(ibv_create_cq_ex(context, &init), EINVAL, "create-cq-domain");
	init.parent_domain = foreign;
	errno = 0;
	assert_null(ibv_create_cq_ex(context, &init));
	assert_int_not_equal(errno, 0);
	assert_int_equal(ibv_dealloc_pd(foreign), 0);
	assert_int_equal(ibv_close_device(other), 0);
	init.parent_domain = parent;
	cq = ibv_create_cq_ex(context, &init);
	assert_non_null(cq);
	assert_int_equal(ibv_dealloc_pd(parent), EBUSY);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
}

/* ---- imports ---- */

static void test_import_refusals(void **state)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct ibv_context *imported;

	assert_refused(ibv_import_device(-1), EINVAL, "import-fd");
	assert_refused(ibv_import_device(fd), EINVAL, "import-fd");
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	close(fd);
	imported = ibv_import_device(dup(context->cmd_fd));
	assert_non_null(imported);
	assert_refused(ibv_import_pd(imported, 0xffffff), ENOENT, "import-handle");
	assert_refused(ibv_import_mr(pd, 0xffffff), ENOENT, "import-handle");
	assert_refused(ibv_import_dm(imported, 0xfffffe), ENOENT, "import-handle");
	assert_int_equal(ibv_close_device(imported), 0);
}

/* A context of this process means nothing in another one. */
static void import_elsewhere(void *arg)
{
	CHECK(!ibv_import_device(context->cmd_fd));
	CHECK(errno == EOPNOTSUPP);
	CHECK(rule_said("import-process"));
}

static void test_import_process(void **state)
{
	assert_int_equal(run_in_child(import_elsewhere, NULL), 0);
}

static void test_import_objects(void **state)
{
	static uint8_t memory[64];
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof(memory), REMOTE), *mr2;
	int fd = dup(context->cmd_fd);
	struct ibv_context *imported = ibv_import_device(fd);
	struct ibv_pd *pd2;

	assert_non_null(imported);
	assert_int_equal(imported->cmd_fd, fd);
	assert_int_not_equal(imported->async_fd, context->async_fd);
	assert_ptr_equal(imported->device, context->device);
	pd2 = ibv_import_pd(imported, pd->handle);
	assert_non_null(pd2);
	assert_ptr_not_equal(pd2, pd);
	assert_int_equal(pd2->handle, pd->handle);
	assert_ptr_equal(pd2->context, imported);
	mr2 = ibv_import_mr(pd2, mr->handle);
	assert_non_null(mr2);
	assert_int_equal(mr2->handle, mr->handle);
	assert_int_equal(mr2->lkey, mr->lkey);
	assert_int_equal(mr2->rkey, mr->rkey);
	assert_int_equal(mr2->length, mr->length);
	assert_null(mr2->addr);
	assert_int_equal(ibv_rereg_mr(mr2, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
			 IBV_REREG_MR_ERR_INPUT);
	assert_true(rule_said("rereg-mr-kind"));
	/* Gone from here, the objects stay. */
	ibv_unimport_mr(mr2);
	ibv_unimport_pd(pd2);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_close_device(imported), 0);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
}

/* Destroying what was imported destroys it for all. */
static void test_import_destroys(void **state)
{
	static uint8_t memory[64];
	struct ibv_pd *mine = ibv_alloc_pd(context), *pd2;
	struct ibv_mr *mr = ibv_reg_mr(mine, memory, sizeof(memory), LOCAL), *mr2, *more;
	struct ibv_context *imported = ibv_import_device(dup(context->cmd_fd));

	pd2 = ibv_import_pd(imported, mine->handle);
	mr2 = ibv_import_mr(pd2, mr->handle);
	/* Made there, counted here. */
	more = ibv_reg_mr(pd2, memory, sizeof(memory), 0);
	assert_non_null(more);
	assert_int_equal(ibv_dereg_mr(mr2), 0);
	assert_int_equal(ibv_dereg_mr(mr), ENOENT);
	assert_true(rule_said("bad-handle"));
	assert_int_equal(ibv_dealloc_pd(mine), EBUSY);
	assert_int_equal(ibv_dealloc_pd(pd2), EBUSY);
	assert_int_equal(ibv_dereg_mr(more), 0);
	assert_int_equal(ibv_dealloc_pd(pd2), 0);
	assert_int_equal(ibv_dealloc_pd(mine), ENOENT);
	assert_true(rule_said("bad-handle"));
	assert_int_equal(ibv_close_device(imported), 0);
}

/* The origin may be closed first. */
static void test_import_outlives(void **state)
{
	struct ibv_context *first = open_verbs();
	struct ibv_pd *base = ibv_alloc_pd(first), *pd2;
	struct ibv_context *imported = ibv_import_device(dup(first->cmd_fd));
	static uint8_t memory[8];
	struct ibv_mr *mr, *mr2;

	pd2 = ibv_import_pd(imported, base->handle);
	assert_non_null(pd2);
	mr2 = ibv_import_mr(pd2, ibv_reg_mr(base, memory, sizeof(memory), LOCAL)->handle);
	assert_non_null(mr2);
	assert_int_equal(ibv_close_device(first), 0);
	assert_int_equal(ibv_dereg_mr(mr2), 0);
	mr = ibv_reg_mr(pd2, memory, sizeof(memory), LOCAL);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(pd2), 0);
	assert_int_equal(ibv_close_device(imported), 0);
}

/* ---- device memory ---- */

static struct ibv_dm *alloc_dm(size_t length, uint32_t log_align)
{
	struct ibv_alloc_dm_attr attr = {.length = length, .log_align_req = log_align};

	return ibv_alloc_dm(context, &attr);
}

static void test_dm_refusals(void **state)
{
	struct ibv_alloc_dm_attr attr = {.length = 64, .comp_mask = 1};
	struct ibv_dm *all, *dm;
	struct ibv_mr *mr;
	uint32_t handle;

	assert_refused(ibv_alloc_dm(context, &attr), EINVAL, "comp-mask");
	assert_refused(alloc_dm(0, 0), EINVAL, "dm-length");
	assert_refused(alloc_dm(max_dm_size + 1, 0), EINVAL, "dm-length");
	assert_refused(alloc_dm(4, 32), EINVAL, "dm-length");
	/* The maximum is what can be had, and no more. */
	all = alloc_dm(max_dm_size, 0);
	assert_non_null(all);
	assert_refused(alloc_dm(1, 0), ENOMEM, "dm-full");
	assert_int_equal(ibv_free_dm(all), 0);
	dm = alloc_dm(100, 0);
	assert_non_null(dm);
	assert_int_equal(dm->comp_mask & IBV_DM_MASK_HANDLE, IBV_DM_MASK_HANDLE);
	assert_refused(ibv_reg_dm_mr(pd, dm, 0, 100, LOCAL), EINVAL, "reg-dm-access");
	assert_refused(
		ibv_reg_dm_mr(pd, dm, 0, 100, LOCAL | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND),
		EINVAL, "reg-dm-access");
	assert_refused(ibv_reg_dm_mr(pd, dm, 0, 101, IBV_ACCESS_ZERO_BASED), EINVAL,
		       "reg-dm-range");
	assert_refused(ibv_reg_dm_mr(pd, dm, 101, 0, IBV_ACCESS_ZERO_BASED), EINVAL,
		       "reg-dm-range");
	assert_refused(ibv_reg_dm_mr(pd, dm, UINT64_MAX, 2, IBV_ACCESS_ZERO_BASED), EINVAL,
		       "reg-dm-range");
	assert_refused(ibv_reg_dm_mr(pd, dm, 0, 4, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_REMOTE_WRITE),
		       EINVAL, "reg-mr-local-write");
	mr = ibv_reg_dm_mr(pd, dm, 4, 96, LOCAL | IBV_ACCESS_ZERO_BASED);
	assert_non_null(mr);
	assert_int_equal(ibv_free_dm(dm), EBUSY);
	assert_true(rule_said("busy"));
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	handle = dm->handle;
	dm->handle = 0xdeadbeef;
	assert_int_equal(ibv_free_dm(dm), ENOENT);
	dm->handle = handle;
	assert_int_equal(ibv_dm_export_dmabuf_fd(dm), -1);
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(ibv_free_dm(dm), 0);
}

static void test_dm_copies(void **state)
{
	struct ibv_dm *dm = alloc_dm(100, 0);
	uint8_t to[104], from[104];

	for (int i = 0; i < 104; i++)
		from[i] = (uint8_t)i;
	assert_int_equal(ibv_memcpy_to_dm(dm, 4, from, 96), 0);
	assert_int_equal(ibv_memcpy_from_dm(to, dm, 8, 92), 0);
	assert_memory_equal(to, from + 4, 92);
	assert_int_equal(ibv_memcpy_from_dm(to, dm, 0, 104), EFAULT);
	assert_true(rule_said("dm-range"));
	assert_int_equal(ibv_memcpy_to_dm(dm, 104, from, 0), EFAULT);
	assert_int_equal(ibv_memcpy_to_dm(dm, UINT64_MAX - 3, from, 8), EFAULT);
	assert_int_equal(ibv_memcpy_to_dm(dm, 2, from, 8), EINVAL);
	assert_true(rule_said("dm-align"));
	assert_int_equal(ibv_memcpy_from_dm(to, dm, 0, 6), EINVAL);
	assert_int_equal(ibv_free_dm(dm), 0);
}

static void test_dm_traffic(void **state)
{
	struct ibv_dm *dm = alloc_dm(8192, 14), *again;
	struct verbs_end end;
	struct ibv_mr *mr, *remote, *plain;
	static uint8_t memory[16];
	uint8_t seen[16];

	end_objects(&end, &pair_defaults, context);
	end_self(&end);
	mr = ibv_reg_dm_mr(end.pd, dm, 4096, 64, REMOTE | IBV_ACCESS_ZERO_BASED);
	remote = ibv_reg_dm_mr(end.pd, dm, 0, 64, REMOTE | IBV_ACCESS_ZERO_BASED);
	plain = ibv_reg_mr(end.pd, memory, sizeof(memory), LOCAL);
	assert_non_null(mr);
	assert_non_null(remote);
	strcpy((char *)memory, "device memory");
	/* Addresses count from the start of each region. */
	assert_int_equal(
		write_one(&end, (uintptr_t)memory, plain->lkey, 16, mr->rkey, sizeof(memory)),
		IBV_WC_SUCCESS);
	assert_int_equal(ibv_memcpy_from_dm(seen, dm, 4096 + 16, sizeof(seen)), 0);
	assert_string_equal((char *)seen, "device memory");
	assert_int_equal(write_one(&end, 16, mr->lkey, 0, remote->rkey, 16), IBV_WC_SUCCESS);
	assert_int_equal(ibv_memcpy_from_dm(seen, dm, 0, sizeof(seen)), 0);
	assert_string_equal((char *)seen, "device memory");
	/* By another struct of the same memory. */
	again = ibv_import_dm(context, dm->handle);
	assert_non_null(again);
	memset(seen, 0, sizeof(seen));
	assert_int_equal(ibv_memcpy_from_dm(seen, again, 0, sizeof(seen)), 0);
	assert_string_equal((char *)seen, "device memory");
	ibv_unimport_dm(again);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dereg_mr(remote), 0);
	assert_int_equal(ibv_dereg_mr(plain), 0);
	end_objects_close(&end);
	assert_int_equal(ibv_free_dm(dm), 0);
}

/* ---- buffers, and registration of every kind ---- */

static void test_buffers(void **state)
{
	struct ibv_pd *mine = ibv_alloc_pd(context);
	struct ibv_buf *buf;
	uint8_t *memory;
	struct ibv_mr *mr;

	assert_refused(ibv_alloc_buf(mine, 0, &buf), EINVAL, "buf-size");
	memory = ibv_alloc_buf(mine, 5000, &buf);
	assert_non_null(memory);
	assert_int_equal((uintptr_t)memory % PAGE, 0);
	assert_int_equal(ibv_dealloc_pd(mine), EBUSY);
	assert_refused(ibv_reg_buf_mr(pd, buf, memory, 100, LOCAL), EINVAL, "buf-pd");
	assert_refused(ibv_reg_buf_mr(mine, buf, memory, 5001, LOCAL), EINVAL, "buf-range");
	assert_refused(ibv_reg_buf_mr(mine, buf, memory - PAGE, PAGE + 1, LOCAL), EINVAL,
		       "buf-range");
	assert_int_equal(ibv_export_buf_dmabuf_fd(buf), -1);
	assert_int_equal(errno, ENODATA);
	assert_true(rule_said("buf-dmabuf"));
	mr = ibv_reg_buf_mr(mine, buf, memory + 8, 4992, LOCAL);
	assert_non_null(mr);
	assert_ptr_equal(mr->addr, memory + 8);
	/* What is registered stays, whatever is freed. */
	ibv_free_buf(buf);
	memory[4999] = 1;
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(mine), 0);
}

static struct ibv_mr *reg_ex(struct init_attr *attr)
{
	return ibv_reg_mr_ex(pd, (struct ibv_mr_init_attr *)(void *)attr);
}

static void test_reg_mr_ex(void **state)
{
	static uint8_t memory[100];
	struct init_attr attr = {.length = 100, .access = LOCAL, .addr = memory}, before;
	const uint64_t wrong[] = {0,
				  IOVA,
				  ADDR | FD,
				  FD,
				  FD | FD_OFFSET,
				  FD | IOVA,
				  ADDR | FD_OFFSET,
				  BUF,
				  BUF | FD | FD_OFFSET | IOVA};
	const uint64_t missing[] = {ADDR | 64, ADDR | DMAH, FD | FD_OFFSET | IOVA};
	struct ibv_mr *mr;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		attr.comp_mask = wrong[i];
		assert_refused(reg_ex(&attr), EINVAL, "reg-mr-ex-fields");
	}
	for (size_t i = 0; i < sizeof(missing) / sizeof(missing[0]); i++) {
		attr.comp_mask = missing[i];
		assert_refused(reg_ex(&attr), EOPNOTSUPP, "reg-mr-ex-not-offered");
	}
	attr.comp_mask = ADDR;
	before = attr;
	mr = reg_ex(&attr);
	assert_non_null(mr);
	assert_memory_equal(&attr, &before, sizeof(attr));
	assert_ptr_equal(mr->addr, memory);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	attr.comp_mask = ADDR | IOVA;
	attr.iova = ((uintptr_t)memory & 0xfff) + 1;
	assert_refused(reg_ex(&attr), EINVAL, "reg-mr-offset");
	attr.iova--;
	mr = reg_ex(&attr);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	attr.addr = ibv_alloc_buf(pd, 100, &attr.buf);
	attr.comp_mask = ADDR | BUF;
	mr = reg_ex(&attr);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	ibv_free_buf(attr.buf);
}

static void test_dmabuf(void **state)
{
	assert_refused(ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, 0, LOCAL), EOPNOTSUPP, "dmabuf");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_thread_domain),
		cmocka_unit_test(test_parent_refusals),
		cmocka_unit_test(test_parent_busy),
		cmocka_unit_test(test_parent_interchangeable),
		cmocka_unit_test(test_parent_qp),
		cmocka_unit_test(test_parent_cq),
		cmocka_unit_test(test_import_refusals),
		cmocka_unit_test(test_import_process),
		cmocka_unit_test(test_import_objects),
		cmocka_unit_test(test_import_destroys),
		cmocka_unit_test(test_import_outlives),
		cmocka_unit_test(test_dm_refusals),
		cmocka_unit_test(test_dm_copies),
		cmocka_unit_test(test_dm_traffic),
		cmocka_unit_test(test_buffers),
		cmocka_unit_test(test_reg_mr_ex),
		cmocka_unit_test(test_dmabuf),
	};
	uint8_t frame[PAIR_STACK_BYTES];

	pair_main(argc, argv, frame);
	rule_log_start();
	return cmocka_run_group_tests(tests, open_all, close_all);
}

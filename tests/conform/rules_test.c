/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every rule of objects, queues and completions is provoked, each in a process of its own,
 * and must be explained by its name, by no other, and with the values that broke it. A row of
 * the rules without a provocation fails the test, unless another test is named for it.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/child.h"
#include "lib/verbs_pair.h"

static char path[64];
static struct verbs_end end;
static struct test_mem mem;
static char wanted[4][96]; /* texts that a provocation expects beside the table's */

#define WANT(i, ...) snprintf(wanted[i], sizeof(wanted[i]), __VA_ARGS__)

static void want_qp(void)
{
	WANT(0, "qp#0x%x", end.qp->qp_num);
}

static size_t read_said(char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, size - 1);

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	return n > 0 ? (size_t)n : 0;
}

/* ---- Ends in the state a provocation needs ---- */

static void open_with(struct pair_opts opts)
{
	end_open(&end, &opts);
	mem_new(&mem, end.pd, MEM_ANON_PAGE, 4096, 0xf);
	want_qp();
}

static void raw(void)
{
	open_with(pair_defaults);
}

static void connected(void)
{
	raw();
	end_self(&end);
}

static struct ibv_sge sge_of(uint32_t length)
{
	return (struct ibv_sge){mem.start, length, mem.mr->lkey};
}

static void post_and_wait(enum ibv_wr_opcode opcode, struct ibv_sge sge, uint64_t addr,
			  uint32_t rkey, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	CHECK(post_rdma(&end, opcode, 0xabc, &sge, 1, addr, rkey, IBV_SEND_SIGNALED) == 0);
	wait_wc(end.send_cq, &wc);
	CHECK(wc.status == status);
	WANT(1, "wr_id=0xabc");
}

/* ---- General ---- */

static void not_supported(void)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 1, .comp_mask = 0x100000};

	raw();
	wanted[0][0] = '\0';
	CHECK(!ibv_create_cq_ex(end.context, &attr) && errno == EOPNOTSUPP);
}

static void old_abi(void)
{
	struct ibv_device **(*old)(int *) = NULL;

	*(void **)(void *)&old = dlvsym(RTLD_DEFAULT, "ibv_get_device_list", "IBVERBS_1.0");
	CHECK(old && !old(NULL) && errno == ENOSYS);
}

static void bad_handle(void)
{
	raw();
	WANT(0, "PD handle 77777");
	end.pd->handle = 77777;
	CHECK(ibv_dealloc_pd(end.pd) == ENOENT && errno == ENOENT);
}

static void other_context(void)
{
	struct ibv_comp_channel *channel;

	raw();
	channel = ibv_create_comp_channel(open_verbs());
	WANT(0, "channel");
	CHECK(channel && !ibv_create_cq(end.context, 1, NULL, channel, 0) && errno == EINVAL);
}

static void no_memory(void)
{
	struct ibv_qp_init_attr attr = {.cap = {16384, 16384, 30, 30, 1024}, .qp_type = IBV_QPT_RC};
	struct rlimit limit;

	raw();
	attr.send_cq = attr.recv_cq = end.send_cq;
	WANT(0, "QP");
	CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
	limit.rlim_cur = 4096;
	CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
	CHECK(!ibv_create_qp(end.pd, &attr) && errno == ENOMEM);
	limit.rlim_cur = limit.rlim_max;
	CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
}

static void child_of_fork(void *arg)
{
	CHECK(!ibv_alloc_pd(end.context) && errno == EINVAL);
}

static void forked(void)
{
	raw();
	WANT(0, "ibv_alloc_pd");
	CHECK(run_in_child(child_of_fork, NULL) == 0);
}

static void busy(void)
{
	raw();
	WANT(1, "mr#0x%x", mem.mr->lkey);
	CHECK(ibv_dealloc_pd(end.pd) == EBUSY && errno == EBUSY);
}

static void comp_mask(void)
{
	struct ibv_values_ex values = {.comp_mask = 0x80};

	raw();
	WANT(0, "comp_mask=0x80");
	CHECK(ibv_query_rt_values_ex(end.context, &values) == EINVAL);
}

/* ---- Memory ---- */

static void pd_limit(void)
{
	struct ibv_context *context = open_verbs();

	CHECK(ibv_alloc_pd(context) && ibv_alloc_pd(context));
	CHECK(!ibv_alloc_pd(context) && errno == ENOMEM);
}

static void reg_fails(size_t length, int access, int err)
{
	wanted[0][0] = '\0';
	CHECK(!ibv_reg_mr(end.pd, mem.base, length, access) && errno == err);
}

static void reg_local_write(void)
{
	raw();
	reg_fails(4096, IBV_ACCESS_REMOTE_WRITE, EINVAL);
}

static void reg_bits(void)
{
	raw();
	reg_fails(4096, 1 << 15, EINVAL);
}

static void reg_not_offered(void)
{
	raw();
	reg_fails(4096, 512, EOPNOTSUPP);
}

static void reg_length(void)
{
	raw();
	reg_fails(0, 0, EINVAL);
}

static void reg_range(void)
{
	raw();
	reg_fails(SIZE_MAX - 8, 0, EINVAL);
}

static void reg_offset(void)
{
	raw();
	WANT(0, "iova=0x10004");
	CHECK(!ibv_reg_mr_iova(end.pd, mem.base, 64, 0x10004, 0) && errno == EINVAL);
}

static void reg_memory(void)
{
	void *hole = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	raw();
	WANT(0, "addr=%p length=8192, to be written", hole);
	CHECK(!ibv_reg_mr(end.pd, hole, 8192, IBV_ACCESS_LOCAL_WRITE) && errno == EFAULT);
}

static void reg_limit(void)
{
	raw();
	CHECK(ibv_reg_mr(end.pd, mem.base, 8, 0));
	reg_fails(8, 0, ENOMEM);
}

static void reg_memlock(void)
{
	struct rlimit none = {0, 0};

	end_open(&end, &pair_defaults);
	CHECK(setrlimit(RLIMIT_MEMLOCK, &none) == 0);
	mem_new(&mem, end.pd, MEM_ANON, 65536, 0);
}

/* ---- Completion queues ---- */

static void channel_descriptors(void)
{
	struct rlimit limit;
	int fd;

	raw();
	wanted[0][0] = '\0';
	fd = dup(0);
	close(fd);
	CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	limit.rlim_cur = (rlim_t)fd;
	CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	CHECK(!ibv_create_comp_channel(end.context) && errno == EMFILE);
	limit.rlim_cur = limit.rlim_max;
	CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

static void with_channel(void)
{
	struct pair_opts opts = pair_defaults;

	opts.channel = true;
	open_with(opts);
	end_self(&end);
	WANT(0, "fd=%d", end.channel->fd);
}

static void get_event_fails(int err)
{
	struct ibv_cq *cq;
	void *context;

	CHECK(ibv_get_cq_event(end.channel, &cq, &context) == -1 && errno == err);
}

static void channel_empty(void)
{
	with_channel();
	CHECK(fcntl(end.channel->fd, F_SETFL, O_NONBLOCK) == 0);
	get_event_fails(EAGAIN);
}

static void on_alarm(int sig)
{
}

static void channel_signal(void)
{
	struct sigaction action = {.sa_handler = on_alarm};
	struct itimerval every = {{0, 10000}, {0, 10000}}, never = {{0, 0}, {0, 0}};

	with_channel();
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
	get_event_fails(EINTR);
	setitimer(ITIMER_REAL, &never, NULL);
}

static void channel_closed(void)
{
	with_channel();
	close(end.channel->fd);
	get_event_fails(EBADF);
}

static void cq_fails(int cqe, int vector, int err)
{
	wanted[0][0] = '\0';
	CHECK(!ibv_create_cq(end.context, cqe, NULL, NULL, vector) && errno == err);
}

static void cq_cqe(void)
{
	raw();
	cq_fails(0, 0, EINVAL);
}

static void cq_vector(void)
{
	raw();
	cq_fails(1, -3, EINVAL);
}

static void cq_limit(void)
{
	raw();
	cq_fails(1, 0, ENOMEM);
}

static void cq_flags(void)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 1, .wc_flags = 1ull << 40};

	raw();
	WANT(0, "wc_flags=0x10000000000");
	CHECK(!ibv_create_cq_ex(end.context, &attr) && errno == EOPNOTSUPP);
}

static void start_poll_mask(void)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 1};
	struct ibv_poll_cq_attr poll = {.comp_mask = 6};
	struct ibv_cq_ex *cq;

	raw();
	WANT(0, "comp_mask=0x6");
	cq = ibv_create_cq_ex(end.context, &attr);
	CHECK(cq && ibv_start_poll(cq, &poll) == EINVAL);
}

static void *destroy_cq(void *cq)
{
	CHECK(ibv_destroy_cq(cq) == 0);
	return NULL;
}

static void destroy_waits(void)
{
	struct ibv_cq *cq;
	pthread_t thread;
	void *context;
	char text[4096];

	with_channel();
	WANT(0, "1 completion events got, 0 acked");
	CHECK(ibv_req_notify_cq(end.recv_cq, 0) == 0);
	CHECK(post_recv(&end, 1, NULL, 0) == 0 && post_send(&end, 1, NULL, 0, 0) == 0);
	CHECK(ibv_get_cq_event(end.channel, &cq, &context) == 0);
	CHECK(ibv_destroy_qp(end.qp) == 0);
	CHECK(pthread_create(&thread, NULL, destroy_cq, cq) == 0);
	while (!read_said(text, sizeof(text)))
		sched_yield();
	ibv_ack_cq_events(cq, 1);
	pthread_join(thread, NULL);
}

/* ---- Queue pairs ---- */

static struct ibv_qp_init_attr good_init(void)
{
	return (struct ibv_qp_init_attr){.send_cq = end.send_cq,
					 .recv_cq = end.recv_cq,
					 .cap = {1, 1, 1, 1, 0},
					 .qp_type = IBV_QPT_RC};
}

static void qp_fails(struct ibv_qp_init_attr *attr, int err)
{
	wanted[0][0] = '\0';
	errno = 0;
	CHECK(!ibv_create_qp(end.pd, attr) && errno == err);
}

static void qp_cap(void)
{
	struct ibv_qp_init_attr attr;

	raw();
	attr = good_init();
	attr.cap.max_inline_data = 99999;
	qp_fails(&attr, EINVAL);
}

static void qp_type(void)
{
	struct ibv_qp_init_attr attr;

	raw();
	attr = good_init();
	attr.qp_type = (enum ibv_qp_type)77;
	qp_fails(&attr, EINVAL);
}

static void qp_type_not_offered(void)
{
	struct ibv_qp_init_attr attr;

	raw();
	attr = good_init();
	attr.qp_type = IBV_QPT_RAW_PACKET;
	qp_fails(&attr, EOPNOTSUPP);
}

static void qp_cq(void)
{
	struct ibv_qp_init_attr attr;

	raw();
	attr = good_init();
	attr.recv_cq = NULL;
	qp_fails(&attr, EINVAL);
}

static void qp_ex_fails(struct ibv_qp_init_attr_ex *attr, int err)
{
	wanted[0][0] = '\0';
	errno = 0;
	CHECK(!ibv_create_qp_ex(end.context, attr) && errno == err);
}

static void qp_ops(void)
{
	struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_RC,
					   .comp_mask = IBV_QP_INIT_ATTR_PD |
							IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					   .send_ops_flags = 1ull << 33};

	raw();
	attr.pd = end.pd;
	attr.send_cq = attr.recv_cq = end.send_cq;
	qp_ex_fails(&attr, EOPNOTSUPP);
}

static void qp_pd(void)
{
	struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_RC};

	raw();
	qp_ex_fails(&attr, EINVAL);
}

static void qp_limit(void)
{
	struct ibv_qp_init_attr attr;

	raw();
	attr = good_init();
	CHECK(ibv_create_qp(end.pd, &attr));
	qp_fails(&attr, ENOMEM);
}

static void modify_transition(void)
{
	raw();
	CHECK(end_rts(&end) == EINVAL);
}

static void modify_mask(void)
{
	struct ibv_qp_attr attr;

	raw();
	CHECK(ibv_modify_qp(end.qp, &attr, (attr_init(&end, &attr) & ~IBV_QP_PORT) | IBV_QP_AV) ==
	      EINVAL);
}

static void modify_cur_state(void)
{
	struct ibv_qp_attr attr = {.cur_qp_state = IBV_QPS_SQD};

	connected();
	CHECK(ibv_modify_qp(end.qp, &attr, IBV_QP_CUR_STATE) == EINVAL);
}

static void modify_value(void)
{
	struct ibv_qp_attr attr;
	int mask;

	raw();
	wanted[0][0] = '\0';
	CHECK(end_init(&end) == 0);
	mask = attr_rtr(&end, &attr, 1, &end.gid, 0);
	attr.min_rnr_timer = 32;
	CHECK(ibv_modify_qp(end.qp, &attr, mask) == EINVAL);
}

static void modify_grh(void)
{
	struct ibv_qp_attr attr;
	int mask;

	raw();
	CHECK(end_init(&end) == 0);
	mask = attr_rtr(&end, &attr, 1, &end.gid, 0);
	attr.ah_attr.is_global = 0;
	CHECK(ibv_modify_qp(end.qp, &attr, mask) == EINVAL);
}

static void modify_sgid(void)
{
	struct ibv_qp_attr attr;
	int mask;

	raw();
	CHECK(end_init(&end) == 0);
	mask = attr_rtr(&end, &attr, 1, &end.gid, 0);
	attr.ah_attr.grh.sgid_index = 63;
	CHECK(ibv_modify_qp(end.qp, &attr, mask) == EINVAL);
}

static void modify_path_in_rts(void)
{
	struct ibv_qp_attr attr;

	connected();
	attr_rtr(&end, &attr, 1, &end.gid, 0);
	CHECK(ibv_modify_qp(end.qp, &attr, IBV_QP_AV) == EINVAL);
}

static void modify_unreachable(void)
{
	union ibv_gid nobody = {.raw = {[10] = 0xff, [11] = 0xff, 192, 0, 2, 99}};

	raw();
	CHECK(end_init(&end) == 0);
	CHECK(end_rtr(&end, 1, &nobody, 0) == 0);
}

/* ---- Posting ---- */

static void small_queues(void)
{
	struct pair_opts opts = pair_defaults;

	opts.sends = opts.recvs = 2;
	opts.wr_api = true;
	open_with(opts);
	end_self(&end);
}

static void send_full(void)
{
	small_queues();
	for (int i = 0; i < 2; i++)
		CHECK(post_rdma(&end, IBV_WR_RDMA_WRITE, 1, NULL, 0, 0, 0, IBV_SEND_SIGNALED) == 0);
	CHECK(post_send(&end, 1, NULL, 0, 0) == ENOMEM);
}

static void send_unsignaled(void)
{
	small_queues();
	for (int i = 0; i < 2; i++)
		CHECK(post_rdma(&end, IBV_WR_RDMA_WRITE, 1, NULL, 0, 0, 0, 0) == 0);
	CHECK(post_send(&end, 1, NULL, 0, 0) == ENOMEM);
}

static void send_opcode(void)
{
	connected();
	CHECK(post_rdma(&end, IBV_WR_TSO, 1, NULL, 0, 0, 0, 0) == EINVAL);
}

static void send_sge(void)
{
	struct ibv_sge sges[5] = {{0}};

	connected();
	CHECK(post_send(&end, 1, sges, 5, 0) == EINVAL);
}

static void send_flags(void)
{
	connected();
	CHECK(post_send(&end, 1, NULL, 0, 1u << 20) == EINVAL);
}

static void send_inline(void)
{
	struct ibv_sge sge;

	connected();
	sge = sge_of(129);
	CHECK(post_send(&end, 1, &sge, 1, IBV_SEND_INLINE) == EINVAL);
}

static void send_inline_read(void)
{
	struct ibv_sge sge;

	connected();
	sge = sge_of(8);
	CHECK(post_rdma(&end, IBV_WR_RDMA_READ, 1, &sge, 1, 0, 0, IBV_SEND_INLINE) == EINVAL);
}

static void send_reset(void)
{
	raw();
	CHECK(post_send(&end, 1, NULL, 0, 0) == 0);
}

static void recv_sge(void)
{
	struct ibv_sge sges[5] = {{0}};

	connected();
	CHECK(post_recv(&end, 1, sges, 5) == EINVAL);
}

static void recv_full(void)
{
	small_queues();
	CHECK(post_recv(&end, 1, NULL, 0) == 0 && post_recv(&end, 1, NULL, 0) == 0);
	CHECK(post_recv(&end, 1, NULL, 0) == ENOMEM);
}

static void recv_reset(void)
{
	raw();
	CHECK(post_recv(&end, 1, NULL, 0) == 0);
}

static void wr_opcode(void)
{
	struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_RC,
					   .cap = {1, 1, 1, 1, 0},
					   .comp_mask = IBV_QP_INIT_ATTR_PD |
							IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					   .send_ops_flags = IBV_QP_EX_WITH_SEND};
	struct ibv_qp *qp;
	struct ibv_qp_ex *ex;

	raw();
	attr.pd = end.pd;
	attr.send_cq = attr.recv_cq = end.send_cq;
	qp = ibv_create_qp_ex(end.context, &attr);
	CHECK(qp);
	WANT(0, "qp#0x%x", qp->qp_num);
	ex = ibv_qp_to_qp_ex(qp);
	ibv_wr_start(ex);
	ibv_wr_rdma_read(ex, 1, 2);
	CHECK(ibv_wr_complete(ex) == EINVAL);
}

static void wr_setter(void)
{
	small_queues();
	ibv_wr_start(end.qpx);
	ibv_wr_set_sge(end.qpx, 1, 2, 3);
	CHECK(ibv_wr_complete(end.qpx) == EINVAL);
}

/* ---- Completions ---- */

static void local_protection(void)
{
	connected();
	WANT(2, "lkey=0x%x", mem.mr->rkey);
	post_and_wait(IBV_WR_RDMA_WRITE, (struct ibv_sge){mem.start, 8, mem.mr->rkey}, 0, 0,
		      IBV_WC_LOC_PROT_ERR);
}

static void atomic_length(void)
{
	connected();
	post_and_wait(IBV_WR_ATOMIC_FETCH_AND_ADD, sge_of(7), 0, 0, IBV_WC_LOC_LEN_ERR);
}

static void message_length(void)
{
	connected();
	post_and_wait(IBV_WR_RDMA_WRITE, sge_of(1025), 0, 0, IBV_WC_LOC_LEN_ERR);
}

static void no_rd_atomic(void)
{
	struct pair_opts opts = pair_defaults;

	opts.rd_atomic = 0;
	open_with(opts);
	end_self(&end);
	post_and_wait(IBV_WR_RDMA_READ, sge_of(8), mem.start, mem.mr->rkey, IBV_WC_LOC_QP_OP_ERR);
}

static void rd_atomic(void)
{
	struct pair_opts opts = pair_defaults;

	opts.dest_rd_atomic = 0;
	open_with(opts);
	end_self(&end);
	post_and_wait(IBV_WR_RDMA_READ, sge_of(8), mem.start, mem.mr->rkey, IBV_WC_REM_INV_REQ_ERR);
}

static void retry(void)
{
	struct pair_opts opts = pair_defaults;

	opts.timeout = 1;
	opts.retry_cnt = 1;
	open_with(opts);
	CHECK(end_init(&end) == 0);
	CHECK(end_rtr(&end, end.qp->qp_num ^ 0x800000, &end.gid, 0) == 0);
	CHECK(end_rts(&end) == 0);
	WANT(2, "to qp#0x%x", end.qp->qp_num ^ 0x800000);
	post_and_wait(IBV_WR_RDMA_WRITE, sge_of(8), 0, 0, IBV_WC_RETRY_EXC_ERR);
}

static void rnr(void)
{
	struct pair_opts opts = pair_defaults;

	opts.rnr_retry = 0;
	open_with(opts);
	end_self(&end);
	post_and_wait(IBV_WR_SEND, sge_of(8), 0, 0, IBV_WC_RNR_RETRY_EXC_ERR);
}

static void alignment(void)
{
	connected();
	post_and_wait(IBV_WR_ATOMIC_CMP_AND_SWP, sge_of(8), mem.start + 4, mem.mr->rkey,
		      IBV_WC_REM_INV_REQ_ERR);
}

static void receive_length(void)
{
	struct ibv_sge sge;

	connected();
	sge = sge_of(7);
	CHECK(post_recv(&end, 1, &sge, 1) == 0);
	post_and_wait(IBV_WR_SEND, sge_of(8), 0, 0, IBV_WC_REM_INV_REQ_ERR);
}

static void qp_access(void)
{
	struct pair_opts opts = pair_defaults;

	opts.access = IBV_ACCESS_REMOTE_READ;
	open_with(opts);
	end_self(&end);
	post_and_wait(IBV_WR_RDMA_WRITE, sge_of(8), mem.start, mem.mr->rkey, IBV_WC_REM_ACCESS_ERR);
}

static void rkey_is_lkey(void)
{
	connected();
	WANT(2, "rkey=0x%x", mem.mr->lkey);
	post_and_wait(IBV_WR_RDMA_WRITE, sge_of(8), mem.start, mem.mr->lkey, IBV_WC_REM_ACCESS_ERR);
}

static void rkey_range(void)
{
	connected();
	WANT(2, "rkey=0x%x [0x%llx,+8) against MR [0x%llx,+4096)", mem.mr->rkey,
	     (unsigned long long)mem.start + 4089, (unsigned long long)mem.start);
	post_and_wait(IBV_WR_RDMA_WRITE, sge_of(8), mem.start + 4089, mem.mr->rkey,
		      IBV_WC_REM_ACCESS_ERR);
}

static void receive_protection(void)
{
	struct ibv_sge sge;

	connected();
	sge = sge_of(8);
	sge.lkey = mem.mr->rkey;
	CHECK(post_recv(&end, 1, &sge, 1) == 0);
	post_and_wait(IBV_WR_SEND, sge_of(8), 0, 0, IBV_WC_REM_OP_ERR);
}

static void flush(void)
{
	connected();
	CHECK(end_state(&end, IBV_QPS_ERR) == 0);
	post_and_wait(IBV_WR_SEND, sge_of(8), 0, 0, IBV_WC_WR_FLUSH_ERR);
	wanted[1][0] = '\0';
}

/* ---- The table ---- */

static const struct row {
	const char *rule;
	void (*provoke)(void);
	const char *texts[3];
	const char *setting, *value;
	const char *also; /* a note that comes with it */
	bool on_stderr;	  /* there is no descriptor left to open the file with */
} rows[] = {
	{.rule = "not-supported", .provoke = not_supported, .texts = {"comp_mask=0x100000"}},
	{.rule = "old-abi", .provoke = old_abi, .texts = {0}},
	{.rule = "bad-handle", .provoke = bad_handle, .texts = {0}},
	{.rule = "other-context", .provoke = other_context, .texts = {0}},
	{.rule = "no-memory", .provoke = no_memory, .texts = {0}},
	{.rule = "forked", .provoke = forked, .texts = {0}},
	{.rule = "busy", .provoke = busy, .texts = {"ibv_dealloc_pd", "2 live objects"}},
	{.rule = "comp-mask", .provoke = comp_mask, .texts = {"ibv_query_rt_values_ex"}},
	{.rule = "pd-limit",
	 .provoke = pd_limit,
	 .texts = {"max_pd=2"},
	 .setting = "VERBENA_MAX_PD",
	 .value = "2"},
	{.rule = "reg-mr-local-write",
	 .provoke = reg_local_write,
	 .texts = {"access=REMOTE_WRITE"}},
	{.rule = "reg-mr-access-bits", .provoke = reg_bits, .texts = {"0x8000"}},
	{.rule = "reg-mr-not-offered", .provoke = reg_not_offered, .texts = {"FLUSH_PERSISTENT"}},
	{.rule = "reg-mr-length", .provoke = reg_length, .texts = {"length=0"}},
	{.rule = "reg-mr-range", .provoke = reg_range, .texts = {"length=18446744073709551607"}},
	{.rule = "reg-mr-offset", .provoke = reg_offset, .texts = {0}},
	{.rule = "reg-mr-memory", .provoke = reg_memory, .texts = {0}},
	{.rule = "reg-mr-limit",
	 .provoke = reg_limit,
	 .texts = {"max_mr=2"},
	 .setting = "VERBENA_MAX_MR",
	 .value = "2"},
	{.rule = "reg-mr-memlock",
	 .provoke = reg_memlock,
	 .texts = {"64 KiB", "RLIMIT_MEMLOCK is 0 KiB"}},
	{.rule = "channel-descriptors",
	 .provoke = channel_descriptors,
	 .texts = {0},
	 .on_stderr = true},
	{.rule = "channel-empty", .provoke = channel_empty, .texts = {0}},
	{.rule = "channel-signal", .provoke = channel_signal, .texts = {0}},
	{.rule = "channel-descriptor", .provoke = channel_closed, .texts = {0}},
	{.rule = "create-cq-cqe", .provoke = cq_cqe, .texts = {"cqe=0", "max_cqe="}},
	{.rule = "create-cq-vector", .provoke = cq_vector, .texts = {"comp_vector=-3"}},
	{.rule = "create-cq-wc-flags", .provoke = cq_flags, .texts = {0}},
	{.rule = "create-cq-limit",
	 .provoke = cq_limit,
	 .texts = {"max_cq=2"},
	 .setting = "VERBENA_MAX_CQ",
	 .value = "2"},
	{.rule = "start-poll-mask", .provoke = start_poll_mask, .texts = {0}},
	{.rule = "destroy-waits", .provoke = destroy_waits, .texts = {0}},
	{.rule = "create-qp-cap", .provoke = qp_cap, .texts = {"max_inline_data 99999 > "}},
	{.rule = "create-qp-type", .provoke = qp_type, .texts = {"qp_type=77"}},
	{.rule = "create-qp-type-not-offered",
	 .provoke = qp_type_not_offered,
	 .texts = {"RAW_PACKET"}},
	{.rule = "create-qp-cq", .provoke = qp_cq, .texts = {"recv_cq=(nil)"}},
	{.rule = "create-qp-ops", .provoke = qp_ops, .texts = {"0x200000000"}},
	{.rule = "create-qp-pd", .provoke = qp_pd, .texts = {"comp_mask=0x0"}},
	{.rule = "qp-limit",
	 .provoke = qp_limit,
	 .texts = {"max_qp=2"},
	 .setting = "VERBENA_MAX_QP",
	 .value = "2"},
	{.rule = "modify-qp-transition",
	 .provoke = modify_transition,
	 .texts = {"RC: RESET -> RTS"}},
	{.rule = "modify-qp-mask",
	 .provoke = modify_mask,
	 .texts = {"RC RESET -> INIT", "missing IBV_QP_PORT", "not allowed IBV_QP_AV"}},
	{.rule = "modify-qp-cur-state",
	 .provoke = modify_cur_state,
	 .texts = {"cur_qp_state=SQD, is RTS"}},
	{.rule = "modify-qp-value",
	 .provoke = modify_value,
	 .texts = {"min_rnr_timer=32, allowed 0..31"}},
	{.rule = "modify-qp-grh", .provoke = modify_grh, .texts = {"is_global is 0"}},
	{.rule = "modify-qp-sgid", .provoke = modify_sgid, .texts = {"sgid_index=63 of 64"}},
	{.rule = "modify-qp-path-in-rts", .provoke = modify_path_in_rts, .texts = {"IBV_QP_AV"}},
	{.rule = "modify-qp-unreachable", .provoke = modify_unreachable, .texts = {0}},
	{.rule = "post-send-full",
	 .provoke = send_full,
	 .texts = {"2 posted, 2 of them completed"}},
	{.rule = "post-send-unsignaled",
	 .provoke = send_unsignaled,
	 .texts = {"2 posted, none of them signaled"}},
	{.rule = "post-send-opcode", .provoke = send_opcode, .texts = {"RC: opcode 10"}},
	{.rule = "post-send-sge", .provoke = send_sge, .texts = {"num_sge 5, max_send_sge 4"}},
	{.rule = "post-send-flags", .provoke = send_flags, .texts = {"send_flags 0x100000"}},
	{.rule = "post-send-inline",
	 .provoke = send_inline,
	 .texts = {"129 bytes, max_inline_data 128"}},
	{.rule = "post-send-inline-read", .provoke = send_inline_read, .texts = {"opcode 4"}},
	{.rule = "post-send-reset", .provoke = send_reset, .texts = {0}},
	{.rule = "post-recv-sge", .provoke = recv_sge, .texts = {"num_sge 5, max_recv_sge 4"}},
	{.rule = "post-recv-full", .provoke = recv_full, .texts = {"max_recv_wr 2"}},
	{.rule = "post-recv-reset", .provoke = recv_reset, .texts = {0}},
	{.rule = "wr-opcode", .provoke = wr_opcode, .texts = {"opcode 4"}},
	{.rule = "wr-setter", .provoke = wr_setter, .texts = {0}},
	{.rule = "wc-local-protection",
	 .provoke = local_protection,
	 .texts = {"sge[0]", "an MR's rkey"}},
	{.rule = "wc-atomic-length", .provoke = atomic_length, .texts = {"7 bytes"}},
	{.rule = "wc-message-length",
	 .provoke = message_length,
	 .texts = {"1025 bytes, max_msg_sz 1024"},
	 .setting = "VERBENA_MAX_MSG_SIZE",
	 .value = "1024"},
	{.rule = "wc-no-rd-atomic", .provoke = no_rd_atomic, .texts = {"max_rd_atomic is 0"}},
	{.rule = "wc-rd-atomic",
	 .provoke = rd_atomic,
	 .texts = {"max_dest_rd_atomic"},
	 .also = "qp-failed-by-peer"},
	{.rule = "wc-retry",
	 .provoke = retry,
	 .texts = {"no process of this host has a QP of that number"}},
	{.rule = "wc-receiver-not-ready", .provoke = rnr, .texts = {"no receive posted"}},
	{.rule = "wc-alignment",
	 .provoke = alignment,
	 .texts = {"multiple of 8"},
	 .also = "qp-failed-by-peer"},
	{.rule = "wc-receive-length",
	 .provoke = receive_length,
	 .texts = {"shorter"},
	 .also = "qp-failed-by-peer"},
	{.rule = "wc-qp-access",
	 .provoke = qp_access,
	 .texts = {"qp_access_flags"},
	 .also = "qp-failed-by-peer"},
	{.rule = "wc-rkey",
	 .provoke = rkey_is_lkey,
	 .texts = {"looks like an lkey"},
	 .also = "qp-failed-by-peer"},
	{.rule = "wc-rkey",
	 .provoke = rkey_range,
	 .texts = {"outside the MR", "access "},
	 .also = "qp-failed-by-peer"},
	{.rule = "wc-receive-protection",
	 .provoke = receive_protection,
	 .texts = {"lkey"},
	 .also = "qp-failed-by-peer"},
	{.rule = "wc-flush", .provoke = flush, .texts = {"moved to ERR by the program"}},
	{.rule = "qp-failed-by-peer",
	 .provoke = qp_access,
	 .texts = {"access_qp_flags"},
	 .also = "wc-qp-access"},
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

/* Every "[name]" of a head line is the rule or the note that comes with it. */
static void check_names(const struct row *row, const char *text)
{
	bool found = false;

	for (const char *at = strstr(text, "verbena: "); at; at = strstr(at + 1, "\nverbena: ")) {
		const char *open = strchr(at, '['), *close = open ? strchr(open, ']') : NULL;
		char name[64];

		CHECK(open && close && close - open < (long)sizeof(name));
		snprintf(name, sizeof(name), "%.*s", (int)(close - open - 1), open + 1);
		if (strcmp(name, row->rule) != 0 && (!row->also || strcmp(name, row->also) != 0)) {
			fprintf(stderr, "%s: also said: %s\n", row->rule, text);
			exit(1);
		}
		found |= !strcmp(name, row->rule);
	}
	if (!found) {
		fprintf(stderr, "%s: not said, but: %s\n", row->rule, text);
		exit(1);
	}
}

static void check_text(const char *rule, const char *text, const char *want)
{
	if (want && *want && !strstr(text, want)) {
		fprintf(stderr, "%s: '%s' is missing in: %s\n", rule, want, text);
		exit(1);
	}
}

static void run_row(void *arg)
{
	const struct row *row = arg;
	static char text[65536];
	int fd;

	snprintf(path, sizeof(path), "/tmp/verbena-explain-%d", getpid());
	unlink(path);
	setenv("VERBENA_EXPLAIN", path, 1);
	if (row->on_stderr) {
		fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
		CHECK(fd >= 0 && dup2(fd, STDERR_FILENO) >= 0);
		close(fd);
		setenv("VERBENA_EXPLAIN", "1", 1);
	}
	if (row->setting)
		setenv(row->setting, row->value, 1);
	row->provoke();
	read_said(text, sizeof(text));
	unlink(path);
	check_names(row, text);
	for (int i = 0; i < 3; i++)
		check_text(row->rule, text, row->texts[i]);
	for (int i = 0; i < 4; i++)
		check_text(row->rule, text, wanted[i]);
}

static void test_rows(void **state)
{
	int bad = 0;

	for (size_t i = 0; i < ROWS; i++) {
#ifdef VB_SANITIZED
		if (rows[i].provoke == no_memory)
			continue; /* a sanitizer cannot live with so little address space */
#endif
		if (run_in_child(run_row, (void *)(uintptr_t)&rows[i]) != 0) {
			print_error("rule %s\n", rows[i].rule);
			bad++;
		}
	}
	assert_int_equal(bad, 0);
}

/* Rules that other tests provoke. */
static const struct {
	const char *prefix, *test;
} elsewhere[] = {
	{"ah-", "ah_test"},
	{"create-ah-", "ah_test"},
	{"create-srq-", "srq_test"},
	{"create-qp-srq", "srq_test"},
	{"modify-srq-", "srq_test"},
	{"post-srq-", "srq_test"},
	{"post-recv-srq", "srq_test"},
	{"srq-", "srq_test"},
	{"wc-ud-", "ud_test"},
	{"wc-address-handle", "ud_test"},
	{"wc-opcode", "ud_test"},
	{"resize-cq", "overrun_test"},
	{"cq-overrun", "overrun_test"},
	{"reg-mr-hugetlb", "memory tests"},
	{"rereg-mr-", "memory tests"},
	{"advise-mr-", "memory tests"},
	{"parent-domain-", "memory tests"},
	{"dm-", "memory tests"},
	{"reg-dm-", "memory tests"},
	{"reg-mr-ex-", "memory tests"},
	{"dmabuf", "memory tests"},
	{"buf-", "memory tests"},
	{"import-", "memory tests"},
	{"wc-unreachable", "memory ladder tests: needs a host that forbids every step"},
	{"wait-unarmed", "nobody fails by it yet"},
};

static bool is_covered(const char *rule)
{
	for (size_t i = 0; i < ROWS; i++)
		if (!strcmp(rows[i].rule, rule))
			return true;
	for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++)
		if (!strncmp(elsewhere[i].prefix, rule, strlen(elsewhere[i].prefix)))
			return true;
	return false;
}

static void test_none_forgotten(void **state)
{
	static const char *const names[] = {
#define VB_RULE(sym, name, verb, err, sentence, source, advice)	      name,
#define VB_RULE_WC(sym, name, verb, status, sentence, source, advice) name,
#include "base/rules/general.def"
#include "base/rules/memory.def"
#include "base/rules/cq.def"
#include "base/rules/qp.def"
#include "base/rules/post.def"
#include "base/rules/completion.def"
#undef VB_RULE
#undef VB_RULE_WC
	};
	int bad = 0;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!is_covered(names[i])) {
			print_error("no provocation of rule %s\n", names[i]);
			bad++;
		}
	assert_int_equal(bad, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_none_forgotten),
		cmocka_unit_test(test_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

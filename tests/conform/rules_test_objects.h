/* SPDX-License-Identifier: BSD-2-Clause */
/* Part of rules_test.c: provocations of rules of contexts, memory and completion queues. */

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

/* A program that polled too little, forgot to arm, and waits. */
static void wait_unarmed(void)
{
	struct sigaction action = {.sa_handler = on_alarm};
	struct itimerval every = {{0, 10000}, {0, 10000}}, never = {{0, 0}, {0, 0}};

	with_channel();
	for (int i = 0; i < 3; i++)
		CHECK(post_rdma(&end, IBV_WR_RDMA_WRITE, 1, NULL, 0, 0, 0, IBV_SEND_SIGNALED) == 0);
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

static void cq_domain(void)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 1, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD};

	raw();
	WANT(0, "is no parent domain");
	attr.parent_domain = end.pd;
	CHECK(!ibv_create_cq_ex(end.context, &attr) && errno == EINVAL);
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

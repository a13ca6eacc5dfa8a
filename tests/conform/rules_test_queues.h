/* SPDX-License-Identifier: BSD-2-Clause */
/* Part of rules_test.c: provocations of rules of queue pairs, posting and completions. */

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
	union ibv_gid nobody = {.raw = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 99}};

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

static void send_state(void)
{
	raw();
	CHECK(post_send(&end, 1, NULL, 0, 0) == EINVAL);
}

static void recv_state(void)
{
	raw();
	CHECK(post_recv(&end, 1, NULL, 0) == EINVAL);
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

/* SPDX-License-Identifier: BSD-2-Clause */
#include "lib/verbs_pair.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/child.h"

#define ALL_OPS                                                                                    \
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |    \
	 IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |                                 \
	 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)

const struct pair_opts pair_defaults = {
	.gid_index = 1,
	.sends = 32,
	.recvs = 32,
	.sges = 4,
	.inline_bytes = 128,
	.cqe = 128,
	.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		  IBV_ACCESS_REMOTE_ATOMIC,
	.timeout = 14,
	.retry_cnt = 7,
	.rnr_retry = 7,
	.rnr_timer = 1,
	.rd_atomic = 4,
	.dest_rd_atomic = 4,
	.mtu = IBV_MTU_1024,
	.psn = 0xfffff0, /* wraps soon */
};

uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

struct ibv_context *open_verbs(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context;

	CHECK(list && list[0]);
	context = ibv_open_device(list[0]);
	CHECK(context);
	ibv_free_device_list(list);
	return context;
}

static void make_qp(struct verbs_end *end)
{
	const struct pair_opts *opts = &end->opts;
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = end->send_cq,
		.recv_cq = end->recv_cq,
		.cap = {.max_send_wr = opts->sends,
			.max_recv_wr = opts->recvs,
			.max_send_sge = opts->sges,
			.max_recv_sge = opts->sges,
			.max_inline_data = opts->inline_bytes},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = opts->sig_all,
		.qp_context = end,
	};

	if (opts->wr_api) {
		attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.pd = end->pd;
		attr.send_ops_flags = ALL_OPS;
		end->qp = ibv_create_qp_ex(end->context, &attr);
		CHECK(end->qp);
		end->qpx = ibv_qp_to_qp_ex(end->qp);
		CHECK(end->qpx);
	} else {
		end->qp = ibv_create_qp(end->pd, (struct ibv_qp_init_attr *)(void *)&attr);
		CHECK(end->qp);
		CHECK(!ibv_qp_to_qp_ex(end->qp));
	}
	CHECK(attr.cap.max_send_wr >= opts->sends && attr.cap.max_recv_wr >= opts->recvs);
	CHECK(attr.cap.max_inline_data >= opts->inline_bytes);
}

void end_objects(struct verbs_end *end, const struct pair_opts *opts, struct ibv_context *context)
{
	memset(end, 0, sizeof(*end));
	end->opts = *opts;
	end->context = context;
	end->pd = ibv_alloc_pd(context);
	CHECK(end->pd);
	if (opts->channel) {
		end->channel = ibv_create_comp_channel(context);
		CHECK(end->channel);
	}
	end->send_cq = ibv_create_cq(context, opts->cqe, end, end->channel, 0);
	CHECK(end->send_cq);
	end->recv_cq = opts->same_cq ? end->send_cq
				     : ibv_create_cq(context, opts->cqe, end, end->channel, 0);
	CHECK(end->recv_cq);
	CHECK(ibv_query_gid(context, 1, opts->gid_index, &end->gid) == 0);
	end->psn = opts->psn;
	make_qp(end);
}

void end_open(struct verbs_end *end, const struct pair_opts *opts)
{
	end_objects(end, opts, open_verbs());
}

void end_objects_close(struct verbs_end *end)
{
	if (end->qp)
		CHECK(ibv_destroy_qp(end->qp) == 0);
	if (end->recv_cq && end->recv_cq != end->send_cq)
		CHECK(ibv_destroy_cq(end->recv_cq) == 0);
	CHECK(ibv_destroy_cq(end->send_cq) == 0);
	if (end->channel)
		CHECK(ibv_destroy_comp_channel(end->channel) == 0);
	CHECK(ibv_dealloc_pd(end->pd) == 0);
}

void end_close(struct verbs_end *end)
{
	end_objects_close(end);
	CHECK(ibv_close_device(end->context) == 0);
}

int attr_init(const struct verbs_end *end, struct ibv_qp_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->qp_state = IBV_QPS_INIT;
	attr->port_num = 1;
	attr->qp_access_flags = end->opts.access;
	return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
}

int attr_rtr(const struct verbs_end *end, struct ibv_qp_attr *attr, uint32_t qpn,
	     const union ibv_gid *gid, uint32_t psn)
{
	memset(attr, 0, sizeof(*attr));
	attr->qp_state = IBV_QPS_RTR;
	attr->path_mtu = end->opts.mtu;
	attr->dest_qp_num = qpn;
	attr->rq_psn = psn;
	attr->max_dest_rd_atomic = end->opts.dest_rd_atomic;
	attr->min_rnr_timer = end->opts.rnr_timer;
	attr->ah_attr.is_global = 1;
	attr->ah_attr.port_num = 1;
	attr->ah_attr.grh.dgid = *gid;
	attr->ah_attr.grh.sgid_index = (uint8_t)end->opts.gid_index;
	attr->ah_attr.grh.hop_limit = 64;
	return IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
}

int attr_rts(const struct verbs_end *end, struct ibv_qp_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->qp_state = IBV_QPS_RTS;
	attr->timeout = end->opts.timeout;
	attr->retry_cnt = end->opts.retry_cnt;
	attr->rnr_retry = end->opts.rnr_retry;
	attr->sq_psn = end->psn;
	attr->max_rd_atomic = end->opts.rd_atomic;
	return IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
	       IBV_QP_MAX_QP_RD_ATOMIC;
}

int end_init(struct verbs_end *end)
{
	struct ibv_qp_attr attr;
	int mask = attr_init(end, &attr);

	return ibv_modify_qp(end->qp, &attr, mask);
}

int end_rtr(struct verbs_end *end, uint32_t qpn, const union ibv_gid *gid, uint32_t psn)
{
	struct ibv_qp_attr attr;
	int mask = attr_rtr(end, &attr, qpn, gid, psn);

	return ibv_modify_qp(end->qp, &attr, mask);
}

int end_rts(struct verbs_end *end)
{
	struct ibv_qp_attr attr;
	int mask = attr_rts(end, &attr);

	return ibv_modify_qp(end->qp, &attr, mask);
}

int end_state(struct verbs_end *end, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};

	return ibv_modify_qp(end->qp, &attr, IBV_QP_STATE);
}

enum ibv_qp_state end_query(struct verbs_end *end)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK(ibv_query_qp(end->qp, &attr, IBV_QP_STATE, &init) == 0);
	return attr.qp_state;
}

void end_self(struct verbs_end *end)
{
	CHECK(end_init(end) == 0);
	CHECK(end_rtr(end, end->qp->qp_num, &end->gid, end->psn) == 0);
	CHECK(end_rts(end) == 0);
}

/* ---- Waiting ---- */

/* Looks are cheap, the clock is not: every 64 looks. A process that shares its CPU
 * with the peer gives way. */
void wait_wc(struct ibv_cq *cq, struct ibv_wc *wc)
{
	uint64_t end = clock_ns() + PAIR_PATIENCE_S * 1000000000ull;

	for (;;) {
		for (int i = 0; i < 64; i++) {
			int n = ibv_poll_cq(cq, 1, wc);

			CHECK(n >= 0);
			if (n)
				return;
		}
		CHECK(clock_ns() < end);
		sched_yield();
	}
}

bool no_wc(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	for (int i = 0; i < 1000; i++)
		if (ibv_poll_cq(cq, 1, &wc) != 0)
			return false;
	return true;
}

bool readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

void wait_readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int n;

	do
		n = poll(&p, 1, PAIR_PATIENCE_S * 1000);
	while (n < 0 && errno == EINTR);
	CHECK(n == 1);
}

int wait_event(struct ibv_context *context, struct ibv_async_event *event)
{
	wait_readable(context->async_fd);
	CHECK(ibv_get_async_event(context, event) == 0);
	ibv_ack_async_event(event);
	return (int)event->event_type;
}

/* ---- Posting ---- */

int post_recv(struct verbs_end *end, uint64_t wr_id, struct ibv_sge *sges, int n)
{
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = sges, .num_sge = n}, *bad = NULL;
	int err = ibv_post_recv(end->qp, &wr, &bad);

	CHECK(!err || bad == &wr);
	return err;
}

int post_send(struct verbs_end *end, uint64_t wr_id, struct ibv_sge *sges, int n,
	      unsigned int flags)
{
	return post_rdma(end, IBV_WR_SEND, wr_id, sges, n, 0, 0, flags);
}

int post_rdma(struct verbs_end *end, enum ibv_wr_opcode opcode, uint64_t wr_id,
	      struct ibv_sge *sges, int n, uint64_t remote_addr, uint32_t rkey, unsigned int flags)
{
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .sg_list = sges,
				 .num_sge = n,
				 .opcode = opcode,
				 .send_flags = flags},
			   *bad = NULL;
	int err;

	if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = remote_addr;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 1;
		wr.wr.atomic.swap = 2;
	} else {
		wr.wr.rdma.remote_addr = remote_addr;
		wr.wr.rdma.rkey = rkey;
		wr.imm_data = htobe32((uint32_t)wr_id);
	}
	err = ibv_post_send(end->qp, &wr, &bad);
	CHECK(!err || bad == &wr);
	return err;
}

/* ---- The pair ---- */

#define SERVER_MEMS 64

struct server {
	struct verbs_end *end;
	struct ibv_pd *other_pd;
	struct test_mem mem[SERVER_MEMS]; /* base NULL: free */
	struct pair_req peer;		  /* what CONNECT told */
};

static struct server own_server;

static int serve_modify(struct server *s, enum ibv_qp_state to)
{
	switch (to) {
	case IBV_QPS_INIT:
		return end_init(s->end);
	case IBV_QPS_RTR:
		return end_rtr(s->end, s->peer.qp_num, &s->peer.gid, s->peer.psn);
	case IBV_QPS_RTS:
		return end_query(s->end) == IBV_QPS_SQD ? end_state(s->end, to) : end_rts(s->end);
	default:
		return end_state(s->end, to);
	}
}

static void serve_mem_new(struct server *s, const struct pair_req *req, struct pair_rep *rep)
{
	struct test_mem *mem = s->mem;
	struct ibv_pd *pd = s->end->pd;
	unsigned int access = req->access | (req->zero_based ? IBV_ACCESS_ZERO_BASED : 0);

	while (mem->base)
		mem++;
	CHECK(mem < s->mem + SERVER_MEMS);
	if (req->other_pd) {
		s->other_pd = s->other_pd ? s->other_pd : ibv_alloc_pd(s->end->context);
		CHECK(s->other_pd);
		pd = s->other_pd;
	}
	mem_new(mem, pd, req->kind, req->length, access);
	if (req->iova) {
		CHECK(ibv_dereg_mr(mem->mr) == 0);
		mem->mr = ibv_reg_mr_iova(pd, mem->base, req->length, req->iova, access);
		CHECK(mem->mr);
		mem->start = req->iova;
	}
	rep->mem = (int)(mem - s->mem);
	rep->addr = mem->start;
	rep->lkey = mem->mr->lkey;
	rep->rkey = mem->mr->rkey;
}

static void serve_recv(struct server *s, const struct pair_req *req, struct pair_rep *rep)
{
	struct ibv_sge sges[PAIR_SPANS];

	if (req->n)
		mem_sges(&s->mem[req->mem], req->spans, req->n, sges);
	for (int i = 0; i < req->n && req->lkey; i++)
		sges[i].lkey = req->lkey;
	rep->ret = post_recv(s->end, req->wr_id, sges, req->n);
}

static void serve_dereg(struct server *s, int mem)
{
	CHECK(ibv_dereg_mr(s->mem[mem].mr) == 0);
	s->mem[mem].mr = NULL;
}

static void serve_quit(struct server *s)
{
	for (int i = 0; i < SERVER_MEMS; i++)
		if (s->mem[i].base)
			mem_free(&s->mem[i]);
	end_objects_close(s->end);
	if (s->other_pd)
		CHECK(ibv_dealloc_pd(s->other_pd) == 0);
	CHECK(ibv_close_device(s->end->context) == 0);
}

static void serve_event(struct server *s, struct pair_rep *rep)
{
	struct ibv_async_event event;

	rep->ret = wait_event(s->end->context, &event);
	rep->qp_num = event.element.qp->qp_num;
	CHECK(event.element.qp == s->end->qp);
}

static void serve(struct server *s, const struct pair_req *req, struct pair_rep *rep)
{
	struct test_mem *mem = &s->mem[req->mem];

	memset(rep, 0, sizeof(*rep));
	switch (req->op) {
	case PAIR_MEM_NEW:
		serve_mem_new(s, req, rep);
		break;
	case PAIR_MEM_FILL:
		mem_fill(mem, req->spans, req->n, req->seed);
		break;
	case PAIR_MEM_CHECK:
		rep->ret = !mem_holds(mem, req->spans, req->n, req->seed);
		break;
	case PAIR_MEM_PEEK:
		memcpy(&rep->value, mem->base + req->value, 8);
		break;
	case PAIR_MEM_HIDE:
		mem_hide(mem);
		break;
	case PAIR_MEM_DEREG:
		serve_dereg(s, req->mem);
		break;
	case PAIR_MEM_FREE:
		mem_free(mem);
		break;
	case PAIR_POST_RECV:
		serve_recv(s, req, rep);
		break;
	case PAIR_WAIT_RECV:
		wait_wc(s->end->recv_cq, &rep->wc);
		break;
	case PAIR_NO_RECV:
		rep->ret = !no_wc(s->end->recv_cq);
		break;
	case PAIR_STATE:
		rep->ret = (int)end_query(s->end);
		break;
	case PAIR_MODIFY:
		rep->ret = serve_modify(s, (enum ibv_qp_state)req->value);
		break;
	case PAIR_EVENT:
		serve_event(s, rep);
		break;
	case PAIR_NO_EVENT:
		rep->ret = readable(s->end->context->async_fd);
		break;
	case PAIR_HELLO:
		rep->qp_num = s->end->qp->qp_num;
		rep->gid = s->end->gid;
		rep->psn = s->end->psn;
		break;
	case PAIR_CONNECT:
		s->peer = *req;
		break;
	case PAIR_QUIT:
		serve_quit(s);
		break;
	}
}

static void transfer(int fd, void *data, size_t size, bool out)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = out ? send(fd, (char *)data + done, size - done, MSG_NOSIGNAL)
				: recv(fd, (char *)data + done, size - done, 0);

		if (n < 0 && errno == EINTR)
			continue;
		CHECK(n > 0);
		done += (size_t)n;
	}
}

static void open_b(struct server *s, struct verbs_end *end, const struct pair_opts *opts)
{
	memset(s, 0, sizeof(*s));
	s->end = end;
	end_open(end, opts);
	end->psn = (opts->psn + 1000) & 0xffffff;
}

void pair_main(int argc, char **argv, uint8_t *frame)
{
	static struct verbs_end end;
	struct pair_req req;
	struct pair_rep rep;
	int fd;

	pair_stack(frame);
	if (argc != 3 || strcmp(argv[1], "--end-b"))
		return;
	fd = atoi(argv[2]);
	transfer(fd, &req, sizeof(req), false);
	open_b(&own_server, &end, &req.opts);
	do {
		transfer(fd, &req, sizeof(req), false);
		serve(&own_server, &req, &rep);
		transfer(fd, &rep, sizeof(rep), true);
	} while (req.op != PAIR_QUIT);
	exit(0);
}

static void start_b(struct verbs_pair *pair, const struct pair_opts *opts)
{
	struct pair_req req = {.op = PAIR_HELLO, .opts = *opts};
	char text[16], self[4096];
	int fds[2];
	ssize_t n;

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
	/* By its name: valgrind's own program is behind the link. */
	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	CHECK(n > 0);
	self[n] = '\0';
	fflush(NULL);
	pair->pid = fork();
	CHECK(pair->pid >= 0);
	if (!pair->pid) {
		char *argv[] = {(char *)"end-b", (char *)"--end-b", text, NULL};
		int copy = dup(fds[1]); /* without close-on-exec */

		snprintf(text, sizeof(text), "%d", copy);
		enter_other();
		execv(self, argv);
		_exit(127);
	}
	close(fds[1]);
	pair->fd = fds[0];
	transfer(pair->fd, &req, sizeof(req), true);
}

struct pair_rep pair_call(struct verbs_pair *pair, const struct pair_req *req)
{
	struct pair_rep rep;

	if (pair->two) {
		transfer(pair->fd, (void *)(uintptr_t)req, sizeof(*req), true);
		transfer(pair->fd, &rep, sizeof(rep), false);
	} else {
		serve(&own_server, req, &rep);
	}
	return rep;
}

void pair_create_raw(struct verbs_pair *pair, const struct pair_opts *opts, bool two)
{
	struct pair_req connect = {.op = PAIR_CONNECT};
	struct pair_rep hello;

	memset(pair, 0, sizeof(*pair));
	pair->two = two;
	end_open(&pair->a, opts);
	if (two)
		start_b(pair, opts);
	else
		open_b(&own_server, &pair->b, opts);
	hello = pair_b(pair, PAIR_HELLO);
	pair->b_qpn = hello.qp_num;
	pair->b_gid = hello.gid;
	pair->b_psn = hello.psn;
	connect.qp_num = pair->a.qp->qp_num;
	connect.gid = pair->a.gid;
	connect.psn = pair->a.psn;
	pair_call(pair, &connect);
}

void pair_create(struct verbs_pair *pair, const struct pair_opts *opts, bool two)
{
	pair_create_raw(pair, opts, two);
	CHECK(end_init(&pair->a) == 0);
	CHECK(pair_b_modify(pair, IBV_QPS_INIT) == 0);
	CHECK(end_rtr(&pair->a, pair->b_qpn, &pair->b_gid, pair->b_psn) == 0);
	CHECK(pair_b_modify(pair, IBV_QPS_RTR) == 0);
	CHECK(end_rts(&pair->a) == 0);
	CHECK(pair_b_modify(pair, IBV_QPS_RTS) == 0);
}

void pair_destroy(struct verbs_pair *pair)
{
	int status = 0;

	pair_b(pair, PAIR_QUIT);
	if (pair->two) {
		while (waitpid(pair->pid, &status, 0) < 0)
			;
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
		close(pair->fd);
	}
	end_close(&pair->a);
}

void pair_kill_b(struct verbs_pair *pair)
{
	CHECK(pair->two && kill(pair->pid, SIGKILL) == 0);
	while (waitpid(pair->pid, NULL, 0) < 0)
		;
	close(pair->fd);
}

struct pair_rep pair_b(struct verbs_pair *pair, enum pair_op op)
{
	struct pair_req req = {.op = op};

	return pair_call(pair, &req);
}

struct pair_rep pair_b_mem(struct verbs_pair *pair, enum mem_kind kind, uint64_t length,
			   unsigned int access)
{
	struct pair_req req = {
		.op = PAIR_MEM_NEW, .kind = kind, .length = length, .access = access};

	return pair_call(pair, &req);
}

int pair_b_recv(struct verbs_pair *pair, uint64_t wr_id, int mem, const struct span *spans, int n)
{
	struct pair_req req = {.op = PAIR_POST_RECV, .wr_id = wr_id, .mem = mem, .n = n};

	if (n)
		memcpy(req.spans, spans, (size_t)n * sizeof(*spans));
	return pair_call(pair, &req).ret;
}

int pair_b_modify(struct verbs_pair *pair, enum ibv_qp_state state)
{
	struct pair_req req = {.op = PAIR_MODIFY, .value = state};

	return pair_call(pair, &req).ret;
}

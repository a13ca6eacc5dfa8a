/* SPDX-License-Identifier: BSD-2-Clause */
/* The adapter between two processes: bandwidth, latency, message rate, registration. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "measure.h"

#define BUFFER ((size_t)1 << 20)
#define DEPTH  128

static const size_t sizes[] = {8, 64, 1024, 4096, 65536, 1048576};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

struct end {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char *buffer;
	int socket;
	uint64_t peer_addr;
	uint32_t peer_rkey;
};

struct hello {
	uint32_t qpn, rkey;
	uint64_t addr;
	union ibv_gid gid;
};

static void check(int bad, const char *what)
{
	if (bad) {
		perror(what);
		exit(1);
	}
}

static void open_end(struct end *e, int memfd)
{
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .cap = {2 * DEPTH, 1024, 1, 1, 64}};
	struct ibv_device **list = ibv_get_device_list(NULL);

	check(!list || !list[0], "device");
	e->context = ibv_open_device(list[0]);
	check(!e->context, "open");
	e->pd = ibv_alloc_pd(e->context);
	e->cq = ibv_create_cq(e->context, 1024, NULL, NULL, 0);
	init.send_cq = init.recv_cq = e->cq;
	e->qp = ibv_create_qp(e->pd, &init);
	check(!e->qp, "QP");
	e->buffer = mmap(NULL, BUFFER, PROT_READ | PROT_WRITE,
			 memfd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, memfd, 0);
	check(e->buffer == MAP_FAILED, "memory");
	memset(e->buffer, 0, BUFFER);
	e->mr = ibv_reg_mr(e->pd, e->buffer, BUFFER,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	check(!e->mr, "MR");
}

static void connect_end(struct end *e)
{
	struct hello mine = {e->qp->qp_num, e->mr->rkey, (uintptr_t)e->buffer, {{0}}}, theirs;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	check(ibv_query_gid(e->context, 1, 1, &mine.gid), "GID");
	check(write(e->socket, &mine, sizeof(mine)) != sizeof(mine), "write");
	check(read(e->socket, &theirs, sizeof(theirs)) != sizeof(theirs), "read");
	e->peer_addr = theirs.addr;
	e->peer_rkey = theirs.rkey;
	attr.qp_access_flags = 0xf;
	check(ibv_modify_qp(e->qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	      "INIT");
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
				    .path_mtu = IBV_MTU_1024,
				    .dest_qp_num = theirs.qpn,
				    .max_dest_rd_atomic = 16,
				    .min_rnr_timer = 1,
				    .ah_attr = {.is_global = 1, .port_num = 1}};
	attr.ah_attr.grh.dgid = theirs.gid;
	attr.ah_attr.grh.sgid_index = 1;
	attr.ah_attr.grh.hop_limit = 64;
	check(ibv_modify_qp(e->qp, &attr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER),
	      "RTR");
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				    .timeout = 14,
				    .retry_cnt = 7,
				    .rnr_retry = 7,
				    .max_rd_atomic = 16};
	check(ibv_modify_qp(e->qp, &attr,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
	      "RTS");
	check(write(e->socket, "r", 1) != 1, "write");
	check(read(e->socket, &theirs, 1) != 1, "read");
}

static void post_send(struct end *e, enum ibv_wr_opcode opcode, size_t size, unsigned int flags)
{
	struct ibv_sge sge = {(uintptr_t)e->buffer, (uint32_t)size, e->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = opcode,
				 .send_flags = flags},
			   *bad;

	wr.wr.rdma.remote_addr = e->peer_addr;
	wr.wr.rdma.rkey = e->peer_rkey;
	check(ibv_post_send(e->qp, &wr, &bad), "post_send");
}

static void post_recv(struct end *e)
{
	struct ibv_sge sge = {(uintptr_t)e->buffer, BUFFER, e->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	check(ibv_post_recv(e->qp, &wr, &bad), "post_recv");
}

static int take(struct end *e, int want_recv)
{
	struct ibv_wc wc[32];
	int n = ibv_poll_cq(e->cq, 32, wc), count = 0;

	for (int i = 0; i < n; i++) {
		check(wc[i].status != IBV_WC_SUCCESS, ibv_wc_status_str(wc[i].status));
		count += !!(wc[i].opcode & IBV_WC_RECV) == want_recv;
	}
	return count;
}

static void sync_ends(struct end *e)
{
	char c = 's';

	check(write(e->socket, &c, 1) != 1, "write");
	check(read(e->socket, &c, 1) != 1, "read");
}

static void stream(struct end *e, int client, enum ibv_wr_opcode opcode, const char *name)
{
	for (size_t s = 0; s < SIZES; s++) {
		long rounds = rounds_for(sizes[s]), posted = 0, done = 0;
		double start;

		if (!client && opcode == IBV_WR_SEND)
			for (int i = 0; i < 200 && posted < rounds; i++, posted++)
				post_recv(e);
		sync_ends(e);
		start = seconds();
		if (client) {
			while (done < rounds) {
				for (; posted < rounds && posted - done < DEPTH; posted++)
					post_send(e, opcode, sizes[s], IBV_SEND_SIGNALED);
				done += take(e, 0);
			}
		} else if (opcode == IBV_WR_SEND) {
			while (done < rounds) {
				int n = take(e, 1);

				done += n;
				for (; n > 0 && posted < rounds; n--, posted++)
					post_recv(e);
			}
		}
		sync_ends(e);
		if (client) {
			double took = seconds() - start;
			char rate[32];

			report(name, sizes[s], (double)sizes[s] * (double)rounds / took / 1e9,
			       "GB/s");
			snprintf(rate, sizeof(rate), "%s rate", name);
			report(rate, sizes[s], (double)rounds / took / 1e6, "M/s");
		}
	}
}

static void send_latency(struct end *e, int client)
{
	const int rounds = 50000;
	double start;

	for (int i = 0; i < 256; i++)
		post_recv(e);
	sync_ends(e);
	start = seconds();
	for (int i = 0; i < rounds; i++) {
		if (client)
			post_send(e, IBV_WR_SEND, 8, 0 == i % 64 ? IBV_SEND_SIGNALED : 0);
		while (!take(e, 1))
			;
		post_recv(e);
		if (!client)
			post_send(e, IBV_WR_SEND, 8, 0 == i % 64 ? IBV_SEND_SIGNALED : 0);
	}
	if (client)
		report("SEND latency", 8, (seconds() - start) / rounds / 2 * 1e6, "us");
	sync_ends(e);
}

static void write_latency(struct end *e, int client, const char *name)
{
	volatile uint64_t *in = (volatile uint64_t *)(void *)(e->buffer + 512);
	uint64_t *out = (uint64_t *)(void *)e->buffer;
	const uint64_t rounds = 50000;
	double start;

	e->peer_addr += 512;
	*in = 0;
	sync_ends(e);
	start = seconds();
	for (uint64_t i = 1; i <= rounds; i++) {
		if (!client)
			while (*in != i)
				;
		*out = i;
		post_send(e, IBV_WR_RDMA_WRITE, 8, 0 == i % 64 ? IBV_SEND_SIGNALED : 0);
		if (0 == i % 64)
			while (!take(e, 0))
				;
		if (client)
			while (*in != i)
				;
	}
	if (client)
		report(name, 8, (seconds() - start) / (double)rounds / 2 * 1e6, "us");
	e->peer_addr -= 512;
	sync_ends(e);
}

static void pair(int client, int socket, int memfd)
{
	struct end e = {.socket = socket};

	open_end(&e, memfd);
	connect_end(&e);
	if (memfd < 0) {
		send_latency(&e, client);
		write_latency(&e, client, "WRITE latency");
		stream(&e, client, IBV_WR_SEND, "SEND");
		stream(&e, client, IBV_WR_RDMA_WRITE, "WRITE");
		stream(&e, client, IBV_WR_RDMA_READ, "READ");
	} else {
		write_latency(&e, client, "WRITE shared latency");
		stream(&e, client, IBV_WR_RDMA_WRITE, "WRITE shared");
	}
	ibv_destroy_qp(e.qp);
	ibv_dereg_mr(e.mr);
	ibv_destroy_cq(e.cq);
	ibv_dealloc_pd(e.pd);
	ibv_close_device(e.context);
}

static void two_processes(int memory)
{
	int sockets[2], memfd = -1;
	pid_t child;

	check(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), "socketpair");
	child = fork();
	if (!child)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (memory) {
		memfd = memfd_create("bench", MFD_ALLOW_SEALING);
		check(ftruncate(memfd, BUFFER), "memfd");
		fcntl(memfd, 1033 /* F_ADD_SEALS */, 2 /* F_SEAL_SHRINK */);
	}
	pair(child != 0, sockets[child != 0], memfd);
	if (!child)
		_exit(0);
	waitpid(child, NULL, 0);
}

static void registration(void)
{
	static const size_t ranges[] = {4096, 65536, 1048576, (size_t)1 << 30};
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = ibv_open_device(list[0]);
	struct ibv_pd *pd = ibv_alloc_pd(context);

	for (size_t i = 0; i < 4; i++) {
		int rounds = ranges[i] > 1048576 ? 2 : 200;
		double reg = 0, dereg = 0, start;

		for (int r = 0; r < rounds; r++) {
			void *p = mmap(NULL, ranges[i], PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			struct ibv_mr *mr;

			start = seconds();
			mr = ibv_reg_mr(pd, p, ranges[i],
					IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
			check(!mr, "reg_mr");
			reg += seconds() - start;
			start = seconds();
			ibv_dereg_mr(mr);
			dereg += seconds() - start;
			munmap(p, ranges[i]);
		}
		report("reg_mr", ranges[i], reg / rounds * 1e6, "us");
		report("dereg_mr", ranges[i], dereg / rounds * 1e6, "us");
	}
	ibv_dealloc_pd(pd);
	ibv_close_device(context);
}

int main(void)
{
	two_processes(0);
	two_processes(1);
	registration();
	return 0;
}

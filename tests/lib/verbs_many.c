/* SPDX-License-Identifier: BSD-2-Clause */
#include "lib/verbs_many.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct ibv_qp *many_qp(const struct verbs_end *end, enum ibv_qp_type type, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = end->send_cq,
		.recv_cq = end->recv_cq,
		.srq = srq,
		.cap = {.max_send_wr = end->opts.sends,
			.max_recv_wr = end->opts.recvs,
			.max_send_sge = end->opts.sges,
			.max_recv_sge = end->opts.sges,
			.max_inline_data = end->opts.inline_bytes},
		.qp_type = type,
	};
	struct ibv_qp *qp = ibv_create_qp(end->pd, &attr);

	CHECK(qp);
	return qp;
}

void many_open(struct verbs_end *end, enum ibv_qp_type type, const struct pair_opts *opts)
{
	end_open(end, opts);
	if (type == IBV_QPT_RC)
		return;
	CHECK(ibv_destroy_qp(end->qp) == 0);
	end->qp = many_qp(end, type, NULL);
}

int many_init(struct verbs_end *end)
{
	struct ibv_qp_attr attr;
	int mask = attr_init(end, &attr);

	if (end->qp->qp_type == IBV_QPT_UD) {
		mask = (mask & ~IBV_QP_ACCESS_FLAGS) | IBV_QP_QKEY;
		attr.qkey = MANY_QKEY;
	}
	return ibv_modify_qp(end->qp, &attr, mask);
}

int many_rtr(struct verbs_end *end, uint32_t qpn, const union ibv_gid *gid, uint32_t psn)
{
	struct ibv_qp_attr attr;
	int mask = attr_rtr(end, &attr, qpn, gid, psn);

	if (end->qp->qp_type == IBV_QPT_UD)
		mask = IBV_QP_STATE;
	else if (end->qp->qp_type == IBV_QPT_UC)
		mask &= ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	return ibv_modify_qp(end->qp, &attr, mask);
}

int many_rts(struct verbs_end *end)
{
	struct ibv_qp_attr attr;
	int mask = attr_rts(end, &attr);

	if (end->qp->qp_type != IBV_QPT_RC)
		mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	return ibv_modify_qp(end->qp, &attr, mask);
}

void many_up(struct verbs_end *end, uint32_t qpn, const union ibv_gid *gid, uint32_t psn)
{
	CHECK(many_init(end) == 0);
	CHECK(many_rtr(end, qpn, gid ? gid : &end->gid, psn) == 0);
	CHECK(many_rts(end) == 0);
}

struct ibv_ah *many_ah(struct ibv_pd *pd, int sgid_index, const union ibv_gid *dgid)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};
	struct ibv_ah *ah;

	attr.grh.dgid = *dgid;
	attr.grh.sgid_index = (uint8_t)sgid_index;
	attr.grh.hop_limit = 64;
	ah = ibv_create_ah(pd, &attr);
	CHECK(ah && ah->pd == pd && ah->context == pd->context);
	return ah;
}

struct ibv_srq *many_srq(struct ibv_pd *pd, uint32_t max_wr)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = max_wr, .max_sge = 4}};
	struct ibv_srq *srq = ibv_create_srq(pd, &init);

	CHECK(srq && init.attr.max_wr >= max_wr && init.attr.max_sge >= 4);
	return srq;
}

int post_srq(struct ibv_srq *srq, uint64_t wr_id, struct ibv_sge *sges, int n)
{
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = sges, .num_sge = n}, *bad = NULL;
	int err = ibv_post_srq_recv(srq, &wr, &bad);

	CHECK(!err || bad == &wr);
	return err;
}

int post_ud(struct verbs_end *end, enum ibv_wr_opcode opcode, uint64_t wr_id, struct ibv_sge *sges,
	    int n, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey, unsigned int flags)
{
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .sg_list = sges,
				 .num_sge = n,
				 .opcode = opcode,
				 .send_flags = flags,
				 .imm_data = htobe32((uint32_t)wr_id),
				 .wr.ud = {.ah = ah, .remote_qpn = qpn, .remote_qkey = qkey}},
			   *bad = NULL;
	int err = ibv_post_send(end->qp, &wr, &bad);

	CHECK(!err || bad == &wr);
	return err;
}

/* ---- Buffers and messages ---- */

void slots_new(struct slots *slots, struct ibv_pd *pd, uint32_t size, uint32_t count)
{
	slots->size = size;
	slots->count = count;
	slots->bytes = mmap(NULL, (size_t)size * count, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(slots->bytes != MAP_FAILED);
	slots->mr = ibv_reg_mr(pd, slots->bytes, (size_t)size * count, IBV_ACCESS_LOCAL_WRITE);
	CHECK(slots->mr);
}

void slots_free(struct slots *slots)
{
	CHECK(ibv_dereg_mr(slots->mr) == 0);
	munmap(slots->bytes, (size_t)slots->size * slots->count);
}

struct ibv_sge slots_sge(const struct slots *slots, uint64_t slot)
{
	return (struct ibv_sge){(uintptr_t)slots->bytes + slot * slots->size, slots->size,
				slots->mr->lkey};
}

void message_make(uint8_t *to, uint32_t sender, uint32_t number, uint32_t size)
{
	memcpy(to, &sender, 4);
	memcpy(to + 4, &number, 4);
	for (uint32_t i = MANY_HEAD; i < size; i++)
		to[i] = pattern_byte((int)(sender * 7919 + number), i);
}

void message_count(struct tally *tally, const uint8_t *from, uint32_t size)
{
	uint32_t sender, number;

	CHECK(size >= MANY_HEAD);
	memcpy(&sender, from, 4);
	memcpy(&number, from + 4, 4);
	CHECK(sender < 64);
	CHECK(number >= tally->next[sender]);
	tally->gaps += number - tally->next[sender];
	tally->next[sender] = number + 1;
	tally->got++;
	for (uint32_t i = MANY_HEAD; i < size; i++)
		CHECK(from[i] == pattern_byte((int)(sender * 7919 + number), i));
}

/* ---- Senders in other processes ---- */

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

static struct server {
	struct verbs_end end;
	struct slots slots;
	uint32_t sender;
} server;

/* One at a time: what is not completed is not counted. */
static uint32_t serve_send(const struct order *order)
{
	struct ibv_sge sge = slots_sge(&server.slots, 0);
	struct ibv_ah *ah = NULL;
	struct ibv_wc wc = {.status = IBV_WC_SUCCESS};
	bool ud = server.end.qp->qp_type == IBV_QPT_UD;

	sge.length = order->size;
	if (ud)
		ah = many_ah(server.end.pd, order->gid_index, &order->gid);
	for (uint32_t i = 0; i < order->count && !wc.status; i++) {
		message_make(server.slots.bytes, server.sender, order->first + i, order->size);
		if (ud)
			CHECK(post_ud(&server.end, IBV_WR_SEND, i, &sge, 1, ah, order->qpn,
				      MANY_QKEY, IBV_SEND_SIGNALED) == 0);
		else
			CHECK(post_rdma(&server.end, order->opcode, order->first + i, &sge, 1,
					order->addr, order->rkey, IBV_SEND_SIGNALED) == 0);
		wait_wc(server.end.send_cq, &wc);
	}
	if (ah)
		CHECK(ibv_destroy_ah(ah) == 0);
	return wc.status;
}

static void serve(struct order *order)
{
	switch (order->op) {
	case ORDER_OPEN:
		server.sender = order->sender;
		many_open(&server.end, order->type, &pair_defaults);
		slots_new(&server.slots, server.end.pd, 65536, 1);
		if (order->type == IBV_QPT_UD)
			many_up(&server.end, 0, NULL, 0);
		order->qpn = server.end.qp->qp_num;
		order->gid = server.end.gid;
		order->psn = server.end.psn;
		break;
	case ORDER_CONNECT:
		many_up(&server.end, order->qpn, &order->gid, order->psn);
		break;
	case ORDER_SEND:
		order->count = serve_send(order);
		break;
	case ORDER_QUIT:
		slots_free(&server.slots);
		end_close(&server.end);
		break;
	}
}

void many_main(int argc, char **argv)
{
	struct order order;
	int fd;

	if (argc != 3 || strcmp(argv[1], "--sender"))
		return;
	fd = atoi(argv[2]);
	do {
		transfer(fd, &order, sizeof(order), false);
		serve(&order);
		transfer(fd, &order, sizeof(order), true);
	} while (order.op != ORDER_QUIT);
	exit(0);
}

void remote_say(struct remote *remote, const struct order *order)
{
	transfer(remote->fd, (void *)(uintptr_t)order, sizeof(*order), true);
}

uint32_t remote_hear(struct remote *remote)
{
	struct order answer;

	transfer(remote->fd, &answer, sizeof(answer), false);
	if (answer.op == ORDER_OPEN)
		remote->facts = answer;
	return answer.op == ORDER_SEND ? answer.count : 0;
}

uint32_t remote_ask(struct remote *remote, const struct order *order)
{
	remote_say(remote, order);
	return remote_hear(remote);
}

void remote_start(struct remote *remote, uint32_t sender, enum ibv_qp_type type, const char *step)
{
	struct order order = {.op = ORDER_OPEN, .type = type, .sender = sender};
	int fds[2];

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
	remote->pid = fork();
	CHECK(remote->pid >= 0);
	if (!remote->pid) {
		char text[16];
		char *args[] = {"sender", "--sender", text, NULL};
		int fd = dup(fds[1]); /* not closed by exec */

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		snprintf(text, sizeof(text), "%d", fd);
		if (step)
			setenv("VERBENA_TEST_STEP", step, 1);
		enter_other();
		execv("/proc/self/exe", args);
		_exit(127);
	}
	close(fds[1]);
	remote->fd = fds[0];
	remote_ask(remote, &order);
}

void remote_send(struct remote *remote, const struct verbs_end *to, uint32_t first, uint32_t count,
		 uint32_t size)
{
	struct order order = {.op = ORDER_SEND,
			      .qpn = to->qp->qp_num,
			      .gid = to->gid,
			      .gid_index = to->opts.gid_index,
			      .first = first,
			      .count = count,
			      .size = size,
			      .opcode = IBV_WR_SEND};

	remote_say(remote, &order);
}

void remote_connect(struct remote *remote, struct verbs_end *end)
{
	struct order order = {
		.op = ORDER_CONNECT, .qpn = end->qp->qp_num, .gid = end->gid, .psn = end->psn};

	many_up(end, remote->facts.qpn, &remote->facts.gid, remote->facts.psn);
	remote_ask(remote, &order);
}

bool remote_stopped(struct remote *remote)
{
	int status;

	CHECK(waitpid(remote->pid, &status, WUNTRACED) == remote->pid);
	CHECK(WIFSTOPPED(status) || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
	return !WIFSTOPPED(status);
}

void remote_resume(struct remote *remote)
{
	CHECK(kill(remote->pid, SIGCONT) == 0);
}

void remote_kill(struct remote *remote)
{
	CHECK(kill(remote->pid, SIGKILL) == 0);
	CHECK(waitpid(remote->pid, NULL, 0) == remote->pid);
	close(remote->fd);
}

void remote_quit(struct remote *remote)
{
	struct order order = {.op = ORDER_QUIT};
	int status;

	remote_ask(remote, &order);
	CHECK(waitpid(remote->pid, &status, 0) == remote->pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	close(remote->fd);
}

int hurt_each(void (*test)(void *hurt), const char *const *steps, size_t n, const char *action)
{
	int failed = 0;

	for (size_t i = 0; i < n; i++) {
		struct hurt hurt = {steps[i], action};

		failed += run_in_child(test, &hurt) != 0;
	}
	return failed;
}

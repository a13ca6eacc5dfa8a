/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Children: what they inherit fails, what they open works, and their parent notices
 * nothing. Every scenario runs in a process of its own, under an alarm.
 */
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "stress/end.h"

extern char **environ;

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #condition,  \
				errno);                                                            \
			_Exit(1);                                                                  \
		}                                                                                  \
	} while (0)

static const struct end_options plain = {
	.links = 2, .size = 4096, .ops = OP_ALL, .timeout = 16, .retry = 7, .rnr = 7};

/* ---- Two ends meet over a socket ---- */

struct facts {
	union ibv_gid gid;
	uint64_t base;
	uint32_t rkey;
	uint32_t qpn[MAX_LINKS];
};

static void meet(struct end *e, int fd, unsigned int from, unsigned int count)
{
	struct facts mine = {.gid = e->gid, .rkey = e->mr->rkey}, other;

	mine.base = (uintptr_t)e->link[from].base;
	for (unsigned int i = 0; i < count; i++)
		mine.qpn[i] = e->link[from + i].qp->qp_num;
	CHECK(write(fd, &mine, sizeof(mine)) == sizeof(mine));
	CHECK(recv(fd, &other, sizeof(other), MSG_WAITALL) == sizeof(other));
	for (unsigned int i = 0; i < count; i++) {
		struct link *l = &e->link[from + i];

		l->peer_gid = other.gid;
		l->peer_rkey = other.rkey;
		l->peer_base = other.base + i * link_bytes(e);
		l->peer_qpn = other.qpn[i];
		CHECK(link_connect(e, from + i) == 0);
	}
	/* Both are ready. */
	CHECK(write(fd, "r", 1) == 1 && read(fd, &mine, 1) == 1);
}

static void work_until(struct end *e, uint64_t rounds)
{
	e->opt.rounds = rounds;
	while (!end_finished(e))
		CHECK(end_step(e) >= 0);
}

/* Rounds of ours, then of the other's, whose last SEND tells that it is done. */
static void work_both(struct end *e, uint64_t rounds)
{
	work_until(e, rounds);
	while (e->received < rounds * e->opt.links)
		CHECK(end_step(e) >= 0);
	if (e->bad)
		fprintf(stderr, "%s\n", e->why);
	CHECK(!e->bad);
	for (unsigned int i = 0; i < e->opt.links; i++)
		CHECK(!e->link[i].dead);
}

/* A process with one end, to be met over the socket. */
static pid_t start_peer(int *fd, uint64_t rounds)
{
	int pair[2];
	pid_t pid;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		struct end e;

		alarm(60);
		close(pair[0]);
		CHECK(!end_open(&e, &plain));
		meet(&e, pair[1], 0, plain.links);
		work_both(&e, rounds);
		/* The other may still want to read from us. */
		CHECK(write(pair[1], "d", 1) == 1);
		CHECK(read(pair[1], &rounds, 1) == 1);
		end_close(&e);
		_exit(0);
	}
	close(pair[1]);
	*fd = pair[0];
	return pid;
}

static void part(int fd)
{
	char done = 'd';

	CHECK(write(fd, &done, 1) == 1 && read(fd, &done, 1) == 1);
	close(fd);
}

static void reap(pid_t pid)
{
	int status;

	CHECK(waitpid(pid, &status, 0) == pid);
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		fprintf(stderr, "child: status %#x\n", (unsigned int)status);
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
}

/* ---- Work in the background ---- */

struct background {
	struct end *end;
	pthread_t thread;
	_Atomic bool stop;
};

static void *background_main(void *arg)
{
	struct background *b = arg;

	while (!atomic_load(&b->stop))
		CHECK(end_step(b->end) >= 0);
	return NULL;
}

/* An end with two links to itself, always busy. */
static void start_loop(struct end *e, struct background *b)
{
	static struct end_options opt;

	opt = plain;
	CHECK(!end_open(e, &opt));
	for (unsigned int i = 0; i < 2; i++) {
		e->link[i].peer_qpn = e->link[1 - i].qp->qp_num;
		e->link[i].peer_rkey = e->mr->rkey;
		e->link[i].peer_base = (uintptr_t)e->link[1 - i].base;
		e->link[i].peer_gid = e->gid;
	}
	for (unsigned int i = 0; i < 2; i++)
		CHECK(!link_connect(e, i));
	b->end = e;
	atomic_store(&b->stop, false);
	CHECK(!pthread_create(&b->thread, NULL, background_main, b));
}

static void end_loop(struct background *b)
{
	uint64_t before = b->end->sent;

	/* It was at work all the time, and is. */
	while (*(volatile uint64_t *)&b->end->sent < before + 50)
		sched_yield();
	atomic_store(&b->stop, true);
	pthread_join(b->thread, NULL);
	if (b->end->bad)
		fprintf(stderr, "%s\n", b->end->why);
	CHECK(!b->end->bad && !b->end->link[0].dead && !b->end->link[1].dead);
	end_close(b->end);
	CHECK(!b->end->bad);
}

/* ---- Scenarios ---- */

/* The parent goes on sending; the child opens anew and talks to a third and to its parent. */
static void opens_anew(void)
{
	static struct end mine, busy;
	static struct background b;
	int third_fd, pair[2];
	pid_t third = start_peer(&third_fd, 50), child;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	start_loop(&busy, &b);
	CHECK(!end_open(&mine, &plain));
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		static struct end to_third, to_parent;

		CHECK(!end_open(&to_third, &plain));
		meet(&to_third, third_fd, 0, plain.links);
		work_both(&to_third, 50);
		part(third_fd);
		end_close(&to_third);
		CHECK(!end_open(&to_parent, &plain));
		meet(&to_parent, pair[1], 0, plain.links);
		work_both(&to_parent, 50);
		part(pair[1]);
		end_close(&to_parent);
		_exit(to_third.bad || to_parent.bad);
	}
	meet(&mine, pair[0], 0, plain.links);
	work_both(&mine, 50);
	part(pair[0]);
	reap(child);
	reap(third);
	end_loop(&b);
	end_close(&mine);
	CHECK(!mine.bad);
}

/* Every verb on what a child inherited: it fails or does nothing, and nothing breaks. */
static void use_inherited(struct end *e)
{
	struct ibv_qp_init_attr init = {
		.send_cq = e->cq, .recv_cq = e->cq, .qp_type = IBV_QPT_RC, .cap = {1, 1, 1, 1, 0}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_sge sge = {(uintptr_t)e->mem, 8, e->mr->lkey};
	struct ibv_send_wr send = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	struct ibv_recv_wr recv = {.sg_list = &sge, .num_sge = 1}, *bad_recv;
	struct ibv_device_attr device;
	struct ibv_port_attr port;
	struct ibv_wc wc;
	union ibv_gid gid;

	CHECK(ibv_post_send(e->link[0].qp, &send, &bad));
	CHECK(ibv_post_recv(e->link[0].qp, &recv, &bad_recv));
	CHECK(ibv_poll_cq(e->cq, 1, &wc) < 0);
	CHECK(ibv_req_notify_cq(e->cq, 0));
	CHECK(ibv_modify_qp(e->link[0].qp, &attr, IBV_QP_STATE));
	CHECK(!ibv_reg_mr(e->pd, e->mem, 4096, 0));
	CHECK(!ibv_alloc_pd(e->ctx));
	CHECK(!ibv_create_cq(e->ctx, 1, NULL, NULL, 0));
	CHECK(!ibv_create_qp(e->pd, &init));
	CHECK(!ibv_create_comp_channel(e->ctx));
	/* These only look: whatever they answer. */
	(void)ibv_query_qp(e->link[0].qp, &attr, IBV_QP_STATE, &init);
	(void)ibv_query_device(e->ctx, &device);
	(void)ibv_query_port(e->ctx, 1, &port);
	(void)ibv_query_gid(e->ctx, 1, 0, &gid);
	/* Taking down: errors are fine. */
	for (unsigned int i = 0; i < e->opt.links; i++)
		(void)ibv_destroy_qp(e->link[i].qp);
	(void)ibv_dereg_mr(e->mr);
	(void)ibv_destroy_cq(e->cq);
	if (e->channel)
		(void)ibv_destroy_comp_channel(e->channel);
	(void)ibv_dealloc_pd(e->pd);
	(void)ibv_close_device(e->ctx);
}

static void inherits(bool raw)
{
	static struct end busy;
	static struct background b;
	pid_t child;

	start_loop(&busy, &b);
	child = raw ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
	CHECK(child >= 0);
	if (!child) {
		use_inherited(&busy);
		_exit(0);
	}
	reap(child);
	end_loop(&b);
}

static void inherits_by_fork(void)
{
	inherits(false);
}

static void inherits_by_clone(void)
{
	inherits(true);
}

/* fork at any moment of other threads' verbs; every child opens the device. */
static void forks_amid(void)
{
	static struct end busy[2];
	static struct background b[2];

	for (int i = 0; i < 2; i++)
		start_loop(&busy[i], &b[i]);
	for (int i = 0; i < 30; i++) {
		pid_t child = fork();

		CHECK(child >= 0);
		if (!child) {
			static struct end e;

			alarm(30);
			CHECK(!end_open(&e, &plain));
			end_close(&e);
			_exit(e.bad != 0);
		}
		reap(child);
	}
	for (int i = 0; i < 2; i++)
		end_loop(&b[i]);
}

/* Other programs started by every means. */
static void spawns(void)
{
	static struct end busy;
	static struct background b;
	char *argv[] = {"true", NULL};
	pid_t child;

	start_loop(&busy, &b);
	for (int i = 0; i < 20; i++) {
		CHECK(!posix_spawnp(&child, "true", NULL, NULL, argv, environ));
		reap(child);
		child = vfork();
		if (!child) {
			execvp("true", argv);
			_exit(1);
		}
		reap(child);
	}
	end_loop(&b);
}

/* exec with all open: the new program starts fresh, in the same process. */
static void execs(void)
{
	static struct end busy;
	static struct background b;

	start_loop(&busy, &b);
	execl("/proc/self/exe", "fork_test", "fresh", NULL);
	CHECK(!"exec");
}

/* A thread at work, objects alive, and main returns. */
static void exits(void)
{
	static struct end busy;
	static struct background b;

	start_loop(&busy, &b);
	exit(0);
}

/* The device closed over the heads of its objects. */
static void closes_early(void)
{
	static struct end e, peer;

	CHECK(!end_open(&peer, &plain));
	CHECK(!end_open(&e, &plain));
	CHECK(!ibv_close_device(e.ctx));
	end_close(&peer);
	CHECK(!end_open(&e, &plain));
	end_close(&e);
}

static int fresh(void)
{
	static struct end e;

	CHECK(!end_open(&e, &plain));
	end_close(&e);
	return e.bad != 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} scenarios[] = {
		{"opens anew", opens_anew},
		{"inherits by fork", inherits_by_fork},
		{"inherits by clone", inherits_by_clone},
		{"forks amid verbs", forks_amid},
		{"spawns", spawns},
		{"execs", execs},
		{"exits", exits},
		{"closes early", closes_early},
	};
	int times = argc > 2 ? atoi(argv[2]) : 1, failed = 0;

	if (argc > 1 && !strcmp(argv[1], "fresh"))
		return fresh();
#ifdef __SANITIZE_THREAD__
	printf("the thread sanitizer does not follow children of threads\n");
	return 77;
#endif
	/* Children flush nothing twice. */
	setvbuf(stdout, NULL, _IONBF, 0);
	for (int n = 0; n < times; n++)
		for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
			int status = -1;
			pid_t pid = fork();

			if (!pid) {
				alarm(60);
				scenarios[i].run();
				_exit(0);
			}
			if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
				printf("FAILED %s: status %#x\n", scenarios[i].name,
				       (unsigned int)status);
				failed++;
			} else if (!n) {
				printf("ok %s\n", scenarios[i].name);
			}
		}
	return failed != 0;
}

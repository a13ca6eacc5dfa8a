/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One of two processes is killed while connections are made and ended, some of them never answered,
 * so that every state is hit sooner or later. The other hears the end of each connection once, and
 * goes on with the next process. VB_ROUNDS: how often, VB_SEED: to repeat one run. With
 * VB_TEST_OTHER those that are killed are on another host.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/cm_bed.h"

#define AT_ONCE	   8
#define ROUNDS	   "20"
#define LONGEST_US 30000u

static struct bed bed;
static unsigned int seed;

/* What has become of an id; at its context. */
struct fate {
	bool established, ended;
};

static unsigned int dice(unsigned int sides)
{
	return (unsigned int)rand_r(&seed) % sides;
}

static int rounds(void)
{
	const char *text = getenv("VB_ROUNDS");

	return atoi(text ? text : ROUNDS);
}

static void begin(void)
{
	const char *text = getenv("VB_SEED");

	seed = text ? (unsigned int)atoi(text) : (unsigned int)time(NULL);
	fprintf(stderr, "VB_SEED=%u\n", seed);
}

static void kill_sometime(pid_t pid)
{
	struct timespec wait = {.tv_nsec = (long)dice(LONGEST_US) * 1000};

	nanosleep(&wait, NULL);
	CHECK(!kill(pid, SIGKILL) && waitpid(pid, NULL, 0) == pid);
}

static void drop(struct rdma_cm_id *id)
{
	free(id->context);
	if (id->qp)
		rdma_destroy_qp(id);
	CHECK(!rdma_destroy_id(id));
}

/* ---- The sides ---- */

static void connect_one(struct rdma_event_channel *channel, struct rdma_event_channel *resolving)
{
	struct rdma_cm_id *id = bed_resolve_id(&bed, resolving);
	struct rdma_conn_param param = bed_param();

	id->context = calloc(1, sizeof(struct fate));
	CHECK(id->context && !rdma_migrate_id(id, channel));
	bed_qp(id);
	CHECK(!rdma_connect(id, &param));
}

/* An event of one that asks. True: its connection has ended, and it is gone. */
static bool asker_hears(struct rdma_cm_event *event)
{
	struct rdma_cm_id *id = event->id;
	struct fate *fate = id->context;
	enum rdma_cm_event_type type = event->event;

	CHECK(!rdma_ack_cm_event(event));
	CHECK(!fate->ended);
	switch (type) {
	case RDMA_CM_EVENT_ESTABLISHED:
		CHECK(!fate->established);
		fate->established = true;
		if (dice(2))
			CHECK(!rdma_disconnect(id) || errno == EINVAL);
		return false;
	case RDMA_CM_EVENT_DISCONNECTED:
		CHECK(fate->established);
		break;
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_CONNECT_ERROR: /* it had accepted, and died before we could go on */
		CHECK(!fate->established);
		break;
	default:
		fprintf(stderr, "asker: %s\n", rdma_event_str(type));
		CHECK(false);
	}
	drop(id);
	return true;
}

/* An event of one that is asked. +1 a new one, -1 one has ended. */
static int asked_hears(struct rdma_cm_event *event)
{
	struct rdma_conn_param param = bed_param();
	struct rdma_cm_id *id = event->id;
	enum rdma_cm_event_type type = event->event;

	CHECK(!rdma_ack_cm_event(event));
	switch (type) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		id->context = NULL;
		if (dice(8) == 0)
			return 1; /* never answered */
		if (dice(8) == 0 && !rdma_reject(id, NULL, 0)) {
			drop(id);
			return 0;
		}
		bed_qp(id);
		/* Whoever asked may be gone: the event says so. */
		CHECK(!rdma_accept(id, &param) || errno == EINVAL);
		return 1;
	case RDMA_CM_EVENT_ESTABLISHED:
		return 0;
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_UNREACHABLE:
		drop(id);
		return -1;
	default:
		fprintf(stderr, "asked: %s\n", rdma_event_str(type));
		CHECK(false);
	}
	return 0;
}

/* ---- Askers die ---- */

static void ask_for_ever(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_event_channel *resolving = rdma_create_event_channel();

	CHECK(channel && resolving);
	for (int i = 0; i < AT_ONCE; i++)
		connect_one(channel, resolving);
	for (;;)
		if (asker_hears(bed_next(channel)))
			connect_one(channel, resolving);
}

static void askers_die(void *arg)
{
	union bed_addr addr = bed_here();
	int live = 0, last = 0;

	begin();
	bed_listen(&bed, RDMA_PS_TCP, &addr, 0);
	for (int round = 0; round < rounds(); round++) {
		pid_t pid = fork();

		if (!pid) {
			enter_other();
			seed += (unsigned int)round;
			ask_for_ever();
		}
		live += asked_hears(bed_next(bed.passive));
		while (dice(20))
			if (bed_readable(bed.passive))
				live += asked_hears(bed_next(bed.passive));
		kill_sometime(pid);
		while (live > 0)
			live += asked_hears(bed_next(bed.passive));
		CHECK(live == 0);
	}
	/* All that the dead had asked for comes before what is asked now. */
	bed_resolve(&bed);
	bed_qp(bed.client);
	bed.client->context = calloc(1, sizeof(struct fate));
	CHECK(!rdma_connect(bed.client, &(struct rdma_conn_param){.private_data = "last",
								  .private_data_len = 5}));
	while (!last) {
		struct rdma_cm_event *event = bed_next(bed.passive);

		last = event->event == RDMA_CM_EVENT_CONNECT_REQUEST &&
		       event->param.conn.private_data_len &&
		       !strcmp(event->param.conn.private_data, "last");
		if (last)
			CHECK(!rdma_reject(event->id, NULL, 0));
		if (last)
			bed.server = event->id;
		if (last)
			CHECK(!rdma_ack_cm_event(event));
		else
			live += asked_hears(event);
	}
	while (live > 0)
		live += asked_hears(bed_next(bed.passive));
	CHECK(live == 0 && bed_quiet(bed.passive));
	CHECK(asker_hears(bed_next(bed.active)));
	bed.client = NULL;
	bed_close(&bed);
}

/* ---- Those that are asked die ---- */

static void answer_for_ever(int to)
{
	bed_serve(&bed, RDMA_PS_TCP, to);
	for (;;)
		asked_hears(bed_next(bed.passive));
}

static void those_asked_die(void *arg)
{
	struct rdma_event_channel *channel, *resolving;

	begin();
	bed.ps = RDMA_PS_TCP;
	channel = rdma_create_event_channel();
	resolving = rdma_create_event_channel();
	CHECK(channel && resolving);
	for (int round = 0; round < rounds(); round++) {
		int fds[2], live = AT_ONCE;
		pid_t pid;

		CHECK(!pipe(fds));
		pid = fork();
		if (!pid) {
			seed += (unsigned int)round;
			close(fds[0]);
			answer_for_ever(fds[1]);
		}
		close(fds[1]);
		CHECK(read(fds[0], &bed.addr, sizeof(bed.addr)) == sizeof(bed.addr));
		close(fds[0]);
		for (int i = 0; i < AT_ONCE; i++)
			connect_one(channel, resolving);
		while (dice(20))
			if (bed_readable(channel) && asker_hears(bed_next(channel)))
				connect_one(channel, resolving);
		kill_sometime(pid);
		while (live > 0)
			live -= asker_hears(bed_next(channel));
		CHECK(bed_quiet(channel));
	}
	rdma_destroy_event_channel(channel);
	rdma_destroy_event_channel(resolving);
}

/* ---- Requests of the dead ---- */

/* Rejects one request, which must be the one that somebody waits for. */
static void reject_last(int to)
{
	struct rdma_cm_event *event;

	bed_serve(&bed, RDMA_PS_TCP, to);
	event = bed_want(bed.passive, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	CHECK(event->param.conn.private_data && !strcmp(event->param.conn.private_data, "last"));
	CHECK(!rdma_reject(event->id, NULL, 0));
	_exit(0);
}

static void ask(const char *data)
{
	struct rdma_conn_param param = bed_param();

	param.private_data = data;
	param.private_data_len = 5;
	bed.active = rdma_create_event_channel();
	CHECK(bed.active);
	bed_resolve(&bed);
	bed_qp(bed.client);
	CHECK(!rdma_connect(bed.client, &param));
}

/* A request waits in the socket of one that is stopped, and who made it is killed. */
static void the_dead_ask_nothing(void *arg)
{
	int fds[2], status;
	pid_t server, client;
	char go;

	CHECK(!pipe(fds));
	server = fork();
	if (!server)
		reject_last(fds[1]);
	CHECK(read(fds[0], &bed.addr, sizeof(bed.addr)) == sizeof(bed.addr));
	bed.ps = RDMA_PS_TCP;
	CHECK(!kill(server, SIGSTOP) && waitpid(server, &status, WUNTRACED) == server);
	client = fork();
	if (!client) {
		ask("dead");
		CHECK(write(fds[1], "x", 1) == 1);
		pause();
	}
	CHECK(read(fds[0], &go, 1) == 1);
	CHECK(!kill(client, SIGKILL) && waitpid(client, NULL, 0) == client);
	CHECK(!kill(server, SIGCONT));
	ask("last");
	CHECK(!rdma_ack_cm_event(bed_want(bed.active, RDMA_CM_EVENT_REJECTED, 28)));
	CHECK(waitpid(server, &status, 0) == server && !status);
	bed_end_id(&bed.client);
	rdma_destroy_event_channel(bed.active);
}

/* ---- Last words ---- */

/* Accepts one request and is held up; what is told then. */
static void accept_and_stop(int to)
{
	struct rdma_conn_param param = bed_param();
	struct rdma_cm_event *event;

	bed_serve(&bed, RDMA_PS_TCP, to);
	event = bed_want(bed.passive, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	bed.server = event->id;
	CHECK(!rdma_ack_cm_event(event));
	bed_qp(bed.server);
	CHECK(!rdma_accept(bed.server, &param));
	CHECK(!raise(SIGSTOP));
	bed_take(bed.passive, RDMA_CM_EVENT_ESTABLISHED);
	bed_take(bed.passive, RDMA_CM_EVENT_DISCONNECTED);
	CHECK(bed_quiet(bed.passive));
	_exit(0);
}

/* Who is held up finds what the dead said last and their end at once, in this order. */
static void the_dead_are_heard_out(void *arg)
{
	int from[2], to[2], status;
	pid_t server, client;
	char go;

	CHECK(!pipe(from) && !pipe(to));
	server = fork();
	if (!server)
		accept_and_stop(from[1]);
	CHECK(read(from[0], &bed.addr, sizeof(bed.addr)) == sizeof(bed.addr));
	bed.ps = RDMA_PS_TCP;
	client = fork();
	if (!client) {
		ask("hello");
		CHECK(read(to[0], &go, 1) == 1);
		bed_take(bed.active, RDMA_CM_EVENT_ESTABLISHED);
		CHECK(write(from[1], "x", 1) == 1);
		pause();
	}
	CHECK(waitpid(server, &status, WUNTRACED) == server && WIFSTOPPED(status));
	CHECK(write(to[1], "x", 1) == 1 && read(from[0], &go, 1) == 1);
	CHECK(!kill(client, SIGKILL) && waitpid(client, NULL, 0) == client);
	CHECK(!kill(server, SIGCONT));
	CHECK(waitpid(server, &status, 0) == server && !status);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BED_TEST(askers_die),
		BED_TEST(those_asked_die),
		BED_TEST(the_dead_ask_nothing),
		BED_TEST(the_dead_are_heard_out),
	};

	run_only();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

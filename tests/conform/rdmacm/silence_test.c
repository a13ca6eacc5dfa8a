/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers that are there and do not answer: processes that are stopped. Whoever waits for an answer
 * is told after about a minute, as the protocol has it, so all the cases of it run at once.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/cm_bed.h"
#include "lib/rule.h"

enum { RC, UD, SPACES };

static const enum rdma_port_space spaces[SPACES] = {RDMA_PS_TCP, RDMA_PS_UDP};

/* The process that will be stopped. It listens, lets one connect, and asks for one itself. */
static void other(int to, int from)
{
	union bed_addr addr = bed_loopback(AF_INET);
	struct rdma_conn_param param = bed_param();
	struct bed beds[SPACES];
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	uint16_t port;
	char go;

	for (int i = 0; i < SPACES; i++) {
		bed_listen(&beds[i], spaces[i], &addr, 0);
		port = ntohs(rdma_get_src_port(beds[i].listener));
		CHECK(write(to, &port, sizeof(port)) == sizeof(port));
	}
	CHECK(read(from, &port, sizeof(port)) == sizeof(port));
	bed_set_port(&beds[RC].addr, port);
	bed_resolve(&beds[RC]);
	bed_qp(beds[RC].client);
	CHECK(!rdma_connect(beds[RC].client, &param));
	event = bed_want(beds[RC].passive, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	id = event->id;
	CHECK(!rdma_ack_cm_event(event));
	bed_qp(id);
	CHECK(!rdma_accept(id, &param));
	bed_take(beds[RC].passive, RDMA_CM_EVENT_ESTABLISHED);
	CHECK(write(to, "x", 1) == 1);
	while (read(from, &go, 1) == 1)
		;
	_exit(0);
}

static struct {
	struct bed bed;	     /* asks to connect, and is asked */
	struct bed ud, open; /* asks for a service; has a connection */
	struct rdma_cm_id *asked;
	pid_t pid;
	uint16_t ports[SPACES];
} here;

static void reach(struct bed *bed, int space)
{
	bed->ps = spaces[space];
	bed->addr = bed_loopback(AF_INET);
	bed_set_port(&bed->addr, here.ports[space]);
	bed->active = rdma_create_event_channel();
	CHECK(bed->active);
	bed_resolve(bed);
	bed_qp(bed->client);
}

static void start(void)
{
	union bed_addr addr = bed_loopback(AF_INET);
	struct rdma_conn_param param = bed_param();
	struct rdma_cm_event *event;
	int there[2], back[2];
	uint16_t port;
	char go;

	CHECK(!pipe(there) && !pipe(back));
	here.pid = fork();
	if (!here.pid) {
		close(there[1]);
		close(back[0]);
		other(back[1], there[0]);
	}
	close(there[0]);
	close(back[1]);
	for (int i = 0; i < SPACES; i++)
		CHECK(read(back[0], &here.ports[i], sizeof(uint16_t)) == sizeof(uint16_t));
	bed_listen(&here.bed, RDMA_PS_TCP, &addr, 0);
	port = ntohs(rdma_get_src_port(here.bed.listener));
	CHECK(write(there[1], &port, sizeof(port)) == sizeof(port));
	event = bed_want(here.bed.passive, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	here.asked = event->id;
	CHECK(!rdma_ack_cm_event(event));
	reach(&here.open, RC);
	CHECK(!rdma_connect(here.open.client, &param));
	bed_take(here.open.active, RDMA_CM_EVENT_ESTABLISHED);
	CHECK(read(back[0], &go, 1) == 1);
	reach(&here.ud, UD);
	bed_set_port(&here.bed.addr, here.ports[RC]);
	bed_resolve(&here.bed);
	bed_qp(here.bed.client);
	bed_qp(here.asked);
	CHECK(!kill(here.pid, SIGSTOP) && waitpid(here.pid, NULL, WUNTRACED) == here.pid);
}

static void *connect_and_wait(void *arg)
{
	struct rdma_cm_id *id;
	union bed_addr to = bed_loopback(AF_INET);

	bed_set_port(&to, here.ports[RC]);
	CHECK(!rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_resolve_addr(id, NULL, &to.any, 100) && !rdma_resolve_route(id, 100));
	bed_qp(id);
	FAILS(rdma_connect(id, NULL), ETIMEDOUT);
	CHECK(id->event->event == RDMA_CM_EVENT_UNREACHABLE && id->event->status == -ETIMEDOUT);
	rdma_destroy_ep(id);
	return NULL;
}

static void unreachable(struct rdma_event_channel *channel, struct rdma_cm_id *id)
{
	struct rdma_cm_event *event = bed_want(channel, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);

	CHECK(event->id == id && !rdma_ack_cm_event(event));
	CHECK(bed_quiet(channel));
}

static void who_is_silent_is_given_up(void *arg)
{
	struct rdma_conn_param param = bed_param();
	pthread_t thread;

	rule_log_start();
	start();
	CHECK(!pthread_create(&thread, NULL, connect_and_wait, NULL));
	/* A request, a question, a reply, and an end. */
	CHECK(!rdma_connect(here.bed.client, &param));
	CHECK(!rdma_connect(here.ud.client, &param));
	CHECK(!rdma_accept(here.asked, &param));
	CHECK(!rdma_disconnect(here.open.client));
	CHECK(bed_quiet(here.bed.active) && bed_quiet(here.open.active));
	unreachable(here.bed.active, here.bed.client);
	unreachable(here.ud.active, here.ud.client);
	unreachable(here.bed.passive, here.asked);
	bed_take(here.open.active, RDMA_CM_EVENT_DISCONNECTED);
	bed_take(here.open.active, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	CHECK(bed_quiet(here.open.active));
	CHECK(!pthread_join(thread, NULL));
	CHECK(rule_said("cm-timeout"));
	rule_log_end();
	bed_end_id(&here.asked);
	bed_close(&here.bed);
	CHECK(!kill(here.pid, SIGKILL) && waitpid(here.pid, NULL, 0) == here.pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BED_TEST(who_is_silent_is_given_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections between two processes, and what one hears when the other rejects, leaves or dies. */
#include <arpa/inet.h>
#include <errno.h>
#include <malloc.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/cm_bed.h"

#ifdef VB_SANITIZED
#define CONNECTIONS 500
#else
#define CONNECTIONS 5000
#endif
#define SERVERS 10

static struct bed bed;

/* The other process: a server, which does one thing with each request. */
enum serves { ACCEPT, REJECT, ACCEPT_THEN_EXIT };

struct other {
	pid_t pid;
	union bed_addr addr;
};

/* A message is sent back as it came. The receive is there before the answer: whoever finds none
 * waits long. */
static char echo_text[32];
static struct ibv_mr *echo_mr;

static void echo_prepare(struct rdma_cm_id *id)
{
	echo_mr = rdma_reg_msgs(id, echo_text, sizeof(echo_text));
	CHECK(echo_mr);
	CHECK(!rdma_post_recv(id, NULL, echo_text, sizeof(echo_text), echo_mr));
}

static void echo(struct rdma_cm_id *id)
{
	struct ibv_wc wc;

	CHECK(rdma_get_recv_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	CHECK(!rdma_post_send(id, NULL, echo_text, wc.byte_len, echo_mr, 0));
	CHECK(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	CHECK(!rdma_dereg_mr(echo_mr));
}

static void serve_one(enum serves how, struct rdma_cm_event *event)
{
	struct rdma_conn_param param = bed_param();
	const bool ud = event->id->qp_type == IBV_QPT_UD;
	const char *data = ud ? event->param.ud.private_data : event->param.conn.private_data;

	CHECK(!strcmp(data, "asked"));
	bed.server = event->id;
	CHECK(!rdma_ack_cm_event(event));
	if (how == REJECT) {
		CHECK(!rdma_reject(bed.server, "refused", 8));
		bed_end_id(&bed.server);
		return;
	}
	bed_qp(bed.server);
	if (!ud)
		echo_prepare(bed.server);
	param.private_data = "granted";
	param.private_data_len = 8;
	CHECK(!rdma_accept(bed.server, &param));
}

static void serve(enum serves how, enum rdma_port_space ps, int to)
{
	struct rdma_cm_event *event;

	bed_serve(&bed, ps, to);
	for (;;) {
		event = bed_next(bed.passive);
		switch (event->event) {
		case RDMA_CM_EVENT_CONNECT_REQUEST:
			serve_one(how, event);
			break;
		case RDMA_CM_EVENT_ESTABLISHED:
			CHECK(!rdma_ack_cm_event(event));
			if (how == ACCEPT_THEN_EXIT)
				exit(0);
			echo(bed.server);
			break;
		case RDMA_CM_EVENT_DISCONNECTED:
			CHECK(event->id == bed.server && !rdma_ack_cm_event(event));
			CHECK(!rdma_disconnect(bed.server));
			bed_end_id(&bed.server);
			break;
		default:
			CHECK(!rdma_ack_cm_event(event));
		}
	}
}

static struct other start(enum serves how, enum rdma_port_space ps)
{
	struct other other;
	int fds[2];

	CHECK(!pipe(fds));
	other.pid = fork();
	if (!other.pid) {
		close(fds[0]);
		serve(how, ps, fds[1]);
	}
	close(fds[1]);
	CHECK(read(fds[0], &other.addr, sizeof(other.addr)) == sizeof(other.addr));
	close(fds[0]);
	return other;
}

static void end(struct other *other)
{
	CHECK(!kill(other->pid, SIGKILL));
	CHECK(waitpid(other->pid, NULL, 0) == other->pid);
}

static void reach(const struct other *other, enum rdma_port_space ps)
{
	bed.ps = ps;
	bed.addr = other->addr;
	if (!bed.active)
		bed.active = rdma_create_event_channel();
	bed_resolve(&bed);
	bed_qp(bed.client);
}

static void ask(void)
{
	struct rdma_conn_param param = bed_param();

	param.private_data = "asked";
	param.private_data_len = 6;
	CHECK(!rdma_connect(bed.client, &param));
}

static void connected(void)
{
	struct rdma_cm_event *event = bed_want(bed.active, RDMA_CM_EVENT_ESTABLISHED, 0);

	CHECK(!strcmp(event->param.conn.private_data, "granted"));
	CHECK(!rdma_ack_cm_event(event));
}

static void echoed(void)
{
	char text[32] = "there and back", in[32] = "";
	struct ibv_mr *out = rdma_reg_msgs(bed.client, text, sizeof(text));
	struct ibv_mr *back = rdma_reg_msgs(bed.client, in, sizeof(in));
	struct ibv_wc wc;

	CHECK(out && back);
	CHECK(!rdma_post_recv(bed.client, NULL, in, sizeof(in), back));
	CHECK(!rdma_post_send(bed.client, NULL, text, sizeof(text), out, 0));
	CHECK(rdma_get_send_comp(bed.client, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	CHECK(rdma_get_recv_comp(bed.client, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	CHECK(!strcmp(in, text));
	CHECK(!rdma_dereg_mr(out) && !rdma_dereg_mr(back));
}

static void one_connection(const struct other *other)
{
	reach(other, RDMA_PS_TCP);
	ask();
	connected();
	echoed();
	CHECK(!rdma_disconnect(bed.client));
	bed_take(bed.active, RDMA_CM_EVENT_DISCONNECTED);
	bed_end_id(&bed.client);
	CHECK(bed_quiet(bed.active));
}

/* Bytes on the heap, which no other process has a part in. */
static size_t heap(void)
{
#ifdef VB_SANITIZED
	return 0;
#else
	return mallinfo2().uordblks;
#endif
}

/* Thousands leave nothing behind, also of servers that were killed, and the last one is as the
 * first. */
static void one_connection_after_another(void *arg)
{
	int fds = 0;
	size_t bytes = 0;

	for (int server = 0; server < SERVERS; server++) {
		struct other other = start(ACCEPT, RDMA_PS_TCP);

		for (int i = 0; i < CONNECTIONS / SERVERS; i++)
			one_connection(&other);
		/* What is kept for a while, and for others' processes, is there by then. */
		if (server == SERVERS / 2) {
			fds = open_descriptors();
			bytes = heap();
		}
		end(&other);
	}
	/* A few pipes of each process are kept; one for each connection would be more. */
	CHECK(open_descriptors() < fds + 100);
	CHECK(heap() < bytes + (32 << 10));
	rdma_destroy_event_channel(bed.active);
}

static void the_other_rejects(void *arg)
{
	struct other other = start(REJECT, RDMA_PS_TCP);

	for (int i = 0; i < 50; i++) {
		struct rdma_cm_event *event;

		reach(&other, RDMA_PS_TCP);
		ask();
		event = bed_want(bed.active, RDMA_CM_EVENT_REJECTED, 28);
		CHECK(!strcmp(event->param.conn.private_data, "refused"));
		CHECK(!rdma_ack_cm_event(event));
		bed_end_id(&bed.client);
	}
	end(&other);
}

/* Told once, however it goes; and nobody listens there any more. */
static void gone(const struct other *other)
{
	struct rdma_cm_event *event;

	bed_take(bed.active, RDMA_CM_EVENT_DISCONNECTED);
	CHECK(!rdma_disconnect(bed.client));
	event = bed_next(bed.active);
	CHECK(event->event == RDMA_CM_EVENT_TIMEWAIT_EXIT && !rdma_ack_cm_event(event));
	CHECK(bed_quiet(bed.active));
	bed_end_id(&bed.client);
	reach(other, RDMA_PS_TCP);
	ask();
	CHECK(!rdma_ack_cm_event(bed_want(bed.active, RDMA_CM_EVENT_REJECTED, 8)));
	bed_end_id(&bed.client);
}

static void the_other_is_killed(void *arg)
{
	struct other other = start(ACCEPT, RDMA_PS_TCP);

	reach(&other, RDMA_PS_TCP);
	ask();
	connected();
	echoed();
	end(&other);
	gone(&other);
}

/* As between fork and exec of any program: all our files are held, and no handler has run. */
static pid_t hold_all_files(void)
{
	pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	CHECK(pid > 0);
	return pid;
}

/* What a child keeps of a dead one's connection is not taken for the next one's. */
static void the_other_is_killed_while_a_child_holds_on(void *arg)
{
	struct other other = start(ACCEPT, RDMA_PS_TCP);
	pid_t child;

	reach(&other, RDMA_PS_TCP);
	ask();
	connected();
	echoed();
	child = hold_all_files();
	end(&other);
	bed_take(bed.active, RDMA_CM_EVENT_DISCONNECTED);
	bed_end_id(&bed.client);
	for (int i = 0; i < 3; i++) {
		other = start(ACCEPT, RDMA_PS_TCP);
		one_connection(&other);
		reach(&other, RDMA_PS_TCP);
		ask();
		connected();
		echoed();
		CHECK(bed_quiet(bed.active));
		CHECK(!rdma_disconnect(bed.client));
		bed_take(bed.active, RDMA_CM_EVENT_DISCONNECTED);
		bed_end_id(&bed.client);
		end(&other);
	}
	CHECK(!kill(child, SIGKILL) && waitpid(child, NULL, 0) == child);
}

static void the_other_exits(void *arg)
{
	struct other other = start(ACCEPT_THEN_EXIT, RDMA_PS_TCP);
	int status;

	reach(&other, RDMA_PS_TCP);
	ask();
	connected();
	CHECK(waitpid(other.pid, &status, 0) == other.pid && !status);
	gone(&other);
}

/* A client that dies, with a connection or while it waits for an answer. */
static void client(int to, int from)
{
	struct other there;
	char go;

	enter_other();
	CHECK(read(from, &there.addr, sizeof(there.addr)) == sizeof(there.addr));
	memset(&bed, 0, sizeof(bed));
	reach(&there, RDMA_PS_TCP);
	ask();
	CHECK(write(to, "x", 1) == 1);
	while (read(from, &go, 1) == 1)
		;
	_exit(0);
}

static void clients_die(void *arg)
{
	union bed_addr addr;

	for (int established = 0; established < 2; established++) {
		struct rdma_conn_param param = bed_param();
		struct rdma_cm_event *event;
		int there[2], here[2];
		char go;
		pid_t pid;

		CHECK(!pipe(there) && !pipe(here));
		/* The library is not used before fork: the child has one of its own. */
		pid = fork();
		if (!pid) {
			close(there[1]);
			close(here[0]);
			client(here[1], there[0]);
		}
		close(there[0]);
		close(here[1]);
		addr = bed_here();
		bed_listen(&bed, RDMA_PS_TCP, &addr, 0);
		CHECK(write(there[1], &bed.addr, sizeof(bed.addr)) == sizeof(bed.addr));
		event = bed_want(bed.passive, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
		bed.server = event->id;
		CHECK(!rdma_ack_cm_event(event));
		CHECK(read(here[0], &go, 1) == 1);
		bed_qp(bed.server);
		if (established)
			CHECK(!rdma_accept(bed.server, &param));
		CHECK(!kill(pid, SIGKILL) && waitpid(pid, NULL, 0) == pid);
		event = bed_next(bed.passive);
		/* The request is withdrawn; of a reply nobody took notice. */
		CHECK(event->event == RDMA_CM_EVENT_REJECTED ||
		      (established && event->event == RDMA_CM_EVENT_UNREACHABLE));
		CHECK(event->id == bed.server && !rdma_ack_cm_event(event));
		CHECK(bed_quiet(bed.passive));
		bed_close(&bed);
		close(there[1]);
		close(here[0]);
	}
}

static void one_service(const struct other *other)
{
	struct rdma_cm_event *event;

	reach(other, RDMA_PS_UDP);
	ask();
	event = bed_want(bed.active, RDMA_CM_EVENT_ESTABLISHED, 0);
	CHECK(!strcmp(event->param.ud.private_data, "granted"));
	CHECK(event->param.ud.qp_num && event->param.ud.qp_num != bed.client->qp->qp_num);
	CHECK(!rdma_ack_cm_event(event));
	bed_end_id(&bed.client);
}

static void datagrams_between_processes(void *arg)
{
	struct other other = start(ACCEPT, RDMA_PS_UDP);
	struct rdma_cm_event *event;

	one_service(&other);
	end(&other);
	reach(&other, RDMA_PS_UDP);
	ask();
	event = bed_next(bed.active);
	CHECK(event->event == RDMA_CM_EVENT_UNREACHABLE && !rdma_ack_cm_event(event));
	bed_end_id(&bed.client);
}

/* Whoever is beside a process that dies keeps its connections, and gives its host a voice. */
static void one_of_two_is_killed(void *arg)
{
	struct other lives = start(ACCEPT, RDMA_PS_TCP), dies = start(ACCEPT, RDMA_PS_TCP);
	struct rdma_cm_event *event;
	struct rdma_cm_id *kept;

	reach(&lives, RDMA_PS_TCP);
	ask();
	connected();
	echoed();
	kept = bed.client;
	/* All of its connections, however many. */
	for (int i = 0; i < 4; i++) {
		reach(&dies, RDMA_PS_TCP);
		bed.client->context = kept;
		ask();
		connected();
		echoed();
	}
	end(&dies);
	for (int i = 0; i < 4; i++) {
		event = bed_want(bed.active, RDMA_CM_EVENT_DISCONNECTED, 0);
		bed.client = event->id;
		CHECK(bed.client->context == kept && !rdma_ack_cm_event(event));
		bed_end_id(&bed.client);
	}
	CHECK(bed_quiet(bed.active));
	bed.client = kept;
	CHECK(!rdma_disconnect(bed.client));
	bed_take(bed.active, RDMA_CM_EVENT_DISCONNECTED);
	bed_end_id(&bed.client);
	end(&lives);
}

/* Devices of two names for one interface: who asks for a port cannot know which one has it. */
static void the_others_device_has_another_name(void *arg)
{
	struct other other, datagrams;

	CHECK(!setenv("VERBENA_DEVICES", "other", 1));
	other = start(ACCEPT, RDMA_PS_TCP);
	datagrams = start(ACCEPT, RDMA_PS_UDP);
	CHECK(!unsetenv("VERBENA_DEVICES"));
	for (int i = 0; i < 20; i++)
		one_connection(&other);
	one_service(&datagrams);
	end(&datagrams);
	/* One that ends is noticed, and its port is nobody's. */
	reach(&other, RDMA_PS_TCP);
	ask();
	connected();
	echoed();
	end(&other);
	gone(&other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BED_TEST(one_connection_after_another),
		BED_TEST(the_other_rejects),
		BED_TEST(the_other_is_killed),
		BED_TEST(the_other_is_killed_while_a_child_holds_on),
		BED_TEST(the_other_exits),
		BED_TEST(one_of_two_is_killed),
		BED_TEST(clients_die),
		BED_TEST(datagrams_between_processes),
		BED_TEST(the_others_device_has_another_name),
	};

	run_only();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

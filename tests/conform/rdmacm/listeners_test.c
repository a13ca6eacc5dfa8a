/* SPDX-License-Identifier: BSD-2-Clause */
/* A thousand listeners in one process, and one that finds no descriptor. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <cmocka.h>

#include "lib/cm_bed.h"

#define MANY 1000
/* Each listened port is a descriptor, ports to choose from are 64 to one; the rest is the test's.
 */
#define DESCRIPTORS (MANY + MANY / 64 + 64)

/* IBA 12.6.7.2 */
#define NO_LISTENER	 8
#define CONSUMER_REJECTS 28

static struct rdma_event_channel *passive, *active;
static struct rdma_cm_id *listener[MANY];

static void allow(rlim_t descriptors)
{
	struct rlimit limit;

	CHECK(!getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = descriptors;
	CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
}

static void open_channels(void)
{
	passive = rdma_create_event_channel();
	active = rdma_create_event_channel();
	CHECK(passive && active);
}

static void close_channels(void)
{
	rdma_destroy_event_channel(active);
	rdma_destroy_event_channel(passive);
}

static int listen_in(enum rdma_port_space ps, struct rdma_cm_id **id, uint16_t port)
{
	union bed_addr addr = bed_loopback(AF_INET);

	CHECK(!rdma_create_id(passive, id, NULL, ps));
	bed_set_port(&addr, port);
	if (rdma_bind_addr(*id, &addr.any))
		return -1;
	return rdma_listen(*id, 4);
}

static int listen_at(struct rdma_cm_id **id, uint16_t port)
{
	return listen_in(RDMA_PS_TCP, id, port);
}

static struct rdma_cm_id *caller_in(enum rdma_port_space ps, struct rdma_cm_id *wanted)
{
	struct bed bed = {.ps = ps, .addr = bed_loopback(AF_INET)};

	bed_set_port(&bed.addr, ntohs(rdma_get_src_port(wanted)));
	return bed_resolve_id(&bed, active);
}

static struct rdma_cm_id *caller_of(struct rdma_cm_id *wanted)
{
	return caller_in(RDMA_PS_TCP, wanted);
}

/* The caller reaches this listener and no other, and is told no. */
static void call(struct rdma_cm_id *id, struct rdma_cm_id *wanted)
{
	struct rdma_conn_param param = {.qp_num = 0x123456, .retry_count = 7};
	struct rdma_cm_event *event;
	struct rdma_cm_id *asked;

	CHECK(!rdma_connect(id, &param));
	event = bed_want(passive, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	CHECK(event->listen_id == wanted);
	asked = event->id;
	CHECK(!rdma_ack_cm_event(event));
	CHECK(!rdma_reject(asked, NULL, 0) && !rdma_destroy_id(asked));
	CHECK(!rdma_ack_cm_event(bed_want(active, RDMA_CM_EVENT_REJECTED, CONSUMER_REJECTS)));
	CHECK(!rdma_destroy_id(id));
}

static void ask(struct rdma_cm_id *wanted)
{
	call(caller_of(wanted), wanted);
}

static void listen_to_all(uint16_t first)
{
	for (int i = 0; i < MANY; i++)
		CHECK(!listen_at(&listener[i], first ? (uint16_t)(first + i) : 0));
	for (int i = 0; i < MANY; i++)
		ask(listener[(i * 7) % MANY]);
	CHECK(bed_quiet(passive) && bed_quiet(active));
	for (int i = 0; i < MANY; i++)
		CHECK(!rdma_destroy_id(listener[i]));
}

static void a_thousand_listen(void *arg)
{
	struct rdma_cm_id *first;
	int before;

	allow(DESCRIPTORS);
	open_channels();
	/* What the first of all opens stays, and ports to choose from once there are any; a socket
	 * for a process to which one says much, too. */
	CHECK(!listen_at(&first, 0));
	for (int i = 0; i < 16; i++)
		ask(first);
	before = open_descriptors();
	listen_to_all(20000);
	CHECK(open_descriptors() == before);
	listen_to_all(0);
	CHECK(open_descriptors() <= before + MANY / 64 + 1);
	CHECK(!rdma_destroy_id(first));
	close_channels();
}

static void one_that_finds_no_descriptor(void *arg)
{
	struct rdma_cm_id *first, *caller, *id;

	open_channels();
	CHECK(!listen_at(&first, 0));
	ask(first);
	caller = caller_of(first);
	CHECK(!rdma_create_id(passive, &id, NULL, RDMA_PS_TCP));
	allow(3); /* all that it has are above */
	FAILS(rdma_listen(id, 4), EMFILE);
	call(caller, first);
	allow(DESCRIPTORS);
	CHECK(!rdma_listen(id, 4));
	ask(first);
	CHECK(!rdma_destroy_id(id) && !rdma_destroy_id(first));
	close_channels();
}

/* A request between a server's listener and its next waits: perftest's server makes one for each
 * of its two connections. */
static void goes_and_comes(enum rdma_port_space ps)
{
	struct rdma_conn_param param = {.qp_num = 0x123456, .retry_count = 7};
	struct rdma_cm_id *going, *other, *early, *later;
	struct rdma_cm_event *event;
	uint16_t port;

	setenv("VERBENA_CARRIER", "udp", 1);
	open_channels();
	/* Chosen ports: requests for these come to this process also while nobody listens. The
	 * second, since the first of another space is the caller's. */
	CHECK(!listen_at(&other, 0) && !listen_at(&going, 0));
	port = ntohs(rdma_get_src_port(going));
	early = caller_in(ps, going);
	later = caller_of(other);
	CHECK(!rdma_destroy_id(going));
	CHECK(!rdma_connect(early, &param) && !rdma_connect(later, &param));
	/* It came after the one before it. */
	event = bed_want(passive, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	CHECK(event->listen_id == other && !rdma_ack_cm_event(event));
	CHECK(!listen_in(ps, &going, port));
	event = bed_want(passive, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	CHECK(event->listen_id == going && !rdma_ack_cm_event(event));
	CHECK(bed_quiet(active));
	_Exit(0);
}

static void one_that_goes_and_comes(void *arg)
{
	goes_and_comes(RDMA_PS_TCP);
}

/* As perftest's does for UD. */
static void one_that_comes_in_another_space(void *arg)
{
	goes_and_comes(RDMA_PS_UDP);
}

/* Whether the request of an id, whose listener has gone, is taken by the next one at its port,
 * which comes when perftest's server makes it: after a second and more. Where this process was held
 * up for long it may have been refused. */
static bool taken_by_next(struct rdma_cm_id *early, uint16_t port)
{
	struct pollfd first[2] = {{.fd = passive->fd, .events = POLLIN},
				  {.fd = active->fd, .events = POLLIN}};
	struct rdma_cm_event *event;
	struct rdma_cm_id *next;
	bool taken;

	CHECK(!nanosleep(&(struct timespec){1, 500000000}, NULL));
	CHECK(!listen_at(&next, port));
	CHECK(poll(first, 2, -1) > 0);
	taken = first[0].revents;
	if (taken) {
		event = bed_want(passive, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
		CHECK(event->listen_id == next);
		CHECK(!rdma_destroy_id(event->id) && !rdma_ack_cm_event(event));
	}
	event = bed_want(active, RDMA_CM_EVENT_REJECTED, taken ? CONSUMER_REJECTS : NO_LISTENER);
	CHECK(event->id == early && !rdma_ack_cm_event(event));
	CHECK(!rdma_destroy_id(early) && !rdma_destroy_id(next));
	return taken;
}

/* Within a host, at a given port: its socket has gone with the listener. A port that nobody had is
 * refused at once, and this one when the time is over. */
static void one_that_goes_from_a_port(void *arg)
{
	struct rdma_conn_param param = {.qp_num = 0x123456, .retry_count = 7};
	struct rdma_cm_id *going, *never, *early, *late;
	struct rdma_cm_event *event;
	uint16_t port = 20000;
	int tries = 0;

	open_channels();
	do {
		CHECK(tries++ < 10);
		CHECK(!listen_at(&going, port) && !listen_at(&never, (uint16_t)(port + 1)));
		ask(going);
		early = caller_of(going);
		late = caller_of(never);
		CHECK(!rdma_destroy_id(going) && !rdma_destroy_id(never));
		CHECK(!rdma_connect(late, &param));
		event = bed_want(active, RDMA_CM_EVENT_REJECTED, NO_LISTENER);
		CHECK(event->id == late && !rdma_ack_cm_event(event));
		CHECK(!rdma_destroy_id(late));
		CHECK(!rdma_connect(early, &param));
	} while (!taken_by_next(early, port));
	CHECK(!listen_at(&going, port));
	early = caller_of(going);
	CHECK(!rdma_destroy_id(going));
	CHECK(!rdma_connect(early, &param));
	CHECK(!rdma_ack_cm_event(bed_want(active, RDMA_CM_EVENT_REJECTED, NO_LISTENER)));
	CHECK(!rdma_destroy_id(early));
	close_channels();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BED_TEST(a_thousand_listen),	     BED_TEST(one_that_finds_no_descriptor),
		BED_TEST(one_that_goes_and_comes),   BED_TEST(one_that_comes_in_another_space),
		BED_TEST(one_that_goes_from_a_port),
	};
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_max < DESCRIPTORS) {
		fprintf(stderr, "skipped: fewer than %d descriptors are allowed\n", DESCRIPTORS);
		return 77;
	}
	run_only();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

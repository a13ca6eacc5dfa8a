/* SPDX-License-Identifier: BSD-2-Clause */
/* Event channels: when they are readable, what they give and to whom, and who waits for what. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/cm_bed.h"

#define USER ((enum rdma_cm_event_type)18)

/* Of releases after the installed headers'. */
int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
			uint64_t arg);

static struct bed bed;

static void start(void)
{
	union bed_addr addr = bed_loopback(AF_INET);

	bed_listen(&bed, RDMA_PS_TCP, &addr, 0);
}

/* An id at a channel, without a connection. */
static struct rdma_cm_id *lone(struct rdma_event_channel *channel)
{
	struct rdma_cm_id *id;

	CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	return id;
}

static void write_event(struct rdma_cm_id *id, uint64_t arg)
{
	CHECK(!rdma_write_cm_event(id, USER, (int)arg, arg));
}

static uint64_t arg_of(const struct rdma_cm_event *event)
{
	uint64_t arg;

	memcpy(&arg, &event->param, sizeof(arg));
	return arg;
}

static void nonblocking(struct rdma_event_channel *channel)
{
	CHECK(!fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK));
}

/* ---- Readable ---- */

static void readable_exactly_while_an_event_waits(void *arg)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_event *event, *untouched = (struct rdma_cm_event *)0x10;
	struct rdma_cm_id *id;

	CHECK(channel && fcntl(channel->fd, F_GETFD) & FD_CLOEXEC);
	id = lone(channel);
	nonblocking(channel);
	for (uint64_t round = 1; round < 5; round++) {
		CHECK(bed_quiet(channel));
		event = untouched;
		FAILS(rdma_get_cm_event(channel, &event), EAGAIN);
		CHECK(event == untouched);
		for (uint64_t i = 1; i <= round; i++) {
			write_event(id, i);
			CHECK(bed_readable(channel));
		}
		for (uint64_t i = 1; i <= round; i++) {
			CHECK(bed_readable(channel));
			CHECK(!rdma_get_cm_event(channel, &event));
			/* In order, each once. */
			CHECK(event->event == USER && event->id == id && arg_of(event) == i);
			CHECK(event->status == (int)i && !event->listen_id);
			CHECK(!rdma_ack_cm_event(event));
		}
	}
	CHECK(bed_quiet(channel));
	CHECK(!rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
}

static void what_is_destroyed_is_not_readable(void *arg)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *one = lone(channel), *two = lone(channel);
	struct rdma_cm_event *event;

	nonblocking(channel);
	write_event(one, 1);
	write_event(two, 2);
	write_event(one, 3);
	CHECK(!rdma_destroy_id(one));
	CHECK(bed_readable(channel));
	CHECK(!rdma_get_cm_event(channel, &event));
	CHECK(event->id == two && !rdma_ack_cm_event(event));
	CHECK(bed_quiet(channel));
	FAILS(rdma_get_cm_event(channel, &event), EAGAIN);
	write_event(two, 4);
	CHECK(!rdma_destroy_id(two));
	CHECK(bed_quiet(channel));
	FAILS(rdma_get_cm_event(channel, &event), EAGAIN);
	rdma_destroy_event_channel(channel);
}

static void a_channel_may_go_with_events_in_it(void *arg)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id = lone(channel);

	write_event(id, 1);
	CHECK(!rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
}

/* Those that nobody has seen. */
static void destroying_a_listener_rejects_its_requests(void *arg)
{
	struct rdma_conn_param param = bed_param();
	struct rdma_cm_event *event;

	start();
	bed_resolve(&bed);
	bed_qp(bed.client);
	CHECK(!rdma_connect(bed.client, &param));
	while (!bed_readable(bed.passive))
		sched_yield();
	bed_end_id(&bed.listener);
	CHECK(bed_quiet(bed.passive));
	event = bed_want(bed.active, RDMA_CM_EVENT_REJECTED, 28);
	CHECK(!rdma_ack_cm_event(event));
	bed_close(&bed);
}

/* ---- Blocking ---- */

static void on_signal(int number)
{
	(void)number;
}

struct waiting {
	struct rdma_event_channel *channel;
	struct rdma_cm_event *event;
	int ret, err;
	atomic_int tid, done;
};

static void *get_one(void *arg)
{
	struct waiting *w = arg;

	atomic_store(&w->tid, (int)syscall(SYS_gettid));
	errno = 0;
	w->ret = rdma_get_cm_event(w->channel, &w->event);
	w->err = errno;
	atomic_store(&w->done, 1);
	return NULL;
}

/* Until a thread sleeps in the kernel. */
static void wait_asleep(const atomic_int *tid)
{
	char path[64], line[256], state = 'R';

	while (!atomic_load(tid))
		sched_yield();
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", atomic_load(tid));
	while (state != 'S') {
		FILE *file = fopen(path, "re");
		const char *end;

		CHECK(file && fgets(line, sizeof(line), file));
		fclose(file);
		end = strrchr(line, ')');
		CHECK(end);
		state = end[2];
		sched_yield();
	}
}

static void getting_waits_for_an_event(void *arg)
{
	struct waiting w = {.channel = rdma_create_event_channel()};
	struct rdma_cm_id *id = lone(w.channel);
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, get_one, &w));
	wait_asleep(&w.tid);
	CHECK(!atomic_load(&w.done));
	write_event(id, 7);
	CHECK(!pthread_join(thread, NULL));
	CHECK(!w.ret && arg_of(w.event) == 7);
	CHECK(!rdma_ack_cm_event(w.event) && !rdma_destroy_id(id));
	rdma_destroy_event_channel(w.channel);
}

static void a_signal_ends_waiting(void *arg)
{
	struct sigaction action = {.sa_handler = on_signal};
	struct waiting w = {.channel = rdma_create_event_channel()};
	pthread_t thread;

	CHECK(!sigaction(SIGUSR1, &action, NULL));
	CHECK(!pthread_create(&thread, NULL, get_one, &w));
	wait_asleep(&w.tid);
	CHECK(!pthread_kill(thread, SIGUSR1));
	CHECK(!pthread_join(thread, NULL));
	CHECK(w.ret == -1 && w.err == EINTR);
	rdma_destroy_event_channel(w.channel);
}

/* ---- Acknowledging ---- */

struct ending {
	struct rdma_cm_id *id;
	struct rdma_event_channel *to; /* migrate there, instead of destroying */
	bool migrate;
	atomic_int tid, done;
};

static void *end_it(void *arg)
{
	struct ending *e = arg;

	atomic_store(&e->tid, (int)syscall(SYS_gettid));
	CHECK(!(e->migrate ? rdma_migrate_id(e->id, e->to) : rdma_destroy_id(e->id)));
	atomic_store(&e->done, 1);
	return NULL;
}

/* Destroys or migrates in another thread, which waits for the event. */
static void ends_after_ack(struct ending *e, struct rdma_cm_event *event)
{
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, end_it, e));
	wait_asleep(&e->tid);
	CHECK(!atomic_load(&e->done));
	CHECK(!rdma_ack_cm_event(event));
	CHECK(!pthread_join(thread, NULL));
	CHECK(atomic_load(&e->done));
}

static void destroying_waits_for_acknowledgement(void *arg)
{
	struct rdma_conn_param param = bed_param();
	struct rdma_cm_event *event;

	/* Of a good event, of an error, and of a request, which counts for its listener. */
	for (int i = 0; i < 3; i++) {
		struct ending e = {0};

		start();
		bed_resolve(&bed);
		bed_qp(bed.client);
		if (i == 0)
			bed_end_id(&bed.listener);
		CHECK(!rdma_connect(bed.client, &param));
		if (i == 0) {
			event = bed_want(bed.active, RDMA_CM_EVENT_REJECTED, 8);
			rdma_destroy_qp(bed.client);
			e.id = bed.client;
			bed.client = NULL;
		} else {
			event = bed_want(bed.passive, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
			e.id = bed.listener;
			bed.server = event->id;
			bed.listener = NULL;
		}
		/* The new id is not held up by it. */
		if (i == 2)
			bed_end_id(&bed.server);
		ends_after_ack(&e, event);
		bed_close(&bed);
	}
}

static void migrating_waits_for_acknowledgement(void *arg)
{
	struct rdma_event_channel *from = rdma_create_event_channel();
	struct rdma_event_channel *to = rdma_create_event_channel();
	struct ending e = {.id = lone(from), .to = to, .migrate = true};
	struct rdma_cm_event *event;

	write_event(e.id, 1);
	event = bed_next(from);
	ends_after_ack(&e, event);
	CHECK(e.id->channel == to);
	CHECK(!rdma_destroy_id(e.id));
	rdma_destroy_event_channel(from);
	rdma_destroy_event_channel(to);
}

static void events_move_with_their_id(void *arg)
{
	struct rdma_event_channel *from = rdma_create_event_channel();
	struct rdma_event_channel *to = rdma_create_event_channel();
	struct rdma_cm_id *one = lone(from), *two = lone(from);
	struct rdma_cm_event *event;

	write_event(one, 1);
	write_event(two, 2);
	write_event(one, 3);
	CHECK(!rdma_migrate_id(one, to));
	CHECK(one->channel == to && two->channel == from);
	event = bed_next(from);
	CHECK(event->id == two && arg_of(event) == 2 && !rdma_ack_cm_event(event));
	CHECK(bed_quiet(from));
	for (uint64_t i = 1; i <= 3; i += 2) {
		event = bed_next(to);
		CHECK(event->id == one && arg_of(event) == i && !rdma_ack_cm_event(event));
	}
	CHECK(bed_quiet(to));
	/* Nothing goes to where it was. */
	CHECK(!rdma_migrate_id(one, from));
	write_event(one, 5);
	CHECK(bed_readable(from) && bed_quiet(to));
	CHECK(!rdma_destroy_id(one) && !rdma_destroy_id(two));
	rdma_destroy_event_channel(from);
	rdma_destroy_event_channel(to);
}

/* The usual server: each connection on a channel of its own. */
static void a_connection_moves_to_another_channel(void *arg)
{
	struct rdma_event_channel *own;

	start();
	own = rdma_create_event_channel();
	bed_connect(&bed);
	CHECK(!rdma_migrate_id(bed.server, own));
	bed_ping(bed.client, bed.server);
	CHECK(!rdma_disconnect(bed.client));
	bed_take(own, RDMA_CM_EVENT_DISCONNECTED);
	CHECK(!rdma_disconnect(bed.server));
	bed_take(own, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	CHECK(bed_quiet(bed.passive));
	bed_close(&bed);
	rdma_destroy_event_channel(own);
}

/* Requests that wait go with their listener, and all that happens to them from then on. */
static void a_listener_moves_with_its_requests(void *arg)
{
	struct rdma_event_channel *own[2];
	struct rdma_conn_param param = bed_param();
	struct rdma_cm_event *event;

	start();
	for (int i = 0; i < 2; i++)
		own[i] = rdma_create_event_channel();
	bed_resolve(&bed);
	bed_qp(bed.client);
	CHECK(!rdma_connect(bed.client, &param));
	while (bed_quiet(bed.passive))
		sched_yield();
	for (int i = 0; i < 2; i++)
		CHECK(!rdma_migrate_id(bed.listener, own[i]));
	rdma_destroy_event_channel(bed.passive);
	bed.passive = own[1];
	event = bed_want(bed.passive, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	bed.server = event->id;
	CHECK(event->listen_id == bed.listener && bed.server->channel == bed.passive);
	CHECK(!rdma_ack_cm_event(event));
	bed_qp(bed.server);
	CHECK(!rdma_accept(bed.server, &param));
	bed_take(bed.active, RDMA_CM_EVENT_ESTABLISHED);
	bed_take(bed.passive, RDMA_CM_EVENT_ESTABLISHED);
	/* What is given out stays when the listener moves on. */
	CHECK(!rdma_migrate_id(bed.listener, own[0]));
	CHECK(bed.server->channel == own[1]);
	bed_hang_up(&bed);
	bed_close(&bed);
	rdma_destroy_event_channel(own[0]);
}

static void user_events_only(void *arg)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id = lone(channel);

	for (int type = 0; type < 20; type++)
		if (type != (int)USER)
			FAILS(rdma_write_cm_event(id, (enum rdma_cm_event_type)type, 0, 0), EINVAL);
	CHECK(bed_quiet(channel));
	CHECK(!rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
}

/* ---- Channels that are destroyed under a thread ---- */

/* The library calls these: a thread that was woken is held before it does anything. */
static enum { NOBODY, BY_EVENT, BY_SIGNAL } holds;
static sem_t waits_now, woken, go, rests;

#define CALLED __attribute__((visibility("default")))

CALLED int poll(struct pollfd *fds, nfds_t n, int timeout)
{
	struct timespec most = {timeout / 1000, timeout % 1000 * 1000000L};
	const bool waits = timeout < 0, held = waits && holds != NOBODY;
	int ret = -1;

	if (held)
		CHECK(!sem_post(&waits_now));
	if (!held || holds == BY_EVENT)
		ret = (int)syscall(SYS_ppoll, fds, n, waits ? NULL : &most, NULL, 0);
	if (held)
		CHECK(!sem_post(&woken) && !sem_wait(&go));
	if (held && ret < 0)
		errno = EINTR;
	return ret;
}

CALLED int pause(void)
{
	CHECK(!sem_post(&rests));
	return poll(NULL, 0, BED_PATIENCE_S * 1000);
}

#define PIECES 256
#define FILL   0xa5

/* Memory of all sizes of small objects, where the one was that has just been freed. */
static void occupy(uint8_t *pieces[PIECES])
{
	for (int i = 0; i < PIECES; i++) {
		pieces[i] = malloc((size_t)i + 1);
		CHECK(pieces[i]);
		memset(pieces[i], FILL, (size_t)i + 1);
	}
}

static void untouched(uint8_t *pieces[PIECES])
{
	for (int i = 0; i < PIECES; i++) {
		for (int at = 0; at <= i; at++)
			CHECK(pieces[i][at] == FILL);
		free(pieces[i]);
	}
}

/* A thread that asks for an event, and has found none. */
static pthread_t hold_one(struct waiting *w, int by)
{
	pthread_t thread;

	holds = by;
	CHECK(!sem_init(&waits_now, 0, 0) && !sem_init(&woken, 0, 0));
	CHECK(!sem_init(&go, 0, 0) && !sem_init(&rests, 0, 0));
	CHECK(!pthread_create(&thread, NULL, get_one, w) && !sem_wait(&waits_now));
	return thread;
}

static void a_signal_ends_waiting_at_what_is_gone(void *arg)
{
	struct waiting w = {.channel = rdma_create_event_channel()};
	uint8_t *pieces[PIECES];
	pthread_t thread = hold_one(&w, BY_SIGNAL);

	CHECK(!sem_wait(&woken));
	rdma_destroy_event_channel(w.channel);
	occupy(pieces);
	CHECK(!sem_post(&go) && !pthread_join(thread, NULL));
	CHECK(w.ret == -1 && w.err == EINTR);
	untouched(pieces);
}

/* The event that woke it is its id's, and goes with that. */
static void who_is_woken_at_what_is_gone_waits(void *arg)
{
	struct waiting w = {.channel = rdma_create_event_channel()};
	struct rdma_cm_id *id = lone(w.channel);
	uint8_t *pieces[PIECES];

	hold_one(&w, BY_EVENT);
	write_event(id, 7);
	CHECK(!sem_wait(&woken));
	CHECK(!rdma_destroy_id(id));
	rdma_destroy_event_channel(w.channel);
	occupy(pieces);
	CHECK(!sem_post(&go) && !sem_wait(&rests));
	CHECK(!atomic_load(&w.done));
	untouched(pieces);
}

/* ---- Threads ---- */

#define THREADS 6
#define EVENTS	3000

static struct {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *ids[THREADS];
	atomic_uint seen[THREADS][EVENTS];
	atomic_uint count;
} many;

static void *write_many(void *arg)
{
	int n = (int)(intptr_t)arg;

	for (uint64_t i = 0; i < EVENTS; i++)
		write_event(many.ids[n], (uint64_t)n << 32 | i);
	return NULL;
}

static void *read_many(void *arg)
{
	struct rdma_cm_event *event;

	for (;;) {
		uint64_t value;

		CHECK(!rdma_get_cm_event(many.channel, &event));
		value = arg_of(event);
		CHECK(!rdma_ack_cm_event(event));
		if (value == UINT64_MAX)
			return NULL;
		CHECK(!atomic_fetch_add(&many.seen[value >> 32][(uint32_t)value], 1));
		atomic_fetch_add(&many.count, 1);
	}
}

static void many_threads_share_a_channel(void *arg)
{
	pthread_t writers[THREADS], readers[THREADS];

	many.channel = rdma_create_event_channel();
	for (int i = 0; i < THREADS; i++)
		many.ids[i] = lone(many.channel);
	for (int i = 0; i < THREADS; i++) {
		CHECK(!pthread_create(&readers[i], NULL, read_many, NULL));
		CHECK(!pthread_create(&writers[i], NULL, write_many, (void *)(intptr_t)i));
	}
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(writers[i], NULL));
	for (int i = 0; i < THREADS; i++)
		write_event(many.ids[0], UINT64_MAX);
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(readers[i], NULL));
	CHECK(atomic_load(&many.count) == THREADS * EVENTS);
	CHECK(bed_quiet(many.channel));
	for (int i = 0; i < THREADS; i++)
		CHECK(!rdma_destroy_id(many.ids[i]));
	rdma_destroy_event_channel(many.channel);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BED_TEST(readable_exactly_while_an_event_waits),
		BED_TEST(what_is_destroyed_is_not_readable),
		BED_TEST(a_channel_may_go_with_events_in_it),
		BED_TEST(destroying_a_listener_rejects_its_requests),
		BED_TEST(getting_waits_for_an_event),
		BED_TEST(a_signal_ends_waiting),
		BED_TEST(destroying_waits_for_acknowledgement),
		BED_TEST(migrating_waits_for_acknowledgement),
		BED_TEST(events_move_with_their_id),
		BED_TEST(a_connection_moves_to_another_channel),
		BED_TEST(a_listener_moves_with_its_requests),
		BED_TEST(user_events_only),
		BED_TEST(a_signal_ends_waiting_at_what_is_gone),
		BED_TEST(who_is_woken_at_what_is_gone_waits),
		BED_TEST(many_threads_share_a_channel),
	};

	run_only();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

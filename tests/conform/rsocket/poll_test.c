/* SPDX-License-Identifier: BSD-2-Clause */
/* Waiting for rsockets together with ordinary descriptors: rpoll, rselect, repoll. */
#include "conform/rsocket/bed.h"

#include "rdmacm/newer.h" /* repoll_* */

static void poll_mixed(void **state)
{
	struct pollfd fds[4];
	int ends[2], ordinary[2];
	char c;

	connected(ends, 0);
	assert_int_equal(pipe(ordinary), 0);
	fds[0] = (struct pollfd){.fd = ends[0], .events = POLLIN};
	fds[1] = (struct pollfd){.fd = ordinary[0], .events = POLLIN};
	fds[2] = (struct pollfd){.fd = -1, .events = POLLIN};
	fds[3] = (struct pollfd){.fd = ends[1], .events = POLLIN};
	assert_int_equal(rpoll(fds, 4, 0), 0);
	assert_int_equal(rpoll(fds, 4, 5), 0);
	assert_int_equal(write(ordinary[1], "x", 1), 1);
	assert_int_equal(rpoll(fds, 4, -1), 1);
	assert_int_equal(fds[1].revents, POLLIN);
	assert_int_equal(fds[0].revents, 0);
	assert_int_equal(read(ordinary[0], &c, 1), 1);
	rsend(ends[0], "y", 1, 0);
	assert_int_equal(rpoll(fds, 4, SOME_TIME_MS), 1);
	assert_int_equal(fds[3].revents, POLLIN);
	fds[0].events = POLLIN | POLLOUT;
	assert_int_equal(rpoll(fds, 4, -1), 2);
	assert_int_equal(fds[0].revents, POLLOUT);
	close_both(ends);
	/* Neither is anything any more. */
	assert_int_equal(rpoll(fds, 4, 0), 2);
	assert_int_equal(fds[0].revents, POLLNVAL);
	close(ordinary[0]);
	close(ordinary[1]);
}

struct late {
	int rsocket, ordinary;
};

/* Once the other thread sleeps, or before: it must not matter. */
static void *come_late(void *arg)
{
	struct late *late = arg;

	if (late->rsocket >= 0)
		rsend(late->rsocket, "x", 1, 0);
	else if (write(late->ordinary, "x", 1) != 1)
		abort();
	return NULL;
}

static void poll_is_woken(void **state)
{
	int ends[2], ordinary[2];
	char c;

	connected(ends, 0);
	assert_int_equal(pipe(ordinary), 0);
	for (int i = 0; i < 200; i++) {
		struct pollfd fds[2] = {{.fd = ends[1], .events = POLLIN},
					{.fd = ordinary[0], .events = POLLIN}};
		struct late late = {.rsocket = i % 2 ? ends[0] : -1, .ordinary = ordinary[1]};
		pthread_t thread;

		pthread_create(&thread, NULL, come_late, &late);
		assert_int_equal(rpoll(fds, 2, -1), 1);
		if (i % 2)
			assert_int_equal(rread(ends[1], &c, 1), 1);
		else
			assert_int_equal(read(ordinary[0], &c, 1), 1);
		pthread_join(thread, NULL);
	}
	close_both(ends);
	close(ordinary[0]);
	close(ordinary[1]);
}

static void *take_one(void *arg)
{
	struct pollfd fd = {.fd = *(int *)arg, .events = POLLIN};
	ssize_t n = -1;
	char c;

	while (n < 0) {
		if (rpoll(&fd, 1, -1) != 1)
			abort();
		n = rrecv(fd.fd, &c, 1, MSG_DONTWAIT);
	}
	return (void *)(uintptr_t)(n == 1);
}

/* Each of many threads gets a byte: none sleeps through because another took an event. */
static void many_wait_for_one(void **state)
{
	enum { THREADS = 8 };
	pthread_t threads[THREADS];
	void *good;
	int ends[2];

	connected(ends, 0);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, take_one, &ends[1]);
	for (int i = 0; i < THREADS; i++)
		rsend(ends[0], "x", 1, 0);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &good);
		assert_non_null(good);
	}
	close_both(ends);
}

static void select_mixed(void **state)
{
	struct timeval none = {0}, some = {.tv_usec = 2000};
	fd_set r, w, x;
	int ends[2], ordinary[2], most;

	connected(ends, 0);
	assert_int_equal(pipe(ordinary), 0);
	most = (ends[0] > ends[1] ? ends[0] : ends[1]) + 3;
	FD_ZERO(&r);
	FD_ZERO(&w);
	FD_ZERO(&x);
	FD_SET(ends[1], &r);
	FD_SET(ordinary[0], &r);
	assert_int_equal(rselect(most, &r, NULL, NULL, &none), 0);
	assert_false(FD_ISSET(ends[1], &r));
	FD_SET(ends[1], &r);
	assert_int_equal(rselect(most, &r, NULL, NULL, &some), 0);
	assert_int_equal(some.tv_usec, 0);
	rsend(ends[0], "x", 1, 0);
	FD_SET(ends[1], &r);
	FD_SET(ends[0], &w);
	FD_SET(ends[0], &x);
	assert_int_equal(rselect(most, &r, &w, &x, NULL), 2);
	assert_true(FD_ISSET(ends[1], &r));
	assert_true(FD_ISSET(ends[0], &w));
	assert_false(FD_ISSET(ends[0], &x));
	close_both(ends);
	FD_SET(ends[1], &r);
	assert_int_equal(rselect(most, &r, NULL, NULL, &none), -1);
	assert_int_equal(errno, EBADF);
	close(ordinary[0]);
	close(ordinary[1]);
}

static int wait_one(int epfd, uint32_t *events, int timeout)
{
	struct epoll_event event;
	int n = repoll_wait(epfd, &event, 1, timeout);

	*events = n == 1 ? event.events : 0;
	return n == 1 ? (int)event.data.u32 : -1;
}

static void repoll_levels(void **state)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = 1};
	int ends[2], ordinary[2], epfd = repoll_create(1);
	uint32_t got;
	char c;

	assert_true(epfd >= 0);
	assert_int_equal(fcntl(epfd, F_GETFD), FD_CLOEXEC);
	connected(ends, 0);
	assert_int_equal(pipe(ordinary), 0);
	assert_int_equal(repoll_ctl(epfd, EPOLL_CTL_ADD, ends[1], &event), 0);
	event.data.u32 = 2;
	assert_int_equal(repoll_ctl(epfd, EPOLL_CTL_ADD, ordinary[0], &event), 0);
	assert_int_equal(wait_one(epfd, &got, 0), -1);
	assert_int_equal(wait_one(epfd, &got, 2), -1);
	rsend(ends[0], "x", 1, 0);
	assert_int_equal(wait_one(epfd, &got, SOME_TIME_MS), 1);
	assert_int_equal(got, EPOLLIN);
	assert_int_equal(wait_one(epfd, &got, 0), 1);
	rread(ends[1], &c, 1);
	assert_int_equal(wait_one(epfd, &got, 0), -1);
	assert_int_equal(write(ordinary[1], "x", 1), 1);
	assert_int_equal(wait_one(epfd, &got, -1), 2);
	assert_int_equal(read(ordinary[0], &c, 1), 1);

	event = (struct epoll_event){.events = EPOLLOUT | EPOLLONESHOT, .data.u32 = 3};
	assert_int_equal(repoll_ctl(epfd, EPOLL_CTL_MOD, ends[1], &event), 0);
	assert_int_equal(wait_one(epfd, &got, -1), 3);
	assert_int_equal(got, EPOLLOUT);
	assert_int_equal(wait_one(epfd, &got, 0), -1);
	assert_int_equal(repoll_ctl(epfd, EPOLL_CTL_MOD, ends[1], &event), 0);
	assert_int_equal(wait_one(epfd, &got, 0), 3);
	assert_int_equal(repoll_ctl(epfd, EPOLL_CTL_DEL, ends[1], NULL), 0);
	assert_int_equal(repoll_ctl(epfd, EPOLL_CTL_DEL, ordinary[0], NULL), 0);
	close_both(ends);
	assert_int_equal(rclose(epfd), 0);
	close(ordinary[0]);
	close(ordinary[1]);
}

static void repoll_edges(void **state)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u32 = 1};
	int ends[2], epfd = repoll_create(1);
	uint32_t got;
	char c;

	connected(ends, 0);
	rsend(ends[0], "ab", 2, 0);
	assert_int_equal(repoll_ctl(epfd, EPOLL_CTL_ADD, ends[1], &event), 0);
	assert_int_equal(wait_one(epfd, &got, SOME_TIME_MS), 1);
	assert_int_equal(wait_one(epfd, &got, 0), -1);
	rread(ends[1], &c, 1);
	assert_int_equal(wait_one(epfd, &got, 0), -1);
	/* New data is a new edge, also where some was left. */
	rsend(ends[0], "c", 1, 0);
	assert_int_equal(wait_one(epfd, &got, SOME_TIME_MS), 1);
	assert_int_equal(rread(ends[1], &c, 1), 1);
	rclose(ends[0]);
	assert_int_equal(wait_one(epfd, &got, SOME_TIME_MS), 1);
	/* What is closed is out of the set. */
	rclose(ends[1]);
	assert_int_equal(wait_one(epfd, &got, 0), -1);
	rclose(epfd);
}

static void *add_late(void *arg)
{
	int *fds = arg;
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = 9};

	return (void *)(intptr_t)repoll_ctl(fds[0], EPOLL_CTL_ADD, fds[1], &event);
}

/* A wait sees what is added while it sleeps. */
static void repoll_added_meanwhile(void **state)
{
	int ends[2], fds[2] = {repoll_create(1)};
	pthread_t thread;
	uint32_t got;

	connected(ends, 0);
	rsend(ends[0], "x", 1, 0);
	fds[1] = ends[1];
	pthread_create(&thread, NULL, add_late, fds);
	assert_int_equal(wait_one(fds[0], &got, SOME_TIME_MS), 9);
	pthread_join(thread, NULL);
	close_both(ends);
	rclose(fds[0]);
}

static void listener_and_refusals(void **state)
{
	int at = listener(4), epfd = repoll_create(1), fd, port = port_of(at);
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = 4};
	uint32_t got;

	assert_int_equal(repoll_ctl(epfd, EPOLL_CTL_ADD, at, &event), 0);
	assert_int_equal(rpoll(&(struct pollfd){.fd = at, .events = POLLIN}, 1, 0), 0);
	fd = stream();
	nonblocking(fd);
	assert_int_equal(connect_to(fd, port), -1);
	assert_int_equal(wait_one(epfd, &got, SOME_TIME_MS), 4);
	rclose(raccept(at, NULL, NULL));
	rclose(fd);
	rclose(at);
	rclose(epfd);
	assert_int_equal(repoll_wait(epfd, &event, 1, 0), -1);
	assert_int_equal(errno, EBADF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(poll_mixed),
		cmocka_unit_test(poll_is_woken),
		cmocka_unit_test(many_wait_for_one),
		cmocka_unit_test(select_mixed),
		cmocka_unit_test(repoll_levels),
		cmocka_unit_test(repoll_edges),
		cmocka_unit_test(repoll_added_meanwhile),
		cmocka_unit_test(listener_and_refusals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

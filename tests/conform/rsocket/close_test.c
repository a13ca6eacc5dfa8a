/* SPDX-License-Identifier: BSD-2-Clause */
/* Closing at every instant, from every thread: nothing hangs, nothing is left open. */
#include "conform/rsocket/bed.h"

#include "rdmacm/newer.h"

enum { ROUNDS = 20 };

/* Everything up to a point, and then the end. */
static void live_until(int point)
{
	struct sockaddr_in addr = loopback(0);
	int at = stream(), fd = -1, got = -1, port = 0;
	char c;

	if (point > 0)
		assert_int_equal(rbind(at, (struct sockaddr *)&addr, sizeof(addr)), 0);
	if (point > 1) {
		assert_int_equal(rlisten(at, 3), 0);
		port = port_of(at);
	}
	if (point > 2) {
		fd = stream();
		nonblocking(fd);
		assert_int_equal(connect_to(fd, port), -1);
		assert_int_equal(errno, EINPROGRESS);
	}
	if (point == 4)
		wait_for(fd, POLLOUT);
	if (point == 5)
		wait_for(at, POLLIN);
	if (point > 5) {
		got = raccept(at, NULL, NULL);
		assert_true(got >= 0);
	}
	if (point > 6) {
		wait_for(fd, POLLOUT);
		assert_int_equal(rsend(got, "x", 1, 0), 1);
	}
	if (point > 7) {
		wait_for(fd, POLLIN);
		assert_int_equal(rrecv(fd, &c, 1, 0), 1);
	}
	if (point > 8)
		assert_int_equal(rshutdown(fd, SHUT_WR), 0);
	if (point > 9)
		assert_int_equal(rshutdown(got, SHUT_RDWR), 0);
	/* In changing order. */
	if (point % 2) {
		assert_int_equal(rclose(at), 0);
		at = -1;
	}
	if (fd >= 0)
		assert_int_equal(rclose(fd), 0);
	if (got >= 0)
		assert_int_equal(rclose(got), 0);
	if (at >= 0)
		assert_int_equal(rclose(at), 0);
}

static void at_every_point(void **state)
{
	int before;

	/* The device, once open, stays, and so does a socket for a process to which one says much.
	 */
	for (int i = 0; i < 8; i++)
		live_until(10);
	before = open_descriptors();
	for (int round = 0; round < ROUNDS; round++)
		for (int point = 0; point <= 10; point++)
			live_until(point);
	assert_int_equal(open_descriptors(), before);
}

static void datagram_sockets_too(void **state)
{
	struct sockaddr_in addr;
	int before = 0, a, b;
	char c;

	for (int round = 1; round < ROUNDS; round++) {
		/* The first made the device open what it keeps. */
		if (round == 3)
			before = open_descriptors();
		a = bound(SOCK_DGRAM);
		b = bound(SOCK_DGRAM);
		addr = loopback(port_of(b));
		/* A peer's queue pair is looked for while this end goes. */
		for (int i = 0; i < round; i++)
			rsendto(a, "x", 1, 0, (struct sockaddr *)&addr, sizeof(addr));
		if (round % 2)
			assert_int_equal(rrecv(b, &c, 1, 0), 1);
		rclose(round % 3 ? a : b);
		rclose(round % 3 ? b : a);
	}
	assert_int_equal(open_descriptors(), before);
}

struct call {
	const char *what;
	int fd, other, port, epfd;
	_Atomic int begun;
};

static void *wait_in_call(void *arg)
{
	struct call *call = arg;
	struct pollfd fd = {.fd = call->fd, .events = POLLIN};
	struct epoll_event event;
	char buf[4096] = "";

	call->begun = 1;
	if (!strcmp(call->what, "recv")) {
		rrecv(call->fd, buf, sizeof(buf), 0);
	} else if (!strcmp(call->what, "send")) {
		while (rsend(call->fd, buf, sizeof(buf), 0) > 0)
			;
	} else if (!strcmp(call->what, "poll")) {
		rpoll(&fd, 1, -1);
	} else if (!strcmp(call->what, "accept")) {
		raccept(call->fd, NULL, NULL);
	} else if (!strcmp(call->what, "epoll")) {
		repoll_wait(call->epfd, &event, 1, -1);
	} else {
		abort();
	}
	return NULL;
}

/* The end of the socket ends a call that waits for it. */
static void under_a_call(const char *what)
{
	for (int round = 0; round < ROUNDS; round++) {
		struct call call = {.what = what};
		struct epoll_event event = {.events = EPOLLIN};
		pthread_t thread;
		int ends[2] = {-1, -1};

		if (!strcmp(what, "accept"))
			call.fd = listener(1);
		else
			connected(ends, 4096);
		if (ends[0] >= 0)
			call.fd = ends[0];
		call.epfd = repoll_create(1);
		assert_int_equal(repoll_ctl(call.epfd, EPOLL_CTL_ADD, call.fd, &event), 0);
		pthread_create(&thread, NULL, wait_in_call, &call);
		while (!call.begun)
			sched_yield();
		if (!strcmp(what, "epoll"))
			assert_int_equal(rclose(call.epfd), 0);
		assert_int_equal(rclose(call.fd), 0);
		pthread_join(thread, NULL);
		if (strcmp(what, "epoll"))
			assert_int_equal(rclose(call.epfd), 0);
		if (ends[1] >= 0)
			assert_int_equal(rclose(ends[1]), 0);
	}
}

static void while_another_waits(void **state)
{
	under_a_call("recv");
	under_a_call("send");
	under_a_call("poll");
	under_a_call("accept");
	under_a_call("epoll");
}

static void *client(void *arg)
{
	int port = *(int *)arg;
	uint8_t buf[1000];

	for (int i = 0; i < ROUNDS; i++) {
		int fd = rsocket(AF_INET, SOCK_STREAM, 0);

		if (fd < 0 || connect_to(fd, port))
			return "no connection";
		fill(buf, (size_t)i, sizeof(buf));
		if (rsend(fd, buf, sizeof(buf), 0) != sizeof(buf) ||
		    rrecv(fd, buf, sizeof(buf), MSG_WAITALL) != sizeof(buf) ||
		    !right(buf, (size_t)i, sizeof(buf)))
			return "no echo";
		if (rclose(fd))
			return "no close";
	}
	return NULL;
}

static void *server(void *arg)
{
	uint8_t buf[1000];
	ssize_t n;
	int fd;

	while ((fd = raccept(*(int *)arg, NULL, NULL)) >= 0) {
		while ((n = rrecv(fd, buf, sizeof(buf), 0)) > 0)
			if (rsend(fd, buf, (size_t)n, 0) != n)
				break;
		rclose(fd);
	}
	return NULL;
}

static void many_threads(void **state)
{
	enum { CLIENTS = 6, SERVERS = 6 };
	pthread_t clients[CLIENTS], servers[SERVERS];
	int at = listener(64), port = port_of(at);
	void *wrong;

	for (int i = 0; i < SERVERS; i++)
		pthread_create(&servers[i], NULL, server, &at);
	for (int i = 0; i < CLIENTS; i++)
		pthread_create(&clients[i], NULL, client, &port);
	for (int i = 0; i < CLIENTS; i++) {
		pthread_join(clients[i], &wrong);
		assert_ptr_equal(wrong, NULL);
	}
	assert_int_equal(rclose(at), 0);
	for (int i = 0; i < SERVERS; i++)
		pthread_join(servers[i], NULL);
}

/* A peer that reads nothing more: closing waits for what it may, and no longer. */
static void peer_is_killed(void **state)
{
	int at = listener(1), port = port_of(at), got, status, pipe_ends[2];
	char buf[65536] = "";
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe(pipe_ends), 0);
	pid = fork();
	if (!pid) {
		int fd = rsocket(AF_INET, SOCK_STREAM, 0);

		if (fd < 0 || connect_to(fd, port) || rsend(fd, "bye", 3, 0) != 3)
			_exit(1);
		if (write(pipe_ends[1], "x", 1) != 1)
			_exit(2);
		for (;;)
			pause();
	}
	got = raccept(at, NULL, NULL);
	assert_true(got >= 0);
	assert_int_equal(read(pipe_ends[0], buf, 1), 1);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(rrecv(got, buf, 3, MSG_WAITALL), 3);
	/* The end comes, as one or as an error. */
	do
		n = rrecv(got, buf, sizeof(buf), 0);
	while (n > 0);
	assert_true(n == 0 || errno == ECONNRESET || errno == ETIMEDOUT);
	while ((n = rsend(got, buf, sizeof(buf), 0)) > 0)
		;
	assert_int_equal(n, -1);
	assert_int_equal(rclose(got), 0);
	rclose(at);
	close(pipe_ends[0]);
	close(pipe_ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(peer_is_killed),	cmocka_unit_test(at_every_point),
		cmocka_unit_test(datagram_sockets_too), cmocka_unit_test(while_another_waits),
		cmocka_unit_test(many_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

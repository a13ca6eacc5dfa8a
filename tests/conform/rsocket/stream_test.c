/* SPDX-License-Identifier: BSD-2-Clause */
/* Streams: connecting, data, ends, as sockets have them. */
#include "conform/rsocket/bed.h"

static void both_ways(void **state)
{
	struct sockaddr_in addr;
	socklen_t len = sizeof(addr);
	char buf[32] = "";
	int ends[2], at = listener(5), port = port_of(at);

	ends[0] = stream();
	assert_int_equal(connect_to(ends[0], port), 0);
	ends[1] = raccept(at, (struct sockaddr *)&addr, &len);
	assert_true(ends[1] >= 0);
	assert_int_equal(len, sizeof(addr));
	assert_int_equal(ntohs(addr.sin_port), port_of(ends[0]));
	assert_int_equal(addr.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
	assert_int_equal(rgetpeername(ends[0], (struct sockaddr *)&addr, &len), 0);
	assert_int_equal(ntohs(addr.sin_port), port);

	assert_int_equal(rsend(ends[0], "hello", 5, 0), 5);
	assert_int_equal(rrecv(ends[1], buf, sizeof(buf), 0), 5);
	assert_memory_equal(buf, "hello", 5);
	assert_int_equal(rwrite(ends[1], "answer", 6), 6);
	assert_int_equal(rread(ends[0], buf, 3), 3);
	assert_int_equal(rread(ends[0], buf + 3, sizeof(buf) - 3), 3);
	assert_memory_equal(buf, "answer", 6);
	close_both(ends);
	rclose(at);
}

static void buffers_in_a_list(void **state)
{
	char a[3], b[4];
	struct iovec out[] = {{"ab", 2}, {NULL, 0}, {"cdefg", 5}}, in[] = {{a, 3}, {b, 4}};
	struct msghdr msg = {.msg_iov = out, .msg_iovlen = 3};
	int ends[2];

	connected(ends, 0);
	assert_int_equal(rsendmsg(ends[0], &msg, 0), 7);
	msg = (struct msghdr){.msg_iov = in, .msg_iovlen = 2, .msg_controllen = 5};
	assert_int_equal(rrecvmsg(ends[1], &msg, MSG_WAITALL), 7);
	assert_memory_equal(a, "abc", 3);
	assert_memory_equal(b, "defg", 4);
	assert_int_equal(msg.msg_controllen, 0);
	assert_int_equal(rwritev(ends[1], out, 3), 7);
	assert_int_equal(rreadv(ends[0], in, 2), 7);
	close_both(ends);
}

static void peek_waitall_dontwait(void **state)
{
	char buf[16];
	int ends[2];

	connected(ends, 0);
	assert_int_equal(rrecv(ends[1], buf, sizeof(buf), MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
	rsend(ends[0], "12345", 5, 0);
	wait_for(ends[1], POLLIN);
	assert_int_equal(rrecv(ends[1], buf, 3, MSG_PEEK), 3);
	assert_int_equal(rrecv(ends[1], buf, sizeof(buf), MSG_PEEK), 5);
	assert_memory_equal(buf, "12345", 5);
	assert_int_equal(rrecv(ends[1], buf, 2, 0), 2);
	rsend(ends[0], "678", 3, 0);
	assert_int_equal(rrecv(ends[1], buf, 6, MSG_WAITALL), 6);
	assert_memory_equal(buf, "345678", 6);
	nonblocking(ends[1]);
	assert_int_equal(rfcntl(ends[1], F_GETFL) & O_NONBLOCK, O_NONBLOCK);
	assert_int_equal(rrecv(ends[1], buf, 6, 0), -1);
	assert_int_equal(errno, EAGAIN);
	close_both(ends);
}

static void receive_with_a_time_limit(void **state)
{
	struct timeval limit = {.tv_usec = 1000};
	int ends[2];
	char c;

	connected(ends, 0);
	assert_int_equal(rsetsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
	assert_int_equal(rrecv(ends[0], &c, 1, 0), -1);
	assert_int_equal(errno, EAGAIN);
	close_both(ends);
}

struct mover {
	int fd;
	size_t bytes, piece;
	bool good;
};

static void *send_all(void *arg)
{
	struct mover *m = arg;
	uint8_t *buf = malloc(m->piece);
	ssize_t n;

	m->good = true;
	for (size_t done = 0; done < m->bytes; done += (size_t)n) {
		size_t want = m->bytes - done < m->piece ? m->bytes - done : m->piece;

		fill(buf, done, want);
		n = rsend(m->fd, buf, want, 0);
		if (n <= 0) {
			m->good = false;
			break;
		}
	}
	free(buf);
	return NULL;
}

static void *receive_all(void *arg)
{
	struct mover *m = arg;
	uint8_t *buf = malloc(m->piece);
	ssize_t n;

	m->good = true;
	for (size_t done = 0; done < m->bytes; done += (size_t)n) {
		n = rrecv(m->fd, buf, m->piece, 0);
		if (n <= 0 || !right(buf, done, (size_t)n)) {
			m->good = false;
			break;
		}
	}
	free(buf);
	return NULL;
}

/* Far more than the buffers hold, in pieces that fit none of them, both ways at once. */
static void more_than_the_buffers(void **state)
{
	static const int buffers[] = {0, 1, 3001, 100000};
	static const size_t pieces[] = {1000000, 4999, 77777, 1 << 16};

	for (int i = 0; i < 4; i++) {
		size_t bytes = 2000001;
		struct mover m[4] = {{.bytes = bytes, .piece = pieces[i]},
				     {.bytes = bytes, .piece = pieces[3 - i]},
				     {.bytes = bytes, .piece = 4096},
				     {.bytes = bytes, .piece = 100001}};
		pthread_t threads[4];
		int ends[2];

		connected(ends, buffers[i]);
		for (int k = 0; k < 4; k++) {
			m[k].fd = ends[k == 1 || k == 2];
			pthread_create(&threads[k], NULL, k % 2 ? receive_all : send_all, &m[k]);
		}
		for (int k = 0; k < 4; k++) {
			pthread_join(threads[k], NULL);
			assert_true(m[k].good);
		}
		close_both(ends);
	}
}

/* Nobody reads: the sender comes to an end, and goes on when somebody does. */
static void full_then_writable(void **state)
{
	size_t sent = 0, got = 0;
	uint8_t buf[8192];
	int ends[2];
	ssize_t n;

	connected(ends, 8192);
	nonblocking(ends[0]);
	for (;;) {
		fill(buf, sent, sizeof(buf));
		n = rsend(ends[0], buf, sizeof(buf), 0);
		if (n < 0)
			break;
		sent += (size_t)n;
	}
	assert_int_equal(errno, EAGAIN);
	assert_true(sent > 0);
	assert_int_equal(rpoll(&(struct pollfd){.fd = ends[0], .events = POLLOUT}, 1, 0), 0);
	while (got < sent) {
		n = rrecv(ends[1], buf, sizeof(buf), 0);
		assert_true(n > 0 && right(buf, got, (size_t)n));
		got += (size_t)n;
	}
	assert_int_equal(wait_for(ends[0], POLLOUT), POLLOUT);
	close_both(ends);
}

static void connect_without_waiting(void **state)
{
	int at = listener(5), fd = stream(), err = -1, port = port_of(at), accepted;
	socklen_t len = sizeof(err);

	nonblocking(fd);
	assert_int_equal(connect_to(fd, port), -1);
	assert_int_equal(errno, EINPROGRESS);
	assert_int_equal(wait_for(fd, POLLOUT), POLLOUT);
	assert_int_equal(rgetsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len), 0);
	assert_int_equal(err, 0);
	assert_int_equal(connect_to(fd, port), -1);
	assert_int_equal(errno, EISCONN);
	assert_int_equal(wait_for(at, POLLIN), POLLIN);
	nonblocking(at);
	accepted = raccept(at, NULL, NULL);
	assert_true(accepted >= 0);
	/* Not inherited, as with the system's sockets. */
	assert_int_equal(rfcntl(accepted, F_GETFL) & O_NONBLOCK, 0);
	assert_int_equal(raccept(at, NULL, NULL), -1);
	assert_int_equal(errno, EAGAIN);
	rclose(accepted);
	rclose(fd);
	rclose(at);
}

static void nobody_listens(void **state)
{
	int at = listener(5), port = port_of(at), fd = stream(), err = 0;
	socklen_t len = sizeof(err);
	short events;

	rclose(at);
	assert_int_equal(connect_to(fd, port), -1);
	assert_int_equal(errno, ECONNREFUSED);
	rclose(fd);

	fd = stream();
	nonblocking(fd);
	assert_int_equal(connect_to(fd, port), -1);
	assert_int_equal(errno, EINPROGRESS);
	events = wait_for(fd, POLLOUT);
	assert_int_equal(events & (POLLERR | POLLHUP), POLLERR | POLLHUP);
	assert_int_equal(rgetsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len), 0);
	assert_int_equal(err, ECONNREFUSED);
	assert_int_equal(rgetsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len), 0);
	assert_int_equal(err, 0);
	rclose(fd);
}

/* With TCP a connect returns before accept is called: programs of one thread rely on it. */
static void backlog(void **state)
{
	int at = listener(2), port = port_of(at), fds[3], got;
	char c = 0;

	for (int i = 0; i < 2; i++) {
		fds[i] = stream();
		assert_int_equal(connect_to(fds[i], port), 0);
		assert_int_equal(rsend(fds[i], i ? "b" : "a", 1, 0), 1);
	}
	fds[2] = stream();
	assert_int_equal(connect_to(fds[2], port), -1);
	assert_int_equal(errno, ECONNREFUSED);
	rclose(fds[2]);
	got = raccept(at, NULL, NULL);
	assert_true(got >= 0);
	assert_int_equal(rrecv(got, &c, 1, 0), 1);
	assert_int_equal(c, 'a');
	rclose(got);
	/* A place is free again. */
	fds[2] = stream();
	assert_int_equal(connect_to(fds[2], port), 0);
	for (int i = 0; i < 3; i++)
		rclose(fds[i]);
	rclose(at);
}

static void shut_one_way(void **state)
{
	char buf[8];
	int ends[2];

	connected(ends, 0);
	rsend(ends[0], "last", 4, 0);
	assert_int_equal(rshutdown(ends[0], SHUT_WR), 0);
	/* SIGPIPE would end this test. */
	assert_int_equal(rsend(ends[0], "x", 1, 0), -1);
	assert_int_equal(errno, EPIPE);
	assert_int_equal(rrecv(ends[1], buf, sizeof(buf), MSG_WAITALL), 4);
	assert_int_equal(rrecv(ends[1], buf, sizeof(buf), 0), 0);
	assert_int_equal(wait_for(ends[1], POLLIN | POLLRDHUP), POLLIN | POLLRDHUP);
	assert_int_equal(rsend(ends[1], "still", 5, 0), 5);
	assert_int_equal(rrecv(ends[0], buf, 5, MSG_WAITALL), 5);
	assert_int_equal(rshutdown(ends[1], SHUT_WR), 0);
	assert_int_equal(rrecv(ends[0], buf, sizeof(buf), 0), 0);
	assert_int_equal(wait_for(ends[0], POLLIN) & POLLHUP, POLLHUP);
	close_both(ends);
}

static void shut_reading(void **state)
{
	char buf[8];
	int ends[2];

	connected(ends, 0);
	assert_int_equal(rshutdown(ends[0], SHUT_RD), 0);
	assert_int_equal(rrecv(ends[0], buf, sizeof(buf), 0), 0);
	assert_int_equal(rsend(ends[0], "out", 3, 0), 3);
	assert_int_equal(rrecv(ends[1], buf, 3, MSG_WAITALL), 3);
	assert_int_equal(rshutdown(ends[0], SHUT_WR), 0);
	assert_int_equal(rrecv(ends[1], buf, 3, 0), 0);
	close_both(ends);
}

/* What was sent before a close arrives; then the end; then sending fails. */
static void close_then_read(void **state)
{
	uint8_t buf[3000];
	size_t got = 0;
	int ends[2];
	ssize_t n;

	connected(ends, 0);
	fill(buf, 0, sizeof(buf));
	assert_int_equal(rsend(ends[0], buf, sizeof(buf), 0), sizeof(buf));
	assert_int_equal(rclose(ends[0]), 0);
	memset(buf, 0, sizeof(buf));
	while ((n = rrecv(ends[1], buf + got, sizeof(buf) - got, 0)) > 0)
		got += (size_t)n;
	assert_int_equal(n, 0);
	assert_int_equal(got, sizeof(buf));
	assert_true(right(buf, 0, sizeof(buf)));
	assert_int_equal(wait_for(ends[1], POLLIN) & POLLHUP, POLLHUP);
	assert_int_equal(rsend(ends[1], "x", 1, 0), -1);
	assert_int_equal(errno, EPIPE);
	assert_int_equal(rclose(ends[1]), 0);
}

static void linger(void **state)
{
	struct linger off = {.l_onoff = 1, .l_linger = 0}, some = {.l_onoff = 1, .l_linger = 5};
	struct linger told = {0};
	socklen_t len = sizeof(told);
	int ends[2];
	char c;

	connected(ends, 0);
	assert_int_equal(rsetsockopt(ends[0], SOL_SOCKET, SO_LINGER, &off, sizeof(off)), 0);
	assert_int_equal(rclose(ends[0]), 0);
	assert_true(rrecv(ends[1], &c, 1, 0) <= 0);
	rclose(ends[1]);

	connected(ends, 0);
	assert_int_equal(rsetsockopt(ends[0], SOL_SOCKET, SO_LINGER, &some, sizeof(some)), 0);
	assert_int_equal(rgetsockopt(ends[0], SOL_SOCKET, SO_LINGER, &told, &len), 0);
	assert_int_equal(told.l_linger, 5);
	assert_int_equal(rsend(ends[0], "z", 1, 0), 1);
	assert_int_equal(rclose(ends[0]), 0);
	assert_int_equal(rrecv(ends[1], &c, 1, 0), 1);
	assert_int_equal(rrecv(ends[1], &c, 1, 0), 0);
	rclose(ends[1]);
}

static void close_on_exec(void **state)
{
	int ends[2];

	connected(ends, 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fcntl(ends[i], F_GETFD), FD_CLOEXEC);
		assert_int_equal(rfcntl(ends[i], F_GETFD), FD_CLOEXEC);
	}
	close_both(ends);
}

static void child_has_none(void **state)
{
	int ends[2], status;
	char c;
	pid_t pid;

	connected(ends, 0);
	pid = fork();
	if (!pid) {
		if (rsend(ends[0], "x", 1, 0) != -1 || errno != EBADF)
			_exit(1);
		if (rclose(ends[0]) != -1 || errno != EBADF)
			_exit(2);
			/* One of its own works; the thread sanitizer does not follow a child's
			 * threads. */
#ifndef __SANITIZE_THREAD__
		int own = rsocket(AF_INET, SOCK_STREAM, 0);

		if (own < 0 || rclose(own))
			_exit(3);
#endif
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(rsend(ends[0], "y", 1, 0), 1);
	assert_int_equal(rrecv(ends[1], &c, 1, 0), 1);
	assert_int_equal(c, 'y');
	close_both(ends);
}

static void over_ipv6(void **state)
{
	struct sockaddr_in6 addr = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
	socklen_t len = sizeof(addr);
	int at = rsocket(AF_INET6, SOCK_STREAM, IPPROTO_TCP), fd, got;
	char c;

	assert_true(at >= 0);
	assert_int_equal(rbind(at, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(rlisten(at, 1), 0);
	assert_int_equal(rgetsockname(at, (struct sockaddr *)&addr, &len), 0);
	fd = rsocket(AF_INET6, SOCK_STREAM, 0);
	assert_int_equal(rconnect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	got = raccept(at, NULL, NULL);
	assert_true(got >= 0);
	assert_int_equal(rsend(fd, "6", 1, 0), 1);
	assert_int_equal(rrecv(got, &c, 1, 0), 1);
	rclose(got);
	rclose(fd);
	rclose(at);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_ways),
		cmocka_unit_test(buffers_in_a_list),
		cmocka_unit_test(peek_waitall_dontwait),
		cmocka_unit_test(receive_with_a_time_limit),
		cmocka_unit_test(more_than_the_buffers),
		cmocka_unit_test(full_then_writable),
		cmocka_unit_test(connect_without_waiting),
		cmocka_unit_test(nobody_listens),
		cmocka_unit_test(backlog),
		cmocka_unit_test(shut_one_way),
		cmocka_unit_test(shut_reading),
		cmocka_unit_test(close_then_read),
		cmocka_unit_test(linger),
		cmocka_unit_test(close_on_exec),
		cmocka_unit_test(child_has_none),
		cmocka_unit_test(over_ipv6),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

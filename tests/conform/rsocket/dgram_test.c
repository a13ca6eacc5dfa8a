/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagram sockets. */
#include "conform/rsocket/bed.h"

static ssize_t send_to(int fd, const void *buf, size_t len, int port)
{
	struct sockaddr_in addr = loopback(port);

	return rsendto(fd, buf, len, 0, (struct sockaddr *)&addr, sizeof(addr));
}

static void there_and_back(void **state)
{
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	int a = bound(SOCK_DGRAM), b = bound(SOCK_DGRAM);
	uint8_t buf[64];

	/* The first go by UDP, later ones by the queue pairs: no difference to be seen. */
	for (int i = 1; i < 50; i++) {
		fill(buf, (size_t)i, (size_t)i);
		assert_int_equal(send_to(a, buf, (size_t)i, port_of(b)), i);
		len = sizeof(from);
		assert_int_equal(rrecvfrom(b, buf, sizeof(buf), 0, (struct sockaddr *)&from, &len),
				 i);
		assert_true(right(buf, (size_t)i, (size_t)i));
		assert_int_equal(len, sizeof(from));
		assert_int_equal(ntohs(from.sin_port), port_of(a));
		assert_int_equal(from.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
		assert_int_equal(rsendto(b, buf, 3, 0, (struct sockaddr *)&from, len), 3);
		assert_int_equal(rrecv(a, buf, sizeof(buf), 0), 3);
	}
	rclose(a);
	rclose(b);
}

/* Each as large as a datagram may be, and an empty one. */
static void all_sizes(void **state)
{
	static const size_t sizes[] = {0, 1, 1000, 1016, 1017, 2040, 2041, 4096, 60000};
	int a = bound(SOCK_DGRAM), b = bound(SOCK_DGRAM), port = port_of(b);
	static uint8_t buf[65536];

	for (int round = 0; round < 3; round++)
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			fill(buf, i, sizes[i]);
			assert_int_equal(send_to(a, buf, sizes[i], port), sizes[i]);
			memset(buf, 0, sizes[i]);
			assert_int_equal(rrecv(b, buf, sizeof(buf), 0), sizes[i]);
			assert_true(right(buf, i, sizes[i]));
		}
	assert_int_equal(send_to(a, buf, 65530, port), -1);
	assert_int_equal(errno, EMSGSIZE);
	rclose(a);
	rclose(b);
}

static void peek_and_cut(void **state)
{
	int a = bound(SOCK_DGRAM), b = bound(SOCK_DGRAM);
	struct iovec iov;
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	char buf[8];

	assert_int_equal(rrecv(b, buf, 8, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
	send_to(a, "0123456789", 10, port_of(b));
	assert_int_equal(rrecv(b, buf, 4, MSG_PEEK), 4);
	assert_int_equal(rrecv(b, buf, 4, MSG_PEEK | MSG_TRUNC), 10);
	iov = (struct iovec){buf, 8};
	assert_int_equal(rrecvmsg(b, &msg, 0), 8);
	assert_int_equal(msg.msg_flags, MSG_TRUNC);
	assert_memory_equal(buf, "01234567", 8);
	assert_int_equal(rrecv(b, buf, 8, MSG_DONTWAIT), -1);
	rclose(a);
	rclose(b);
}

static void connected_pair(void **state)
{
	int a = bound(SOCK_DGRAM), b = bound(SOCK_DGRAM), c = bound(SOCK_DGRAM);
	struct sockaddr_in addr;
	socklen_t len = sizeof(addr);
	char buf[8];

	assert_int_equal(connect_to(a, port_of(b)), 0);
	assert_int_equal(connect_to(b, port_of(a)), 0);
	assert_int_equal(rgetpeername(a, (struct sockaddr *)&addr, &len), 0);
	assert_int_equal(ntohs(addr.sin_port), port_of(b));
	/* What others send does not come in. */
	assert_int_equal(send_to(c, "no", 2, port_of(b)), 2);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(rsend(a, "yes", 3, 0), 3);
		assert_int_equal(rrecv(b, buf, sizeof(buf), 0), 3);
		assert_memory_equal(buf, "yes", 3);
		assert_int_equal(rwrite(b, "ok", 2), 2);
		assert_int_equal(rread(a, buf, sizeof(buf)), 2);
	}
	assert_int_equal(rpoll(&(struct pollfd){.fd = b, .events = POLLIN}, 1, 0), 0);
	rclose(a);
	rclose(b);
	rclose(c);
}

static void nobody_there(void **state)
{
	int a = bound(SOCK_DGRAM), b = bound(SOCK_DGRAM), port = port_of(b);
	char c;

	rclose(b);
	assert_int_equal(connect_to(a, port), 0);
	assert_int_equal(rsend(a, "x", 1, 0), 1);
	assert_int_equal(wait_for(a, POLLIN) & POLLERR, POLLERR);
	assert_int_equal(rrecv(a, &c, 1, 0), -1);
	assert_int_equal(errno, ECONNREFUSED);
	rclose(a);
}

static void *receive_one(void *arg)
{
	char c = 0;

	if (rrecv(*(int *)arg, &c, 1, 0) != 1)
		c = 0;
	return (void *)(uintptr_t)c;
}

static void waiting(void **state)
{
	int a = bound(SOCK_DGRAM), b = bound(SOCK_DGRAM);
	struct pollfd fd = {.fd = b, .events = POLLIN};
	char buf[4];

	assert_int_equal(rpoll(&fd, 1, 0), 0);
	assert_int_equal(wait_for(a, POLLOUT), POLLOUT);
	for (int i = 0; i < 30; i++) {
		pthread_t thread;
		void *got;

		send_to(a, "p", 1, port_of(b));
		assert_int_equal(wait_for(b, POLLIN), POLLIN);
		assert_int_equal(rrecv(b, buf, 4, 0), 1);
		pthread_create(&thread, NULL, receive_one, &b);
		send_to(a, "q", 1, port_of(b));
		pthread_join(thread, &got);
		assert_int_equal((uintptr_t)got, 'q');
	}
	rclose(a);
	rclose(b);
}

/* A socket that was never bound has a port from its first send on, and is answered there. */
static void never_bound(void **state)
{
	int a = rsocket(AF_INET, SOCK_DGRAM, 0), b = bound(SOCK_DGRAM);
	struct sockaddr_in from;
	socklen_t len;
	char c;

	for (int i = 0; i < 20; i++) {
		assert_int_equal(send_to(a, "x", 1, port_of(b)), 1);
		len = sizeof(from);
		assert_int_equal(rrecvfrom(b, &c, 1, 0, (struct sockaddr *)&from, &len), 1);
		assert_int_equal(ntohs(from.sin_port), port_of(a));
		assert_int_equal(rsendto(b, "y", 1, 0, (struct sockaddr *)&from, len), 1);
		assert_int_equal(rrecv(a, &c, 1, 0), 1);
	}
	rclose(a);
	rclose(b);
}

static void to_itself(void **state)
{
	int a = bound(SOCK_DGRAM);
	char c = 0;

	for (int i = 0; i < 5; i++) {
		assert_int_equal(send_to(a, "s", 1, port_of(a)), 1);
		assert_int_equal(rrecv(a, &c, 1, 0), 1);
		assert_int_equal(c, 's');
	}
	rclose(a);
}

static void over_ipv6(void **state)
{
	struct sockaddr_in6 addr = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
	socklen_t len = sizeof(addr);
	int a = rsocket(AF_INET6, SOCK_DGRAM, 0), b = rsocket(AF_INET6, SOCK_DGRAM, IPPROTO_UDP);
	char buf[4];

	assert_int_equal(rbind(b, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(rgetsockname(b, (struct sockaddr *)&addr, &len), 0);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(rsendto(a, "six", 3, 0, (struct sockaddr *)&addr, len), 3);
		assert_int_equal(rrecv(b, buf, sizeof(buf), 0), 3);
	}
	rclose(a);
	rclose(b);
}

static void shut(void **state)
{
	int a = bound(SOCK_DGRAM);
	char c;

	assert_int_equal(rshutdown(a, SHUT_RDWR), 0);
	assert_int_equal(rrecv(a, &c, 1, 0), 0);
	assert_int_equal(send_to(a, "x", 1, port_of(a)), -1);
	assert_int_equal(errno, EPIPE);
	rclose(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(there_and_back), cmocka_unit_test(all_sizes),
		cmocka_unit_test(peek_and_cut),	  cmocka_unit_test(connected_pair),
		cmocka_unit_test(nobody_there),	  cmocka_unit_test(waiting),
		cmocka_unit_test(to_itself),	  cmocka_unit_test(over_ipv6),
		cmocka_unit_test(shut),		  cmocka_unit_test(never_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

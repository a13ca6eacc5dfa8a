/* SPDX-License-Identifier: BSD-2-Clause */
/* Every refusal of the rsocket calls, with its errno and its rule. */
#include "conform/rsocket/bed.h"

#include "lib/rule.h"
#include "rdmacm/newer.h" /* repoll_* */

#define REFUSED(call, error, rule)                                                                 \
	do {                                                                                       \
		errno = 0;                                                                         \
		assert_int_equal(call, -1);                                                        \
		assert_int_equal(errno, error);                                                    \
		assert_true(rule_said(rule));                                                      \
	} while (0)

static void unknown_descriptors(void **state)
{
	int epfd = repoll_create(1), number = 5;
	struct epoll_event event = {0};
	socklen_t len = sizeof(number);
	struct iovec iov = {0};
	struct msghdr msg = {0};
	char c = 0;

	/* Ordinary ones, closed ones, and none at all: 1000 + n is what is said only once. */
	REFUSED(rbind(1000, NULL, 0), EBADF, "rsocket-unknown");
	REFUSED(rlisten(1001, 1), EBADF, "rsocket-unknown");
	REFUSED(raccept(1002, NULL, NULL), EBADF, "rsocket-unknown");
	REFUSED(rconnect(1003, NULL, 0), EBADF, "rsocket-unknown");
	REFUSED(rshutdown(1004, SHUT_RD), EBADF, "rsocket-unknown");
	REFUSED(rclose(1005), EBADF, "rsocket-unknown");
	REFUSED(rrecv(STDIN_FILENO, &c, 1, 0), EBADF, "rsocket-unknown");
	REFUSED(rrecvfrom(-1, &c, 1, 0, NULL, NULL), EBADF, "rsocket-unknown");
	REFUSED(rrecvmsg(1008, &msg, 0), EBADF, "rsocket-unknown");
	REFUSED(rread(1009, &c, 1), EBADF, "rsocket-unknown");
	REFUSED(rreadv(1010, &iov, 1), EBADF, "rsocket-unknown");
	REFUSED(rsend(1011, &c, 1, 0), EBADF, "rsocket-unknown");
	REFUSED(rsendto(1012, &c, 1, 0, NULL, 0), EBADF, "rsocket-unknown");
	REFUSED(rsendmsg(1013, &msg, 0), EBADF, "rsocket-unknown");
	REFUSED(rwrite(INT32_MAX, &c, 1), EBADF, "rsocket-unknown");
	REFUSED(rwritev(1015, &iov, 1), EBADF, "rsocket-unknown");
	REFUSED(rgetpeername(1016, NULL, NULL), EBADF, "rsocket-unknown");
	REFUSED(rgetsockname(1017, NULL, NULL), EBADF, "rsocket-unknown");
	REFUSED(rsetsockopt(1018, SOL_SOCKET, SO_SNDBUF, &number, 4), EBADF, "rsocket-unknown");
	REFUSED(rgetsockopt(1019, SOL_SOCKET, SO_SNDBUF, &number, &len), EBADF, "rsocket-unknown");
	REFUSED(rfcntl(1020, F_GETFL), EBADF, "rsocket-unknown");
	REFUSED(riomap(1021, &c, 1, PROT_WRITE, 0, 0), EBADF, "rsocket-unknown");
	REFUSED(riounmap(1022, &c, 1), EBADF, "rsocket-unknown");
	REFUSED((ssize_t)riowrite(1023, &c, 1, 0, 0), EBADF, "rsocket-unknown");
	REFUSED(repoll_ctl(1024, EPOLL_CTL_ADD, 0, &event), EBADF, "rsocket-unknown");
	REFUSED(repoll_wait(1025, &event, 1, 0), EBADF, "rsocket-unknown");
	REFUSED(rread(epfd, &c, 1), EBADF, "rsocket-unknown");
	assert_int_equal(rclose(epfd), 0);
	REFUSED(rclose(epfd), EBADF, "rsocket-unknown");
}

static void kinds_of_sockets(void **state)
{
	REFUSED(rsocket(AF_UNIX, SOCK_STREAM, 0), EOPNOTSUPP, "rsocket-type");
	REFUSED(rsocket(AF_INET, SOCK_RAW, 0), EOPNOTSUPP, "rsocket-type");
	REFUSED(rsocket(AF_INET, SOCK_STREAM, IPPROTO_UDP), EOPNOTSUPP, "rsocket-type");
	REFUSED(rsocket(AF_INET6, SOCK_DGRAM, IPPROTO_TCP), EOPNOTSUPP, "rsocket-type");
}

static void addresses(void **state)
{
	struct sockaddr_in addr = loopback(0);
	struct sockaddr_in6 six = {.sin6_family = AF_INET6};
	int fd = stream(), at = listener(1);

	REFUSED(rbind(fd, NULL, 16), EINVAL, "rsocket-address");
	REFUSED(rbind(fd, (struct sockaddr *)&addr, 8), EINVAL, "rsocket-address");
	REFUSED(rconnect(fd, (struct sockaddr *)&addr, 1), EINVAL, "rsocket-address");
	REFUSED(rbind(fd, (struct sockaddr *)&six, sizeof(six)), EAFNOSUPPORT, "rsocket-family");
	REFUSED(rconnect(fd, (struct sockaddr *)&six, sizeof(six)), EAFNOSUPPORT, "rsocket-family");
	REFUSED(rgetsockname(fd, (struct sockaddr *)&six, NULL), EINVAL, "rsocket-address");
	REFUSED(rbind(at, (struct sockaddr *)&addr, sizeof(addr)), EINVAL, "rsocket-bound");
	rclose(fd);
	rclose(at);
}

static void states(void **state)
{
	int fd = stream(), at = listener(1), ends[2];
	struct sockaddr_in addr = loopback(9);
	socklen_t len = sizeof(addr);
	char c = 0;

	REFUSED(raccept(fd, NULL, NULL), EINVAL, "rsocket-not-listening");
	REFUSED(rsend(fd, &c, 1, 0), ENOTCONN, "rsocket-not-connected");
	REFUSED(rrecv(fd, &c, 1, 0), ENOTCONN, "rsocket-not-connected");
	REFUSED(rshutdown(fd, SHUT_WR), ENOTCONN, "rsocket-not-connected");
	REFUSED(rgetpeername(fd, (struct sockaddr *)&addr, &len), ENOTCONN,
		"rsocket-not-connected");
	REFUSED(connect_to(at, 9), EINVAL, "rsocket-state");
	connected(ends, 0);
	REFUSED(connect_to(ends[0], 9), EISCONN, "rsocket-connected");
	REFUSED(rsendto(ends[0], &c, 1, 0, (struct sockaddr *)&addr, sizeof(addr)), EISCONN,
		"rsocket-connected");
	REFUSED(rlisten(ends[0], 1), EINVAL, "rsocket-state");
	REFUSED(rsend(ends[0], &c, 1, MSG_OOB), EOPNOTSUPP, "rsocket-flags");
	REFUSED(rrecv(ends[0], &c, 1, MSG_OOB), EOPNOTSUPP, "rsocket-flags");
	REFUSED(rshutdown(ends[0], 7), EINVAL, "rsocket-value");
	rshutdown(ends[0], SHUT_WR);
	REFUSED(rsend(ends[0], &c, 1, 0), EPIPE, "rsocket-pipe");
	close_both(ends);
	rclose(fd);
	rclose(at);
}

/* While the peer's address is being resolved nobody answers, so it takes its time. */
static void being_connected(void **state)
{
	struct sockaddr_in addr;
	int fd = stream(), at = listener(1);

	addr = loopback(port_of(at));
	nonblocking(fd);
	assert_int_equal(rconnect(fd, (struct sockaddr *)&addr, sizeof(addr)), -1);
	assert_int_equal(errno, EINPROGRESS);
	errno = 0;
	assert_int_equal(rconnect(fd, (struct sockaddr *)&addr, sizeof(addr)), -1);
	/* By now it may be connected. */
	assert_true((errno == EALREADY && rule_said("rsocket-connecting")) ||
		    (errno == EISCONN && rule_said("rsocket-connected")));
	rclose(fd);
	rclose(at);
}

static void datagrams(void **state)
{
	int fd = bound(SOCK_DGRAM);
	char c = 0;

	REFUSED(rlisten(fd, 1), EOPNOTSUPP, "rsocket-stream-only");
	REFUSED(raccept(fd, NULL, NULL), EOPNOTSUPP, "rsocket-stream-only");
	REFUSED(riomap(fd, &c, 1, PROT_WRITE, 0, 0), EOPNOTSUPP, "rsocket-stream-only");
	REFUSED(rsend(fd, &c, 1, 0), EDESTADDRREQ, "rsocket-destination");
	REFUSED(rshutdown(fd, -3), EINVAL, "rsocket-value");
	rclose(fd);
}

static void buffers(void **state)
{
	struct iovec two[2] = {{.iov_len = SSIZE_MAX}, {.iov_len = 1}};
	struct msghdr msg = {.msg_control = two, .msg_controllen = 16};
	struct timeval wrong = {.tv_sec = -1};
	int ends[2];

	connected(ends, 0);
	REFUSED(rwritev(ends[0], two, 2), EINVAL, "rsocket-buffers");
	REFUSED(rreadv(ends[0], two, -1), EINVAL, "rsocket-buffers");
	REFUSED(rsendmsg(ends[0], NULL, 0), EINVAL, "rsocket-buffers");
	REFUSED(rrecvmsg(ends[0], NULL, 0), EINVAL, "rsocket-buffers");
	REFUSED(rsendmsg(ends[0], &msg, 0), EOPNOTSUPP, "rsocket-control");
	REFUSED(rpoll(NULL, 2, 0), EINVAL, "rsocket-buffers");
	REFUSED(rpoll((struct pollfd *)two, (nfds_t)-1, 0), EINVAL, "rsocket-value");
	REFUSED(rselect(-1, NULL, NULL, NULL, NULL), EINVAL, "rsocket-value");
	REFUSED(rselect(7, NULL, NULL, NULL, &wrong), EINVAL, "rsocket-value");
	close_both(ends);
}

static void options(void **state)
{
	int fd = stream(), at = listener(1), ends[2], one = 1, zero = 0, minus = -1;
	struct linger linger = {0};
	struct timeval time = {.tv_usec = 1000000};
	socklen_t len = sizeof(one);

	REFUSED(rsetsockopt(fd, SOL_SOCKET, SO_BUSY_POLL, &one, 4), EOPNOTSUPP, "rsocket-option");
	REFUSED(rgetsockopt(fd, IPPROTO_IP, IP_TOS, &one, &len), EOPNOTSUPP, "rsocket-option");
	REFUSED(rsetsockopt(fd, SOL_RDMA, 77, &one, 4), EOPNOTSUPP, "rsocket-option");
	REFUSED(rsetsockopt(fd, SOL_SOCKET, SO_SNDBUF, &one, 2), EINVAL, "rsocket-value");
	REFUSED(rsetsockopt(fd, SOL_SOCKET, SO_SNDBUF, NULL, 4), EINVAL, "rsocket-value");
	REFUSED(rsetsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, 4), EINVAL, "rsocket-value");
	REFUSED(rsetsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &zero, 4), EINVAL, "rsocket-value");
	REFUSED(rsetsockopt(fd, SOL_RDMA, RDMA_SQSIZE, &minus, 4), EINVAL, "rsocket-value");
	REFUSED(rsetsockopt(fd, SOL_RDMA, RDMA_ROUTE, &linger, 8), EINVAL, "rsocket-value");
	REFUSED(rgetsockopt(fd, SOL_SOCKET, SO_ERROR, &one, NULL), EINVAL, "rsocket-value");
	assert_int_equal(rsetsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time)), -1);
	assert_int_equal(errno, EDOM);
	connected(ends, 0);
	one = 100;
	REFUSED(rsetsockopt(ends[0], SOL_RDMA, RDMA_RQSIZE, &one, 4), EINVAL, "rsocket-late");
	REFUSED(rfcntl(fd, F_GETOWN), EOPNOTSUPP, "rsocket-fcntl");
	close_both(ends);
	rclose(fd);
	rclose(at);
}

static void values_of_options(void **state)
{
	static const struct {
		int level, name, set, get;
	} rows[] = {
		{SOL_SOCKET, SO_RCVBUF, 50000, 100000}, {SOL_SOCKET, SO_SNDBUF, 1, 4096},
		{SOL_SOCKET, SO_REUSEADDR, 1, 1},	{SOL_SOCKET, SO_KEEPALIVE, 1, 1},
		{SOL_SOCKET, SO_KEEPALIVE, 0, 0},	{SOL_SOCKET, SO_OOBINLINE, 1, 1},
		{IPPROTO_TCP, TCP_NODELAY, 1, 1},	{IPPROTO_TCP, TCP_KEEPIDLE, 33, 33},
		{IPPROTO_IPV6, IPV6_V6ONLY, 1, 1},	{SOL_RDMA, RDMA_SQSIZE, 100, 100},
		{SOL_RDMA, RDMA_SQSIZE, 1, 16},		{SOL_RDMA, RDMA_RQSIZE, 1000000, 0xfffe},
		{SOL_RDMA, RDMA_INLINE, 0, 0},		{SOL_RDMA, RDMA_IOMAPSIZE, 128, 128},
		{SOL_RDMA, RDMA_IOMAPSIZE, 600, 512},
	};
	int fd = stream(), at = listener(1), value;
	socklen_t len = sizeof(value);

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		value = rows[i].set;
		assert_int_equal(rsetsockopt(fd, rows[i].level, rows[i].name, &value, 4), 0);
		value = -5;
		assert_int_equal(rgetsockopt(fd, rows[i].level, rows[i].name, &value, &len), 0);
		assert_int_equal(len, sizeof(value));
		assert_int_equal(value, rows[i].get);
	}
	assert_int_equal(rgetsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &len), 0);
	assert_int_equal(value, SOCK_STREAM);
	assert_int_equal(rgetsockopt(at, SOL_SOCKET, SO_ACCEPTCONN, &value, &len), 0);
	assert_int_equal(value, 1);
	assert_int_equal(rgetsockopt(at, IPPROTO_TCP, TCP_MAXSEG, &value, &len), 0);
	assert_int_equal(value, 2048);
	rclose(fd);
	rclose(at);
}

static void mappings(void **state)
{
	static uint8_t memory[64];
	int ends[2];

	connected(ends, 0);
	REFUSED(riomap(ends[0], memory, 0, PROT_WRITE, 0, 0), EINVAL, "rsocket-map");
	REFUSED(riomap(ends[0], memory, 1, PROT_READ, 0, 0), EINVAL, "rsocket-map");
	REFUSED(riomap(ends[0], memory, 2, PROT_WRITE, 0, -2), EINVAL, "rsocket-map");
	REFUSED(riomap(ends[0], memory, 3, PROT_WRITE, 0, 0), ENOMEM, "rsocket-maps");
	REFUSED(riounmap(ends[0], memory, 4), EINVAL, "rsocket-unmap");
	close_both(ends);
}

static void event_sets(void **state)
{
	struct epoll_event event = {.events = EPOLLIN};
	int fd = stream(), epfd = repoll_create(1);

	REFUSED(repoll_create(0), EINVAL, "rsocket-value");
	REFUSED(repoll_ctl(fd, EPOLL_CTL_ADD, fd, &event), EINVAL, "rsocket-no-epoll");
	REFUSED(repoll_ctl(epfd, EPOLL_CTL_ADD, fd, NULL), EINVAL, "rsocket-buffers");
	REFUSED(repoll_ctl(epfd, EPOLL_CTL_MOD, fd, &event), ENOENT, "repoll-absent");
	assert_int_equal(repoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event), 0);
	REFUSED(repoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event), EEXIST, "repoll-exists");
	REFUSED(repoll_ctl(epfd, 99, fd, &event), EINVAL, "rsocket-value");
	REFUSED(repoll_wait(epfd, &event, 0, 0), EINVAL, "rsocket-value");
	rclose(fd);
	rclose(epfd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unknown_descriptors),
		cmocka_unit_test(kinds_of_sockets),
		cmocka_unit_test(addresses),
		cmocka_unit_test(states),
		cmocka_unit_test(being_connected),
		cmocka_unit_test(datagrams),
		cmocka_unit_test(buffers),
		cmocka_unit_test(options),
		cmocka_unit_test(values_of_options),
		cmocka_unit_test(mappings),
		cmocka_unit_test(event_sets),
	};

	rule_log_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/netwatch.h"
#include "lib/child.h"

static void in_namespace(void)
{
	CHECK(enter_namespace());
	run_ip("link set lo up");
}

static void add_address(void)
{
	run_ip("address add 192.0.2.1/32 dev lo");
}

/* Reads what came late, of IPv6 and the like. */
static void until_quiet(struct vb_netnews *news)
{
	while (!vb_netnews_none(news))
		;
}

static void check_announced(void *arg)
{
	struct vb_netnews news = {0};
	int fd;

	in_namespace();
	CHECK(!vb_netnews_none(&news));
	vb_netnews_begin(&news);
	vb_netnews_begin(&news);
	until_quiet(&news);
	add_address();
	CHECK(!vb_netnews_none(&news));
	CHECK(vb_netnews_none(&news));
	run_ip("route add 198.51.100.0/24 dev lo");
	CHECK(!vb_netnews_none(&news));
	CHECK(vb_netnews_none(&news));
	vb_netnews_end(&news);
	CHECK(vb_netnews_none(&news));
	fd = news.fd;
	vb_netnews_end(&news);
	CHECK(fcntl(fd, F_GETFD) < 0 && !vb_netnews_none(&news));
}

/* A child made by fork shares the socket: what it reads, its parent would miss. */
static void check_fork(void *arg)
{
	struct vb_netnews news = {0};
	int status;
	pid_t child;

	in_namespace();
	vb_netnews_begin(&news);
	until_quiet(&news);
	add_address();
	child = fork();
	if (!child) {
		int fd = news.fd;

		CHECK(!vb_netnews_none(&news) && !vb_netnews_none(&news));
		CHECK(fcntl(fd, F_GETFD) < 0);
		vb_netnews_begin(&news);
		until_quiet(&news);
		run_ip("address del 192.0.2.1/32 dev lo");
		CHECK(!vb_netnews_none(&news));
		_Exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(!vb_netnews_none(&news));
	CHECK(vb_netnews_none(&news));
}

/* Programs close what is not theirs, and get the number again for a socket of their own. */
static void check_taken(void *arg)
{
	struct vb_netnews news = {0};
	int pair[2], fd;
	char byte = 'x';

	in_namespace();
	vb_netnews_begin(&news);
	until_quiet(&news);
	fd = news.fd;
	CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
	CHECK(dup2(pair[0], fd) == fd && send(pair[1], &byte, 1, 0) == 1);
	CHECK(!vb_netnews_none(&news));
	until_quiet(&news);
	add_address();
	CHECK(!vb_netnews_none(&news) && vb_netnews_none(&news));
	CHECK(recv(fd, &byte, 1, MSG_DONTWAIT) == 1 && byte == 'x');
	/* With nothing to read: another tick of the clock, and it is found out. */
	CHECK(recv(pair[0], &byte, 1, MSG_DONTWAIT) < 0);
	CHECK(dup2(pair[0], news.fd) == news.fd);
	while (vb_netnews_none(&news))
		;
	CHECK(news.fd >= 0 && fcntl(pair[0], F_GETFD) >= 0);
	CHECK(dup2(pair[0], news.fd) == news.fd);
	vb_netnews_end(&news);
	CHECK(fcntl(fd, F_GETFD) >= 0);
	vb_netnews_begin(&news);
	close(news.fd);
	CHECK(!vb_netnews_none(&news));
	until_quiet(&news);
}

/* More than the kernel keeps for us. */
static void check_lost(void *arg)
{
	struct vb_netnews news = {0};
	int little = 1;

	in_namespace();
	vb_netnews_begin(&news);
	until_quiet(&news);
	CHECK(setsockopt(news.fd, SOL_SOCKET, SO_RCVBUF, &little, sizeof(little)) == 0);
	for (int i = 0; i < 20; i++) {
		run_ip("link add v%d type veth peer name w%d", i, i);
		run_ip("link del v%d", i);
	}
	CHECK(!vb_netnews_none(&news));
	until_quiet(&news);
}

CHECKED_IN_CHILD(announced)
CHECKED_IN_CHILD(fork)
CHECKED_IN_CHILD(taken)
CHECKED_IN_CHILD(lost)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_announced),
		cmocka_unit_test(test_fork),
		cmocka_unit_test(test_taken),
		cmocka_unit_test(test_lost),
	};

	if (!can_enter_namespace()) {
		fprintf(stderr, "skipped: no network namespaces here\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ports of connection management. Each test has a device name of its own, which is part of the
 * names that are claimed: nothing that runs at the same time is met.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/cmports.h"
#include "lib/child.h"

#define SPACE 0x106
#define PORT  7174

static char device[32];

static int new_device(void **state)
{
	static int count;

	(void)state;
	snprintf(device, sizeof(device), "cmports%d.%d", (int)getpid(), count++);
	return 0;
}

/* ---- Who excludes whom ---- */

enum where { ANY4, ANY6, ONLY6, V4, V4_OTHER, V6, V6_OTHER, WHERES };

static struct vb_cmport at(enum where where, uint16_t port)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	struct vb_cmport p = {.space = SPACE, .port = port};

	p.any = where <= ONLY6;
	p.v6 = where == ANY6 || where == ONLY6 || where >= V6;
	p.only6 = where == ONLY6;
	if (where == V4 || where == V4_OTHER) {
		memcpy(p.addr, mapped, sizeof(mapped));
		p.addr[12] = 10;
		p.addr[15] = where == V4 ? 1 : 2;
	}
	if (where >= V6) {
		p.addr[0] = 0xfe;
		p.addr[1] = 0x80;
		p.addr[15] = where == V6 ? 1 : 2;
	}
	return p;
}

/* A wildcard of IPv6 is one of IPv4 too, unless it is asked not to be. */
static const bool excludes[WHERES][WHERES] = {
	[ANY4] = {[ANY4] = true, [ANY6] = true, [V4] = true, [V4_OTHER] = true},
	[ANY6] = {[ANY4] = true,
		  [ANY6] = true,
		  [ONLY6] = true,
		  [V4] = true,
		  [V4_OTHER] = true,
		  [V6] = true,
		  [V6_OTHER] = true},
	[ONLY6] = {[ANY6] = true, [ONLY6] = true, [V6] = true, [V6_OTHER] = true},
	[V4] = {[ANY4] = true, [ANY6] = true, [V4] = true},
	[V4_OTHER] = {[ANY4] = true, [ANY6] = true, [V4_OTHER] = true},
	[V6] = {[ANY6] = true, [ONLY6] = true, [V6] = true},
	[V6_OTHER] = {[ANY6] = true, [ONLY6] = true, [V6_OTHER] = true},
};

static void conflicts(void **state)
{
	(void)state;
	for (int a = 0; a < WHERES; a++)
		for (int b = 0; b < WHERES; b++) {
			struct vb_cmport one = at((enum where)a, PORT);
			struct vb_cmport two = at((enum where)b, PORT);

			if (vb_cmport_conflict(&one, &two) != excludes[a][b])
				fail_msg("%d and %d", a, b);
		}
}

static void a_second_claim_fails_where_they_exclude_each_other(void **state)
{
	(void)state;
	for (int a = 0; a < WHERES; a++)
		for (int b = 0; b < WHERES; b++) {
			/* A number of its own, so that what is closed cannot matter. */
			uint16_t port = (uint16_t)(1000 + a * WHERES + b);
			struct vb_cmport one = at((enum where)a, port);
			struct vb_cmport two = at((enum where)b, port);
			int first, second, err;

			assert_int_equal(vb_cmport_claim(device, &one, &first), 0);
			err = vb_cmport_claim(device, &two, &second);
			if (err != (excludes[a][b] ? -EADDRINUSE : 0))
				fail_msg("%d, then %d: %d", a, b, err);
			if (!err)
				close(second);
			close(first);
		}
}

static void three_claims_are_told_apart(void **state)
{
	struct vb_cmport four = at(V4, PORT), other = at(V4_OTHER, PORT), any = at(ANY4, PORT);
	struct vb_cmport only6 = at(ONLY6, PORT), any6 = at(ANY6, PORT);
	int fds[3], none;

	(void)state;
	assert_int_equal(vb_cmport_claim(device, &four, &fds[0]), 0);
	assert_int_equal(vb_cmport_claim(device, &other, &fds[1]), 0);
	assert_int_equal(vb_cmport_claim(device, &only6, &fds[2]), 0);
	assert_int_equal(vb_cmport_claim(device, &any, &none), -EADDRINUSE);
	assert_int_equal(vb_cmport_claim(device, &any6, &none), -EADDRINUSE);
	close(fds[0]);
	assert_int_equal(vb_cmport_claim(device, &any, &none), -EADDRINUSE);
	close(fds[1]);
	assert_int_equal(vb_cmport_claim(device, &any, &none), 0);
	close(none);
	close(fds[2]);
}

static void a_port_of_another_device_is_found(void **state)
{
	struct vb_cmport one = at(V4, PORT), any = at(ANY6, PORT), only6 = at(ONLY6, PORT);
	struct vb_cmport other = at(V4_OTHER, PORT), number = at(V4, PORT / 10);
	struct sockaddr_un found, expected;
	char elsewhere[40], third[40];
	int fds[4];
	socklen_t len;

	(void)state;
	snprintf(elsewhere, sizeof(elsewhere), "%sx", device);
	snprintf(third, sizeof(third), "%sy", device);
	/* Its own, one of IPv6 alone, another address, a number that begins like it. */
	assert_int_equal(vb_cmport_claim(device, &one, &fds[0]), 0);
	assert_int_equal(vb_cmport_claim(elsewhere, &only6, &fds[1]), 0);
	assert_int_equal(vb_cmport_claim(elsewhere, &other, &fds[2]), 0);
	assert_int_equal(vb_cmport_claim(elsewhere, &number, &fds[3]), 0);
	assert_int_equal(vb_cmport_elsewhere(device, &one, &found), 0);
	close(fds[1]);
	close(fds[2]);
	/* At every address; and at this one, which comes first. */
	assert_int_equal(vb_cmport_claim(elsewhere, &any, &fds[1]), 0);
	len = vb_cmport_address(elsewhere, &any, &expected);
	assert_int_equal(vb_cmport_elsewhere(device, &one, &found), len);
	assert_memory_equal(&found, &expected, len);
	assert_int_equal(vb_cmport_claim(third, &one, &fds[2]), 0);
	len = vb_cmport_address(third, &one, &expected);
	assert_int_equal(vb_cmport_elsewhere(device, &one, &found), len);
	assert_memory_equal(&found, &expected, len);
	for (int i = 0; i < 4; i++)
		close(fds[i]);
}

static void other_numbers_spaces_and_devices_are_apart(void **state)
{
	struct vb_cmport port = at(ANY6, PORT), other = at(ANY6, PORT + 1);
	struct vb_cmport space = at(ANY6, PORT);
	/* A number that begins like another. */
	struct vb_cmport longer = at(ANY4, PORT / 10);
	char elsewhere[40];
	int fds[5];

	(void)state;
	space.space = 0x111;
	snprintf(elsewhere, sizeof(elsewhere), "%sx", device);
	assert_int_equal(vb_cmport_claim(device, &port, &fds[0]), 0);
	assert_int_equal(vb_cmport_claim(device, &other, &fds[1]), 0);
	assert_int_equal(vb_cmport_claim(device, &space, &fds[2]), 0);
	assert_int_equal(vb_cmport_claim(elsewhere, &port, &fds[3]), 0);
	assert_int_equal(vb_cmport_claim(device, &longer, &fds[4]), 0);
	for (int i = 0; i < 5; i++)
		close(fds[i]);
}

static void a_failed_claim_leaves_nothing(void **state)
{
	struct vb_cmport one = at(V4, PORT), any = at(ANY4, PORT), other = at(V4_OTHER, PORT);
	int fd, none;

	(void)state;
	assert_int_equal(vb_cmport_claim(device, &one, &fd), 0);
	assert_int_equal(vb_cmport_claim(device, &any, &none), -EADDRINUSE);
	assert_int_equal(vb_cmport_claim(device, &other, &none), 0);
	close(none);
	close(fd);
	assert_int_equal(vb_cmport_claim(device, &any, &none), 0);
	close(none);
}

/* ---- Other processes ---- */

struct child {
	pid_t pid;
	int to, from;
};

/* A child that claims when told, says what came of it, and holds it until it is killed. */
static void start(struct child *child, const struct vb_cmport *port)
{
	int to[2], from[2], fd, err;
	char go;

	assert_int_equal(pipe(to), 0);
	assert_int_equal(pipe(from), 0);
	child->pid = fork();
	assert_true(child->pid >= 0);
	if (!child->pid) {
		close(to[1]);
		close(from[0]);
		if (read(to[0], &go, 1) != 1)
			_exit(1);
		err = vb_cmport_claim(device, port, &fd);
		if (write(from[1], &err, sizeof(err)) != sizeof(err))
			_exit(1);
		while (read(to[0], &go, 1) == 1)
			;
		_exit(0);
	}
	close(to[0]);
	close(from[1]);
	child->to = to[1];
	child->from = from[0];
}

static int claims(struct child *child)
{
	int err = 1;

	assert_int_equal(read(child->from, &err, sizeof(err)), sizeof(err));
	return err;
}

static void end(struct child *child)
{
	kill(child->pid, SIGKILL);
	assert_int_equal(waitpid(child->pid, NULL, 0), child->pid);
	close(child->to);
	close(child->from);
}

static void a_process_that_dies_gives_its_ports_back(void **state)
{
	struct vb_cmport port = at(V4, PORT), any = at(ANY6, PORT);
	struct child child;
	int fd;

	(void)state;
	start(&child, &port);
	assert_int_equal(write(child.to, "x", 1), 1);
	assert_int_equal(claims(&child), 0);
	assert_int_equal(vb_cmport_claim(device, &port, &fd), -EADDRINUSE);
	assert_int_equal(vb_cmport_claim(device, &any, &fd), -EADDRINUSE);
	end(&child);
	assert_int_equal(vb_cmport_claim(device, &any, &fd), 0);
	close(fd);
}

/* Both may fail where they come at once, but never may both succeed; at the very same name
 * exactly one does. */
static void race(enum where a, enum where b, int rounds)
{
	for (int i = 0; i < rounds; i++) {
		struct vb_cmport one = at(a, (uint16_t)(2000 + i)), two = at(b, one.port);
		struct child children[2];
		int got;

		start(&children[0], &one);
		start(&children[1], &two);
		for (int k = 0; k < 2; k++)
			assert_int_equal(write(children[(k + i) & 1].to, "x", 1), 1);
		got = !claims(&children[0]);
		got += !claims(&children[1]);
		end(&children[0]);
		end(&children[1]);
		assert_in_range(got, a == b ? 1 : 0, 1);
	}
}

static void two_processes_race(void **state)
{
	(void)state;
	race(ANY6, ANY6, 100);
	race(V4, V4, 100);
	race(ANY4, V4, 100);
	race(ANY6, V6, 100);
	race(ANY4, ANY6, 100);
	race(ONLY6, ANY6, 100);
}

/* ---- Chosen ones ---- */

static void blocks_are_apart_and_within_the_range(void **state)
{
	uint16_t bases[40];
	int fds[40];

	(void)state;
	for (int i = 0; i < 40; i++) {
		assert_int_equal(vb_cmport_claim_block(device, SPACE, 0xffffff, &bases[i], &fds[i]),
				 0);
		assert_int_equal(bases[i] % VB_CMPORT_BLOCK, 0);
		assert_true(bases[i] >= 1024);
		assert_true(bases[i] <= 65536 - VB_CMPORT_BLOCK);
		for (int k = 0; k < i; k++)
			assert_int_not_equal(bases[i], bases[k]);
	}
	for (int i = 0; i < 40; i++)
		close(fds[i]);
}

static void a_block_comes_again_when_it_is_free(void **state)
{
	uint16_t first, second, third;
	int fd, other;

	(void)state;
	assert_int_equal(vb_cmport_claim_block(device, SPACE, 5, &first, &fd), 0);
	/* Of another space, the same. */
	assert_int_equal(vb_cmport_claim_block(device, SPACE + 1, 5, &second, &other), 0);
	assert_int_equal(first, second);
	close(other);
	assert_int_equal(vb_cmport_claim_block(device, SPACE, 5, &second, &other), 0);
	assert_int_not_equal(first, second);
	close(fd);
	assert_int_equal(vb_cmport_claim_block(device, SPACE, 5, &third, &fd), 0);
	assert_int_equal(first, third);
	close(fd);
	close(other);
}

static void all_blocks_taken_is_said(void **state)
{
	int fds[1024], n = 0, err = 0, none;
	uint16_t base;

	(void)state;
	while (n < 1024) {
		err = vb_cmport_claim_block(device, SPACE, (uint32_t)n, &base, &fds[n]);
		if (err)
			break;
		n++;
	}
	assert_int_equal(err, -EADDRINUSE);
	assert_true(n > 100);
	close(fds[n / 2]);
	assert_int_equal(vb_cmport_claim_block(device, SPACE, 0, &base, &none), 0);
	close(none);
	for (int i = 0; i < n; i++)
		if (i != n / 2)
			close(fds[i]);
}

/* ---- What is sent to a port ---- */

static void a_message_reaches_who_has_the_port(void **state)
{
	struct vb_cmport port = at(V6, PORT);
	struct sockaddr_un to;
	socklen_t len = vb_cmport_address(device, &port, &to);
	char text[8] = "";
	int fd, sender = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	(void)state;
	assert_true(len <= sizeof(to));
	assert_int_equal(sendto(sender, "hello", 5, 0, (struct sockaddr *)&to, len), -1);
	assert_int_equal(errno, ECONNREFUSED);
	assert_int_equal(vb_cmport_claim(device, &port, &fd), 0);
	assert_int_equal(read(fd, text, sizeof(text)), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(sendto(sender, "hello", 5, 0, (struct sockaddr *)&to, len), 5);
	assert_int_equal(read(fd, text, sizeof(text)), 5);
	assert_string_equal(text, "hello");
	close(fd);
	close(sender);
}

static void the_longest_name_fits(void **state)
{
	struct vb_cmport port = at(V6, 65535);
	struct sockaddr_un to, other;
	char name[80];
	socklen_t len;

	(void)state;
	port.space = 0xffff;
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	len = vb_cmport_address(name, &port, &to);
	assert_true(len <= sizeof(to));
	/* All of the address is in it. */
	port.addr[15] ^= 1;
	assert_int_equal(vb_cmport_address(name, &port, &other), len);
	assert_memory_not_equal(&to, &other, len);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup(f, new_device)
	const struct CMUnitTest tests[] = {
		TEST(conflicts),
		TEST(a_second_claim_fails_where_they_exclude_each_other),
		TEST(three_claims_are_told_apart),
		TEST(a_port_of_another_device_is_found),
		TEST(other_numbers_spaces_and_devices_are_apart),
		TEST(a_failed_claim_leaves_nothing),
		TEST(a_process_that_dies_gives_its_ports_back),
		TEST(two_processes_race),
		TEST(blocks_are_apart_and_within_the_range),
		TEST(a_block_comes_again_when_it_is_free),
		TEST(all_blocks_taken_is_said),
		TEST(a_message_reaches_who_has_the_port),
		TEST(the_longest_name_fits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_TESTS_RSOCKET_BED_H
#define VB_TESTS_RSOCKET_BED_H

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <rdma/rsocket.h>

/* Two rsockets of one process, by way of the loopback address. */

#define SOME_TIME_MS 30000 /* until a test gives up on what must happen */

static inline struct sockaddr_in loopback(int port)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
				    .sin_port = htons((uint16_t)port),
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static inline int port_of(int fd)
{
	struct sockaddr_in addr;
	socklen_t len = sizeof(addr);

	assert_int_equal(rgetsockname(fd, (struct sockaddr *)&addr, &len), 0);
	assert_int_equal(len, sizeof(addr));
	return ntohs(addr.sin_port);
}

static inline int stream(void)
{
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);

	assert_true(fd >= 0);
	return fd;
}

static inline int bound(int type)
{
	struct sockaddr_in addr = loopback(0);
	int fd = rsocket(AF_INET, type, 0);

	assert_true(fd >= 0);
	assert_int_equal(rbind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	return fd;
}

static inline int listener(int backlog)
{
	int fd = bound(SOCK_STREAM);

	assert_int_equal(rlisten(fd, backlog), 0);
	return fd;
}

static inline int connect_to(int fd, int port)
{
	struct sockaddr_in addr = loopback(port);

	return rconnect(fd, (struct sockaddr *)&addr, sizeof(addr));
}

static inline short wait_for(int fd, short events)
{
	struct pollfd poll = {.fd = fd, .events = events};

	assert_int_equal(rpoll(&poll, 1, SOME_TIME_MS), 1);
	return poll.revents;
}

/* ends[0] connected, ends[1] accepted. Buffers of both: as asked for, 0 for the default. */
static inline void connected(int ends[2], int buffer)
{
	int at = listener(5);

	ends[0] = stream();
	if (buffer) {
		for (int i = 0; i < 2; i++) {
			int fd = i ? at : ends[0];

			assert_int_equal(rsetsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, 4), 0);
			assert_int_equal(rsetsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, 4), 0);
		}
	}
	assert_int_equal(connect_to(ends[0], port_of(at)), 0);
	ends[1] = raccept(at, NULL, NULL);
	assert_true(ends[1] >= 0);
	assert_int_equal(rclose(at), 0);
}

static inline void close_both(const int ends[2])
{
	assert_int_equal(rclose(ends[0]), 0);
	assert_int_equal(rclose(ends[1]), 0);
}

static inline void nonblocking(int fd)
{
	assert_int_equal(rfcntl(fd, F_SETFL, O_NONBLOCK), 0);
}

static inline uint8_t pattern(size_t at)
{
	return (uint8_t)(at * 7 + (at >> 8) * 13);
}

static inline void fill(uint8_t *buf, size_t from, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		buf[i] = pattern(from + i);
}

static inline bool right(const uint8_t *buf, size_t from, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (buf[i] != pattern(from + i))
			return false;
	return true;
}

/* Whether the thread of the sockets still runs: it is last to let go of them. */
static inline bool service_runs(void)
{
	char path[300], name[32];
	struct dirent *entry;
	DIR *dir = opendir("/proc/self/task");
	bool runs = false;

	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
		file = fopen(path, "re");
		if (!file)
			continue;
		runs = runs ||
		       (fgets(name, sizeof(name), file) && !strcmp(name, "verbena-rsocket\n"));
		fclose(file);
	}
	closedir(dir);
	return runs;
}

/* All sockets are closed: the descriptors that are left. */
static inline int open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	assert_non_null(dir);
	while (service_runs())
		sched_yield();
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

#endif

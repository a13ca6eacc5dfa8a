/* SPDX-License-Identifier: BSD-2-Clause */
/* What packets between hosts stand on. */
#include "tools/doctor.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ROCE_PORT 4791
/* Less does not hold what one QP may have under way, with what the kernel adds. */
#define LEAST_BUFFER (192 << 10)

static int try_bind(bool v6)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(ROCE_PORT)};
	struct sockaddr_in6 any6 = {.sin6_family = AF_INET6, .sin6_port = htons(ROCE_PORT)};
	int fd = socket(v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), one = 1, err = 0;

	if (fd < 0)
		return errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
	if (v6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	if (v6 ? bind(fd, (struct sockaddr *)&any6, sizeof(any6))
	       : bind(fd, (struct sockaddr *)&any, sizeof(any)))
		err = errno;
	close(fd);
	return err;
}

/* The user and the inode of the socket that has the port; false where the kernel shows none: then
 * it is the kernel's own. */
static bool find_owner(bool v6, unsigned int *uid, unsigned long *inode)
{
	FILE *f = fopen(v6 ? "/proc/net/udp6" : "/proc/net/udp", "re");
	char line[512];
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f)) {
		unsigned int port;

		found = sscanf(line, " %*u: %*[0-9A-Fa-f]:%x %*s %*s %*s %*s %*s %u %*u %lu", &port,
			       uid, inode) == 3 &&
			port == ROCE_PORT && *inode;
	}
	if (f)
		fclose(f);
	return found;
}

static bool has_socket(const char *pid, unsigned long inode)
{
	char path[64 + NAME_MAX], link[64], wanted[64];
	bool found = false;
	struct dirent *e;
	DIR *dir;

	snprintf(wanted, sizeof(wanted), "socket:[%lu]", inode);
	snprintf(path, sizeof(path), "/proc/%.16s/fd", pid);
	dir = opendir(path);
	while (dir && !found && (e = readdir(dir))) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/%.16s/fd/%.16s", pid, e->d_name);
		n = readlink(path, link, sizeof(link) - 1);
		link[n > 0 ? n : 0] = 0;
		found = n > 0 && !strcmp(link, wanted);
	}
	if (dir)
		closedir(dir);
	return found;
}

/* The process that has a socket, where we may know. */
static long find_process(unsigned long inode)
{
	DIR *dir = opendir("/proc");
	struct dirent *e;
	long pid = 0;

	while (dir && !pid && (e = readdir(dir)))
		if (isdigit((unsigned char)e->d_name[0]) && has_socket(e->d_name, inode))
			pid = strtol(e->d_name, NULL, 10);
	if (dir)
		closedir(dir);
	return pid;
}

/* Is there a process of another user that hands over what comes for us? */
static bool others_there(void)
{
	FILE *f = fopen("/proc/net/unix", "re");
	bool found = false;
	char line[512];

	while (f && !found && fgets(line, sizeof(line), f))
		found = strstr(line, " @verbena/") != NULL;
	if (f)
		fclose(f);
	return found;
}

static void taken(bool v6, int err)
{
	const char *ip = v6 ? "IPv6" : "IPv4";
	const char *then = others_there() ? "if it is one of ours, packets come through it"
					  : "the device works within this host";
	unsigned long inode;
	unsigned int uid;
	long pid;

	if (err != EADDRINUSE) {
		doctor_line(DOCTOR_WARN, "%s: %s: the device works within this host", ip,
			    strerror(err));
		return;
	}
	if (!find_owner(v6, &uid, &inode) && !find_owner(!v6, &uid, &inode)) {
		doctor_line(DOCTOR_WARN,
			    "%s: the kernel's RoCE (rdma_rxe) has it; the device works within this "
			    "host",
			    ip);
		return;
	}
	pid = find_process(inode);
	if (pid)
		doctor_line(DOCTOR_WARN, "%s: process %ld of user %u has it; %s", ip, pid, uid,
			    then);
	else
		doctor_line(DOCTOR_WARN, "%s: a process of user %u has it; %s", ip, uid, then);
}

static void show_buffer(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), bytes = 4 << 20;
	socklen_t len = sizeof(bytes);

	if (fd < 0)
		return;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)))
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	if (!getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, &len))
		doctor_line(bytes < LEAST_BUFFER ? DOCTOR_WARN : DOCTOR_OK,
			    "receive buffer of %d KiB%s", bytes >> 10,
			    bytes < LEAST_BUFFER ? ": packets are lost; raise net.core.rmem_max"
						 : "");
	close(fd);
}

void doctor_port(void)
{
	for (int v6 = 0; v6 < 2; v6++) {
		int err = try_bind(v6);

		if (err)
			taken(v6, err);
		else
			doctor_line(DOCTOR_OK, "%s: UDP can be received", v6 ? "IPv6" : "IPv4");
	}
	show_buffer();
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/cmports.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "object/gid.h"

/* Where Linux has none to read. */
#define RANGE_FIRST 32768u
#define RANGE_LAST  60999u

static socklen_t name_length(int len)
{
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

static int put_prefix(const char *device, uint16_t space, uint16_t port, char *name, size_t size)
{
	return snprintf(name, size, "verbena/%.40s/cm/%x/%u/", device, space, port);
}

static const char *any_name(const struct vb_cmport *port)
{
	return !port->v6 ? "4" : port->only6 ? "6only" : "6";
}

socklen_t vb_cmport_address(const char *device, const struct vb_cmport *port,
			    struct sockaddr_un *address)
{
	char *name = address->sun_path + 1;
	const size_t room = sizeof(address->sun_path) - 1;
	int len;

	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	len = put_prefix(device, port->space, port->port, name, room);
	if (port->any)
		return name_length(len +
				   snprintf(name + len, room - (size_t)len, "%s", any_name(port)));
	for (int i = 0; i < 16; i++)
		len += snprintf(name + len, room - (size_t)len, "%02x", port->addr[i]);
	return name_length(len);
}

/* The part of a name that says where. */
static bool parse_where(const char *where, struct vb_cmport *port)
{
	unsigned int byte;

	memset(port, 0, sizeof(*port));
	port->any = true;
	port->only6 = !strcmp(where, "6only");
	port->v6 = port->only6 || !strcmp(where, "6");
	if (port->v6 || !strcmp(where, "4"))
		return true;
	port->any = false;
	if (strlen(where) != 32)
		return false;
	for (int i = 0; i < 16; i++) {
		if (sscanf(where + 2 * i, "%2x", &byte) != 1)
			return false;
		port->addr[i] = (uint8_t)byte;
	}
	port->v6 = !vb_gid_is_v4(port->addr);
	return true;
}

static bool covers(const struct vb_cmport *any, const struct vb_cmport *other)
{
	return any->v6 == other->v6 || (any->v6 && !any->only6);
}

bool vb_cmport_conflict(const struct vb_cmport *a, const struct vb_cmport *b)
{
	if (a->any && b->any)
		return covers(a, b) || covers(b, a);
	if (a->any)
		return covers(a, b);
	if (b->any)
		return covers(b, a);
	return !memcmp(a->addr, b->addr, sizeof(a->addr));
}

static int new_socket(void)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	return fd;
}

static bool taken(int fd, const char *device, const struct vb_cmport *port)
{
	struct sockaddr_un address;
	socklen_t len = vb_cmport_address(device, port, &address);

	return !connect(fd, (struct sockaddr *)&address, len);
}

/* The name in a line of the kernel's list, without what marks it; NULL: it has none. */
static const char *listed_name(char *line)
{
	const char *name = strchr(line, '@');

	line[strcspn(line, "\n")] = '\0';
	return name ? name + 1 : NULL;
}

/* Whoever binds every address has to see those bound at one. Their names are in a list that the
 * kernel shows to everybody; where it cannot be read, a conflict goes unseen. */
static bool conflict_listed(const char *device, const struct vb_cmport *port)
{
	char prefix[108], line[512];
	FILE *list = fopen("/proc/net/unix", "re");
	int seen = 0;

	if (!list)
		return false;
	put_prefix(device, port->space, port->port, prefix, sizeof(prefix));
	while (seen < 2 && fgets(line, sizeof(line), list)) {
		const char *name = listed_name(line);
		struct vb_cmport other;

		if (!name || strncmp(name, prefix, strlen(prefix)) != 0 ||
		    !parse_where(name + strlen(prefix), &other) ||
		    !vb_cmport_conflict(port, &other))
			continue;
		seen++;
	}
	fclose(list);
	/* One of them is ours. */
	return seen > 1;
}

/* Whoever binds one address asks for the three names that mean every address. */
static bool conflict_asked(const char *device, const struct vb_cmport *port)
{
	static const struct vb_cmport anys[] = {
		{.any = true},
		{.any = true, .v6 = true},
		{.any = true, .v6 = true, .only6 = true},
	};
	int fd = new_socket();
	bool found = false;

	for (int i = 0; i < 3 && !found && fd >= 0; i++) {
		struct vb_cmport any = anys[i];

		any.space = port->space;
		any.port = port->port;
		found = vb_cmport_conflict(&any, port) && taken(fd, device, &any);
	}
	if (fd >= 0)
		close(fd);
	return found;
}

int vb_cmport_claim(const char *device, const struct vb_cmport *port, int *fd)
{
	struct sockaddr_un address;
	socklen_t len = vb_cmport_address(device, port, &address);

	*fd = new_socket();
	if (*fd < 0)
		return *fd;
	if (bind(*fd, (struct sockaddr *)&address, len)) {
		int err = -errno;

		close(*fd);
		return err;
	}
	/* Ours is there by now: of two that come at once at least one sees the other. */
	if (port->any ? conflict_listed(device, port) : conflict_asked(device, port)) {
		close(*fd);
		return -EADDRINUSE;
	}
	return 0;
}

/* The part of a name that says where, if it is this port's at another device; else NULL. */
static const char *where_elsewhere(const char *name, const char *device,
				   const struct vb_cmport *port)
{
	char own[108], any[108];
	const char *at;

	put_prefix(device, port->space, port->port, own, sizeof(own));
	put_prefix("", port->space, port->port, any, sizeof(any));
	at = strchr(any, '/') + 1;
	if (!strncmp(name, own, strlen(own)) || strncmp(name, any, (size_t)(at - any)) != 0)
		return NULL;
	name = strchr(name + (at - any), '/');
	return name && !strncmp(name, at, strlen(at)) ? name + strlen(at) : NULL;
}

socklen_t vb_cmport_elsewhere(const char *device, const struct vb_cmport *port,
			      struct sockaddr_un *address)
{
	FILE *list = fopen("/proc/net/unix", "re");
	struct vb_cmport other = {.any = true};
	socklen_t found = 0;
	char line[512];

	/* One at this very address comes before one at every address. */
	while (list && (!found || other.any) && fgets(line, sizeof(line), list)) {
		const char *name = listed_name(line);
		const char *where = name ? where_elsewhere(name, device, port) : NULL;

		if (!where || !parse_where(where, &other) || !vb_cmport_conflict(port, &other) ||
		    strlen(name) >= sizeof(address->sun_path))
			continue;
		memset(address, 0, sizeof(*address));
		address->sun_family = AF_UNIX;
		memcpy(address->sun_path + 1, name, strlen(name));
		found = name_length((int)strlen(name));
	}
	if (list)
		fclose(list);
	return found;
}

static bool parse_range(const char *text, uint32_t *first, uint32_t *last)
{
	char *end;

	*first = (uint32_t)strtoul(text, &end, 10);
	if (end == text)
		return false;
	text = end;
	*last = (uint32_t)strtoul(text, &end, 10);
	return end != text && *first <= *last && *last <= 65535 &&
	       *last - *first >= 2 * VB_CMPORT_BLOCK;
}

static void range(uint32_t *first, uint32_t *last)
{
	int fd = open("/proc/sys/net/ipv4/ip_local_port_range", O_RDONLY | O_CLOEXEC);
	char line[64] = "";
	ssize_t n = fd < 0 ? 0 : read(fd, line, sizeof(line) - 1);

	if (fd >= 0)
		close(fd);
	line[n > 0 ? n : 0] = '\0';
	if (!parse_range(line, first, last)) {
		*first = RANGE_FIRST;
		*last = RANGE_LAST;
	}
}

socklen_t vb_cmport_block_address(const char *device, uint16_t space, uint16_t port,
				  struct sockaddr_un *address)
{
	int len;

	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	len = snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1,
		       "verbena/%.40s/cm/%x/chosen/%u", device, space, port / VB_CMPORT_BLOCK);
	return name_length(len);
}

int vb_cmport_claim_block(const char *device, uint16_t space, uint32_t first, uint16_t *base,
			  int *fd)
{
	struct sockaddr_un address;
	uint32_t low, high, blocks;
	int err = -EADDRINUSE;
	socklen_t len;

	range(&low, &high);
	low = (low + VB_CMPORT_BLOCK - 1) / VB_CMPORT_BLOCK;
	blocks = (high + 1) / VB_CMPORT_BLOCK - low;
	*fd = new_socket();
	if (*fd < 0)
		return *fd;
	for (uint32_t i = 0; i < blocks; i++) {
		*base = (uint16_t)((low + (first + i) % blocks) * VB_CMPORT_BLOCK);
		len = vb_cmport_block_address(device, space, *base, &address);
		if (!bind(*fd, (struct sockaddr *)&address, len))
			return 0;
		err = -errno;
		if (err != -EADDRINUSE)
			break;
	}
	close(*fd);
	return err;
}

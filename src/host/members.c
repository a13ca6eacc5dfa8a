/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/members.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/words.h"

#define LIST "/proc/net/unix"
/* Bytes that may wait in others' sockets on account of one of ours. */
#define PER_SOCKET 64u
/* The longest line that matters: eight columns, and a name. */
#define LINE_BYTES 256u

void vb_members_init(struct vb_members *m, struct vb_adapter *a)
{
	memset(m, 0, sizeof(*m));
	m->adapter = a;
	m->fd = -1;
	pthread_mutex_init(&m->lock, NULL);
	pthread_mutex_init(&m->list_lock, NULL);
}

static void close_socket(struct vb_members *m)
{
	if (m->fd >= 0)
		close(m->fd);
	m->fd = -1;
}

void vb_members_fini(struct vb_members *m)
{
	close_socket(m);
	pthread_mutex_destroy(&m->lock);
	pthread_mutex_destroy(&m->list_lock);
}

void vb_members_forked(struct vb_members *m)
{
	close_socket(m);
}

/* ---- The directory ---- */

socklen_t vb_members_address(const char *device, uint32_t block, struct sockaddr_un *address)
{
	int len;

	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	len = snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1,
		       "verbena/%.64s/mcast/%u", device, block);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

uint32_t vb_members_line(const char *line, const char *device)
{
	const char *name = strrchr(line, '@');
	char prefix[96], *end;
	unsigned long block;
	size_t len;

	len = (size_t)snprintf(prefix, sizeof(prefix), "@verbena/%.64s/mcast/", device);
	if (!name || strncmp(name, prefix, len) || name[len] < '1' || name[len] > '9')
		return 0;
	block = strtoul(name + len, &end, 10);
	return *end || block >= VB_BLOCKS - 1 ? 0 : (uint32_t)block;
}

static void put(uint64_t *set, uint32_t block)
{
	set[block / 64] |= 1ull << block % 64;
}

/* Lines, as many as fit; what is left of the last one moves to the front. */
static size_t take_lines(const struct vb_members *m, uint64_t *set, char *buf, size_t used,
			 bool *skip)
{
	size_t at = 0;
	char *end;

	while ((end = memchr(buf + at, '\n', used - at))) {
		uint32_t block;

		*end = 0;
		block = *skip ? 0 : vb_members_line(buf + at, m->adapter->device);
		*skip = false;
		if (block)
			put(set, block);
		at = (size_t)(end - buf) + 1;
	}
	/* Longer than any of ours: nothing before its end matters. */
	if (used - at > LINE_BYTES) {
		*skip = true;
		return 0;
	}
	memmove(buf, buf + at, used - at);
	return used - at;
}

static int read_once(const struct vb_members *m, uint64_t *set)
{
	int fd = open(LIST, O_RDONLY | O_CLOEXEC);
	bool skip = false;
	char buf[4096];
	size_t used = 0;
	ssize_t n;
	int err;

	if (fd < 0)
		return -errno;
	while ((n = read(fd, buf + used, sizeof(buf) - used)) > 0 || (n < 0 && errno == EINTR))
		if (n > 0)
			used = take_lines(m, set, buf, used + (size_t)n, &skip);
	err = n < 0 ? -errno : 0;
	close(fd);
	return err;
}

/* Under list_lock. Twice: the kernel counts lines to go on where it was, and so leaves one out
 * when a socket before it goes away meanwhile. Where it cannot be read now (no descriptor) what was
 * known holds, and the next one reads. */
static int read_list(struct vb_members *m)
{
	uint64_t set[VB_BLOCKS / 64] = {0};
	int err;

	m->current = false;
	put(m->processes, m->adapter->block[0]);
	put(set, m->adapter->block[0]);
	err = read_once(m, set);
	if (!err)
		err = read_once(m, set);
	if (err)
		return err;
	memcpy(m->processes, set, sizeof(set));
	/* Where others cannot tell us that they came every message reads. */
	m->current = m->fd >= 0;
	return 0;
}

/* Everybody who takes part is to read the list again. */
static int tell_all(struct vb_members *m)
{
	uint32_t told = 0;
	int fd = -1;

	for (uint32_t block = 1; block < VB_BLOCKS; block++) {
		struct sockaddr_un to;
		socklen_t len;

		if (!(m->processes[block / 64] & 1ull << block % 64) ||
		    block == m->adapter->block[0])
			continue;
		if (told++ % PER_SOCKET == 0) {
			if (fd >= 0)
				close(fd);
			fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		}
		if (fd < 0)
			return -errno;
		len = vb_members_address(m->adapter->device, block, &to);
		/* A full queue says the same. */
		if (sendto(fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&to, len) < 0)
			continue;
	}
	if (fd >= 0)
		close(fd);
	return 0;
}

static bool no_descriptor(int err)
{
	return err == -EMFILE || err == -ENFILE;
}

/* Bind the name first, so that whoever comes from then on tells us. */
static int enter(struct vb_members *m)
{
	struct sockaddr_un address;
	socklen_t len = vb_members_address(m->adapter->device, m->adapter->block[0], &address);
	int err;

	m->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	err = m->fd < 0 ? -errno : 0;
	/* Where a name cannot be had the list is read for each message. */
	if (m->fd >= 0 && bind(m->fd, (struct sockaddr *)&address, len))
		close_socket(m);
	if (!no_descriptor(err))
		err = read_list(m);
	if (!no_descriptor(err))
		err = tell_all(m);
	return no_descriptor(err) ? err : 0;
}

int vb_members_enter(struct vb_members *m)
{
	int err = 0;

	pthread_mutex_lock(&m->list_lock);
	if (!m->entered) {
		err = enter(m);
		m->entered = !err;
	}
	/* Who could not tell the others takes no part. */
	if (err)
		close_socket(m);
	pthread_mutex_unlock(&m->list_lock);
	return err;
}

/* Whether somebody came. */
static bool news(struct vb_members *m)
{
	uint8_t byte;
	bool any = false;

	while (recv(m->fd, &byte, sizeof(byte), MSG_DONTWAIT) >= 0)
		any = true;
	return any;
}

void vb_members_processes(struct vb_members *m, uint64_t set[VB_BLOCKS / 64])
{
	pthread_mutex_lock(&m->list_lock);
	if (m->fd < 0 || news(m) || !m->current)
		read_list(m);
	memcpy(set, m->processes, sizeof(m->processes));
	pthread_mutex_unlock(&m->list_lock);
}

void vb_members_gone(struct vb_members *m, uint32_t block)
{
	pthread_mutex_lock(&m->list_lock);
	if (block < VB_BLOCKS && block != m->adapter->block[0])
		m->processes[block / 64] &= ~(1ull << block % 64);
	pthread_mutex_unlock(&m->list_lock);
}

/* ---- Groups ---- */

static bool names(const struct vb_pub_group *g, const uint8_t *gid)
{
	return atomic_load(&g->word) & 1 && !memcmp(g->gid, gid, sizeof(g->gid));
}

/* The row of a group, or -1 and a row that is free, or -1. */
static int find_row(const struct vb_members *m, const uint8_t *gid, int *spare)
{
	*spare = -1;
	for (int i = 0; m->rows && i < (int)VB_MCAST_GROUPS; i++) {
		if (names(&m->rows[i], gid))
			return i;
		if (*spare < 0 && !(atomic_load(&m->rows[i].word) & 1))
			*spare = i;
	}
	return -1;
}

/* The place of a QP in a row, or of a free one (qpn 0), or -1. */
static int find_qp(const struct vb_pub_group *g, uint32_t qpn)
{
	for (int i = 0; i < (int)VB_MCAST_QPS; i++)
		if (atomic_load(&g->qpn[i]) == qpn)
			return i;
	return -1;
}

static int make_rows(struct vb_members *m)
{
	uint64_t at;

	if (m->rows)
		return 0;
	at = vb_adapter_alloc_pub(m->adapter, VB_MCAST_GROUPS * sizeof(*m->rows), 64);
	if (!at)
		return -ENOMEM;
	m->rows = vb_adapter_pub_at(m->adapter, at);
	atomic_store(&m->adapter->pub->groups, at);
	return 0;
}

int vb_members_add(struct vb_members *m, const uint8_t gid[16], uint32_t qpn)
{
	int row, spare, place;
	bool first;

	if (make_rows(m))
		return -ENOMEM;
	row = find_row(m, gid, &spare);
	first = row < 0;
	if (first && spare < 0)
		return -ENOSPC;
	if (first)
		row = spare;
	else if (find_qp(&m->rows[row], qpn) >= 0)
		return -EALREADY;
	place = find_qp(&m->rows[row], 0);
	if (place < 0)
		return -EMLINK;
	if (first)
		vb_group_open(&m->rows[row], gid);
	atomic_store(&m->rows[row].qpn[place], qpn);
	if ((uint64_t)row >= atomic_load(&m->adapter->pub->n_groups))
		atomic_store(&m->adapter->pub->n_groups, (uint64_t)row + 1);
	return first;
}

int vb_members_remove(struct vb_members *m, const uint8_t gid[16], uint32_t qpn)
{
	int spare, row = find_row(m, gid, &spare);
	int place = row < 0 ? -1 : find_qp(&m->rows[row], qpn);

	if (place < 0)
		return -ENOENT;
	atomic_store(&m->rows[row].qpn[place], 0);
	for (uint32_t i = 0; i < VB_MCAST_QPS; i++)
		if (atomic_load(&m->rows[row].qpn[i]))
			return 0;
	vb_group_close(&m->rows[row]);
	return 1;
}

bool vb_members_group(const struct vb_members *m, uint32_t i, uint8_t gid[16])
{
	if (!m->rows || !(atomic_load(&m->rows[i].word) & 1))
		return false;
	memcpy(gid, m->rows[i].gid, 16);
	return true;
}

uint32_t vb_members_of(struct vb_peer *p, const uint8_t gid[16], uint32_t qpns[VB_MCAST_QPS])
{
	uint64_t n = atomic_load(&p->pub->n_groups);
	const struct vb_pub_group *rows;

	if (!n)
		return 0;
	rows = vb_peer_pub_at(p, atomic_load(&p->pub->groups), VB_MCAST_GROUPS * sizeof(*rows));
	if (!rows)
		return 0;
	for (uint64_t i = 0; i < n && i < VB_MCAST_GROUPS; i++) {
		uint32_t found = vb_group_read(&rows[i], gid, qpns);

		if (found)
			return found;
	}
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <rdma/rsocket.h>

#include "base/rules.h"
#include "rdmacm/rsocket/stream.h"

/*
 * Theory of operation
 *
 * riomap() registers memory and, for PROT_WRITE, keeps a place in the peer's table of
 * mappings for it. The entry goes to the peer before whatever is sent next, so who
 * receives that may write. riounmap() takes the registration back; the peer's entry then
 * leads nowhere, and a write through it ends the connection, until the place is used anew.
 */

struct vb_stream_map {
	struct vb_stream_map *next;
	struct ibv_mr *mr;
	uint64_t offset;
	int index; /* place in the peer's table; -1: for this side only */
	bool told;
};

/* The first place of the peer's table that is free; -1: none. */
static int free_place(const struct vb_stream *st)
{
	for (int index = 0; index < st->peer_maps; index++) {
		const struct vb_stream_map *map = st->maps;

		while (map && map->index != index)
			map = map->next;
		if (!map)
			return index;
	}
	return -1;
}

static off_t add_map(struct vb_stream *st, void *buf, size_t len, int prot, off_t offset)
{
	int access = IBV_ACCESS_LOCAL_WRITE | (prot & PROT_WRITE ? IBV_ACCESS_REMOTE_WRITE : 0);
	struct vb_stream_map *map;
	int index = -1;

	if (prot & PROT_WRITE) {
		index = free_place(st);
		if (index < 0)
			return vb_fail_minus1(VB_RULE_RSOCKET_MAPS,
					      "riomap fd=%d: the peer has place for %u", st->rs.fd,
					      st->peer_maps);
	}
	map = calloc(1, sizeof(*map));
	if (!map)
		return -1;
	map->mr = ibv_reg_mr(st->id->pd, buf, len, access);
	if (!map->mr) {
		free(map);
		return -1;
	}
	map->index = index;
	map->offset = offset == -1 ? (uintptr_t)buf : (uint64_t)offset;
	map->told = index < 0;
	map->next = st->maps;
	st->maps = map;
	return (off_t)map->offset;
}

/* A connected stream, or NULL by rule. */
static struct vb_stream *lookup(int fd, const char *what)
{
	struct vb_rs *rs = vb_rs_lookup(fd, what);

	if (!rs)
		return NULL;
	if (rs->kind != VB_RS_STREAM) {
		vb_fail(VB_RULE_RSOCKET_STREAM_ONLY, "%s fd=%d", what, fd);
		vb_rs_put(rs);
		return NULL;
	}
	if (vb_stream_ready(vb_stream_of(rs), what, vb_rs_nonblocking(rs, 0))) {
		vb_rs_put(rs);
		return NULL;
	}
	return vb_stream_of(rs);
}

off_t riomap(int socket, void *buf, size_t len, int prot, int flags, off_t offset)
{
	struct vb_stream *st = lookup(socket, "riomap");
	off_t ret;

	if (!st)
		return -1;
	if ((prot & ~PROT_WRITE) || !len || len > UINT32_MAX || offset < -1) {
		ret = vb_fail_minus1(VB_RULE_RSOCKET_MAP,
				     "riomap fd=%d: len=%zu prot=%#x offset=%ld", socket, len, prot,
				     (long)offset);
	} else {
		pthread_mutex_lock(&st->map_lock);
		ret = add_map(st, buf, len, prot, offset);
		pthread_mutex_unlock(&st->map_lock);
	}
	vb_rs_put(&st->rs);
	return ret;
}

int riounmap(int socket, void *buf, size_t len)
{
	struct vb_stream *st = lookup(socket, "riounmap");
	struct vb_stream_map **at, *map;
	int ret = 0;

	if (!st)
		return -1;
	pthread_mutex_lock(&st->map_lock);
	at = &st->maps;
	while (*at && ((*at)->mr->addr != buf || (*at)->mr->length != len))
		at = &(*at)->next;
	map = *at;
	if (map)
		*at = map->next;
	pthread_mutex_unlock(&st->map_lock);
	if (map) {
		ibv_dereg_mr(map->mr);
		free(map);
	} else {
		ret = vb_fail_minus1(VB_RULE_RSOCKET_UNMAP, "riounmap fd=%d: %p, %zu bytes", socket,
				     buf, len);
	}
	vb_rs_put(&st->rs);
	return ret;
}

void vb_stream_free_maps(struct vb_stream *st)
{
	struct vb_stream_map *map;

	while ((map = st->maps)) {
		st->maps = map->next;
		ibv_dereg_mr(map->mr);
		free(map);
	}
}

static void tell_map(struct vb_stream *st, struct vb_stream_map *map)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.imm_data = htonl(vb_rs_msg(VB_RS_OP_IOMAP, (uint32_t)map->index)),
	};
	struct vb_rs_iomap entry = {
		.offset = st->swap ? __builtin_bswap64(map->offset) : map->offset,
		.sge = {.addr = (uintptr_t)map->mr->addr,
			.key = map->mr->rkey,
			.length = (uint32_t)map->mr->length},
	};

	entry.sge = vb_rs_sge_swap(entry.sge, st->swap);
	/* The peer's table lies behind its target list. */
	wr.wr.rdma.remote_addr = st->peer_targets.addr +
				 st->peer_targets.length * sizeof(struct vb_rs_sge) +
				 (uint64_t)map->index * sizeof(entry);
	wr.wr.rdma.rkey = st->peer_targets.key;
	map->told = true;
	vb_stream_post_ctrl(st, &wr, &entry, sizeof(entry));
}

/* Return: whether all mappings are told; lock held. */
static bool tell_some(struct vb_stream *st)
{
	struct vb_stream_map *map;

	for (;;) {
		for (map = st->maps; map && map->told; map = map->next)
			;
		if (!map || st->state != VB_STREAM_CONNECTED || st->peer_gone)
			return true;
		if (!vb_stream_ctrl_free(st))
			return false;
		tell_map(st, map);
	}
}

int vb_stream_tell_maps(struct vb_stream *st, bool nonblock)
{
	bool all;
	int ret = 0;

	/* A look without the lock: whoever called riomap() here sees what it did. */
	if (!__atomic_load_n(&st->maps, __ATOMIC_RELAXED))
		return 0;
	do {
		pthread_mutex_lock(&st->map_lock);
		pthread_mutex_lock(&st->rs.lock);
		all = tell_some(st);
		pthread_mutex_unlock(&st->map_lock);
		if (!all)
			ret = vb_rs_wait(&st->rs, vb_stream_ctrl_possible, nonblock, 0);
		pthread_mutex_unlock(&st->rs.lock);
	} while (!all && !ret);
	return ret;
}

/* The mapping of the peer's that an offset lies in. Return: bytes from there to its end. */
__attribute__((no_sanitize("thread"))) static uint32_t
find_target(struct vb_stream *st, uint64_t offset, uint64_t *remote, uint32_t *rkey)
{
	volatile struct vb_rs_iomap *entry = vb_stream_target_maps(st);

	for (int i = 0; i < st->rs.conf.iomap_entries; i++, entry++) {
		uint64_t begin = entry->offset, length = entry->sge.length;

		if (offset < begin || offset - begin >= length)
			continue;
		*remote = entry->sge.addr + (offset - begin);
		*rkey = entry->sge.key;
		return (uint32_t)(length - (offset - begin));
	}
	return 0;
}

static ssize_t write_some(struct vb_stream *st, struct vb_rs_cursor *from, size_t bytes,
			  uint64_t offset, bool *nowhere)
{
	struct vb_stream_piece piece = {0};
	size_t done = 0;

	pthread_mutex_lock(&st->rs.tx_lock);
	while (done < bytes) {
		uint32_t most = 0;

		pthread_mutex_lock(&st->rs.lock);
		vb_stream_progress(st);
		if (vb_stream_can_send(st) && st->wr_open && !st->peer_gone) {
			most = find_target(st, offset + done, &piece.remote, &piece.rkey);
			*nowhere = !most;
			if (most > bytes - done)
				most = (uint32_t)(bytes - done);
			if (most)
				vb_stream_take_room(st, most, &piece);
		}
		pthread_mutex_unlock(&st->rs.lock);
		if (!most)
			break;
		if (vb_stream_post(st, from, &piece, vb_rs_msg(VB_RS_OP_WRITE, piece.bytes))) {
			pthread_mutex_lock(&st->rs.lock);
			vb_stream_break(st, ECONNRESET);
			pthread_mutex_unlock(&st->rs.lock);
			break;
		}
		done += piece.bytes;
	}
	pthread_mutex_unlock(&st->rs.tx_lock);
	return (ssize_t)done;
}

static ssize_t write_all(struct vb_stream *st, struct vb_rs_cursor from, size_t bytes,
			 uint64_t offset, bool nonblock)
{
	bool nowhere = false;
	size_t done = 0;
	int ret;

	for (;;) {
		done += (size_t)write_some(st, &from, bytes - done, offset + done, &nowhere);
		if (done == bytes || nowhere)
			return (ssize_t)done;
		pthread_mutex_lock(&st->rs.lock);
		if (!st->wr_open || st->peer_gone || st->state != VB_STREAM_CONNECTED)
			ret = vb_fail_minus1(VB_RULE_RSOCKET_PIPE, "riowrite fd=%d", st->rs.fd);
		else
			ret = vb_rs_wait(&st->rs, vb_stream_writable, nonblock, 0);
		pthread_mutex_unlock(&st->rs.lock);
		if (ret)
			return done ? (ssize_t)done : -1;
	}
}

size_t riowrite(int socket, const void *buf, size_t count, off_t offset, int flags)
{
	struct vb_stream *st = lookup(socket, "riowrite");
	struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = count};
	struct vb_rs_cursor from = {.iov = &iov, .left = 1};
	bool nonblock;
	ssize_t ret = -1;

	if (!st)
		return (size_t)-1;
	nonblock = vb_rs_nonblocking(&st->rs, flags);
	if (!vb_stream_tell_maps(st, nonblock))
		ret = write_all(st, from, count, (uint64_t)offset, nonblock);
	vb_rs_put(&st->rs);
	return (size_t)ret;
}

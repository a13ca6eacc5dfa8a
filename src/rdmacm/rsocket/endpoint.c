/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "rdmacm/rsocket/service.h"
#include "rdmacm/rsocket/stream.h"

static void *map_pages(size_t bytes, size_t *mapped)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return NULL;
	*mapped = bytes;
	return at;
}

/* The program's wishes within what the device has. */
static int fit_device(struct vb_stream *st)
{
	struct vb_rs_conf *conf = &st->rs.conf;
	struct ibv_device_attr attr;
	int err = ibv_query_device(st->id->verbs, &attr);

	if (err) {
		errno = err;
		return -1;
	}
	if (conf->sq_size > attr.max_qp_wr)
		conf->sq_size = vb_rs_queue_size((uint64_t)attr.max_qp_wr);
	if (conf->rq_size > attr.max_qp_wr)
		conf->rq_size = vb_rs_queue_size((uint64_t)attr.max_qp_wr);
	if (conf->sq_size + conf->rq_size > attr.max_cqe) {
		conf->sq_size = vb_rs_queue_size((uint64_t)attr.max_cqe / 2);
		conf->rq_size = conf->sq_size;
	}
	return 0;
}

static int create_cq(struct vb_stream *st)
{
	st->channel = ibv_create_comp_channel(st->id->verbs);
	if (!st->channel)
		return -1;
	/* Who finds it readable may come second. */
	if (fcntl(st->channel->fd, F_SETFL, O_NONBLOCK))
		return -1;
	st->cq = ibv_create_cq(st->id->verbs, st->rs.conf.sq_size + st->rs.conf.rq_size, st,
			       st->channel, 0);
	if (!st->cq)
		return -1;
	st->rs.event_fd = st->channel->fd;
	return 0;
}

static int create_qp(struct vb_stream *st)
{
	struct ibv_qp_init_attr attr;
	uint32_t in_line = st->rs.conf.inline_bytes;

	for (;;) {
		attr = (struct ibv_qp_init_attr){
			.qp_context = st,
			.send_cq = st->cq,
			.recv_cq = st->cq,
			.qp_type = IBV_QPT_RC,
			.sq_sig_all = 1,
			.cap = {.max_send_wr = st->rs.conf.sq_size,
				.max_recv_wr = st->rs.conf.rq_size,
				.max_send_sge = 2,
				.max_recv_sge = 1,
				.max_inline_data = in_line},
		};
		if (!rdma_create_qp(st->id, NULL, &attr))
			break;
		/* Inline data is the one wish whose limit no query tells. */
		if (!in_line)
			return -1;
		in_line /= 2;
	}
	st->inline_bytes = attr.cap.max_inline_data;
	return 0;
}

static int create_buffers(struct vb_stream *st)
{
	const struct vb_rs_conf *conf = &st->rs.conf;
	size_t targets = VB_RS_TARGETS * sizeof(struct vb_rs_sge) +
			 conf->iomap_entries * sizeof(struct vb_rs_iomap);
	size_t sends = conf->sbuf_bytes + VB_RS_CTRL_SLOTS * sizeof(struct vb_rs_iomap);
	int remote = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

	st->messages = calloc(conf->rq_size, sizeof(*st->messages));
	st->sbuf = map_pages(sends, &st->sbuf_mapped);
	st->targets = map_pages(targets, &st->targets_mapped);
	st->rbuf = map_pages(conf->rbuf_bytes, &st->rbuf_mapped);
	if (!st->messages || !st->sbuf || !st->targets || !st->rbuf) {
		errno = ENOMEM;
		return -1;
	}
	st->smr = ibv_reg_mr(st->id->pd, st->sbuf, sends, IBV_ACCESS_LOCAL_WRITE);
	if (st->smr)
		st->target_mr = ibv_reg_mr(st->id->pd, st->targets, targets, remote);
	if (st->target_mr)
		st->rmr = ibv_reg_mr(st->id->pd, st->rbuf, conf->rbuf_bytes, remote);
	return st->rmr ? 0 : -1;
}

static int post_first_receives(struct vb_stream *st)
{
	struct ibv_recv_wr wr = {.wr_id = 1ull << 63}, *bad;
	int err = 0;

	for (int i = 0; i < st->rs.conf.rq_size && !err; i++)
		err = ibv_post_recv(st->id->qp, &wr, &bad);
	if (err)
		errno = err;
	return err ? -1 : 0;
}

int vb_stream_open(struct vb_stream *st)
{
	const struct vb_rs_conf *conf = &st->rs.conf;

	if (fit_device(st) || create_cq(st) || create_qp(st) || create_buffers(st))
		return -1;
	st->sbuf_free = conf->sbuf_bytes;
	st->sq_free = conf->sq_size - VB_RS_CTRL_SLOTS;
	st->free_at = conf->rbuf_bytes / 2;
	st->rbuf_free = conf->rbuf_bytes / 2;
	st->lent = conf->rbuf_bytes / 2;
	st->told = conf->rq_size / 2;
	return post_first_receives(st);
}

static void drop_region(struct ibv_mr **mr, void *at, size_t mapped)
{
	if (*mr)
		ibv_dereg_mr(*mr);
	*mr = NULL;
	if (at)
		munmap(at, mapped);
}

void vb_stream_release(struct vb_stream *st)
{
	vb_stream_free_maps(st);
	if (st->id && st->id->qp)
		vb_rs_service_destroy_qp(&st->rs, st->id);
	if (st->cq) {
		ibv_ack_cq_events(st->cq, st->unacked);
		ibv_destroy_cq(st->cq);
	}
	if (st->channel)
		ibv_destroy_comp_channel(st->channel);
	drop_region(&st->smr, st->sbuf, st->sbuf_mapped);
	drop_region(&st->target_mr, st->targets, st->targets_mapped);
	drop_region(&st->rmr, st->rbuf, st->rbuf_mapped);
	free(st->messages);
	st->messages = NULL;
	st->cq = NULL;
	st->channel = NULL;
	st->sbuf = NULL;
	st->targets = NULL;
	st->rbuf = NULL;
	st->rs.event_fd = -1;
}

void vb_stream_describe(struct vb_stream *st, uint8_t *conn_data)
{
	struct vb_rs_conn conn = {
		.big_endian = __BYTE_ORDER == __BIG_ENDIAN,
		.has_iomap = true,
		.credits = st->rs.conf.rq_size,
		.iomap_entries = st->rs.conf.iomap_entries,
		.target = {.addr = (uintptr_t)st->targets,
			   .key = st->target_mr->rkey,
			   .length = VB_RS_TARGETS},
		.buffer = {.addr = (uintptr_t)st->rbuf,
			   .key = st->rmr->rkey,
			   .length = st->rs.conf.rbuf_bytes / 2},
	};

	vb_rs_conn_pack(&conn, conn_data);
}

bool vb_stream_learn(struct vb_stream *st, const void *data, size_t bytes)
{
	struct vb_rs_conn conn;

	if (!vb_rs_conn_unpack(data, bytes, &conn))
		return false;
	st->swap = conn.big_endian != (__BYTE_ORDER == __BIG_ENDIAN);
	st->peer_targets = conn.target;
	st->peer_target_at = 1 % conn.target.length;
	st->peer_maps = conn.iomap_entries;
	st->may_send = conn.credits;
	vb_stream_targets(st)[0] = conn.buffer;
	return true;
}

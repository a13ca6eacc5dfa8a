/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_TESTS_STRESS_END_H
#define VB_TESTS_STRESS_END_H

/*
 * One end of a workload whose every byte is known: a device, a region of memory, and
 * links (RC queue pairs), each to a link of another end. A round of a link is a chain of
 * requests
 *
 *   WRITE to the peer's inbox, READ it back, FETCH_ADD on the peer's counter, READ of
 *   the peer's fixed text, SEND with the round's number as immediate
 *
 * whose contents follow from the sender's QP number and the round, so both sides
 * can check what they see. Nothing here waits: end_step() does what can be done now.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#define MAX_LINKS 64
#define RECEIVES  8u
#define RECV_BIT  (1ull << 63)
#define STATUSES  32

/* A round's requests, by letter as in the option `ops`. */
enum { OP_WRITE = 1, OP_READBACK = 2, OP_ADD = 4, OP_FIXED = 8, OP_SEND = 16, OP_ALL = 31 };

struct end_options {
	unsigned int links;
	uint32_t size; /* longest message */
	bool memfd;    /* memory that peers can map */
	bool events;   /* the CQ has a channel */
	bool shared;   /* one receive queue for all links */
	unsigned int ops;
	uint64_t rounds; /* per link, 0 without end */
	uint8_t timeout, retry, rnr, gid_index;
};

struct link {
	struct ibv_qp *qp;
	uint8_t *base; /* its part of the memory */
	/* The other end. */
	uint32_t peer_qpn, peer_rkey;
	uint64_t peer_base;
	union ibv_gid peer_gid;

	uint64_t round;		   /* rounds finished */
	uint64_t adds;		   /* of them with a FETCH_ADD */
	unsigned int sends, recvs; /* requests outstanding */
	uint64_t recv_round;	   /* the peer's round that is received next */
	uint64_t begun_ns;
	bool busy, dead;
	int first_send, first_recv; /* first error status */
};

struct end {
	struct end_options opt;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_srq *srq; /* NULL: each link has a receive queue of its own */
	struct ibv_mr *mr;
	uint8_t *mem;
	size_t mem_bytes;
	int mem_fd;
	union ibv_gid gid;
	struct link link[MAX_LINKS];

	uint64_t sent, received, bad;
	uint64_t status[STATUSES];
	uint64_t longest_ns; /* a round */
	char why[160];	     /* the first thing that was wrong */
};

/* ---- What memory holds ---- */

static inline uint64_t end_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t end_mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

static inline uint64_t end_key(uint32_t qpn, uint64_t round, unsigned int what)
{
	return end_mix((uint64_t)qpn << 40 ^ round << 8 ^ what);
}

static inline void end_fill(uint8_t *to, size_t bytes, uint64_t key)
{
	for (size_t i = 0; i < bytes; i += 8) {
		uint64_t word = key += 0x9e3779b97f4a7c15ull;

		memcpy(to + i, &word, bytes - i < 8 ? bytes - i : 8);
	}
}

static inline bool end_is(const uint8_t *from, size_t bytes, uint64_t key)
{
	for (size_t i = 0; i < bytes; i += 8) {
		uint64_t word = key += 0x9e3779b97f4a7c15ull;

		if (memcmp(from + i, &word, bytes - i < 8 ? bytes - i : 8))
			return false;
	}
	return true;
}

/* Lengths around every change of path. */
static inline uint32_t end_length(uint32_t qpn, uint64_t round, unsigned int what, uint32_t size)
{
	static const uint32_t some[] = {1, 8, 31, 32, 33, 256, 1023, 1024, 1025, 4096, 4097, 16384};
	uint64_t pick = end_key(qpn, round, what + 100) % (sizeof(some) / sizeof(some[0]) + 1);
	uint32_t length = pick ? some[pick - 1] : size;

	return length < size ? length : size;
}

/* Parts of a link's memory. */
static inline uint64_t at_inbox(const struct end *e)
{
	return 0;
}

static inline uint64_t at_fixed(const struct end *e)
{
	return e->opt.size;
}

static inline uint64_t at_counter(const struct end *e)
{
	return 2ull * e->opt.size;
}

static inline uint64_t at_old(const struct end *e)
{
	return at_counter(e) + 8;
}

static inline uint64_t at_out(const struct end *e)
{
	return at_counter(e) + 64;
}

static inline uint64_t at_send(const struct end *e)
{
	return at_out(e) + e->opt.size;
}

static inline uint64_t at_back(const struct end *e)
{
	return at_send(e) + e->opt.size;
}

static inline uint64_t at_copy(const struct end *e)
{
	return at_back(e) + e->opt.size;
}

static inline uint64_t at_recv(const struct end *e, unsigned int slot)
{
	return at_copy(e) + (uint64_t)(slot + 1) * e->opt.size;
}

static inline uint64_t link_bytes(const struct end *e)
{
	return (at_recv(e, RECEIVES) + 4095) & ~4095ull;
}

static inline void end_bad(struct end *e, const char *what, unsigned int link, uint64_t value,
			   uint64_t wanted)
{
	if (!e->bad++)
		snprintf(e->why, sizeof(e->why), "%s:link=%u:got=%llu:wanted=%llu", what, link,
			 (unsigned long long)value, (unsigned long long)wanted);
}

/* ---- Making and connecting ---- */

static inline bool link_create(struct end *e, unsigned int i)
{
	struct ibv_qp_init_attr init = {
		.send_cq = e->cq,
		.recv_cq = e->cq,
		.srq = e->srq,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 16,
			.max_recv_wr = RECEIVES,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = 64},
	};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE |
						      IBV_ACCESS_REMOTE_READ |
						      IBV_ACCESS_REMOTE_ATOMIC};
	struct link *l = &e->link[i];

	memset(l, 0, sizeof(*l));
	l->base = e->mem + i * link_bytes(e);
	l->qp = ibv_create_qp(e->pd, &init);
	if (!l->qp)
		return false;
	memset(l->base + at_counter(e), 0, 8);
	end_fill(l->base + at_fixed(e), e->opt.size, end_key(l->qp->qp_num, 0, 9));
	return !ibv_modify_qp(l->qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static inline bool end_memory(struct end *e)
{
	e->mem_bytes = link_bytes(e) * e->opt.links;
	e->mem_fd = -1;
	if (e->opt.memfd) {
		e->mem_fd = memfd_create("workload", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		if (e->mem_fd < 0 || ftruncate(e->mem_fd, (off_t)e->mem_bytes) ||
		    fcntl(e->mem_fd, F_ADD_SEALS, F_SEAL_SHRINK))
			return false;
	}
	e->mem = mmap(NULL, e->mem_bytes, PROT_READ | PROT_WRITE,
		      e->opt.memfd ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, e->mem_fd, 0);
	if (e->mem == MAP_FAILED)
		return false;
	e->mr = ibv_reg_mr(e->pd, e->mem, e->mem_bytes,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	return e->mr != NULL;
}

static inline struct ibv_context *end_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;

	if (list)
		ibv_free_device_list(list);
	return ctx;
}

static inline void end_post_recv(struct end *e, unsigned int i, unsigned int slot)
{
	struct link *l = &e->link[i];
	struct ibv_sge sge = {(uintptr_t)l->base + at_recv(e, slot), e->opt.size, e->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = RECV_BIT | (uint64_t)i << 32 | slot,
				 .sg_list = &sge,
				 .num_sge = 1},
			   *bad;

	if (e->srq ? ibv_post_srq_recv(e->srq, &wr, &bad) : ibv_post_recv(l->qp, &wr, &bad))
		end_bad(e, "post_recv", i, (uint64_t)errno, 0);
	else if (!e->srq)
		l->recvs++;
}

static inline bool end_shared_queue(struct end *e)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = e->opt.links * RECEIVES, .max_sge = 1}};

	e->srq = ibv_create_srq(e->pd, &init);
	for (unsigned int i = 0; e->srq && i < e->opt.links; i++) {
		e->link[i].base = e->mem + i * link_bytes(e);
		for (unsigned int slot = 0; slot < RECEIVES; slot++)
			end_post_recv(e, i, slot);
	}
	return e->srq != NULL;
}

/* NULL, or what failed; errno says why. */
static inline const char *end_open(struct end *e, const struct end_options *opt)
{
	memset(e, 0, sizeof(*e));
	e->opt = *opt;
	e->mem_fd = -1;
	e->ctx = end_device();
	if (!e->ctx)
		return "open_device";
	if (ibv_query_gid(e->ctx, 1, opt->gid_index, &e->gid))
		return "query_gid";
	e->pd = ibv_alloc_pd(e->ctx);
	if (!e->pd)
		return "alloc_pd";
	if (opt->events && !(e->channel = ibv_create_comp_channel(e->ctx)))
		return "create_comp_channel";
	e->cq = ibv_create_cq(e->ctx, (int)opt->links * 32, NULL, e->channel, 0);
	if (!e->cq)
		return "create_cq";
	if (!end_memory(e))
		return "reg_mr";
	if (opt->shared && !end_shared_queue(e))
		return "create_srq";
	for (unsigned int i = 0; i < opt->links; i++)
		if (!link_create(e, i))
			return "create_qp";
	if (e->channel && ibv_req_notify_cq(e->cq, 0))
		return "req_notify_cq";
	return NULL;
}

static inline uint32_t end_psn(uint32_t qpn)
{
	return (uint32_t)end_key(qpn, 0, 77) & 0xffffff;
}

static inline int link_to_rts(struct end *e, struct link *l)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = l->peer_qpn,
		.rq_psn = end_psn(l->peer_qpn),
		.max_dest_rd_atomic = 8,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = l->peer_gid,
				    .sgid_index = e->opt.gid_index,
				    .hop_limit = 64}},
	};
	int err = ibv_modify_qp(l->qp, &attr,
				IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					IBV_QP_MIN_RNR_TIMER);

	if (err)
		return err;
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = e->opt.timeout;
	attr.retry_cnt = e->opt.retry;
	attr.rnr_retry = e->opt.rnr;
	attr.sq_psn = end_psn(l->qp->qp_num);
	attr.max_rd_atomic = 8;
	return ibv_modify_qp(l->qp, &attr,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

/* The link's peer_* fields are filled. */
static inline int link_connect(struct end *e, unsigned int i)
{
	int err = link_to_rts(e, &e->link[i]);

	for (unsigned int slot = 0; !err && !e->srq && slot < RECEIVES; slot++)
		end_post_recv(e, i, slot);
	return err;
}

static inline void end_close(struct end *e)
{
	for (unsigned int i = 0; i < e->opt.links; i++)
		if (e->link[i].qp && ibv_destroy_qp(e->link[i].qp))
			end_bad(e, "destroy_qp", i, (uint64_t)errno, 0);
	if ((e->srq && ibv_destroy_srq(e->srq)) || (e->mr && ibv_dereg_mr(e->mr)) ||
	    (e->cq && ibv_destroy_cq(e->cq)) ||
	    (e->channel && ibv_destroy_comp_channel(e->channel)) ||
	    (e->pd && ibv_dealloc_pd(e->pd)) || (e->ctx && ibv_close_device(e->ctx)))
		end_bad(e, "close", 0, (uint64_t)errno, 0);
	if (e->mem && e->mem != MAP_FAILED)
		munmap(e->mem, e->mem_bytes);
	if (e->mem_fd >= 0)
		close(e->mem_fd);
}

/* ---- The workload ---- */

static inline struct ibv_send_wr *link_add(struct end *e, struct link *l, struct ibv_send_wr *wr,
					   struct ibv_sge *sge, unsigned int *n, unsigned int what)
{
	struct ibv_send_wr *now = &wr[*n];

	memset(now, 0, sizeof(*now));
	now->wr_id = (uint64_t)(l - e->link) << 32 | what;
	now->sg_list = &sge[*n];
	now->num_sge = 1;
	now->send_flags = IBV_SEND_SIGNALED;
	now->wr.rdma.rkey = l->peer_rkey;
	sge[*n].lkey = e->mr->lkey;
	if (*n)
		wr[*n - 1].next = now;
	++*n;
	return now;
}

static inline void link_add_onesided(struct end *e, struct link *l, struct ibv_send_wr *wr,
				     struct ibv_sge *sge, unsigned int *n)
{
	uint32_t qpn = l->qp->qp_num, length = end_length(qpn, l->round, 1, e->opt.size);
	struct ibv_send_wr *now;

	if (e->opt.ops & OP_WRITE) {
		end_fill(l->base + at_out(e), length, end_key(qpn, l->round, 1));
		now = link_add(e, l, wr, sge, n, OP_WRITE);
		now->opcode = IBV_WR_RDMA_WRITE;
		now->wr.rdma.remote_addr = l->peer_base + at_inbox(e);
		*now->sg_list =
			(struct ibv_sge){(uintptr_t)l->base + at_out(e), length, e->mr->lkey};
	}
	if (e->opt.ops & OP_READBACK) {
		now = link_add(e, l, wr, sge, n, OP_READBACK);
		now->opcode = IBV_WR_RDMA_READ;
		now->wr.rdma.remote_addr = l->peer_base + at_inbox(e);
		*now->sg_list =
			(struct ibv_sge){(uintptr_t)l->base + at_back(e), length, e->mr->lkey};
	}
	if (e->opt.ops & OP_ADD) {
		now = link_add(e, l, wr, sge, n, OP_ADD);
		now->opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
		now->wr.atomic.remote_addr = l->peer_base + at_counter(e);
		now->wr.atomic.compare_add = 1;
		now->wr.atomic.rkey = l->peer_rkey;
		*now->sg_list = (struct ibv_sge){(uintptr_t)l->base + at_old(e), 8, e->mr->lkey};
	}
	if (e->opt.ops & OP_FIXED) {
		now = link_add(e, l, wr, sge, n, OP_FIXED);
		now->opcode = IBV_WR_RDMA_READ;
		now->wr.rdma.remote_addr = l->peer_base + at_fixed(e);
		*now->sg_list =
			(struct ibv_sge){(uintptr_t)l->base + at_copy(e),
					 end_length(qpn, l->round, 2, e->opt.size), e->mr->lkey};
	}
}

/* Begin a round. */
static inline void link_begin(struct end *e, struct link *l)
{
	struct ibv_send_wr wr[8], *now, *bad;
	struct ibv_sge sge[8];
	unsigned int n = 0;
	uint32_t qpn = l->qp->qp_num;
	int err;

	link_add_onesided(e, l, wr, sge, &n);
	if (e->opt.ops & OP_SEND) {
		uint32_t length = end_length(qpn, l->round, 3, e->opt.size);

		end_fill(l->base + at_send(e), length, end_key(qpn, l->round, 3));
		now = link_add(e, l, wr, sge, &n, OP_SEND);
		now->opcode = IBV_WR_SEND_WITH_IMM;
		now->imm_data = htonl((uint32_t)l->round);
		*now->sg_list =
			(struct ibv_sge){(uintptr_t)l->base + at_send(e), length, e->mr->lkey};
	}
	l->begun_ns = end_now();
	l->sends += n;
	l->busy = true;
	err = ibv_post_send(l->qp, wr, &bad);
	if (err)
		end_bad(e, "post_send", (unsigned int)(l - e->link), (uint64_t)err, 0);
}

/* All requests of a round are done: is what came back right? */
static inline void link_finish(struct end *e, struct link *l)
{
	uint32_t qpn = l->qp->qp_num;
	unsigned int i = (unsigned int)(l - e->link);
	uint64_t took = end_now() - l->begun_ns, old;

	l->busy = false;
	if (took > e->longest_ns)
		e->longest_ns = took;
	if ((e->opt.ops & (OP_WRITE | OP_READBACK)) == (OP_WRITE | OP_READBACK) &&
	    !end_is(l->base + at_back(e), end_length(qpn, l->round, 1, e->opt.size),
		    end_key(qpn, l->round, 1)))
		end_bad(e, "readback", i, l->round, 0);
	memcpy(&old, l->base + at_old(e), 8);
	if (e->opt.ops & OP_ADD && old != l->adds++)
		end_bad(e, "fetch_add", i, old, l->adds - 1);
	if (e->opt.ops & OP_FIXED &&
	    !end_is(l->base + at_copy(e), end_length(qpn, l->round, 2, e->opt.size),
		    end_key(l->peer_qpn, 0, 9)))
		end_bad(e, "fixed", i, l->round, 0);
	l->round++;
	e->sent++;
}

static inline void end_failed(struct end *e, struct link *l, const struct ibv_wc *wc, bool recv)
{
	int *first = recv ? &l->first_recv : &l->first_send;

	e->status[wc->status < STATUSES ? wc->status : STATUSES - 1]++;
	l->dead = true;
	if (!*first)
		*first = (int)wc->status;
}

/* The link a receive came in by; with a shared queue its buffer is another link's. */
static inline struct link *link_of(struct end *e, const struct ibv_wc *wc)
{
	for (unsigned int i = 0; i < e->opt.links; i++)
		if (e->link[i].qp && e->link[i].qp->qp_num == wc->qp_num)
			return &e->link[i];
	return NULL;
}

static inline void end_recv(struct end *e, struct link *owner, const struct ibv_wc *wc)
{
	struct link *l = e->srq ? link_of(e, wc) : owner;
	unsigned int i = (unsigned int)(owner - e->link), slot = (uint32_t)wc->wr_id;
	uint32_t length;

	if (!l || slot >= RECEIVES || (!e->srq && !l->recvs--)) {
		end_bad(e, "recv_doubled", i, slot, wc->qp_num);
		return;
	}
	if (wc->status) {
		end_failed(e, l, wc, true);
		if (e->srq)
			end_post_recv(e, i, slot);
		return;
	}
	length = end_length(l->peer_qpn, l->recv_round, 3, e->opt.size);
	if (!(wc->wc_flags & IBV_WC_WITH_IMM) || ntohl(wc->imm_data) != (uint32_t)l->recv_round)
		end_bad(e, "recv_order", i, ntohl(wc->imm_data), l->recv_round);
	else if (wc->byte_len != length)
		end_bad(e, "recv_length", i, wc->byte_len, length);
	else if (!end_is(owner->base + at_recv(e, slot), length,
			 end_key(l->peer_qpn, l->recv_round, 3)))
		end_bad(e, "recv_content", i, l->recv_round, 0);
	l->recv_round++;
	e->received++;
	if (e->srq || !l->dead)
		end_post_recv(e, i, slot);
}

static inline void end_completion(struct end *e, const struct ibv_wc *wc)
{
	unsigned int i = (uint32_t)(wc->wr_id >> 32) & 0x7fffffff;
	struct link *l = &e->link[i];

	if (i >= e->opt.links) {
		end_bad(e, "wr_id", i, wc->wr_id, 0);
		return;
	}
	if (wc->wr_id & RECV_BIT) {
		end_recv(e, l, wc);
		return;
	}
	if (!l->sends--) {
		end_bad(e, "send_doubled", i, wc->wr_id, 0);
		l->sends = 0;
		return;
	}
	if (wc->status)
		end_failed(e, l, wc, false);
	else if (!l->sends && l->busy && !l->dead)
		link_finish(e, l);
}

static inline bool link_wants(const struct end *e, const struct link *l)
{
	return !l->busy && !l->dead && l->peer_qpn && e->opt.ops &&
	       (!e->opt.rounds || l->round < e->opt.rounds);
}

/* Begin what can begin, take what has completed. Returns completions taken, -1 on error. */
static inline int end_step(struct end *e)
{
	struct ibv_wc wc[16];
	int n;

	for (unsigned int i = 0; i < e->opt.links; i++)
		if (link_wants(e, &e->link[i]))
			link_begin(e, &e->link[i]);
	n = ibv_poll_cq(e->cq, 16, wc);
	for (int i = 0; i < n; i++)
		end_completion(e, &wc[i]);
	return n;
}

/* Every link has done its rounds, or is dead and has nothing outstanding. */
static inline bool end_finished(const struct end *e)
{
	for (unsigned int i = 0; i < e->opt.links; i++) {
		const struct link *l = &e->link[i];

		if (!l->peer_qpn)
			continue;
		if (l->dead ? l->sends || l->recvs : l->busy || link_wants(e, l))
			return false;
	}
	return true;
}

#endif

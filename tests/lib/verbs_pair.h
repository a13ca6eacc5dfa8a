/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_TESTS_VERBS_PAIR_H
#define VB_TESTS_VERBS_PAIR_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

/*
 * Two RC QPs connected to each other. The end called `a` is the test's own; what the
 * end `b` does is asked of it by pair_call(), in the same process or in another one,
 * so that a test is written once and runs both ways. All functions end the test
 * (tests/lib/child.h, CHECK) where something fails that the test does not ask about.
 */

#define PAIR_SPANS 32
#define PAIR_GUARD 64u
#define PAIR_FILL  0xc5

/* A call that waits gives up after this long; no test measures it. */
#define PAIR_PATIENCE_S 60

/* Without holes: it is sent to the other process as it is. */
struct pair_opts {
	int gid_index;
	uint32_t sends, recvs, sges, inline_bytes;
	int cqe;
	unsigned int access; /* qp_access_flags */
	enum ibv_mtu mtu;
	uint32_t psn; /* first of either end; b counts from psn + 1000 */
	bool sig_all;
	bool channel; /* the CQs have a completion channel */
	bool same_cq; /* one CQ for sends and receives */
	bool wr_api;  /* made with send_ops_flags */
	uint8_t timeout, retry_cnt, rnr_retry, rnr_timer, rd_atomic, dest_rd_atomic;
	uint8_t unused[2];
};

extern const struct pair_opts pair_defaults;

struct verbs_end {
	struct pair_opts opts;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_qp *qp;
	struct ibv_qp_ex *qpx; /* opts.wr_api */
	union ibv_gid gid;
	uint32_t psn;
};

struct span {
	uint64_t off, len;
};

enum mem_kind {
	MEM_ANON,      /* private, unaligned by a few bytes */
	MEM_SHARED,    /* a memfd, MAP_SHARED */
	MEM_STATIC,    /* of the program's data segment */
	MEM_STACK,     /* of a frame that stays */
	MEM_ANON_PAGE, /* private, at a page's start: for iova and zero-based keys */
	MEM_KINDS
};

/* Registered memory with guard bytes on both sides. */
struct test_mem {
	uint8_t *base; /* first payload byte */
	uint64_t length;
	enum mem_kind kind;
	void *map;
	uint64_t map_bytes;
	struct ibv_mr *mr;
	uint64_t start; /* what SGEs and peers call the first byte */
};

/* What is asked of end b. */
enum pair_op {
	PAIR_MEM_NEW,	/* kind, length, access, zero_based or iova */
	PAIR_MEM_FILL,	/* mem, spans, seed; without spans the whole with PAIR_FILL */
	PAIR_MEM_CHECK, /* mem, spans, seed: ret 0 when spans hold the pattern, all else the fill */
	PAIR_MEM_PEEK,	/* mem, value: offset; gives the 8 bytes there in `value` */
	PAIR_MEM_HIDE,	/* mem of MEM_ANON_PAGE: nothing is behind its whole pages any more */
	PAIR_MEM_DEREG, /* mem: the keys only */
	PAIR_MEM_FREE,	/* mem */
	PAIR_POST_RECV, /* wr_id, mem, spans; lkey where not 0 */
	PAIR_WAIT_RECV, /* gives wc */
	PAIR_NO_RECV,	/* ret: entries found by a look */
	PAIR_STATE,	/* ret: state as ibv_query_qp tells */
	PAIR_MODIFY, /* value: RESET, INIT, RTR, RTS, ERR, SQD with the attributes that it needs */
	PAIR_EVENT,  /* waits for an asynchronous event, acknowledges it: ret its type, qp_num */
	PAIR_NO_EVENT, /* ret: 1 where one waits */
	PAIR_HELLO,    /* gives qp_num, gid, psn */
	PAIR_CONNECT,  /* qp_num, gid, psn of end a */
	PAIR_QUIT,
};

struct pair_req {
	enum pair_op op;
	int mem;
	enum mem_kind kind;
	uint64_t length;
	unsigned int access;
	bool zero_based, other_pd;
	uint64_t iova;
	uint64_t value;
	uint64_t wr_id;
	uint32_t lkey;
	int seed;
	int n;
	struct span spans[PAIR_SPANS];
	uint32_t qp_num, psn;
	union ibv_gid gid;
	struct pair_opts opts;
};

struct pair_rep {
	int ret;
	int mem;
	uint64_t addr; /* what a peer calls the first byte */
	uint32_t lkey, rkey;
	uint64_t value;
	struct ibv_wc wc;
	uint32_t qp_num, psn;
	union ibv_gid gid;
};

struct verbs_pair {
	struct verbs_end a;
	struct verbs_end b; /* in one process only */
	bool two;	    /* b lives in another process */
	int pid, fd;
	uint32_t b_qpn;
	union ibv_gid b_gid;
	uint32_t b_psn;
};

#define PAIR_STACK_BYTES (128u << 10)

/** pair_main() - Serve as end b where this process was started for that
 * @frame:  PAIR_STACK_BYTES of main's own frame, for MEM_STACK
 * Context: first thing in main(); returns in the test itself only
 */
void pair_main(int argc, char **argv, uint8_t *frame);

/** pair_stack() - Part of it */
void pair_stack(uint8_t *frame);

/** pair_create() - Both ends in RTS
 * @two:    b in a process of its own, else in a second context of this one
 */
void pair_create(struct verbs_pair *pair, const struct pair_opts *opts, bool two);

/** pair_create_raw() - Both ends in RESET and each knowing the other */
void pair_create_raw(struct verbs_pair *pair, const struct pair_opts *opts, bool two);

/** pair_destroy() - Everything, checked; memory of end b is freed with it */
void pair_destroy(struct verbs_pair *pair);

/** pair_kill_b() - SIGKILL the process of end b; end_close(&pair->a) is what is left to do */
void pair_kill_b(struct verbs_pair *pair);

/** pair_call() - Ask end b */
struct pair_rep pair_call(struct verbs_pair *pair, const struct pair_req *req);

/* Short forms of it. */
struct pair_rep pair_b(struct verbs_pair *pair, enum pair_op op);
struct pair_rep pair_b_mem(struct verbs_pair *pair, enum mem_kind kind, uint64_t length,
			   unsigned int access);
int pair_b_recv(struct verbs_pair *pair, uint64_t wr_id, int mem, const struct span *spans, int n);
int pair_b_modify(struct verbs_pair *pair, enum ibv_qp_state state);

/** end_open() - Context, PD, CQs and a QP in RESET */
void end_open(struct verbs_end *end, const struct pair_opts *opts);
/** end_objects() - The same in a context that is open */
void end_objects(struct verbs_end *end, const struct pair_opts *opts, struct ibv_context *context);
/** end_close() - The opposite, each call checked to return 0 */
void end_close(struct verbs_end *end);
/** end_objects_close() - The same without the context */
void end_objects_close(struct verbs_end *end);

/* Transitions with exactly the attributes required; the value of ibv_modify_qp. */
int end_init(struct verbs_end *end);
int end_rtr(struct verbs_end *end, uint32_t qpn, const union ibv_gid *gid, uint32_t psn);
int end_rts(struct verbs_end *end);
int end_state(struct verbs_end *end, enum ibv_qp_state state);
/** end_query() - The state ibv_query_qp tells */
enum ibv_qp_state end_query(struct verbs_end *end);
/** end_self() - Connect a QP in RESET to itself, up to RTS */
void end_self(struct verbs_end *end);

/* Attributes that are right for a transition, and the bits required. */
int attr_init(const struct verbs_end *end, struct ibv_qp_attr *attr);
int attr_rtr(const struct verbs_end *end, struct ibv_qp_attr *attr, uint32_t qpn,
	     const union ibv_gid *gid, uint32_t psn);
int attr_rts(const struct verbs_end *end, struct ibv_qp_attr *attr);

struct ibv_context *open_verbs(void);

/** mem_new() - Registered memory between guards, filled with PAIR_FILL */
void mem_new(struct test_mem *mem, struct ibv_pd *pd, enum mem_kind kind, uint64_t length,
	     unsigned int access);
void mem_free(struct test_mem *mem);
/** mem_hide() - Take away what is behind the whole pages of MEM_ANON_PAGE; nobody else gets them */
void mem_hide(struct test_mem *mem);
/** mem_fill() - Spans one after the other with the pattern of a seed; none: all, PAIR_FILL */
void mem_fill(struct test_mem *mem, const struct span *spans, int n, int seed);
/** mem_holds() - Spans hold the pattern, everything else the fill, the guards stand */
bool mem_holds(const struct test_mem *mem, const struct span *spans, int n, int seed);
/** mem_sges() - Spans as scatter/gather elements */
void mem_sges(const struct test_mem *mem, const struct span *spans, int n, struct ibv_sge *sges);
uint8_t pattern_byte(int seed, uint64_t i);

/** split() - A length as n unequal spans with gaps between them
 * Return:  bytes of memory that they span
 */
uint64_t split(struct span *spans, int n, uint64_t length);

/** wait_wc() - Poll for one completion; ends the test after PAIR_PATIENCE_S */
void wait_wc(struct ibv_cq *cq, struct ibv_wc *wc);
/** no_wc() - A thousand looks find nothing */
bool no_wc(struct ibv_cq *cq);
/** wait_readable() - poll(2) until a descriptor can be read; ends the test if it never can */
void wait_readable(int fd);
/** readable() - Whether it can be read now */
bool readable(int fd);
/** wait_event() - An asynchronous event, acknowledged */
int wait_event(struct ibv_context *context, struct ibv_async_event *event);

int post_recv(struct verbs_end *end, uint64_t wr_id, struct ibv_sge *sges, int n);
int post_send(struct verbs_end *end, uint64_t wr_id, struct ibv_sge *sges, int n,
	      unsigned int flags);
int post_rdma(struct verbs_end *end, enum ibv_wr_opcode opcode, uint64_t wr_id,
	      struct ibv_sge *sges, int n, uint64_t remote_addr, uint32_t rkey, unsigned int flags);

uint64_t clock_ns(void);

#endif

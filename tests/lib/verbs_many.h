/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_TESTS_VERBS_MANY_H
#define VB_TESTS_VERBS_MANY_H

#include "lib/child.h"
#include "lib/verbs_pair.h"

/*
 * QPs of every type on the ends of verbs_pair.h, and senders in processes of their own.
 * Messages say who sent them and which one they are, so that a receiver can tell what
 * was lost, doubled, overtaken or mixed up.
 */

#define MANY_QKEY  0x11111111u
#define MANY_GRH   40u
#define MANY_HEAD  8u /* sender and number, in front of a message's pattern */
#define MANY_SLOTS 1024u

/* Receive buffers, one slot each; wr_id is the slot. */
struct slots {
	uint8_t *bytes;
	struct ibv_mr *mr;
	uint32_t size; /* of one */
	uint32_t count;
};

/* What a receiver counted. */
struct tally {
	uint32_t next[64]; /* by sender: the number expected */
	uint32_t got;
	uint32_t gaps; /* numbers that were skipped */
};

/** many_open() - An end whose QP is of a type, in RESET */
void many_open(struct verbs_end *end, enum ibv_qp_type type, const struct pair_opts *opts);
/** many_qp() - One more QP on an end's objects; it receives from @srq where not NULL */
struct ibv_qp *many_qp(const struct verbs_end *end, enum ibv_qp_type type, struct ibv_srq *srq);
/** many_up() - The end's QP to RTS: UD with MANY_QKEY, else connected */
void many_up(struct verbs_end *end, uint32_t qpn, const union ibv_gid *gid, uint32_t psn);
int many_init(struct verbs_end *end);
int many_rtr(struct verbs_end *end, uint32_t qpn, const union ibv_gid *gid, uint32_t psn);
int many_rts(struct verbs_end *end);

struct ibv_ah *many_ah(struct ibv_pd *pd, int sgid_index, const union ibv_gid *dgid);
struct ibv_srq *many_srq(struct ibv_pd *pd, uint32_t max_wr);
int post_srq(struct ibv_srq *srq, uint64_t wr_id, struct ibv_sge *sges, int n);
/** post_ud() - A datagram; the immediate is wr_id */
int post_ud(struct verbs_end *end, enum ibv_wr_opcode opcode, uint64_t wr_id, struct ibv_sge *sges,
	    int n, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey, unsigned int flags);

void slots_new(struct slots *slots, struct ibv_pd *pd, uint32_t size, uint32_t count);
void slots_free(struct slots *slots);
struct ibv_sge slots_sge(const struct slots *slots, uint64_t slot);

/** message_make() - Write a message of `size` bytes, at least MANY_HEAD */
void message_make(uint8_t *to, uint32_t sender, uint32_t number, uint32_t size);
/** message_count() - Check a message and count it; ends the test when it is not right
 * A number below the one expected came twice or late.
 */
void message_count(struct tally *tally, const uint8_t *from, uint32_t size);

/* ---- Senders in other processes ---- */

enum order_op {
	ORDER_OPEN,    /* type, sender; gives qpn, gid, psn */
	ORDER_CONNECT, /* qpn, gid, psn: to RTS */
	ORDER_SEND,    /* count messages of size from number on; to qpn, gid (UD), or with
			* opcode to addr, rkey; ret: status */
	ORDER_QUIT,
};

struct order {
	enum order_op op;
	enum ibv_qp_type type;
	uint32_t sender, qpn, psn, first, count, size;
	union ibv_gid gid;
	int gid_index;
	enum ibv_wr_opcode opcode;
	uint64_t addr;
	uint32_t rkey, unused;
};

struct remote {
	int pid, fd;
	struct order facts; /* answer to ORDER_OPEN */
};

/** many_main() - Serve as a sender where this process was started for that
 * Context: first thing in main(); returns in the test itself only
 */
void many_main(int argc, char **argv);

/** remote_start() - A process that has opened a QP
 * @step:   VERBENA_TEST_STEP of it, or NULL
 */
void remote_start(struct remote *remote, uint32_t sender, enum ibv_qp_type type, const char *step);
void remote_say(struct remote *remote, const struct order *order);
/** remote_hear() - The answer's ret; the process must be alive to give it */
uint32_t remote_hear(struct remote *remote);
uint32_t remote_ask(struct remote *remote, const struct order *order);
/** remote_send() - Have it send without waiting for the answer */
void remote_send(struct remote *remote, const struct verbs_end *to, uint32_t first, uint32_t count,
		 uint32_t size);
/** remote_connect() - RC and UC: both ends to RTS */
void remote_connect(struct remote *remote, struct verbs_end *end);
/** remote_stopped() - Wait until its step stopped it, or killed it: true when killed */
bool remote_stopped(struct remote *remote);
void remote_resume(struct remote *remote);
void remote_kill(struct remote *remote);
void remote_quit(struct remote *remote);

/* What happens to a process, and at which step. */
struct hurt {
	const char *step, *action; /* VERBENA_TEST_STEP; "stop" or "kill" */
};

/** hurt_each() - Run a test in a child for every step
 * @test:   Gets a struct hurt
 * Return:  how many failed
 */
int hurt_each(void (*test)(void *hurt), const char *const *steps, size_t n, const char *action);

/** CASE_IN_CHILD() - A test in a process of its own, so that each begins anew */
#define CASE_IN_CHILD(body)                                                                        \
	static void test_##body(void **state)                                                      \
	{                                                                                          \
		assert_int_equal(run_in_child(body, NULL), 0);                                     \
	}

#endif

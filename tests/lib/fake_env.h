/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_TESTS_FAKE_ENV_H
#define VB_TESTS_FAKE_ENV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/env.h"
#include "transport/rc_sq.h"

/*
 * Memory, keys, receives and completions of one endpoint, in plain arrays. Failures
 * are set in fields; what was done is counted.
 */

#define FAKE_KEYS  8
#define FAKE_RECVS 256
#define FAKE_WQES  256

struct fake_recv {
	uint64_t wr_id;
	uint8_t *buf; /* owned by the test */
	uint64_t length;
	bool sges_ok;
};

struct fake_env {
	/* Remotely accessible: address base + i is mem[i]. Owned by the test. */
	uint8_t *mem;
	uint64_t base;
	size_t size;
	struct vb_key keys[FAKE_KEYS]; /* rkey 0: empty */
	/* Receive queue, counted by indices that only grow */
	struct fake_recv recvs[FAKE_RECVS];
	uint32_t recv_head, recv_tail;
	bool peeks; /* a receive is only looked at when taken: completing it takes it */
	/* Completions of receives */
	struct vb_recv_completion done[FAKE_RECVS];
	uint64_t done_id[FAKE_RECVS];
	uint32_t ndone;
	/* Local buffers of the send queue, by ring index */
	uint8_t *local[FAKE_WQES];
	uint64_t local_len[FAKE_WQES];
	bool local_bad[FAKE_WQES];
	/* What to answer instead of doing it */
	enum vb_take take; /* anything but VB_TAKE_OK */
	enum vb_copy copy; /* anything but VB_COPY_OK */
	enum vb_copy scatter;
	bool complete_fails;
	/* Counters */
	uint32_t lookups, takes, copies_in, copies_out, atomics, invalidates, scatters;
};

/* ctx is a struct fake_env. A message's payload is plain bytes. */
extern const struct vb_resp_env fake_resp_env;
extern const struct vb_req_env fake_req_env;

/** fake_init() - Empty, with memory of the caller at an address */
void fake_init(struct fake_env *env, uint8_t *mem, uint64_t base, size_t size);

/** fake_key() - Add a key over a part of the memory
 * Return:  the key's facts, to be changed by the test
 */
struct vb_key *fake_key(struct fake_env *env, uint32_t rkey, uint32_t pd, uint32_t access,
			uint64_t start, uint64_t length);

/** fake_post_recv() - Post a receive */
void fake_post_recv(struct fake_env *env, uint64_t wr_id, uint8_t *buf, uint64_t length);

#endif

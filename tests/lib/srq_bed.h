/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_TESTS_SRQ_BED_H
#define VB_TESTS_SRQ_BED_H

/* What the tests of shared receive queues begin with: one SRQ with an RC QP on it that is
 * connected to itself. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/rule.h"
#include "lib/verbs_many.h"

#define DEEP 16u

__attribute__((
	unused)) static struct verbs_end end; /* end.qp: RC, on the SRQ, connected to itself */
__attribute__((unused)) static struct slots in;
__attribute__((unused)) static struct ibv_srq *srq;

static inline void open_raw(uint32_t max_wr)
{
	struct pair_opts opts = pair_defaults;

	opts.cqe = 4096;
	opts.retry_cnt = 1;
	many_open(&end, IBV_QPT_RC, &opts);
	CHECK(ibv_destroy_qp(end.qp) == 0);
	srq = many_srq(end.pd, max_wr);
	slots_new(&in, end.pd, 2048, MANY_SLOTS);
	end.qp = many_qp(&end, IBV_QPT_RC, srq);
}

static inline void open_up(uint32_t max_wr)
{
	open_raw(max_wr);
	end_self(&end);
}

static inline void close_end(void)
{
	if (end.qp)
		CHECK(ibv_destroy_qp(end.qp) == 0);
	end.qp = NULL;
	CHECK(ibv_destroy_srq(srq) == 0);
	slots_free(&in);
	end_close(&end);
}

static inline void post_slot(uint64_t slot)
{
	struct ibv_sge sge = slots_sge(&in, slot);

	CHECK(post_srq(srq, slot, &sge, 1) == 0);
}

static inline void post_slots(uint64_t first, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		post_slot(first + i);
}

/* One more RC QP on the SRQ, connected to itself. */
static inline struct verbs_end one_more(void)
{
	struct verbs_end more = end;

	more.qp = many_qp(&end, IBV_QPT_RC, srq);
	end_self(&more);
	return more;
}

static inline void sent(enum ibv_wc_status status)
{
	struct ibv_wc wc;

	wait_wc(end.send_cq, &wc);
	CHECK(wc.status == status);
}

static inline void send_to_self(struct verbs_end *from, uint32_t sender, uint32_t number)
{
	struct ibv_sge sge = slots_sge(&in, MANY_SLOTS - 1);

	sge.length = 100;
	message_make(in.bytes + (MANY_SLOTS - 1) * in.size, sender, number, sge.length);
	CHECK(post_send(from, number, &sge, 1, IBV_SEND_SIGNALED) == 0);
	sent(IBV_WC_SUCCESS);
}

/* The next arrival, and its slot posted again. */
static inline uint64_t receive(struct tally *tally, bool again)
{
	struct ibv_wc wc;
	uint32_t skip;

	wait_wc(end.recv_cq, &wc);
	CHECK(wc.status == IBV_WC_SUCCESS);
	skip = wc.wc_flags & IBV_WC_GRH ? MANY_GRH : 0;
	message_count(tally, in.bytes + wc.wr_id * in.size + skip, wc.byte_len - skip);
	if (again)
		post_slot(wc.wr_id);
	return wc.wr_id;
}

static inline uint32_t limit_of(void)
{
	struct ibv_srq_attr attr;

	CHECK(ibv_query_srq(srq, &attr) == 0);
	return attr.srq_limit;
}

static inline int arm(uint32_t limit)
{
	struct ibv_srq_attr attr = {.srq_limit = limit};

	return ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT);
}

static inline bool event_waits(void)
{
	return readable(end.context->async_fd);
}

static inline void want_event(enum ibv_event_type type, void *element)
{
	struct ibv_async_event event;

	CHECK(wait_event(end.context, &event) == (int)type);
	CHECK(event.element.srq == element);
}

/* Exactly `count` messages find a receive. */
static inline void has_receives(uint32_t count, uint32_t sender, struct tally *tally)
{
	struct verbs_end more = end;
	struct pair_opts opts = end.opts;

	for (uint32_t i = 0; i < count; i++)
		send_to_self(&end, sender, i);
	opts.rnr_retry = 0;
	more.opts = opts;
	more.qp = many_qp(&end, IBV_QPT_RC, srq);
	end_self(&more);
	CHECK(post_send(&more, 1, NULL, 0, IBV_SEND_SIGNALED) == 0);
	sent(IBV_WC_RNR_RETRY_EXC_ERR);
	want_event(IBV_EVENT_QP_LAST_WQE_REACHED, more.qp);
	CHECK(ibv_destroy_qp(more.qp) == 0);
	for (uint32_t i = 0; i < count; i++)
		receive(tally, false);
	CHECK(no_wc(end.recv_cq));
}

#endif

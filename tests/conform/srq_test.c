/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared receive queues: rules, order, limits, events. */
#include "lib/srq_bed.h"

/* ---- Rules ---- */

static void create_fails(uint32_t max_wr, uint32_t max_sge)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = max_wr, .max_sge = max_sge}};

	errno = 0;
	CHECK(!ibv_create_srq(end.pd, &init) && errno == EINVAL);
	CHECK(init.attr.max_wr == max_wr && init.attr.max_sge == max_sge);
	CHECK(rule_said("create-srq-size"));
}

static void create_ex_fails(uint32_t mask, enum ibv_srq_type type, int err, const char *rule)
{
	struct ibv_srq_init_attr_ex ex = {.attr = {.max_wr = 4, .max_sge = 1},
					  .comp_mask = mask,
					  .srq_type = type,
					  .pd = end.pd,
					  .cq = end.recv_cq};

	errno = 0;
	CHECK(!ibv_create_srq_ex(end.context, &ex) && errno == err);
	CHECK(rule_said(rule));
}

static void creation(void *arg)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 5, .max_sge = 2, .srq_limit = 4},
					 .srq_context = &end};
	struct ibv_srq_init_attr_ex ex = {.attr = {.max_wr = 3, .max_sge = 1},
					  .comp_mask =
						  IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
					  .srq_type = IBV_SRQT_BASIC};
	struct ibv_srq_attr attr;
	struct ibv_device_attr dev;
	struct ibv_srq *more;
	uint32_t number;

	rule_log_start();
	open_raw(DEEP);
	CHECK(ibv_query_device(end.context, &dev) == 0);
	CHECK(dev.max_srq > 0 && dev.max_srq_wr > 0 && dev.max_srq_sge > 0);
	create_fails(0, 1);
	create_fails((uint32_t)dev.max_srq_wr + 1, 1);
	create_fails(UINT32_MAX, 1);
	create_fails(1, (uint32_t)dev.max_srq_sge + 1);
	create_ex_fails(IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD, IBV_SRQT_XRC, EOPNOTSUPP,
			"create-srq-type");
	create_ex_fails(IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD, IBV_SRQT_TM, EOPNOTSUPP,
			"create-srq-type");
	create_ex_fails(1u << 20 | IBV_SRQ_INIT_ATTR_PD, IBV_SRQT_BASIC, EOPNOTSUPP,
			"create-srq-type");
	create_ex_fails(IBV_SRQ_INIT_ATTR_TYPE, IBV_SRQT_BASIC, EINVAL, "create-qp-pd");
	/* What is given back is there; a limit at creation is none. */
	more = ibv_create_srq(end.pd, &init);
	CHECK(more && more->srq_context == &end && more->pd == end.pd &&
	      more->context == end.context);
	CHECK(ibv_query_srq(more, &attr) == 0);
	CHECK(attr.max_wr == init.attr.max_wr && attr.max_wr >= 5);
	CHECK(attr.max_sge == init.attr.max_sge && attr.max_sge >= 2);
	CHECK(attr.srq_limit == 0);
	CHECK(ibv_get_srq_num(more, &number) == EINVAL);
	CHECK(rule_said("srq-number"));
	CHECK(ibv_destroy_srq(more) == 0);
	ex.pd = end.pd;
	more = ibv_create_srq_ex(end.context, &ex);
	CHECK(more && ex.attr.max_wr >= 3);
	CHECK(ibv_destroy_srq(more) == 0);
	init.attr = (struct ibv_srq_attr){.max_wr = (uint32_t)dev.max_srq_wr,
					  .max_sge = (uint32_t)dev.max_srq_sge};
	more = ibv_create_srq(end.pd, &init);
	CHECK(more);
	CHECK(ibv_destroy_srq(more) == 0);
	close_end();
}
CASE_IN_CHILD(creation)

static void limits(void *arg)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq *more;

	rule_log_start();
	setenv("VERBENA_MAX_SRQ", "2", 1);
	open_raw(DEEP);
	for (int i = 0; i < 3; i++) {
		more = many_srq(end.pd, 4);
		errno = 0;
		CHECK(!ibv_create_srq(end.pd, &init) && errno == ENOMEM);
		CHECK(i || rule_said("srq-limit"));
		CHECK(ibv_destroy_srq(more) == 0);
	}
	close_end();
}
CASE_IN_CHILD(limits)

static void with_qps(void *arg)
{
	struct ibv_qp_init_attr init = {.send_cq = end.send_cq, .qp_type = IBV_QPT_UC};
	struct ibv_qp_attr attr;
	struct ibv_recv_wr wr = {.wr_id = 1}, *bad = NULL;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_qp *qp;

	rule_log_start();
	open_raw(DEEP);
	init.send_cq = init.recv_cq = end.recv_cq;
	init.srq = srq;
	init.cap = (struct ibv_qp_cap){1, UINT32_MAX, 1, UINT32_MAX, 0};
	errno = 0;
	CHECK(!ibv_create_qp(end.pd, &init) && errno == EINVAL);
	CHECK(rule_said("create-qp-srq"));
	/* For the others the receive side of cap means nothing. */
	for (int i = 0; i < 2; i++) {
		init.qp_type = i ? IBV_QPT_UD : IBV_QPT_RC;
		init.cap = (struct ibv_qp_cap){1, UINT32_MAX, 1, UINT32_MAX, 0};
		qp = ibv_create_qp(end.pd, &init);
		CHECK(qp && qp->srq == srq);
		CHECK(ibv_query_qp(qp, &attr, IBV_QP_CAP, &init) == 0 && init.srq == srq);
		CHECK(ibv_destroy_srq(srq) == EBUSY);
		CHECK(i || rule_said("busy"));
		CHECK(ibv_post_recv(qp, &wr, &bad) == EINVAL && bad == &wr);
		CHECK(i || rule_said("post-recv-srq"));
		CHECK(ibv_destroy_qp(qp) == 0);
	}
	context = open_verbs();
	pd = ibv_alloc_pd(context);
	init.qp_type = IBV_QPT_RC;
	init.send_cq = init.recv_cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	errno = 0;
	CHECK(!ibv_create_qp(pd, &init) && errno == EINVAL);
	CHECK(rule_said("other-context"));
	CHECK(ibv_destroy_cq(init.send_cq) == 0 && ibv_dealloc_pd(pd) == 0);
	CHECK(ibv_close_device(context) == 0);
	/* An SRQ keeps its PD. */
	pd = ibv_alloc_pd(end.context);
	struct ibv_srq *more = many_srq(pd, 4);

	CHECK(ibv_dealloc_pd(pd) == EBUSY);
	CHECK(ibv_destroy_srq(more) == 0 && ibv_dealloc_pd(pd) == 0);
	close_end();
}
CASE_IN_CHILD(with_qps)

static void modify(void *arg)
{
	struct ibv_srq_attr attr = {.srq_limit = 3, .max_wr = 1000000}, now;

	rule_log_start();
	open_up(DEEP);
	post_slots(0, DEEP);
	CHECK(ibv_modify_srq(srq, &attr, 1 << 9) == EINVAL);
	CHECK(rule_said("modify-srq-mask"));
	CHECK(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT | 4) == EINVAL && limit_of() == 0);
	CHECK(ibv_query_srq(srq, &now) == 0);
	CHECK(arm(now.max_wr + 1) == EINVAL && limit_of() == 0);
	CHECK(rule_said("modify-srq-limit"));
	CHECK(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT | IBV_SRQ_MAX_WR) != 0 && limit_of() == 0);
	CHECK(arm(7) == 0 && limit_of() == 7);
	CHECK(arm(now.max_wr + 1) == EINVAL && limit_of() == 7);
	CHECK(arm(0) == 0 && limit_of() == 0);
	CHECK(ibv_modify_srq(srq, &attr, 0) == 0);
	CHECK(!event_waits());
	close_end();
}
CASE_IN_CHILD(modify)

/* Case 40: as many as the new size says, with what was posted before. */
static void resized(void *arg)
{
	struct ibv_srq_attr attr, now;
	struct tally tally = {.got = 0};
	struct ibv_device_attr dev;
	struct ibv_sge sge;

	rule_log_start();
	open_up(DEEP);
	CHECK(ibv_query_device(end.context, &dev) == 0);
	post_slots(0, 10);
	attr = (struct ibv_srq_attr){.max_wr = 9, .srq_limit = 3};
	CHECK(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) == EINVAL);
	CHECK(rule_said("modify-srq-size"));
	attr.max_wr = (uint32_t)dev.max_srq_wr + 1;
	CHECK(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) == EINVAL);
	CHECK(rule_said("modify-srq-size"));
	attr.max_wr = 0;
	CHECK(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR) == EINVAL);
	attr = (struct ibv_srq_attr){.max_wr = 30, .srq_limit = 31};
	CHECK(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) == EINVAL);
	CHECK(ibv_query_srq(srq, &now) == 0 && now.max_wr == DEEP && now.srq_limit == 0);
	for (int up = 0; up < 2; up++) {
		attr = (struct ibv_srq_attr){.max_wr = up ? 30 : 10, .srq_limit = 7};
		CHECK(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR | (up ? IBV_SRQ_LIMIT : 0)) == 0);
		CHECK(ibv_query_srq(srq, &now) == 0 && now.max_wr >= attr.max_wr);
		CHECK(now.srq_limit == (up ? 7 : 0));
		if (up)
			post_slots(10, 20);
		sge = slots_sge(&in, 100);
		CHECK(post_srq(srq, 100, &sge, 1) == ENOMEM);
	}
	CHECK(arm(0) == 0);
	has_receives(30, 0, &tally);
	close_end();
}
CASE_IN_CHILD(resized)

static void post_errors(void *arg)
{
	struct ibv_recv_wr list[DEEP + 4], *bad;
	struct tally tally = {.got = 0};
	struct ibv_sge sges[DEEP + 8];

	rule_log_start();
	open_up(DEEP);
	for (uint32_t i = 0; i < DEEP + 8; i++)
		sges[i] = slots_sge(&in, i);
	/* The third of a list is bad: the two before it are posted, the ones behind are not. */
	for (uint32_t i = 0; i < DEEP + 4; i++)
		list[i] = (struct ibv_recv_wr){
			.wr_id = i,
			.next = i < DEEP + 3 ? &list[i + 1] : NULL,
			.sg_list = &sges[i],
			.num_sge = i == 2 ? 5 : 1,
		};
	bad = NULL;
	CHECK(ibv_post_srq_recv(srq, list, &bad) == EINVAL && bad == &list[2]);
	CHECK(rule_said("post-srq-sge"));
	list[2].num_sge = -1;
	bad = NULL;
	CHECK(ibv_post_srq_recv(srq, &list[2], &bad) == EINVAL && bad == &list[2]);
	/* A list longer than the queue ends where it is full, and so does one without an end. */
	list[2].num_sge = 1;
	bad = NULL;
	CHECK(ibv_post_srq_recv(srq, &list[2], &bad) == ENOMEM && bad == &list[DEEP]);
	CHECK(rule_said("post-srq-full"));
	for (uint32_t i = 0; i < 3; i++) {
		send_to_self(&end, 0, i);
		CHECK(receive(&tally, false) == i);
	}
	list[0].next = &list[0];
	CHECK(ibv_post_srq_recv(srq, &list[0], &bad) == ENOMEM && bad == &list[0]);
	/* Exactly as many as it said. */
	for (uint32_t i = 3; i < DEEP + 3; i++) {
		send_to_self(&end, 0, i);
		CHECK(receive(&tally, false) == (i < DEEP ? i : 0));
	}
	has_receives(0, 1, &tally);
	close_end();
}
CASE_IN_CHILD(post_errors)

/* ---- Messages ---- */

/* QPs of both types take from one queue, in the order of the messages. */
static void mixed(void *arg)
{
	struct tally tally = {.got = 0};
	struct verbs_end rc[3], ud;
	struct ibv_sge sge;
	struct ibv_ah *ah;
	struct ibv_wc wc;
	uint64_t slot = 0;

	open_up(DEEP);
	for (int i = 0; i < 3; i++)
		rc[i] = one_more();
	ud = end;
	ud.qp = many_qp(&end, IBV_QPT_UD, srq);
	many_up(&ud, 0, NULL, 0);
	ah = many_ah(end.pd, end.opts.gid_index, &end.gid);
	post_slots(0, DEEP);
	sge = slots_sge(&in, MANY_SLOTS - 2);
	sge.length = 64;
	for (uint32_t round = 0; round < 50; round++) {
		for (uint32_t i = 0; i < 3; i++)
			send_to_self(&rc[i], i, round);
		message_make(in.bytes + (MANY_SLOTS - 2) * in.size, 3, round, 64);
		CHECK(post_ud(&ud, IBV_WR_SEND, 0, &sge, 1, ah, ud.qp->qp_num, MANY_QKEY,
			      IBV_SEND_SIGNALED) == 0);
		sent(IBV_WC_SUCCESS);
		for (uint32_t i = 0; i < 4; i++) {
			wait_wc(end.recv_cq, &wc);
			uint32_t skip = wc.wc_flags & IBV_WC_GRH ? MANY_GRH : 0;

			CHECK(wc.status == IBV_WC_SUCCESS);
			CHECK(!skip == (wc.qp_num != ud.qp->qp_num));
			message_count(&tally, in.bytes + wc.wr_id * in.size + skip,
				      wc.byte_len - skip);
			post_slot(wc.wr_id);
			slot |= 1ull << wc.wr_id;
		}
	}
	CHECK(tally.got == 200 && !tally.gaps && slot == (1ull << DEEP) - 1);
	CHECK(ibv_destroy_ah(ah) == 0 && ibv_destroy_qp(ud.qp) == 0);
	for (int i = 0; i < 3; i++)
		CHECK(ibv_destroy_qp(rc[i].qp) == 0);
	close_end();
}
CASE_IN_CHILD(mixed)

/* RC and UD senders in six processes; few receives at a time. RC loses nothing. */
static void many_processes(void *arg)
{
	struct remote remote[6];
	struct verbs_end ends[6];
	struct tally tally = {.got = 0};
	uint32_t rc = 0;
	struct ibv_wc wc;

	open_up(DEEP);
	post_slots(0, DEEP);
	for (uint32_t i = 0; i < 6; i++) {
		enum ibv_qp_type type = i < 4 ? IBV_QPT_RC : IBV_QPT_UD;

		remote_start(&remote[i], i, type, NULL);
		ends[i] = end;
		ends[i].qp = many_qp(&end, type, srq);
		if (type == IBV_QPT_RC)
			remote_connect(&remote[i], &ends[i]);
		else
			many_up(&ends[i], 0, NULL, 0);
	}
	for (uint32_t i = 0; i < 6; i++)
		remote_send(&remote[i], &ends[i], 0, 300, 50 + 150 * i);
	while (rc < 4 * 300) {
		wait_wc(end.recv_cq, &wc);
		uint32_t skip = wc.wc_flags & IBV_WC_GRH ? MANY_GRH : 0;

		CHECK(wc.status == IBV_WC_SUCCESS);
		message_count(&tally, in.bytes + wc.wr_id * in.size + skip, wc.byte_len - skip);
		post_slot(wc.wr_id);
		rc += !skip;
	}
	for (uint32_t i = 0; i < 6; i++)
		CHECK(remote_hear(&remote[i]) == 0);
	for (int i = 0; i < 4; i++)
		CHECK(tally.next[i] == 300);
	while (ibv_poll_cq(end.recv_cq, 1, &wc) == 1)
		post_slot(wc.wr_id);
	for (uint32_t i = 0; i < 6; i++) {
		remote_quit(&remote[i]);
		CHECK(ibv_destroy_qp(ends[i].qp) == 0);
	}
	/* Every receive is there. */
	memset(&tally, 0, sizeof(tally));
	for (uint32_t i = 0; i < DEEP; i++)
		send_to_self(&end, 9, i);
	for (uint32_t i = 0; i < DEEP; i++)
		receive(&tally, false);
	close_end();
}
CASE_IN_CHILD(many_processes)

/* Receives are of the SRQ's PD, what a peer writes to is of the QP's. */
static void domains(void *arg)
{
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_sge sge;
	struct ibv_srq *other;
	struct verbs_end more;
	struct ibv_wc wc;
	uint64_t start;
	uint32_t rkey;

	open_up(DEEP);
	pd = ibv_alloc_pd(end.context);
	mr = ibv_reg_mr(pd, in.bytes, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	CHECK(pd && mr);
	other = many_srq(pd, 4);
	more = end;
	for (int good = 1; good >= 0; good--) {
		more.qp = many_qp(&end, IBV_QPT_RC, other);
		end_self(&more);
		sge = (struct ibv_sge){(uintptr_t)in.bytes, 2048, good ? mr->lkey : in.mr->lkey};
		CHECK(post_srq(other, 5, &sge, 1) == 0);
		sge = slots_sge(&in, 9);
		sge.length = 64;
		CHECK(post_send(&more, 1, &sge, 1, IBV_SEND_SIGNALED) == 0);
		sent(good ? IBV_WC_SUCCESS : IBV_WC_REM_OP_ERR);
		wait_wc(end.recv_cq, &wc);
		CHECK(wc.wr_id == 5 && wc.status == (good ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR));
		CHECK(ibv_destroy_qp(more.qp) == 0);
	}
	/* WRITE with immediate: the target's key is of the PD of the QP, the receive has none. */
	start = (uintptr_t)in.bytes;
	for (int good = 1; good >= 0; good--) {
		struct ibv_mr *own = ibv_reg_mr(end.pd, in.bytes, 4096,
						IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

		rkey = good ? own->rkey : mr->rkey;
		more.qp = many_qp(&end, IBV_QPT_RC, other);
		end_self(&more);
		CHECK(post_srq(other, 6, NULL, 0) == 0);
		CHECK(post_rdma(&more, IBV_WR_RDMA_WRITE_WITH_IMM, 1, &sge, 1, start, rkey,
				IBV_SEND_SIGNALED) == 0);
		sent(good ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
		if (good) {
			wait_wc(end.recv_cq, &wc);
			CHECK(wc.wr_id == 6 && wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM);
			CHECK(wc.status == IBV_WC_SUCCESS && wc.byte_len == 64);
		}
		CHECK(ibv_destroy_qp(more.qp) == 0);
		CHECK(ibv_dereg_mr(own) == 0);
	}
	CHECK(ibv_destroy_srq(other) == 0);
	CHECK(ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(pd) == 0);
	close_end();
}
CASE_IN_CHILD(domains)

/* ---- Events ---- */

/* Case 40: one event an arming, when there are fewer than the limit. */
static void limit_event(void *arg)
{
	struct tally tally = {.got = 0};
	uint32_t number = 0;

	rule_log_start();
	open_up(DEEP);
	post_slots(0, 10);
	CHECK(arm(5) == 0);
	while (number < 5)
		send_to_self(&end, 0, number++);
	CHECK(!event_waits() && limit_of() == 5);
	send_to_self(&end, 0, number++);
	want_event(IBV_EVENT_SRQ_LIMIT_REACHED, srq);
	CHECK(rule_said("srq-limit-disarmed"));
	CHECK(limit_of() == 0);
	while (number < 9)
		send_to_self(&end, 0, number++);
	CHECK(!event_waits());
	while (tally.got < 9)
		receive(&tally, true);
	/* Ten again: nothing by itself, and no event of old. */
	CHECK(!event_waits());
	for (int round = 0; round < 20; round++) {
		CHECK(arm(9) == 0);
		CHECK(!event_waits());
		send_to_self(&end, 0, number++);
		CHECK(!event_waits() && limit_of() == 9);
		send_to_self(&end, 0, number++);
		want_event(IBV_EVENT_SRQ_LIMIT_REACHED, srq);
		for (int i = 0; i < 2; i++)
			receive(&tally, true);
		CHECK(!event_waits());
	}
	/* Disarmed. */
	CHECK(arm(9) == 0 && arm(0) == 0);
	for (int i = 0; i < 4; i++)
		send_to_self(&end, 0, number++);
	CHECK(!event_waits() && limit_of() == 0);
	close_end();
}
CASE_IN_CHILD(limit_event)

/* Armed when there are fewer already: posting gives no event, the next message does. */
static void limit_below(void *arg)
{
	struct tally tally = {.got = 0};

	open_up(DEEP);
	CHECK(arm(8) == 0);
	post_slots(0, 4);
	CHECK(!event_waits() && limit_of() == 8);
	send_to_self(&end, 0, 0);
	want_event(IBV_EVENT_SRQ_LIMIT_REACHED, srq);
	receive(&tally, false);
	/* And posting more of them at once does not hide that there were fewer. */
	post_slots(4, 8);
	for (uint32_t i = 1; i < 200; i++) {
		CHECK(arm(11) == 0);
		send_to_self(&end, 0, i);
		receive(&tally, true);
		want_event(IBV_EVENT_SRQ_LIMIT_REACHED, srq);
	}
	CHECK(!event_waits());
	close_end();
}
CASE_IN_CHILD(limit_below)

static void last_wqe(void *arg)
{
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR}, reset = {.qp_state = IBV_QPS_RESET};
	struct tally tally = {.got = 0};
	struct verbs_end more, plain;
	struct ibv_wc wc;
	uint64_t slot;

	open_up(DEEP);
	post_slots(0, DEEP);
	more = one_more();
	plain = end;
	plain.qp = many_qp(&end, IBV_QPT_RC, NULL);
	end_self(&plain);
	CHECK(post_recv(&plain, 77, NULL, 0) == 0);
	send_to_self(&more, 0, 0);
	CHECK(ibv_modify_qp(more.qp, &err, IBV_QP_STATE) == 0);
	want_event(IBV_EVENT_QP_LAST_WQE_REACHED, more.qp);
	CHECK(ibv_modify_qp(more.qp, &err, IBV_QP_STATE) == 0);
	CHECK(!event_waits());
	/* What had arrived is there; what others may still take was not flushed. */
	slot = receive(&tally, false);
	CHECK(slot == 0 && no_wc(end.recv_cq));
	for (uint32_t i = 0; i + 1 < DEEP; i++)
		send_to_self(&end, 1, i);
	for (uint32_t i = 0; i + 1 < DEEP; i++)
		receive(&tally, false);
	CHECK(no_wc(end.recv_cq));
	/* The one without an SRQ flushes and says nothing of the kind. */
	CHECK(ibv_modify_qp(plain.qp, &err, IBV_QP_STATE) == 0);
	wait_wc(end.recv_cq, &wc);
	CHECK(wc.wr_id == 77 && wc.status == IBV_WC_WR_FLUSH_ERR);
	CHECK(!event_waits());
	/* Again after RESET, and for a QP that failed by itself. */
	CHECK(ibv_modify_qp(more.qp, &reset, IBV_QP_STATE) == 0);
	end_self(&more);
	CHECK(post_send(&more, 1, &(struct ibv_sge){0, 8, 1}, 1, 0) == 0);
	sent(IBV_WC_LOC_PROT_ERR);
	want_event(IBV_EVENT_QP_LAST_WQE_REACHED, more.qp);
	CHECK(!event_waits());
	CHECK(ibv_destroy_qp(more.qp) == 0 && ibv_destroy_qp(plain.qp) == 0);
	close_end();
}
CASE_IN_CHILD(last_wqe)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_creation),    cmocka_unit_test(test_limits),
		cmocka_unit_test(test_with_qps),    cmocka_unit_test(test_modify),
		cmocka_unit_test(test_resized),	    cmocka_unit_test(test_post_errors),
		cmocka_unit_test(test_mixed),	    cmocka_unit_test(test_many_processes),
		cmocka_unit_test(test_domains),	    cmocka_unit_test(test_limit_event),
		cmocka_unit_test(test_limit_below), cmocka_unit_test(test_last_wqe),
	};

	many_main(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

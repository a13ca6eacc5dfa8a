/* SPDX-License-Identifier: BSD-2-Clause */
/* Faults on demand that a program sees as events and states: of the link, of a peer, of the device.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/rule.h"
#include "lib/verbs_many.h"

static struct verbs_pair pair;

static void start(const char *faults)
{
	struct pair_opts opts = pair_defaults;

	CHECK(!setenv("VERBENA_FAULTS", faults, 1));
	rule_log_start();
	opts.timeout = 12;
	pair_create(&pair, &opts, false);
}

static void send_empty(uint64_t id)
{
	CHECK(pair_b_recv(&pair, id, 0, NULL, 0) == 0);
	CHECK(post_send(&pair.a, id, NULL, 0, IBV_SEND_SIGNALED) == 0);
}

/* What a fault waits for: no repetition of what was sent before it counts. */
static void rdma_empty(enum ibv_wr_opcode opcode, uint64_t id)
{
	CHECK(post_rdma(&pair.a, opcode, id, NULL, 0, 0, 0, IBV_SEND_SIGNALED) == 0);
}

static void ends(struct ibv_cq *cq, uint64_t id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	wait_wc(cq, &wc);
	CHECK(wc.wr_id == id && wc.status == status);
}

/* Both ends' contexts hear of it. */
static void hear(enum ibv_event_type type)
{
	struct ibv_async_event event;

	CHECK(wait_event(pair.a.context, &event) == (int)type);
	CHECK(type == IBV_EVENT_DEVICE_FATAL || event.element.port_num == 1);
	CHECK(wait_event(pair.b.context, &event) == (int)type);
}

static enum ibv_port_state port_state(void)
{
	struct ibv_port_attr port;

	CHECK(ibv_query_port(pair.a.context, 1, &port) == 0);
	CHECK(port.phys_state == (port.state == IBV_PORT_ACTIVE ? 5 : 2));
	return port.state;
}

/* Down until the second repetition: nothing is lost for good. */
static void link_until_up(void *arg)
{
	start("down=#1,opcode=write,ms=60000;up=#3,opcode=write");
	for (uint64_t id = 1; id < 3; id++) {
		send_empty(id);
		ends(pair.a.send_cq, id, IBV_WC_SUCCESS);
	}
	CHECK(port_state() == IBV_PORT_ACTIVE && !readable(pair.a.context->async_fd));
	rdma_empty(IBV_WR_RDMA_WRITE, 3);
	hear(IBV_EVENT_PORT_ERR);
	hear(IBV_EVENT_PORT_ACTIVE);
	ends(pair.a.send_cq, 3, IBV_WC_SUCCESS);
	CHECK(port_state() == IBV_PORT_ACTIVE && !readable(pair.a.context->async_fd));
	for (uint64_t id = 1; id < 3; id++)
		ends(pair.b.recv_cq, id, IBV_WC_SUCCESS);
	pair_destroy(&pair);
}
CASE_IN_CHILD(link_until_up)

/* Both events however short it is; and where nobody polls. */
static void link_for_a_moment(void *arg)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};

	start("down=#1,opcode=write,ms=1;down=#1,opcode=read,ms=1");
	for (int i = 0; i < 2; i++) {
		send_empty(1);
		ends(pair.a.send_cq, 1, IBV_WC_SUCCESS);
		rdma_empty(opcodes[i], 2);
		hear(IBV_EVENT_PORT_ERR);
		hear(IBV_EVENT_PORT_ACTIVE);
		/* The repetition is not dropped. */
		ends(pair.a.send_cq, 2, IBV_WC_SUCCESS);
	}
	pair_destroy(&pair);
}
CASE_IN_CHILD(link_for_a_moment)

/* While it is down the port says so, and requests end as on a dead link. */
static void link_down(void *arg)
{
	start("down=#1,opcode=send,ms=60000");
	send_empty(1);
	hear(IBV_EVENT_PORT_ERR);
	CHECK(port_state() == IBV_PORT_DOWN);
	ends(pair.a.send_cq, 1, IBV_WC_RETRY_EXC_ERR);
	CHECK(port_state() == IBV_PORT_DOWN && !readable(pair.a.context->async_fd));
	pair_destroy(&pair);
}
CASE_IN_CHILD(link_down)

static void connect_anew(void)
{
	struct verbs_end *ends[] = {&pair.a, &pair.b};

	for (int i = 0; i < 2; i++)
		CHECK(end_state(ends[i], IBV_QPS_RESET) == 0 && end_init(ends[i]) == 0);
	for (int i = 0; i < 2; i++)
		CHECK(end_rtr(ends[i], ends[!i]->qp->qp_num, &ends[!i]->gid, ends[!i]->psn) == 0);
	for (int i = 0; i < 2; i++)
		CHECK(end_rts(ends[i]) == 0);
}

/* The peer of one connection is gone for it: 12, then 5; others go on, and so does a new one. */
static void peer_reset(void *arg)
{
	struct verbs_end apart;

	start("reset=#1,opcode=write");
	apart = pair.a;
	apart.qp = many_qp(&apart, IBV_QPT_RC, NULL);
	many_up(&apart, apart.qp->qp_num, &apart.gid, apart.psn);
	send_empty(1);
	ends(pair.a.send_cq, 1, IBV_WC_SUCCESS);
	ends(pair.b.recv_cq, 1, IBV_WC_SUCCESS);
	rdma_empty(IBV_WR_RDMA_WRITE, 2);
	CHECK(post_send(&pair.a, 3, NULL, 0, 0) == 0);
	ends(pair.a.send_cq, 2, IBV_WC_RETRY_EXC_ERR);
	ends(pair.a.send_cq, 3, IBV_WC_WR_FLUSH_ERR);
	CHECK(end_query(&pair.a) == IBV_QPS_ERR && end_query(&pair.b) == IBV_QPS_RTS);
	CHECK(no_wc(pair.b.recv_cq));
	CHECK(post_recv(&apart, 5, NULL, 0) == 0);
	CHECK(post_send(&apart, 6, NULL, 0, IBV_SEND_SIGNALED) == 0);
	ends(apart.send_cq, 6, IBV_WC_SUCCESS);
	ends(apart.recv_cq, 5, IBV_WC_SUCCESS);
	connect_anew();
	send_empty(7);
	ends(pair.a.send_cq, 7, IBV_WC_SUCCESS);
	ends(pair.b.recv_cq, 7, IBV_WC_SUCCESS);
	CHECK(!readable(pair.a.context->async_fd));
	CHECK(ibv_destroy_qp(apart.qp) == 0);
	pair_destroy(&pair);
}
CASE_IN_CHILD(peer_reset)

static void write_back(const struct test_mem *from, const struct test_mem *to)
{
	struct ibv_sge sge = {from->start, 64, from->mr->lkey};

	CHECK(post_rdma(&pair.b, IBV_WR_RDMA_WRITE, 2, &sge, 1, to->start, to->mr->rkey,
			IBV_SEND_SIGNALED) == 0);
}

/* What the dead peer still asks for is not done, until there is a new connection. */
static void peer_is_not_heard(void *arg)
{
	const struct span all = {0, 64};
	struct test_mem to, from;

	start("reset=#1,opcode=send");
	mem_new(&to, pair.a.pd, MEM_ANON, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	mem_new(&from, pair.b.pd, MEM_ANON, 64, IBV_ACCESS_LOCAL_WRITE);
	mem_fill(&from, &all, 1, 7);
	/* Our end waits longer for it than it for us. */
	pair.a.opts.timeout = 22;
	connect_anew();
	CHECK(post_send(&pair.a, 1, NULL, 0, 0) == 0);
	write_back(&from, &to);
	ends(pair.b.send_cq, 2, IBV_WC_RETRY_EXC_ERR);
	CHECK(mem_holds(&to, NULL, 0, 0) && end_query(&pair.a) == IBV_QPS_RTS);
	connect_anew();
	write_back(&from, &to);
	ends(pair.b.send_cq, 2, IBV_WC_SUCCESS);
	CHECK(mem_holds(&to, &all, 1, 7));
	mem_free(&from);
	mem_free(&to);
	pair_destroy(&pair);
}
CASE_IN_CHILD(peer_is_not_heard)

static void all_fail(void)
{
	struct verbs_end *a = &pair.a;
	struct ibv_context *context = a->context;
	struct ibv_gid_entry entry;
	struct ibv_qp_init_attr init;
	struct ibv_device_attr device;
	struct ibv_port_attr port;
	struct ibv_qp_attr attr;
	union ibv_gid gid;
	uint8_t byte;
	__be16 pkey;

	CHECK(post_send(a, 9, NULL, 0, 0) == EIO && rule_said("device-lost"));
	CHECK(post_recv(a, 9, NULL, 0) == EIO);
	CHECK(ibv_query_device(context, &device) == EIO);
	CHECK(ibv_query_port(context, 1, &port) == EIO);
	CHECK(ibv_query_gid(context, 1, 0, &gid) == -1 && errno == EIO);
	CHECK(ibv_query_gid_ex(context, 1, 0, &entry, 0) == EIO);
	CHECK(ibv_query_gid_table(context, &entry, 1, 0) == -EIO);
	CHECK(ibv_query_pkey(context, 1, 0, &pkey) == -1 && errno == EIO);
	CHECK(ibv_query_qp(a->qp, &attr, IBV_QP_STATE, &init) == EIO);
	CHECK(end_state(a, IBV_QPS_RESET) == EIO);
	errno = 0;
	CHECK(!ibv_alloc_pd(context) && errno == EIO);
	errno = 0;
	CHECK(!ibv_reg_mr(a->pd, &byte, 1, 0) && errno == EIO);
	errno = 0;
	CHECK(!ibv_create_cq(context, 1, NULL, NULL, 0) && errno == EIO);
	errno = 0;
	CHECK(!ibv_create_comp_channel(context) && errno == EIO);
	errno = 0;
	CHECK(!ibv_open_device(context->device) && errno == EIO);
}

/* A device that is lost flushes, fails everything, lets go of everything, and opens anew. */
static void device_fatal(void *arg)
{
	struct ibv_srq *srq;
	struct test_mem mem;
	struct ibv_ah *ah;

	start("fatal=#1,opcode=write");
	mem_new(&mem, pair.a.pd, MEM_ANON, 64, IBV_ACCESS_LOCAL_WRITE);
	ah = many_ah(pair.a.pd, 1, &pair.a.gid);
	srq = many_srq(pair.a.pd, 4);
	send_empty(1);
	ends(pair.a.send_cq, 1, IBV_WC_SUCCESS);
	ends(pair.b.recv_cq, 1, IBV_WC_SUCCESS);
	CHECK(pair_b_recv(&pair, 2, 0, NULL, 0) == 0);
	rdma_empty(IBV_WR_RDMA_WRITE, 2);
	hear(IBV_EVENT_DEVICE_FATAL);
	ends(pair.a.send_cq, 2, IBV_WC_WR_FLUSH_ERR);
	ends(pair.b.recv_cq, 2, IBV_WC_WR_FLUSH_ERR);
	CHECK(no_wc(pair.a.send_cq) && no_wc(pair.b.recv_cq));
	CHECK(!readable(pair.a.context->async_fd));
	all_fail();
	CHECK(ibv_destroy_srq(srq) == 0 && ibv_destroy_ah(ah) == 0);
	mem_free(&mem);
	pair_destroy(&pair);
	pair_create(&pair, &pair_defaults, false);
	send_empty(1);
	ends(pair.a.send_cq, 1, IBV_WC_SUCCESS);
	pair_destroy(&pair);
}
CASE_IN_CHILD(device_fatal)

/* UD: a receiver that is not ready loses the message, and its receive is there for the next. */
static void datagrams(void *arg)
{
	static struct slots in;
	struct verbs_end end;
	struct ibv_sge sge;
	struct ibv_ah *ah;
	struct ibv_wc wc;

	CHECK(!setenv("VERBENA_FAULTS", "rnr=#2;reset=100%", 1));
	many_open(&end, IBV_QPT_UD, &pair_defaults);
	many_up(&end, 0, NULL, 0);
	slots_new(&in, end.pd, 1024, 4);
	ah = many_ah(end.pd, 1, &end.gid);
	for (uint64_t i = 0; i < 3; i++) {
		sge = slots_sge(&in, i);
		CHECK(post_recv(&end, i, &sge, 1) == 0);
	}
	sge = slots_sge(&in, 3);
	sge.length = 8;
	for (uint32_t i = 0; i < 3; i++) {
		CHECK(post_ud(&end, IBV_WR_SEND_WITH_IMM, i, &sge, 1, ah, end.qp->qp_num, MANY_QKEY,
			      IBV_SEND_SIGNALED) == 0);
		ends(end.send_cq, i, IBV_WC_SUCCESS);
	}
	for (uint32_t i = 0; i < 2; i++) {
		wait_wc(end.recv_cq, &wc);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == i);
		CHECK(be32toh(wc.imm_data) == 2 * i);
	}
	CHECK(no_wc(end.recv_cq));
	CHECK(ibv_destroy_ah(ah) == 0);
	slots_free(&in);
	end_close(&end);
}
CASE_IN_CHILD(datagrams)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_link_until_up),	  cmocka_unit_test(test_link_for_a_moment),
		cmocka_unit_test(test_link_down),	  cmocka_unit_test(test_peer_reset),
		cmocka_unit_test(test_peer_is_not_heard), cmocka_unit_test(test_device_fatal),
		cmocka_unit_test(test_datagrams),
	};

	many_main(argc, argv);
	run_only();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

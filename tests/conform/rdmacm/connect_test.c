/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections: order of events, what each says, what an id holds at each step, how they end. */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <infiniband/sa.h>

#include "lib/cm_bed.h"

static struct bed bed;

static void listen_at(const union bed_addr *addr)
{
	bed_listen(&bed, RDMA_PS_TCP, addr, 0);
}

static void start(void)
{
	union bed_addr addr = bed_loopback(AF_INET);

	listen_at(&addr);
}

/* ---- Step by step ---- */

static void check_resolved(struct rdma_cm_id *id)
{
	const struct sockaddr_in *src = (struct sockaddr_in *)&id->route.addr.src_addr;
	static const union ibv_gid none;

	CHECK(id->verbs && id->pd && id->pd->context == id->verbs && id->port_num == 1);
	CHECK(ibv_get_device_guid(id->verbs->device));
	CHECK(src->sin_family == AF_INET && src->sin_addr.s_addr && src->sin_port);
	CHECK(rdma_get_src_port(id) == src->sin_port);
	CHECK(rdma_get_dst_port(id) == bed.addr.v4.sin_port);
	CHECK(!memcmp(rdma_get_peer_addr(id), &bed.addr, sizeof(struct sockaddr_in)));
	CHECK(memcmp(&id->route.addr.addr.ibaddr.sgid, &none, sizeof(none)) != 0);
	CHECK(memcmp(&id->route.addr.addr.ibaddr.dgid, &none, sizeof(none)) != 0);
	CHECK(id->route.addr.addr.ibaddr.pkey == htons(0xffff));
}

static void check_route(struct rdma_cm_id *id)
{
	const struct ibv_sa_path_rec *rec = id->route.path_rec;

	CHECK(id->route.num_paths == 1 && rec);
	CHECK(!memcmp(&rec->sgid, &id->route.addr.addr.ibaddr.sgid, 16));
	CHECK(!memcmp(&rec->dgid, &id->route.addr.addr.ibaddr.dgid, 16));
	CHECK(rec->mtu >= IBV_MTU_256 && rec->mtu <= IBV_MTU_4096);
	CHECK(rec->hop_limit > 0 && rec->packet_life_time > 0);
}

static void fresh_id(struct rdma_cm_id *id, void *context, enum rdma_port_space ps)
{
	static const struct rdma_route empty;

	CHECK(id->context == context && id->ps == ps && id->channel == bed.active);
	CHECK(!id->verbs && !id->pd && !id->qp && !id->srq && !id->event && !id->port_num);
	CHECK(!id->send_cq && !id->recv_cq && !id->send_cq_channel && !id->recv_cq_channel);
	CHECK(!memcmp(&id->route, &empty, sizeof(empty)));
}

static void an_id_fills_step_by_step(void *arg)
{
	union bed_addr to;
	struct rdma_cm_id *id;
	struct rdma_cm_event *event;
	int mine;

	start();
	to = bed.addr;
	CHECK(!rdma_create_id(bed.active, &id, &mine, RDMA_PS_TCP));
	fresh_id(id, &mine, RDMA_PS_TCP);
	CHECK(id->qp_type == IBV_QPT_RC);
	CHECK(!rdma_resolve_addr(id, NULL, &to.any, 2000));
	event = bed_want(bed.active, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	CHECK(event->id == id && !event->listen_id);
	check_resolved(id);
	CHECK(!id->route.num_paths);
	CHECK(!rdma_ack_cm_event(event));
	CHECK(!rdma_resolve_route(id, 2000));
	event = bed_want(bed.active, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	CHECK(event->id == id);
	check_route(id);
	CHECK(!rdma_ack_cm_event(event));
	bed_qp(id);
	CHECK(id->qp->qp_type == IBV_QPT_RC && id->qp->state == IBV_QPS_INIT);
	CHECK(id->pd == id->qp->pd && id->send_cq->cq_context == id &&
	      id->recv_cq->cq_context == id);
	CHECK(id->send_cq == id->qp->send_cq && id->recv_cq == id->qp->recv_cq);
	CHECK(bed_quiet(bed.active) && bed_quiet(bed.passive));
	rdma_destroy_qp(id);
	CHECK(!id->qp && !id->send_cq && !id->recv_cq && !id->send_cq_channel);
	bed.client = id;
	bed_close(&bed);
}

static enum ibv_qp_state qp_state(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK(!ibv_query_qp(id->qp, &attr, IBV_QP_STATE, &init));
	return attr.qp_state;
}

static void check_new_id(struct rdma_cm_id *id)
{
	CHECK(id->context == bed.listener->context && id->channel == bed.passive);
	CHECK(id->verbs == bed.client->verbs && id->port_num == 1 && id->pd);
	CHECK(id->ps == RDMA_PS_TCP && id->qp_type == IBV_QPT_RC && !id->qp);
	CHECK(rdma_get_src_port(id) == bed.addr.v4.sin_port);
	CHECK(rdma_get_dst_port(id) == rdma_get_src_port(bed.client));
	CHECK(((struct sockaddr_in *)rdma_get_local_addr(id))->sin_addr.s_addr ==
	      bed.addr.v4.sin_addr.s_addr);
	CHECK(((struct sockaddr_in *)rdma_get_peer_addr(id))->sin_addr.s_addr ==
	      ((struct sockaddr_in *)rdma_get_local_addr(bed.client))->sin_addr.s_addr);
	check_route(id);
	CHECK(id->route.addr.addr.ibaddr.pkey == htons(0xffff));
}

static void a_connection_is_made_and_ended(void *arg)
{
	struct rdma_conn_param param = bed_param();
	struct rdma_cm_event *event;

	start();
	bed_resolve(&bed);
	bed_qp(bed.client);
	event = bed_request(&bed, &param);
	check_new_id(bed.server);
	CHECK(event->param.conn.qp_num == bed.client->qp->qp_num);
	CHECK(event->param.conn.retry_count == 7 && event->param.conn.rnr_retry_count == 7);
	CHECK(!rdma_ack_cm_event(event));
	CHECK(bed_quiet(bed.active));
	bed_qp(bed.server);
	CHECK(!rdma_accept(bed.server, &param));
	CHECK(qp_state(bed.server) == IBV_QPS_RTS);
	event = bed_want(bed.active, RDMA_CM_EVENT_ESTABLISHED, 0);
	CHECK(event->id == bed.client && event->param.conn.qp_num == bed.server->qp->qp_num);
	/* To be used at once. */
	CHECK(qp_state(bed.client) == IBV_QPS_RTS);
	CHECK(!rdma_ack_cm_event(event));
	event = bed_want(bed.passive, RDMA_CM_EVENT_ESTABLISHED, 0);
	CHECK(event->id == bed.server && !event->listen_id);
	CHECK(!rdma_ack_cm_event(event));
	bed_ping(bed.client, bed.server);
	bed_ping(bed.server, bed.client);

	CHECK(!rdma_disconnect(bed.client));
	CHECK(qp_state(bed.client) == IBV_QPS_ERR);
	event = bed_want(bed.passive, RDMA_CM_EVENT_DISCONNECTED, 0);
	CHECK(event->id == bed.server);
	CHECK(qp_state(bed.server) == IBV_QPS_RTS);
	CHECK(!rdma_ack_cm_event(event));
	CHECK(bed_quiet(bed.active));
	CHECK(!rdma_disconnect(bed.server));
	CHECK(qp_state(bed.server) == IBV_QPS_ERR);
	bed_take(bed.active, RDMA_CM_EVENT_DISCONNECTED);
	bed_take(bed.active, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	bed_take(bed.passive, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	CHECK(bed_quiet(bed.active) && bed_quiet(bed.passive));
	/* What has ended is not ended again. */
	CHECK(!rdma_disconnect(bed.client) && !rdma_disconnect(bed.server));
	CHECK(bed_quiet(bed.active) && bed_quiet(bed.passive));
	bed_close(&bed);
}

static void both_may_disconnect_at_once(void *arg)
{
	start();
	bed_connect(&bed);
	CHECK(!rdma_disconnect(bed.client));
	CHECK(!rdma_disconnect(bed.server));
	bed_take(bed.active, RDMA_CM_EVENT_DISCONNECTED);
	bed_take(bed.passive, RDMA_CM_EVENT_DISCONNECTED);
	bed_take(bed.active, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	bed_take(bed.passive, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	bed_close(&bed);
}

/* Who goes away without a word has ended it too. */
static void destroying_an_id_ends_its_connection(void *arg)
{
	for (int i = 0; i < 2; i++) {
		start();
		bed_connect(&bed);
		bed_end_id(i ? &bed.client : &bed.server);
		bed_take(i ? bed.passive : bed.active, RDMA_CM_EVENT_DISCONNECTED);
		CHECK(!rdma_disconnect(i ? bed.server : bed.client));
		bed_close(&bed);
	}
}

static void every_way_to_an_address_works(void *arg)
{
	static const int families[] = {AF_INET, AF_INET6};
	union bed_addr addr;

	for (int i = 0; i < 2; i++) {
		addr = bed_loopback(families[i]);
		listen_at(&addr);
		bed_connect(&bed);
		bed_ping(bed.client, bed.server);
		bed_close(&bed);

		addr = bed_wildcard(families[i]);
		listen_at(&addr);
		CHECK(!bed.listener->verbs);
		bed_connect(&bed);
		CHECK(bed.server->verbs == bed.client->verbs);
		bed_ping(bed.server, bed.client);
		bed_close(&bed);

		if (!bed_own(families[i], &addr))
			continue;
		listen_at(&addr);
		CHECK(bed.listener->verbs && bed.listener->port_num == 1);
		bed_connect(&bed);
		bed_ping(bed.client, bed.server);
		bed_close(&bed);
	}
}

/* A listener of every IPv6 address takes IPv4 too. */
static void a_wildcard_of_ipv6_takes_ipv4(void *arg)
{
	union bed_addr addr = bed_wildcard(AF_INET6);
	uint16_t port;

	listen_at(&addr);
	port = ntohs(bed.addr.v6.sin6_port);
	bed.addr = bed_loopback(AF_INET);
	bed_set_port(&bed.addr, port);
	bed_connect(&bed);
	CHECK(rdma_get_peer_addr(bed.server)->sa_family == AF_INET);
	bed_close(&bed);
}

static void a_client_may_bind_first(void *arg)
{
	union bed_addr from = bed_loopback(AF_INET);
	struct rdma_conn_param param = bed_param();
	union bed_addr to;
	__be16 port;

	start();
	to = bed.addr;
	CHECK(!rdma_create_id(bed.active, &bed.client, NULL, RDMA_PS_TCP));
	CHECK(!rdma_bind_addr(bed.client, &from.any));
	port = rdma_get_src_port(bed.client);
	CHECK(port && bed.client->verbs);
	CHECK(!rdma_resolve_addr(bed.client, NULL, &to.any, 2000));
	bed_take(bed.active, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(rdma_get_src_port(bed.client) == port);
	CHECK(!rdma_resolve_route(bed.client, 2000));
	bed_take(bed.active, RDMA_CM_EVENT_ROUTE_RESOLVED);
	bed_qp(bed.client);
	CHECK(!rdma_ack_cm_event(bed_request(&bed, &param)));
	CHECK(rdma_get_dst_port(bed.server) == port);
	bed_close(&bed);
}

/* ---- Refusals of the peer ---- */

static void nobody_listens(void *arg)
{
	struct rdma_conn_param param = bed_param();
	struct rdma_cm_event *event;

	start();
	bed_resolve(&bed);
	bed_qp(bed.client);
	bed_end_id(&bed.listener);
	CHECK(!rdma_connect(bed.client, &param));
	event = bed_want(bed.active, RDMA_CM_EVENT_REJECTED, 8);
	CHECK(event->id == bed.client && qp_state(bed.client) == IBV_QPS_ERR);
	CHECK(!rdma_ack_cm_event(event));
	bed_close(&bed);
}

static void a_bound_port_does_not_listen(void *arg)
{
	union bed_addr addr = bed_loopback(AF_INET);
	struct rdma_conn_param param = bed_param();
	struct rdma_cm_id *bound;

	start();
	CHECK(!rdma_create_id(bed.passive, &bound, NULL, RDMA_PS_TCP));
	CHECK(!rdma_bind_addr(bound, &addr.any));
	bed_set_port(&bed.addr, ntohs(rdma_get_src_port(bound)));
	bed_resolve(&bed);
	bed_qp(bed.client);
	CHECK(!rdma_connect(bed.client, &param));
	CHECK(!rdma_ack_cm_event(bed_want(bed.active, RDMA_CM_EVENT_REJECTED, 8)));
	CHECK(!rdma_destroy_id(bound));
	bed_close(&bed);
}

static void other_port_spaces_do_not_listen(void *arg)
{
	struct rdma_conn_param param = bed_param();

	start();
	bed.ps = RDMA_PS_IB;
	bed_resolve(&bed);
	bed_qp(bed.client);
	CHECK(!rdma_connect(bed.client, &param));
	CHECK(!rdma_ack_cm_event(bed_want(bed.active, RDMA_CM_EVENT_REJECTED, 8)));
	bed_close(&bed);
}

static void the_program_rejects(void *arg)
{
	struct rdma_conn_param param = bed_param();
	struct rdma_cm_event *event;

	for (int ece = 0; ece < 2; ece++) {
		start();
		bed_resolve(&bed);
		bed_qp(bed.client);
		CHECK(!rdma_ack_cm_event(bed_request(&bed, &param)));
		CHECK(!(ece ? rdma_reject_ece(bed.server, "no", 3)
			    : rdma_reject(bed.server, "no", 3)));
		event = bed_want(bed.active, RDMA_CM_EVENT_REJECTED, ece ? 35 : 28);
		CHECK(event->param.conn.private_data_len == 148);
		CHECK(!strcmp(event->param.conn.private_data, "no"));
		CHECK(qp_state(bed.client) == IBV_QPS_ERR);
		CHECK(!rdma_ack_cm_event(event));
		/* Answered already. */
		FAILS(rdma_reject(bed.server, NULL, 0), EINVAL);
		bed_qp(bed.server);
		FAILS(rdma_accept(bed.server, &param), EINVAL);
		bed_close(&bed);
	}
}

static void destroying_a_request_rejects_it(void *arg)
{
	struct rdma_conn_param param = bed_param();

	start();
	bed_resolve(&bed);
	bed_qp(bed.client);
	CHECK(!rdma_ack_cm_event(bed_request(&bed, &param)));
	bed_end_id(&bed.server);
	CHECK(!rdma_ack_cm_event(bed_want(bed.active, RDMA_CM_EVENT_REJECTED, 28)));
	bed_close(&bed);
}

/* ---- The backlog ---- */

/* Connected by number only: what is asked here needs no queue pair. */
static struct rdma_cm_id *ask_as(const struct bed *at, uint32_t qpn)
{
	struct rdma_conn_param param = bed_param();
	struct rdma_cm_id *id = bed_resolve_id(at, at->active);

	param.qp_num = qpn;
	CHECK(!rdma_connect(id, &param));
	return id;
}

static struct rdma_cm_id *take_request(const struct bed *at, uint32_t qpn)
{
	struct rdma_cm_event *event = bed_want(at->passive, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	struct rdma_cm_id *id = event->id;

	CHECK(event->param.conn.qp_num == qpn && !rdma_ack_cm_event(event));
	return id;
}

/* A server may take the next request before it has answered the one before. */
static void a_request_that_is_taken_leaves_the_backlog(void *arg)
{
	union bed_addr addr = bed_loopback(AF_INET);
	struct rdma_cm_id *ids[3], *taken[3];

	bed_listen(&bed, RDMA_PS_TCP, &addr, 1);
	for (int i = 0; i < 3; i++) {
		ids[i] = ask_as(&bed, 0x100 + (uint32_t)i);
		taken[i] = take_request(&bed, 0x100 + (uint32_t)i);
	}
	/* Neither an answer nor an end is counted again. */
	CHECK(!rdma_reject(taken[0], NULL, 0));
	for (int i = 0; i < 2; i++)
		bed_end_id(&taken[i]);
	for (int i = 0; i < 2; i++)
		CHECK(!rdma_ack_cm_event(bed_want(bed.active, RDMA_CM_EVENT_REJECTED, 28)));
	for (int i = 0; i < 3; i++)
		bed_end_id(&ids[i]);
	bed_end_id(&taken[2]);
	bed_close(&bed);
}

/* What was sent before has been looked at when this has come: all of it takes the same way. */
static void flush(struct bed *other)
{
	struct rdma_cm_id *id = ask_as(other, 0x999), *asked = take_request(other, 0x999);

	bed_end_id(&asked);
	CHECK(!rdma_ack_cm_event(bed_want(other->active, RDMA_CM_EVENT_REJECTED, 28)));
	bed_end_id(&id);
}

/* As many as the backlog says wait to be taken; one more comes again until there is room. */
static void a_full_backlog_makes_requests_wait(void *arg)
{
	union bed_addr addr = bed_loopback(AF_INET);
	struct rdma_cm_id *ids[5], *taken[4];
	struct bed other;

	setenv("VERBENA_CARRIER", "udp", 1);
	bed_listen(&other, RDMA_PS_TCP, &addr, 0);
	bed_listen(&bed, RDMA_PS_TCP, &addr, 2);
	for (int i = 0; i < 3; i++)
		ids[i] = ask_as(&bed, 0x100 + (uint32_t)i);
	flush(&other);
	/* Nobody says the third any more: it is not there. */
	bed_end_id(&ids[2]);
	flush(&other);
	for (int i = 0; i < 2; i++)
		taken[i] = take_request(&bed, 0x100 + (uint32_t)i);
	for (int i = 2; i < 5; i++)
		ids[i] = ask_as(&bed, 0x200 + (uint32_t)i);
	/* The last one as soon as there is room. */
	flush(&other);
	for (int i = 2; i < 4; i++)
		taken[i] = take_request(&bed, 0x200 + (uint32_t)i);
	bed.server = take_request(&bed, 0x204);
	for (int i = 0; i < 4; i++)
		bed_end_id(&taken[i]);
	for (int i = 0; i < 5; i++)
		bed_end_id(&ids[i]);
	bed_close(&bed);
	bed_close(&other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BED_TEST(an_id_fills_step_by_step),
		BED_TEST(a_connection_is_made_and_ended),
		BED_TEST(both_may_disconnect_at_once),
		BED_TEST(destroying_an_id_ends_its_connection),
		BED_TEST(every_way_to_an_address_works),
		BED_TEST(a_wildcard_of_ipv6_takes_ipv4),
		BED_TEST(a_client_may_bind_first),
		BED_TEST(nobody_listens),
		BED_TEST(a_bound_port_does_not_listen),
		BED_TEST(other_port_spaces_do_not_listen),
		BED_TEST(the_program_rejects),
		BED_TEST(destroying_a_request_rejects_it),
		BED_TEST(a_request_that_is_taken_leaves_the_backlog),
		BED_TEST(a_full_backlog_makes_requests_wait),
	};

	run_only();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Synchronous ids, end points, addresses by name, and the short forms of rdma_verbs.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/cm_bed.h"

/* Of releases after the installed headers'. */
int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
			  const struct rdma_addrinfo *hints);
int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info);

static const struct ibv_qp_init_attr qp_attr = {
	.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	.sq_sig_all = 1,
};

/* ---- Names ---- */

static struct rdma_addrinfo *look_up(const char *node, const char *service, int flags, int ps)
{
	struct rdma_addrinfo hints = {.ai_flags = flags, .ai_port_space = ps}, *res = NULL;

	CHECK(!rdma_getaddrinfo(node, service, &hints, &res));
	CHECK(res && !res->ai_next && !res->ai_route_len && !res->ai_connect_len);
	return res;
}

static void names_become_addresses(void *arg)
{
	struct rdma_addrinfo *res;
	const struct sockaddr_in *addr;

	res = look_up("127.0.0.1", "7471", 0, RDMA_PS_TCP);
	addr = (struct sockaddr_in *)res->ai_dst_addr;
	CHECK(res->ai_family == AF_INET && res->ai_qp_type == IBV_QPT_RC && !res->ai_flags);
	CHECK(res->ai_port_space == RDMA_PS_TCP && res->ai_dst_len == sizeof(*addr));
	CHECK(addr->sin_port == htons(7471) && addr->sin_addr.s_addr == htonl(INADDR_LOOPBACK));
	CHECK(!res->ai_src_len && !res->ai_src_addr);
	rdma_freeaddrinfo(res);

	res = look_up("127.0.0.1", "7471", RAI_PASSIVE, RDMA_PS_TCP);
	addr = (struct sockaddr_in *)res->ai_src_addr;
	CHECK(res->ai_flags == RAI_PASSIVE && res->ai_src_len == sizeof(*addr));
	CHECK(addr->sin_port == htons(7471) && !res->ai_dst_len && !res->ai_dst_addr);
	rdma_freeaddrinfo(res);

	res = look_up("::1", "9", RAI_NUMERICHOST, RDMA_PS_UDP);
	CHECK(res->ai_family == AF_INET6 && res->ai_qp_type == IBV_QPT_UD);
	CHECK(res->ai_port_space == RDMA_PS_UDP && res->ai_dst_len == sizeof(struct sockaddr_in6));
	rdma_freeaddrinfo(res);

	res = look_up(NULL, "9", RAI_PASSIVE, RDMA_PS_TCP);
	CHECK(res->ai_src_len);
	rdma_freeaddrinfo(res);
	rdma_freeaddrinfo(NULL);
}

static void hints_say_what_they_say(void *arg)
{
	union bed_addr src = bed_loopback(AF_INET);
	struct rdma_addrinfo hints = {
		.ai_qp_type = IBV_QPT_UD, .ai_flags = RAI_FAMILY, .ai_family = AF_INET6};
	struct rdma_addrinfo *res = NULL;

	CHECK(!rdma_getaddrinfo("::1", NULL, &hints, &res));
	CHECK(res->ai_qp_type == IBV_QPT_UD && res->ai_port_space == RDMA_PS_UDP);
	rdma_freeaddrinfo(res);
	res = NULL;
	CHECK(rdma_getaddrinfo("127.0.0.1", NULL, &hints, &res) && !res);

	hints = (struct rdma_addrinfo){.ai_port_space = RDMA_PS_TCP,
				       .ai_src_addr = &src.any,
				       .ai_src_len = sizeof(src.v4)};
	CHECK(!rdma_getaddrinfo("127.0.0.1", "1", &hints, &res));
	CHECK(res->ai_src_len == sizeof(src.v4) && res->ai_dst_len == sizeof(src.v4));
	CHECK(!memcmp(res->ai_src_addr, &src, sizeof(src.v4)) && res->ai_src_addr != &src.any);
	rdma_freeaddrinfo(res);
	/* Hints alone. */
	CHECK(!rdma_getaddrinfo(NULL, NULL, &hints, &res));
	CHECK(res->ai_family == AF_INET && res->ai_src_len == sizeof(src.v4));
	rdma_freeaddrinfo(res);
}

static void names_that_fail(void *arg)
{
	struct rdma_addrinfo hints = {.ai_flags = RAI_NUMERICHOST};
	struct rdma_addrinfo *res = (struct rdma_addrinfo *)0x10;

	FAILS(rdma_getaddrinfo(NULL, NULL, NULL, &res), EINVAL);
	FAILS(rdma_getaddrinfo("127.0.0.1", NULL, NULL, NULL), EINVAL);
	/* As getaddrinfo says it. */
	CHECK(rdma_getaddrinfo("no-number", "1", &hints, &res) == EAI_NONAME);
	CHECK(rdma_getaddrinfo("127.0.0.1", "no-service", NULL, &res) == EAI_SERVICE ||
	      rdma_getaddrinfo("127.0.0.1", "no-service", NULL, &res) == EAI_NONAME);
	CHECK(res == (struct rdma_addrinfo *)0x10);
}

static void names_are_resolved_for_an_id(void *arg)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_addrinfo hints = {.ai_flags = RAI_NUMERICHOST, .ai_port_space = RDMA_PS_TCP};
	struct rdma_addrinfo *res = NULL, *again = NULL;
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	FAILS(rdma_query_addrinfo(id, &res), EINVAL);
	FAILS(rdma_resolve_addrinfo(id, NULL, NULL, NULL), EINVAL);
	hints.ai_flags |= 0x10;
	FAILS(rdma_resolve_addrinfo(id, "127.0.0.1", "7", &hints), EOPNOTSUPP);
	hints.ai_flags = RAI_NUMERICHOST;
	CHECK(bed_quiet(channel));
	CHECK(!rdma_resolve_addrinfo(id, "127.0.0.1", "7", &hints));
	event = bed_next(channel);
	CHECK((int)event->event == 16 && !event->status && event->id == id);
	CHECK(!rdma_ack_cm_event(event));
	CHECK(!rdma_query_addrinfo(id, &res) && !rdma_query_addrinfo(id, &again));
	CHECK(res != again && res->ai_dst_len == sizeof(struct sockaddr_in));
	CHECK(!memcmp(res->ai_dst_addr, again->ai_dst_addr, res->ai_dst_len));
	rdma_freeaddrinfo(again);
	CHECK(!rdma_resolve_addr(id, res->ai_src_addr, res->ai_dst_addr, 100));
	bed_take(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	rdma_freeaddrinfo(res);
	FAILS(rdma_query_addrinfo(id, NULL), EINVAL);

	CHECK(!rdma_resolve_addrinfo(id, "no-number", "7", &hints));
	event = bed_next(channel);
	CHECK((int)event->event == 17 && event->status < 0);
	CHECK(!rdma_ack_cm_event(event));
	FAILS(rdma_query_addrinfo(id, &res), EINVAL);
	CHECK(!rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
}

/* ---- Both sides with end points ---- */

struct server {
	struct rdma_cm_id *listener;
	char service[16];
	struct rdma_conn_param param;
	const char *want;
	bool reject;
};

static void listen_ep(struct server *s)
{
	struct ibv_qp_init_attr attr = qp_attr;
	struct rdma_addrinfo *res = look_up("127.0.0.1", NULL, RAI_PASSIVE, RDMA_PS_TCP);

	CHECK(!rdma_create_ep(&s->listener, res, NULL, &attr));
	rdma_freeaddrinfo(res);
	CHECK(s->listener->channel && !s->listener->qp);
	CHECK(!rdma_listen(s->listener, 0));
	snprintf(s->service, sizeof(s->service), "%u", ntohs(rdma_get_src_port(s->listener)));
}

static void exchange(struct rdma_cm_id *id, const char *send, const char *want)
{
	char out[32], in[32] = "";
	struct ibv_mr *to, *from;
	struct ibv_wc wc;

	snprintf(out, sizeof(out), "%s", send);
	to = rdma_reg_msgs(id, out, sizeof(out));
	from = rdma_reg_msgs(id, in, sizeof(in));
	CHECK(to && from);
	CHECK(!rdma_post_recv(id, NULL, in, sizeof(in), from));
	/* The peer posts too before it says that it is ready. */
	CHECK(!rdma_post_send(id, NULL, out, sizeof(out), to, 0));
	CHECK(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	CHECK(rdma_get_recv_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	CHECK(!strcmp(in, want));
	CHECK(!rdma_dereg_mr(to) && !rdma_dereg_mr(from));
}

static void *serve(void *arg)
{
	struct server *s = arg;
	struct rdma_cm_id *id;

	CHECK(!rdma_get_request(s->listener, &id));
	CHECK(id->event && id->event->event == RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK(id->event->id == id && id->event->listen_id == s->listener);
	CHECK(!strcmp(id->event->param.conn.private_data, "hello"));
	CHECK(id->channel != s->listener->channel && id->qp && id->send_cq && !s->listener->event);
	if (s->reject) {
		CHECK(!rdma_reject(id, "never", 6));
		rdma_destroy_ep(id);
		return NULL;
	}
	CHECK(!rdma_accept(id, &s->param));
	CHECK(id->event->event == RDMA_CM_EVENT_ESTABLISHED);
	exchange(id, "from the server", "from the client");
	CHECK(!rdma_disconnect(id));
	CHECK(id->event->event == RDMA_CM_EVENT_DISCONNECTED);
	CHECK(!rdma_disconnect(id));
	rdma_destroy_ep(id);
	return NULL;
}

static struct rdma_cm_id *connect_ep(const struct server *s)
{
	struct ibv_qp_init_attr attr = qp_attr;
	struct rdma_addrinfo *res = look_up("127.0.0.1", s->service, 0, RDMA_PS_TCP);
	struct rdma_cm_id *id;

	/* Of another type: the address's counts. */
	attr.qp_type = IBV_QPT_UD;
	CHECK(!rdma_create_ep(&id, res, NULL, &attr));
	rdma_freeaddrinfo(res);
	CHECK(id->qp && id->qp->qp_type == IBV_QPT_RC && attr.qp_type == IBV_QPT_RC);
	CHECK(id->route.num_paths == 1);
	CHECK(id->event && id->event->event == RDMA_CM_EVENT_ROUTE_RESOLVED);
	return id;
}

static void end_points_connect(void *arg)
{
	struct rdma_conn_param param = bed_param();
	struct server s = {.param = bed_param()};
	pthread_t thread;
	struct rdma_cm_id *id;

	param.private_data = "hello";
	param.private_data_len = 6;
	s.param.private_data = "welcome";
	s.param.private_data_len = 8;
	listen_ep(&s);
	for (int round = 0; round < 3; round++) {
		CHECK(!pthread_create(&thread, NULL, serve, &s));
		id = connect_ep(&s);
		CHECK(!rdma_connect(id, &param));
		CHECK(id->event->event == RDMA_CM_EVENT_ESTABLISHED);
		CHECK(!strcmp(id->event->param.conn.private_data, "welcome"));
		exchange(id, "from the client", "from the server");
		CHECK(!rdma_disconnect(id));
		CHECK(id->event->event == RDMA_CM_EVENT_DISCONNECTED);
		rdma_destroy_ep(id);
		CHECK(!pthread_join(thread, NULL));
	}
	rdma_destroy_ep(s.listener);
}

static void a_rejection_is_econnrefused(void *arg)
{
	struct rdma_conn_param param = bed_param();
	struct server s = {.reject = true};
	pthread_t thread;
	struct rdma_cm_id *id;

	param.private_data = "hello";
	param.private_data_len = 6;
	listen_ep(&s);
	CHECK(!pthread_create(&thread, NULL, serve, &s));
	id = connect_ep(&s);
	FAILS(rdma_connect(id, &param), ECONNREFUSED);
	CHECK(id->event->event == RDMA_CM_EVENT_REJECTED && id->event->status == 28);
	CHECK(!strcmp(id->event->param.conn.private_data, "never"));
	CHECK(!rdma_disconnect(id));
	rdma_destroy_ep(id);
	CHECK(!pthread_join(thread, NULL));
	rdma_destroy_ep(s.listener);
	/* Nobody there. */
	id = connect_ep(&s);
	FAILS(rdma_connect(id, &param), ECONNREFUSED);
	CHECK(id->event->status == 8);
	rdma_destroy_ep(id);
}

static void requests_come_from_synchronous_listeners(void *arg)
{
	union bed_addr addr = bed_loopback(AF_INET);
	struct rdma_cm_id *id, *new_id = (struct rdma_cm_id *)0x10;
	struct bed bed;

	bed_listen(&bed, RDMA_PS_TCP, &addr, 0);
	FAILS(rdma_get_request(bed.listener, &new_id), EINVAL);
	CHECK(!rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
	CHECK(id->channel);
	FAILS(rdma_get_request(id, &new_id), EINVAL);
	CHECK(!rdma_bind_addr(id, &addr.any));
	FAILS(rdma_get_request(id, &new_id), EINVAL);
	CHECK(!rdma_listen(id, 1));
	FAILS(rdma_get_request(id, NULL), EINVAL);
	CHECK(new_id == (struct rdma_cm_id *)0x10);
	CHECK(!rdma_destroy_id(id));
	bed_close(&bed);
}

static void each_call_leaves_its_event(void *arg)
{
	union bed_addr addr = bed_loopback(AF_INET);
	struct rdma_cm_id *id;

	bed_set_port(&addr, 7);
	CHECK(!rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
	CHECK(!id->event);
	CHECK(!rdma_resolve_addr(id, NULL, &addr.any, 100));
	CHECK(id->event->event == RDMA_CM_EVENT_ADDR_RESOLVED && id->event->id == id);
	CHECK(!rdma_resolve_route(id, 100));
	CHECK(id->event->event == RDMA_CM_EVENT_ROUTE_RESOLVED);
	CHECK(bed_quiet(id->channel));
	CHECK(!rdma_destroy_id(id));
}

/* A synchronous id becomes an ordinary one, and one again. */
static void an_id_changes_its_ways(void *arg)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	union bed_addr addr = bed_loopback(AF_INET);
	struct rdma_cm_id *id;

	bed_set_port(&addr, 7);
	CHECK(!rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_resolve_addr(id, NULL, &addr.any, 100));
	CHECK(!rdma_migrate_id(id, channel));
	CHECK(id->channel == channel && !id->event);
	CHECK(!rdma_resolve_route(id, 100));
	CHECK(!id->event);
	bed_take(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	CHECK(!rdma_migrate_id(id, NULL));
	CHECK(id->channel && id->channel != channel);
	bed_qp(id);
	FAILS(rdma_connect(id, NULL), ECONNREFUSED);
	CHECK(id->event->event == RDMA_CM_EVENT_REJECTED && bed_quiet(channel));
	rdma_destroy_ep(id);
	rdma_destroy_event_channel(channel);
}

static void end_points_that_fail(void *arg)
{
	struct ibv_qp_init_attr attr = qp_attr;
	struct rdma_addrinfo *res = look_up("127.0.0.1", "7", 0, RDMA_PS_TCP);
	struct rdma_cm_id *id = (struct rdma_cm_id *)0x10;

	FAILS(rdma_create_ep(&id, NULL, NULL, &attr), EINVAL);
	FAILS(rdma_create_ep(NULL, res, NULL, &attr), EINVAL);
	attr.cap.max_send_wr = 1u << 30;
	FAILS(rdma_create_ep(&id, res, NULL, &attr), EINVAL);
	res->ai_port_space = 1;
	FAILS(rdma_create_ep(&id, res, NULL, NULL), EPROTONOSUPPORT);
	res->ai_port_space = RDMA_PS_TCP;
	((struct sockaddr_in *)res->ai_dst_addr)->sin_family = AF_UNIX;
	FAILS(rdma_create_ep(&id, res, NULL, NULL), EAFNOSUPPORT);
	CHECK(id == (struct rdma_cm_id *)0x10);
	rdma_freeaddrinfo(res);
	rdma_destroy_ep(NULL);
}

/* ---- The short forms ---- */

static void every_short_form(struct bed *bed)
{
	struct rdma_cm_id *a = bed->client, *b = bed->server;
	static char here[64] = "here", there[64] = "there";
	struct ibv_mr *mine = rdma_reg_msgs(a, here, sizeof(here));
	struct ibv_mr *readable = rdma_reg_read(b, there, sizeof(there));
	struct ibv_mr *writable = rdma_reg_write(b, there, sizeof(there));
	struct ibv_sge sge = {(uintptr_t)here, 8, 0};
	struct ibv_wc wc;

	CHECK(mine && readable && writable);
	sge.lkey = mine->lkey;
	CHECK(!rdma_post_write(a, here, here, 8, mine, 0, (uintptr_t)there, writable->rkey));
	CHECK(rdma_get_send_comp(a, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	CHECK(wc.wr_id == (uintptr_t)here && !strcmp(there, "here"));
	strcpy(there, "back");
	CHECK(!rdma_post_read(a, there, here, 8, mine, 0, (uintptr_t)there, readable->rkey));
	CHECK(rdma_get_send_comp(a, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	CHECK(!strcmp(here, "back"));
	CHECK(!rdma_post_writev(a, NULL, &sge, 1, 0, (uintptr_t)there + 8, writable->rkey));
	CHECK(rdma_get_send_comp(a, &wc) == 1 && !strcmp(there + 8, "back"));
	CHECK(!rdma_post_readv(a, NULL, &sge, 1, 0, (uintptr_t)there + 8, readable->rkey));
	CHECK(rdma_get_send_comp(a, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	/* Not for writing. */
	CHECK(!rdma_post_write(a, NULL, here, 8, mine, 0, (uintptr_t)there, readable->rkey));
	CHECK(rdma_get_send_comp(a, &wc) == 1 && wc.status == IBV_WC_REM_ACCESS_ERR);
	CHECK(!rdma_dereg_mr(mine) && !rdma_dereg_mr(readable) && !rdma_dereg_mr(writable));
}

static void short_forms_work(void *arg)
{
	union bed_addr addr = bed_loopback(AF_INET);
	struct bed bed;

	bed_listen(&bed, RDMA_PS_TCP, &addr, 0);
	bed_connect(&bed);
	every_short_form(&bed);
	bed_close(&bed);
}

/* Receives of an id with an SRQ go there. */
static void an_srq_takes_the_receives(void *arg)
{
	union bed_addr addr = bed_loopback(AF_INET);
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = 8, .max_sge = 1}};
	struct rdma_conn_param param = bed_param();
	struct rdma_cm_event *event;
	struct bed bed;

	bed_listen(&bed, RDMA_PS_TCP, &addr, 0);
	bed_resolve(&bed);
	FAILS(rdma_create_srq(bed.client, NULL, NULL), EINVAL);
	CHECK(!rdma_create_srq(bed.client, NULL, &srq));
	CHECK(bed.client->srq && srq.attr.max_wr >= 8);
	FAILS(rdma_create_srq(bed.client, NULL, &srq), EINVAL);
	bed_qp(bed.client);
	CHECK(bed.client->qp->srq == bed.client->srq);
	event = bed_request(&bed, &param);
	CHECK(event->param.conn.srq == 1 && !rdma_ack_cm_event(event));
	bed_qp(bed.server);
	CHECK(!rdma_accept(bed.server, &param));
	bed_take(bed.active, RDMA_CM_EVENT_ESTABLISHED);
	bed_ping(bed.server, bed.client);
	rdma_destroy_qp(bed.client);
	rdma_destroy_srq(bed.client);
	CHECK(!bed.client->srq);
	rdma_destroy_srq(bed.client);
	bed_close(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BED_TEST(names_become_addresses),
		BED_TEST(hints_say_what_they_say),
		BED_TEST(names_that_fail),
		BED_TEST(names_are_resolved_for_an_id),
		BED_TEST(end_points_connect),
		BED_TEST(a_rejection_is_econnrefused),
		BED_TEST(requests_come_from_synchronous_listeners),
		BED_TEST(each_call_leaves_its_event),
		BED_TEST(an_id_changes_its_ways),
		BED_TEST(end_points_that_fail),
		BED_TEST(short_forms_work),
		BED_TEST(an_srq_takes_the_receives),
	};

	run_only();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

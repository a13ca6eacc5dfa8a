/* SPDX-License-Identifier: BSD-2-Clause */
#include "lib/cm_bed.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define WRS 4

void bed_in_child(void **state)
{
	void (*body)(void *) = (void (*)(void *)) * state;

	assert_int_equal(run_in_child(body, NULL), 0);
}

/* ---- Addresses ---- */

union bed_addr bed_wildcard(int family)
{
	union bed_addr addr;

	memset(&addr, 0, sizeof(addr));
	addr.any.sa_family = (sa_family_t)family;
	return addr;
}

union bed_addr bed_loopback(int family)
{
	union bed_addr addr = bed_wildcard(family);

	if (family == AF_INET6)
		addr.v6.sin6_addr = in6addr_loopback;
	else
		addr.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return addr;
}

/* A link-local address means nothing without its interface. */
static void set_scope(struct sockaddr_in6 *addr)
{
	struct ifaddrs *list;

	CHECK(!getifaddrs(&list));
	for (struct ifaddrs *a = list; a; a = a->ifa_next) {
		const struct sockaddr_in6 *one = (const struct sockaddr_in6 *)(void *)a->ifa_addr;

		if (one && one->sin6_family == AF_INET6 &&
		    !memcmp(&one->sin6_addr, &addr->sin6_addr, 16))
			addr->sin6_scope_id = one->sin6_scope_id;
	}
	freeifaddrs(list);
}

bool bed_own(int family, union bed_addr *addr)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	int n;
	struct ibv_context **devices = rdma_get_devices(&n);
	union ibv_gid gid;
	bool found = false;

	CHECK(devices && n > 0);
	*addr = bed_wildcard(family);
	for (int i = 0; i < 64 && !found; i++) {
		bool is_v4;

		if (ibv_query_gid(devices[0], 1, i, &gid) || !gid.global.interface_id)
			continue;
		is_v4 = !memcmp(gid.raw, mapped, sizeof(mapped));
		found = is_v4 == (family == AF_INET);
		if (found && is_v4)
			memcpy(&addr->v4.sin_addr, gid.raw + 12, 4);
		else if (found)
			memcpy(&addr->v6.sin6_addr, gid.raw, 16);
	}
	rdma_free_devices(devices);
	if (found && family == AF_INET6)
		set_scope(&addr->v6);
	return found;
}

void bed_set_port(union bed_addr *addr, uint16_t port)
{
	addr->v4.sin_port = htons(port);
}

/* ---- Events ---- */

bool bed_readable(struct rdma_event_channel *channel)
{
	struct pollfd fd = {.fd = channel->fd, .events = POLLIN};

	CHECK(poll(&fd, 1, 0) >= 0);
	return fd.revents & POLLIN;
}

bool bed_quiet(struct rdma_event_channel *channel)
{
	return !bed_readable(channel);
}

struct rdma_cm_event *bed_next(struct rdma_event_channel *channel)
{
	struct pollfd fd = {.fd = channel->fd, .events = POLLIN};
	struct rdma_cm_event *event;

	CHECK(poll(&fd, 1, BED_PATIENCE_S * 1000) == 1);
	CHECK(!rdma_get_cm_event(channel, &event));
	return event;
}

struct rdma_cm_event *bed_want(struct rdma_event_channel *channel, enum rdma_cm_event_type type,
			       int status)
{
	struct rdma_cm_event *event = bed_next(channel);

	if (event->event != type || event->status != status) {
		fprintf(stderr, "%s %d, want %s %d\n", rdma_event_str(event->event), event->status,
			rdma_event_str(type), status);
		CHECK(false);
	}
	return event;
}

void bed_take(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	CHECK(!rdma_ack_cm_event(bed_want(channel, type, 0)));
}

/* ---- Connections ---- */

void bed_listen(struct bed *bed, enum rdma_port_space ps, const union bed_addr *addr, int backlog)
{
	memset(bed, 0, sizeof(*bed));
	bed->ps = ps;
	bed->passive = rdma_create_event_channel();
	bed->active = rdma_create_event_channel();
	CHECK(bed->passive && bed->active);
	CHECK(!rdma_create_id(bed->passive, &bed->listener, bed, ps));
	bed->addr = *addr;
	CHECK(!rdma_bind_addr(bed->listener, &bed->addr.any));
	CHECK(!rdma_listen(bed->listener, backlog));
	bed_set_port(&bed->addr, ntohs(rdma_get_src_port(bed->listener)));
	CHECK(bed->addr.v4.sin_port);
	/* Wildcards are reached at loopback. */
	if (addr->any.sa_family == AF_INET && !addr->v4.sin_addr.s_addr)
		bed->addr.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else if (addr->any.sa_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&addr->v6.sin6_addr))
		bed->addr.v6.sin6_addr = in6addr_loopback;
}

void bed_serve(struct bed *bed, enum rdma_port_space ps, int to)
{
	union bed_addr addr;

	enter_other();
	addr = bed_here();
	bed_listen(bed, ps, &addr, 0);
	CHECK(write(to, &bed->addr, sizeof(bed->addr)) == sizeof(bed->addr));
}

union bed_addr bed_here(void)
{
	union bed_addr addr = bed_loopback(AF_INET);

	CHECK(!getenv("VB_TEST_OTHER") || bed_own(AF_INET, &addr));
	return addr;
}

struct rdma_cm_id *bed_resolve_id(const struct bed *bed, struct rdma_event_channel *channel)
{
	union bed_addr to = bed->addr;
	struct rdma_cm_id *id;

	CHECK(!rdma_create_id(channel, &id, NULL, bed->ps));
	CHECK(!rdma_resolve_addr(id, NULL, &to.any, 2000));
	bed_take(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(!rdma_resolve_route(id, 2000));
	bed_take(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	return id;
}

void bed_resolve(struct bed *bed)
{
	bed->client = bed_resolve_id(bed, bed->active);
}

void bed_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = WRS,
			.max_recv_wr = WRS,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = id->qp_type,
		.sq_sig_all = 1,
	};

	CHECK(!rdma_create_qp(id, NULL, &attr));
	CHECK(id->qp && id->send_cq && id->recv_cq);
}

struct rdma_conn_param bed_param(void)
{
	return (struct rdma_conn_param){.responder_resources = 1,
					.initiator_depth = 1,
					.retry_count = 7,
					.rnr_retry_count = 7};
}

struct rdma_cm_event *bed_request(struct bed *bed, struct rdma_conn_param *param)
{
	struct rdma_cm_event *event;

	CHECK(!rdma_connect(bed->client, param));
	event = bed_want(bed->passive, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	CHECK(event->listen_id == bed->listener && event->id != bed->listener);
	bed->server = event->id;
	return event;
}

void bed_connect(struct bed *bed)
{
	struct rdma_conn_param param = bed_param();

	bed_resolve(bed);
	bed_qp(bed->client);
	CHECK(!rdma_ack_cm_event(bed_request(bed, &param)));
	bed_qp(bed->server);
	CHECK(!rdma_accept(bed->server, &param));
	bed_take(bed->active, RDMA_CM_EVENT_ESTABLISHED);
	if (bed->server->qp_type != IBV_QPT_UD)
		bed_take(bed->passive, RDMA_CM_EVENT_ESTABLISHED);
}

void bed_hang_up(struct bed *bed)
{
	CHECK(!rdma_disconnect(bed->client));
	bed_take(bed->passive, RDMA_CM_EVENT_DISCONNECTED);
	CHECK(!rdma_disconnect(bed->server));
	bed_take(bed->active, RDMA_CM_EVENT_DISCONNECTED);
}

void bed_end_id(struct rdma_cm_id **id)
{
	if (!*id)
		return;
	rdma_destroy_qp(*id);
	CHECK(!rdma_destroy_id(*id));
	*id = NULL;
}

void bed_close(struct bed *bed)
{
	bed_end_id(&bed->client);
	bed_end_id(&bed->server);
	bed_end_id(&bed->listener);
	rdma_destroy_event_channel(bed->passive);
	rdma_destroy_event_channel(bed->active);
}

void bed_ping(struct rdma_cm_id *from, struct rdma_cm_id *to)
{
	char out[32] = "one message", in[32] = "";
	struct ibv_mr *send = rdma_reg_msgs(from, out, sizeof(out));
	struct ibv_mr *recv = rdma_reg_msgs(to, in, sizeof(in));
	struct ibv_wc wc;

	CHECK(send && recv);
	CHECK(!rdma_post_recv(to, in, in, sizeof(in), recv));
	CHECK(!rdma_post_send(from, out, out, sizeof(out), send, 0));
	CHECK(rdma_get_send_comp(from, &wc) == 1);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == (uintptr_t)out);
	CHECK(rdma_get_recv_comp(to, &wc) == 1);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == (uintptr_t)in);
	CHECK(!strcmp(in, "one message"));
	CHECK(!rdma_dereg_mr(send) && !rdma_dereg_mr(recv));
}

/* ---- Nothing changed ---- */

struct bed_shape bed_shape(const struct rdma_cm_id *id)
{
	struct bed_shape shape;

	memcpy(shape.bytes, id, sizeof(shape.bytes));
	return shape;
}

bool bed_same(const struct bed_shape *shape, const struct rdma_cm_id *id)
{
	const void *bytes = id;

	return !memcmp(shape->bytes, bytes, sizeof(shape->bytes));
}

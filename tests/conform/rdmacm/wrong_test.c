/* SPDX-License-Identifier: BSD-2-Clause */
/* Wrong use: NULL, twice, in the wrong state, of a parent's. Each call is refused, and what it was
 * about works on. */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/cm_bed.h"

/* Of releases after the installed headers'. */
int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
			  const struct rdma_addrinfo *hints);
int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info);
int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
			uint64_t arg);

static struct bed bed;

static void start(void)
{
	union bed_addr addr = bed_loopback(AF_INET);

	bed_listen(&bed, RDMA_PS_TCP, &addr, 0);
}

/* Every call with an id. @err: of those that are not refused before for what they are given. */
static void call_all(struct rdma_cm_id *id, int err)
{
	union bed_addr addr = bed_loopback(AF_INET);
	struct rdma_conn_param param = bed_param();
	struct ibv_qp_init_attr qp = {.qp_type = IBV_QPT_RC};
	struct ibv_qp_init_attr_ex qpx = {.qp_type = IBV_QPT_RC};
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = 1}};
	struct ibv_srq_init_attr_ex srqx = {.attr = {.max_wr = 1}};
	struct rdma_cm_join_mc_attr_ex mc = {0};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	struct rdma_addrinfo *info;
	struct rdma_cm_id *new_id;
	struct ibv_ece ece = {0};
	uint8_t tos = 1;
	int mask;

	FAILS(rdma_bind_addr(id, &addr.any), err);
	FAILS(rdma_resolve_addr(id, NULL, &addr.any, 1), err);
	FAILS(rdma_resolve_route(id, 1), err);
	FAILS(rdma_listen(id, 1), err);
	FAILS(rdma_get_request(id, &new_id), err);
	FAILS(rdma_connect(id, &param), err);
	FAILS(rdma_accept(id, &param), err);
	FAILS(rdma_establish(id), err);
	FAILS(rdma_reject(id, NULL, 0), err);
	FAILS(rdma_reject_ece(id, NULL, 0), err);
	FAILS(rdma_notify(id, IBV_EVENT_COMM_EST), err);
	FAILS(rdma_disconnect(id), err);
	FAILS(rdma_migrate_id(id, NULL), err);
	FAILS(rdma_create_qp(id, NULL, &qp), err);
	FAILS(rdma_create_qp_ex(id, &qpx), err);
	FAILS(rdma_create_srq(id, NULL, &srq), err);
	FAILS(rdma_create_srq_ex(id, &srqx), err);
	FAILS(rdma_init_qp_attr(id, &attr, &mask), err);
	FAILS(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1), err);
	FAILS(rdma_set_local_ece(id, &ece), err);
	FAILS(rdma_get_remote_ece(id, &ece), err);
	FAILS(rdma_join_multicast(id, &addr.any, NULL), err);
	FAILS(rdma_join_multicast_ex(id, &mc, NULL), err);
	FAILS(rdma_leave_multicast(id, &addr.any), err);
	FAILS(rdma_resolve_addrinfo(id, "127.0.0.1", "1", NULL), err);
	FAILS(rdma_query_addrinfo(id, &info), err);
	FAILS(rdma_write_cm_event(id, (enum rdma_cm_event_type)18, 0, 0), err);
}

static void null_is_refused(void *arg)
{
	struct rdma_cm_event *event;

	call_all(NULL, EINVAL);
	FAILS(rdma_destroy_id(NULL), EINVAL);
	FAILS(rdma_get_cm_event(NULL, &event), EINVAL);
	FAILS(rdma_ack_cm_event(NULL), EINVAL);
	FAILS(rdma_create_id(NULL, NULL, NULL, RDMA_PS_TCP), EINVAL);
	CHECK(!rdma_get_src_port(NULL) && !rdma_get_dst_port(NULL));
	rdma_destroy_qp(NULL);
	rdma_destroy_srq(NULL);
	rdma_destroy_ep(NULL);
	rdma_destroy_event_channel(NULL);
	rdma_free_devices(NULL);
	rdma_freeaddrinfo(NULL);
}

static void a_destroyed_channel_is_refused(void *arg)
{
	struct rdma_event_channel *channel = rdma_create_event_channel(), *other;
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	CHECK(channel);
	rdma_destroy_event_channel(channel);
	FAILS(rdma_get_cm_event(channel, &event), EINVAL);
	FAILS(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), EINVAL);
	other = rdma_create_event_channel();
	CHECK(other && !rdma_create_id(other, &id, NULL, RDMA_PS_TCP));
	if (other != channel)
		FAILS(rdma_migrate_id(id, channel), EINVAL);
	CHECK(id->channel == other && !rdma_destroy_id(id));
	rdma_destroy_event_channel(other);
}

static void attributes_may_not_be_null(void *arg)
{
	struct bed_shape before;
	int mask;

	start();
	bed_resolve(&bed);
	before = bed_shape(bed.client);
	FAILS(rdma_create_qp(bed.client, NULL, NULL), EINVAL);
	FAILS(rdma_create_qp_ex(bed.client, NULL), EINVAL);
	FAILS(rdma_create_srq(bed.client, NULL, NULL), EINVAL);
	FAILS(rdma_create_srq_ex(bed.client, NULL), EINVAL);
	FAILS(rdma_init_qp_attr(bed.client, NULL, &mask), EINVAL);
	FAILS(rdma_init_qp_attr(bed.client, &(struct ibv_qp_attr){0}, NULL), EINVAL);
	FAILS(rdma_get_cm_event(bed.active, NULL), EINVAL);
	CHECK(bed_same(&before, bed.client));
	bed_close(&bed);
}

/* What a QP, an SRQ or a connection needs a device for. */
static void an_unbound_id_has_no_device(void *arg)
{
	struct ibv_qp_init_attr qp = {.qp_type = IBV_QPT_RC};
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	struct rdma_cm_id *id;
	struct bed_shape before;
	int mask;

	start();
	CHECK(!rdma_create_id(bed.active, &id, NULL, RDMA_PS_TCP));
	before = bed_shape(id);
	FAILS(rdma_create_qp(id, NULL, &qp), EINVAL);
	FAILS(rdma_create_srq(id, NULL, &srq), EINVAL);
	FAILS(rdma_init_qp_attr(id, &attr, &mask), EINVAL);
	FAILS(rdma_disconnect(id), EINVAL);
	FAILS(rdma_notify(id, IBV_EVENT_COMM_EST), EINVAL);
	FAILS(rdma_resolve_route(id, 1), EINVAL);
	CHECK(bed_same(&before, id) && bed_quiet(bed.active));
	rdma_destroy_qp(id);
	rdma_destroy_srq(id);
	CHECK(bed_same(&before, id));
	CHECK(!rdma_destroy_id(id));
	bed_close(&bed);
}

static void a_qp_that_cannot_be_made_leaves_nothing(void *arg)
{
	struct ibv_qp_init_attr qp = {.qp_type = IBV_QPT_RC,
				      .cap = {.max_send_wr = 1u << 30, .max_recv_wr = 1}};
	struct ibv_qp_init_attr ud = {.qp_type = IBV_QPT_UD,
				      .cap = {.max_send_wr = 1, .max_recv_wr = 1}};
	struct ibv_qp_init_attr kept = qp;
	struct bed_shape before;

	start();
	bed_resolve(&bed);
	before = bed_shape(bed.client);
	FAILS(rdma_create_qp(bed.client, NULL, &qp), EINVAL);
	CHECK(!memcmp(&kept, &qp, sizeof(qp)));
	FAILS(rdma_create_qp(bed.client, NULL, &ud), EINVAL);
	CHECK(bed_same(&before, bed.client));
	bed_qp(bed.client);
	bed_close(&bed);
}

/* Its memory is kept for the next one, but where a sanitizer is to see it. */
static void an_event_is_acknowledged_once(void *arg)
{
#ifndef VB_SANITIZED
	struct rdma_event_channel *channel = rdma_create_event_channel();
	union bed_addr addr = bed_loopback(AF_INET);
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	CHECK(channel && !rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_resolve_addr(id, NULL, &addr.any, 1));
	event = bed_want(channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	CHECK(!rdma_ack_cm_event(event));
	FAILS(rdma_ack_cm_event(event), EINVAL);
	CHECK(!rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
#endif
}

static void calls_out_of_turn(void *arg)
{
	struct rdma_conn_param param = bed_param();

	start();
	bed_resolve(&bed);
	bed_qp(bed.client);
	FAILS(rdma_resolve_route(bed.client, 1), EINVAL);
	FAILS(rdma_accept(bed.client, &param), EINVAL);
	FAILS(rdma_reject(bed.client, NULL, 0), EINVAL);
	FAILS(rdma_disconnect(bed.client), EINVAL);
	CHECK(!rdma_ack_cm_event(bed_request(&bed, &param)));
	FAILS(rdma_connect(bed.client, &param), EINVAL);
	FAILS(rdma_accept(bed.client, &param), EINVAL);
	FAILS(rdma_connect(bed.server, &param), EINVAL);
	FAILS(rdma_listen(bed.server, 0), EINVAL);
	bed_qp(bed.server);
	CHECK(!rdma_accept(bed.server, &param));
	FAILS(rdma_accept(bed.server, &param), EINVAL);
	bed_take(bed.active, RDMA_CM_EVENT_ESTABLISHED);
	bed_take(bed.passive, RDMA_CM_EVENT_ESTABLISHED);
	FAILS(rdma_accept(bed.server, &param), EINVAL);
	FAILS(rdma_reject(bed.server, NULL, 0), EINVAL);
	FAILS(rdma_reject(bed.client, NULL, 0), EINVAL);
	FAILS(rdma_connect(bed.client, &param), EINVAL);
	FAILS(rdma_establish(bed.client), EINVAL);
	CHECK(bed_quiet(bed.active) && bed_quiet(bed.passive));
	/* None of it has hurt the connection. */
	bed_ping(bed.client, bed.server);
	bed_ping(bed.server, bed.client);
	bed_hang_up(&bed);
	FAILS(rdma_connect(bed.client, &param), EINVAL);
	FAILS(rdma_accept(bed.server, &param), EINVAL);
	bed_close(&bed);
}

/* ---- After fork ---- */

static void in_the_child(void *arg)
{
	struct rdma_cm_event *event;
	struct bed own;
	union bed_addr addr = bed_loopback(AF_INET);

	call_all(bed.client, EINVAL);
	call_all(bed.listener, EINVAL);
	FAILS(rdma_get_cm_event(bed.active, &event), EINVAL);
	FAILS(rdma_create_id(bed.active, &own.client, NULL, RDMA_PS_TCP), EINVAL);
	/* What it does itself works, also towards its parent. */
	bed_listen(&own, RDMA_PS_TCP, &addr, 0);
	bed_connect(&own);
	bed_ping(own.client, own.server);
	bed_hang_up(&own);
	bed_close(&own);
	/* It may give back the memory. */
	CHECK(!rdma_destroy_id(bed.client) && !rdma_destroy_id(bed.server));
	CHECK(!rdma_destroy_id(bed.listener));
	rdma_destroy_event_channel(bed.active);
	rdma_destroy_event_channel(bed.passive);
}

static void a_child_has_its_own(void *arg)
{
	start();
	bed_connect(&bed);
	CHECK(!run_in_child(in_the_child, NULL));
	/* The parent has not noticed. */
	CHECK(bed_quiet(bed.active) && bed_quiet(bed.passive));
	bed_ping(bed.client, bed.server);
	bed_ping(bed.server, bed.client);
	bed_hang_up(&bed);
	bed_close(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BED_TEST(null_is_refused),
		BED_TEST(a_destroyed_channel_is_refused),
		BED_TEST(attributes_may_not_be_null),
		BED_TEST(an_unbound_id_has_no_device),
		BED_TEST(a_qp_that_cannot_be_made_leaves_nothing),
		BED_TEST(an_event_is_acknowledged_once),
		BED_TEST(calls_out_of_turn),
		BED_TEST(a_child_has_its_own),
	};

	run_only();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

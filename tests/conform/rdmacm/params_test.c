/* SPDX-License-Identifier: BSD-2-Clause */
/* What connections carry: private data and its limits, resources, retries, options, ECE; and QPs
 * that are the program's own. */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <infiniband/sa.h>

#include "lib/cm_bed.h"

static struct bed bed;

static void start(void)
{
	union bed_addr addr = bed_loopback(AF_INET);

	bed_listen(&bed, RDMA_PS_TCP, &addr, 0);
}

static void fill(uint8_t *bytes, size_t len, int seed)
{
	for (size_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)(seed + 3 * (int)i + 1);
}

/* Bytes that were sent, then zeroes up to the message's size. */
static void check_data(const struct rdma_cm_event *event, int seed, size_t len, size_t size)
{
	const uint8_t *data = event->param.conn.private_data;
	uint8_t want[256] = {0};

	fill(want, len, seed);
	CHECK(event->param.conn.private_data_len == size);
	CHECK(data && !memcmp(data, want, size));
}

/* ---- Private data ---- */

/* Sizes up to the limit arrive, the next is refused and nothing is sent or changed. */
static void private_data_of_requests(void *arg)
{
	static const uint8_t sizes[] = {0, 1, 55, 56};
	uint8_t data[256];
	struct rdma_conn_param param = bed_param();

	param.private_data = data;
	start();
	for (size_t i = 0; i < sizeof(sizes); i++) {
		struct bed_shape before;
		struct rdma_cm_event *event;

		fill(data, sizeof(data), (int)i);
		bed_resolve(&bed);
		bed_qp(bed.client);
		before = bed_shape(bed.client);
		param.private_data_len = 57;
		FAILS(rdma_connect(bed.client, &param), EINVAL);
		param.private_data_len = 255;
		FAILS(rdma_connect(bed.client, &param), EINVAL);
		CHECK(bed_same(&before, bed.client));
		CHECK(bed_quiet(bed.active) && bed_quiet(bed.passive));
		param.private_data_len = sizes[i];
		event = bed_request(&bed, &param);
		check_data(event, (int)i, sizes[i], 56);
		CHECK(!rdma_ack_cm_event(event));
		bed_end_id(&bed.client);
		bed_end_id(&bed.server);
	}
	bed_close(&bed);
}

static void private_data_of_replies(void *arg)
{
	static const uint8_t sizes[] = {0, 1, 195, 196};
	uint8_t data[256];
	struct rdma_conn_param param = bed_param();

	start();
	for (size_t i = 0; i < sizeof(sizes); i++) {
		struct rdma_conn_param more = param;
		struct rdma_cm_event *event;

		fill(data, sizeof(data), (int)i);
		bed_resolve(&bed);
		bed_qp(bed.client);
		CHECK(!rdma_ack_cm_event(bed_request(&bed, &param)));
		bed_qp(bed.server);
		more.private_data = data;
		more.private_data_len = 197;
		FAILS(rdma_accept(bed.server, &more), EINVAL);
		CHECK(bed_quiet(bed.active) && bed_quiet(bed.passive));
		more.private_data_len = sizes[i];
		CHECK(!rdma_accept(bed.server, &more));
		event = bed_want(bed.active, RDMA_CM_EVENT_ESTABLISHED, 0);
		check_data(event, (int)i, sizes[i], 196);
		CHECK(!rdma_ack_cm_event(event));
		bed_take(bed.passive, RDMA_CM_EVENT_ESTABLISHED);
		bed_ping(bed.client, bed.server);
		bed_end_id(&bed.client);
		bed_end_id(&bed.server);
	}
	bed_close(&bed);
}

static void private_data_of_rejections(void *arg)
{
	static const uint8_t sizes[] = {0, 1, 147, 148};
	uint8_t data[256];
	struct rdma_conn_param param = bed_param();

	start();
	for (size_t i = 0; i < sizeof(sizes); i++) {
		struct rdma_cm_event *event;

		fill(data, sizeof(data), (int)i);
		bed_resolve(&bed);
		bed_qp(bed.client);
		CHECK(!rdma_ack_cm_event(bed_request(&bed, &param)));
		FAILS(rdma_reject(bed.server, data, 149), EINVAL);
		FAILS(rdma_reject(bed.server, NULL, 1), EINVAL);
		CHECK(bed_quiet(bed.active));
		CHECK(!rdma_reject(bed.server, data, sizes[i]));
		event = bed_want(bed.active, RDMA_CM_EVENT_REJECTED, 28);
		check_data(event, (int)i, sizes[i], 148);
		CHECK(!rdma_ack_cm_event(event));
		bed_end_id(&bed.client);
		bed_end_id(&bed.server);
	}
	bed_close(&bed);
}

/* ---- Numbers ---- */

static struct ibv_qp_attr attr_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK(!ibv_query_qp(qp, &attr, IBV_QP_CAP, &init));
	return attr;
}

static void resources_are_what_both_can(void *arg)
{
	struct rdma_conn_param param = bed_param(), answer = bed_param();
	struct rdma_cm_event *event;
	struct ibv_qp_attr client, server;

	start();
	bed_resolve(&bed);
	bed_qp(bed.client);
	param.responder_resources = 3;
	param.initiator_depth = 5;
	param.retry_count = 4;
	param.rnr_retry_count = 2;
	param.flow_control = 1;
	event = bed_request(&bed, &param);
	/* Seen from the other side. */
	CHECK(event->param.conn.responder_resources == 5);
	CHECK(event->param.conn.initiator_depth == 3);
	CHECK(event->param.conn.retry_count == 4 && event->param.conn.rnr_retry_count == 2);
	CHECK(event->param.conn.flow_control == 1 && !event->param.conn.srq);
	CHECK(!rdma_ack_cm_event(event));
	bed_qp(bed.server);
	answer.responder_resources = 4;
	answer.initiator_depth = 2;
	answer.rnr_retry_count = 6;
	CHECK(!rdma_accept(bed.server, &answer));
	event = bed_want(bed.active, RDMA_CM_EVENT_ESTABLISHED, 0);
	CHECK(event->param.conn.responder_resources == 2);
	CHECK(event->param.conn.initiator_depth == 4);
	CHECK(event->param.conn.rnr_retry_count == 6);
	CHECK(!rdma_ack_cm_event(event));
	client = attr_of(bed.client->qp);
	server = attr_of(bed.server->qp);
	CHECK(client.dest_qp_num == bed.server->qp->qp_num);
	CHECK(server.dest_qp_num == bed.client->qp->qp_num);
	CHECK(client.sq_psn == server.rq_psn && client.rq_psn == server.sq_psn);
	CHECK(server.max_dest_rd_atomic == 4 && server.max_rd_atomic == 2);
	CHECK(client.max_dest_rd_atomic == 2 && client.max_rd_atomic == 4);
	CHECK(server.retry_cnt == 4 && client.retry_cnt == 4);
	/* The receiver says how often it is worth trying. */
	CHECK(server.rnr_retry == 2 && client.rnr_retry == 6);
	CHECK(client.path_mtu == server.path_mtu && client.timeout == server.timeout);
	bed_close(&bed);
}

static void the_devices_maximum_may_be_asked_for(void *arg)
{
	struct rdma_conn_param param = {.responder_resources = RDMA_MAX_RESP_RES,
					.initiator_depth = RDMA_MAX_INIT_DEPTH,
					.retry_count = 200,
					.rnr_retry_count = 200};
	struct ibv_device_attr device;
	struct rdma_cm_event *event;

	start();
	bed_resolve(&bed);
	bed_qp(bed.client);
	CHECK(!ibv_query_device(bed.client->verbs, &device));
	event = bed_request(&bed, &param);
	CHECK(event->param.conn.responder_resources == device.max_qp_init_rd_atom);
	CHECK(event->param.conn.initiator_depth == device.max_qp_rd_atom);
	CHECK(event->param.conn.retry_count == 7 && event->param.conn.rnr_retry_count == 7);
	CHECK(!rdma_ack_cm_event(event));
	bed_qp(bed.server);
	CHECK(!rdma_accept(bed.server, NULL));
	bed_take(bed.active, RDMA_CM_EVENT_ESTABLISHED);
	bed_take(bed.passive, RDMA_CM_EVENT_ESTABLISHED);
	CHECK(attr_of(bed.server->qp).max_rd_atomic == device.max_qp_init_rd_atom);
	bed_ping(bed.server, bed.client);
	bed_close(&bed);
}

static void more_than_the_device_can_is_refused(void *arg)
{
	struct rdma_conn_param param = bed_param();
	struct ibv_device_attr device;

	start();
	bed_resolve(&bed);
	bed_qp(bed.client);
	CHECK(!ibv_query_device(bed.client->verbs, &device));
	param.responder_resources = (uint8_t)(device.max_qp_rd_atom + 1);
	FAILS(rdma_connect(bed.client, &param), EINVAL);
	param = bed_param();
	param.initiator_depth = (uint8_t)(device.max_qp_init_rd_atom + 1);
	FAILS(rdma_connect(bed.client, &param), EINVAL);
	param = bed_param();
	CHECK(!rdma_ack_cm_event(bed_request(&bed, &param)));
	bed_qp(bed.server);
	param.initiator_depth = (uint8_t)(device.max_qp_init_rd_atom + 1);
	FAILS(rdma_accept(bed.server, &param), EINVAL);
	param = bed_param();
	CHECK(!rdma_accept(bed.server, &param));
	bed_take(bed.active, RDMA_CM_EVENT_ESTABLISHED);
	bed_close(&bed);
}

static void parameters_may_be_left_out(void *arg)
{
	start();
	bed_resolve(&bed);
	FAILS(rdma_connect(bed.client, NULL), EINVAL);
	bed_qp(bed.client);
	CHECK(!rdma_ack_cm_event(bed_request(&bed, NULL)));
	FAILS(rdma_accept(bed.server, NULL), EINVAL);
	bed_qp(bed.server);
	CHECK(!rdma_accept(bed.server, NULL));
	bed_take(bed.active, RDMA_CM_EVENT_ESTABLISHED);
	bed_take(bed.passive, RDMA_CM_EVENT_ESTABLISHED);
	bed_ping(bed.client, bed.server);
	bed_close(&bed);
}

/* ---- QPs of the program's own ---- */

struct own {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

static void own_qp(struct own *own, struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};

	own->cq = ibv_create_cq(id->verbs, 16, NULL, NULL, 0);
	CHECK(own->cq);
	attr.send_cq = attr.recv_cq = own->cq;
	own->qp = ibv_create_qp(id->pd, &attr);
	CHECK(own->qp);
}

static void own_close(struct own *own)
{
	CHECK(!ibv_destroy_qp(own->qp) && !ibv_destroy_cq(own->cq));
}

static void own_to(struct own *own, struct rdma_cm_id *id, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};
	int mask = 0;

	CHECK(!rdma_init_qp_attr(id, &attr, &mask));
	CHECK(attr.qp_state == state && mask & IBV_QP_STATE);
	CHECK(!ibv_modify_qp(own->qp, &attr, mask));
}

static void own_send(struct own *from, struct own *to, struct rdma_cm_id *id)
{
	char out[16] = "by itself", in[16] = "";
	struct ibv_mr *send = ibv_reg_mr(id->pd, out, sizeof(out), 0);
	struct ibv_mr *recv = ibv_reg_mr(id->pd, in, sizeof(in), IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge put = {(uintptr_t)out, sizeof(out), send->lkey};
	struct ibv_sge get = {(uintptr_t)in, sizeof(in), recv->lkey};
	struct ibv_send_wr wr = {.sg_list = &put,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED};
	struct ibv_recv_wr rr = {.sg_list = &get, .num_sge = 1};
	struct ibv_send_wr *bad;
	struct ibv_recv_wr *bad_recv;
	struct ibv_wc wc;

	CHECK(!ibv_post_recv(to->qp, &rr, &bad_recv));
	CHECK(!ibv_post_send(from->qp, &wr, &bad));
	while (!ibv_poll_cq(from->cq, 1, &wc))
		;
	CHECK(wc.status == IBV_WC_SUCCESS);
	while (!ibv_poll_cq(to->cq, 1, &wc))
		;
	CHECK(wc.status == IBV_WC_SUCCESS && !strcmp(in, "by itself"));
	CHECK(!ibv_dereg_mr(send) && !ibv_dereg_mr(recv));
}

static void attributes_need_a_connection(struct rdma_cm_id *id)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
	int mask = 0x1234;

	FAILS(rdma_init_qp_attr(id, &attr, &mask), EINVAL);
	CHECK(mask == 0x1234 && attr.qp_state == IBV_QPS_RTR);
	attr.qp_state = IBV_QPS_INIT;
	CHECK(!rdma_init_qp_attr(id, &attr, &mask));
	CHECK(mask == (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	CHECK(attr.port_num == id->port_num);
	attr.qp_state = IBV_QPS_ERR;
	FAILS(rdma_init_qp_attr(id, &attr, &mask), EINVAL);
}

static void check_rtr(struct rdma_cm_id *id, uint32_t peer)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
	int mask = 0;

	CHECK(!rdma_init_qp_attr(id, &attr, &mask));
	CHECK(mask == (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
		       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	CHECK(attr.dest_qp_num == peer && attr.ah_attr.is_global);
	CHECK(attr.ah_attr.grh.hop_limit && attr.ah_attr.port_num == 1);
	CHECK(attr.path_mtu && attr.max_dest_rd_atomic == 1 && !attr.min_rnr_timer);
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!rdma_init_qp_attr(id, &attr, &mask));
	CHECK(mask == (IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
	CHECK(attr.retry_cnt == 7 && attr.rnr_retry == 7 && attr.max_rd_atomic == 1);
}

/* As UCX and libfabric do it. */
static void both_sides_move_their_qps(void *arg)
{
	struct rdma_conn_param param = bed_param();
	struct own client, server;
	struct rdma_cm_event *event;

	start();
	bed_resolve(&bed);
	attributes_need_a_connection(bed.client);
	FAILS(rdma_establish(bed.client), EINVAL);
	own_qp(&client, bed.client);
	own_to(&client, bed.client, IBV_QPS_INIT);
	param.qp_num = client.qp->qp_num;
	param.srq = 1;
	event = bed_request(&bed, &param);
	CHECK(event->param.conn.qp_num == client.qp->qp_num && event->param.conn.srq == 1);
	CHECK(!rdma_ack_cm_event(event));
	own_qp(&server, bed.server);
	check_rtr(bed.server, client.qp->qp_num);
	for (int state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++)
		own_to(&server, bed.server, (enum ibv_qp_state)state);
	FAILS(rdma_establish(bed.server), EINVAL);
	param.qp_num = server.qp->qp_num;
	CHECK(!rdma_accept(bed.server, &param));
	event = bed_want(bed.active, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	CHECK(event->param.conn.qp_num == server.qp->qp_num);
	CHECK(!rdma_ack_cm_event(event));
	check_rtr(bed.client, server.qp->qp_num);
	own_to(&client, bed.client, IBV_QPS_RTR);
	own_to(&client, bed.client, IBV_QPS_RTS);
	/* The other side has not heard of it. */
	CHECK(bed_quiet(bed.passive));
	CHECK(!rdma_establish(bed.client));
	FAILS(rdma_establish(bed.client), EINVAL);
	bed_take(bed.passive, RDMA_CM_EVENT_ESTABLISHED);
	CHECK(bed_quiet(bed.active));
	own_send(&client, &server, bed.client);
	own_send(&server, &client, bed.client);
	bed_hang_up(&bed);
	own_close(&client);
	own_close(&server);
	bed_close(&bed);
}

/* Data came before the ready message. */
static void data_establishes(void *arg)
{
	struct rdma_conn_param param = bed_param();

	start();
	bed_resolve(&bed);
	param.qp_num = 0x1234;
	CHECK(!rdma_ack_cm_event(bed_request(&bed, &param)));
	FAILS(rdma_notify(bed.server, IBV_EVENT_PATH_MIG), EINVAL);
	CHECK(!rdma_accept(bed.server, &param));
	CHECK(!rdma_ack_cm_event(bed_want(bed.active, RDMA_CM_EVENT_CONNECT_RESPONSE, 0)));
	CHECK(bed_quiet(bed.passive));
	CHECK(!rdma_notify(bed.server, IBV_EVENT_COMM_EST));
	bed_take(bed.passive, RDMA_CM_EVENT_ESTABLISHED);
	/* Once: neither by another notice, nor by the message that comes now. */
	CHECK(!rdma_notify(bed.server, IBV_EVENT_COMM_EST));
	CHECK(!rdma_establish(bed.client));
	bed_hang_up(&bed);
	bed_take(bed.passive, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	bed_close(&bed);
}

/* ---- Options ---- */

static void options_have_their_lengths(void *arg)
{
	struct rdma_cm_id *id;
	uint8_t byte = 0x20, too_long = 32;
	int on = 1;

	start();
	CHECK(!rdma_create_id(bed.active, &id, NULL, RDMA_PS_TCP));
	for (int name = RDMA_OPTION_ID_TOS; name <= RDMA_OPTION_ID_ACK_TIMEOUT; name++) {
		bool small = name == RDMA_OPTION_ID_TOS || name == RDMA_OPTION_ID_ACK_TIMEOUT;
		void *value = small ? (void *)&byte : (void *)&on;

		if (name == RDMA_OPTION_ID_ACK_TIMEOUT)
			byte = 14;
		CHECK(!rdma_set_option(id, RDMA_OPTION_ID, name, value, small ? 1 : 4));
		FAILS(rdma_set_option(id, RDMA_OPTION_ID, name, value, small ? 4 : 1), EINVAL);
		FAILS(rdma_set_option(id, RDMA_OPTION_ID, name, value, 0), EINVAL);
		FAILS(rdma_set_option(id, RDMA_OPTION_ID, name, NULL, small ? 1 : 4), EINVAL);
	}
	FAILS(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &too_long, 1),
	      EINVAL);
	FAILS(rdma_set_option(id, RDMA_OPTION_ID, 77, &on, sizeof(on)), ENOSYS);
	FAILS(rdma_set_option(id, RDMA_OPTION_IB, 77, &on, sizeof(on)), ENOSYS);
	FAILS(rdma_set_option(id, 77, RDMA_OPTION_ID_TOS, &byte, 1), ENOSYS);
	CHECK(!rdma_destroy_id(id));
	bed_close(&bed);
}

static void tos_and_timeout_reach_the_qp(void *arg)
{
	struct rdma_conn_param param = bed_param();
	uint8_t tos = 0x68, timeout = 13;
	union bed_addr to;

	start();
	to = bed.addr;
	CHECK(!rdma_create_id(bed.active, &bed.client, NULL, RDMA_PS_TCP));
	CHECK(!rdma_set_option(bed.client, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1));
	CHECK(!rdma_set_option(bed.client, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout,
			       1));
	CHECK(!rdma_resolve_addr(bed.client, NULL, &to.any, 100));
	bed_take(bed.active, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(!rdma_resolve_route(bed.client, 100));
	bed_take(bed.active, RDMA_CM_EVENT_ROUTE_RESOLVED);
	CHECK(bed.client->route.path_rec->traffic_class == tos);
	bed_qp(bed.client);
	CHECK(!rdma_ack_cm_event(bed_request(&bed, &param)));
	bed_qp(bed.server);
	CHECK(!rdma_accept(bed.server, &param));
	bed_take(bed.active, RDMA_CM_EVENT_ESTABLISHED);
	CHECK(attr_of(bed.client->qp).timeout == timeout);
	CHECK(attr_of(bed.client->qp).ah_attr.grh.traffic_class == tos);
	CHECK(attr_of(bed.server->qp).ah_attr.grh.traffic_class == tos);
	bed_ping(bed.client, bed.server);
	bed_close(&bed);
}

static void binding_options_come_before_binding(void *arg)
{
	int on = 1;

	start();
	FAILS(rdma_set_option(bed.listener, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on,
			      sizeof(on)),
	      EINVAL);
	FAILS(rdma_set_option(bed.listener, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof(on)),
	      EINVAL);
	bed_close(&bed);
}

static void a_path_may_be_given(void *arg)
{
	struct rdma_conn_param param = bed_param();
	struct ibv_path_data path = {.flags = IBV_PATH_FLAG_PRIMARY};
	union bed_addr to;
	struct rdma_cm_id *id;

	start();
	to = bed.addr;
	CHECK(!rdma_create_id(bed.active, &id, NULL, RDMA_PS_TCP));
	FAILS(rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &path, sizeof(path)),
	      EINVAL);
	CHECK(!rdma_resolve_addr(id, NULL, &to.any, 100));
	bed_take(bed.active, RDMA_CM_EVENT_ADDR_RESOLVED);
	FAILS(rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &path, sizeof(path) - 1),
	      EINVAL);
	FAILS(rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &path, 0), EINVAL);
	path.path.flowlabel_hoplimit = htonl(9);
	CHECK(!rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &path, sizeof(path)));
	bed_take(bed.active, RDMA_CM_EVENT_ROUTE_RESOLVED);
	CHECK(id->route.num_paths == 1 && id->route.path_rec->hop_limit == 9);
	bed.client = id;
	bed_qp(id);
	CHECK(!rdma_ack_cm_event(bed_request(&bed, &param)));
	bed_close(&bed);
}

/* ---- Enhanced connection establishment ---- */

static void ece_is_exchanged(void *arg)
{
	struct rdma_conn_param param = bed_param();
	struct ibv_ece ece = {.vendor_id = 0x2c9, .options = 0x11223344}, got;
	struct ibv_ece bad = {.comp_mask = 1};

	start();
	bed_resolve(&bed);
	FAILS(rdma_set_local_ece(bed.client, NULL), EINVAL);
	FAILS(rdma_set_local_ece(bed.client, &bad), EINVAL);
	CHECK(!rdma_set_local_ece(bed.client, &ece));
	param.qp_num = 0x1234;
	CHECK(!rdma_ack_cm_event(bed_request(&bed, &param)));
	FAILS(rdma_get_remote_ece(bed.server, NULL), EINVAL);
	CHECK(!rdma_get_remote_ece(bed.server, &got));
	CHECK(got.vendor_id == 0x2c9 && got.options == 0x11223344 && !got.comp_mask);
	ece.options = 0x55667788;
	CHECK(!rdma_set_local_ece(bed.server, &ece));
	CHECK(!rdma_accept(bed.server, &param));
	CHECK(!rdma_ack_cm_event(bed_want(bed.active, RDMA_CM_EVENT_CONNECT_RESPONSE, 0)));
	CHECK(!rdma_get_remote_ece(bed.client, &got));
	CHECK(got.vendor_id == 0x2c9 && got.options == 0x55667788);
	/* With a QP of the library's it is the library's affair. */
	bed_qp(bed.server);
	FAILS(rdma_get_remote_ece(bed.server, &got), EINVAL);
	bed_close(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BED_TEST(private_data_of_requests),
		BED_TEST(private_data_of_replies),
		BED_TEST(private_data_of_rejections),
		BED_TEST(resources_are_what_both_can),
		BED_TEST(the_devices_maximum_may_be_asked_for),
		BED_TEST(more_than_the_device_can_is_refused),
		BED_TEST(parameters_may_be_left_out),
		BED_TEST(both_sides_move_their_qps),
		BED_TEST(data_establishes),
		BED_TEST(options_have_their_lengths),
		BED_TEST(tos_and_timeout_reach_the_qp),
		BED_TEST(binding_options_come_before_binding),
		BED_TEST(a_path_may_be_given),
		BED_TEST(ece_is_exchanged),
	};

	run_only();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagram ids: a service's QP is asked for, told or refused; who has an answer can send. */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "lib/cm_bed.h"

#define QKEY 0x01234567u

static struct bed bed;

static void start(enum rdma_port_space ps)
{
	union bed_addr addr = bed_loopback(AF_INET);

	bed_listen(&bed, ps, &addr, 0);
}

static enum ibv_qp_state qp_state(struct ibv_qp *qp, uint32_t *qkey)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	CHECK(!ibv_query_qp(qp, &attr, IBV_QP_STATE | IBV_QP_QKEY, &init));
	*qkey = attr.qkey;
	return attr.qp_state;
}

/* A datagram with what the answer says. */
static void send_one(struct rdma_cm_id *from, struct rdma_cm_id *to, const struct rdma_ud_param *ud)
{
	char out[16] = "datagram", in[64] = "";
	struct ibv_mr *send = rdma_reg_msgs(from, out, sizeof(out));
	struct ibv_mr *recv = rdma_reg_msgs(to, in, sizeof(in));
	struct ibv_ah_attr attr = ud->ah_attr;
	struct ibv_ah *ah = ibv_create_ah(from->pd, &attr);
	struct ibv_wc wc;

	CHECK(ah && send && recv);
	CHECK(!rdma_post_recv(to, NULL, in, sizeof(in), recv));
	CHECK(!rdma_post_ud_send(from, NULL, out, sizeof(out), send, IBV_SEND_SIGNALED, ah,
				 ud->qp_num));
	CHECK(rdma_get_send_comp(from, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	CHECK(rdma_get_recv_comp(to, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	CHECK(wc.byte_len == sizeof(out) + 40 && !strcmp(in + 40, "datagram"));
	CHECK(!ibv_destroy_ah(ah) && !rdma_dereg_mr(send) && !rdma_dereg_mr(recv));
}

static void a_service_is_found(void *arg)
{
	static const enum rdma_port_space spaces[] = {RDMA_PS_UDP, RDMA_PS_IPOIB};

	for (int i = 0; i < 2; i++) {
		struct rdma_conn_param param = bed_param();
		struct rdma_cm_event *event;
		uint32_t qkey;

		start(spaces[i]);
		bed_resolve(&bed);
		CHECK(bed.client->qp_type == IBV_QPT_UD);
		bed_qp(bed.client);
		CHECK(qp_state(bed.client->qp, &qkey) == IBV_QPS_RTS && qkey == QKEY);
		event = bed_request(&bed, &param);
		CHECK(bed.server->ps == spaces[i] && bed.server->qp_type == IBV_QPT_UD);
		CHECK(bed.server->verbs && bed.server->context == &bed);
		CHECK(!rdma_ack_cm_event(event));
		bed_qp(bed.server);
		CHECK(!rdma_accept(bed.server, &param));
		event = bed_want(bed.active, RDMA_CM_EVENT_ESTABLISHED, 0);
		CHECK(event->param.ud.qp_num == bed.server->qp->qp_num);
		CHECK(event->param.ud.qkey == QKEY && event->param.ud.ah_attr.is_global);
		send_one(bed.client, bed.server, &event->param.ud);
		CHECK(!rdma_ack_cm_event(event));
		/* The side that answered is not told, and there is no connection to end. */
		CHECK(bed_quiet(bed.passive));
		FAILS(rdma_accept(bed.server, &param), EINVAL);
		FAILS(rdma_disconnect(bed.client), EINVAL);
		FAILS(rdma_disconnect(bed.server), EINVAL);
		bed_close(&bed);
	}
}

static void the_qp_may_be_the_programs(void *arg)
{
	struct rdma_conn_param param = bed_param();
	struct rdma_cm_event *event;

	start(RDMA_PS_UDP);
	bed_resolve(&bed);
	FAILS(rdma_connect(bed.client, NULL), EINVAL);
	CHECK(!rdma_ack_cm_event(bed_request(&bed, &param)));
	FAILS(rdma_accept(bed.server, NULL), EINVAL);
	param.qp_num = 0x4321;
	CHECK(!rdma_accept(bed.server, &param));
	event = bed_want(bed.active, RDMA_CM_EVENT_ESTABLISHED, 0);
	CHECK(event->param.ud.qp_num == 0x4321 && !rdma_ack_cm_event(event));
	bed_close(&bed);
}

static void own_qp_attributes(void *arg)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	int mask;

	start(RDMA_PS_UDP);
	bed_resolve(&bed);
	CHECK(!rdma_init_qp_attr(bed.client, &attr, &mask));
	CHECK(mask == (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	CHECK(attr.qkey == QKEY && attr.port_num == 1);
	attr.qp_state = IBV_QPS_RTR;
	CHECK(!rdma_init_qp_attr(bed.client, &attr, &mask) && mask == IBV_QP_STATE);
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!rdma_init_qp_attr(bed.client, &attr, &mask));
	CHECK(mask == (IBV_QP_STATE | IBV_QP_SQ_PSN));
	bed_close(&bed);
}

/* ---- Private data ---- */

static void fill(uint8_t *bytes, size_t len, int seed)
{
	for (size_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)(seed + 5 * (int)i + 1);
}

static void check_data(const struct rdma_cm_event *event, int seed, size_t len, size_t size)
{
	const uint8_t *data = event->param.ud.private_data;
	uint8_t want[256] = {0};

	fill(want, len, seed);
	CHECK(event->param.ud.private_data_len == size && data && !memcmp(data, want, size));
}

static void private_data_has_limits(void *arg)
{
	static const uint8_t asked[] = {0, 1, 179, 180}, told[] = {0, 1, 135, 136};
	uint8_t data[256];
	struct rdma_conn_param param = bed_param();

	param.private_data = data;
	start(RDMA_PS_UDP);
	for (int i = 0; i < 4; i++) {
		struct rdma_cm_event *event;

		fill(data, sizeof(data), i);
		bed_resolve(&bed);
		bed_qp(bed.client);
		param.private_data_len = 181;
		FAILS(rdma_connect(bed.client, &param), EINVAL);
		CHECK(bed_quiet(bed.passive) && bed_quiet(bed.active));
		param.private_data_len = asked[i];
		event = bed_request(&bed, &param);
		check_data(event, i, asked[i], 180);
		CHECK(!rdma_ack_cm_event(event));
		bed_qp(bed.server);
		param.private_data_len = 137;
		FAILS(rdma_accept(bed.server, &param), EINVAL);
		FAILS(rdma_reject(bed.server, data, 137), EINVAL);
		param.private_data_len = told[i];
		CHECK(!rdma_accept(bed.server, &param));
		event = bed_want(bed.active, RDMA_CM_EVENT_ESTABLISHED, 0);
		check_data(event, i, told[i], 136);
		CHECK(!rdma_ack_cm_event(event));
		bed_end_id(&bed.client);
		bed_end_id(&bed.server);
	}
	bed_close(&bed);
}

/* ---- Refusals ---- */

static void ask(void)
{
	bed_resolve(&bed);
	bed_qp(bed.client);
	CHECK(!rdma_connect(bed.client, &(struct rdma_conn_param){.qp_num = 1}));
}

static void refused(void)
{
	struct rdma_cm_event *event = bed_next(bed.active);

	CHECK(event->event == RDMA_CM_EVENT_UNREACHABLE && event->status > 0);
	CHECK(event->id == bed.client && !rdma_ack_cm_event(event));
	bed_end_id(&bed.client);
}

static void a_service_may_be_refused(void *arg)
{
	struct rdma_cm_event *event;

	start(RDMA_PS_UDP);
	/* By the program, by destroying the request, and by nobody. */
	for (int i = 0; i < 3; i++) {
		if (i == 2)
			bed_end_id(&bed.listener);
		ask();
		if (i < 2) {
			event = bed_want(bed.passive, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
			bed.server = event->id;
			CHECK(!rdma_ack_cm_event(event));
		}
		if (i == 0) {
			CHECK(!rdma_reject(bed.server, NULL, 0));
			FAILS(rdma_reject(bed.server, NULL, 0), EINVAL);
		}
		bed_end_id(&bed.server);
		refused();
	}
	bed_close(&bed);
}

static void a_stream_listener_is_no_datagram_service(void *arg)
{
	start(RDMA_PS_TCP);
	bed.ps = RDMA_PS_UDP;
	ask();
	refused();
	bed_close(&bed);
}

static void groups_are_for_datagram_ids(void *arg)
{
	union bed_addr group = bed_wildcard(AF_INET), none = bed_wildcard(AF_INET);
	struct rdma_cm_join_mc_attr_ex ex = {.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS |
							  RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
					     .join_flags = RDMA_MC_JOIN_FLAG_FULLMEMBER,
					     .addr = &group.any};
	struct rdma_cm_id *id;

	group.v4.sin_addr.s_addr = htonl(0xef010203);
	start(RDMA_PS_TCP);
	bed_resolve(&bed);
	FAILS(rdma_join_multicast(bed.client, &group.any, NULL), EINVAL);
	FAILS(rdma_join_multicast_ex(bed.client, &ex, NULL), EINVAL);
	FAILS(rdma_leave_multicast(bed.client, &group.any), EADDRNOTAVAIL);
	bed_close(&bed);

	start(RDMA_PS_UDP);
	CHECK(!rdma_create_id(bed.active, &id, NULL, RDMA_PS_UDP));
	/* Bound to nothing. */
	FAILS(rdma_join_multicast(id, &group.any, NULL), EINVAL);
	CHECK(!rdma_destroy_id(id));
	bed_resolve(&bed);
	FAILS(rdma_join_multicast(bed.client, NULL, NULL), EINVAL);
	FAILS(rdma_join_multicast_ex(bed.client, NULL, NULL), EINVAL);
	none.any.sa_family = AF_UNIX;
	FAILS(rdma_join_multicast(bed.client, &none.any, NULL), EAFNOSUPPORT);
	ex.comp_mask = 0x80;
	FAILS(rdma_join_multicast_ex(bed.client, &ex, NULL), EINVAL);
	ex.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS;
	FAILS(rdma_join_multicast_ex(bed.client, &ex, NULL), EINVAL);
	FAILS(rdma_leave_multicast(bed.client, &group.any), EADDRNOTAVAIL);
	FAILS(rdma_leave_multicast(bed.client, NULL), EADDRNOTAVAIL);
	CHECK(bed_quiet(bed.active));
	bed_close(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BED_TEST(a_service_is_found),
		BED_TEST(the_qp_may_be_the_programs),
		BED_TEST(own_qp_attributes),
		BED_TEST(private_data_has_limits),
		BED_TEST(a_service_may_be_refused),
		BED_TEST(a_stream_listener_is_no_datagram_service),
		BED_TEST(groups_are_for_datagram_ids),
	};

	run_only();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Many threads that connect, talk and hang up at once, to one listener whose events several
 * threads take. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/cm_bed.h"

#define CLIENTS 6
#define SERVERS 3
#define ROUNDS	25
#define ALL	(CLIENTS * ROUNDS)

static struct bed bed;
static atomic_int requests, established, ended;

/* What a connection of the server keeps, in its id's context. */
struct kept {
	char text[16];
	struct ibv_mr *mr;
	atomic_int accepted; /* the thread that accepts is done with the id */
};

static void accept_one(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = bed_param();
	struct kept *kept = calloc(1, sizeof(*kept));

	/* It inherits the listener's until it has its own. */
	CHECK(kept && id->context == &bed);
	id->context = kept;
	bed_qp(id);
	kept->mr = rdma_reg_msgs(id, kept->text, sizeof(kept->text));
	CHECK(kept->mr);
	CHECK(!rdma_post_recv(id, kept, kept->text, sizeof(kept->text), kept->mr));
	CHECK(!rdma_accept(id, &param));
	atomic_store(&kept->accepted, 1);
}

static void end_one(struct rdma_cm_id *id)
{
	struct kept *kept = id->context;
	struct ibv_wc wc;

	while (!atomic_load(&kept->accepted))
		sched_yield();
	CHECK(rdma_get_recv_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	CHECK(wc.wr_id == (uintptr_t)kept && !strcmp(kept->text, "hello"));
	CHECK(!rdma_disconnect(id));
	rdma_destroy_qp(id);
	CHECK(!rdma_dereg_mr(kept->mr));
	free(kept);
	CHECK(!rdma_destroy_id(id));
}

static bool handle(struct rdma_cm_event *event)
{
	struct rdma_cm_id *id = event->id;
	enum rdma_cm_event_type type = event->event;

	CHECK(!event->status || (int)type == 18);
	CHECK(!rdma_ack_cm_event(event));
	switch ((int)type) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		atomic_fetch_add(&requests, 1);
		accept_one(id);
		return true;
	case RDMA_CM_EVENT_ESTABLISHED:
		atomic_fetch_add(&established, 1);
		return true;
	case RDMA_CM_EVENT_DISCONNECTED:
		end_one(id);
		atomic_fetch_add(&ended, 1);
		return true;
	default:
		/* 18: the end. */
		CHECK((int)type == 18 || type == RDMA_CM_EVENT_TIMEWAIT_EXIT);
		return (int)type != 18;
	}
}

static void *serve(void *arg)
{
	while (handle(bed_next(bed.passive)))
		;
	return NULL;
}

static void *connect_rounds(void *arg)
{
	struct rdma_conn_param param = bed_param();
	struct rdma_event_channel *channel = rdma_create_event_channel();
	char text[16] = "hello";
	struct ibv_wc wc;

	CHECK(channel);
	for (int i = 0; i < ROUNDS; i++) {
		struct rdma_cm_id *id = bed_resolve_id(&bed, channel);
		struct ibv_mr *mr;

		bed_qp(id);
		mr = rdma_reg_msgs(id, text, sizeof(text));
		CHECK(mr && !rdma_connect(id, &param));
		bed_take(channel, RDMA_CM_EVENT_ESTABLISHED);
		CHECK(!rdma_post_send(id, NULL, text, sizeof(text), mr, 0));
		CHECK(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
		CHECK(!rdma_disconnect(id));
		bed_take(channel, RDMA_CM_EVENT_DISCONNECTED);
		rdma_destroy_qp(id);
		CHECK(!rdma_dereg_mr(mr) && !rdma_destroy_id(id));
		CHECK(bed_quiet(channel));
	}
	rdma_destroy_event_channel(channel);
	return NULL;
}

/* Of releases after the installed headers'. */
int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
			uint64_t arg);

static void threads_connect_at_once(void *arg)
{
	union bed_addr addr = bed_loopback(AF_INET);
	pthread_t servers[SERVERS], clients[CLIENTS];

	bed_listen(&bed, RDMA_PS_TCP, &addr, 0);
	for (int i = 0; i < SERVERS; i++)
		CHECK(!pthread_create(&servers[i], NULL, serve, NULL));
	for (int i = 0; i < CLIENTS; i++)
		CHECK(!pthread_create(&clients[i], NULL, connect_rounds, NULL));
	for (int i = 0; i < CLIENTS; i++)
		CHECK(!pthread_join(clients[i], NULL));
	for (int i = 0; i < SERVERS; i++)
		CHECK(!rdma_write_cm_event(bed.listener, (enum rdma_cm_event_type)18, 1, 0));
	for (int i = 0; i < SERVERS; i++)
		CHECK(!pthread_join(servers[i], NULL));
	CHECK(atomic_load(&requests) == ALL && atomic_load(&ended) == ALL);
	CHECK(atomic_load(&established) == ALL);
	bed_close(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BED_TEST(threads_connect_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

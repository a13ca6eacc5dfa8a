/* SPDX-License-Identifier: BSD-2-Clause */
/* Ids of the agent, without sockets: nothing here is sent. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>

#include <cmocka.h>

#include "engine/agent_impl.h"

#define PEER	0x777u
#define PEER_QP 0x22u

static struct vb_adapter adapter;
static struct vb_engine engine;
static struct vb_agent agent;
static struct vb_agent_id *id;
static int told;

static void *happened(void *owner, const struct vb_agent_event *event)
{
	told = event->what;
	return NULL;
}

static int set_up(void **state)
{
	memset(&engine, 0, sizeof(engine));
	memset(&agent, 0, sizeof(agent));
	adapter.block[0] = 5;
	engine.adapter = &adapter;
	atomic_store(&engine.agent, &agent);
	agent.engine = &engine;
	agent.next_ns = agent.ask_ns = agent.look_ns = VB_NEVER;
	agent.timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	pthread_mutex_init(&agent.lock, NULL);
	assert_int_equal(vb_agent_ids_init(&agent), 0);
	told = 0;
	if (vb_agent_id_new(&agent, &id))
		return -1;
	id->inside = true;
	id->handler = happened;
	return 0;
}

static int tear_down(void **state)
{
	vb_agent_id_free(id);
	vb_agent_ids_fini(&agent);
	close(agent.timer_fd);
	return 0;
}

/* ---- Messages that found no room ---- */

static void passive(void)
{
	struct vb_cm_msg req = {.local_id = PEER, .qpn = PEER_QP}, rep = {.qpn = 1};
	struct vb_cm_out out;

	id->conn.local_id = id->index;
	vb_cm_take_req(&id->conn, &req);
	assert_true(vb_cm_send_rep(&id->conn, &rep, vb_now_ns(), &out));
}

static void active(void)
{
	struct vb_cm_msg req = {.qpn = 1, .remote_timeout = 20}, rtu = {0};
	struct vb_cm_msg rep = {
		.attr = VB_CM_REP, .local_id = PEER, .remote_id = id->index, .qpn = PEER_QP};
	struct vb_cm_out out;

	id->conn.local_id = id->index;
	assert_true(vb_cm_send_req(&id->conn, &req, vb_now_ns(), &out));
	vb_cm_receive(&id->conn, &rep, vb_now_ns(), &out);
	assert_true(vb_cm_send_rtu(&id->conn, &rtu, &out));
	assert_int_equal(id->conn.state, VB_CM_ESTABLISHED);
	assert_int_equal(id->conn.due_ns, 0);
}

/* As vb_agent_send_out() leaves it; due at once. */
static void find_no_room(void)
{
	id->unsent = true;
	id->unsent_due_ns = id->conn.due_ns;
	id->conn.due_ns = 1;
	id->unsent_end_ns = UINT64_MAX;
}

static void come(struct vb_cm_msg *msg)
{
	struct vb_udp_datagram d = {0};
	struct vb_packet pkt = {.qkey = VB_CM_QKEY, .payload_len = VB_MAD_LEN};
	uint8_t mad[VB_MAD_LEN];

	vb_op_find(VB_SVC_UD, VB_OP_SEND, VB_POS_ONLY, VB_EXTRA_NONE, &pkt.opcode);
	vb_cm_build(msg, mad);
	pkt.payload = mad;
	vb_agent_packet(&engine, &d, &pkt, false);
}

/* An answer is not a question: it is never given up for want of an answer. */
static void test_a_message_that_comes_meanwhile(void **state)
{
	struct vb_cm_msg mra = {.attr = VB_CM_MRA, .local_id = PEER, .remote_id = id->index};

	active();
	find_no_room();
	come(&mra);
	assert_int_equal(id->conn.due_ns, 0);
	for (int i = 0; i < 20; i++) {
		vb_agent_expire(&agent);
		assert_int_equal(id->conn.state, VB_CM_ESTABLISHED);
	}
	assert_int_equal(told, 0);
}

/* A question is repeated when it would have been. */
static void test_a_question_that_waits(void **state)
{
	struct vb_cm_msg drep = {.attr = VB_CM_DREP, .local_id = PEER, .remote_id = id->index};
	uint64_t due_ns;

	passive();
	due_ns = id->conn.due_ns;
	assert_true(due_ns > 0);
	find_no_room();
	come(&drep);
	assert_int_equal(id->conn.state, VB_CM_REP_SENT);
	assert_true(id->conn.due_ns == due_ns);
}

static void test_a_call_that_fails_meanwhile(void **state)
{
	struct vb_cm_msg rej = {.attr = VB_CM_REJ};

	active();
	find_no_room();
	assert_int_equal(vb_agent_send(id, &rej, NULL), -EINVAL);
	assert_true(id->unsent);
	assert_int_equal(id->unsent_due_ns, 0);
	assert_int_equal(id->conn.due_ns, 1);
	vb_agent_disarm(id);
}

static void test_data_that_comes_meanwhile(void **state)
{
	passive();
	find_no_room();
	assert_int_equal(vb_agent_data_came(id), 0);
	assert_int_equal(told, VB_CM_READY);
	assert_int_equal(id->conn.due_ns, 0);
	assert_false(id->unsent);
}

/* ---- Numbers ---- */

#define NUMBERS 60000u
/* Half of all, since an index that is in use is passed over; the table grows where more are. */
#define SOON 8000u
#define KEPT 900u

/* With one connection after the other, and while some stay or the table grows, no number comes
 * back soon. */
static void test_numbers(void **state)
{
	static uint32_t when[1u << VB_AGENT_BLOCK_SHIFT];
	struct vb_agent_id *kept[KEPT];
	uint32_t n_kept = 0;

	memset(when, 0, sizeof(when));
	for (uint32_t i = 1; i <= NUMBERS; i++) {
		struct vb_agent_id *one;
		uint32_t number;

		assert_int_equal(vb_agent_id_new(&agent, &one), 0);
		number = one->conn.local_id;
		assert_int_equal(number >> VB_AGENT_BLOCK_SHIFT, 5);
		assert_int_equal(number & (VB_AGENT_IDS - 1), one->index);
		number &= (1u << VB_AGENT_BLOCK_SHIFT) - 1;
		assert_true(!when[number] || i - when[number] > SOON);
		when[number] = i;
		if (i % 16 || n_kept == KEPT)
			vb_agent_id_free(one);
		else
			kept[n_kept++] = one;
	}
	while (n_kept)
		vb_agent_id_free(kept[--n_kept]);
}

/* A process that takes the block over does not begin with the same ones. */
static void test_numbers_of_the_next_process(void **state)
{
	uint32_t first;

	for (uint8_t i = 0; i < 8; i++) {
		vb_agent_id_free(id);
		vb_agent_ids_fini(&agent);
		agent.last_index = 0;
		memset(adapter.id, 0x31 + i, sizeof(adapter.id));
		assert_int_equal(vb_agent_ids_init(&agent), 0);
		assert_int_equal(vb_agent_id_new(&agent, &id), 0);
		assert_true(!i || id->conn.local_id != first);
		first = id->conn.local_id;
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_message_that_comes_meanwhile),
		TEST(a_question_that_waits),
		TEST(a_call_that_fails_meanwhile),
		TEST(data_that_comes_meanwhile),
		TEST(numbers),
		TEST(numbers_of_the_next_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Two agents that watch each other, of which one has no descriptor left for a while. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/timerfd.h>

#include <cmocka.h>

#include "engine/agent_impl.h"

/* Blocks of numbers that nobody has. */
#define OURS   4093u
#define THEIRS 4094u

struct side {
	struct vb_adapter adapter;
	struct vb_engine engine;
	struct vb_agent agent;
};

static struct side us, them;
static struct vb_agent_id *id;
static int told;

static void *happened(void *owner, const struct vb_agent_event *event)
{
	told = event->what;
	return NULL;
}

static void open_side(struct side *side, uint32_t block)
{
	struct vb_agent *agent = &side->agent;

	memset(side, 0, sizeof(*side));
	side->adapter.block[0] = block;
	side->engine.adapter = &side->adapter;
	agent->engine = &side->engine;
	agent->next_ns = agent->ask_ns = agent->look_ns = VB_NEVER;
	agent->told_fd[0] = agent->told_fd[1] = -1;
	agent->poll_fd = epoll_create1(EPOLL_CLOEXEC);
	agent->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	pthread_mutex_init(&agent->lock, NULL);
	assert_int_equal(vb_agent_ids_init(agent), 0);
	assert_true(vb_agent_life_open(agent));
}

static void close_side(struct side *side)
{
	vb_agent_life_close(&side->agent);
	side->agent.life_fd = -1;
}

static int set_up(void **state)
{
	open_side(&us, OURS);
	open_side(&them, THEIRS);
	told = 0;
	if (vb_agent_id_new(&us.agent, &id))
		return -1;
	id->inside = true;
	id->handler = happened;
	id->conn.state = VB_CM_ESTABLISHED;
	id->conn.remote_id = THEIRS << VB_AGENT_BLOCK_SHIFT | 1;
	return 0;
}

static int tear_down(void **state)
{
	struct side *sides[] = {&us, &them};

	vb_agent_id_free(id);
	for (int i = 0; i < 2; i++) {
		close_side(sides[i]);
		vb_agent_ids_fini(&sides[i]->agent);
		close(sides[i]->agent.poll_fd);
		close(sides[i]->agent.timer_fd);
	}
	return 0;
}

/* What the engine's thread would find when it is woken, without the timer. */
static int events(struct side *side, uint32_t *dead)
{
	struct epoll_event event[8];
	int n = epoll_wait(side->agent.poll_fd, event, 8, 0);

	*dead = 0;
	for (int i = 0; i < n; i++)
		assert_true(vb_agent_life_event(&side->agent, &event[i], dead));
	return n;
}

/* All that are open are above. */
static rlim_t allow(rlim_t descriptors)
{
	struct rlimit limit;
	rlim_t before;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	before = limit.rlim_cur;
	limit.rlim_cur = descriptors;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	return before;
}

/* The time has come. */
static void look_again(struct side *side)
{
	assert_true(side->agent.look_ns != VB_NEVER && side->agent.next_ns <= side->agent.look_ns);
	side->agent.look_ns = 0;
	vb_agent_expire(&side->agent);
}

/* As the registry would have it, which these processes are not in. */
static void they_have_come(void)
{
	uint32_t dead;

	assert_true(vb_agent_life_watch(&them.agent, OURS));
	assert_int_equal(events(&us, &dead), 1);
	assert_true(us.agent.lives->accepted);
	us.agent.lives->block = THEIRS;
	/* It shows their end: one stream is enough. */
	assert_true(vb_agent_life_watch(&us.agent, THEIRS));
	assert_null(us.agent.lives->next);
}

static void test_who_came_ends(void **state)
{
	uint32_t dead;

	they_have_come();
	close_side(&them);
	assert_int_equal(events(&us, &dead), 1);
	assert_int_equal(dead, THEIRS);
	assert_null(us.agent.lives);
}

static void test_who_came_drops_the_stream_and_lives(void **state)
{
	struct vb_agent_life *theirs;
	uint32_t dead;

	they_have_come();
	theirs = them.agent.lives;
	them.agent.lives = NULL;
	close(theirs->fd);
	free(theirs);
	assert_int_equal(events(&us, &dead), 1);
	assert_int_equal(dead, 0);
	assert_true(us.agent.lives && !us.agent.lives->accepted);
	close_side(&them);
	assert_int_equal(events(&us, &dead), 1);
	assert_int_equal(dead, THEIRS);
}

static void test_who_cannot_accept_sleeps(void **state)
{
	uint32_t dead;
	rlim_t most;

	assert_true(vb_agent_life_watch(&them.agent, OURS));
	most = allow(3);
	assert_int_equal(events(&us, &dead), 1);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(events(&us, &dead), 0);
		look_again(&us);
		assert_null(us.agent.lives);
	}
	allow(most);
	look_again(&us);
	assert_non_null(us.agent.lives);
	assert_true(us.agent.look_ns == VB_NEVER);
	assert_int_equal(events(&us, &dead), 0);
	/* Those that come later are accepted as ever. */
	close_side(&them);
	assert_int_equal(events(&us, &dead), 1);
	assert_null(us.agent.lives);
	them.agent.life_fd = -1;
	assert_true(vb_agent_life_watch(&them.agent, OURS));
	assert_int_equal(events(&us, &dead), 1);
	assert_non_null(us.agent.lives);
	close_side(&us);
	assert_int_equal(events(&them, &dead), 1);
	assert_int_equal(dead, OURS);
}

static void test_who_was_not_accepted_sees_the_end(void **state)
{
	uint32_t dead;
	rlim_t most;

	assert_true(vb_agent_life_watch(&them.agent, OURS));
	most = allow(3);
	assert_int_equal(events(&us, &dead), 1);
	close_side(&us);
	allow(most);
	assert_int_equal(events(&them, &dead), 1);
	assert_int_equal(dead, OURS);
}

static void test_who_cannot_watch_does_so_later(void **state)
{
	uint32_t dead;
	rlim_t most = allow(3);

	assert_true(vb_agent_life_watch_peer(id));
	look_again(&us);
	assert_null(us.agent.lives);
	allow(most);
	look_again(&us);
	assert_non_null(us.agent.lives);
	assert_true(us.agent.look_ns == VB_NEVER);
	close_side(&them);
	assert_int_equal(events(&us, &dead), 1);
	assert_int_equal(dead, THEIRS);
	assert_int_equal(told, 0);
}

static void test_who_ended_before_is_missed_then(void **state)
{
	rlim_t most = allow(3);

	assert_true(vb_agent_life_watch_peer(id));
	allow(most);
	close_side(&them);
	look_again(&us);
	assert_int_equal(told, VB_CM_DISCONNECTED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(who_came_ends),
		TEST(who_came_drops_the_stream_and_lives),
		TEST(who_cannot_accept_sleeps),
		TEST(who_was_not_accepted_sees_the_end),
		TEST(who_cannot_watch_does_so_later),
		TEST(who_ended_before_is_missed_then),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

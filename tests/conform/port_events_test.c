/* SPDX-License-Identifier: BSD-2-Clause */
/* The asynchronous events of a port, with an interface of the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <infiniband/verbs.h>

#include "lib/child.h"
#include "lib/verbs_pair.h"

static void make_interface(void)
{
	CHECK(enter_namespace());
	run_ip("link set lo up");
	run_ip("link add v0 type veth peer name v1");
	run_ip("link set v1 up");
	run_ip("link set v0 up");
	run_ip("addr add 192.0.2.1/24 dev v0");
	setenv("VERBENA_NETDEV", "v0", 1);
}

/* Reads on until an event of this type comes; GIDs may change beside. */
static void expect(struct ibv_context *context, enum ibv_event_type type)
{
	struct ibv_async_event event;

	for (;;) {
		wait_readable(context->async_fd);
		CHECK(ibv_get_async_event(context, &event) == 0);
		ibv_ack_async_event(&event);
		CHECK(event.element.port_num == 1);
		if (event.event_type == type)
			return;
		CHECK(event.event_type == IBV_EVENT_GID_CHANGE);
	}
}

static enum ibv_port_state port_state(struct ibv_context *context)
{
	struct ibv_port_attr attr;

	CHECK(ibv_query_port(context, 1, &attr) == 0);
	return attr.state;
}

/* Is there an entry with this end? */
static bool has_gid(struct ibv_context *context, uint8_t last)
{
	struct ibv_gid_entry entries[256];
	ssize_t n = ibv_query_gid_table(context, entries, 256, 0);

	CHECK(n >= 0);
	for (ssize_t i = 0; i < n; i++)
		if (!memcmp(entries[i].gid.raw + 10, "\xff\xff\xc0\x00\x02", 5) &&
		    entries[i].gid.raw[15] == last)
			return true;
	return false;
}

static void check_events(void *arg)
{
	struct ibv_context *contexts[2];

	make_interface();
	for (int i = 0; i < 2; i++)
		contexts[i] = open_verbs();
	CHECK(port_state(contexts[0]) == IBV_PORT_ACTIVE);
	run_ip("link set v0 down");
	for (int i = 0; i < 2; i++)
		expect(contexts[i], IBV_EVENT_PORT_ERR);
	CHECK(port_state(contexts[0]) != IBV_PORT_ACTIVE);
	run_ip("link set v0 up");
	for (int i = 0; i < 2; i++)
		expect(contexts[i], IBV_EVENT_PORT_ACTIVE);
	CHECK(port_state(contexts[0]) == IBV_PORT_ACTIVE);
	/* The other end of the cable. */
	run_ip("link set v1 down");
	for (int i = 0; i < 2; i++)
		expect(contexts[i], IBV_EVENT_PORT_ERR);
	/* Who has left is told nothing. */
	CHECK(ibv_close_device(contexts[1]) == 0);
	run_ip("link set v1 up");
	expect(contexts[0], IBV_EVENT_PORT_ACTIVE);
	CHECK(ibv_close_device(contexts[0]) == 0);
}

static void check_gids(void *arg)
{
	struct ibv_context *context;

	make_interface();
	/* Without IPv6 nothing but what the test does changes the table. */
	run_ip("link set v0 addrgenmode none");
	run_ip("addr flush dev v0 scope link");
	context = open_verbs();
	CHECK(has_gid(context, 1) && !has_gid(context, 2));
	run_ip("addr add 192.0.2.2/24 dev v0");
	while (!has_gid(context, 2))
		expect(context, IBV_EVENT_GID_CHANGE);
	expect(context, IBV_EVENT_GID_CHANGE);
	run_ip("addr del 192.0.2.2/24 dev v0");
	expect(context, IBV_EVENT_GID_CHANGE);
	CHECK(!has_gid(context, 2));
	CHECK(ibv_close_device(context) == 0);
}

/* What concerns another interface is no event: the next one read is what comes after. */
static void check_others(void *arg)
{
	struct ibv_async_event event;
	struct ibv_context *context;

	make_interface();
	run_ip("link add w0 type veth peer name w1");
	run_ip("link set v0 addrgenmode none");
	run_ip("addr flush dev v0 scope link");
	context = open_verbs();
	run_ip("link set w0 up");
	run_ip("link set w1 up");
	run_ip("addr add 198.51.100.1/24 dev w0");
	run_ip("link del w0");
	run_ip("link set v0 down");
	wait_readable(context->async_fd);
	CHECK(ibv_get_async_event(context, &event) == 0);
	CHECK(event.event_type == IBV_EVENT_PORT_ERR);
	ibv_ack_async_event(&event);
	CHECK(ibv_close_device(context) == 0);
}

static void check_capability(void *arg)
{
	struct ibv_context *context = open_verbs();
	struct ibv_device_attr attr;

	CHECK(ibv_query_device(context, &attr) == 0);
	CHECK(attr.device_cap_flags & IBV_DEVICE_PORT_ACTIVE_EVENT);
	CHECK(ibv_close_device(context) == 0);
}

static void run(void (*body)(void *arg))
{
	assert_int_equal(run_in_child(body, NULL), 0);
}

static void test_events(void **state)
{
	run(check_events);
}

static void test_gids(void **state)
{
	run(check_gids);
}

static void test_others(void **state)
{
	run(check_others);
}

static void test_capability(void **state)
{
	run(check_capability);
}

static void probe(void *arg)
{
	if (!enter_namespace())
		_exit(77);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_events),
		cmocka_unit_test(test_gids),
		cmocka_unit_test(test_others),
		cmocka_unit_test(test_capability),
	};

	if (run_in_child(probe, NULL) == 77) {
		puts("no network namespace can be made here");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}

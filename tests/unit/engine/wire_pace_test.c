/* SPDX-License-Identifier: BSD-2-Clause */
/* What leaves without being acknowledged, at 1 MB/s: what is due later is due seconds later. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/settings.h"
#include "engine/engine.h"
#include "engine/wire_pace.h"

static struct vb_pace pace;

static int begin(void **state)
{
	setenv("VERBENA_PACE", *state ? *state : "1", 1);
	vb_settings_reload();
	memset(&pace, 0, sizeof(pace));
	vb_pace_init(&pace);
	return 0;
}

static void leave(uint32_t packets, uint64_t bytes)
{
	while (packets--)
		vb_pace_leaves(&pace, bytes);
}

/* How far ahead of its pace the process is. */
static uint64_t ahead_ns(void)
{
	uint64_t again = vb_pace_again_ns(&pace);

	return again ? again - vb_now_ns() : 0;
}

static void a_burst_leaves_at_once(void **state)
{
	assert_int_equal(vb_pace_again_ns(&pace), 0);
	leave(60, 1024);
	assert_int_equal(vb_pace_again_ns(&pace), 0);
}

static void more_waits(void **state)
{
	leave(10000, 1024);
	assert_in_range(ahead_ns(), 8000000000u, 10240000000u);
}

static void a_short_packet_counts_what_it_costs_its_receiver(void **state)
{
	leave(10000, 100);
	/* A third of a long one's. */
	assert_in_range(ahead_ns(), 2500000000u, 3680000000u);
}

static void who_sends_much_receives(void **state)
{
	leave(31, 100);
	assert_false(vb_pace_turn(&pace));
	leave(1, 100);
	assert_true(vb_pace_turn(&pace));
	assert_false(vb_pace_turn(&pace));
	leave(100, 100);
	assert_true(vb_pace_turn(&pace));
	assert_false(vb_pace_turn(&pace));
}

static void without_a_pace_it_still_receives(void **state)
{
	leave(10000, 1024);
	assert_int_equal(vb_pace_again_ns(&pace), 0);
	assert_true(vb_pace_turn(&pace));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_burst_leaves_at_once, begin),
		cmocka_unit_test_setup(more_waits, begin),
		cmocka_unit_test_setup(a_short_packet_counts_what_it_costs_its_receiver, begin),
		cmocka_unit_test_setup(who_sends_much_receives, begin),
		cmocka_unit_test_prestate_setup_teardown(without_a_pace_it_still_receives, begin,
							 NULL, "0"),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

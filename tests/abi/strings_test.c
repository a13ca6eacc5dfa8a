/* SPDX-License-Identifier: BSD-2-Clause */
/* The texts and rates that programs print, every value of them and those around the ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <infiniband/verbs.h>

#include "verbs/newer.h"

#define EACH(i, table) (int i = 0; i < (int)(sizeof(table) / sizeof((table)[0])); i++)

static void node_types(void **state)
{
	static const char *const texts[] = {
		"unknown",	     "InfiniBand channel adapter",
		"InfiniBand switch", "InfiniBand router",
		"iWARP NIC",	     "usNIC",
		"usNIC UDP",	     "unspecified",
		"unknown",
	};

	assert_string_equal(ibv_node_type_str(IBV_NODE_UNKNOWN), "unknown");
	for
		EACH(i, texts)
	assert_string_equal(ibv_node_type_str((enum ibv_node_type)i), texts[i]);
}

static void port_states(void **state)
{
	static const char *const texts[] = {
		"no state change (NOP)", "down",    "init", "armed", "active",
		"active defer",		 "unknown",
	};

	assert_string_equal(ibv_port_state_str((enum ibv_port_state) - 1), "unknown");
	for
		EACH(i, texts)
	assert_string_equal(ibv_port_state_str((enum ibv_port_state)i), texts[i]);
}

static void events(void **state)
{
	static const char *const texts[] = {
		"CQ error",
		"local work queue catastrophic error",
		"invalid request local work queue error",
		"local access violation work queue error",
		"communication established",
		"send queue drained",
		"path migrated",
		"path migration request error",
		"local catastrophic error",
		"port active",
		"port error",
		"LID change",
		"P_Key change",
		"SM change",
		"SRQ catastrophic error",
		"SRQ limit reached",
		"last WQE reached",
		"client reregistration",
		"GID table change",
		"WQ fatal",
		"Device link speed change",
		"unknown",
	};

	assert_string_equal(ibv_event_type_str((enum ibv_event_type) - 1), "unknown");
	for
		EACH(i, texts)
	assert_string_equal(ibv_event_type_str((enum ibv_event_type)i), texts[i]);
}

static void completion_statuses(void **state)
{
	static const char *const texts[] = {
		"success",
		"local length error",
		"local QP operation error",
		"local EE context operation error",
		"local protection error",
		"Work Request Flushed Error",
		"memory management operation error",
		"bad response error",
		"local access error",
		"remote invalid request error",
		"remote access error",
		"remote operation error",
		"transport retry counter exceeded",
		"RNR retry counter exceeded",
		"local RDD violation error",
		"remote invalid RD request",
		"aborted error",
		"invalid EE context number",
		"invalid EE context state",
		"fatal error",
		"response timeout error",
		"general error",
		"TM error",
		"TM software rendezvous",
		"unknown",
	};

	assert_string_equal(ibv_wc_status_str((enum ibv_wc_status) - 1), "unknown");
	for
		EACH(i, texts)
	assert_string_equal(ibv_wc_status_str((enum ibv_wc_status)i), texts[i]);
}

static const char *opcode_str(int opcode)
{
	return ibv_wr_opcode_str((enum ibv_wr_opcode)opcode);
}

static void opcodes(void **state)
{
	static const char *const texts[] = {
		"rdma-write",
		"rdma-write-with-imm",
		"send",
		"send-with-imm",
		"rdma-read",
		"atomic-cmp-and-swp",
		"atomic-fetch-and-add",
		"local-inv",
		"bind-mw",
		"send-with-inv",
		"tso",
		"driver1",
		"unknown",
		"unknown",
		"flush",
		"atomic-write",
		"unknown",
	};

	assert_string_equal(opcode_str(-1), "unknown");
	for
		EACH(i, texts)
	assert_string_equal(opcode_str(i), texts[i]);
}

/* By enum ibv_rate: multiple of 2.5 Gbit/s and Mbit/s, -1 where there is none. */
static const int rates[][2] = {
	[0] = {-1, -1},	       [1] = {-1, -1},	     [2] = {1, 2500},	   [3] = {4, 10000},
	[4] = {12, 30000},     [5] = {2, 5000},	     [6] = {8, 20000},	   [7] = {16, 40000},
	[8] = {24, 60000},     [9] = {32, 80000},    [10] = {48, 120000},  [11] = {-1, 14062},
	[12] = {-1, 56250},    [13] = {-1, 112500},  [14] = {-1, 168750},  [15] = {-1, 25781},
	[16] = {-1, 103125},   [17] = {-1, 206250},  [18] = {-1, 309375},  [19] = {11, 28125},
	[20] = {20, 53125},    [21] = {160, 425000}, [22] = {240, 637500}, [23] = {320, 850000},
	[24] = {480, 1275000}, [25] = {-1, -1},
};

static void rates_to_numbers(void **state)
{
	assert_int_equal(ibv_rate_to_mult((enum ibv_rate) - 1), -1);
	assert_int_equal(ibv_rate_to_mbps((enum ibv_rate) - 1), -1);
	for
		EACH(i, rates)
		{
			assert_int_equal(ibv_rate_to_mult((enum ibv_rate)i), rates[i][0]);
			assert_int_equal(ibv_rate_to_mbps((enum ibv_rate)i), rates[i][1]);
		}
}

static void numbers_to_rates(void **state)
{
	for
		EACH(i, rates)
		{
			if (rates[i][0] > 0)
				assert_int_equal(mult_to_ibv_rate(rates[i][0]), i);
			if (rates[i][1] > 0)
				assert_int_equal(mbps_to_ibv_rate(rates[i][1]), i);
		}
	assert_int_equal(mult_to_ibv_rate(0), IBV_RATE_MAX);
	assert_int_equal(mult_to_ibv_rate(-1), IBV_RATE_MAX);
	assert_int_equal(mult_to_ibv_rate(3), IBV_RATE_MAX);
	assert_int_equal(mbps_to_ibv_rate(0), IBV_RATE_MAX);
	assert_int_equal(mbps_to_ibv_rate(-1), IBV_RATE_MAX);
	assert_int_equal(mbps_to_ibv_rate(100000), IBV_RATE_MAX);
}

static void fork_is_no_concern(void **state)
{
	assert_int_equal(ibv_fork_init(), 0);
	assert_int_equal(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(node_types),	    cmocka_unit_test(port_states),
		cmocka_unit_test(events),	    cmocka_unit_test(completion_statuses),
		cmocka_unit_test(opcodes),	    cmocka_unit_test(rates_to_numbers),
		cmocka_unit_test(numbers_to_rates), cmocka_unit_test(fork_is_no_concern),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

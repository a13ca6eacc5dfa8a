/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "carrier/faults.h"

#define SIZE 100u

static struct vb_faults f;
static struct vb_flow flow = {.sport = 50000, .dport = VB_UDP_PORT, .df = true};
static uint8_t bytes[SIZE], before[SIZE];
static struct vb_fault_plan plan;
static uint32_t len;

static void rules(const char *spec)
{
	assert_int_equal(vb_faults_parse(&f, spec, NULL), 0);
}

static bool is_good(void)
{
	return vb_icrc_good(vb_icrc_flow(&flow, (uint16_t)len), bytes, len);
}

/* A packet of an opcode for a QP, and what becomes of it. */
static void give(uint8_t opcode, uint32_t qpn)
{
	len = SIZE;
	for (uint32_t i = 0; i < SIZE; i++)
		bytes[i] = (uint8_t)i;
	bytes[0] = opcode;
	bytes[5] = (uint8_t)(qpn >> 16);
	bytes[6] = (uint8_t)(qpn >> 8);
	bytes[7] = (uint8_t)qpn;
	vb_icrc_store(vb_icrc_bth(vb_icrc_flow(&flow, SIZE), bytes, SIZE - 4), bytes + SIZE - 4);
	memcpy(before, bytes, SIZE);
	vb_faults_plan(&f, bytes, &len, &flow, &plan);
}

static uint32_t dropped(uint32_t packets, uint8_t opcode, uint32_t qpn)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < packets; i++) {
		give(opcode, qpn);
		n += plan.drop;
	}
	return n;
}

static void test_when(void **state)
{
	rules("drop=#3");
	assert_int_equal(dropped(2, 4, 1), 0);
	assert_int_equal(dropped(1, 4, 1), 1);
	assert_int_equal(dropped(100, 4, 1), 0);
	rules("drop=/4");
	assert_int_equal(dropped(100, 4, 1), 25);
	rules("drop=10%");
	assert_in_range(dropped(10000, 4, 1), 900, 1100);
	rules("drop=100%");
	assert_int_equal(dropped(100, 4, 1), 100);
}

static void test_which(void **state)
{
	rules("drop=100%,opcode=write");
	assert_int_equal(dropped(1, 0x0a, 1), 1);
	assert_int_equal(dropped(1, 0x27, 1), 1);
	assert_int_equal(dropped(1, 0x04, 1), 0);
	assert_int_equal(dropped(1, 0xff, 1), 0);
	rules("drop=100%,opcode=0x11");
	assert_int_equal(dropped(1, 0x11, 1), 1);
	assert_int_equal(dropped(1, 0x10, 1), 0);
	rules("drop=100%,opcode=response,qp=0xabcdef");
	assert_int_equal(dropped(1, 0x10, 0xabcdef), 1);
	assert_int_equal(dropped(1, 0x12, 0xabcdef), 1);
	assert_int_equal(dropped(1, 0x10, 0xabcdee), 0);
	rules("drop=#1,opcode=ack");
	assert_int_equal(dropped(5, 4, 1), 0);
	assert_int_equal(dropped(1, 0x11, 1), 1);
}

static void test_damage(void **state)
{
	for (int i = 0; i < 500; i++) {
		rules("corrupt=100%");
		f.seed = (uint64_t)i;
		give(4, 1);
		assert_int_equal(len, SIZE);
		assert_false(is_good());
		rules("mangle=100%");
		f.seed = (uint64_t)i;
		give(4, 1);
		assert_true(is_good());
		assert_true(memcmp(bytes, before, SIZE - 4) != 0);
		rules("truncate=100%");
		f.seed = (uint64_t)i;
		give(4, 1);
		assert_in_range(len, 0, SIZE - 1);
	}
}

static void test_fate(void **state)
{
	rules("duplicate=100%;reorder=/2;delay=/3,ms=7;down=#4,ms=9");
	give(4, 1);
	assert_true(plan.twice && !plan.after_next && !plan.ms && !plan.drop);
	give(4, 1);
	assert_true(plan.after_next);
	give(4, 1);
	assert_int_equal(plan.ms, 7);
	give(4, 1);
	assert_true(plan.drop && plan.down_ms == 9);
	assert_int_equal(memcmp(bytes, before, SIZE), 0);
}

/* What concerns more than the packet. */
static void test_beyond(void **state)
{
	rules("up=#1;fatal=#2;reset=/1");
	give(4, 1);
	assert_true(plan.up && !plan.fatal && plan.reset && plan.drop);
	give(0x64, 1); /* a datagram: of no connection */
	assert_true(!plan.up && plan.fatal && !plan.reset && plan.drop);
	give(0xff, 1);
	assert_true(!plan.up && !plan.fatal && !plan.reset && !plan.drop);
	rules("up=#1");
	give(4, 1);
	assert_true(plan.up && !plan.drop);
	assert_int_equal(memcmp(bytes, before, SIZE), 0);
}

/* The same seed gives the same run. */
static void test_seed(void **state)
{
	bool first[200];
	int same = 0;

	rules("drop=50%;seed=5");
	for (int i = 0; i < 200; i++) {
		give(4, 1);
		first[i] = plan.drop;
	}
	rules("drop=50%;seed=5");
	for (int i = 0; i < 200; i++) {
		give(4, 1);
		assert_int_equal(plan.drop, first[i]);
	}
	rules("drop=50%;seed=6");
	for (int i = 0; i < 200; i++) {
		give(4, 1);
		same += plan.drop == first[i];
	}
	assert_in_range(same, 50, 150);
}

static void test_not_ready(void **state)
{
	rules("rnr=/2,qp=7;drop=100%");
	assert_false(vb_faults_not_ready(&f, 6));
	assert_false(vb_faults_not_ready(&f, 7));
	assert_true(vb_faults_not_ready(&f, 7));
	rules("drop=100%");
	assert_false(vb_faults_not_ready(&f, 7));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_when),	  cmocka_unit_test(test_which),
		cmocka_unit_test(test_damage),	  cmocka_unit_test(test_fate),
		cmocka_unit_test(test_beyond),	  cmocka_unit_test(test_seed),
		cmocka_unit_test(test_not_ready),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

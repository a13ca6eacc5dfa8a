/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/faults.h"

static struct vb_faults f;

static void good(const char *spec, uint32_t rules)
{
	assert_int_equal(vb_faults_parse(&f, spec, NULL), 0);
	assert_int_equal(f.n, rules);
}

/* Wrong, and where. */
static void bad(const char *spec, const char *from)
{
	const char *wrong = NULL;

	assert_int_equal(vb_faults_parse(&f, spec, &wrong), -EINVAL);
	assert_int_equal(f.n, 0);
	assert_string_equal(wrong, from);
}

static void test_rules(void **state)
{
	good("", 0);
	good("drop=1%", 1);
	assert_int_equal(f.rule[0].action, VB_FAULT_DROP);
	assert_int_equal(f.rule[0].share, 1000);
	assert_int_equal(f.rule[0].kind, VB_FAULT_ANY);
	good("delay=0.005%,ms=20,opcode=read,qp=0x11;corrupt=#3,opcode=0x0a;seed=77;rnr=/10", 3);
	assert_int_equal(f.rule[0].share, 5);
	assert_int_equal(f.rule[0].ms, 20);
	assert_int_equal(f.rule[0].kind, VB_FAULT_READ);
	assert_int_equal(f.rule[0].qpn, 0x11);
	assert_int_equal(f.rule[1].nth, 3);
	assert_int_equal(f.rule[1].kind, 0x0a);
	assert_int_equal(f.seed, 77);
	assert_int_equal(f.rule[2].action, VB_FAULT_RNR);
	assert_int_equal(f.rule[2].every, 10);
	good("duplicate=100%;reorder=12.5%;mangle=/1;truncate=#1;down=#9,ms=60000;", 5);
	assert_int_equal(f.rule[0].share, VB_FAULT_WHOLE);
	assert_int_equal(f.rule[1].share, 12500);
	good("up=#2;reset=1%,qp=5;fatal=/3,opcode=ack", 3);
	assert_int_equal(f.rule[0].action, VB_FAULT_UP);
	assert_int_equal(f.rule[1].action, VB_FAULT_RESET);
	assert_int_equal(f.rule[2].action, VB_FAULT_FATAL);
}

static void test_wrong(void **state)
{
	static const struct {
		const char *spec, *from;
	} rows[] = {
		{"lose=1%", "lose=1%"},
		{"drop", ""},
		{"peer reset=1%", "peer reset=1%"},
		{"drop=", ""},
		{"drop=0%", "0%"},
		{"drop=101%", "101%"},
		{"drop=100.001%", "100.001%"},
		{"drop=1", "1"},
		{"drop=#0", "0"},
		{"drop=/x", "x"},
		{"drop=1%,", ""},
		{"drop=1%,color=red", "color=red"},
		{"drop=1%,opcode=256", "256"},
		{"drop=1%,opcode=sends", "sends"},
		{"drop=1%,qp=0x1000000", "0x1000000"},
		{"drop=1%,ms=0", "0"},
		{"drop=1% ", " "},
		{";", ";"},
		{"drop=1%;;", ";"},
		{"seed=", ""},
		{"seed=-1", "-1"},
		{"drop=#99999999999999999999", "99999999999999999999"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		bad(rows[i].spec, rows[i].from);
}

static void test_many(void **state)
{
	char spec[VB_FAULT_RULES * 8 + 8] = "";

	for (int i = 0; i < VB_FAULT_RULES; i++)
		strcat(spec, "drop=1%;");
	good(spec, VB_FAULT_RULES);
	strcat(spec, "drop=1%");
	bad(spec, "drop=1%");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rules),
		cmocka_unit_test(test_wrong),
		cmocka_unit_test(test_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

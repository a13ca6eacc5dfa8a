/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/access.h"

#include <pthread.h>

#include "host/liveness.h"
#include "unit/host/other.h"

#define DEVICE "accesstest0"
#define MS     1000000ull

static const char *runtime;
static struct vb_adapter *a;

/* Visits the process whose block it is told and announces what it is told. */
static int role_visitor(void)
{
	struct vb_adapter *mine;
	struct vb_peer *p;
	uint32_t told[3]; /* block, QP, key */
	int ticket;

	if (read(0, told, sizeof(told)) != sizeof(told) || vb_adapter_open(DEVICE, &mine) ||
	    vb_peer_get(mine, told[0], &p))
		return 1;
	ticket = vb_access_begin(mine, p, told[1], told[2]);
	say(&mine->slot, sizeof(mine->slot));
	listen_for_command();
	vb_access_end(mine, ticket);
	say("e", 1);
	listen_for_command();
	vb_peer_put(p);
	vb_adapter_close(mine);
	return 0;
}

const struct role roles[] = {
	{"visitor", role_visitor},
	{NULL, NULL},
};

static int open_adapter(void **state)
{
	return vb_adapter_open(DEVICE, &a);
}

static int close_adapter(void **state)
{
	vb_adapter_close(a);
	return count_files(runtime);
}

static struct other visit(uint32_t qpn, uint32_t key, uint32_t *slot)
{
	struct other other = other_start("visitor", NULL);
	uint32_t index, number, told[3];

	assert_int_equal(vb_adapter_new_index(a, VB_NUMBER_QP, &index, &number), 0);
	told[0] = number >> VB_BLOCK_BITS;
	told[1] = qpn;
	told[2] = key;
	other_tell(&other, told, sizeof(told));
	assert_true(other_hear(&other, slot, sizeof(*slot)));
	return other;
}

static bool is_visitor(uint32_t slot)
{
	return a->mbx->visitors[slot / 64] >> slot % 64 & 1;
}

static void ones_own_accesses_count(void **state)
{
	int ticket = vb_access_begin(a, a->self, 7, 0x500);

	assert_true(ticket >= 0);
	assert_false(vb_access_wait(a, 7, 0, MS));
	assert_false(vb_access_wait(a, 0, 0x500, MS));
	assert_false(vb_access_wait(a, 0, 0x580, MS)); /* rkey and lkey of one MR */
	assert_true(vb_access_wait(a, 8, 0x600, MS));
	assert_true(vb_access_wait(a, 0, 0, MS));
	vb_access_end(a, ticket);
	assert_true(vb_access_wait(a, 7, 0x500, MS));
	vb_access_end(a, -EAGAIN); /* nothing */
}

static void a_full_table_is_said(void **state)
{
	int tickets[VB_ACCESSES];

	for (unsigned int i = 0; i < VB_ACCESSES; i++) {
		tickets[i] = vb_access_begin(a, a->self, i + 1, 0);
		assert_true(tickets[i] >= 0);
	}
	assert_int_equal(vb_access_begin(a, a->self, 1000, 0), -EAGAIN);
	assert_false(vb_access_wait(a, VB_ACCESSES, 0, MS));
	for (unsigned int i = 0; i < VB_ACCESSES; i++)
		vb_access_end(a, tickets[i]);
	assert_true(vb_access_wait(a, VB_ACCESSES, 0, MS));
}

static void visitors_are_waited_for(void **state)
{
	uint32_t slot;
	struct other other = visit(7, 0x500, &slot);
	char answer;

	assert_true(is_visitor(slot));
	assert_false(vb_access_wait(a, 7, 0, MS));
	assert_false(vb_access_wait(a, 0, 0x500, MS));
	assert_true(vb_access_wait(a, 9, 0x900, MS));
	other_tell(&other, "e", 1);
	assert_true(vb_access_wait(a, 7, 0x500, 60000 * MS));
	assert_true(other_hear(&other, &answer, 1));
	assert_true(is_visitor(slot)); /* it may come again */
	other_end(&other, 0);
	assert_true(vb_access_wait(a, 7, 0x500, MS));
	assert_false(is_visitor(slot));
}

static void the_stopped_are_waited_for_in_bounds_and_the_dead_not(void **state)
{
	uint32_t slot;
	struct other other = visit(7, 0, &slot);

	kill(other.pid, SIGSTOP);
	assert_true(other_stopped(&other));
	assert_false(vb_access_wait(a, 7, 0, 20 * MS));
	other_end(&other, SIGKILL);
	assert_true(vb_access_wait(a, 7, 0, 60000 * MS));
	assert_false(is_visitor(slot));
}

static void a_scribbled_list_costs_a_look(void **state)
{
	for (unsigned int i = 0; i < VB_SLOTS / 64; i++)
		atomic_store(&a->mbx->visitors[i], UINT64_MAX);
	assert_true(vb_access_wait(a, 7, 7, 60000 * MS));
	for (uint32_t slot = 0; slot < VB_SLOTS; slot++)
		assert_int_equal(is_visitor(slot), slot == a->slot);
}

/* The rule itself: after "dead, then look" nobody is inside who saw "live". */
static _Atomic int live = 1, inside;
static _Atomic int stop;

static void *initiator(void *arg)
{
	while (!atomic_load(&stop)) {
		int ticket = vb_access_begin(a, a->self, 3, 0);

		if (ticket >= 0 && atomic_load(&live)) {
			atomic_fetch_add_explicit(&inside, 1, memory_order_relaxed);
			atomic_fetch_sub_explicit(&inside, 1, memory_order_relaxed);
		}
		vb_access_end(a, ticket);
	}
	return NULL;
}

static void nobody_is_inside_after_the_wait(void **state)
{
	pthread_t threads[3];

	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, initiator, NULL);
	for (int round = 0; round < 300; round++) {
		atomic_store(&live, 0);
		if (vb_access_wait(a, 3, 0, 60000 * MS))
			assert_int_equal(atomic_load(&inside), 0);
		atomic_store(&live, 1);
	}
	atomic_store(&stop, 1);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_adapter, close_adapter)
		TEST(ones_own_accesses_count),
		TEST(a_full_table_is_said),
		TEST(visitors_are_waited_for),
		TEST(the_stopped_are_waited_for_in_bounds_and_the_dead_not),
		TEST(a_scribbled_list_costs_a_look),
		TEST(nobody_is_inside_after_the_wait),
	};
	int failed;

	other_main(argc, argv);
	runtime = private_runtime(argv);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(runtime);
	return failed;
}

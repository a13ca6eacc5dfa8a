/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/seats.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define DEVICE "seatstest0"

static char runtime[] = "/tmp/verbena-seats-XXXXXX";
static struct vb_registry reg;
static struct vb_seat_row rows[VB_SEAT_ROWS];

static int open_registry(void **state)
{
	return vb_registry_open(&reg, DEVICE);
}

static int close_registry(void **state)
{
	vb_registry_close(&reg);
	return 0;
}

static uint32_t seat(uint32_t i)
{
	return (uint32_t)atomic_load(&reg.file->seats.seat[i]);
}

static void put(uint32_t i, uint32_t slot)
{
	atomic_store(&reg.file->seats.seat[i], slot + 1);
	atomic_store(&reg.file->seats.n, i + 1);
}

/* A slot that no process holds. */
static uint32_t dead_slot(uint32_t n)
{
	return reg.slot + 10 + n;
}

static void test_ours(void **state)
{
	assert_true(vb_seats_lock(&reg, true));
	assert_true(vb_seats_take(&reg, 3));
	assert_int_equal(seat(0), reg.slot + 1);
	assert_int_equal(vb_seats_rows(&reg, rows), 0); /* no block yet */
	vb_registry_set_block(&reg, 5, 0);
	vb_registry_set_block(&reg, 9, 1);
	assert_int_equal(vb_seats_rows(&reg, rows), 2);
	assert_true(rows[0].block == 5 && rows[0].seat == 0);
	assert_true(rows[1].block == 9 && rows[1].seat == 0);
	vb_seats_leave(&reg);
	assert_int_equal(atomic_load(&reg.file->seats.n), 0);
	vb_seats_leave(&reg);
	assert_int_equal(vb_seats_rows(&reg, rows), 0);
	vb_seats_unlock(&reg);
}

/* One that died: the last one has its number now. */
static void test_one_dead(void **state)
{
	put(0, dead_slot(0));
	assert_true(vb_seats_take(&reg, atomic_load(&reg.file->seats.families)));
	vb_registry_set_block(&reg, 5, 0);
	assert_int_equal(vb_seats_rows(&reg, rows), 1);
	assert_int_equal(rows[0].seat, 1);
	vb_seats_sweep(&reg);
	assert_int_equal(vb_seats_rows(&reg, rows), 1);
	assert_int_equal(rows[0].seat, 0);
	vb_seats_leave(&reg);
}

/* Somebody else has the slot of one that died. */
static void test_slot_used_again(void **state)
{
	struct vb_registry_entry before = {.id = {1, 2, 3, 4}}, now = {.id = {5, 6, 7, 8}};

	vb_registry_publish(&reg, &before);
	assert_true(vb_seats_take(&reg, 3));
	vb_seats_sweep(&reg);
	assert_int_equal(atomic_load(&reg.file->seats.n), 1);
	vb_registry_publish(&reg, &now);
	vb_seats_sweep(&reg);
	assert_int_equal(atomic_load(&reg.file->seats.n), 0);
}

/* Two that died: nobody knows which of the others have which numbers, until all have left. */
static void test_two_dead(void **state)
{
	for (uint32_t i = 0; i < 2; i++)
		put(i, dead_slot(i));
	put(2, reg.slot);
	put(3, reg.slot);
	vb_registry_set_block(&reg, 5, 0);
	assert_int_equal(vb_seats_rows(&reg, rows), 1);
	vb_seats_sweep(&reg);
	assert_int_equal(atomic_load(&reg.file->seats.n), 2);
	assert_int_equal(vb_seats_rows(&reg, rows), 0);
	vb_seats_leave(&reg);
	assert_int_equal(vb_seats_rows(&reg, rows), 0);
	vb_seats_leave(&reg);
	assert_true(vb_seats_take(&reg, 1));
	assert_int_equal(vb_seats_rows(&reg, rows), 1);
	vb_seats_leave(&reg);
}

/* One that is left has the first number, whoever went first. */
static void test_one_left(void **state)
{
	for (uint32_t i = 0; i < 2; i++)
		put(i, dead_slot(i));
	put(2, reg.slot);
	vb_registry_set_block(&reg, 5, 0);
	vb_seats_sweep(&reg);
	assert_int_equal(vb_seats_rows(&reg, rows), 1);
	assert_int_equal(rows[0].seat, 0);
	vb_seats_leave(&reg);
}

/* Processes that bind other protocols number differently; so do too many. */
static void test_refused(void **state)
{
	assert_true(vb_seats_take(&reg, 3));
	assert_false(vb_seats_take(&reg, 1));
	vb_registry_set_block(&reg, 5, 0);
	assert_int_equal(vb_seats_rows(&reg, rows), 0);
	vb_seats_leave(&reg);
	for (uint32_t i = 0; i < VB_SEATS; i++)
		put(i, reg.slot);
	assert_false(vb_seats_take(&reg, 3));
	while (atomic_load(&reg.file->seats.n))
		vb_seats_leave(&reg);
}

/* Whatever others write there. */
static void test_scribbled(void **state)
{
	memset(&reg.file->seats, 0xff, sizeof(reg.file->seats));
	assert_int_equal(vb_seats_rows(&reg, rows), 0);
	vb_seats_leave(&reg);
	vb_seats_sweep(&reg);
	assert_int_equal(atomic_load(&reg.file->seats.n), 0);
	for (uint32_t block = 0; block < VB_BLOCKS; block++)
		vb_registry_set_block(&reg, block, 0);
	assert_true(vb_seats_take(&reg, 3));
	assert_int_equal(vb_seats_rows(&reg, rows), VB_SEAT_ROWS);
	vb_seats_leave(&reg);
	vb_seats_leave(&reg);
}

/* Another process at it is not waited for; one that died lets go. */
static void test_lock(void **state)
{
	int fds[2], status;
	pid_t pid;
	char c;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (!pid) {
		static struct vb_registry other;

		vb_registry_forget(&reg);
		vb_registry_drop_inherited();
		if (vb_registry_open(&other, DEVICE) || !vb_seats_lock(&other, true))
			_exit(1);
		if (write(fds[1], "", 1) != 1)
			_exit(2);
		pause();
	}
	assert_int_equal(read(fds[0], &c, 1), 1);
	assert_false(vb_seats_lock(&reg, false));
	assert_false(vb_seats_lock(&reg, true));
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(vb_seats_lock(&reg, false));
	vb_seats_unlock(&reg);
	close(fds[0]);
	close(fds[1]);
}

static void test_no_registry(void **state)
{
	struct vb_registry none = {.lock_fd = -1};

	assert_false(vb_seats_lock(&none, true));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_registry, close_registry)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_ours),      TEST(test_one_dead), TEST(test_slot_used_again),
		TEST(test_two_dead),  TEST(test_one_left), TEST(test_refused),
		TEST(test_scribbled), TEST(test_lock),	   TEST(test_no_registry),
	};
	int failed;

	if (!mkdtemp(runtime) || setenv("VERBENA_RUNTIME_DIR", runtime, 1))
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	return rmdir(runtime) ? 1 : failed;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/liveness.h"

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>

#include "unit/host/other.h"

#define DEVICE "livenesstest0"

static const char *runtime;
static struct vb_adapter *a;

static struct vb_adapter *mine;

static void *engine(void *arg)
{
	vb_liveness_engine_start(mine);
	say(&mine->slot, sizeof(mine->slot));
	pause();
	return NULL;
}

/* Ends as it is told: exec, exit, _exit, end of the first thread, or a signal. */
static int role_mortal(void)
{
	pthread_t thread;
	char how;

	if (vb_adapter_open(DEVICE, &mine))
		return 1;
	pthread_create(&thread, NULL, engine, NULL);
	how = listen_for_command();
	switch (how) {
	case 'x':
		execl("/bin/cat", "cat", (char *)NULL);
		return 1;
	case 'e':
		exit(0);
	case 'E':
		_exit(0);
	case 'a':
		signal(SIGABRT, SIG_DFL);
		abort();
	case 'f': /* a child lives on */
		if (!fork()) {
			listen_for_command();
			_exit(0);
		}
		_exit(0);
	case 't': /* the process lives on without its first thread */
		pthread_exit(NULL);
	}
	return 0;
}

const struct role roles[] = {
	{"mortal", role_mortal},
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

static struct vb_peer *meet(struct other *other)
{
	struct vb_peer *p;
	uint32_t slot;

	*other = other_start("mortal", NULL);
	assert_true(other_hear(other, &slot, sizeof(slot)));
	assert_int_equal(vb_peer_get_slot(a, slot, &p), 0);
	assert_true(vb_peer_has_engine(p));
	assert_false(vb_peer_dead(p));
	return p;
}

static void every_way_to_end_is_seen(void **state)
{
	for (const char *how = "eEa"; *how; how++) {
		struct other other;
		struct vb_peer *p = meet(&other);

		other_tell(&other, how, 1);
		waitpid(other.pid, NULL, 0);
		assert_true(atomic_load(&p->mbx->alive) & FUTEX_OWNER_DIED);
		assert_true(vb_peer_dead(p));
		close(other.fd);
		vb_peer_put(p);
		assert_int_equal(count_files(runtime), 2);
	}
}

/* The last process out removes the files, whether it closes what it opened or not. */
static void nothing_is_left_by_who_just_exits(void **state)
{
	struct other one = other_start("mortal", NULL), two = other_start("mortal", NULL);
	uint32_t slot;

	assert_true(other_hear(&one, &slot, sizeof(slot)));
	assert_true(other_hear(&two, &slot, sizeof(slot)));
	vb_adapter_close(a);
	other_tell(&one, "e", 1);
	other_tell(&two, "e", 1);
	other_end(&one, 0);
	other_end(&two, 0);
	assert_int_equal(count_files(runtime), 0);
	assert_int_equal(vb_adapter_open(DEVICE, &a), 0);
}

static void exec_is_an_end(void **state)
{
	struct other other;
	struct vb_peer *p = meet(&other);

	other_tell(&other, "x", 1);
	while (!vb_peer_dead(p)) /* cat may not have been reached yet */
		sched_yield();
	assert_int_equal(kill(other.pid, 0), 0);
	vb_peer_put(p);
	other_end(&other, SIGKILL);
}

/* The child inherits descriptors, yet neither the lock nor the life. */
static void a_child_does_not_keep_its_parent_alive(void **state)
{
	struct other other;
	struct vb_peer *p = meet(&other);

	other_tell(&other, "f", 1);
	waitpid(other.pid, NULL, 0);
	assert_true(vb_peer_dead(p));
	vb_peer_put(p);
	close(other.fd);
}

static void the_end_of_a_thread_is_no_end(void **state)
{
	struct other other;
	struct vb_peer *p = meet(&other);
	char path[64], stat[64] = "";

	other_tell(&other, "t", 1);
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)other.pid);
	while (!strstr(stat, ") Z")) {
		FILE *file = fopen(path, "re");

		assert_non_null(file);
		assert_non_null(fgets(stat, sizeof(stat), file));
		fclose(file);
		sched_yield();
	}
	assert_false(vb_peer_dead(p));
	assert_false(vb_peer_check(p));
	other_end(&other, SIGKILL);
	assert_true(vb_peer_dead(p));
	vb_peer_put(p);
}

static void *start_and_stop(void *arg)
{
	pid_t tid = (pid_t)syscall(SYS_gettid);

	assert_int_equal(vb_liveness_engine_start(a), 0);
	assert_int_equal(a->mbx->alive, tid);
	vb_liveness_engine_stop(a);
	assert_int_equal(a->mbx->alive, 0);
	return NULL;
}

/* A thread that ends in good order marks nothing, and another can take over. */
static void an_engine_can_stop_and_start_again(void **state)
{
	pthread_t thread;

	vb_liveness_engine_stop(a); /* before the first */
	for (int i = 0; i < 3; i++) {
		pthread_create(&thread, NULL, start_and_stop, NULL);
		pthread_join(thread, NULL);
		assert_int_equal(a->mbx->alive, 0);
		assert_false(vb_peer_has_engine(a->self));
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_adapter, close_adapter)
		TEST(every_way_to_end_is_seen),
		TEST(nothing_is_left_by_who_just_exits),
		TEST(exec_is_an_end),
		TEST(a_child_does_not_keep_its_parent_alive),
		TEST(the_end_of_a_thread_is_no_end),
		TEST(an_engine_can_stop_and_start_again),
	};
	int failed;

	other_main(argc, argv);
	runtime = private_runtime(argv);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(runtime);
	return failed;
}

/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * A process stops or dies at each step between two shared words that the host layer
 * has; the owner of what it was touching, and a process that comes later, go on.
 */

#include "unit/host/owner.h"

#ifdef VB_HOOKS
#define VB_HOOKS_ON 1
#else
#define VB_HOOKS_ON 0
#endif

static const char *runtime;

struct told {
	uint32_t block, key;
};

/* Everything once: open, number, find the owner, announce, copy, atomic, leave. */
static int role_visitor(void)
{
	static uint8_t data[3 * VB_MEMORY_CHUNK];
	struct iovec from = {data, sizeof(data)};
	struct vb_key_facts key;
	struct vb_adapter *a;
	struct vb_peer *p;
	struct told told;
	uint32_t index, number;
	uint64_t old;
	int ticket, err;

	if (read(0, &told, sizeof(told)) != sizeof(told) || vb_adapter_open(OWNER_DEVICE, &a) ||
	    a->alone_reason || vb_adapter_new_index(a, VB_NUMBER_QP, &index, &number) ||
	    vb_peer_get(a, told.block, &p))
		return 1;
	ticket = vb_access_begin(a, p, 5, told.key << 8);
	if (ticket < 0 || vb_memory_key(p, told.key, &key) ||
	    vb_memory_copy_in(p, &key, key.addr, &from, 1, sizeof(data)))
		return 2;
	err = vb_memory_atomic(p, &key, key.addr, VB_MEM_FETCH_ADD, 1, 0, &old);
	if (err && err != -EAGAIN)
		return 3;
	vb_access_end(a, ticket);
	vb_peer_put(p);
	vb_adapter_close(a);
	return err ? 4 : 0;
}

const struct role roles[] = {
	{"visitor", role_visitor},
	{NULL, NULL},
};

static const char *const steps[] = {
	"BLOCK_CLAIMED", "SLOT_LOCKED",	     "SLOT_WRITTEN",	"SEGMENT_READY",  "PEER_MAPPED",
	"VISITOR_SET",	 "ACCESS_ANNOUNCED", "ACCESS_CHUNK",	"ACCESS_CLEARED", "ATOMIC_HELD",
	"ATOMIC_READ",	 "ATOMIC_WRITTEN",   "ATOMIC_RELEASED",
};

static struct other visit(struct vb_adapter *a, uint32_t block, uint32_t key, const char *setting)
{
	const char *env[] = {setting, NULL};
	struct other other = other_start("visitor", env);
	struct told told = {block, key};

	other_tell(&other, &told, sizeof(told));
	return other;
}

/* The owner's own atomic, and a whole visit by somebody else, with the first one stuck. */
static void others_go_on(struct owner *o, struct vb_peer *self, bool stopped)
{
	struct vb_key_facts key;
	struct other third;
	uint64_t old;
	int err, status;

	assert_int_equal(vb_memory_key(self, o->info.key[0], &key), 0);
	err = vb_memory_atomic(self, &key, key.addr, VB_MEM_FETCH_ADD, 1, 0, &old);
	assert_true(!err || (stopped && err == -EAGAIN));
	third = visit(o->a, o->info.qpn >> VB_BLOCK_BITS, o->info.key[0], NULL);
	assert_int_equal(waitpid(third.pid, &status, 0), third.pid);
	assert_true(WIFEXITED(status));
	assert_true(WEXITSTATUS(status) == 0 || (stopped && WEXITSTATUS(status) == 4));
	close(third.fd);
}

static void stuck_at(const char *step, bool stopped)
{
	static struct owner o;
	char setting[80];
	struct other first;
	bool clear;
	int status;

	memset(&o, 0, sizeof(o));
	assert_int_equal(owner_make(&o), 0);
	snprintf(setting, sizeof(setting), "VERBENA_TEST_STEP=%s:%s", step,
		 stopped ? "stop" : "kill");
	first = visit(o.a, o.info.qpn >> VB_BLOCK_BITS, o.info.key[0], setting);
	assert_int_equal(waitpid(first.pid, &status, WUNTRACED), first.pid);
	if (stopped ? !WIFSTOPPED(status) : !WIFSIGNALED(status))
		fail_msg("%s was not reached: %x", step, (unsigned int)status);
	others_go_on(&o, o.a->self, stopped);
	clear = vb_access_wait(o.a, 5, 0, 10000000);
	if (!stopped)
		assert_true(clear);
	if (stopped)
		other_end(&first, SIGKILL);
	else
		close(first.fd);
	assert_true(vb_access_wait(o.a, 5, 0, 60000000000ull));
	others_go_on(&o, o.a->self, false);
	close(o.pipe[0]);
	close(o.pipe[1]);
	for (int k = 0; k < OWNER_KEYS; k++)
		if (o.row[k]->file_fd >= 0)
			close(o.row[k]->file_fd);
	vb_adapter_close(o.a);
	assert_int_equal(count_files(runtime), 0);
}

static void a_process_dies_at_a_step(void **state)
{
	if (!VB_HOOKS_ON)
		skip();
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		stuck_at(steps[i], false);
}

static void a_process_stops_at_a_step(void **state)
{
	if (!VB_HOOKS_ON)
		skip();
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		stuck_at(steps[i], true);
}

/* Nobody else is there when it dies or stops: the next process finds what it left. */
static void the_first_process_gets_stuck(void **state)
{
	static const char *const early[] = {"BLOCK_CLAIMED", "SLOT_LOCKED", "SLOT_WRITTEN",
					    "SEGMENT_READY"};
	struct vb_adapter *a;
	char setting[80];

	if (!VB_HOOKS_ON)
		skip();
	for (int i = 0; i < 8; i++) {
		bool stopped = i % 2;
		struct other first;
		int status;

		snprintf(setting, sizeof(setting), "VERBENA_TEST_STEP=%s:%s", early[i / 2],
			 stopped ? "stop" : "kill");
		first = visit(NULL, 1, 1, setting);
		assert_int_equal(waitpid(first.pid, &status, WUNTRACED), first.pid);
		assert_true(stopped ? WIFSTOPPED(status) : WIFSIGNALED(status));
		assert_int_equal(vb_adapter_open(OWNER_DEVICE, &a), 0);
		assert_null(a->alone_reason);
		assert_int_equal(a->slot, stopped ? 1 : 0);
		if (stopped)
			other_end(&first, SIGKILL);
		else
			close(first.fd);
		vb_adapter_close(a);
		assert_int_equal(count_files(runtime), 0);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_process_dies_at_a_step),
		cmocka_unit_test(a_process_stops_at_a_step),
		cmocka_unit_test(the_first_process_gets_stuck),
	};
	int failed;

	other_main(argc, argv);
	runtime = private_runtime(argv);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(runtime);
	return failed;
}

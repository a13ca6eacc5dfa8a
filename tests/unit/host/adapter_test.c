/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>

#include "host/adapter.h"
#include "unit/host/other.h"
#include "host/peer.h"

#define DEVICE "adaptertest0"

static const char *runtime;

/* Opens, takes a QP number, says what came of it; then waits for its end. */
struct opened {
	int err;
	int alone;
	uint32_t number, slot;
	char reason[128];
};

static int role_open(void)
{
	struct opened told = {0};
	struct vb_adapter *a = NULL;
	uint32_t index;

	told.err = vb_adapter_open(DEVICE, &a);
	if (!told.err) {
		told.alone = a->alone_reason != NULL;
		if (a->alone_reason)
			snprintf(told.reason, sizeof(told.reason), "%s", a->alone_reason);
		told.err = vb_adapter_new_index(a, VB_NUMBER_QP, &index, &told.number);
		told.slot = a->slot;
		/* Works within the process, alone or not. */
		if (!told.err && (!vb_adapter_pub_qp(a, index) || !vb_adapter_mbx_cq(a, 5) ||
				  !vb_adapter_alloc_mbx(a, 100000, 4096)))
			told.err = -ENOMEM;
	}
	say(&told, sizeof(told));
	listen_for_command();
	if (a)
		vb_adapter_close(a);
	return 0;
}

static void limit(int what, rlim_t value)
{
	struct rlimit rlimit = {value, value};

	if (setrlimit(what, &rlimit))
		_exit(4);
}

static int role_no_file_size(void)
{
	limit(RLIMIT_FSIZE, 0);
	return role_open();
}

static int role_small_file_size(void)
{
	limit(RLIMIT_FSIZE, 300 << 10); /* segments fit, the registry does not */
	return role_open();
}

static int role_few_descriptors(void)
{
	limit(RLIMIT_NOFILE, 64);
	return role_open();
}

static int role_no_descriptors(void)
{
	limit(RLIMIT_NOFILE, 5);
	return role_open();
}

static int role_small_memory(void)
{
	limit(RLIMIT_AS, 200 << 20);
	return role_open();
}

static int role_nobody(void)
{
	if (setgid(65534) || setuid(65534))
		_exit(4);
	return role_open();
}

const struct role roles[] = {
	{"open", role_open},
	{"no file size", role_no_file_size},
	{"small file size", role_small_file_size},
	{"few descriptors", role_few_descriptors},
	{"no descriptors", role_no_descriptors},
	{"small memory", role_small_memory},
	{"nobody", role_nobody},
	{NULL, NULL},
};

static struct opened run(const char *role, const char *const *env, struct other *keep)
{
	struct other other = other_start(role, env);
	struct opened told = {.err = -1};

	assert_true(other_hear(&other, &told, sizeof(told)));
	if (keep)
		*keep = other;
	else
		assert_int_equal(other_end(&other, 0), 0);
	return told;
}

static void opens_once_per_device(void **state)
{
	struct vb_adapter *a, *b, *c;

	assert_int_equal(vb_adapter_open(DEVICE, &a), 0);
	assert_null(a->alone_reason);
	assert_int_equal(vb_adapter_open(DEVICE, &b), 0);
	assert_ptr_equal(a, b);
	assert_int_equal(vb_adapter_open(DEVICE "b", &c), 0);
	assert_ptr_not_equal(a, c);
	assert_int_equal(count_files(runtime), 4);
	vb_adapter_close(b);
	assert_int_equal(count_files(runtime), 4);
	vb_adapter_close(a);
	assert_int_equal(count_files(runtime), 2);
	vb_adapter_close(c);
	assert_int_equal(count_files(runtime), 0);
}

static void names_are_checked(void **state)
{
	struct vb_adapter *a;

	assert_int_equal(vb_adapter_open("", &a), -EINVAL);
	assert_int_equal(vb_adapter_open("a/b", &a), -EINVAL);
	assert_int_equal(vb_adapter_open(".a", &a), -EINVAL);
	assert_int_equal(vb_adapter_open("a234567890123456789012345678901234567890123456789012"
					 "345678901234",
					 &a),
			 -EINVAL);
}

static void space_comes_zeroed_and_comes_back(void **state)
{
	struct vb_adapter *a;
	uint64_t first, second;
	uint8_t *at;

	assert_int_equal(vb_adapter_open(DEVICE, &a), 0);
	for (int part = 0; part < 2; part++) {
		for (uint64_t bytes = 1; bytes < (8u << 20); bytes = bytes * 3 + 1) {
			uint64_t align = bytes % 2 ? 64 : 4096;

			first = part ? vb_adapter_alloc_mbx(a, bytes, align)
				     : vb_adapter_alloc_pub(a, bytes, align);
			assert_true(first && first % align == 0);
			at = part ? vb_adapter_mbx_at(a, first) : vb_adapter_pub_at(a, first);
			for (uint64_t i = 0; i < bytes; i += 63)
				assert_int_equal(at[i], 0);
			assert_int_equal(at[bytes - 1], 0);
			memset(at, 0xa5, bytes);
			if (part)
				vb_adapter_free_mbx(a, first, bytes, align);
			else
				vb_adapter_free_pub(a, first, bytes, align);
			second = part ? vb_adapter_alloc_mbx(a, bytes, align)
				      : vb_adapter_alloc_pub(a, bytes, align);
			assert_int_equal(first, second);
			assert_int_equal(at[0], 0);
			assert_int_equal(at[bytes - 1], 0);
		}
	}
	/* More than there is address space for. */
	assert_int_equal(vb_adapter_alloc_pub(a, 1ull << 50, 64), 0);
	assert_int_equal(vb_adapter_alloc_pub(a, UINT64_MAX, 64), 0);
	vb_adapter_close(a);
}

static void pieces_do_not_overlap(void **state)
{
	enum { N = 500 };
	static uint64_t at[N], bytes[N];
	struct vb_adapter *a;
	unsigned int seed = 1;

	memset(at, 0, sizeof(at));
	assert_int_equal(vb_adapter_open(DEVICE, &a), 0);
	for (int round = 0; round < 20000; round++) {
		int i = rand_r(&seed) % N;

		if (at[i]) {
			uint8_t *mem = vb_adapter_pub_at(a, at[i]);

			assert_int_equal(mem[0], (uint8_t)i);
			assert_int_equal(mem[bytes[i] - 1], (uint8_t)i);
			vb_adapter_free_pub(a, at[i], bytes[i], 64);
			at[i] = 0;
			continue;
		}
		bytes[i] = 1 + (uint64_t)rand_r(&seed) % 9000;
		at[i] = vb_adapter_alloc_pub(a, bytes[i], 64);
		assert_true(at[i]);
		memset(vb_adapter_pub_at(a, at[i]), i, bytes[i]);
	}
	vb_adapter_close(a);
}

static void rows_keep_what_they_hold(void **state)
{
	struct vb_adapter *a;
	struct vb_pub_qp *first, *last;

	assert_int_equal(vb_adapter_open(DEVICE, &a), 0);
	assert_null(vb_adapter_pub_qp(a, VB_INDEXES));
	assert_null(vb_adapter_mbx_cq(a, UINT32_MAX));
	first = vb_adapter_pub_qp(a, 0);
	last = vb_adapter_pub_qp(a, VB_INDEXES - 1);
	assert_true(first && last && first != last);
	first->qpn = 7;
	last->qpn = 8;
	assert_ptr_equal(vb_adapter_pub_qp(a, 0), first);
	assert_int_equal(vb_adapter_pub_qp(a, 0)->qpn, 7);
	assert_int_equal(vb_adapter_pub_qp(a, VB_INDEXES - 1)->qpn, 8);
	assert_int_equal(vb_adapter_pub_qp(a, 1)->qpn, 0);
	assert_ptr_equal(vb_adapter_pub_qp(a, 1), first + 1);
	/* A row of each kind, all different memory. */
	assert_non_null(vb_adapter_pub_key(a, 300));
	assert_non_null(vb_adapter_pub_cq(a, 300));
	assert_non_null(vb_adapter_mbx_qp(a, 300));
	assert_non_null(vb_adapter_mbx_cq(a, 300));
	vb_adapter_close(a);
}

static void two_processes_have_slots_and_blocks_of_their_own(void **state)
{
	struct other one, two;
	struct opened a = run("open", NULL, &one), b = run("open", NULL, &two);

	assert_int_equal(a.err, 0);
	assert_int_equal(b.err, 0);
	assert_false(a.alone || b.alone);
	assert_int_not_equal(a.slot, b.slot);
	assert_int_not_equal(a.number >> VB_BLOCK_BITS, b.number >> VB_BLOCK_BITS);
	assert_int_equal(other_end(&one, 0), 0);
	assert_int_equal(count_files(runtime), 2);
	assert_int_equal(other_end(&two, 0), 0);
	assert_int_equal(count_files(runtime), 0);
}

static void works_alone_where_nothing_can_be_shared(void **state)
{
	static const char *const roles_alone[] = {"no file size", "small file size"};

	for (int i = 0; i < 2; i++) {
		struct opened a = run(roles_alone[i], NULL, NULL);

		assert_int_equal(a.err, 0);
		assert_true(a.alone);
		assert_non_null(strstr(a.reason, "ulimit -f"));
		assert_true(a.number >> VB_BLOCK_BITS);
	}
	assert_int_equal(count_files(runtime), 0);
}

static void works_within_small_limits(void **state)
{
	struct opened a = run("few descriptors", NULL, NULL);

	assert_int_equal(a.err, 0);
	assert_false(a.alone);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	a = run("small memory", NULL, NULL);
	assert_int_equal(a.err, 0);
	assert_false(a.alone);
#endif
	a = run("no descriptors", NULL, NULL);
	assert_true(a.err == -EMFILE || a.alone);
	assert_int_equal(count_files(runtime), 0);
}

static void another_user_has_another_registry(void **state)
{
	char dir[] = "/tmp/verbena-user-XXXXXX", setting[80];
	const char *env[] = {setting, NULL};
	struct vb_adapter *a;
	struct other other;
	struct opened b;

	if (geteuid())
		skip();
	assert_non_null(mkdtemp(dir));
	assert_int_equal(chown(dir, 65534, 65534), 0);
	/* Root's own directory is not his: he goes to the next one. */
	snprintf(setting, sizeof(setting), "XDG_RUNTIME_DIR=%s", dir);
	assert_int_equal(vb_adapter_open(DEVICE, &a), 0);
	b = run("nobody", env, &other);
	assert_int_equal(b.err, 0);
	assert_false(b.alone);
	assert_int_equal(b.slot, 0);
	assert_int_equal(count_files(dir), 1);
	assert_int_equal(other_end(&other, 0), 0);
	assert_int_equal(count_files(dir), 0);
	vb_adapter_close(a);
	rmdir(dir);
}

static void the_doorbell_rings_once_a_turn(void **state)
{
	struct vb_adapter *a;
	char bytes[16];

	assert_int_equal(vb_adapter_open(DEVICE, &a), 0);
	assert_int_equal(read(a->doorbell_fd, bytes, sizeof(bytes)), -1);
	for (int turn = 0; turn < 3; turn++) {
		for (int i = 0; i < 5; i++)
			vb_adapter_ring(a);
		assert_int_equal(vb_peer_ring(a->self), 0);
		assert_int_equal(read(a->doorbell_fd, bytes, sizeof(bytes)), 1);
		vb_adapter_drain_doorbell(a, true);
		assert_int_equal(read(a->doorbell_fd, bytes, sizeof(bytes)), -1);
	}
	vb_adapter_close(a);
}

/* The child of fork begins afresh; the parent notices nothing. */
static void a_child_has_an_adapter_of_its_own(void **state)
{
	struct vb_adapter *a, *b;
	uint32_t index, number, taken;
	int status;
	pid_t pid;

	assert_int_equal(vb_adapter_open(DEVICE, &a), 0);
	assert_int_equal(vb_adapter_new_index(a, VB_NUMBER_QP, &index, &number), 0);
	pid = fork();
	if (!pid) {
		struct vb_peer *p;
		int bad = vb_adapter_alive(a);

		vb_adapter_close(a); /* does nothing */
		bad |= vb_adapter_open(DEVICE, &b) != 0;
		bad |= b == a || !memcmp(a->id, b->id, 16) || b->alone_reason;
		bad |= vb_adapter_new_index(b, VB_NUMBER_QP, &index, &taken) != 0;
		bad |= taken >> VB_BLOCK_BITS == number >> VB_BLOCK_BITS;
		bad |= vb_peer_get(b, number >> VB_BLOCK_BITS, &p) != 0 || p->self;
		vb_peer_put(p);
		vb_adapter_close(b);
		_exit(bad);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	assert_true(vb_adapter_alive(a));
	assert_int_equal(count_files(runtime), 2);
	vb_adapter_close(a);
	assert_int_equal(count_files(runtime), 0);
}

/* clone() without the C library: no handler ran in the child. */
static void a_cloned_child_has_an_adapter_of_its_own(void **state)
{
	struct vb_adapter *a, *b;
	int status;
	pid_t pid;

	assert_int_equal(vb_adapter_open(DEVICE, &a), 0);
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (!pid) {
		int bad = vb_adapter_alive(a) || vb_adapter_open(DEVICE, &b) || b == a ||
			  b->alone_reason || b->slot == a->slot;

		if (!bad)
			vb_adapter_close(b);
		_exit(bad);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	assert_int_equal(count_files(runtime), 2);
	vb_adapter_close(a);
	assert_int_equal(count_files(runtime), 0);
}

/* A child that lives on without the library holds nothing of its dead parent. */
static void a_child_keeps_nothing_of_its_parent(void **state)
{
	struct other other = other_start("open", NULL);
	struct opened told;

	assert_true(other_hear(&other, &told, sizeof(told)));
	other_end(&other, SIGKILL);
	assert_int_equal(count_files(runtime), 2); /* crashed */
	told = run("open", NULL, NULL);
	assert_int_equal(told.slot, 0); /* swept */
	assert_int_equal(count_files(runtime), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(opens_once_per_device),
		cmocka_unit_test(names_are_checked),
		cmocka_unit_test(space_comes_zeroed_and_comes_back),
		cmocka_unit_test(pieces_do_not_overlap),
		cmocka_unit_test(rows_keep_what_they_hold),
		cmocka_unit_test(two_processes_have_slots_and_blocks_of_their_own),
		cmocka_unit_test(works_alone_where_nothing_can_be_shared),
		cmocka_unit_test(works_within_small_limits),
		cmocka_unit_test(another_user_has_another_registry),
		cmocka_unit_test(the_doorbell_rings_once_a_turn),
		cmocka_unit_test(a_child_has_an_adapter_of_its_own),
		cmocka_unit_test(a_cloned_child_has_an_adapter_of_its_own),
		cmocka_unit_test(a_child_keeps_nothing_of_its_parent),
	};
	int failed;

	other_main(argc, argv);
	runtime = private_runtime(argv);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(runtime);
	return failed;
}

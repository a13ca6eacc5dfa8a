/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/peer.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include "unit/host/owner.h"

const struct role roles[] = {
	{"owner", role_owner},
	{NULL, NULL},
};

static const char *runtime;
static struct vb_adapter *a;

static int open_adapter(void **state)
{
	return vb_adapter_open(OWNER_DEVICE, &a);
}

static int close_adapter(void **state)
{
	vb_adapter_close(a);
	return count_files(runtime);
}

static struct vb_peer *peer_of(const struct owner_info *info)
{
	struct vb_peer *p = NULL;

	assert_int_equal(vb_peer_get(a, info->qpn >> VB_BLOCK_BITS, &p), 0);
	return p;
}

static void finds_itself(void **state)
{
	struct vb_peer *p;
	uint32_t index, number;
	uint64_t place;
	struct vb_pub_qp *pub;
	struct vb_mbx_qp *mbx;

	assert_int_equal(vb_adapter_new_index(a, VB_NUMBER_QP, &index, &number), 0);
	assert_int_equal(vb_peer_get(a, number >> VB_BLOCK_BITS, &p), 0);
	assert_true(p->self);
	assert_null(vb_peer_pub_qp(p, number));
	pub = vb_adapter_pub_qp(a, index);
	mbx = vb_adapter_mbx_qp(a, index);
	assert_ptr_equal(vb_peer_pub_qp(p, number), pub);
	assert_ptr_equal(vb_peer_mbx_qp(p, number), mbx);
	place = vb_adapter_alloc_pub(a, 9u << 20, 64);
	assert_ptr_equal(vb_peer_pub_at(p, place, 9u << 20), vb_adapter_pub_at(a, place));
	assert_false(vb_peer_dead(p));
	assert_false(vb_peer_check(p));
	vb_peer_put(p);
}

static void sees_the_rows_of_another(void **state)
{
	struct owner_info info;
	struct other other = owner_start(&info);
	struct vb_peer *p = peer_of(&info);
	struct vb_peer *again = peer_of(&info);

	assert_ptr_equal(p, again);
	vb_peer_put(again);
	assert_false(p->self);
	assert_int_equal(p->pid, info.pid);
	assert_int_equal(p->slot, info.slot);
	assert_memory_equal(p->id, info.id, 16);
	assert_int_equal(vb_peer_pub_qp(p, info.qpn)->qpn, info.qpn);
	assert_int_equal(vb_peer_mbx_qp(p, info.qpn)->word, 0x1234);
	assert_int_equal(vb_peer_pub_cq(p, info.cq)->word, 3);
	assert_int_equal(vb_peer_mbx_cq(p, info.cq)->arm, 5);
	assert_int_equal(vb_peer_pub_key(p, info.key[0])->addr, info.addr[0]);
	/* A number of a block that is not its own, chunks that are not there. */
	assert_null(vb_peer_pub_qp(p, info.qpn ^ 0x10000));
	assert_null(vb_peer_pub_qp(p, 0));
	assert_null(vb_peer_pub_cq(p, 5000));
	assert_null(vb_peer_pub_cq(p, UINT32_MAX));
	/* The owner knows of the visit. */
	assert_true(p->mbx->visitors[a->slot / 64] >> a->slot % 64 & 1);
	vb_peer_put(p);
	other_end(&other, 0);
}

static void places_are_checked(void **state)
{
	struct owner_info info;
	struct other other = owner_start(&info);
	struct vb_peer *p = peer_of(&info);
	uint64_t size = p->pub->size, offset;
	const void *before = vb_peer_pub_at(p, 8, 8);

	assert_non_null(before);
	assert_null(vb_peer_pub_at(p, 0, 8));
	assert_null(vb_peer_pub_at(p, 4, 8));
	assert_non_null(vb_peer_pub_at(p, size - 8, 8));
	assert_null(vb_peer_pub_at(p, size - 8, 16));
	assert_null(vb_peer_pub_at(p, size, 8));
	assert_null(vb_peer_pub_at(p, 8, UINT64_MAX));
	assert_null(vb_peer_pub_at(p, UINT64_MAX - 7, 8));
	assert_null(vb_peer_mbx_at(p, 1ull << 40, 8));
	/* What the owner adds is found where it belongs; pointers from before stay good. */
	other_tell(&other, "r", 1);
	assert_true(other_hear(&other, &offset, sizeof(offset)));
	assert_ptr_equal(vb_peer_pub_at(p, offset, 300u << 10), (const uint8_t *)p->pub + offset);
	assert_int_equal(*(const uint64_t *)vb_peer_pub_at(p, offset, 8), 0x600d);
	other_tell(&other, "g", 1);
	assert_true(other_hear(&other, &offset, sizeof(offset)));
	assert_int_equal(*(const uint64_t *)vb_peer_pub_at(p, offset, 100u << 20), 0x600d);
	assert_true(other_hear(&other, &offset, sizeof(offset)));
	assert_int_equal(*(uint64_t *)vb_peer_mbx_at(p, offset, 5u << 20), 0x600d);
	assert_true(*(const volatile uint64_t *)before == p->pub->layout);
	vb_peer_put(p);
	other_end(&other, 0);
}

/* Of those that end a process for a call they do not know; this one lets all through. */
static void install_filter(void)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = {.len = 1, .filter = &allow};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		_exit(2);
}

static void find_under_a_filter(const struct owner_info *info)
{
	struct vb_adapter *own;
	struct vb_peer *p;

	install_filter();
	if (vb_adapter_open(OWNER_DEVICE, &own) || vb_peer_get(own, info->qpn >> VB_BLOCK_BITS, &p))
		_exit(3);
	_exit(memcmp(p->id, info->id, 16) || vb_peer_pub_qp(p, info->qpn)->qpn != info->qpn);
}

/* By the names of /proc, not by descriptors of the process. */
static void a_process_under_a_filter_finds_it_too(void **state)
{
	struct owner_info info;
	struct other other = owner_start(&info);
	pid_t child = fork();
	int status;

	if (!child)
		find_under_a_filter(&info);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	other_end(&other, 0);
}

static void unknown_blocks_are_nobody(void **state)
{
	struct vb_peer *p;

	for (uint32_t block = 0; block < VB_BLOCKS; block++)
		if (vb_peer_get(a, block, &p) == 0) {
			assert_true(p->self);
			vb_peer_put(p);
		}
	assert_int_equal(vb_peer_get(a, 0, &p), -ENOENT);
	assert_int_equal(vb_peer_get(a, VB_BLOCKS, &p), -ENOENT);
	assert_int_equal(vb_peer_get(a, UINT32_MAX, &p), -ENOENT);
	assert_int_equal(vb_peer_get_slot(a, VB_SLOTS, &p), -ENOENT);
	assert_int_equal(vb_peer_get_slot(a, 900, &p), -ENOENT);
}

static void a_stopped_process_can_be_opened(void **state)
{
	struct owner_info info;
	struct other other = owner_start(&info);
	struct vb_peer *p;

	kill(other.pid, SIGSTOP);
	assert_true(other_stopped(&other));
	p = peer_of(&info);
	assert_int_equal(vb_peer_pub_qp(p, info.qpn)->qpn, info.qpn);
	assert_int_equal(vb_peer_ring(p), 0);
	assert_int_equal(vb_peer_event_write(p, info.pipe_fd, "8 bytes", 8), 0);
	assert_false(vb_peer_dead(p));
	assert_false(vb_peer_check(p));
	vb_peer_put(p);
	other_end(&other, SIGKILL);
}

static void the_dead_are_known_and_their_slot_is_not_them(void **state)
{
	struct owner_info info, later;
	struct other other = owner_start(&info), next;
	struct vb_peer *p = peer_of(&info), *q;

	assert_true(vb_peer_has_engine(p));
	other_end(&other, SIGKILL);
	assert_true(vb_peer_dead(p));
	assert_int_equal(vb_peer_get(a, info.qpn >> VB_BLOCK_BITS, &q), -ESRCH);
	/* Its mapping can still be looked at. */
	assert_int_equal(vb_peer_pub_qp(p, info.qpn)->qpn, info.qpn);
	assert_null(vb_peer_pub_at(p, 1u << 30, 8));
	assert_true(vb_peer_ring(p) < 0);
	assert_true(vb_peer_event_write(p, info.pipe_fd, "8 bytes", 8) < 0);

	next = owner_start(&later);
	assert_int_equal(later.slot, info.slot);
	assert_true(vb_peer_dead(p));
	q = peer_of(&later);
	assert_ptr_not_equal(p, q);
	assert_memory_not_equal(p->id, q->id, 16);
	assert_false(vb_peer_dead(q));
	vb_peer_put(q);
	vb_peer_put(p);
	other_end(&next, 0);
}

/* The slot was taken before anybody looked: the lock is held, but by another. */
static void a_slot_taken_at_once_hides_no_death(void **state)
{
	struct owner_info info, later;
	struct other other = owner_start(&info), next;
	struct vb_peer *p = peer_of(&info);

	other_end(&other, SIGKILL);
	next = owner_start(&later);
	assert_int_equal(later.slot, info.slot);
	assert_true(vb_peer_dead(p));
	vb_peer_put(p);
	other_end(&next, 0);
}

static void who_leaves_in_good_order_is_gone_too(void **state)
{
	struct owner_info info;
	struct other other = owner_start(&info);
	struct vb_peer *p = peer_of(&info), *q;

	assert_int_equal(other_end(&other, 0), 0);
	assert_true(vb_peer_dead(p));
	assert_int_equal(vb_peer_get(a, info.qpn >> VB_BLOCK_BITS, &q), -ENOENT);
	vb_peer_put(p);
}

/* One load says "died": not believed as long as the lock is held. */
static void a_scribbled_word_kills_nobody(void **state)
{
	struct owner_info info;
	struct other other = owner_start(&info);
	struct vb_peer *p = peer_of(&info);

	atomic_fetch_or(&p->mbx->alive, FUTEX_OWNER_DIED);
	assert_false(vb_peer_dead(p));
	/* Scribbled over, the word does not tell the death: the lock does. */
	atomic_store(&p->mbx->alive, 1);
	other_end(&other, SIGKILL);
	assert_true(vb_peer_check(p));
	assert_true(vb_peer_dead(p));
	vb_peer_put(p);
}

static void the_bell_wakes_once(void **state)
{
	struct owner_info info;
	struct other other = owner_start(&info);
	struct vb_peer *p = peer_of(&info);
	char answer;

	for (int turn = 0; turn < 5; turn++) {
		uint64_t rung = p->mbx->rung;

		assert_int_equal(vb_peer_ring(p), 0);
		assert_int_not_equal(p->mbx->rung, rung);
		rung = p->mbx->rung;
		assert_int_equal(vb_peer_ring(p), 0);
		assert_int_equal(p->mbx->rung, rung);
		other_tell(&other, "b", 1);
		assert_true(other_hear(&other, &answer, 1));
	}
	vb_peer_put(p);
	other_end(&other, 0);
}

static void events_reach_the_pipe_that_has_the_number_now(void **state)
{
	struct owner_info info;
	struct other other = owner_start(&info);
	struct vb_peer *p = peer_of(&info);
	char got[8];

	assert_int_equal(vb_peer_event_write(p, info.pipe_fd, "first..", 8), 0);
	other_tell(&other, "e", 1);
	assert_true(other_hear(&other, got, 8));
	assert_string_equal(got, "first..");
	other_tell(&other, "n", 1);
	assert_true(other_hear(&other, got, 1));
	assert_int_equal(vb_peer_event_write(p, info.pipe_fd, "second.", 8), 0);
	other_tell(&other, "e", 1);
	assert_true(other_hear(&other, got, 8));
	assert_string_equal(got, "second.");
	/* What is no pipe is not written to. */
	assert_int_equal(vb_peer_event_write(p, 0, "never..", 8), -EBADF);
	assert_int_equal(vb_peer_event_write(p, 12345, "never..", 8), -EBADF);
	assert_int_equal(vb_peer_event_write(p, -1, "never..", 8), -EBADF);
	/* Full: said, not waited for. */
	while (!vb_peer_event_write(p, info.pipe_fd, "filling", 8))
		;
	assert_int_equal(vb_peer_event_write(p, info.pipe_fd, "filling", 8), -EAGAIN);
	vb_peer_event_forget(p, -1);
	assert_int_equal(vb_peer_event_write(p, info.pipe_fd, "filling", 8), -EAGAIN);
	vb_peer_put(p);
	other_end(&other, SIGKILL);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_adapter, close_adapter)
		TEST(finds_itself),
		TEST(sees_the_rows_of_another),
		TEST(places_are_checked),
		TEST(a_process_under_a_filter_finds_it_too),
		TEST(unknown_blocks_are_nobody),
		TEST(a_stopped_process_can_be_opened),
		TEST(the_dead_are_known_and_their_slot_is_not_them),
		TEST(a_slot_taken_at_once_hides_no_death),
		TEST(who_leaves_in_good_order_is_gone_too),
		TEST(a_scribbled_word_kills_nobody),
		TEST(the_bell_wakes_once),
		TEST(events_reach_the_pipe_that_has_the_number_now),
	};
	int failed;

	other_main(argc, argv);
	runtime = private_runtime(argv);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(runtime);
	return failed;
}

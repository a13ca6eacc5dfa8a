/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues: sizes, polling of either form, channels and their events. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/child.h"
#include "lib/verbs_pair.h"

static struct verbs_end end;

static int setup(void **state)
{
	struct pair_opts opts = pair_defaults;

	opts.channel = true;
	opts.recvs = 64;
	end_open(&end, &opts);
	end_self(&end);
	return 0;
}

static int teardown(void **state)
{
	end_close(&end);
	return 0;
}

static void one_message(unsigned int flags)
{
	struct ibv_wc wc;

	assert_int_equal(post_recv(&end, 1, NULL, 0), 0);
	assert_int_equal(post_send(&end, 2, NULL, 0, flags | IBV_SEND_SIGNALED), 0);
	wait_wc(end.send_cq, &wc);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	wait_wc(end.recv_cq, &wc);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

static void take_event(struct ibv_cq *want)
{
	struct ibv_cq *cq = NULL;
	void *context = NULL;

	wait_readable(end.channel->fd);
	assert_int_equal(ibv_get_cq_event(end.channel, &cq, &context), 0);
	assert_ptr_equal(cq, want);
	assert_ptr_equal(context, &end);
	ibv_ack_cq_events(cq, 1);
}

/* ---- Creation ---- */

static void test_create(void **state)
{
	struct ibv_device_attr dev;
	struct ibv_cq *cq;
	int bad_sizes[] = {0, -1, INT32_MIN, INT32_MAX, 0};
	int bad_vectors[] = {-1, INT32_MIN, 0, INT32_MAX};

	assert_int_equal(ibv_query_device(end.context, &dev), 0);
	bad_sizes[4] = dev.max_cqe + 1;
	bad_vectors[2] = end.context->num_comp_vectors;
	for (int i = 0; i < 5; i++) {
		errno = 0;
		assert_null(ibv_create_cq(end.context, bad_sizes[i], NULL, NULL, 0));
		assert_int_equal(errno, EINVAL);
	}
	for (int i = 0; i < 4; i++) {
		errno = 0;
		assert_null(ibv_create_cq(end.context, 1, NULL, NULL, bad_vectors[i]));
		assert_int_equal(errno, EINVAL);
	}
	for (int i = 0; i < end.context->num_comp_vectors; i++) {
		cq = ibv_create_cq(end.context, i ? dev.max_cqe : 1, &dev, NULL, i);
		assert_non_null(cq);
		assert_true(cq->cqe >= (i ? dev.max_cqe : 1));
		assert_ptr_equal(cq->cq_context, &dev);
		assert_ptr_equal(cq->context, end.context);
		assert_null(cq->channel);
		assert_int_equal(ibv_destroy_cq(cq), 0);
	}
}

static void test_create_ex(void **state)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 8};
	struct ibv_cq_ex *cq;

	attr.wc_flags = 1ull << 40;
	errno = 0;
	assert_null(ibv_create_cq_ex(end.context, &attr));
	assert_int_equal(errno, EOPNOTSUPP);
	attr.wc_flags = IBV_WC_STANDARD_FLAGS;
	attr.comp_mask = 1u << 20;
	assert_null(ibv_create_cq_ex(end.context, &attr));
	attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
	attr.flags = 1u << 20;
	assert_null(ibv_create_cq_ex(end.context, &attr));
	attr.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	cq = ibv_create_cq_ex(end.context, &attr);
	assert_non_null(cq);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

/* ---- Polling ---- */

static void test_poll_counts(void **state)
{
	struct ibv_wc wc[16];

	assert_int_equal(ibv_poll_cq(end.send_cq, 0, wc), 0);
	assert_int_equal(ibv_poll_cq(end.send_cq, 16, wc), 0);
	for (uint64_t i = 0; i < 10; i++) {
		assert_int_equal(post_recv(&end, i, NULL, 0), 0);
		assert_int_equal(post_send(&end, i, NULL, 0, IBV_SEND_SIGNALED), 0);
	}
	assert_int_equal(ibv_poll_cq(end.send_cq, 0, wc), 0);
	assert_int_equal(ibv_poll_cq(end.send_cq, 3, wc), 3);
	assert_int_equal(wc[0].wr_id, 0);
	assert_int_equal(wc[2].wr_id, 2);
	assert_int_equal(ibv_poll_cq(end.send_cq, 16, wc), 7);
	assert_int_equal(wc[0].wr_id, 3);
	assert_int_equal(wc[6].wr_id, 9);
	assert_int_equal(ibv_poll_cq(end.send_cq, 16, wc), 0);
	assert_int_equal(ibv_poll_cq(end.recv_cq, 16, wc), 10);
	for (uint64_t i = 0; i < 10; i++)
		assert_int_equal(wc[i].wr_id, i);
}

/* Case 35: start, next, end; nothing invented, nothing lost, no lock kept. */
static void test_extended(void **state)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 64,
		.wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
			    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(end.context, &attr);
	struct ibv_poll_cq_attr poll = {0}, bad = {.comp_mask = 1};
	struct ibv_qp_init_attr init = {
		.recv_cq = end.recv_cq, .cap = {8, 8, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	struct verbs_end other = end;
	uint64_t before;

	assert_non_null(cq);
	init.send_cq = init.recv_cq = ibv_cq_ex_to_cq(cq);
	other.qp = ibv_create_qp(end.pd, &init);
	assert_non_null(other.qp);
	end_self(&other);
	assert_int_equal(ibv_start_poll(cq, &poll), ENOENT);
	assert_int_equal(ibv_start_poll(cq, &bad), EINVAL);
	before = clock_ns();
	assert_int_equal(post_recv(&other, 5, NULL, 0), 0);
	assert_int_equal(
		post_rdma(&other, IBV_WR_SEND_WITH_IMM, 6, NULL, 0, 0, 0, IBV_SEND_SIGNALED), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(i ? ibv_next_poll(cq) : ibv_start_poll(cq, &poll), 0);
		assert_int_equal(cq->status, IBV_WC_SUCCESS);
		assert_int_equal(ibv_wc_read_qp_num(cq), other.qp->qp_num);
		assert_int_equal(ibv_wc_read_vendor_err(cq), 0);
		assert_int_equal(ibv_wc_read_slid(cq), 0);
		assert_int_equal(ibv_wc_read_sl(cq), 0);
		assert_int_equal(ibv_wc_read_dlid_path_bits(cq), 0);
		assert_true(ibv_wc_read_completion_ts(cq) >= before);
		assert_true(ibv_wc_read_completion_ts(cq) <= clock_ns());
		assert_true(ibv_wc_read_completion_wallclock_ns(cq) > 1000000000ull);
		if (ibv_wc_read_opcode(cq) == IBV_WC_RECV) {
			assert_int_equal(cq->wr_id, 5);
			assert_int_equal(ibv_wc_read_wc_flags(cq), IBV_WC_WITH_IMM);
			assert_int_equal(be32toh(ibv_wc_read_imm_data(cq)), 6);
			assert_int_equal(ibv_wc_read_byte_len(cq), 0);
		} else {
			assert_int_equal(ibv_wc_read_opcode(cq), IBV_WC_SEND);
			assert_int_equal(cq->wr_id, 6);
		}
	}
	assert_int_equal(ibv_next_poll(cq), ENOENT);
	ibv_end_poll(cq);
	assert_int_equal(ibv_start_poll(cq, &poll), ENOENT);
	assert_int_equal(ibv_start_poll(cq, NULL), ENOENT);
	/* Both forms may take turns. */
	assert_int_equal(post_rdma(&other, IBV_WR_RDMA_WRITE, 7, NULL, 0, 0, 0, IBV_SEND_SIGNALED),
			 0);
	assert_int_equal(ibv_start_poll(cq, &poll), 0);
	assert_int_equal(cq->wr_id, 7);
	ibv_end_poll(cq);
	assert_true(no_wc(ibv_cq_ex_to_cq(cq)));
	assert_int_equal(ibv_destroy_qp(other.qp), 0);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

/* Completions of a QP that is gone are gone, and harm nobody. */
static void test_destroyed_qp(void **state)
{
	struct ibv_wc wc;

	for (uint64_t i = 0; i < 5; i++) {
		assert_int_equal(post_recv(&end, i, NULL, 0), 0);
		assert_int_equal(post_send(&end, i, NULL, 0, IBV_SEND_SIGNALED), 0);
	}
	wait_wc(end.send_cq, &wc);
	assert_int_equal(ibv_destroy_qp(end.qp), 0);
	end.qp = NULL;
	assert_true(no_wc(end.send_cq));
	assert_true(no_wc(end.recv_cq));
}

/* ---- Events ---- */

/* Without arming there is none; one arming gives one, however many completions come. */
static void test_one_per_arming(void **state)
{
	for (int i = 0; i < 5; i++)
		one_message(IBV_SEND_SOLICITED);
	assert_false(readable(end.channel->fd));
	for (int round = 0; round < 20; round++) {
		assert_int_equal(ibv_req_notify_cq(end.recv_cq, 0), 0);
		assert_int_equal(ibv_req_notify_cq(end.recv_cq, 0), 0);
		assert_false(readable(end.channel->fd));
		for (int i = 0; i < 3; i++)
			one_message(0);
		assert_true(readable(end.channel->fd));
		take_event(end.recv_cq);
		assert_false(readable(end.channel->fd));
		one_message(0);
		assert_false(readable(end.channel->fd));
	}
	/* Two armings, two events, read late. */
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ibv_req_notify_cq(end.send_cq, 0), 0);
		one_message(0);
	}
	take_event(end.send_cq);
	take_event(end.send_cq);
	assert_false(readable(end.channel->fd));
}

static void test_solicited(void **state)
{
	struct ibv_wc wc;

	assert_int_equal(ibv_req_notify_cq(end.recv_cq, 1), 0);
	one_message(0);
	assert_false(readable(end.channel->fd));
	one_message(IBV_SEND_SOLICITED);
	take_event(end.recv_cq);
	/* Upgraded to any. */
	assert_int_equal(ibv_req_notify_cq(end.recv_cq, 1), 0);
	assert_int_equal(ibv_req_notify_cq(end.recv_cq, 0), 0);
	one_message(0);
	take_event(end.recv_cq);
	/* Never downgraded. */
	assert_int_equal(ibv_req_notify_cq(end.recv_cq, 0), 0);
	assert_int_equal(ibv_req_notify_cq(end.recv_cq, 1), 0);
	one_message(0);
	take_event(end.recv_cq);
	/* Good completions of sends are not solicited; errors always are. */
	assert_int_equal(ibv_req_notify_cq(end.send_cq, 1), 0);
	assert_int_equal(ibv_req_notify_cq(end.recv_cq, 1), 0);
	one_message(0);
	assert_false(readable(end.channel->fd));
	assert_int_equal(post_recv(&end, 1, NULL, 0), 0);
	assert_int_equal(end_state(&end, IBV_QPS_ERR), 0);
	take_event(end.recv_cq);
	wait_wc(end.recv_cq, &wc);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(post_send(&end, 1, NULL, 0, 0), 0);
	take_event(end.send_cq);
}

/* A WRITE with immediate is a receive completion like any other. */
static void test_write_imm_event(void **state)
{
	for (int solicited = 0; solicited < 2; solicited++) {
		assert_int_equal(ibv_req_notify_cq(end.recv_cq, solicited), 0);
		assert_int_equal(post_recv(&end, 1, NULL, 0), 0);
		assert_int_equal(post_rdma(&end, IBV_WR_RDMA_WRITE_WITH_IMM, 1, NULL, 0, 0, 0,
					   solicited ? IBV_SEND_SOLICITED : 0),
				 0);
		take_event(end.recv_cq);
	}
}

/* A completion that waits when the CQ is armed need not give an event; the next one must. */
static void test_armed_late(void **state)
{
	struct ibv_wc wc;
	struct ibv_cq *cq;
	void *context;
	int events = 0;

	assert_int_equal(post_recv(&end, 1, NULL, 0), 0);
	assert_int_equal(post_send(&end, 2, NULL, 0, 0), 0);
	assert_int_equal(ibv_req_notify_cq(end.recv_cq, 0), 0);
	wait_wc(end.recv_cq, &wc);
	if (readable(end.channel->fd)) {
		events++;
		assert_int_equal(ibv_get_cq_event(end.channel, &cq, &context), 0);
		ibv_ack_cq_events(cq, 1);
	} else {
		one_message(0);
		take_event(end.recv_cq);
		events++;
	}
	assert_int_equal(events, 1);
	assert_false(readable(end.channel->fd));
}

/* The receiver's completion is left where it is. */
static void no_poll_message(void)
{
	struct ibv_wc wc;

	assert_int_equal(post_recv(&end, 1, NULL, 0), 0);
	assert_int_equal(post_send(&end, 2, NULL, 0, IBV_SEND_SIGNALED), 0);
	wait_wc(end.send_cq, &wc);
}

/* Armed before it is polled: what the event was for does not give another. */
static void test_armed_before_polled(void **state)
{
	struct ibv_wc wc;

	assert_int_equal(ibv_req_notify_cq(end.recv_cq, 0), 0);
	for (int i = 0; i < 5; i++) {
		no_poll_message();
		take_event(end.recv_cq);
		assert_int_equal(ibv_req_notify_cq(end.recv_cq, 0), 0);
		assert_false(readable(end.channel->fd));
		wait_wc(end.recv_cq, &wc);
		assert_false(readable(end.channel->fd));
	}
}

/* More completions came for an event than the program takes at a time: arming raises the next
 * one, until all are taken. Whether it arms before or after it polls. */
static void test_some_at_a_time(void **state)
{
	struct ibv_wc wc[16];

	for (int before = 0; before < 2; before++) {
		int left = 41;

		assert_int_equal(ibv_req_notify_cq(end.recv_cq, 0), 0);
		for (int i = 0; i < left; i++)
			no_poll_message();
		while (left) {
			int n;

			take_event(end.recv_cq);
			if (before)
				assert_int_equal(ibv_req_notify_cq(end.recv_cq, 0), 0);
			n = ibv_poll_cq(end.recv_cq, 16, wc);
			assert_true(n > 0);
			left -= n;
			if (!before)
				assert_int_equal(ibv_req_notify_cq(end.recv_cq, 0), 0);
		}
		/* At most one event with nothing behind it. */
		if (readable(end.channel->fd))
			take_event(end.recv_cq);
		assert_false(readable(end.channel->fd));
		/* The next solicited one is for what comes, not for what waits. */
		assert_int_equal(ibv_req_notify_cq(end.recv_cq, 0), 0);
		one_message(0);
		take_event(end.recv_cq);
		no_poll_message();
		assert_int_equal(ibv_req_notify_cq(end.recv_cq, 1), 0);
		assert_false(readable(end.channel->fd));
		one_message(IBV_SEND_SOLICITED);
		take_event(end.recv_cq);
		wait_wc(end.recv_cq, wc);
	}
}

/* The sender's completion comes before anything that the message leads to. */
static void test_sender_first(void **state)
{
	for (int i = 0; i < 5; i++) {
		assert_int_equal(ibv_req_notify_cq(end.recv_cq, 0), 0);
		assert_int_equal(ibv_req_notify_cq(end.send_cq, 0), 0);
		one_message(0);
		take_event(end.send_cq);
		take_event(end.recv_cq);
	}
}

static void test_non_blocking(void **state)
{
	struct ibv_cq *cq = NULL;
	void *context;
	int flags = fcntl(end.channel->fd, F_GETFL);

	assert_true(fcntl(end.channel->fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(flags & O_NONBLOCK, 0);
	assert_int_equal(fcntl(end.channel->fd, F_SETFL, flags | O_NONBLOCK), 0);
	errno = 0;
	assert_int_equal(ibv_get_cq_event(end.channel, &cq, &context), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(ibv_req_notify_cq(end.recv_cq, 0), 0);
	one_message(0);
	assert_int_equal(ibv_get_cq_event(end.channel, &cq, &context), 0);
	assert_ptr_equal(cq, end.recv_cq);
	ibv_ack_cq_events(cq, 1);
	assert_int_equal(ibv_get_cq_event(end.channel, &cq, &context), -1);
	assert_int_equal(errno, EAGAIN);
}

static void on_alarm(int sig)
{
}

/* A signal ends the wait. The timer repeats, so that one that comes too early does no harm. */
static void test_signal(void **state)
{
	struct sigaction action = {.sa_handler = on_alarm}, old;
	struct itimerval every = {{0, 10000}, {0, 10000}}, never = {{0, 0}, {0, 0}};
	struct ibv_cq *cq;
	void *context;

	sigaction(SIGALRM, &action, &old);
	setitimer(ITIMER_REAL, &every, NULL);
	errno = 0;
	assert_int_equal(ibv_get_cq_event(end.channel, &cq, &context), -1);
	assert_int_equal(errno, EINTR);
	setitimer(ITIMER_REAL, &never, NULL);
	sigaction(SIGALRM, &old, NULL);
}

/* Without a channel arming is allowed and nothing happens. */
static void test_no_channel(void **state)
{
	struct ibv_cq *cq = ibv_create_cq(end.context, 4, NULL, NULL, 0);

	assert_non_null(cq);
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	assert_int_equal(ibv_req_notify_cq(cq, 1), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

/* ---- Destroying ---- */

static atomic_int destroyed;

static void *destroy_it(void *cq)
{
	int err = ibv_destroy_cq(cq);

	atomic_store(&destroyed, err ? -1 : 1);
	return NULL;
}

/* Destroying waits for the last acknowledgement. */
static void test_destroy_waits(void **state)
{
	struct ibv_cq *cq;
	pthread_t thread;
	void *context;

	for (int i = 0; i < 3; i++) {
		assert_int_equal(ibv_req_notify_cq(end.recv_cq, 0), 0);
		one_message(0);
		assert_int_equal(ibv_get_cq_event(end.channel, &cq, &context), 0);
	}
	assert_int_equal(ibv_destroy_qp(end.qp), 0);
	end.qp = NULL;
	atomic_store(&destroyed, 0);
	assert_int_equal(pthread_create(&thread, NULL, destroy_it, end.recv_cq), 0);
	for (int i = 0; i < 1000; i++)
		sched_yield();
	assert_int_equal(atomic_load(&destroyed), 0);
	ibv_ack_cq_events(cq, 2);
	for (int i = 0; i < 1000; i++)
		sched_yield();
	assert_int_equal(atomic_load(&destroyed), 0);
	ibv_ack_cq_events(cq, 1);
	pthread_join(thread, NULL);
	assert_int_equal(atomic_load(&destroyed), 1);
	end.recv_cq = NULL;
}

/* Events that nobody fetched go with their CQ, those of others stay. */
static void test_destroy_unread(void **state)
{
	for (int i = 0; i < 4; i++) {
		assert_int_equal(ibv_req_notify_cq(end.recv_cq, 0), 0);
		assert_int_equal(ibv_req_notify_cq(end.send_cq, 0), 0);
		one_message(0);
	}
	assert_int_equal(ibv_destroy_qp(end.qp), 0);
	end.qp = NULL;
	assert_int_equal(ibv_destroy_cq(end.recv_cq), 0);
	end.recv_cq = NULL;
	for (int i = 0; i < 4; i++)
		take_event(end.send_cq);
	assert_false(readable(end.channel->fd));
}

/* Unpolled completions vanish with the CQ. */
static void test_destroy_unpolled(void **state)
{
	for (int i = 0; i < 4; i++) {
		assert_int_equal(post_recv(&end, 1, NULL, 0), 0);
		assert_int_equal(post_send(&end, 1, NULL, 0, IBV_SEND_SIGNALED), 0);
	}
	assert_int_equal(ibv_destroy_qp(end.qp), 0);
	end.qp = NULL;
}

/* ---- Threads ---- */

#define EVENTS 400

static atomic_int taken;

static void *read_events(void *arg)
{
	for (;;) {
		struct ibv_cq *cq;
		void *context;

		if (ibv_get_cq_event(end.channel, &cq, &context))
			return (void *)1;
		ibv_ack_cq_events(cq, 1);
		if (cq == end.send_cq)
			return NULL; /* the sign to end */
		atomic_fetch_add(&taken, 1);
	}
}

/* Two threads on one channel: each event goes to one of them. */
static void test_two_readers(void **state)
{
	pthread_t thread[2];
	void *bad;

	atomic_store(&taken, 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, read_events, NULL), 0);
	for (int i = 0; i < EVENTS; i++) {
		assert_int_equal(ibv_req_notify_cq(end.recv_cq, 0), 0);
		one_message(0);
		while (atomic_load(&taken) != i + 1)
			sched_yield();
	}
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ibv_req_notify_cq(end.send_cq, 0), 0);
		one_message(0);
	}
	for (int i = 0; i < 2; i++) {
		pthread_join(thread[i], &bad);
		assert_null(bad);
	}
	assert_int_equal(atomic_load(&taken), EVENTS);
	assert_false(readable(end.channel->fd));
}

/* No wake-up is lost: arm, wait, drain. */
static void test_no_lost_wakeup(void **state)
{
	struct pair_opts opts = pair_defaults;
	struct verbs_pair pair;
	struct ibv_wc wc;
	uint64_t done = 0;

	opts.channel = true;
	pair_create(&pair, &opts, false);
	for (uint64_t i = 0; i < 2000; i++) {
		struct ibv_cq *cq;
		void *context;
		int n;

		assert_int_equal(ibv_req_notify_cq(pair.b.recv_cq, (int)(i & 1)), 0);
		assert_int_equal(pair_b_recv(&pair, i, 0, NULL, 0), 0);
		assert_int_equal(
			post_send(&pair.a, i, NULL, 0, IBV_SEND_SOLICITED | IBV_SEND_SIGNALED), 0);
		wait_readable(pair.b.channel->fd);
		assert_int_equal(ibv_get_cq_event(pair.b.channel, &cq, &context), 0);
		ibv_ack_cq_events(cq, 1);
		while ((n = ibv_poll_cq(pair.b.recv_cq, 1, &wc)) > 0)
			assert_int_equal(wc.wr_id, done++);
		assert_int_equal(done, i + 1);
		wait_wc(pair.a.send_cq, &wc);
	}
	pair_destroy(&pair);
}

static int teardown_rest(void **state)
{
	if (end.qp)
		CHECK(ibv_destroy_qp(end.qp) == 0);
	if (end.recv_cq)
		CHECK(ibv_destroy_cq(end.recv_cq) == 0);
	CHECK(ibv_destroy_cq(end.send_cq) == 0);
	CHECK(ibv_destroy_comp_channel(end.channel) == 0);
	CHECK(ibv_dealloc_pd(end.pd) == 0);
	CHECK(ibv_close_device(end.context) == 0);
	return 0;
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
#define REST(test) cmocka_unit_test_setup_teardown(test, setup, teardown_rest)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		CASE(test_create),	   CASE(test_create_ex),
		CASE(test_poll_counts),	   CASE(test_extended),
		REST(test_destroyed_qp),   CASE(test_one_per_arming),
		CASE(test_solicited),	   CASE(test_write_imm_event),
		CASE(test_armed_late),	   CASE(test_armed_before_polled),
		CASE(test_some_at_a_time), CASE(test_sender_first),
		CASE(test_non_blocking),   CASE(test_signal),
		CASE(test_no_channel),	   REST(test_destroy_waits),
		REST(test_destroy_unread), REST(test_destroy_unpolled),
		CASE(test_two_readers),	   cmocka_unit_test(test_no_lost_wakeup),
	};
	uint8_t frame[PAIR_STACK_BYTES];

	pair_main(argc, argv, frame);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

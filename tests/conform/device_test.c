/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>
#include <infiniband/verbs.h>

#include "lib/child.h"
#include "lib/rule.h"

/* Bytes before struct ibv_context in the newest struct verbs_context (rdma-core 65). */
#define NEWEST_FRONT 368

static struct ibv_context *open_first(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context;

	assert_non_null(list);
	assert_non_null(list[0]);
	context = ibv_open_device(list[0]);
	assert_non_null(context);
	ibv_free_device_list(list);
	return context;
}

static void test_list(void **state)
{
	int n = -1;
	struct ibv_device **list = ibv_get_device_list(&n);
	struct ibv_device **again = ibv_get_device_list(NULL);

	assert_non_null(list);
	assert_int_equal(n, 1);
	assert_non_null(list[0]);
	assert_null(list[1]);
	assert_ptr_not_equal(list, again);
	assert_ptr_equal(list[0], again[0]);
	ibv_free_device_list(again);
	ibv_free_device_list(list);
}

static void test_device_fields(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_device *dev = list[0];

	assert_string_equal(ibv_get_device_name(dev), "verbena0");
	assert_string_equal(dev->name, "verbena0");
	assert_string_equal(dev->dev_name, "uverbs0");
	assert_string_equal(dev->dev_path, "/sys/class/infiniband_verbs/uverbs0");
	assert_string_equal(dev->ibdev_path, "/sys/class/infiniband/verbena0");
	assert_int_equal(dev->node_type, IBV_NODE_CA);
	assert_int_equal(dev->transport_type, IBV_TRANSPORT_IB);
	assert_true(ibv_get_device_guid(dev) != 0);
	assert_int_equal(ibv_get_device_index(dev), 0);
	assert_null(dev->_ops._dummy1);
	assert_null(dev->_ops._dummy2);
	/* Vendor libraries look at the pointer behind it. */
	assert_null(*(void **)(void *)(dev + 1));
	ibv_free_device_list(list);
}

/* The device stays good after the list that held it. */
static void test_open_after_free(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_device *dev = list[0];
	struct ibv_context *a, *b;

	ibv_free_device_list(list);
	a = ibv_open_device(dev);
	b = ibv_open_device(dev);
	assert_non_null(a);
	assert_non_null(b);
	assert_ptr_not_equal(a, b);
	assert_ptr_equal(a->device, dev);
	assert_int_not_equal(a->async_fd, b->async_fd);
	assert_int_not_equal(a->cmd_fd, b->cmd_fd);
	assert_int_equal(ibv_close_device(a), 0);
	assert_int_equal(ibv_close_device(b), 0);
	assert_string_equal(ibv_get_device_name(dev), "verbena0");
}

static void test_context_fields(void **state)
{
	struct ibv_context *context = open_first();
	size_t size;

	assert_ptr_equal(context->abi_compat, (void *)UINTPTR_MAX);
	assert_true(context->num_comp_vectors >= 1);
	assert_non_null(verbs_get_ctx(context));
	memcpy(&size, (uint8_t *)context - 8, sizeof(size));
	assert_int_equal(size, NEWEST_FRONT + sizeof(struct ibv_context));
	/* All of the slots in front can be read. */
	for (int i = 8; i <= NEWEST_FRONT; i += 8)
		(void)*(void *volatile *)(void *)((uint8_t *)context - i);
	assert_non_null(context->ops._compat_query_device);
	assert_non_null(context->ops._compat_query_port);
	assert_int_equal(pthread_mutex_trylock(&context->mutex), 0);
	pthread_mutex_unlock(&context->mutex);
	assert_int_equal(ibv_close_device(context), 0);
}

static void test_descriptors(void **state)
{
	struct ibv_context *context = open_first();
	struct pollfd poll_fd = {.fd = context->async_fd, .events = POLLIN};
	struct stat a, b;
	int copy;

	assert_true(fcntl(context->cmd_fd, F_GETFD) & FD_CLOEXEC);
	assert_true(fcntl(context->async_fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(fcntl(context->async_fd, F_GETFL) & O_NONBLOCK, 0);
	assert_int_equal(poll(&poll_fd, 1, 0), 0);
	copy = dup(context->cmd_fd);
	assert_true(copy >= 0);
	assert_int_equal(fstat(copy, &a), 0);
	assert_int_equal(fstat(context->cmd_fd, &b), 0);
	assert_int_equal(a.st_ino, b.st_ino);
	close(copy);
	assert_int_equal(ibv_close_device(context), 0);
}

static void test_nothing_left_open(void **state)
{
	int before, after;

	ibv_close_device(open_first());
	before = dup(0);
	close(before);
	for (int i = 0; i < 100; i++)
		ibv_close_device(open_first());
	after = dup(0);
	close(after);
	assert_int_equal(before, after);
}

static void test_unknown_device(void **state)
{
	struct ibv_device stranger = {.name = "stranger"};

	errno = 0;
	assert_null(ibv_open_device(&stranger));
	assert_int_equal(errno, ENODEV);
	assert_true(rule_said("device-unknown"));
	assert_null(ibv_open_device(NULL));
	assert_int_equal(errno, ENODEV);
}

static void check_no_devices(void *arg)
{
	struct ibv_device **list;
	int n = 7;

	setenv("VERBENA_DEVICES", "none", 1);
	list = ibv_get_device_list(&n);
	CHECK(list && !list[0] && n == 0);
	ibv_free_device_list(list);
}

static void test_no_devices(void **state)
{
	assert_int_equal(run_in_child(check_no_devices, NULL), 0);
}

static void set_descriptors(rlim_t most)
{
	struct rlimit limit;

	CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	limit.rlim_cur = most;
	CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

static void check_list_shortage(void *arg)
{
	struct ibv_device **list;
	int n = 7;

	rule_log_on_stderr();
	set_descriptors(0);
	errno = 0;
	list = ibv_get_device_list(&n);
	CHECK(!list && errno == ENOMEM && n == 0);
	set_descriptors(64);
	list = ibv_get_device_list(&n);
	CHECK(list && list[0] && n == 1);
	CHECK(rule_said("device-list-shortage"));
}

static void test_list_shortage(void **state)
{
	/* The child must be the first to ask, so that it is it that looks. */
	assert_int_equal(run_in_child(check_list_shortage, NULL), 0);
}

static void check_open_shortage(void *arg)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int free_fd = dup(0);

	close(free_fd);
	CHECK(list && list[0]);
	for (int extra = 2; extra >= 0; extra--) {
		set_descriptors((rlim_t)(free_fd + extra));
		errno = 0;
		CHECK(!ibv_open_device(list[0]));
		CHECK(errno == EMFILE);
	}
	set_descriptors(1024);
	CHECK(dup(0) == free_fd);
	CHECK(rule_said("open-descriptors"));
	CHECK(ibv_open_device(list[0]) != NULL);
}

static void test_open_shortage(void **state)
{
	assert_int_equal(run_in_child(check_open_shortage, NULL), 0);
}

static void check_open_memory(void *arg)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;
	struct rlimit limit;

	CHECK(list && list[0]);
	CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
	limit.rlim_cur = 4096;
	CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
	/* What the allocator still has goes first. */
	while (malloc(4096) || malloc(512))
		;
	errno = 0;
	context = ibv_open_device(list[0]);
	CHECK(!context && errno == ENOMEM);
	limit.rlim_cur = limit.rlim_max;
	CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
	CHECK(rule_said("open-memory"));
}

static void test_open_memory(void **state)
{
#ifdef VB_SANITIZED
	skip(); /* a sanitizer cannot live with so little address space */
#endif
	assert_int_equal(run_in_child(check_open_memory, NULL), 0);
}

/* The child may open what the parent listed, and closes what it inherited. */
static void check_fork_child(void *arg)
{
	struct ibv_context *inherited = arg;
	struct ibv_device *dev = inherited->device;
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_async_event event;
	struct ibv_context *own;
	struct ibv_device_attr attr;

	CHECK(list && list[0] == dev);
	errno = 0;
	CHECK(ibv_get_async_event(inherited, &event) == -1 && errno == EINVAL);
	CHECK(rule_said("forked"));
	own = ibv_open_device(dev);
	CHECK(own && ibv_query_device(own, &attr) == 0);
	CHECK(ibv_close_device(inherited) == 0);
	CHECK(ibv_query_device(own, &attr) == 0);
	CHECK(ibv_close_device(own) == 0);
}

static void test_fork(void **state)
{
	struct ibv_context *context;
	struct ibv_device_attr attr;

#ifdef __SANITIZE_THREAD__
	skip(); /* the thread sanitizer does not follow children of threads */
#endif
	context = open_first();
	assert_int_equal(run_in_child(check_fork_child, context), 0);
	assert_int_equal(ibv_query_device(context, &attr), 0);
	assert_int_equal(ibv_close_device(context), 0);
}

/* As the kernel writes them. */
struct record {
	uint64_t element;
	uint32_t type, reserved;
};

/* Events are records in a pipe: the test is as good a writer as any. */
static int open_writer(const struct ibv_context *context)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", context->async_fd);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static void send_event(int fd, uint64_t element, uint32_t type)
{
	struct record record = {.element = element, .type = type};

	assert_int_equal(write(fd, &record, sizeof(record)), sizeof(record));
}

static void set_nonblocking(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL);

	fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK);
}

static void test_async_events(void **state)
{
	struct ibv_context *context = open_first();
	struct pollfd poll_fd = {.fd = context->async_fd, .events = POLLIN};
	int fd = open_writer(context);
	struct ibv_async_event event;

	set_nonblocking(context->async_fd, true);
	errno = 0;
	assert_int_equal(ibv_get_async_event(context, &event), -1);
	assert_int_equal(errno, EAGAIN);
	assert_true(rule_said("async-empty"));
	send_event(fd, 1, IBV_EVENT_PORT_ERR);
	send_event(fd, 1, IBV_EVENT_PORT_ACTIVE);
	send_event(fd, 0, IBV_EVENT_DEVICE_FATAL);
	assert_int_equal(poll(&poll_fd, 1, 0), 1);
	assert_int_equal(ibv_get_async_event(context, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_PORT_ERR);
	assert_int_equal(event.element.port_num, 1);
	ibv_ack_async_event(&event);
	assert_int_equal(ibv_get_async_event(context, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_PORT_ACTIVE);
	assert_int_equal(poll(&poll_fd, 1, 0), 1);
	assert_int_equal(ibv_get_async_event(context, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_DEVICE_FATAL);
	assert_int_equal(poll(&poll_fd, 1, 0), 0);
	close(fd);
	assert_int_equal(ibv_close_device(context), 0);
}

/* A record that names nothing alive is passed over. */
static void test_async_garbage(void **state)
{
	struct ibv_context *context = open_first();
	int fd = open_writer(context);
	struct ibv_async_event event;

	for (uint32_t type = 0; type < 40; type++)
		send_event(fd, UINT64_C(0x1234567800000001) + type, type);
	for (uint32_t type = 0; type < 40; type++)
		send_event(fd, 77, type);
	send_event(fd, 1, UINT32_MAX);
	send_event(fd, 1, IBV_EVENT_GID_CHANGE);
	do
		assert_int_equal(ibv_get_async_event(context, &event), 0);
	while (event.event_type == IBV_EVENT_DEVICE_FATAL || (int)event.event_type == 20);
	assert_int_equal(event.event_type, IBV_EVENT_GID_CHANGE);
	assert_int_equal(event.element.port_num, 1);
	close(fd);
	assert_int_equal(ibv_close_device(context), 0);
}

struct destroying {
	struct ibv_cq *cq;
	atomic_bool done;
	int result;
};

static void *destroy(void *arg)
{
	struct destroying *job = arg;

	job->result = ibv_destroy_cq(job->cq);
	atomic_store(&job->done, true);
	return NULL;
}

/* An event of a CQ names the program's own object; its destruction waits for the
 * acknowledgement, and takes the unread ones away. */
static void test_async_element(void **state)
{
	struct ibv_context *context = open_first();
	struct ibv_cq *cq = ibv_create_cq(context, 1, NULL, NULL, 0);
	struct pollfd poll_fd = {.fd = context->async_fd, .events = POLLIN};
	struct destroying job = {.cq = cq};
	int fd = open_writer(context);
	struct ibv_async_event event;
	pthread_t thread;

	assert_non_null(cq);
	send_event(fd, cq->handle, IBV_EVENT_CQ_ERR);
	assert_int_equal(ibv_get_async_event(context, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_CQ_ERR);
	assert_ptr_equal(event.element.cq, cq);
	send_event(fd, cq->handle, IBV_EVENT_CQ_ERR);
	send_event(fd, 1, IBV_EVENT_PORT_ERR);
	assert_int_equal(pthread_create(&thread, NULL, destroy, &job), 0);
	/* However long it is watched, it must not be over. */
	poll(NULL, 0, 20);
	assert_false(atomic_load(&job.done));
	ibv_ack_async_event(&event);
	pthread_join(thread, NULL);
	assert_int_equal(job.result, 0);
	assert_int_equal(ibv_get_async_event(context, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_PORT_ERR);
	assert_int_equal(poll(&poll_fd, 1, 0), 0);
	close(fd);
	assert_int_equal(ibv_close_device(context), 0);
}

static void on_signal(int number)
{
}

static void *interrupt(void *arg)
{
	pthread_t *target = arg;

	/* Until the reader is inside its system call a signal may come too early. */
	for (;;) {
		pthread_kill(*target, SIGUSR1);
		poll(NULL, 0, 1);
		pthread_testcancel();
	}
	return NULL;
}

static void test_async_signal(void **state)
{
	struct sigaction action = {.sa_handler = on_signal};
	struct ibv_context *context = open_first();
	struct ibv_async_event event;
	pthread_t self = pthread_self(), helper;

	sigaction(SIGUSR1, &action, NULL);
	pthread_create(&helper, NULL, interrupt, &self);
	errno = 0;
	assert_int_equal(ibv_get_async_event(context, &event), -1);
	assert_int_equal(errno, EINTR);
	pthread_cancel(helper);
	pthread_join(helper, NULL);
	assert_true(rule_said("async-signal"));
	assert_int_equal(ibv_close_device(context), 0);
}

static void test_async_fd_replaced(void **state)
{
	struct ibv_context *context = open_first();
	int other = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct ibv_async_event event;

	dup2(other, context->async_fd);
	errno = 0;
	assert_int_equal(ibv_get_async_event(context, &event), -1);
	assert_int_equal(errno, EBADF);
	assert_true(rule_said("async-fd"));
	close(other);
	assert_int_equal(ibv_close_device(context), 0);
}

static void *open_and_close(void *arg)
{
	for (int i = 0; i < 200; i++) {
		struct ibv_device **list = ibv_get_device_list(NULL);
		struct ibv_context *context = list ? ibv_open_device(list[0]) : NULL;
		struct ibv_port_attr port;

		if (!context || ibv_query_port(context, 1, &port) || ibv_close_device(context))
			return (void *)1;
		ibv_free_device_list(list);
	}
	return NULL;
}

static void test_threads(void **state)
{
	pthread_t thread[4];
	void *bad;

	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, open_and_close, NULL), 0);
	for (int i = 0; i < 4; i++) {
		pthread_join(thread[i], &bad);
		assert_null(bad);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* In processes that have not listed the devices before. */
		cmocka_unit_test(test_no_devices),
		cmocka_unit_test(test_list_shortage),
		cmocka_unit_test(test_list),
		cmocka_unit_test(test_device_fields),
		cmocka_unit_test(test_open_after_free),
		cmocka_unit_test(test_context_fields),
		cmocka_unit_test(test_descriptors),
		cmocka_unit_test(test_nothing_left_open),
		cmocka_unit_test(test_unknown_device),
		cmocka_unit_test(test_open_shortage),
		cmocka_unit_test(test_open_memory),
		cmocka_unit_test(test_fork),
		cmocka_unit_test(test_async_events),
		cmocka_unit_test(test_async_garbage),
		cmocka_unit_test(test_async_element),
		cmocka_unit_test(test_async_signal),
		cmocka_unit_test(test_async_fd_replaced),
		cmocka_unit_test(test_threads),
	};

	rule_log_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

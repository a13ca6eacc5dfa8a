/* SPDX-License-Identifier: BSD-2-Clause */
/* librdmacm where there is no device: names of events, and clean refusals. */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>
#include <rdma/rdma_cma.h>

#include "abi/said.h"

static void *library;

/* Any function, called with arguments that a refusal does not look at. */
static long call(const char *name)
{
	int (*function)(void *, void *, void *, void *) = dlsym(library, name);

	if (!function)
		fail_msg("%s", dlerror());
	errno = 0;
	return function(NULL, NULL, NULL, NULL);
}

static void event_names(void **state)
{
	static const char *const texts[] = {
		"RDMA_CM_EVENT_ADDR_RESOLVED",
		"RDMA_CM_EVENT_ADDR_ERROR",
		"RDMA_CM_EVENT_ROUTE_RESOLVED",
		"RDMA_CM_EVENT_ROUTE_ERROR",
		"RDMA_CM_EVENT_CONNECT_REQUEST",
		"RDMA_CM_EVENT_CONNECT_RESPONSE",
		"RDMA_CM_EVENT_CONNECT_ERROR",
		"RDMA_CM_EVENT_UNREACHABLE",
		"RDMA_CM_EVENT_REJECTED",
		"RDMA_CM_EVENT_ESTABLISHED",
		"RDMA_CM_EVENT_DISCONNECTED",
		"RDMA_CM_EVENT_DEVICE_REMOVAL",
		"RDMA_CM_EVENT_MULTICAST_JOIN",
		"RDMA_CM_EVENT_MULTICAST_ERROR",
		"RDMA_CM_EVENT_ADDR_CHANGE",
		"RDMA_CM_EVENT_TIMEWAIT_EXIT",
		"RDMA_CM_EVENT_ADDRINFO_RESOLVED",
		"RDMA_CM_EVENT_ADDRINFO_ERROR",
		"UNKNOWN EVENT",
	};
	const char *(*event_str)(int) = dlsym(library, "rdma_event_str");

	assert_string_equal(event_str(-1), "UNKNOWN EVENT");
	for (int i = 0; i < (int)(sizeof(texts) / sizeof(texts[0])); i++)
		assert_string_equal(event_str(i), texts[i]);
}

static void first_calls_find_no_device(void **state)
{
	struct rdma_event_channel *(*channel)(void) = dlsym(library, "rdma_create_event_channel");
	struct ibv_context **(*devices)(int *) = dlsym(library, "rdma_get_devices");
	int (*create_id)(struct rdma_event_channel *, struct rdma_cm_id **, void *,
			 enum rdma_port_space) = dlsym(library, "rdma_create_id");
	int (*getaddrinfo)(const char *, const char *, const struct rdma_addrinfo *,
			   struct rdma_addrinfo **) = dlsym(library, "rdma_getaddrinfo");
	int (*rsocket)(int, int, int) = dlsym(library, "rsocket");
	struct rdma_addrinfo *res = NULL;
	struct rdma_cm_id *id = NULL;
	int count = 7;

	errno = 0;
	assert_null(channel());
	assert_int_equal(errno, ENODEV);
	errno = 0;
	assert_null(devices(&count));
	assert_int_equal(count, 0);
	assert_int_equal(errno, ENODEV);

	errno = 0;
	assert_int_equal(create_id(NULL, &id, NULL, RDMA_PS_TCP), -1);
	assert_int_equal(errno, ENODEV);
	errno = 0;
	assert_int_equal(getaddrinfo("127.0.0.1", "7", NULL, &res), -1);
	assert_int_equal(errno, ENODEV);
	errno = 0;
	assert_int_equal(rsocket(AF_INET, SOCK_STREAM, 0), -1);
	assert_int_equal(errno, ENODEV);
	assert_true(said("ENODEV [cm-no-device]\n  what: "));
}

static void calls_without_an_id_are_refused(void **state)
{
	static const char *const names[] = {"rdma_bind_addr", "rdma_connect",
					    "rdma_create_qp", "rdma_listen",
					    "rdma_create_id", "rdma_write_cm_event"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		assert_int_equal(call(names[i]), -1);
		assert_int_equal(errno, EINVAL);
	}
}

static void calls_on_other_descriptors_are_refused(void **state)
{
	static const char *const names[] = {"rbind",  "rclose", "rsend",      "rrecv",
					    "rfcntl", "riomap", "repoll_wait"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		assert_int_equal(call(names[i]), -1);
		assert_int_equal(errno, EBADF);
	}
	assert_true(said("EBADF [rsocket-unknown]\n  what: rbind"));
}

static void rpoll_takes_ordinary_descriptors(void **state)
{
	int (*rpoll)(struct pollfd *, nfds_t, int) = dlsym(library, "rpoll");
	struct pollfd fd = {.events = POLLIN};
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	fd.fd = ends[0];
	assert_int_equal(rpoll(&fd, 1, 0), 0);
	assert_int_equal(write(ends[1], "x", 1), 1);
	assert_int_equal(rpoll(&fd, 1, -1), 1);
	assert_int_equal(fd.revents, POLLIN);
	close(ends[0]);
	close(ends[1]);
}

static int setup(void **state)
{
	setenv("VERBENA_DEVICES", "none", 1);
	library = dlopen("librdmacm.so", RTLD_NOW);
	return library ? said_start() : -1;
}

static int teardown(void **state)
{
	return said_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(event_names),
		cmocka_unit_test(first_calls_find_no_device),
		cmocka_unit_test(calls_without_an_id_are_refused),
		cmocka_unit_test(calls_on_other_descriptors_are_refused),
		cmocka_unit_test(rpoll_takes_ordinary_descriptors),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}

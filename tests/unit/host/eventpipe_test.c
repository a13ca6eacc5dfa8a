/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/eventpipe.h"

#include <errno.h>
#include <limits.h>

#include "unit/host/other.h"

#define DEVICE "pipetest0"

const struct role roles[] = {{NULL, NULL}};

static void ends_are_as_programs_expect(void **state)
{
	int fds[2];

	assert_int_equal(vb_eventpipe_create(fds), 0);
	assert_int_equal(fcntl(fds[0], F_GETFL) & (O_NONBLOCK | O_ACCMODE), O_RDONLY);
	assert_true(fcntl(fds[1], F_GETFL) & O_NONBLOCK);
	assert_true(fcntl(fds[0], F_GETFD) & FD_CLOEXEC);
	assert_true(fcntl(fds[1], F_GETFD) & FD_CLOEXEC);
	/* The program makes its end non-blocking: ours stays as it is. */
	fcntl(fds[0], F_SETFL, O_NONBLOCK);
	assert_int_equal(write(fds[1], "x", 1), 1);
	close(fds[0]);
	/* The reader is gone: no SIGPIPE, which would end this program. */
	assert_int_equal(write(fds[1], "x", 1), 1);
	close(fds[1]);
}

static void ones_own_pipe(void **state)
{
	char record[PIPE_BUF + 1] = "record";
	struct vb_adapter *a;
	int fds[2];

	assert_int_equal(vb_adapter_open(DEVICE, &a), 0);
	assert_int_equal(vb_eventpipe_create(fds), 0);
	assert_int_equal(vb_peer_event_write(a->self, fds[1], record, 8), 0);
	assert_int_equal(read(fds[0], record, sizeof(record)), 8);
	assert_int_equal(vb_peer_event_write(a->self, fds[1], record, sizeof(record)), -EBADF);
	assert_int_equal(vb_peer_event_write(a->self, fds[1], record, 0), -EBADF);
	assert_int_equal(vb_peer_event_write(a->self, -1, record, 8), -EBADF);
	while (!vb_peer_event_write(a->self, fds[1], record, PIPE_BUF))
		;
	assert_int_equal(vb_peer_event_write(a->self, fds[1], record, 8), -EAGAIN);
	vb_peer_event_forget(a->self, fds[1]);
	close(fds[0]);
	close(fds[1]);
	assert_int_equal(vb_peer_event_write(a->self, fds[1], record, 8), -EBADF);
	vb_adapter_close(a);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ends_are_as_programs_expect),
		cmocka_unit_test(ones_own_pipe),
	};
	const char *runtime;
	int failed;

	other_main(argc, argv);
	runtime = private_runtime(argv);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(runtime);
	return failed;
}

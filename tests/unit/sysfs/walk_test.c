/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit/sysfs/fixture.h"

#include <errno.h>
#include <stdio.h>

#include "sysfs/walk.h"

static void only_paths_that_may_lead_here_are_followed(void **state)
{
	static const char *const yes[] = {
		"/sys/class/infiniband",
		"//sys/./class//infiniband/",
		"/sys/class",
		"/sys/class/",
		"/dev",
		"/dev/infiniband/uverbs0",
		"/sys/class/misc",
		"/sys/devices/virtual",
		"/sys/class/infiniband/../../devices",
	};
	static const char *const no[] = {
		"/",
		"/sys",
		"/sysx/infiniband",
		"/home/infiniband",
		"/dev/shm",
		"/sys/class/net",
		"/sys/devices/system/cpu",
		"/proc/infiniband",
		"relative/infiniband",
		"/dev/null",
	};

	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
		if (!vb_walk_concerns(yes[i]))
			fail_msg("%s goes by", yes[i]);
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
		if (vb_walk_concerns(no[i]))
			fail_msg("%s is followed", no[i]);
}

#define FAILS ((const char *)NULL)

static void paths_lead_where_the_kernel_would_go(void **state)
{
	static const struct {
		const char *path;
		bool last;
		const char *to; /* NULL: fails with err */
		int err;
	} cases[] = {
		{"/sys/class/infiniband", true, "/sys/class/infiniband", 0},
		{"//sys/./class//infiniband//", true, "/sys/class/infiniband", 0},
		{"/sys/class/infiniband/alpha", true, ALPHA "/infiniband/alpha", 0},
		{"/sys/class/infiniband/alpha", false, "/sys/class/infiniband/alpha", 0},
		{"/sys/class/infiniband/alpha/", false, ALPHA "/infiniband/alpha", 0},
		{"/sys/class/infiniband/alpha/ports/1/state", true, PORT "/state", 0},
		{"/sys/class/infiniband/alpha/device", true, ALPHA, 0},
		{"/sys/class/infiniband/alpha/..", true, ALPHA "/infiniband", 0},
		{"/sys/class/infiniband/../misc/rdma_cm/dev", true, "/sys/class/misc/rdma_cm/dev",
		 0},
		{"/sys/class/infiniband/alpha/subsystem/beta/fw_ver", true,
		 "/sys/devices/virtual/verbena/beta/infiniband/beta/fw_ver", 0},
		{ALPHA "/infiniband_verbs/uverbs0/device/infiniband/alpha/uevent", true,
		 ALPHA "/infiniband/alpha/uevent", 0},
		{"/dev/../sys/class/infiniband", true, "/sys/class/infiniband", 0},
		{"/dev/infiniband/../../..", true, "/", 0},
		{"/sys/class/infiniband/gamma", true, FAILS, -ENOENT},
		{"/sys/class/infiniband/gamma/x", true, FAILS, -ENOENT},
		{"/sys/class/infiniband/alpha/fw_ver/", true, FAILS, -ENOTDIR},
		{"/sys/class/infiniband/alpha/fw_ver/x", true, FAILS, -ENOTDIR},
		{"/sys/class/infiniband/alpha/fw_ver/..", true, FAILS, -ENOTDIR},
		{"/dev/infiniband/uverbs0/x", true, FAILS, -ENOTDIR},
		{"/sys/no/infiniband", true, FAILS, -ENOENT},
	};
	struct vb_walk walk;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int err = vb_walk_follow(cases[i].path, cases[i].last, &walk);

		if (err != cases[i].err || (cases[i].to && strcmp(walk.path, cases[i].to)))
			fail_msg("%s: %d, %s", cases[i].path, err, err ? "" : walk.path);
	}
}

static void machine_files_are_told_apart(void **state)
{
	struct vb_walk walk;

	assert_int_equal(vb_walk_follow("/sys/class", true, &walk), 0);
	assert_true(walk.ours);
	assert_int_equal(walk.node.kind, VB_TREE_MERGED);
	assert_int_equal(vb_walk_follow("/sys/class/infiniband/../net", true, &walk), 0);
	assert_false(walk.ours);
	assert_string_equal(walk.path, "/sys/class/net");
	assert_int_equal(vb_walk_follow("/dev/verbena-not-there", true, &walk), 0);
	assert_false(walk.ours);
	assert_false(walk.exists);
}

static void failures_say_whose_folder_it_was(void **state)
{
	struct vb_walk walk;

	assert_int_equal(vb_walk_follow("/sys/class/infiniband/new", true, &walk), -ENOENT);
	assert_true(walk.ours);
	assert_int_equal(vb_walk_follow("/sys/none/infiniband", true, &walk), -ENOENT);
	assert_false(walk.ours);
}

static void long_paths_are_refused(void **state)
{
	char path[2 * PATH_MAX];
	struct vb_walk walk;

	memset(path, 'x', sizeof(path));
	memcpy(path, "/sys/class/infiniband/", 22);
	path[sizeof(path) - 1] = 0;
	assert_false(vb_walk_concerns(path));
	assert_int_equal(vb_walk_follow(path, true, &walk), -ENAMETOOLONG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_paths_that_may_lead_here_are_followed),
		cmocka_unit_test(paths_lead_where_the_kernel_would_go),
		cmocka_unit_test(machine_files_are_told_apart),
		cmocka_unit_test(failures_say_whose_folder_it_was),
		cmocka_unit_test(long_paths_are_refused),
	};

	return cmocka_run_group_tests(tests, two_devices, NULL);
}

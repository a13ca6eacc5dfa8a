/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit/sysfs/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "sysfs/export.h"

static char dir[] = "/tmp/verbena-export.XXXXXX";

static int setup(void **state)
{
	return two_devices(state) || !mkdtemp(dir);
}

static int drop(const char *path, const struct stat *st, int type, struct FTW *at)
{
	return remove(path);
}

static int teardown(void **state)
{
	return nftw(dir, drop, 16, FTW_DEPTH | FTW_PHYS);
}

static const char *content(const char *name, char *text, size_t size)
{
	char path[PATH_MAX];
	int fd;
	ssize_t n;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	n = read(fd, text, size - 1);
	assert_true(n >= 0);
	text[n] = 0;
	close(fd);
	return text;
}

static void a_folder_shows_the_tree(void **state)
{
	char failed[PATH_MAX], text[256];

	assert_int_equal(vb_export_write(dir, failed, sizeof(failed)), 0);
	assert_string_equal(content("class/infiniband/alpha/ports/1/link_layer", text, 256),
			    "Ethernet\n");
	assert_string_equal(
		content("class/infiniband/beta/device/infiniband_verbs/uverbs1/ibdev", text, 256),
		"beta\n");
	assert_string_equal(content("class/infiniband_verbs/uverbs0/device/uevent", text, 256),
			    "DRIVER=verbena\n");
}

static void what_cannot_be_read_is_left_out(void **state)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/class/infiniband/alpha/ports/1/gid_attrs/types/7", dir);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(errno, ENOENT);
	snprintf(path, sizeof(path), "%s/class/infiniband/alpha/ports/1/gids/7", dir);
	assert_int_equal(access(path, F_OK), 0);
}

static void a_second_time_replaces_the_first(void **state)
{
	char failed[PATH_MAX];

	assert_int_equal(vb_export_write(dir, failed, sizeof(failed)), 0);
}

static void failure_names_the_path(void **state)
{
	char failed[PATH_MAX];

	assert_int_equal(vb_export_write("/proc/verbena-not-there", failed, sizeof(failed)),
			 -ENOENT);
	assert_string_equal(failed, "/proc/verbena-not-there");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_folder_shows_the_tree),
		cmocka_unit_test(what_cannot_be_read_is_left_out),
		cmocka_unit_test(a_second_time_replaces_the_first),
		cmocka_unit_test(failure_names_the_path),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/runtime.h"

#include <sched.h>
#include <sys/prctl.h>

#include "unit/host/other.h"

struct found {
	int err[VB_RUNTIME_CANDIDATES];
	char path[VB_RUNTIME_CANDIDATES][128];
};

/* What each candidate says; nothing is made. */
static int role_look(void)
{
	struct found found;

	memset(&found, 0, sizeof(found));
	for (int n = 0; n < VB_RUNTIME_CANDIDATES; n++) {
		int fd = vb_runtime_open(n, 0, found.path[n], sizeof(found.path[n]));

		found.err[n] = fd < 0 ? fd : 0;
		if (fd >= 0)
			close(fd);
	}
	say(&found, sizeof(found));
	return 0;
}

static bool write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return done;
}

/* Root of a user namespace of its own. */
static int role_mapped(void)
{
	struct found nothing = {.err = {-ENOSYS}};

	if ((!geteuid() && (setgid(65534) || setuid(65534))) || prctl(PR_SET_DUMPABLE, 1) ||
	    unshare(CLONE_NEWUSER) || !write_text("/proc/self/uid_map", "0 65534 1")) {
		say(&nothing, sizeof(nothing));
		return 0;
	}
	return geteuid() ? 1 : role_look();
}

const struct role roles[] = {
	{"look", role_look},
	{"mapped", role_mapped},
	{NULL, NULL},
};

static struct found look(const char *role, const char *const *env)
{
	struct other other = other_start(role, env);
	struct found found;

	assert_true(other_hear(&other, &found, sizeof(found)));
	assert_int_equal(other_end(&other, 0), 0);
	return found;
}

static void candidates_in_their_order(void **state)
{
	char dir[] = "/tmp/verbena-dir-XXXXXX", one[64], two[64], expected[80];
	const char *env[] = {one, two, NULL};
	struct found found;

	assert_non_null(mkdtemp(dir));
	snprintf(one, sizeof(one), "VERBENA_RUNTIME_DIR=%s", dir);
	snprintf(two, sizeof(two), "XDG_RUNTIME_DIR=%s", dir);
	found = look("look", env);
	assert_int_equal(found.err[0], 0);
	assert_string_equal(found.path[0], dir);
	snprintf(expected, sizeof(expected), "%s/verbena", dir);
	assert_string_equal(found.path[1], expected);
	assert_int_equal(found.err[1], -ENOENT); /* not made */
	snprintf(expected, sizeof(expected), "/dev/shm/verbena-%u", (unsigned int)geteuid());
	assert_string_equal(found.path[3], expected);
	snprintf(expected, sizeof(expected), "/tmp/verbena-%u", (unsigned int)geteuid());
	assert_string_equal(found.path[4], expected);
	rmdir(dir);
}

static void what_is_no_directory_of_ours(void **state)
{
	static const char *const relative[] = {"VERBENA_RUNTIME_DIR=tmp", "XDG_RUNTIME_DIR=tmp",
					       NULL};
	static const char *const systems[] = {"VERBENA_RUNTIME_DIR=/tmp",
					      "XDG_RUNTIME_DIR=/nowhere", NULL};
	struct found found = look("look", relative);

	assert_int_equal(found.err[0], -ENOENT);
	assert_int_equal(found.err[1], -ENOENT);
	found = look("look", systems);
	assert_int_equal(found.err[0], -EPERM); /* everybody can write to it */
	assert_int_equal(found.err[1], -ENOENT);
}

static void a_directory_is_made_for_us_alone(void **state)
{
	const char *set = getenv("VERBENA_RUNTIME_DIR");
	char path[256];
	struct stat st;
	int fd;

	rmdir(set);
	fd = vb_runtime_open(0, 0, path, sizeof(path));
	assert_int_equal(fd, -ENOENT);
	fd = vb_runtime_open(0, 1, path, sizeof(path));
	assert_true(fd >= 0);
	assert_string_equal(path, set);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	close(fd);
	assert_int_equal(vb_runtime_open(VB_RUNTIME_CANDIDATES, 1, path, sizeof(path)), -ENOENT);
	assert_int_equal(vb_runtime_open(0, 1, path, 3), -ENAMETOOLONG);
}

/* It must not take /dev/shm/verbena-0 from root. */
static void root_of_a_namespace_is_not_root(void **state)
{
	struct found found = look("mapped", NULL);

	if (found.err[0] == -ENOSYS)
		skip();
	assert_string_equal(found.path[3], "/dev/shm/verbena-65534");
	assert_string_equal(found.path[4], "/tmp/verbena-65534");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(candidates_in_their_order),
		cmocka_unit_test(what_is_no_directory_of_ours),
		cmocka_unit_test(a_directory_is_made_for_us_alone),
		cmocka_unit_test(root_of_a_namespace_is_not_root),
	};
	const char *runtime;
	int failed;

	other_main(argc, argv);
	runtime = private_runtime(argv);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(runtime);
	return failed;
}

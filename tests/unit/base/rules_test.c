/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rules.h"

/* The highest completion status rdma-core 44 knows, IBV_WC_TM_RNDV_INCOMPLETE. */
#define STATUS_MAX 23

static char folder[] = "/tmp/rules_test.XXXXXX";
static char said_file[64];

/* The whole of the file explanations go to, "" where there is none. */
static const char *said(void)
{
	static char text[65536];
	size_t len = 0;
	FILE *file = fopen(said_file, "re");

	if (file) {
		len = fread(text, 1, sizeof(text) - 1, file);
		fclose(file);
	}
	text[len] = '\0';
	return text;
}

static int count(const char *text, const char *what)
{
	int found = 0;

	for (text = strstr(text, what); text; text = strstr(text + 1, what))
		found++;
	return found;
}

/* Runs body in a child whose VERBENA_EXPLAIN is value (NULL: unset): whether to explain
 * is decided once per process. What the child printed on stderr lands in the file err. */
static int in_child(const char *value, const char *err, int (*body)(void))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		int fd = open(err, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

		if (fd < 0 || dup2(fd, STDERR_FILENO) < 0)
			_exit(99);
		if (value)
			setenv("VERBENA_EXPLAIN", value, 1);
		else
			unsetenv("VERBENA_EXPLAIN");
		_exit(body());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void every_row_is_complete(void **state)
{
	for (int i = 0; i < VB_RULE_COUNT; i++) {
		const struct vb_rule_row *row = vb_rule_get((enum vb_rule)i);
		size_t len;

		assert_non_null(row->symbol);
		print_message("%s\n", row->symbol);
		assert_true(row->name && *row->name);
		assert_true(row->verb && *row->verb);
		assert_true(row->code && *row->code);
		assert_true(row->source && *row->source);
		assert_true(row->advice && *row->advice);
		len = strlen(row->sentence);
		assert_true(len > 10 && row->sentence[len - 1] == '.');
		assert_int_equal(strspn(row->name, "abcdefghijklmnopqrstuvwxyz0123456789-"),
				 strlen(row->name));
	}
}

static void names_are_unique_and_found(void **state)
{
	for (int i = 0; i < VB_RULE_COUNT; i++) {
		const struct vb_rule_row *row = vb_rule_get((enum vb_rule)i);

		/* The first of a pair of equal names would be found for the second. */
		assert_ptr_equal(vb_rule_find(row->name), row);
	}
	assert_null(vb_rule_find("no-such-rule"));
	assert_null(vb_rule_find(""));
}

static void codes_say_what_the_numbers_are(void **state)
{
	for (int i = 0; i < VB_RULE_COUNT; i++) {
		const struct vb_rule_row *row = vb_rule_get((enum vb_rule)i);

		print_message("%s\n", row->symbol);
		assert_true(!row->error || !row->status);
		assert_true(row->error >= 0);
		if (row->error) {
			const char *name = strerrorname_np(row->error);

			/* One number with two names on Linux. */
			if (row->error == ENOTSUP)
				name = "EOPNOTSUPP";
			assert_string_equal(row->code, name);
		}
		assert_in_range(row->status, 0, STATUS_MAX);
	}
}

static void fail_gives_the_errno_of_the_row(void **state)
{
	errno = 0;
	assert_int_equal(vb_fail(VB_RULE_BUSY, "pd#%d has mr#%d", 1, 2), EBUSY);
	assert_int_equal(errno, EBUSY);
	assert_null(vb_fail_null(VB_RULE_NO_MEMORY, "a queue of %d", 7));
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(vb_fail_minus1(VB_RULE_OLD_ABI, "no object"), -1);
	assert_int_equal(errno, ENOSYS);
}

static void explains_to_the_file_named(void **state)
{
	struct stat st;

	unlink(said_file);
	assert_true(vb_explain_on());
	vb_fail(VB_RULE_BUSY, "pd#%d has mr#%d", 10, 20);
	assert_int_equal(count(said(), "[busy]"), 1);
	assert_int_equal(count(said(), "pd#10 has mr#20"), 1);
	assert_int_equal(count(said(), "EBUSY"), 1);
	assert_int_equal(count(said(), vb_rule_get(VB_RULE_BUSY)->sentence), 1);
	assert_int_equal(count(said(), vb_rule_get(VB_RULE_BUSY)->source), 1);
	assert_int_equal(count(said(), vb_rule_get(VB_RULE_BUSY)->advice), 1);
	assert_int_equal(stat(said_file, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
}

static void once_per_cause(void **state)
{
	unlink(said_file);
	for (int i = 0; i < 100; i++)
		vb_fail(VB_RULE_COMP_MASK, "bit %d", i / 50);
	assert_int_equal(count(said(), "[comp-mask]"), 2);
	assert_int_equal(count(said(), "bit 0\n"), 1);
	assert_int_equal(count(said(), "bit 1\n"), 1);
	/* The same values under another rule are another cause. */
	vb_explain(VB_RULE_NOT_SUPPORTED, "bit %d", 0);
	assert_int_equal(count(said(), "[not-supported]"), 1);
}

static void explain_keeps_errno(void **state)
{
	errno = EXDEV;
	vb_explain(VB_RULE_BUSY, "a note");
	assert_int_equal(errno, EXDEV);
	assert_int_equal(count(said(), "a note"), 1);
}

static void long_details_are_cut_not_overrun(void **state)
{
	char text[4000];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	unlink(said_file);
	vb_explain(VB_RULE_BUSY, "%s", text);
	assert_int_equal(count(said(), "[busy]"), 1);
	assert_true(strlen(said()) < 2048);
}

static int fail_some(void)
{
	for (int i = 0; i < 3000; i++)
		vb_fail(VB_RULE_BUSY, "object %d", i);
	return vb_explain_on();
}

static void silent_unless_asked(void **state)
{
	static const char *const off[] = {NULL, "", "0"};
	char err[80];
	struct stat st;

	unlink(said_file);
	snprintf(err, sizeof(err), "%s/err", folder);
	for (size_t i = 0; i < sizeof(off) / sizeof(*off); i++) {
		assert_int_equal(in_child(off[i], err, fail_some), 0);
		assert_int_equal(stat(err, &st), 0);
		assert_int_equal(st.st_size, 0);
	}
	assert_string_equal(said(), "");
}

static void output_of_a_loop_is_bounded(void **state)
{
	char err[80];
	struct stat st;

	snprintf(err, sizeof(err), "%s/err", folder);
	assert_int_equal(in_child("1", err, fail_some), 1);
	assert_int_equal(stat(err, &st), 0);
	assert_in_range(st.st_size, 1000, 1024 * 1024);
}

/* A place where nobody can write must not show in what the program sees. */
static int fail_without_a_place(void)
{
	return vb_fail(VB_RULE_BUSY, "object") == EBUSY && errno == EBUSY ? 0 : 1;
}

static void a_bad_place_harms_nobody(void **state)
{
	char err[80];
	struct stat st;

	snprintf(err, sizeof(err), "%s/err", folder);
	assert_int_equal(in_child("/nonexistent/x", err, fail_without_a_place), 0);
	assert_int_equal(stat(err, &st), 0);
	assert_int_equal(st.st_size, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* Children first: they must decide anew whether to explain. */
		cmocka_unit_test(silent_unless_asked),
		cmocka_unit_test(output_of_a_loop_is_bounded),
		cmocka_unit_test(a_bad_place_harms_nobody),
		cmocka_unit_test(every_row_is_complete),
		cmocka_unit_test(names_are_unique_and_found),
		cmocka_unit_test(codes_say_what_the_numbers_are),
		cmocka_unit_test(fail_gives_the_errno_of_the_row),
		cmocka_unit_test(explains_to_the_file_named),
		cmocka_unit_test(once_per_cause),
		cmocka_unit_test(explain_keeps_errno),
		cmocka_unit_test(long_details_are_cut_not_overrun),
	};
	char command[96];
	int failed;

	if (!mkdtemp(folder))
		return 1;
	snprintf(said_file, sizeof(said_file), "%s/said", folder);
	setenv("VERBENA_EXPLAIN", said_file, 1);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command) || failed;
}

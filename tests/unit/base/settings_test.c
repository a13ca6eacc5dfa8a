/* SPDX-License-Identifier: BSD-2-Clause */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/settings.h"

static char folder[] = "/tmp/verbena-settings-XXXXXX";
static char ini[64], profile[64];

static void write_bytes(const char *path, const void *bytes, size_t size)
{
	FILE *file = fopen(path, "we");

	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, size, file), size);
	fclose(file);
}

static void write_text(const char *path, const char *text)
{
	write_bytes(path, text, strlen(text));
}

static int clear(void **state)
{
	const struct vb_setting_row *row;
	char name[128];

	for (size_t i = 0; (row = vb_setting_row(i)); i++) {
		snprintf(name, sizeof(name), "VERBENA_%s", row->name);
		unsetenv(name);
	}
	unsetenv("VERBENA_NO_SUCH");
	unlink(ini);
	rmdir(ini);
	unlink(profile);
	vb_settings_reload();
	return 0;
}

struct found {
	int count;
	struct vb_setting_problem last;
};

static bool note(const struct vb_setting_problem *problem, void *arg)
{
	struct found *found = arg;

	found->count++;
	found->last = *problem;
	return true;
}

static struct found problems(void)
{
	struct found found = {0};

	vb_settings_problems(note, &found);
	return found;
}

static void test_rows(void **state)
{
	const struct vb_setting_row *row;
	size_t n = 0;

	for (; (row = vb_setting_row(n)); n++) {
		assert_true(row->name[0] && row->allowed[0] && row->meaning[0]);
		if (row->fallback[0])
			assert_true(vb_setting_valid(row, row->fallback));
		assert_null(vb_setting(row->name));
		assert_string_equal(vb_setting_text(NULL, row->name), row->fallback);
		assert_int_equal(vb_setting_origin(NULL, row->name), VB_FROM_DEFAULT);
		for (size_t i = 0; i < n; i++)
			assert_string_not_equal(vb_setting_row(i)->name, row->name);
	}
	assert_true(n > 20);
	assert_int_equal(problems().count, 0);
}

static void test_order(void **state)
{
	write_text(profile, "max_qp = 11\nmax_cq = 12\nmax_sge = 13\nmax_pd = 14\n");
	write_text(ini, "max_cq = 22\nmax_sge = 23\n[verbena]\nMAX-PD = 24\n[dev7]\nmax_pd = 34\n");
	setenv("VERBENA_PROFILE", profile, 1);
	setenv("VERBENA_CONFIG", ini, 1);
	setenv("VERBENA_MAX_SGE", "3", 1);
	setenv("VERBENA_MAX_PD", "4", 1);
	vb_settings_reload();
	assert_int_equal(vb_setting_number(NULL, "MAX_QP"), 11);
	assert_int_equal(vb_setting_number(NULL, "MAX_CQ"), 22);
	assert_int_equal(vb_setting_number(NULL, "MAX_SGE"), 3);
	assert_int_equal(vb_setting_number(NULL, "MAX_PD"), 4);
	assert_int_equal(vb_setting_number("dev7", "MAX_PD"), 34);
	assert_int_equal(vb_setting_number("dev8", "MAX_PD"), 4);
	assert_int_equal(vb_setting_number("dev7", "MAX_CQ"), 22);
	assert_int_equal(vb_setting_origin(NULL, "MAX_QP"), VB_FROM_PROFILE);
	assert_int_equal(vb_setting_origin(NULL, "MAX_CQ"), VB_FROM_FILE);
	assert_int_equal(vb_setting_origin(NULL, "MAX_SGE"), VB_FROM_ENVIRONMENT);
	assert_int_equal(vb_setting_origin("dev7", "MAX_PD"), VB_FROM_FILE);
	assert_string_equal(vb_setting_section(0), "dev7");
	assert_null(vb_setting_section(1));
	assert_int_equal(problems().count, 0);
}

static void test_profile_from_file(void **state)
{
	char text[128];

	write_text(profile, "vendor_id = 0x123\n");
	snprintf(text, sizeof(text), "profile = %s\n", profile);
	write_text(ini, text);
	setenv("VERBENA_CONFIG", ini, 1);
	vb_settings_reload();
	assert_int_equal(vb_setting_number(NULL, "VENDOR_ID"), 0x123);
}

static void test_profile_by_name(void **state)
{
	setenv("VERBENA_PROFILE", "connectx5", 1);
	vb_settings_reload();
	assert_int_equal(problems().count, 0);
	assert_string_equal(vb_setting("DEVICES"), "mlx5_0");
	assert_int_equal(vb_setting_number(NULL, "VENDOR_ID"), 0x2c9);
	assert_int_equal(vb_setting_number(NULL, "VENDOR_PART_ID"), 4121);
	assert_string_equal(vb_setting_text(NULL, "FW_VER"), "16.28.0578");
	assert_int_equal(vb_setting_choice(NULL, "GID_ORDER"), 1);
	setenv("VERBENA_PROFILE", "../connectx5", 1);
	vb_settings_reload();
	assert_null(vb_setting("DEVICES"));
	assert_string_equal(problems().last.what, "cannot be read");
}

static void test_text_stays(void **state)
{
	const char *text;

	setenv("VERBENA_FW_VER", "first", 1);
	vb_settings_reload();
	text = vb_setting("FW_VER");
	setenv("VERBENA_FW_VER", "another value, and a longer one", 1);
	assert_string_equal(text, "first");
	assert_ptr_equal(vb_setting("FW_VER"), text);
}

static void test_bad_values(void **state)
{
	static const struct {
		const char *name, *value;
	} bad[] = {
		{"MAX_QP", ""},
		{"MAX_QP", "0"},
		{"MAX_QP", "-1"},
		{"MAX_QP", "12 "},
		{"MAX_QP", " 12"},
		{"MAX_QP", "12k"},
		{"MAX_QP", "0x"},
		{"MAX_QP", "99999999999999999999999"},
		{"MAX_QP", "4294967297"},
		{"VENDOR_ID", "0x1000000"},
		{"GID_ORDER", "RXE"},
		{"GID_ORDER", ""},
		{"GID_ORDER", "rxe|mlx5"},
		{"GID_ORDER", "mlx"},
		{"NODE_GUID", "0"},
		{"NODE_GUID", "0211:22ff:fe33:445"},
		{"NODE_GUID", "0211:22ff:fe33:44556"},
		{"NODE_GUID", "0211:22ff"},
		{"NODE_GUID", "0211-22ff-fe33-4455"},
		{"NODE_GUID", "::::"},
		{"NETDEV", "a_name_that_is_too_long"},
		{"NETDEV", ""},
		{"FW_VER", "bell\a"},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char name[64];
		struct found found;

		clear(NULL);
		snprintf(name, sizeof(name), "VERBENA_%s", bad[i].name);
		setenv(name, bad[i].value, 1);
		vb_settings_reload();
		found = problems();
		assert_int_equal(found.count, 1);
		assert_string_equal(found.last.name, bad[i].name);
		assert_string_equal(found.last.value, bad[i].value);
		assert_string_equal(found.last.what, "not allowed");
		assert_string_equal(found.last.where, "environment");
		for (size_t r = 0; vb_setting_row(r); r++)
			if (!strcmp(vb_setting_row(r)->name, bad[i].name))
				assert_string_equal(vb_setting_text(NULL, bad[i].name),
						    vb_setting_row(r)->fallback);
	}
}

static void test_guid(void **state)
{
	unsigned long long guid = 1;

	assert_false(vb_setting_guid(NULL, "NODE_GUID", &guid));
	assert_int_equal(guid, 1);
	setenv("VERBENA_NODE_GUID", "0211:22ff:FE33:4455", 1);
	setenv("VERBENA_SYS_IMAGE_GUID", "0xfedcba9876543210", 1);
	vb_settings_reload();
	assert_true(vb_setting_guid(NULL, "NODE_GUID", &guid));
	assert_true(guid == 0x021122fffe334455ull);
	assert_true(vb_setting_guid(NULL, "SYS_IMAGE_GUID", &guid));
	assert_true(guid == 0xfedcba9876543210ull);
}

static void test_unknown_names(void **state)
{
	setenv("VERBENA_NO_SUCH", "1", 1);
	vb_settings_reload();
	assert_int_equal(problems().count, 1);
	assert_string_equal(problems().last.what, "unknown setting");
	unsetenv("VERBENA_NO_SUCH");
	write_text(ini, "no_such = 1\nmax_qp = 5\n");
	setenv("VERBENA_CONFIG", ini, 1);
	vb_settings_reload();
	assert_int_equal(problems().count, 1);
	assert_string_equal(problems().last.where, ini);
	assert_int_equal(vb_setting_number(NULL, "MAX_QP"), 5);
}

static void test_u64(void **state)
{
	setenv("VERBENA_MAX_QP", "0x10", 1);
	vb_settings_reload();
	assert_int_equal(vb_setting_u64("MAX_QP", 1, 16, 7), 16);
	assert_int_equal(vb_setting_u64("MAX_QP", 1, 15, 7), 7);
	assert_int_equal(vb_setting_u64("MAX_QP", 17, 99, 7), 7);
	assert_int_equal(vb_setting_u64("MAX_CQ", 1, 99, 7), 7);
}

static void expect_unreadable(const char *path)
{
	setenv("VERBENA_CONFIG", path, 1);
	vb_settings_reload();
	assert_int_equal(problems().count, 1);
	assert_string_equal(problems().last.what, "cannot be read");
	assert_string_equal(problems().last.value, path);
	assert_string_equal(vb_setting_text(NULL, "MAX_QP"), "65536");
}

/* None of them may keep the program waiting. */
static void test_files_that_are_none(void **state)
{
	expect_unreadable("/nonexistent/file");
	expect_unreadable("/dev/zero");
	expect_unreadable(folder);
	assert_int_equal(mkfifo(ini, 0600), 0);
	expect_unreadable(ini);
}

static void test_broken_lines(void **state)
{
	struct found found;

	write_text(ini, "max_qp = 5\nthis is nothing\n[open\n= 3\nmax_cq = 6\n");
	setenv("VERBENA_CONFIG", ini, 1);
	vb_settings_reload();
	assert_int_equal(vb_setting_number(NULL, "MAX_QP"), 5);
	assert_int_equal(vb_setting_number(NULL, "MAX_CQ"), 6);
	found = problems();
	assert_true(found.count >= 1);
}

/* Whatever a file or the environment holds: an answer, and a valid one. */
static void test_garbage(void **state)
{
	static char bytes[100000];
	static char value[9000];

	srand(99);
	setenv("VERBENA_CONFIG", ini, 1);
	for (int round = 0; round < 300; round++) {
		size_t size = (size_t)(rand() % (int)sizeof(bytes));
		const char *alphabet = "abmaxqp_=[];#:\n\n \t\"\\0x9";

		for (size_t i = 0; i < size; i++)
			bytes[i] = round % 2 ? (char)rand() : alphabet[rand() % 23];
		write_bytes(ini, bytes, size);
		for (size_t i = 0; i < sizeof(value) - 1; i++)
			value[i] = (char)(1 + rand() % 255);
		value[rand() % (int)sizeof(value)] = '\0';
		for (size_t i = 2; vb_setting_row(i); i++) {
			char name[64];

			snprintf(name, sizeof(name), "VERBENA_%s", vb_setting_row(i)->name);
			setenv(name, value, 1);
		}
		vb_settings_reload();
		for (size_t i = 2; vb_setting_row(i); i++) {
			const struct vb_setting_row *row = vb_setting_row(i);
			const char *text = vb_setting_text(NULL, row->name);

			assert_true(text == row->fallback || vb_setting_valid(row, text));
			vb_setting_text("verbena0", row->name);
		}
		problems();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_rows, clear),
		cmocka_unit_test_setup(test_order, clear),
		cmocka_unit_test_setup(test_profile_from_file, clear),
		cmocka_unit_test_setup(test_profile_by_name, clear),
		cmocka_unit_test_setup(test_text_stays, clear),
		cmocka_unit_test_setup(test_bad_values, clear),
		cmocka_unit_test_setup(test_guid, clear),
		cmocka_unit_test_setup(test_unknown_names, clear),
		cmocka_unit_test_setup(test_u64, clear),
		cmocka_unit_test_setup(test_files_that_are_none, clear),
		cmocka_unit_test_setup(test_broken_lines, clear),
		cmocka_unit_test_setup(test_garbage, clear),
	};
	int failed;

	if (!mkdtemp(folder))
		return 1;
	snprintf(ini, sizeof(ini), "%s/test.ini", folder);
	snprintf(profile, sizeof(profile), "%s/profile.ini", folder);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	clear(NULL);
	rmdir(folder);
	return failed;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "rdmacm/rsocket/conf.h"

static char dir[] = "/tmp/verbena-rsocket-XXXXXX";

static void put(const char *name, const char *text)
{
	char path[100];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	unlink(path);
	if (!text)
		return;
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void without_files(void **state)
{
	struct vb_rs_conf conf;

	vb_rs_conf_read("/nonexistent/rsocket", &conf);
	assert_int_equal(conf.rbuf_bytes, 131072);
	assert_int_equal(conf.sbuf_bytes, 131072);
	assert_int_equal(conf.sq_size, 384);
	assert_int_equal(conf.rq_size, 384);
	assert_int_equal(conf.inline_bytes, 64);
	assert_int_equal(conf.iomap_entries, 0);
	assert_int_equal(conf.polling_us, 10);
}

static void with_files(void **state)
{
	struct vb_rs_conf conf;

	put("mem_default", "1000001\n");
	put("wmem_default", "1\n");
	put("sqsize_default", "100000");
	put("rqsize_default", "3");
	put("inline_default", "0\n");
	put("iomap_size", "600\n");
	put("polling_time", "0\n");
	vb_rs_conf_read(dir, &conf);
	assert_int_equal(conf.rbuf_bytes, 1000000);
	assert_int_equal(conf.sbuf_bytes, VB_RS_BUFFER_MIN);
	assert_int_equal(conf.sq_size, 0xfffe);
	assert_int_equal(conf.rq_size, 16);
	assert_int_equal(conf.inline_bytes, 0);
	assert_int_equal(conf.iomap_entries, 512);
	assert_int_equal(conf.polling_us, 0);

	put("mem_default", "99999999999999\n");
	put("wmem_default", "-1\n");
	put("sqsize_default", "many\n");
	put("rqsize_default", "");
	vb_rs_conf_read(dir, &conf);
	assert_int_equal(conf.rbuf_bytes, VB_RS_BUFFER_MAX);
	assert_int_equal(conf.sbuf_bytes, 131072);
	assert_int_equal(conf.sq_size, 384);
	assert_int_equal(conf.rq_size, 384);
}

static int setup(void **state)
{
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	static const char *const names[] = {"mem_default",    "wmem_default",	"sqsize_default",
					    "rqsize_default", "inline_default", "iomap_size",
					    "polling_time"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		put(names[i], NULL);
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_files),
		cmocka_unit_test(with_files),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}

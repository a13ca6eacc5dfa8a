/* SPDX-License-Identifier: BSD-2-Clause */
#include "lib/capture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

FILE *capture_file(const char *name)
{
	const char *source = getenv("VB_SOURCE");
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s/tests/wire/captures/%s", source ? source : ".", name);
	file = fopen(path, "re");
	if (!file)
		fail_msg("cannot open %s", path);
	return file;
}

static uint32_t host32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, 4);
	return v;
}

void capture_load(const char *name, struct capture *cap)
{
	FILE *file = capture_file(name);
	size_t size, at = 24;

	cap->bytes = malloc(1 << 20);
	cap->count = 0;
	assert_non_null(cap->bytes);
	size = fread(cap->bytes, 1, 1 << 20, file);
	fclose(file);
	assert_true(size > 24);
	/* Written little-endian. */
	assert_memory_equal(cap->bytes, "\xd4\xc3\xb2\xa1", 4);
	while (at + 16 <= size) {
		uint32_t len = host32(cap->bytes + at + 8);

		assert_int_equal(len, host32(cap->bytes + at + 12));
		assert_true(at + 16 + len <= size && len > 14 && cap->count < CAPTURE_FRAMES);
		cap->frame[cap->count].ip = cap->bytes + at + 16 + 14;
		cap->frame[cap->count++].len = len - 14;
		at += 16 + len;
	}
	assert_int_equal(at, size);
}

void capture_free(struct capture *cap)
{
	free(cap->bytes);
	cap->bytes = NULL;
}

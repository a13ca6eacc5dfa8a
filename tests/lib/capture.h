/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_TESTS_CAPTURE_H
#define VB_TESTS_CAPTURE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CAPTURE_FRAMES 512

/* The frames of one capture file. */
struct capture {
	uint8_t *bytes;
	size_t count;
	struct {
		const uint8_t *ip;
		size_t len;
	} frame[CAPTURE_FRAMES];
};

/** capture_file() - Open a file of tests/wire/captures; the test fails where there is none */
FILE *capture_file(const char *name);

/** capture_load() - Read a capture of Ethernet frames
 * @cap:    Filled; capture_free() ends it
 */
void capture_load(const char *name, struct capture *cap);

void capture_free(struct capture *cap);

#endif

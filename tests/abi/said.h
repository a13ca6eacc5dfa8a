/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_TESTS_ABI_SAID_H
#define VB_TESTS_ABI_SAID_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * What the libraries under test explain, through the file that VERBENA_EXPLAIN names. To
 * be started before the first refusal of the process: the setting is read once.
 */
static char said_path[] = "/tmp/verbena-said-XXXXXX";

static inline int said_start(void)
{
	int fd = mkstemp(said_path);

	if (fd < 0)
		return -1;
	close(fd);
	return setenv("VERBENA_EXPLAIN", said_path, 1);
}

/* Whether some explanation has that text, for instance "[old-abi]". */
static inline int said(const char *text)
{
	static char all[1 << 18];
	FILE *file = fopen(said_path, "r");
	size_t length;

	if (!file)
		return 0;
	length = fread(all, 1, sizeof(all) - 1, file);
	fclose(file);
	all[length] = 0;
	return strstr(all, text) != NULL;
}

static inline int said_end(void)
{
	return unlink(said_path);
}

#endif

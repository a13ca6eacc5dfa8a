/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_BENCH_MEASURE_H
#define VB_BENCH_MEASURE_H

#include <stdint.h>
#include <stdio.h>
#include <time.h>

/* One figure a line: name, size in bytes, value, unit. */
static inline void report(const char *name, size_t size, double value, const char *unit)
{
	printf("%s\t%zu\t%.6g\t%s\n", name, size, value, unit);
	fflush(stdout);
}

static inline double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Rounds of a size so that each figure moves about this many bytes. */
static inline long rounds_for(size_t size)
{
	size_t rounds = ((size_t)512 << 20) / (size ? size : 1);

	return rounds > 200000 ? 200000 : rounds < 20 ? 20 : (long)rounds;
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/timers.h"

/* In units of 10 us, as every entry is a multiple of it. */
static const uint32_t rnr_10us[32] = {
	65536, 1,    2,	   3,	 4,    6,     8,     12,    16,	   24,	  32,
	48,    64,   96,   128,	 192,  256,   384,   512,   768,   1024,  1536,
	2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
};

uint64_t vb_timer_ack_ns(uint8_t code)
{
	code &= 31;
	return code ? UINT64_C(4096) << code : VB_NEVER;
}

uint64_t vb_timer_rnr_ns(uint8_t code)
{
	return rnr_10us[code & 31] * UINT64_C(10000);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_BASE_TOUCH_H
#define VB_BASE_TOUCH_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/** vb_touch() - Have the pages of memory there before they are needed
 * @bytes: From @memory on, which is the caller's alone and keeps what it holds
 *
 * A page that is written to for the first time takes the kernel longer than a short message takes:
 * what a process does with its first message is not to wait for a dozen of them.
 */
static inline void vb_touch(void *memory, size_t bytes)
{
	_Atomic uint8_t *at = memory;

	for (size_t i = 0; i < bytes; i += 4096)
		atomic_fetch_or(&at[i], 0);
	if (bytes)
		atomic_fetch_or(&at[bytes - 1], 0);
}

#endif

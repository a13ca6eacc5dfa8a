/* SPDX-License-Identifier: BSD-2-Clause */
#include <stddef.h>

#include <infiniband/verbs.h>

#include "verbs/newer.h"

/*
 * User memory is read and written by the CPU in its own process, so the copy-on-write
 * of fork harms nothing: there is no support to switch on and no range to protect.
 */

int ibv_fork_init(void)
{
	return 0;
}

enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}

/* Declared in rdma-core's own headers only; in the binary interface all the same. */
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);

int ibv_dontfork_range(void *base, size_t size)
{
	return 0;
}

int ibv_dofork_range(void *base, size_t size)
{
	return 0;
}

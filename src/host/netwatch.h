/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_HOST_NETWATCH_H
#define VB_HOST_NETWATCH_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Changes of links and addresses, as the kernel announces them to a routing socket. What
 * has changed is not taken from the announcements, of which some may be lost, but asked of
 * the interface afterwards (host/netdev.h).
 */

/** vb_netwatch_open() - A descriptor that is readable after a change
 * Context: watches the network namespace of the calling thread
 * Return:  the descriptor, close-on-exec and non-blocking; or negative errno
 */
int vb_netwatch_open(void);

/** vb_netwatch_changed() - Read the announcements there are
 * @ifindex: An interface, 0 none
 * @name:    Its name: one made anew has another index
 * Return:   whether one was about the interface, or some were lost
 */
bool vb_netwatch_changed(int fd, uint32_t ifindex, const char *name);

#endif

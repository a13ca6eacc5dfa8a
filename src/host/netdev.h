/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_HOST_NETDEV_H
#define VB_HOST_NETDEV_H

#include <stddef.h>
#include <stdint.h>

#include "object/gid.h"

/*
 * Network interfaces, asked of the kernel by rtnetlink, in the network namespace
 * of the calling thread. Nothing is kept between calls: no descriptor that a fork
 * would share or a program could close, and every answer is the present.
 */

/** vb_netdev_read() - One interface with its addresses
 * @ifindex: Index of the interface, not 0
 * @link:    Receives it; zeroed first
 * Addresses that cannot be used yet (duplicate detection under way or failed) are
 * left out.
 * Context:  any thread; does not wait for anything but the kernel's answer
 * Return:   0, -ENODEV where there is no such interface, else the negative errno of the
 *           system call that failed
 */
int vb_netdev_read(uint32_t ifindex, struct vb_link *link);

/** vb_netdev_find() - Index of an interface by name
 * Return:   the index, 0 where there is none
 */
uint32_t vb_netdev_find(const char *name);

/** vb_netdev_default() - The interface a device should use by default
 * The one with the default route (IPv4 before IPv6, lowest metric); else the lowest
 * index that is up, not loopback and has an IPv4 or global IPv6 address; else the
 * loopback interface.
 * @ifindex: Receives it
 * Return:   0 or negative errno
 */
int vb_netdev_default(uint32_t *ifindex);

/** vb_netdev_fallback() - What loopback looks like where the kernel cannot be asked
 * @link:    Receives an interface "lo" that is up and has 127.0.0.1 and ::1
 */
void vb_netdev_fallback(struct vb_link *link);

#endif

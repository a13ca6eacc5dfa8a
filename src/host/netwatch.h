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
 * @routes: Of routes and their rules too
 * Context: watches the network namespace of the calling thread
 * Return:  the descriptor, close-on-exec and non-blocking; or negative errno
 */
int vb_netwatch_open(bool routes);

/** vb_netwatch_changed() - Read the announcements there are
 * @ifindex: An interface, 0 none
 * @name:    Its name: one made anew has another index
 * Return:   whether one was about the interface, or some were lost
 */
bool vb_netwatch_changed(int fd, uint32_t ifindex, const char *name);

/**
 * struct vb_netnews - Whether what was read of the interfaces and routes still holds
 * @users:  Who keeps it up
 * @guard:  Of the process that opened it (base/forkguard.h)
 * @fd:     A routing socket, -1 none
 * @cookie: Of that socket: programs close descriptors that are not theirs, and use them anew
 * @tick:   Of the kernel's clock, when that was looked at
 *
 * For questions that come by the thousand and whose answer costs the kernel ten times as much as
 * to say that nothing has changed. The caller locks.
 */
struct vb_netnews {
	unsigned users;
	int fd;
	const uint8_t *guard;
	uint64_t cookie;
	uint64_t tick;
};

/** vb_netnews_begin() - Listen, for one user more
 * Context: watches the network namespace of the thread that calls first
 */
void vb_netnews_begin(struct vb_netnews *news);

/** vb_netnews_end() - One user less; with the last the socket goes */
void vb_netnews_end(struct vb_netnews *news);

/** vb_netnews_none() - Whether certainly nothing was announced since the last call
 * Return:  false too where nobody listens, in a child made by fork, where the socket was closed
 *          by others (found at the latest when the kernel's clock has ticked), or where
 *          announcements were lost
 */
bool vb_netnews_none(struct vb_netnews *news);

#endif

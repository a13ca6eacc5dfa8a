/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_HOST_SEATS_H
#define VB_HOST_SEATS_H

#include <stdbool.h>
#include <stdint.h>

#include "host/registry.h"

/*
 * Theory of operation
 *
 * The kernel numbers the sockets that share port 4791 in the order in which they were bound; when
 * one is closed the last one takes its number. It tells nobody. So the processes of an adapter keep
 * account of it here: a seat is such a number, and says whose socket has it. Both protocols'
 * sockets are bound and closed together and have the same numbers.
 *
 * All of it happens under a record lock (a byte of the registry's lock file behind the slots),
 * which the kernel takes from the dead, and which is not waited for long. An account that went
 * wrong (two died at once, sockets of others in between) costs time, not correctness: what reaches
 * the wrong process is handed over. Who notices declares it void, and it stays that until all have
 * left.
 */

#define VB_SEAT_ROWS 256u

/* The socket that a block's packets are for. */
struct vb_seat_row {
	uint32_t block, seat;
};

/** vb_seats_lock() - Begin to look at or change them
 * @patient: Try for some milliseconds
 * Context: one thread of the process at a time
 * Return:  false where somebody else is at it, or there is no registry
 */
bool vb_seats_lock(struct vb_registry *reg, bool patient);
void vb_seats_unlock(struct vb_registry *reg);

/* The rest under the lock. */

/** vb_seats_sweep() - Take out those of the dead */
void vb_seats_sweep(struct vb_registry *reg);

/** vb_seats_take() - Our sockets have just been bound
 * @families: Which protocols' sockets; others' must be the same
 * Return:  false: the account is void, or there are too many
 */
bool vb_seats_take(struct vb_registry *reg, uint32_t families);

/** vb_seats_leave() - Our sockets are about to be closed */
void vb_seats_leave(struct vb_registry *reg);

/** vb_seats_void() - The account is wrong */
void vb_seats_void(struct vb_registry *reg);

/** vb_seats_rows() - Which seat each block belongs to
 * Return:  how many rows; 0 where the account is void
 */
uint32_t vb_seats_rows(struct vb_registry *reg, struct vb_seat_row rows[VB_SEAT_ROWS]);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_CARRIER_HANDED_H
#define VB_CARRIER_HANDED_H

#include <stddef.h>
#include <sys/uio.h>

#include "carrier/udp.h"

/*
 * What processes of one network namespace hand to each other: several packets in one message, each
 * after what its receiver would have heard of it from a socket. Any process of the
 * namespace may send such a message, so it counts as one of the network, and no more than
 * a packet's own headers could say is taken from it.
 */

/** vb_handed_pack() - Add a packet to a message
 * @d:      Used in place, as are its bytes, until the message is sent
 * @iov:    Room for two spans
 * Return:  the bytes that it takes
 */
size_t vb_handed_pack(struct vb_udp_datagram *d, struct iovec iov[2]);

/** vb_handed_size() - The bytes that a packet takes in a message */
size_t vb_handed_size(const struct vb_udp_datagram *d);

/** vb_handed_unpack() - Take a message apart
 * @bytes:  Anything
 * @to:     Receives packets whose bytes lie in @bytes
 * @max:    Room there; further ones are lost
 * Return:  how many; what is cut short ends it
 */
uint32_t vb_handed_unpack(const uint8_t *bytes, size_t size, struct vb_udp_datagram *to,
			  uint32_t max);

#endif

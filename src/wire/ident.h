/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_WIRE_IDENT_H
#define VB_WIRE_IDENT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Theory of operation
 *
 * The IPv4 identification that a packet's ICRC covers is solved for where it is not known
 * (vb_icrc_ip_id()), and then one damaged packet in 65 536 passes. Our own peers write
 * the place of a packet in its buffer, so of a peer that does, others need not be believed.
 *
 * Small numbers alone do not tell such a peer: who counts its packets (Linux Soft-RoCE, adapters)
 * comes past them, all in a row, each time that its counter is through. But it writes 0 once, where
 * the first packet of every buffer is number 0. And since no guess about somebody else may
 * end a connection, a peer whose packets are refused one after the other is never held to it
 * again: damage leaves some of them whole.
 */

struct vb_ident {
	uint8_t firsts;	 /* of buffers, in a row but for the packets between them */
	uint8_t refused; /* packets in a row */
};

/** vb_ident_take() - Whether the packet of a connected peer is to be believed
 * @id:     Identification that its ICRC covers; IPv6: 0
 * @places: Packets that a buffer of ours has at most
 */
bool vb_ident_take(struct vb_ident *i, uint16_t id, uint32_t places);

#endif

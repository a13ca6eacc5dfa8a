/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_CARRIER_STEER_H
#define VB_CARRIER_STEER_H

#include "host/seats.h"

/*
 * Which of the sockets that share port 4791 gets a packet, the kernel asks a program of classic
 * BPF: by the block of the destination QP number here. It knows no rules for what it does not find
 * (the kernel then chooses by the addresses, as without it), and sees of packets that came as one
 * buffer (UDP_GRO) the first only.
 */

/** vb_steer_attach() - Give the sockets that share the port of one a program
 * @fd:     One of them; bound
 * Return:  0, or a negative errno
 */
int vb_steer_attach(int fd, const struct vb_seat_row *rows, uint32_t n);

/** vb_steer_detach() - Take it away again; 0, or a negative errno */
int vb_steer_detach(int fd);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_HOST_CMPORTS_H
#define VB_HOST_CMPORTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

/*
 * Theory of operation
 *
 * The ports of connection management: numbers that the processes of a network namespace, of all
 * users, share, apart from those of TCP and UDP. A port that somebody may connect to is an
 * abstract Unix datagram socket with a name made of device, port space, number and address. Binding
 * it claims the port; requests that another process received are sent to it; and the kernel
 * releases it when its process ends, however that is.
 *
 * Ports that the library chooses, one for every outgoing connection, would be too many
 * sockets. They are claimed in blocks of VB_CMPORT_BLOCK, one socket each.
 */

#define VB_CMPORT_BLOCK 64u

/* Where a port is bound. */
struct vb_cmport {
	uint16_t space; /* the lower bits of enum rdma_port_space */
	uint16_t port;
	bool any; /* every address: of IPv4, or of IPv6 and, unless only6, IPv4 too */
	bool v6, only6;
	uint8_t addr[16]; /* as a GID, where not any */
};

/** vb_cmport_claim() - Bind a port
 * @device: Device name
 * @fd:     Receives the non-blocking socket that stands for it; closing it gives the port back
 * Return:  0, -EADDRINUSE, or the negative errno of the system call that failed
 */
int vb_cmport_claim(const char *device, const struct vb_cmport *port, int *fd);

/** vb_cmport_claim_block() - Claim ports that may be chosen
 * @first:  Where to begin to look, any number
 * @base:   Receives the lowest port of the block
 * @fd:     Receives the socket that stands for it
 * Return:  0, -EADDRINUSE (all are taken), or the negative errno of a system call
 */
int vb_cmport_claim_block(const char *device, uint16_t space, uint32_t first, uint16_t *base,
			  int *fd);

/** vb_cmport_block_address() - The name of the socket that stands for the block of a port */
socklen_t vb_cmport_block_address(const char *device, uint16_t space, uint16_t port,
				  struct sockaddr_un *address);

/** vb_cmport_address() - The name of the socket that stands for a port
 * Return: the length for bind() or sendto()
 */
socklen_t vb_cmport_address(const char *device, const struct vb_cmport *port,
			    struct sockaddr_un *address);

/** vb_cmport_elsewhere() - Who has a port at a device of another name
 *
 * Devices of several names may stand for one interface (VERBENA_DEVICES), and who asks cannot tell.
 *
 * @device: Where it is not
 * @port:   At one address
 * @address: Receives the name of the socket that stands for it
 * Return:  the length for sendto(), 0: nobody that can be seen
 * Context: reads the kernel's list of all such sockets
 */
socklen_t vb_cmport_elsewhere(const char *device, const struct vb_cmport *port,
			      struct sockaddr_un *address);

/** vb_cmport_conflict() - Whether two claims of one number exclude each other */
bool vb_cmport_conflict(const struct vb_cmport *a, const struct vb_cmport *b);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_HOST_MEMBERS_H
#define VB_HOST_MEMBERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "host/adapter.h"
#include "host/peer.h"

/*
 * Theory of operation
 *
 * Who is in which multicast group. The groups of a process stand in its published part (struct
 * vb_pub_group): whoever can map that reads them anew with every message. Which processes there
 * are to ask is a directory of abstract sockets: a process that takes part, as member or as sender,
 * binds one by the name of its first block of numbers, and the kernel lists the names of all
 * users of the network namespace in /proc/net/unix.
 *
 * Nobody reads that list without need. Who comes binds its name first, then reads the list and
 * leaves a byte in every socket it finds; who sends empties its own socket first, and reads the
 * list when it found a byte, or never did before. Either the one who comes finds the sender's name
 * and leaves a byte, or the sender's first reading finds the name of the one who came. A queue that
 * is full has a byte in it. So what is sent after ibv_attach_mcast() returned, in whichever
 * process, reaches the QP. Who went is noticed by what is sent to it.
 */

/* This process's part. */
struct vb_members {
	struct vb_adapter *adapter;
	pthread_mutex_t lock;	   /* the groups of this process; for the caller to hold */
	struct vb_pub_group *rows; /* ours; NULL before the first one */

	pthread_mutex_t list_lock; /* the rest */
	bool entered;
	int fd;	      /* the socket, -1: others cannot tell us that they came */
	bool current; /* the list was read, and nobody came since as far as we know */
	uint64_t processes[VB_BLOCKS / 64]; /* bit: first block of a process that takes part */
};

void vb_members_init(struct vb_members *m, struct vb_adapter *a);

/** vb_members_fini() - The process takes part no more */
void vb_members_fini(struct vb_members *m);

/** vb_members_forked() - In the child: the socket is the parent's */
void vb_members_forked(struct vb_members *m);

/** vb_members_enter() - Take part
 * Context: a block of numbers is ours. The first call does it
 * Return:  0; -EMFILE, -ENFILE: the others could not be told, and the next call tries again
 */
int vb_members_enter(struct vb_members *m);

/** vb_members_processes() - The processes to ask, our own always among them
 * @set:    Receives bits: first blocks
 * Context: after vb_members_enter(); a system call, and where somebody came reads the list. While
 * that cannot be read (no descriptor) those that were known before, and the next call tries again
 */
void vb_members_processes(struct vb_members *m, uint64_t set[VB_BLOCKS / 64]);

/** vb_members_gone() - A process of the set is no more */
void vb_members_gone(struct vb_members *m, uint32_t block);

/** vb_members_add() - Attach a QP to a group
 * Context: m->lock is held
 * Return:  1 it is the first of this process, 0 it is another one, -EALREADY it was attached,
 *          -ENOSPC all groups are in use, -EMLINK the group is full, -ENOMEM
 */
int vb_members_add(struct vb_members *m, const uint8_t gid[16], uint32_t qpn);

/** vb_members_remove() - Detach it
 * Context: m->lock is held
 * Return:  1 it was the last one of this process, 0 it was not, -ENOENT it is not attached
 */
int vb_members_remove(struct vb_members *m, const uint8_t gid[16], uint32_t qpn);

/** vb_members_group() - One of our groups
 * @i:      Below VB_MCAST_GROUPS
 * Context: m->lock is held
 * Return:  false where there is none
 */
bool vb_members_group(const struct vb_members *m, uint32_t i, uint8_t gid[16]);

/** vb_members_of() - The QPs of a process that are attached to a group
 * @qpns:   Receives their numbers
 * Context: any thread; no lock
 * Return:  how many
 */
uint32_t vb_members_of(struct vb_peer *p, const uint8_t gid[16], uint32_t qpns[VB_MCAST_QPS]);

/** vb_members_address() - The abstract socket by which a process takes part; as
 * vb_block_address()
 */
socklen_t vb_members_address(const char *device, uint32_t block, struct sockaddr_un *address);

/** vb_members_line() - Whether a line of /proc/net/unix names such a socket
 * @line:   NUL-terminated, without line break
 * Return:  the block, 0: not one
 */
uint32_t vb_members_line(const char *line, const char *device);

#endif

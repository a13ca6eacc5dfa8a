/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_HOST_REGISTRY_H
#define VB_HOST_REGISTRY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "host/layout.h"

/*
 * Theory of operation
 *
 * The registry says which processes of this user have the adapter open and which
 * process owns which block of numbers. It is two files in the runtime directory,
 * named by boot, network namespace, device and layout:
 *
 *   NAME.slots  mapped by everyone: a slot per process, the table of blocks, counters
 *   NAME.lock   a POSIX record lock on byte N says that slot N is a living process
 *
 * Two files, because closing any descriptor of a file drops the process's record
 * locks on it: whoever only reads (tools, the sysfs view in the same process)
 * opens NAME.slots and leaves NAME.lock alone.
 *
 * Nobody waits for anybody. A process takes the first byte it can lock and then looks whether
 * the name still leads to the file it locked; the last one out locks all bytes
 * before it removes the names. A slot's counters are never reset, so their sum
 * over all slots is what the adapter has done since it came to life.
 */
#define VB_COUNTERS 64u

struct vb_registry_slot {
	_Atomic uint64_t turn; /* odd while the slot is being written */
	uint8_t id[16];
	int32_t pid;		/* a hint; the id decides */
	int32_t pub_fd, mbx_fd; /* descriptor numbers in that process */
	uint32_t uid;
	uint64_t pad[3];
	_Atomic uint64_t counters[VB_COUNTERS];
};

/* See host/seats.h; changed under a record lock. */
#define VB_SEATS 64u

struct vb_registry_seats {
	_Atomic uint32_t n;
	_Atomic uint32_t is_void;
	_Atomic uint32_t families; /* bit 0 IPv4, bit 1 IPv6 */
	uint32_t pad;
	_Atomic uint64_t seat[VB_SEATS]; /* part of the id << 32 | slot + 1 */
};

struct vb_registry_file {
	_Atomic uint64_t magic;
	uint64_t pad[7];
	_Atomic uint64_t block[VB_BLOCKS]; /* ordinal << 32 | slot + 1, 0 never claimed */
	struct vb_registry_slot slot[VB_SLOTS];
	struct vb_registry_seats seats;
};

/* What a slot says, copied. */
struct vb_registry_entry {
	uint8_t id[16];
	pid_t pid;
	int pub_fd, mbx_fd;
};

struct vb_registry {
	struct vb_registry_file *file;
	int lock_fd;		  /* never duplicated, opened once per process and device */
	uint32_t slot;		  /* ours */
	char dir[256];		  /* the runtime directory */
	char name[160];		  /* of the files, without the ending */
	bool own_dir;		  /* the directory is made and removed by us */
	bool left;		  /* slot given up, files perhaps removed */
	struct vb_registry *next; /* of this process, see registry.c */
};

/** vb_registry_open() - Enter the registry: take a slot
 * @device: Device name
 * Context: one per process and device; may block on files
 * Return:  0 or a negative errno; then no runtime directory was usable, or all
 *          slots are taken (-ENOSPC)
 */
int vb_registry_open(struct vb_registry *reg, const char *device);

/** vb_registry_close() - Leave; the last process out removes the files */
void vb_registry_close(struct vb_registry *reg);

/** vb_registry_exit() - The process ends without vb_registry_close(): leave the files in order
 * Context: once; other threads may still look at the registry, nothing is closed or unmapped
 */
void vb_registry_exit(struct vb_registry *reg);

/** vb_registry_forget() - After fork, in the child: close and unmap, touch nothing else */
void vb_registry_forget(struct vb_registry *reg);

/** vb_registry_drop_inherited() - In a child that no fork handler ran in: none is ours */
void vb_registry_drop_inherited(void);

/** vb_registry_publish() - Write our slot */
void vb_registry_publish(struct vb_registry *reg, const struct vb_registry_entry *entry);

/** vb_registry_read() - Read a slot
 * Return: 0, -ENOENT (never used), -EAGAIN (being written)
 */
int vb_registry_read(const struct vb_registry *reg, uint32_t slot, struct vb_registry_entry *entry);

/** vb_registry_locked() - Is a slot's process alive?
 * @pid: Receives the holder where the kernel can name it, else 0
 * Context: any thread; one system call. Our own slot: always
 */
bool vb_registry_locked(const struct vb_registry *reg, uint32_t slot, pid_t *pid);

/** vb_registry_block() - Who owns a block?
 * Return: 0, -ENOENT. The answer may be stale: the owner's published part decides
 */
int vb_registry_block(const struct vb_registry *reg, uint32_t block, uint32_t *slot,
		      uint32_t *ordinal);

/** vb_registry_set_block() - Say that a block is ours */
void vb_registry_set_block(struct vb_registry *reg, uint32_t block, uint32_t ordinal);

/** vb_registry_sum_counters() - Add up the counters of all processes of an adapter
 * @device: Device name
 * @sum:    Receives the sums
 * Context: any thread of any process, with or without the adapter open
 * Return:  0, -ENOENT (no process of ours has the adapter open)
 */
int vb_registry_sum_counters(const char *device, uint64_t sum[VB_COUNTERS]);

/** vb_block_address() - The abstract socket that stands for a block
 *
 * Of whatever device: all devices of a network namespace share port 4791, and a packet says no more
 * than the number of its QP.
 *
 * @block:   1 .. VB_BLOCKS - 2
 * @address: Receives the address; scoped to the network namespace
 * Return:   length of the address
 */
socklen_t vb_block_address(uint32_t block, struct sockaddr_un *address);

/** vb_block_of_address() - The block in a name that begins with vb_block_address() and a slash
 * @len:    Of the address, as the kernel tells it
 * Return:  the block, or 0 where the name does not begin so. Anybody may take a name
 */
uint32_t vb_block_of_address(const struct sockaddr_un *address, socklen_t len);

/** vb_block_taken() - Whether a process of this network namespace has a block, whoever's it is
 * Context: any thread; three system calls
 */
bool vb_block_taken(uint32_t block);

#endif

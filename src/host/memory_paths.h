/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_HOST_MEMORY_PATHS_H
#define VB_HOST_MEMORY_PATHS_H

#include "host/memory.h"

/* The steps of the ladder, used by memory.c and atomic.c only. */

/* How often a copy is tried that fails for want of memory at one of its ends. */
#define VB_FAULT_TRIES 8

/* How the memory behind a key is reached for one operation. */
struct vb_path {
	enum vb_mem_step step; /* OWN or MAPPED where @base is set */
	uint8_t *base;	       /* of the byte that is @addr in the peer; NULL: cross copy */
	uint64_t addr;
	struct vb_memory_map *map; /* held, or NULL */
};

/** vb_path_open() - Choose the step
 * @write: The memory will be written
 * Return: 0, -ESRCH, -EPERM. vb_path_close() may be called in each case
 */
int vb_path_open(struct vb_peer *p, const struct vb_key_facts *key, bool write,
		 struct vb_path *path);

/** vb_path_close() - The operation is over */
void vb_path_close(struct vb_peer *p, struct vb_path *path);

/** vb_cross_copy() - Copy between here and the peer by system call
 * @in: Towards the peer
 * Return: 0, -EFAULT (local), -EREMOTEIO (remote), -ESRCH, -EPERM
 */
int vb_cross_copy(struct vb_peer *p, uint64_t addr, const struct iovec *iov, int n, size_t bytes,
		  bool in);

/** vb_cross_step() - Which of the two system calls is used */
enum vb_mem_step vb_cross_step(const struct vb_peer *p);

/** vb_careful_copy() - As memcpy, where either side may not be there
 * @here:   Memory of this process
 * @iov:    Memory of this process
 * @in:     Towards @here
 * Return:  0, -EFAULT (the spans), -EREMOTEIO (@here)
 */
int vb_careful_copy(void *here, const struct iovec *iov, int n, size_t bytes, bool in);

/** vb_memory_readable() - Can a byte of this process's memory be read? */
bool vb_memory_readable(const void *addr);

/** vb_memory_still() - Does the key still hold, and the caller's condition? */
bool vb_memory_still(const struct vb_key_facts *key);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_HOST_REGMEM_H
#define VB_HOST_REGMEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a range of memory is backed by. */
struct vb_backing {
	bool shared;	/* all of it is one MAP_SHARED mapping of a file */
	bool mappable;	/* peers may map the file: shared memory sealed against shrinking */
	int fd;		/* a descriptor of the file in this process, -1 none found */
	char path[256]; /* its name where it has one that leads to it, else "" */
	uint64_t dev, ino;
	uint64_t offset; /* of the first byte of the range in the file */
	bool huge;	 /* hugetlbfs */
};

/** vb_regmem_check() - Can this range be registered? Populates it as pinning would
 * @addr:  First byte, any alignment
 * @len:   Bytes
 * @write: The range must be writable too
 * Context: any thread; takes the time that faulting the pages in takes
 * Return:  0, -EFAULT (not mapped, not readable or writable, or not memory), -EINVAL
 *          (the range wraps around), -ENOMEM
 */
int vb_regmem_check(void *addr, size_t len, bool write);

/** vb_regmem_huge() - Is a range made of huge pages, from its first byte to its last?
 * Context: any thread; false too where the kernel cannot be asked
 */
bool vb_regmem_huge(const void *addr, size_t len);

/** vb_regmem_backing() - What is a range backed by?
 * @out: Receives the answer; all false for ordinary memory
 * Context: any thread; three system calls for ordinary memory on new kernels, on old ones
 *          the list of mappings is read
 * Return:  0, -EFAULT (not mapped), or what open says
 */
int vb_regmem_backing(const void *addr, size_t len, struct vb_backing *out);

#endif

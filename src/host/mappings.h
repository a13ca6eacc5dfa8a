/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_HOST_MAPPINGS_H
#define VB_HOST_MAPPINGS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/*
 * The mappings of this process, asked one at a time (PROCMAP_QUERY, Linux 6.11) or read
 * from /proc/self/maps. Used by regmem.c.
 */

struct vb_mapping {
	uint64_t start, end;
	uint64_t offset; /* of start in the file */
	uint64_t dev, ino;
	bool read, write, shared;
	char name[256];
};

struct vb_mappings {
	int fd;
	FILE *text; /* where the kernel does not answer queries */
	struct vb_mapping last;
};

/** vb_mappings_open() - Begin to ask
 * Return: 0, -EMFILE, -ENOENT (no /proc) ...
 */
int vb_mappings_open(struct vb_mappings *list);

/** vb_mappings_find() - The mapping an address is in; addresses must not go down
 * Return: 0, -EFAULT (none)
 */
int vb_mappings_find(struct vb_mappings *list, uint64_t addr, struct vb_mapping *map);

/** vb_mappings_close() - End */
void vb_mappings_close(struct vb_mappings *list);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_OBJECT_KEYS_H
#define VB_OBJECT_KEYS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include <infiniband/verbs.h>

/*
 * Theory of operation
 *
 * The process's own keys, for the local side of every operation: the private twin
 * of what is published for peers. A key is number << 8 | tag: the number names the row
 * (see vb_keys_set), the tag's top bit is set in rkeys and clear in lkeys, so that
 * one sent in place of the other is refused and recognised; the other seven count up
 * each time the row is used, so that a stale key stays wrong.
 *
 * Readers take no lock. Whoever uses a row does so inside a grace section
 * (base/grace.h); removing a key waits for the sections that may have seen it.
 */

#define VB_KEYS_CHUNK 256u
#define VB_KEYS_MAX   131072u
#define VB_RKEY_TAG   0x80u

/* In vb_local_key.access and in published rows: the region has no memory; reads give
 * zeroes and writes vanish. Its elements resolve to VB_NULL_BASE, which is no address
 * that any byte can have. */
#define VB_KEY_NULL  (1u << 31)
#define VB_NULL_BASE ((void *)UINTPTR_MAX)

struct vb_local_key {
	_Atomic uint32_t lkey; /* 0: the row names nothing */
	uint32_t pd;	       /* number of the PD */
	uint32_t access;       /* IBV_ACCESS_* */
	uint64_t start;	       /* address that SGEs use for the first byte */
	uint64_t length;       /* bytes */
	uint64_t addr;	       /* virtual address of the first byte */
};

struct vb_keys {
	struct vb_local_key *_Atomic chunk[VB_KEYS_MAX / VB_KEYS_CHUNK];
	/* Ordinal + 1 of the blocks that are this process's, by block; 0 foreign. */
	_Atomic uint8_t ordinal[4096];
	/* How many keys are of on-demand regions: behind those there may be no memory. */
	_Atomic uint32_t on_demand;
};

/** vb_keys_set() - Put a key in
 * @number: Adapter-wide number, block << 12 | low
 * @index:  The row: ordinal of the block << 12 | low
 * @key:    lkey and facts
 * Return:  0, -ENOMEM
 */
int vb_keys_set(struct vb_keys *keys, uint32_t number, uint32_t index,
		const struct vb_local_key *key);

/** vb_keys_clear() - Make a key name nothing; wait for the grace period afterwards */
void vb_keys_clear(struct vb_keys *keys, uint32_t index);

/** vb_keys_free() - Free the rows when nobody uses them any more */
void vb_keys_free(struct vb_keys *keys);

/** vb_keys_lookup() - The row of an lkey
 * Context: inside a grace section, for as long as the row is used
 * Return:  the row, or NULL
 */
const struct vb_local_key *vb_keys_lookup(const struct vb_keys *keys, uint32_t lkey);

/** vb_keys_lookup_other_tag() - Is there a key with this number, whatever its tag?
 * Context: as vb_keys_lookup()
 */
bool vb_keys_lookup_other_tag(const struct vb_keys *keys, uint32_t key);

/** vb_keys_careful() - Does a list name on-demand regions?
 * Their pages may be missing, also from now on while the request runs, so such memory is
 * read and written by way of system calls only (host/memory.h).
 * Context: as vb_keys_lookup(); one load where the process has no such region
 */
bool vb_keys_careful(const struct vb_keys *keys, const struct ibv_sge *sges, int n);

enum vb_sge_fault {
	VB_SGE_OK,
	VB_SGE_KEY,   /* no such lkey */
	VB_SGE_RKEY,  /* it is an rkey */
	VB_SGE_PD,    /* of another PD */
	VB_SGE_RIGHT, /* LOCAL_WRITE is missing */
	VB_SGE_RANGE, /* outside the MR */
};

/** vb_keys_resolve() - Check a scatter/gather list and turn it into addresses
 * @pd:     Number of the QP's PD
 * @sges:   List of @n elements; those of length 0 are not looked at
 * @write:  The elements are written to: LOCAL_WRITE is needed
 * @iov:    Room for @n entries
 * @count:  Receives how many were filled
 * @bad:    Receives the index of the first faulty element; may be NULL
 * Context: as vb_keys_lookup()
 * Return:  VB_SGE_OK or what is wrong with element *@bad
 * Spec:    man ibv_post_send(3), man ibv_reg_mr(3)
 */
enum vb_sge_fault vb_keys_resolve(const struct vb_keys *keys, uint32_t pd,
				  const struct ibv_sge *sges, int n, int write, struct iovec *iov,
				  int *count, int *bad);

/** vb_sge_fault_text() - What is wrong, in words */
const char *vb_sge_fault_text(enum vb_sge_fault fault);

#endif

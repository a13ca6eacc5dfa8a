/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_TRANSPORT_PSN_H
#define VB_TRANSPORT_PSN_H

#include <stdbool.h>
#include <stdint.h>

#define VB_PSN_MASK 0xffffffu
/* Two sequence numbers can be ordered while they are less than this apart. */
#define VB_PSN_HALF 0x800000

/* A packet sequence number: 24 bits, counted modulo 2^24. A struct, so that one
 * cannot be mixed up with a count, compared with < or added without wrapping. */
struct vb_psn {
	uint32_t v; /* always below 2^24 */
};

/** vb_psn() - A sequence number from any integer; the upper 8 bits are dropped */
static inline struct vb_psn vb_psn(uint32_t value)
{
	return (struct vb_psn){value & VB_PSN_MASK};
}

/** vb_psn_add() - The number @packets after @psn; a negative count goes back */
static inline struct vb_psn vb_psn_add(struct vb_psn psn, int64_t packets)
{
	return vb_psn(psn.v + (uint32_t)packets);
}

/** vb_psn_diff() - How many packets @a is after @b
 * Return:  -2^23 .. 2^23-1; negative when @a is before @b
 */
static inline int32_t vb_psn_diff(struct vb_psn a, struct vb_psn b)
{
	uint32_t d = (a.v - b.v) & VB_PSN_MASK;

	return (int32_t)(d ^ VB_PSN_HALF) - VB_PSN_HALF;
}

static inline bool vb_psn_eq(struct vb_psn a, struct vb_psn b)
{
	return a.v == b.v;
}

/** vb_psn_before() - Whether @a comes before @b, both in one window of 2^23 */
static inline bool vb_psn_before(struct vb_psn a, struct vb_psn b)
{
	return vb_psn_diff(a, b) < 0;
}

/** vb_psn_count() - Sequence numbers a message of a length uses
 * @length: Bytes, for a READ the bytes asked for
 * @mtu:    Path MTU in bytes, not 0
 * Return:  packets of the message, at least 1
 */
static inline uint32_t vb_psn_count(uint64_t length, uint32_t mtu)
{
	return length ? (uint32_t)((length + mtu - 1) / mtu) : 1;
}

#endif

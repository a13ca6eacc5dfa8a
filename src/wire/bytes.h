/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_WIRE_BYTES_H
#define VB_WIRE_BYTES_H

#include <stdint.h>

/* Big-endian numbers at any address. */

static inline uint16_t vb_get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static inline uint32_t vb_get24(const uint8_t *p)
{
	return (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
}

static inline uint32_t vb_get32(const uint8_t *p)
{
	return (uint32_t)vb_get16(p) << 16 | vb_get16(p + 2);
}

static inline uint64_t vb_get64(const uint8_t *p)
{
	return (uint64_t)vb_get32(p) << 32 | vb_get32(p + 4);
}

static inline void vb_put16(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static inline void vb_put24(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 16);
	vb_put16(p + 1, (uint16_t)v);
}

static inline void vb_put32(uint8_t *p, uint32_t v)
{
	vb_put16(p, (uint16_t)(v >> 16));
	vb_put16(p + 2, (uint16_t)v);
}

static inline void vb_put64(uint8_t *p, uint64_t v)
{
	vb_put32(p, (uint32_t)(v >> 32));
	vb_put32(p + 4, (uint32_t)v);
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_VERBS_BUF_H
#define VB_VERBS_BUF_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct vb_pd;

/* What a program knows as struct ibv_buf: whole pages of ordinary memory. */
struct vb_buf {
	struct vb_pd *pd;
	uint8_t *addr;
	size_t length;	       /* bytes asked for */
	size_t map_bytes;      /* whole pages */
	_Atomic uint32_t refs; /* the program's, and one for each MR on it */
};

/** vb_buf_put() - Give up one use; the last one unmaps the memory */
void vb_buf_put(struct vb_buf *buf);

#endif

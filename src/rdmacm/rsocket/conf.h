/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_RDMACM_RSOCKET_CONF_H
#define VB_RDMACM_RSOCKET_CONF_H

#include <stdint.h>

/* Where administrators put one number a file, as for rdma-core. */
#define VB_RS_CONF_DIR "/etc/rdma/rsocket"

/* Bytes of a buffer: both halves of a receive buffer stay below what an immediate says. */
#define VB_RS_BUFFER_MIN 4096u
#define VB_RS_BUFFER_MAX (1u << 28)

struct vb_rs_conf {
	uint32_t rbuf_bytes;
	uint32_t sbuf_bytes;
	uint16_t sq_size;
	uint16_t rq_size;
	uint16_t inline_bytes;
	uint16_t iomap_entries;
	uint32_t polling_us; /* a call that must wait polls this long before it sleeps */
};

/** vb_rs_conf_read() - What a new rsocket starts with
 * @dir:    Folder with mem_default, wmem_default, sqsize_default, rqsize_default,
 *          inline_default, iomap_size, polling_time; a missing or unreadable file leaves
 *          the built-in value, a value out of range is brought into it
 * @conf:   Filled
 */
void vb_rs_conf_read(const char *dir, struct vb_rs_conf *conf);

/** vb_rs_buffer_bytes() - A size of a buffer as it is used: in range, even */
uint32_t vb_rs_buffer_bytes(uint64_t wanted);

/** vb_rs_queue_size() - A number of work requests as it is used */
uint16_t vb_rs_queue_size(uint64_t wanted);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_RDMACM_RSOCKET_REPOLL_H
#define VB_RDMACM_RSOCKET_REPOLL_H

struct vb_rs;

/** vb_repoll_destroy() - The last reference is gone (socket.c) */
void vb_repoll_destroy(struct vb_rs *rs);

/** vb_repoll_close() - rclose() of its descriptor */
void vb_repoll_close(struct vb_rs *rs);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_ENGINE_DATAGRAM_H
#define VB_ENGINE_DATAGRAM_H

#include "engine/requester.h"

#define VB_GRH_BYTES 40u

/** vb_datagram_grh() - The network header the receiver finds in front of the data
 * @length: Bytes of the data
 * @grh:    Receives VB_GRH_BYTES: IPv4 in the last 20 bytes, IPv6 in all 40
 */
void vb_datagram_grh(const struct vb_path *path, uint64_t length, uint8_t *grh);

/** vb_datagram_send() - Send one request of a UD QP
 * @msg:    Filled as it was sent, for the counters
 * @res:    Filled
 * Context: the send queue is running, inside a grace section
 * Return:  VB_WC_SUCCESS, whatever became of the datagram; or what is wrong with the request
 */
enum vb_wc_status vb_datagram_send(struct vb_engine *engine, struct vb_qp *qp, struct vb_swqe *wqe,
				   struct vb_msg *msg, struct vb_msg_result *res);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_ENGINE_REACH_H
#define VB_ENGINE_REACH_H

#include "object/ah.h"
#include "object/context.h"
#include "object/gid.h"

/** vb_reach() - How a destination is reached
 * @dgid:   Its GID
 * @type:   Of our own GID towards it
 * Return:  by memory to an address of this host, else by UDP, unless the setting CARRIER wants one
 *          way only
 */
enum vb_reach vb_reach(struct vb_device *device, const uint8_t *dgid, enum ibv_gid_type type);

/** vb_reach_group() - How the members of a multicast group that are on this host are reached */
enum vb_reach vb_reach_group(void);

/** vb_reach_process() - How the process of a QP is reached, where vb_reach() said by memory
 * @qpn:    The connected QP's number
 */
enum vb_reach vb_reach_process(struct vb_context *ctx, enum vb_reach reach, uint32_t qpn);

/** vb_reach_prepare() - Map a process now with which a connection begins
 * The program makes its QP meanwhile, and finds the process there when it connects it.
 * @block: Of the process's numbers
 */
void vb_reach_prepare(struct vb_engine *engine, uint32_t block);

/** vb_reach_by_udp() - May packets be sent at all? */
bool vb_reach_by_udp(void);

/** vb_reach_only_udp() - Within the host too? */
bool vb_reach_only_udp(void);

#endif

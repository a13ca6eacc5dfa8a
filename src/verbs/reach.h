/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_VERBS_REACH_H
#define VB_VERBS_REACH_H

#include "object/ah.h"
#include "object/context.h"
#include "object/gid.h"

/** vb_reach() - Where a destination is
 * @dgid:   Its GID
 * @type:   Of our own GID towards it
 * Return:  by memory to an address of this host, else by UDP, unless the setting CARRIER wants one
 *          way only
 */
enum vb_reach vb_reach(struct vb_context *ctx, const uint8_t *dgid, enum ibv_gid_type type);

/** vb_reach_by_udp() - May packets be sent at all? */
bool vb_reach_by_udp(void);

#endif

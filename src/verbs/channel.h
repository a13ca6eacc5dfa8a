/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_VERBS_CHANNEL_H
#define VB_VERBS_CHANNEL_H

#include "object/channel.h"

/** vb_channel_arm() - A CQ of it is about to be armed: from now on events are written to it
 * Context: any thread
 */
void vb_channel_arm(struct vb_channel *channel);

/** vb_channel_purge() - Remove the unread records of a CQ that goes away
 * Context: the CQ can raise no more events; those of others keep their order
 */
void vb_channel_purge(struct vb_channel *channel, uint32_t cq_index);

#endif

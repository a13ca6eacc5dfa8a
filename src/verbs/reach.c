/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/reach.h"

#include "base/settings.h"
#include "host/discover.h"
#include "object/device.h"

/* The words of the setting, in their order. */
enum { CARRIER_AUTO, CARRIER_LOCAL, CARRIER_UDP };

bool vb_reach_by_udp(void)
{
	return vb_setting_choice(NULL, "CARRIER") != CARRIER_LOCAL;
}

enum vb_reach vb_reach(struct vb_context *ctx, const uint8_t *dgid, enum ibv_gid_type type)
{
	bool packets = vb_reach_by_udp();

	if (packets && vb_setting_choice(NULL, "CARRIER") == CARRIER_UDP)
		return VB_REACH_WIRE;
	if (vb_device_gid_find(ctx->device, VB_PORT, dgid, type) >= 0)
		return VB_REACH_LOCAL;
	return packets ? VB_REACH_WIRE : VB_REACH_NONE;
}

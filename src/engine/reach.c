/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/reach.h"

#include <errno.h>

#include "base/settings.h"
#include "engine/engine.h"
#include "host/discover.h"
#include "host/peer.h"
#include "host/registry.h"
#include "object/device.h"

/* The words of the setting, in their order. */
enum { CARRIER_AUTO, CARRIER_LOCAL, CARRIER_UDP };

bool vb_reach_by_udp(void)
{
	return vb_setting_choice(NULL, "CARRIER") != CARRIER_LOCAL;
}

bool vb_reach_only_udp(void)
{
	return vb_setting_choice(NULL, "CARRIER") == CARRIER_UDP;
}

/* What is captured, or is to suffer, must be packets. */
static bool as_packets(void)
{
	return vb_setting("PCAP") || vb_setting("FAULTS");
}

enum vb_reach vb_reach(struct vb_device *device, const uint8_t *dgid, enum ibv_gid_type type)
{
	bool packets = vb_reach_by_udp();

	if (vb_reach_only_udp())
		return VB_REACH_WIRE;
	if (vb_device_gid_find(device, VB_PORT, dgid, type) >= 0)
		return as_packets() ? VB_REACH_INSIDE : VB_REACH_LOCAL;
	return packets ? VB_REACH_WIRE : VB_REACH_NONE;
}

enum vb_reach vb_reach_group(void)
{
	if (vb_reach_only_udp())
		return VB_REACH_WIRE;
	return as_packets() ? VB_REACH_INSIDE : VB_REACH_LOCAL;
}

void vb_reach_prepare(struct vb_engine *engine, uint32_t block)
{
	struct vb_peer *peer;

	if (!vb_reach_only_udp() && !as_packets() && !vb_peer_get(engine->adapter, block, &peer))
		vb_peer_put(peer);
}

/* Whether the process of a QP number lets us into its memory. Another user's does not, nor
 * one in another container that shares our network namespace; but they have sockets. */
enum vb_reach vb_reach_process(struct vb_context *ctx, enum vb_reach reach, uint32_t qpn)
{
	struct vb_adapter *adapter = ctx->engine->adapter;
	uint32_t block = qpn >> VB_BLOCK_BITS;
	struct vb_peer *peer;
	int err;

	if (reach != VB_REACH_LOCAL || !vb_reach_by_udp())
		return reach;
	err = vb_peer_get(adapter, block, &peer);
	if (!err)
		vb_peer_put(peer);
	/* It finds the same about us, or no message would arrive. */
	if (err != -ENOENT && err != -EACCES && err != -EPROTO)
		return reach;
	return vb_block_taken(block) ? VB_REACH_INSIDE : reach;
}

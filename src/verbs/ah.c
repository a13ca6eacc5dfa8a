/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include "host/discover.h"
#include "object/ah.h"
#include "object/device.h"
#include "object/pd.h"
#include "verbs/check.h"
#include "engine/reach.h"

static int resolve(struct vb_context *ctx, const struct ibv_ah_attr *attr, struct vb_path *path)
{
	const struct ibv_global_route *grh = &attr->grh;
	struct vb_gid_entry entry;

	if (attr->port_num != VB_PORT)
		return vb_fail(VB_RULE_CREATE_AH_PORT, "port_num=%u", attr->port_num);
	if (!attr->is_global)
		return vb_fail(VB_RULE_CREATE_AH_GRH, "is_global=0 dlid=%u", attr->dlid);
	if (vb_device_gid(ctx->device, attr->port_num, grh->sgid_index, &entry) || !entry.used)
		return vb_fail(VB_RULE_CREATE_AH_SGID, "sgid_index=%u of %u", grh->sgid_index,
			       ctx->device->gid_tbl_len);
	memcpy(path->own_gid, entry.raw, sizeof(path->own_gid));
	memcpy(path->dest_gid, grh->dgid.raw, sizeof(path->dest_gid));
	path->flow_label = grh->flow_label & 0xfffff;
	path->traffic_class = grh->traffic_class;
	path->hop_limit = grh->hop_limit;
	path->multicast = vb_gid_is_multicast(grh->dgid.raw);
	if (!path->multicast) {
		path->reach = vb_reach(ctx->device, grh->dgid.raw, entry.type);
		return 0;
	}
	path->reach = vb_reach_group();
	path->outside = vb_reach_by_udp() && ctx->device->ifindex && !ctx->device->loopback;
	if (path->outside && vb_gid_is_v4(entry.raw) != vb_gid_is_v4(grh->dgid.raw)) {
		path->outside = false;
		vb_explain(VB_RULE_MCAST_SOURCE, "sgid_index=%u is %s, the group is not",
			   grh->sgid_index, vb_gid_is_v4(entry.raw) ? "IPv4" : "IPv6");
	}
	return 0;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct vb_context *ctx = vb_context_of(pd->context);
	struct vb_path path = {0};
	struct vb_ah *ah;

	if (vb_check_object(ctx, &ctx->pds, pd->handle, pd, "PD") || resolve(ctx, attr, &path))
		return NULL;
	ah = calloc(1, sizeof(*ah));
	if (!ah)
		return vb_fail_null(VB_RULE_NO_MEMORY, "AH");
	ah->ibv.context = pd->context;
	ah->ibv.pd = pd;
	ah->path = path;
	if (vb_idtable_add(&ctx->ahs, ah, &ah->ibv.handle)) {
		free(ah);
		return vb_fail_null(VB_RULE_AH_LIMIT, "max_ah=%d",
				    ctx->device->attr.orig_attr.max_ah);
	}
	vb_pd_hold(vb_pd_of(pd), 1);
	return &ah->ibv;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
	struct vb_context *ctx = vb_context_of(ah->context);
	int err = vb_check_known(ctx, &ctx->ahs, ah->handle, ah, "AH");

	if (err)
		return err;
	if (vb_idtable_remove(&ctx->ahs, ah->handle) != ah)
		return vb_fail(VB_RULE_BAD_HANDLE, "AH handle %u", ah->handle);
	vb_pd_hold(vb_pd_of(ah->pd), -1);
	free(ah);
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* UD QPs in multicast groups. On Ethernet a group has no LID: the argument says nothing. */
#include "engine/mcast.h"

#include <arpa/inet.h>
#include <errno.h>

#include "base/rules.h"
#include "object/device.h"
#include "object/gid.h"
#include "verbs/check.h"

static int refuse(const struct vb_qp *qp, const union ibv_gid *gid, int err)
{
	const struct ibv_device_attr *attr =
		&vb_context_of(qp->ibv.context)->device->attr.orig_attr;
	char text[INET6_ADDRSTRLEN] = "";

	inet_ntop(AF_INET6, gid->raw, text, sizeof(text));
	switch (err) {
	case -ENOSPC:
		return vb_fail(VB_RULE_ATTACH_MCAST_GROUPS, "qp#0x%x %s: max_mcast_grp=%d",
			       qp->ibv.qp_num, text, attr->max_mcast_grp);
	case -EMLINK:
		return vb_fail(VB_RULE_ATTACH_MCAST_QPS, "qp#0x%x %s: max_mcast_qp_attach=%d",
			       qp->ibv.qp_num, text, attr->max_mcast_qp_attach);
	case -EMFILE:
	case -ENFILE:
		return vb_fail(VB_RULE_ATTACH_MCAST_DESCRIPTORS, "qp#0x%x %s", qp->ibv.qp_num,
			       text);
	case -ENOENT:
		return vb_fail(VB_RULE_DETACH_MCAST, "qp#0x%x %s", qp->ibv.qp_num, text);
	default:
		return vb_fail(VB_RULE_NO_MEMORY, "qp#0x%x %s", qp->ibv.qp_num, text);
	}
}

int ibv_attach_mcast(struct ibv_qp *ibv, const union ibv_gid *gid, uint16_t lid)
{
	struct vb_context *ctx = vb_context_of(ibv->context);
	struct vb_qp *qp = vb_qp_of(ibv);
	int err = vb_check_object(ctx, &ctx->qps, ibv->handle, qp, "QP");

	if (err)
		return err;
	if (ibv->qp_type != IBV_QPT_UD)
		return vb_fail(VB_RULE_ATTACH_MCAST_TYPE, "qp#0x%x: qp_type=%d", ibv->qp_num,
			       (int)ibv->qp_type);
	if (!vb_gid_is_multicast(gid->raw))
		return vb_fail(VB_RULE_ATTACH_MCAST_GID, "qp#0x%x: gid begins with %02x",
			       ibv->qp_num, gid->raw[0]);
	err = vb_mcast_attach(ctx->engine, qp, gid->raw);
	return err ? refuse(qp, gid, err) : 0;
}

int ibv_detach_mcast(struct ibv_qp *ibv, const union ibv_gid *gid, uint16_t lid)
{
	struct vb_context *ctx = vb_context_of(ibv->context);
	struct vb_qp *qp = vb_qp_of(ibv);
	int err = vb_check_known(ctx, &ctx->qps, ibv->handle, qp, "QP");

	if (err)
		return err;
	err = vb_mcast_detach(ctx->engine, qp, gid->raw);
	return err ? refuse(qp, gid, err) : 0;
}

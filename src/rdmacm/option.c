/* SPDX-License-Identifier: BSD-2-Clause */
/* Options of an id, and enhanced connection establishment. */
#include <string.h>

#include <infiniband/sa.h>

#include "rdmacm/cm.h"

#define TIMEOUT_MAX 31

static int want(size_t given, size_t size, const char *name)
{
	return given == size ? 0
			     : vb_fail_minus1(VB_RULE_CM_OPTION_LENGTH, "%s: optlen=%zu, want %zu",
					      name, given, size);
}

static int set_tos(struct cm_id *id, const void *value, size_t len)
{
	if (want(len, sizeof(uint8_t), "RDMA_OPTION_ID_TOS"))
		return -1;
	id->tos = *(const uint8_t *)value;
	id->path.traffic_class = id->tos;
	return 0;
}

static int set_flag(struct cm_id *id, bool *flag, const void *value, size_t len, const char *name)
{
	int on;

	if (want(len, sizeof(on), name))
		return -1;
	if (id->state != CM_IDLE)
		return vb_fail_minus1(VB_RULE_CM_STATE, "id %p: %s after binding", (void *)id,
				      name);
	memcpy(&on, value, sizeof(on));
	*flag = on != 0;
	return 0;
}

static int set_ack_timeout(struct cm_id *id, const void *value, size_t len)
{
	if (want(len, sizeof(uint8_t), "RDMA_OPTION_ID_ACK_TIMEOUT"))
		return -1;
	if (*(const uint8_t *)value > TIMEOUT_MAX)
		return vb_fail_minus1(VB_RULE_CM_ARGUMENT, "RDMA_OPTION_ID_ACK_TIMEOUT=%u",
				      *(const uint8_t *)value);
	id->ack_timeout = *(const uint8_t *)value;
	id->ack_timeout_set = true;
	return 0;
}

/* A path given instead of a resolved one. */
static int set_path(struct cm_id *id, const void *value, size_t len)
{
	const struct ibv_path_data *path = value;

	if (!len || len % sizeof(*path))
		return vb_fail_minus1(VB_RULE_CM_OPTION_LENGTH, "RDMA_OPTION_IB_PATH: optlen=%zu",
				      len);
	if (id->state != CM_ADDR_RESOLVED)
		return vb_fail_minus1(VB_RULE_CM_STATE, "id %p: no address is resolved",
				      (void *)id);
	id->path.hop_limit = (uint8_t)be32toh(path->path.flowlabel_hoplimit);
	id->path.traffic_class = path->path.tclass;
	if (cm_route_fill(id))
		return -1;
	id->state = CM_ROUTE_RESOLVED;
	if (cm_event_report(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0))
		return -1;
	return cm_sync(id);
}

int rdma_set_option(struct rdma_cm_id *rid, int level, int optname, void *optval, size_t optlen)
{
	struct cm_id *id = cm_id_of(rid);

	if (!cm_usable(rid, "rdma_set_option"))
		return -1;
	if (!optval)
		return vb_fail_minus1(VB_RULE_CM_ARGUMENT, "optval is NULL");
	if (level == RDMA_OPTION_IB && optname == RDMA_OPTION_IB_PATH)
		return set_path(id, optval, optlen);
	if (level == RDMA_OPTION_ID)
		switch (optname) {
		case RDMA_OPTION_ID_TOS:
			return set_tos(id, optval, optlen);
		case RDMA_OPTION_ID_REUSEADDR:
			return set_flag(id, &id->reuse, optval, optlen, "RDMA_OPTION_ID_REUSEADDR");
		case RDMA_OPTION_ID_AFONLY:
			return set_flag(id, &id->only6, optval, optlen, "RDMA_OPTION_ID_AFONLY");
		case RDMA_OPTION_ID_ACK_TIMEOUT:
			return set_ack_timeout(id, optval, optlen);
		default:
			break;
		}
	return vb_fail_minus1(VB_RULE_CM_OPTION, "level=%d optname=%d", level, optname);
}

int rdma_set_local_ece(struct rdma_cm_id *rid, struct ibv_ece *ece)
{
	if (!cm_usable(rid, "rdma_set_local_ece"))
		return -1;
	if (!ece || ece->comp_mask)
		return vb_fail_minus1(VB_RULE_CM_ARGUMENT, "ece comp_mask=0x%x",
				      ece ? ece->comp_mask : 0);
	cm_id_of(rid)->ece = *ece;
	return 0;
}

int rdma_get_remote_ece(struct rdma_cm_id *rid, struct ibv_ece *ece)
{
	if (!cm_usable(rid, "rdma_get_remote_ece"))
		return -1;
	if (rid->qp || !ece)
		return vb_fail_minus1(VB_RULE_CM_STATE,
				      "id %p: for QPs of the program's own, which set it",
				      (void *)rid);
	*ece = cm_id_of(rid)->peer.ece;
	return 0;
}

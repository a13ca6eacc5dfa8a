/* SPDX-License-Identifier: BSD-2-Clause */
/* End points: an id with address, route and QP in one call. */
#include <errno.h>
#include <string.h>

#include "rdmacm/cm.h"

#define TIMEOUT_MS 2000

static int passive(struct rdma_cm_id *rid, const struct rdma_addrinfo *res, struct ibv_pd *pd,
		   const struct ibv_qp_init_attr *attr)
{
	struct cm_id *id = cm_id_of(rid);

	if (rdma_bind_addr(rid, res->ai_src_addr))
		return -1;
	id->qp_pd = pd;
	id->have_qp_attr = attr != NULL;
	if (attr) {
		id->qp_attr = *attr;
		id->qp_attr.qp_type = (enum ibv_qp_type)res->ai_qp_type;
	}
	return 0;
}

static int active(struct rdma_cm_id *rid, const struct rdma_addrinfo *res, struct ibv_pd *pd,
		  struct ibv_qp_init_attr *attr)
{
	if (rdma_resolve_addr(rid, res->ai_src_addr, res->ai_dst_addr, TIMEOUT_MS) ||
	    rdma_resolve_route(rid, TIMEOUT_MS))
		return -1;
	if (!attr)
		return 0;
	attr->qp_type = (enum ibv_qp_type)res->ai_qp_type;
	return rdma_create_qp(rid, pd, attr);
}

int rdma_create_ep(struct rdma_cm_id **out, struct rdma_addrinfo *res, struct ibv_pd *pd,
		   struct ibv_qp_init_attr *attr)
{
	struct rdma_cm_id *rid;
	int err;

	if (!out || !res)
		return vb_fail_minus1(VB_RULE_CM_ARGUMENT, "rdma_create_ep: %s is NULL",
				      out ? "res" : "id");
	if (rdma_create_id(NULL, &rid, NULL, (enum rdma_port_space)res->ai_port_space))
		return -1;
	if (res->ai_qp_type)
		rid->qp_type = (enum ibv_qp_type)res->ai_qp_type;
	err = res->ai_flags & RAI_PASSIVE ? passive(rid, res, pd, attr)
					  : active(rid, res, pd, attr);
	if (err) {
		int saved = errno;

		rdma_destroy_ep(rid);
		errno = saved;
		return -1;
	}
	*out = rid;
	return 0;
}

void rdma_destroy_ep(struct rdma_cm_id *id)
{
	if (!id)
		return;
	rdma_destroy_qp(id);
	rdma_destroy_srq(id);
	rdma_destroy_id(id);
}

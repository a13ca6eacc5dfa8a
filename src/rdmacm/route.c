/* SPDX-License-Identifier: BSD-2-Clause */
/* The path record: where there is no subnet manager it is made from what the port says. */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/sa.h>

#include "rdmacm/cm.h"

#define PORT 1
/* "Exactly", of a selector; 4.096 us * 2^16 for a packet's life, as Linux has it for RoCE. */
#define EXACTLY	 2
#define LIFETIME 16

/* The rate of a port as enum ibv_rate, about: nobody on Ethernet limits by it. */
static uint8_t rate_of(const struct ibv_port_attr *port)
{
	switch (port->active_speed) {
	case 1:
		return IBV_RATE_10_GBPS;
	case 2:
		return IBV_RATE_20_GBPS;
	case 4:
	case 8:
		return IBV_RATE_40_GBPS;
	default:
		return IBV_RATE_100_GBPS;
	}
}

int cm_route_fill(struct cm_id *id)
{
	struct rdma_route *route = &id->id.route;
	struct ibv_sa_path_rec *rec = calloc(1, sizeof(*rec));
	struct ibv_port_attr port;

	if (!rec)
		return vb_fail_minus1(VB_RULE_CM_MEMORY, "a path record");
	if (ibv_query_port(id->id.verbs, PORT, &port)) {
		free(rec);
		return -1;
	}
	memcpy(rec->sgid.raw, id->path.own_gid, 16);
	memcpy(rec->dgid.raw, id->path.peer_gid, 16);
	rec->hop_limit = id->path.hop_limit;
	rec->traffic_class = id->path.traffic_class;
	rec->reversible = 1;
	rec->numb_path = 1;
	rec->pkey = htobe16(0xffff);
	rec->mtu_selector = EXACTLY;
	rec->mtu = (uint8_t)port.active_mtu;
	rec->rate_selector = EXACTLY;
	rec->rate = rate_of(&port);
	rec->packet_life_time_selector = EXACTLY;
	rec->packet_life_time = LIFETIME;
	if (id->ack_timeout_set && id->ack_timeout)
		rec->packet_life_time = (uint8_t)(id->ack_timeout - 1);
	free(route->path_rec);
	route->path_rec = rec;
	route->num_paths = 1;
	return 0;
}

int rdma_resolve_route(struct rdma_cm_id *rid, int timeout_ms)
{
	struct cm_id *id = cm_id_of(rid);

	if (!cm_usable(rid, "rdma_resolve_route"))
		return -1;
	(void)timeout_ms;
	if (id->state != CM_ADDR_RESOLVED)
		return vb_fail_minus1(VB_RULE_CM_STATE, "id %p: no address is resolved",
				      (void *)id);
	if (cm_route_fill(id))
		return -1;
	id->state = CM_ROUTE_RESOLVED;
	if (cm_event_report(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0))
		return -1;
	return cm_sync(id);
}

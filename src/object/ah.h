/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_OBJECT_AH_H
#define VB_OBJECT_AH_H

#include <stdbool.h>

#include <infiniband/verbs.h>

/* Where a datagram goes: what a send request keeps of its address handle. */
/* Where a destination is: nowhere that packets of this type go to yet, in a process of this
 * host, or behind UDP. */
enum vb_reach { VB_REACH_NONE, VB_REACH_LOCAL, VB_REACH_WIRE };

struct vb_path {
	uint8_t own_gid[16];
	uint8_t dest_gid[16];
	uint32_t flow_label;
	uint8_t traffic_class;
	uint8_t hop_limit;
	enum vb_reach reach;
};

struct vb_ah {
	struct ibv_ah ibv;
	struct vb_path path;
};

static inline struct vb_ah *vb_ah_of(struct ibv_ah *ah)
{
	return (struct vb_ah *)(void *)ah;
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_OBJECT_AH_H
#define VB_OBJECT_AH_H

#include <stdbool.h>

#include <infiniband/verbs.h>

/* How a destination is reached. */
enum vb_reach {
	VB_REACH_NONE,	 /* not at all */
	VB_REACH_LOCAL,	 /* a process of this host, by memory */
	VB_REACH_INSIDE, /* a process of this host, by packets handed over */
	VB_REACH_WIRE,	 /* another host, by packets on UDP */
};

static inline bool vb_reach_by_packets(enum vb_reach reach)
{
	return reach == VB_REACH_INSIDE || reach == VB_REACH_WIRE;
}

/* Where a datagram goes: what a send request keeps of its address handle. */

struct vb_path {
	uint8_t own_gid[16];
	uint8_t dest_gid[16];
	uint32_t flow_label;
	uint8_t traffic_class;
	uint8_t hop_limit;
	enum vb_reach reach;
	bool multicast; /* dest_gid is a group: reach is that of the members on this host */
	bool outside;	/* a group: other hosts may have members too */
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

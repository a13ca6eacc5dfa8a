/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_OBJECT_MCAST_H
#define VB_OBJECT_MCAST_H

/* Where a datagram to a multicast group is addressed to. */
#define VB_MCAST_QPN 0xffffffu

/* What a process can be in: so many groups, with so many QPs each. */
#define VB_MCAST_GROUPS 128u
#define VB_MCAST_QPS	64u

#endif

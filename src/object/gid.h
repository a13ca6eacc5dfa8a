/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_OBJECT_GID_H
#define VB_OBJECT_GID_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Theory of operation
 *
 * The GID table of a port, made from the addresses of its network interface.
 * Index 0 is always filled: the interface's link-local address, or the one its MAC
 * gives where it has none. The other addresses follow, IPv4 first, when the table
 * is made; later ones take the lowest free index, and removed ones leave a hole, so
 * that an index never changes its meaning under a program that holds it. With mlx5's
 * order every address stands twice, as RoCE v1 and then as RoCE v2.
 */

#define VB_GIDS_MAX  256u /* largest GID table */
#define VB_ADDRS_MAX 256u /* addresses looked at per interface */

/* The values of enum ibv_gid_type. */
enum vb_gid_type { VB_GID_IB, VB_GID_ROCE_V1, VB_GID_ROCE_V2 };

enum vb_gid_order {
	VB_GID_ORDER_RXE,  /* one entry an address, all RoCE v2 */
	VB_GID_ORDER_MLX5, /* two entries an address, v1 then v2 */
};

/* A network interface as a port sees it. */
struct vb_link {
	uint32_t ifindex; /* 0: the interface is gone */
	char name[IF_NAMESIZE];
	bool up;      /* administratively */
	bool carrier; /* the lower layer is up */
	bool loopback;
	bool has_mac;	     /* mac[] is the interface's own Ethernet address */
	uint8_t mac[6];	     /* else an invented one; all zero on a loopback interface */
	uint32_t mtu;	     /* bytes */
	uint32_t speed_mbps; /* 0: the interface tells none */
	uint32_t n_addrs;
	uint8_t addrs[VB_ADDRS_MAX][16]; /* as GIDs: IPv4 as ::ffff:a.b.c.d; kernel's order */
};

struct vb_gid_entry {
	uint8_t raw[16]; /* network order; all zero where not used */
	bool used;
	uint8_t type;	  /* enum vb_gid_type */
	uint32_t ifindex; /* 0 where not used or the interface is gone */
	char ifname[IF_NAMESIZE];
};

struct vb_gid_table {
	uint32_t len; /* entries, 1..VB_GIDS_MAX */
	enum vb_gid_order order;
	struct {
		uint8_t raw[16];
		bool used;
		uint8_t type;
	} entry[VB_GIDS_MAX];
};

/** vb_gid_is_v4() - Whether a GID is an IPv4-mapped address
 * @raw:    16 bytes, network order
 */
bool vb_gid_is_v4(const uint8_t raw[16]);

/** vb_gid_is_link_local() - Whether a GID lies in fe80::/10 */
bool vb_gid_is_link_local(const uint8_t raw[16]);

/** vb_gid_is_multicast() - Whether a GID names a group: ff00::/8, or an IPv4 group, mapped */
bool vb_gid_is_multicast(const uint8_t raw[16]);

/** vb_gid_from_mac() - The link-local GID of an Ethernet address
 * @mac:    6 bytes
 * @raw:    Receives fe80::<EUI-64>
 */
void vb_gid_from_mac(const uint8_t mac[6], uint8_t raw[16]);

/** vb_gid_table_init() - Make an empty table
 * @len:    Entries; cut to 1..VB_GIDS_MAX
 */
void vb_gid_table_init(struct vb_gid_table *table, uint32_t len, enum vb_gid_order order);

/** vb_gid_table_update() - Bring the table up to date with the interface
 * @link:   The interface now
 * Addresses that no longer fit into the table are left out.
 * Return:  whether anything changed
 */
bool vb_gid_table_update(struct vb_gid_table *table, const struct vb_link *link);

#endif

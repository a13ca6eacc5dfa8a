/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_OBJECT_DEVICE_H
#define VB_OBJECT_DEVICE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "object/gid.h"

/*
 * Theory of operation
 *
 * A device is fixed once it has been found: name, identity, limits and interface
 * never change while the process lives. What changes (port state, MTU, GIDs) is asked
 * of the interface each time, in host/discover.h. Devices live in static memory, so
 * a pointer handed to a program stays good.
 */

#define VB_DEVICES_MAX 16
#define VB_PORT	       1u /* every device has one port */

/* Values newer than the installed header. */
#define VB_QPF_GRH_REQUIRED  1u
#define VB_CAP_CM_SUP	     (1u << 16)
#define VB_CAP_IP_BASED_GIDS (1u << 26)

/* How the physical state of a port is numbered. */
enum vb_phys_state { VB_PHYS_POLLING = 2, VB_PHYS_DISABLED = 3, VB_PHYS_LINK_UP = 5 };

struct vb_device {
	struct ibv_device ibv; /* what programs see: name, dev_name, paths */
	/* Vendor libraries read the pointer behind ibv_device to see whose it is:
	 * always NULL, nobody's they know. */
	void *driver;
	_Atomic uint32_t refs; /* lists and contexts that hold the device */
	uint32_t index;	       /* position in the list; what ibv_get_device_index says */
	uint32_t ifindex;      /* interface at the time of discovery, 0 none */
	char ifname[IF_NAMESIZE];
	uint8_t mac[6];
	bool loopback; /* the interface reaches nobody else */

	struct ibv_device_attr_ex attr; /* node_guid, sys_image_guid in network order */

	/* Limits and facts for which struct ibv_device_attr_ex has no field. */
	uint32_t max_inline_data; /* bytes */
	uint32_t max_msg_sz;	  /* bytes */
	bool strict_states;	  /* posting is refused in a state that has no use for it */
	_Atomic uint64_t dm_used; /* bytes of device memory in use by this process */
	uint32_t num_comp_vectors;
	uint32_t gid_tbl_len;
	enum vb_gid_order gid_order;
	uint32_t port_speed_mbps; /* used where the interface tells none; 0 with force off */
	bool force_speed;	  /* the setting holds whatever the interface says */
	char board_id[64];	  /* empty: no such file */
	char hca_type[64];	  /* empty: no such file */
	char node_desc[64];
};

/* A port now. */
struct vb_port_facts {
	struct ibv_port_attr attr;
	uint16_t active_speed_ex; /* as attr.active_speed, but not cut to 8 bits */
	uint32_t rate_mbps;	  /* width x speed */
	uint32_t ifindex;	  /* 0: the interface is gone */
	uint8_t mac[6];		  /* its Ethernet address, all zero where it has none */
	char ifname[IF_NAMESIZE];
	uint32_t netdev_mtu; /* bytes */
};

static inline struct vb_device *vb_device_of(struct ibv_device *ibv)
{
	return (struct vb_device *)(void *)ibv;
}

/** vb_device_setup() - Give a device its name, identity and limits
 * @dev:     Zeroed memory
 * @index:   Position in the list, below VB_DEVICES_MAX
 * @name:    Device name, 1..63 bytes
 * @section: Name of the device's section in the ini file; NULL: none
 * @link:    Its interface; supplies MAC and name
 * Reads the settings of the limits.
 */
void vb_device_setup(struct vb_device *dev, uint32_t index, const char *name, const char *section,
		     const struct vb_link *link);

/** vb_device_attr() - The device's attributes, constant while the process lives */
static inline const struct ibv_device_attr_ex *vb_device_attr(const struct vb_device *dev)
{
	return &dev->attr;
}

/** vb_device_name_valid() - Whether a text can be a device's name
 * Letters, digits, '_', '-' and '.'; 1..63 bytes; not beginning with '.'.
 */
bool vb_device_name_valid(const char *name);

/** vb_port_facts_fill() - A port as its interface makes it
 * @dev:    Supplies limits and the speed to show where the interface tells none
 * @link:   The interface now; ifindex 0 where it is gone
 */
void vb_port_facts_fill(const struct vb_device *dev, const struct vb_link *link,
			struct vb_port_facts *facts);

/** vb_mtu_of_netdev() - Largest path MTU that fits an interface
 * @bytes:  MTU of the interface
 * Return:  enum ibv_mtu; IBV_MTU_256 where even that does not fit
 */
enum ibv_mtu vb_mtu_of_netdev(uint32_t bytes);

#endif

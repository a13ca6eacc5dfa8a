/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/device.h"

#include <assert.h>
#include <ctype.h>
#include <endian.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/settings.h"
#include "object/mcast.h"

static_assert(offsetof(struct vb_device, ibv) == 0, "programs hold the first member");
static_assert(offsetof(struct vb_device, driver) == sizeof(struct ibv_device),
	      "vendor libraries read the pointer right behind");
static_assert(VB_GID_ROCE_V2 == (int)IBV_GID_TYPE_ROCE_V2 &&
		      VB_GID_ROCE_V1 == (int)IBV_GID_TYPE_ROCE_V1,
	      "the values programs see");
static_assert(sizeof(struct ibv_device_attr_ex) == 400, "the newest struct known");

/* Most bytes a RoCEv2 packet adds to its payload: IPv6, UDP, BTH, RETH, ImmDt, ICRC. */
#define HEADER_BYTES (40 + 8 + 12 + 16 + 4 + 4)

/* Speed of a port of which nothing is known. */
#define DEFAULT_MBPS 100000

bool vb_device_name_valid(const char *name)
{
	size_t len = strlen(name);

	if (!len || len >= IBV_SYSFS_NAME_MAX || name[0] == '.')
		return false;
	for (; *name; name++)
		if (!isalnum((unsigned char)*name) && !strchr("_-.", *name))
			return false;
	return true;
}

/* EUI-64 of the MAC, in host order. */
static uint64_t guid_of(const struct vb_device *dev)
{
	uint8_t gid[16];
	uint64_t guid;

	vb_gid_from_mac(dev->mac, gid);
	memcpy(&guid, gid + 8, sizeof(guid));
	return be64toh(guid);
}

static void set_text(char *to, size_t size, const char *text)
{
	snprintf(to, size, "%s", text);
}

static uint32_t number(const char *section, const char *name)
{
	return (uint32_t)vb_setting_number(section, name);
}

static void setup_names(struct vb_device *dev, const char *name)
{
	struct ibv_device *ibv = &dev->ibv;

	ibv->node_type = IBV_NODE_CA;
	ibv->transport_type = IBV_TRANSPORT_IB;
	set_text(ibv->name, sizeof(ibv->name), name);
	snprintf(ibv->dev_name, sizeof(ibv->dev_name), "uverbs%u", dev->index);
	snprintf(ibv->dev_path, sizeof(ibv->dev_path), "/sys/class/infiniband_verbs/uverbs%u",
		 dev->index);
	snprintf(ibv->ibdev_path, sizeof(ibv->ibdev_path), "/sys/class/infiniband/%s", ibv->name);
}

static void setup_identity(struct vb_device *dev, const char *section)
{
	struct ibv_device_attr *attr = &dev->attr.orig_attr;
	unsigned long long guid = guid_of(dev);
	struct utsname host;

	/* Devices that share an interface differ in the fe of ff:fe, which no MAC makes. */
	guid ^= (uint64_t)dev->index << 24;
	vb_setting_guid(section, "NODE_GUID", &guid);
	attr->node_guid = htobe64(guid);
	vb_setting_guid(section, "SYS_IMAGE_GUID", &guid);
	attr->sys_image_guid = htobe64(guid);
	attr->vendor_id = number(section, "VENDOR_ID");
	attr->vendor_part_id = number(section, "VENDOR_PART_ID");
	attr->hw_ver = number(section, "HW_VER");
	set_text(attr->fw_ver, sizeof(attr->fw_ver), vb_setting_text(section, "FW_VER"));
	set_text(dev->board_id, sizeof(dev->board_id), vb_setting_text(section, "BOARD_ID"));
	set_text(dev->hca_type, sizeof(dev->hca_type), vb_setting_text(section, "HCA_TYPE"));
	set_text(dev->node_desc, sizeof(dev->node_desc), vb_setting_text(section, "NODE_DESC"));
	if (!dev->node_desc[0])
		snprintf(dev->node_desc, sizeof(dev->node_desc), "%.31s %.31s",
			 uname(&host) ? "localhost" : host.nodename, dev->ibv.name);
}

/* What stays zero is not offered: no MW, TSO, RSS, tag matching. */
static void setup_limits(struct vb_device *dev, const char *section)
{
	struct ibv_device_attr *attr = &dev->attr.orig_attr;

	attr->max_mr_size = UINT64_MAX;
	attr->page_size_cap = 0xfffff000;
	attr->max_qp = (int)number(section, "MAX_QP");
	attr->max_qp_wr = (int)number(section, "MAX_QP_WR");
	attr->device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_SYS_IMAGE_GUID |
				 IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_RC_RNR_NAK_GEN;
	attr->max_sge = attr->max_sge_rd = (int)number(section, "MAX_SGE");
	attr->max_cq = (int)number(section, "MAX_CQ");
	attr->max_cqe = (int)number(section, "MAX_CQE");
	attr->max_mr = (int)number(section, "MAX_MR");
	attr->max_pd = (int)number(section, "MAX_PD");
	attr->max_ah = (int)number(section, "MAX_AH");
	attr->max_srq = (int)number(section, "MAX_SRQ");
	attr->max_mcast_grp = VB_MCAST_GROUPS;
	attr->max_mcast_qp_attach = VB_MCAST_QPS;
	attr->max_total_mcast_qp_attach = VB_MCAST_GROUPS * VB_MCAST_QPS;
	attr->max_srq_wr = attr->max_qp_wr;
	attr->max_srq_sge = attr->max_sge;
	attr->max_qp_rd_atom = (int)number(section, "MAX_QP_RD_ATOM");
	attr->max_qp_init_rd_atom = (int)number(section, "MAX_QP_INIT_RD_ATOM");
	attr->max_res_rd_atom = attr->max_qp_rd_atom * attr->max_qp;
	attr->atomic_cap = IBV_ATOMIC_HCA;
	attr->max_pkeys = 1;
	attr->local_ca_ack_delay = (uint8_t)number(section, "ACK_DELAY");
	attr->phys_port_cnt = 1;
}

static void setup_extended(struct vb_device *dev, const char *section)
{
	struct ibv_device_attr_ex *attr = &dev->attr;

	/* Time stamps are CLOCK_MONOTONIC in nanoseconds: a clock of 10^6 kHz. */
	attr->completion_timestamp_mask = UINT64_MAX >> 1;
	attr->hca_core_clock = 1000000;
	attr->device_cap_flags_ex = attr->orig_attr.device_cap_flags;
	attr->phys_port_cnt_ex = attr->orig_attr.phys_port_cnt;
	/* Regions that follow the address space need nothing here: copies look at the
	 * pages when they are due. */
	attr->odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
	attr->odp_caps.per_transport_caps.rc_odp_caps =
		IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE |
		IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC | IBV_ODP_SUPPORT_SRQ_RECV;
	attr->odp_caps.per_transport_caps.uc_odp_caps =
		IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE;
	attr->odp_caps.per_transport_caps.ud_odp_caps =
		IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
	attr->max_dm_size = number(section, "MAX_DM_SIZE");
}

static void setup_rest(struct vb_device *dev, const char *section)
{
	uint32_t gbps = number(section, "PORT_SPEED");
	uint32_t vectors = number(section, "COMP_VECTORS");
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	dev->max_inline_data = number(section, "MAX_INLINE");
	dev->max_msg_sz = number(section, "MAX_MSG_SIZE");
	dev->strict_states = vb_setting_choice(section, "POST_STATES");
	dev->num_comp_vectors = vectors ? vectors : cpus > 0 ? (uint32_t)cpus : 1;
	dev->gid_tbl_len = number(section, "GID_TBL_LEN");
	dev->gid_order =
		vb_setting_choice(section, "GID_ORDER") ? VB_GID_ORDER_MLX5 : VB_GID_ORDER_RXE;
	dev->force_speed = gbps != 0;
	dev->port_speed_mbps = gbps ? gbps * 1000 : DEFAULT_MBPS;
}

void vb_device_setup(struct vb_device *dev, uint32_t index, const char *name, const char *section,
		     const struct vb_link *link)
{
	dev->index = index;
	dev->ifindex = link->ifindex;
	memcpy(dev->ifname, link->name, sizeof(dev->ifname));
	memcpy(dev->mac, link->mac, sizeof(dev->mac));
	dev->loopback = link->loopback;
	setup_names(dev, name);
	setup_identity(dev, section);
	setup_limits(dev, section);
	setup_extended(dev, section);
	setup_rest(dev, section);
}

enum ibv_mtu vb_mtu_of_netdev(uint32_t bytes)
{
	enum ibv_mtu mtu = IBV_MTU_4096;

	while (mtu > IBV_MTU_256 && (128u << mtu) + HEADER_BYTES > bytes)
		mtu--;
	return mtu;
}

/* The widths and speeds Linux gives to Ethernet speeds (man ibv_query_port(3)). */
static const struct speed_row {
	uint32_t mbps; /* up to and including */
	uint8_t width; /* 1: 1X, 2: 4X */
	uint16_t speed;
	uint32_t rate_mbps;
} speeds[] = {
	{1000, 1, 1, 2500},	      {10000, 1, 8, 10000},    {20000, 2, 2, 20000},
	{25000, 1, 32, 25000},	      {40000, 2, 8, 40000},    {50000, 1, 64, 50000},
	{100000, 2, 32, 100000},      {200000, 2, 64, 200000}, {400000, 2, 128, 400000},
	{UINT32_MAX, 2, 256, 800000},
};

static void fill_speed(const struct vb_device *dev, const struct vb_link *link,
		       struct vb_port_facts *facts)
{
	uint32_t mbps =
		link->speed_mbps && !dev->force_speed ? link->speed_mbps : dev->port_speed_mbps;
	const struct speed_row *row = speeds;

	while (mbps > row->mbps)
		row++;
	facts->attr.active_width = row->width;
	/* What does not fit into eight bits shows as the largest that does. */
	facts->attr.active_speed = row->speed > 128 ? 128 : (uint8_t)row->speed;
	facts->active_speed_ex = row->speed;
	facts->rate_mbps = row->rate_mbps;
}

void vb_port_facts_fill(const struct vb_device *dev, const struct vb_link *link,
			struct vb_port_facts *facts)
{
	struct ibv_port_attr *attr = &facts->attr;
	bool active = link->ifindex && link->up && link->carrier;

	memset(facts, 0, sizeof(*facts));
	attr->state = active ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
	attr->phys_state = active ? VB_PHYS_LINK_UP : link->up ? VB_PHYS_POLLING : VB_PHYS_DISABLED;
	attr->max_mtu = IBV_MTU_4096;
	attr->active_mtu = vb_mtu_of_netdev(link->mtu);
	attr->gid_tbl_len = (int)dev->gid_tbl_len;
	attr->port_cap_flags = VB_CAP_CM_SUP | VB_CAP_IP_BASED_GIDS;
	attr->max_msg_sz = dev->max_msg_sz;
	attr->pkey_tbl_len = 1;
	attr->max_vl_num = 1;
	attr->link_layer = IBV_LINK_LAYER_ETHERNET;
	attr->flags = VB_QPF_GRH_REQUIRED;
	fill_speed(dev, link, facts);
	facts->ifindex = link->ifindex;
	if (link->has_mac)
		memcpy(facts->mac, link->mac, sizeof(facts->mac));
	memcpy(facts->ifname, link->name, sizeof(facts->ifname));
	facts->netdev_mtu = link->mtu;
}

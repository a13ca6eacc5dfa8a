/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_SYSFS_TEXT_H
#define VB_SYSFS_TEXT_H

#include "sysfs/tree.h"

/*
 * What stands in the files. Every function takes the node and VB_TREE_TEXT_MAX bytes,
 * and returns a length or a negative errno; files end in one newline. Formats are those
 * of the kernel's RDMA core.
 */
typedef int vb_text_fn(const struct vb_tree_node *node, const char *path, char *text);

vb_text_fn vb_text_node_type, vb_text_node_guid, vb_text_sys_image_guid, vb_text_node_desc,
	vb_text_fw_ver, vb_text_hca_type, vb_text_hw_rev, vb_text_board_id, vb_text_parent,
	vb_text_ib_uevent;
vb_text_fn vb_text_state, vb_text_phys_state, vb_text_link_layer, vb_text_lid, vb_text_sm_lid,
	vb_text_lid_mask_count, vb_text_sm_sl, vb_text_cap_mask, vb_text_rate, vb_text_gid,
	vb_text_gid_type, vb_text_gid_ndev, vb_text_pkey, vb_text_counter, vb_text_lifespan;
vb_text_fn vb_text_vendor, vb_text_device, vb_text_numa_node, vb_text_local_cpus,
	vb_text_local_cpulist, vb_text_parent_uevent;
vb_text_fn vb_text_verbs_abi, vb_text_mad_abi, vb_text_cm_abi, vb_text_driver_abi, vb_text_ibdev,
	vb_text_verbs_dev, vb_text_cm_dev, vb_text_verbs_uevent, vb_text_cm_uevent;
vb_text_fn vb_link_ib_class, vb_link_verbs_class, vb_link_ib_subsystem, vb_link_verbs_subsystem,
	vb_link_device, vb_link_net, vb_link_host_ib, vb_link_host_verbs;

#define VB_TREE_ROOT "/sys/devices/virtual/verbena"

/* Device numbers as Linux gives them. */
#define VB_TREE_VERBS_MAJOR 231u
#define VB_TREE_VERBS_MINOR 192u
#define VB_TREE_CM_MAJOR    10u
#define VB_TREE_CM_MINOR    124u

#endif

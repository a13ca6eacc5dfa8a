/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/devinfo.h"

#include <dlfcn.h>
#include <endian.h>
#include <inttypes.h>
#include <stdio.h>

typedef unsigned long long ull;

static const struct devinfo_name transports[] = {
	{IBV_TRANSPORT_IB, "InfiniBand", false},
	{IBV_TRANSPORT_IWARP, "iWARP", false},
	{IBV_TRANSPORT_USNIC, "usNIC", false},
	{IBV_TRANSPORT_USNIC_UDP, "usNIC UDP", false},
	{IBV_TRANSPORT_UNSPECIFIED, "unspecified", false},
};

static const struct devinfo_name device_caps[] = {
	{IBV_DEVICE_RESIZE_MAX_WR, "RESIZE_MAX_WR", false},
	{IBV_DEVICE_BAD_PKEY_CNTR, "BAD_PKEY_CNTR", false},
	{IBV_DEVICE_BAD_QKEY_CNTR, "BAD_QKEY_CNTR", false},
	{IBV_DEVICE_RAW_MULTI, "RAW_MULTI", false},
	{IBV_DEVICE_AUTO_PATH_MIG, "AUTO_PATH_MIG", false},
	{IBV_DEVICE_CHANGE_PHY_PORT, "CHANGE_PHY_PORT", false},
	{IBV_DEVICE_UD_AV_PORT_ENFORCE, "UD_AV_PORT_ENFORCE", false},
	{IBV_DEVICE_CURR_QP_STATE_MOD, "CURR_QP_STATE_MOD", false},
	{IBV_DEVICE_SHUTDOWN_PORT, "SHUTDOWN_PORT", false},
	{IBV_DEVICE_INIT_TYPE, "INIT_TYPE", false},
	{IBV_DEVICE_PORT_ACTIVE_EVENT, "PORT_ACTIVE_EVENT", false},
	{IBV_DEVICE_SYS_IMAGE_GUID, "SYS_IMAGE_GUID", false},
	{IBV_DEVICE_RC_RNR_NAK_GEN, "RC_RNR_NAK_GEN", false},
	{IBV_DEVICE_SRQ_RESIZE, "SRQ_RESIZE", false},
	{IBV_DEVICE_N_NOTIFY_CQ, "N_NOTIFY_CQ", false},
	{IBV_DEVICE_MEM_WINDOW, "MEM_WINDOW", false},
	{IBV_DEVICE_UD_IP_CSUM, "UD_IP_CSUM", false},
	{IBV_DEVICE_XRC, "XRC", false},
	{IBV_DEVICE_MEM_MGT_EXTENSIONS, "MEM_MGT_EXTENSIONS", false},
	{IBV_DEVICE_MEM_WINDOW_TYPE_2A, "MEM_WINDOW_TYPE_2A", false},
	{IBV_DEVICE_MEM_WINDOW_TYPE_2B, "MEM_WINDOW_TYPE_2B", false},
	{IBV_DEVICE_RC_IP_CSUM, "RC_IP_CSUM", false},
	{IBV_DEVICE_RAW_IP_CSUM, "RAW_IP_CSUM", false},
	{IBV_DEVICE_MANAGED_FLOW_STEERING, "MANAGED_FLOW_STEERING", false},
};

static const struct devinfo_name device_caps_ex[] = {
	{1ull << 34, "RAW_SCATTER_FCS", false},
	{1ull << 36, "PCI_WRITE_END_PADDING", false},
	{1ull << 41, "CC_DMA_BOUNCE", true},
};

static const struct devinfo_name atomics[] = {
	{IBV_ATOMIC_NONE, "ATOMIC_NONE", false},
	{IBV_ATOMIC_HCA, "ATOMIC_HCA", false},
	{IBV_ATOMIC_GLOB, "ATOMIC_GLOB", false},
};

static const struct devinfo_name odp_general[] = {
	{IBV_ODP_SUPPORT, "ODP_SUPPORT", false},
	{IBV_ODP_SUPPORT_IMPLICIT, "ODP_SUPPORT_IMPLICIT", false},
};

static const struct devinfo_name odp_transport[] = {
	{IBV_ODP_SUPPORT_SEND, "SUPPORT_SEND", false},
	{IBV_ODP_SUPPORT_RECV, "SUPPORT_RECV", false},
	{IBV_ODP_SUPPORT_WRITE, "SUPPORT_WRITE", false},
	{IBV_ODP_SUPPORT_READ, "SUPPORT_READ", false},
	{IBV_ODP_SUPPORT_ATOMIC, "SUPPORT_ATOMIC", false},
	{IBV_ODP_SUPPORT_SRQ_RECV, "SUPPORT_SRQ", false},
	{1u << 6, "SUPPORT_FLUSH", true},
	{1u << 7, "SUPPORT_ATOMIC_WRITE", true},
};

static const struct devinfo_name raw_caps[] = {
	{IBV_RAW_PACKET_CAP_CVLAN_STRIPPING, "C-VLAN stripping offload", false},
	{IBV_RAW_PACKET_CAP_SCATTER_FCS, "Scatter FCS offload", false},
	{IBV_RAW_PACKET_CAP_IP_CSUM, "IP csum offload", false},
	{IBV_RAW_PACKET_CAP_DELAY_DROP, "Delay drop", false},
};

/* Bits are QP type numbers. RC is told apart by packet pacing of the later form only. */
static const struct devinfo_name qp_types[] = {
	{1u << IBV_QPT_RAW_PACKET, "SUPPORT_RAW_PACKET", false},
	{1u << IBV_QPT_UD, "SUPPORT_UD", false},
	{1u << IBV_QPT_RC, "SUPPORT_RC", true},
};
#define QP_TYPES_WITHOUT_RC 2

static const struct devinfo_name counter_caps[] = {
	{1u << 0, "QP_ATTACH_SEND", true},	 {1u << 1, "QP_ATTACH_RECV", true},
	{1u << 2, "QP_ATTACH_RDMA_READ", true},	 {1u << 3, "QP_ATTACH_REMOTE_RDMA_READ", true},
	{1u << 4, "QP_ATTACH_RDMA_WRITE", true}, {1u << 5, "QP_ATTACH_REMOTE_RDMA_WRITE", true},
};

static void show_guid(const char *label, __be64 guid)
{
	uint64_t g = be64toh(guid);

	printf("\t%s:\t\t\t%04x:%04x:%04x:%04x\n", label, (unsigned int)(g >> 48 & 0xffff),
	       (unsigned int)(g >> 32 & 0xffff), (unsigned int)(g >> 16 & 0xffff),
	       (unsigned int)(g & 0xffff));
}

static void show_identity(struct ibv_context *ctx, const struct ibv_device_attr *a)
{
	struct ibv_device *dev = ctx->device;
	char board[256];

	printf("hca_id:\t%s\n", ibv_get_device_name(dev));
	printf("\ttransport:\t\t\t%s (%d)\n",
	       devinfo_name_of(transports, DEVINFO_COUNT(transports),
			       (uint64_t)(int64_t)dev->transport_type, "invalid transport"),
	       (int)dev->transport_type);
	if (a->fw_ver[0])
		printf("\tfw_ver:\t\t\t\t%s\n", a->fw_ver);
	show_guid("node_guid", a->node_guid);
	show_guid("sys_image_guid", a->sys_image_guid);
	printf("\tvendor_id:\t\t\t0x%04x\n", a->vendor_id);
	printf("\tvendor_part_id:\t\t\t%d\n", (int)a->vendor_part_id);
	printf("\thw_ver:\t\t\t\t0x%X\n", a->hw_ver);
	if (ibv_read_sysfs_file(dev->ibdev_path, "board_id", board, sizeof(board)) > 0)
		printf("\tboard_id:\t\t\t%s\n", board);
	printf("\tphys_port_cnt:\t\t\t%d\n", a->phys_port_cnt);
}

static void show_queue_limits(const struct devinfo_options *opt, const struct ibv_device_attr *a)
{
	printf("\tmax_mr_size:\t\t\t0x%llx\n", (ull)a->max_mr_size);
	printf("\tpage_size_cap:\t\t\t0x%llx\n", (ull)a->page_size_cap);
	printf("\tmax_qp:\t\t\t\t%d\n", a->max_qp);
	printf("\tmax_qp_wr:\t\t\t%d\n", a->max_qp_wr);
	printf("\tdevice_cap_flags:\t\t0x%08x\n", a->device_cap_flags);
	devinfo_bits(opt, device_caps, DEVINFO_COUNT(device_caps), a->device_cap_flags);
	printf("\tmax_sge:\t\t\t%d\n", a->max_sge);
	printf("\tmax_sge_rd:\t\t\t%d\n", a->max_sge_rd);
	printf("\tmax_cq:\t\t\t\t%d\n", a->max_cq);
	printf("\tmax_cqe:\t\t\t%d\n", a->max_cqe);
	printf("\tmax_mr:\t\t\t\t%d\n", a->max_mr);
	printf("\tmax_pd:\t\t\t\t%d\n", a->max_pd);
	printf("\tmax_qp_rd_atom:\t\t\t%d\n", a->max_qp_rd_atom);
	printf("\tmax_ee_rd_atom:\t\t\t%d\n", a->max_ee_rd_atom);
	printf("\tmax_res_rd_atom:\t\t%d\n", a->max_res_rd_atom);
	printf("\tmax_qp_init_rd_atom:\t\t%d\n", a->max_qp_init_rd_atom);
	printf("\tmax_ee_init_rd_atom:\t\t%d\n", a->max_ee_init_rd_atom);
	printf("\tatomic_cap:\t\t\t%s (%d)\n",
	       devinfo_name_of(atomics, DEVINFO_COUNT(atomics), a->atomic_cap,
			       "invalid atomic capability"),
	       (int)a->atomic_cap);
}

static void show_object_limits(const struct ibv_device_attr *a)
{
	printf("\tmax_ee:\t\t\t\t%d\n", a->max_ee);
	printf("\tmax_rdd:\t\t\t%d\n", a->max_rdd);
	printf("\tmax_mw:\t\t\t\t%d\n", a->max_mw);
	printf("\tmax_raw_ipv6_qp:\t\t%d\n", a->max_raw_ipv6_qp);
	printf("\tmax_raw_ethy_qp:\t\t%d\n", a->max_raw_ethy_qp);
	printf("\tmax_mcast_grp:\t\t\t%d\n", a->max_mcast_grp);
	printf("\tmax_mcast_qp_attach:\t\t%d\n", a->max_mcast_qp_attach);
	printf("\tmax_total_mcast_qp_attach:\t%d\n", a->max_total_mcast_qp_attach);
	printf("\tmax_ah:\t\t\t\t%d\n", a->max_ah);
	printf("\tmax_fmr:\t\t\t%d\n", a->max_fmr);
	if (a->max_fmr)
		printf("\tmax_map_per_fmr:\t\t%d\n", a->max_map_per_fmr);
	printf("\tmax_srq:\t\t\t%d\n", a->max_srq);
	if (a->max_srq) {
		printf("\tmax_srq_wr:\t\t\t%d\n", a->max_srq_wr);
		printf("\tmax_srq_sge:\t\t\t%d\n", a->max_srq_sge);
	}
	printf("\tmax_pkeys:\t\t\t%d\n", a->max_pkeys);
}

/* Completion counters came long after release 44; the call is looked up by name. */
static void show_counters(const struct devinfo_options *opt, struct ibv_context *ctx)
{
	struct {
		uint64_t max_value;
		uint32_t max_counters;
		uint32_t attach_ops;
	} caps = {0};
	int (*query)(struct ibv_context * ctx, void *caps, size_t caps_size);

	*(void **)&query = dlsym(RTLD_DEFAULT, "_ibv_query_comp_cntr_caps");
	if (!query || query(ctx, &caps, sizeof(caps)))
		return;
	printf("\tmax_comp_cntr:\t\t\t%u\n", caps.max_counters);
	printf("\tcomp_cntr_caps:\n");
	devinfo_bits(opt, counter_caps, DEVINFO_COUNT(counter_caps), caps.attach_ops);
}

static void show_odp_transport(const struct devinfo_options *opt, const char *transport,
			       uint32_t caps)
{
	printf("\t%s_odp_caps:\n", transport);
	if (!caps)
		printf("\t\t\t\t\tNO SUPPORT\n");
	devinfo_bits(opt, odp_transport, DEVINFO_COUNT(odp_transport), caps);
}

static void show_odp(const struct devinfo_options *opt, const struct ibv_device_attr_ex *attr)
{
	printf("\tgeneral_odp_caps:\n");
	devinfo_bits(opt, odp_general, DEVINFO_COUNT(odp_general), attr->odp_caps.general_caps);
	show_odp_transport(opt, "rc", attr->odp_caps.per_transport_caps.rc_odp_caps);
	show_odp_transport(opt, "uc", attr->odp_caps.per_transport_caps.uc_odp_caps);
	show_odp_transport(opt, "ud", attr->odp_caps.per_transport_caps.ud_odp_caps);
	show_odp_transport(opt, "xrc", attr->xrc_odp_caps);
}

static void show_clock_and_caps(const struct devinfo_options *opt,
				const struct ibv_device_attr_ex *attr)
{
	/* The blank in the first label is rdma-core's. */
	if (attr->completion_timestamp_mask)
		printf("\tcompletion timestamp_mask:\t\t\t0x%016llx\n",
		       (ull)attr->completion_timestamp_mask);
	else
		printf("\tcompletion_timestamp_mask not supported\n");
	if (attr->hca_core_clock)
		printf("\thca_core_clock:\t\t\t%llukHZ\n", (ull)attr->hca_core_clock);
	else
		printf("\tcore clock not supported\n");
	if (attr->raw_packet_caps) {
		printf("\traw packet caps:\n");
		devinfo_bits(opt, raw_caps, DEVINFO_COUNT(raw_caps), attr->raw_packet_caps);
	}
	printf("\tdevice_cap_flags_ex:\t\t0x%llX\n", (ull)attr->device_cap_flags_ex);
	devinfo_bits(opt, device_caps_ex, DEVINFO_COUNT(device_caps_ex),
		     attr->device_cap_flags_ex & ~0xffffffffull);
}

static void show_qp_types(const struct devinfo_options *opt, uint32_t types, size_t known)
{
	printf("\t\tsupported_qp:\n");
	devinfo_bits(opt, qp_types, known, types);
}

static void show_offloads(const struct devinfo_options *opt, const struct ibv_device_attr_ex *attr)
{
	const struct ibv_rss_caps *rss = &attr->rss_caps;
	const struct ibv_packet_pacing_caps *pace = &attr->packet_pacing_caps;

	printf("\ttso_caps:\n\t\tmax_tso:\t\t\t%u\n", attr->tso_caps.max_tso);
	if (attr->tso_caps.max_tso)
		show_qp_types(opt, attr->tso_caps.supported_qpts, QP_TYPES_WITHOUT_RC);
	printf("\trss_caps:\n");
	printf("\t\tmax_rwq_indirection_tables:\t\t\t%u\n", rss->max_rwq_indirection_tables);
	printf("\t\tmax_rwq_indirection_table_size:\t\t\t%u\n",
	       rss->max_rwq_indirection_table_size);
	printf("\t\trx_hash_function:\t\t\t\t0x%x\n", rss->rx_hash_function);
	printf("\t\trx_hash_fields_mask:\t\t\t\t0x%llX\n", (ull)rss->rx_hash_fields_mask);
	if (rss->supported_qpts)
		show_qp_types(opt, rss->supported_qpts, QP_TYPES_WITHOUT_RC);
	printf("\tmax_wq_type_rq:\t\t\t%u\n", attr->max_wq_type_rq);
	printf("\tpacket_pacing_caps:\n");
	printf("\t\tqp_rate_limit_min:\t%ukbps\n", pace->qp_rate_limit_min);
	printf("\t\tqp_rate_limit_max:\t%ukbps\n", pace->qp_rate_limit_max);
	if (pace->qp_rate_limit_max)
		show_qp_types(opt, pace->supported_qpts, DEVINFO_COUNT(qp_types));
}

static void show_matching(const struct devinfo_options *opt, const struct ibv_device_attr_ex *attr)
{
	static const struct devinfo_name flags[] = {{IBV_TM_CAP_RC, "IBV_TM_CAP_RC", false}};
	const struct ibv_tm_caps *tm = &attr->tm_caps;

	if (!tm->max_num_tags) {
		printf("\ttag matching not supported\n");
	} else {
		printf("\tmax_rndv_hdr_size:\t\t%u\n", tm->max_rndv_hdr_size);
		printf("\tmax_num_tags:\t\t\t%u\n", tm->max_num_tags);
		printf("\tmax_ops:\t\t\t%u\n", tm->max_ops);
		printf("\tmax_sge:\t\t\t%u\n", tm->max_sge);
		printf("\tflags:\n");
		devinfo_bits(opt, flags, DEVINFO_COUNT(flags), tm->flags);
	}
	if (attr->cq_mod_caps.max_cq_count && attr->cq_mod_caps.max_cq_period) {
		printf("\n\tcq moderation caps:\n");
		printf("\t\tmax_cq_count:\t%u\n", attr->cq_mod_caps.max_cq_count);
		printf("\t\tmax_cq_period:\t%u us\n\n", attr->cq_mod_caps.max_cq_period);
	}
	if (attr->max_dm_size)
		printf("\tmaximum available device memory:\t%lluBytes\n\n", (ull)attr->max_dm_size);
}

void devinfo_device(const struct devinfo_options *opt, struct ibv_context *ctx,
		    const struct ibv_device_attr_ex *attr)
{
	show_identity(ctx, &attr->orig_attr);
	if (!opt->verbose)
		return;
	show_queue_limits(opt, &attr->orig_attr);
	show_object_limits(&attr->orig_attr);
	if (opt->newer)
		show_counters(opt, ctx);
	printf("\tlocal_ca_ack_delay:\t\t%d\n", attr->orig_attr.local_ca_ack_delay);
	show_odp(opt, attr);
	show_clock_and_caps(opt, attr);
	show_offloads(opt, attr);
	show_matching(opt, attr);
	printf("\tnum_comp_vectors:\t\t%d\n", ctx->num_comp_vectors);
}

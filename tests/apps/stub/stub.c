/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A libibverbs.so.1 with nothing behind it: it answers with the fixed values that the
 * outputs in ../golden were made from, chosen by the environment:
 *
 * STUB_N       number of devices; -1: the list is NULL with ENOSYS
 * STUB_FAIL    devices cannot be opened
 * STUB_PORTS   ports of a device
 * STUB_NOFW    no firmware version
 * STUB_BOARD   a board_id file
 * STUB_RICH    every optional attribute
 * STUB_SPEEDEX the link speed in the field of later releases
 * STUB_BAD     device, port, gid or close: that call fails
 */
#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#undef ibv_query_port

#define GUID 0x021122fffe334455ull

static struct ibv_device devices[2];
static struct verbs_context contexts[2];

static int number(const char *name, int otherwise)
{
	const char *text = getenv(name);

	return text ? atoi(text) : otherwise;
}

static bool bad(const char *what)
{
	const char *text = getenv("STUB_BAD");

	return text && strcmp(text, what) == 0;
}

struct ibv_device **ibv_get_device_list(int *num)
{
	int n = number("STUB_N", 1);
	struct ibv_device **list;

	if (num)
		*num = n < 0 ? 0 : n;
	if (n < 0) {
		errno = ENOSYS;
		return NULL;
	}
	list = calloc((size_t)n + 1, sizeof(*list));
	for (int i = 0; list && i < n; i++) {
		devices[i].node_type = IBV_NODE_CA;
		devices[i].transport_type = IBV_TRANSPORT_IB;
		snprintf(devices[i].name, sizeof(devices[i].name), "soft%d", i);
		snprintf(devices[i].ibdev_path, sizeof(devices[i].ibdev_path), "/nowhere/soft%d",
			 i);
		list[i] = &devices[i];
	}
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *dev)
{
	return dev->name;
}

__be64 ibv_get_device_guid(struct ibv_device *dev)
{
	return htobe64(GUID + (uint64_t)(dev - devices));
}

int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	if (strcmp(file, "board_id") != 0 || !getenv("STUB_BOARD"))
		return -1;
	return snprintf(buf, size, "SIM0000000001");
}

int ibv_query_device(struct ibv_context *ctx, struct ibv_device_attr *a)
{
	memset(a, 0, sizeof(*a));
	strcpy(a->fw_ver, getenv("STUB_NOFW") ? "" : "1.2.3");
	a->node_guid = a->sys_image_guid = htobe64(GUID);
	a->vendor_id = 0x2c9;
	a->vendor_part_id = 4129;
	a->hw_ver = 0x1a;
	a->max_mr_size = ~0ull;
	a->page_size_cap = 0xfffff000;
	a->max_qp = 1024;
	a->max_qp_wr = 16384;
	a->max_sge = 32;
	a->max_sge_rd = 30;
	a->device_cap_flags = getenv("STUB_RICH") ? 0xffffffff : 0x00223c76;
	a->max_cq = 2048;
	a->max_cqe = 32767;
	a->max_mr = 4096;
	a->max_pd = 512;
	a->max_qp_rd_atom = 16;
	a->max_res_rd_atom = 16384;
	a->max_qp_init_rd_atom = 16;
	a->atomic_cap = IBV_ATOMIC_HCA;
	a->max_mw = 256;
	a->max_mcast_grp = 128;
	a->max_mcast_qp_attach = 64;
	a->max_total_mcast_qp_attach = 8192;
	a->max_ah = 1000;
	a->max_fmr = getenv("STUB_RICH") ? 7 : 0;
	a->max_map_per_fmr = getenv("STUB_RICH") ? 9 : 0;
	a->max_srq = 64;
	a->max_srq_wr = 4096;
	a->max_srq_sge = 31;
	a->max_pkeys = 1;
	a->local_ca_ack_delay = 15;
	a->phys_port_cnt = (uint8_t)number("STUB_PORTS", 1);
	return 0;
}

static void enrich(struct ibv_device_attr_ex *a)
{
	a->odp_caps.general_caps = 0x13;
	a->odp_caps.per_transport_caps.rc_odp_caps = 0x1ff;
	a->odp_caps.per_transport_caps.ud_odp_caps = 3;
	a->completion_timestamp_mask = 0x7fffffffffffffff;
	a->hca_core_clock = 1000000;
	a->device_cap_flags_ex = 0x15600000000;
	a->tso_caps.max_tso = 262144;
	a->tso_caps.supported_qpts = 0x114;
	a->rss_caps.max_rwq_indirection_tables = 10;
	a->rss_caps.max_rwq_indirection_table_size = 512;
	a->rss_caps.rx_hash_function = 1;
	a->rss_caps.rx_hash_fields_mask = 0x800000ff;
	a->rss_caps.supported_qpts = 0x100;
	a->max_wq_type_rq = 8388608;
	a->packet_pacing_caps.qp_rate_limit_min = 1;
	a->packet_pacing_caps.qp_rate_limit_max = 100000000;
	a->packet_pacing_caps.supported_qpts = 0x104;
	a->raw_packet_caps = 0xf;
	a->tm_caps.max_rndv_hdr_size = 64;
	a->tm_caps.max_num_tags = 127;
	a->tm_caps.max_ops = 32768;
	a->tm_caps.max_sge = 1;
	a->tm_caps.flags = 1;
	a->cq_mod_caps.max_cq_count = 65535;
	a->cq_mod_caps.max_cq_period = 4095;
	a->max_dm_size = 131072;
}

static int query_device_ex(struct ibv_context *ctx, const struct ibv_query_device_ex_input *input,
			   struct ibv_device_attr_ex *attr, size_t size)
{
	if (bad("device"))
		return EIO;
	memset(attr, 0, size);
	if (getenv("STUB_RICH"))
		enrich(attr);
	return ibv_query_device(ctx, &attr->orig_attr);
}

static int query_port(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *a, size_t size)
{
	bool rich = getenv("STUB_RICH");
	uint32_t speed_ex = 256;

	if (bad("port"))
		return EIO;
	memset(a, 0, size);
	a->state = port == 1 ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
	a->phys_state = port == 1 ? 5 : 3;
	a->max_mtu = IBV_MTU_4096;
	a->active_mtu = IBV_MTU_1024;
	a->gid_tbl_len = 8;
	a->port_cap_flags = 0x04010000;
	a->max_msg_sz = 0x40000000;
	a->pkey_tbl_len = 1;
	a->max_vl_num = rich ? 9 : 1;
	a->active_width = 2;
	a->active_speed = rich ? 64 : 32;
	a->link_layer = IBV_LINK_LAYER_ETHERNET;
	if (rich && size >= 50)
		a->port_cap_flags2 = 0x3f;
	if (getenv("STUB_SPEEDEX") && size >= 56)
		memcpy((char *)a + 52, &speed_ex, sizeof(speed_ex));
	return 0;
}

int ibv_query_port(struct ibv_context *ctx, uint8_t port, struct _compat_ibv_port_attr *a)
{
	return query_port(ctx, port, (struct ibv_port_attr *)a, 48);
}

int ibv_query_gid(struct ibv_context *ctx, uint8_t port, int index, union ibv_gid *gid)
{
	static const uint8_t link_local[16] = {0xfe, 0x80, 0,	 0,    0,    0,	   0,	 0,
					       0x02, 0x11, 0x22, 0xff, 0xfe, 0x33, 0x44, 0x55};
	static const uint8_t v4[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 5};

	if (bad("gid"))
		return -1;
	memset(gid, 0, sizeof(*gid));
	if (index < 4)
		memcpy(gid, index < 2 ? link_local : v4, 16);
	return 0;
}

/* In the numbering of the files: 0 for IB and RoCE v1, 1 for RoCE v2. */
int ibv_query_gid_type(struct ibv_context *ctx, uint8_t port, unsigned int index, int *type);
int ibv_query_gid_type(struct ibv_context *ctx, uint8_t port, unsigned int index, int *type)
{
	*type = index & 1;
	return bad("type") ? -1 : 0;
}

int _ibv_query_gid_ex(struct ibv_context *ctx, uint32_t port, uint32_t index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
	memset(entry, 0, size);
	entry->gid_index = index;
	entry->port_num = port;
	entry->gid_type = index & 1 ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_ROCE_V1;
	return bad("type") ? EIO : ibv_query_gid(ctx, (uint8_t)port, (int)index, &entry->gid);
}

int ibv_query_port_speed(struct ibv_context *ctx, uint32_t port, uint64_t *speed);
int ibv_query_port_speed(struct ibv_context *ctx, uint32_t port, uint64_t *speed)
{
	*speed = 1000;
	return getenv("STUB_RICH") ? 0 : EOPNOTSUPP;
}

int _ibv_query_comp_cntr_caps(struct ibv_context *ctx, void *caps, size_t size);
int _ibv_query_comp_cntr_caps(struct ibv_context *ctx, void *caps, size_t size)
{
	uint32_t words[4] = {0, 0, 64, 0x3f};

	memcpy(caps, words, size < sizeof(words) ? size : sizeof(words));
	return getenv("STUB_RICH") ? 0 : EOPNOTSUPP;
}

struct ibv_context *ibv_open_device(struct ibv_device *dev)
{
	struct verbs_context *vctx = &contexts[dev - devices];

	if (getenv("STUB_FAIL"))
		return NULL;
	vctx->sz = sizeof(*vctx);
	vctx->query_port = query_port;
	vctx->query_device_ex = query_device_ex;
	vctx->context.device = dev;
	vctx->context.num_comp_vectors = 4;
	vctx->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	return &vctx->context;
}

int ibv_close_device(struct ibv_context *ctx)
{
	return bad("close") ? -1 : 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/devinfo.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct devinfo_name states[] = {
	{IBV_PORT_DOWN, "PORT_DOWN", false},
	{IBV_PORT_INIT, "PORT_INIT", false},
	{IBV_PORT_ARMED, "PORT_ARMED", false},
	{IBV_PORT_ACTIVE, "PORT_ACTIVE", false},
};

static const struct devinfo_name mtus[] = {
	{IBV_MTU_256, "256", false},   {IBV_MTU_512, "512", false},   {IBV_MTU_1024, "1024", false},
	{IBV_MTU_2048, "2048", false}, {IBV_MTU_4096, "4096", false},
};

static const struct devinfo_name link_layers[] = {
	{IBV_LINK_LAYER_UNSPECIFIED, "Unspecified", false},
	{IBV_LINK_LAYER_INFINIBAND, "InfiniBand", false},
	{IBV_LINK_LAYER_ETHERNET, "Ethernet", false},
};

static const struct devinfo_name lanes_of_vl[] = {
	{1, "1", false}, {2, "2", false}, {3, "4", false}, {4, "8", false}, {5, "15", false},
};

static const struct devinfo_name widths[] = {
	{1, "1", false}, {2, "4", false}, {4, "8", false}, {8, "12", false}, {16, "2", false},
};

static const struct devinfo_name speeds[] = {
	{1, "2.5 Gbps", false},	  {2, "5.0 Gbps", false},     {4, "10.0 Gbps", false},
	{8, "10.0 Gbps", false},  {16, "14.0 Gbps", false},   {32, "25.0 Gbps", false},
	{64, "50.0 Gbps", false}, {128, "100.0 Gbps", false}, {256, "200.0 Gbps", true},
};

/* The misspelling is rdma-core's. */
static const struct devinfo_name phys_states[] = {
	{1, "SLEEP", false},	{2, "POLLING", false},
	{3, "DISABLED", false}, {4, "PORT_CONFIGURATION TRAINNING", false},
	{5, "LINK_UP", false},	{6, "LINK_ERROR_RECOVERY", false},
	{7, "PHY TEST", false},
};

#define NAME_OF(table, value, otherwise)                                                           \
	devinfo_name_of(table, DEVINFO_COUNT(table), (value), (otherwise))

/* The inline of the header passes the size of its own struct, which may lack the later
 * fields: the operation is called with room for all of them.
 */
static int query_port(struct ibv_context *ctx, uint8_t port, union devinfo_port *p, size_t size)
{
	struct verbs_context *vctx = verbs_get_ctx_op(ctx, query_port);

	memset(p, 0, sizeof(*p));
	if (!vctx)
		return ibv_query_port(ctx, port, &p->attr);
	return vctx->query_port(ctx, port, &p->attr, size);
}

static void show_mtu(const char *label, enum ibv_mtu mtu)
{
	printf("\t\t\t%s:\t\t%s (%d)\n", label, NAME_OF(mtus, mtu, "invalid MTU"), (int)mtu);
}

static void show_basic(uint8_t port, const struct ibv_port_attr *a)
{
	printf("\t\tport:\t%u\n", port);
	printf("\t\t\tstate:\t\t\t%s (%d)\n", NAME_OF(states, a->state, "invalid state"),
	       (int)a->state);
	show_mtu("max_mtu", a->max_mtu);
	show_mtu("active_mtu", a->active_mtu);
	printf("\t\t\tsm_lid:\t\t\t%d\n", a->sm_lid);
	printf("\t\t\tport_lid:\t\t%d\n", a->lid);
	printf("\t\t\tport_lmc:\t\t0x%02x\n", a->lmc);
	printf("\t\t\tlink_layer:\t\t%s\n", NAME_OF(link_layers, a->link_layer, "Unknown"));
}

/* Asked for only in the form of later releases. */
static void show_effective_speed(struct ibv_context *ctx, uint8_t port)
{
	int (*query)(struct ibv_context * ctx, uint32_t port, uint64_t * speed);
	uint64_t speed = 0;

	*(void **)&query = dlsym(RTLD_DEFAULT, "ibv_query_port_speed");
	if (query && query(ctx, port, &speed) == 0)
		printf("\t\t\teffective_speed:\t%.1f Gbps\n", (double)speed / 10);
}

static void show_link(const struct devinfo_options *opt, struct ibv_context *ctx, uint8_t port,
		      const union devinfo_port *p)
{
	const struct ibv_port_attr *a = &p->attr;
	uint32_t speed = a->active_speed;

	if (opt->newer && p->newer.active_speed_ex)
		speed = p->newer.active_speed_ex;
	printf("\t\t\tactive_width:\t\t%sX (%d)\n",
	       NAME_OF(widths, a->active_width, "invalid width"), a->active_width);
	printf("\t\t\tactive_speed:\t\t%s (%u)\n", NAME_OF(speeds, speed, "invalid speed"), speed);
	if (opt->newer)
		show_effective_speed(ctx, port);
	if (ctx->device->transport_type == IBV_TRANSPORT_IB)
		printf("\t\t\tphys_state:\t\t%s (%d)\n",
		       NAME_OF(phys_states, a->phys_state, "invalid physical state"),
		       a->phys_state);
}

static void show_details(const struct ibv_port_attr *a)
{
	printf("\t\t\tmax_msg_sz:\t\t0x%x\n", a->max_msg_sz);
	printf("\t\t\tport_cap_flags:\t\t0x%08x\n", a->port_cap_flags);
	printf("\t\t\tport_cap_flags2:\t0x%04x\n", a->port_cap_flags2);
	printf("\t\t\tmax_vl_num:\t\t%s (%d)\n",
	       NAME_OF(lanes_of_vl, a->max_vl_num, "invalid value"), a->max_vl_num);
	printf("\t\t\tbad_pkey_cntr:\t\t0x%x\n", a->bad_pkey_cntr);
	printf("\t\t\tqkey_viol_cntr:\t\t0x%x\n", a->qkey_viol_cntr);
	printf("\t\t\tsm_sl:\t\t\t%d\n", a->sm_sl);
	printf("\t\t\tpkey_tbl_len:\t\t%d\n", a->pkey_tbl_len);
	printf("\t\t\tgid_tbl_len:\t\t%d\n", a->gid_tbl_len);
	printf("\t\t\tsubnet_timeout:\t\t%d\n", a->subnet_timeout);
	printf("\t\t\tinit_type_reply:\t%d\n", a->init_type_reply);
}

static void show_gid(int index, const union ibv_gid *gid, uint32_t type, bool ethernet)
{
	char text[INET6_ADDRSTRLEN] = "";

	printf("\t\t\tGID[%3d]:\t\t", index);
	if (type == IBV_GID_TYPE_ROCE_V2) {
		inet_ntop(AF_INET6, gid->raw, text, sizeof(text));
		printf("%s", text);
	} else {
		for (int i = 0; i < 16; i += 2)
			printf("%s%02x%02x", i ? ":" : "", gid->raw[i], gid->raw[i + 1]);
	}
	if (ethernet)
		printf(", RoCE %s", type == IBV_GID_TYPE_ROCE_V2 ? "v2" : "v1");
	printf("\n");
}

static int show_gids(struct ibv_context *ctx, uint8_t port, const struct ibv_port_attr *a)
{
	for (int i = 0; i < a->gid_tbl_len; i++) {
		struct ibv_gid_entry entry;
		union ibv_gid gid;
		int failed = ibv_query_gid(ctx, port, i, &gid);

		if (failed) {
			fprintf(stderr, "Failed to query gid to port %u, index %d\n", port, i);
			return failed;
		}
		if (!gid.global.interface_id)
			continue;
		if (ibv_query_gid_ex(ctx, port, (uint32_t)i, &entry, 0))
			continue;
		show_gid(i, &gid, entry.gid_type, a->link_layer == IBV_LINK_LAYER_ETHERNET);
	}
	return 0;
}

int devinfo_port(const struct devinfo_options *opt, struct ibv_context *ctx, uint8_t port)
{
	union devinfo_port p;
	size_t size = opt->newer ? sizeof(p) : sizeof(p.newer.until_44);
	int failed = query_port(ctx, port, &p, size);

	if (failed) {
		fprintf(stderr, "Failed to query port %u props\n", port);
		return failed;
	}
	show_basic(port, &p.attr);
	if (opt->verbose) {
		show_details(&p.attr);
		show_link(opt, ctx, port, &p);
		failed = show_gids(ctx, port, &p.attr);
		if (failed)
			return failed;
	}
	printf("\n");
	return 0;
}

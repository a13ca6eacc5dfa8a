/* SPDX-License-Identifier: BSD-2-Clause */
#include "sysfs/text.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "host/counters.h"
#include "host/discover.h"
#include "object/device.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

__attribute__((format(printf, 2, 3))) static int put(char *text, const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(text, VB_TREE_TEXT_MAX, fmt, args);
	va_end(args);
	return n < VB_TREE_TEXT_MAX ? n : VB_TREE_TEXT_MAX - 1;
}

static int put_guid(char *text, __be64 guid)
{
	uint64_t g = be64toh(guid);

	return put(text, "%04x:%04x:%04x:%04x\n", (unsigned int)(g >> 48 & 0xffff),
		   (unsigned int)(g >> 32 & 0xffff), (unsigned int)(g >> 16 & 0xffff),
		   (unsigned int)(g & 0xffff));
}

int vb_text_node_type(const struct vb_tree_node *node, const char *path, char *text)
{
	return put(text, "1: CA\n");
}

int vb_text_node_guid(const struct vb_tree_node *node, const char *path, char *text)
{
	return put_guid(text, vb_device_attr(node->dev)->orig_attr.node_guid);
}

int vb_text_sys_image_guid(const struct vb_tree_node *node, const char *path, char *text)
{
	return put_guid(text, vb_device_attr(node->dev)->orig_attr.sys_image_guid);
}

int vb_text_node_desc(const struct vb_tree_node *node, const char *path, char *text)
{
	return put(text, "%.64s\n", node->dev->node_desc);
}

int vb_text_fw_ver(const struct vb_tree_node *node, const char *path, char *text)
{
	return put(text, "%s\n", vb_device_attr(node->dev)->orig_attr.fw_ver);
}

int vb_text_hca_type(const struct vb_tree_node *node, const char *path, char *text)
{
	return put(text, "%s\n", node->dev->hca_type);
}

int vb_text_hw_rev(const struct vb_tree_node *node, const char *path, char *text)
{
	return put(text, "%x\n", vb_device_attr(node->dev)->orig_attr.hw_ver);
}

int vb_text_board_id(const struct vb_tree_node *node, const char *path, char *text)
{
	return put(text, "%s\n", node->dev->board_id);
}

int vb_text_parent(const struct vb_tree_node *node, const char *path, char *text)
{
	return put(text, "%s\n", node->dev->ifname);
}

int vb_text_ib_uevent(const struct vb_tree_node *node, const char *path, char *text)
{
	return put(text, "NAME=%s\n", node->dev->ibv.name);
}

static const char *name_in(const char *const *names, size_t n, unsigned int value)
{
	return value < n ? names[value] : "<unknown>";
}

int vb_text_state(const struct vb_tree_node *node, const char *path, char *text)
{
	static const char *const names[] = {"NOP",   "DOWN",   "INIT",
					    "ARMED", "ACTIVE", "ACTIVE_DEFER"};
	struct vb_port_facts facts;
	int err = vb_device_port(node->dev, node->port, &facts);

	if (err)
		return err;
	return put(text, "%u: %s\n", facts.attr.state,
		   name_in(names, COUNT(names), facts.attr.state));
}

int vb_text_phys_state(const struct vb_tree_node *node, const char *path, char *text)
{
	static const char *const names[] = {"<unknown>",
					    "Sleep",
					    "Polling",
					    "Disabled",
					    "PortConfigurationTraining",
					    "LinkUp",
					    "LinkErrorRecovery",
					    "Phy Test"};
	struct vb_port_facts facts;
	int err = vb_device_port(node->dev, node->port, &facts);

	if (err)
		return err;
	return put(text, "%u: %s\n", facts.attr.phys_state,
		   name_in(names, COUNT(names), facts.attr.phys_state));
}

int vb_text_link_layer(const struct vb_tree_node *node, const char *path, char *text)
{
	static const char *const names[] = {"Unknown", "InfiniBand", "Ethernet"};
	struct vb_port_facts facts;
	int err = vb_device_port(node->dev, node->port, &facts);

	return err ? err : put(text, "%s\n", name_in(names, COUNT(names), facts.attr.link_layer));
}

int vb_text_lid(const struct vb_tree_node *node, const char *path, char *text)
{
	struct vb_port_facts facts;
	int err = vb_device_port(node->dev, node->port, &facts);

	return err ? err : put(text, "0x%x\n", facts.attr.lid);
}

int vb_text_sm_lid(const struct vb_tree_node *node, const char *path, char *text)
{
	struct vb_port_facts facts;
	int err = vb_device_port(node->dev, node->port, &facts);

	return err ? err : put(text, "0x%x\n", facts.attr.sm_lid);
}

int vb_text_lid_mask_count(const struct vb_tree_node *node, const char *path, char *text)
{
	struct vb_port_facts facts;
	int err = vb_device_port(node->dev, node->port, &facts);

	return err ? err : put(text, "%u\n", facts.attr.lmc);
}

int vb_text_sm_sl(const struct vb_tree_node *node, const char *path, char *text)
{
	struct vb_port_facts facts;
	int err = vb_device_port(node->dev, node->port, &facts);

	return err ? err : put(text, "%u\n", facts.attr.sm_sl);
}

int vb_text_cap_mask(const struct vb_tree_node *node, const char *path, char *text)
{
	struct vb_port_facts facts;
	int err = vb_device_port(node->dev, node->port, &facts);

	return err ? err : put(text, "0x%08x\n", facts.attr.port_cap_flags);
}

/* Speed of a lane in units of 100 Mb/s, and its name. */
static unsigned int lane(unsigned int speed, const char **name)
{
	static const struct {
		unsigned int speed, rate;
		const char *name;
	} table[] = {
		{2, 50, "DDR"},	  {4, 100, "QDR"},  {8, 100, "FDR10"},	{16, 140, "FDR"},
		{32, 250, "EDR"}, {64, 500, "HDR"}, {128, 1000, "NDR"}, {256, 2000, "XDR"},
	};

	for (size_t i = 0; i < COUNT(table); i++) {
		if (table[i].speed == speed) {
			*name = table[i].name;
			return table[i].rate;
		}
	}
	*name = "SDR";
	return 25;
}

static unsigned int lanes(unsigned int width)
{
	switch (width) {
	case 2:
		return 4;
	case 4:
		return 8;
	case 8:
		return 12;
	case 16:
		return 2;
	default:
		return 1;
	}
}

int vb_text_rate(const struct vb_tree_node *node, const char *path, char *text)
{
	struct vb_port_facts facts;
	int err = vb_device_port(node->dev, node->port, &facts);
	unsigned int width, rate;
	const char *name;

	if (err)
		return err;
	width = lanes(facts.attr.active_width);
	rate = width *
	       lane(facts.active_speed_ex ? facts.active_speed_ex : facts.attr.active_speed, &name);
	return put(text, "%u%s Gb/sec (%uX %s)\n", rate / 10, rate % 10 ? ".5" : "", width, name);
}

int vb_text_gid(const struct vb_tree_node *node, const char *path, char *text)
{
	struct vb_gid_entry e;
	int err = vb_device_gid(node->dev, node->port, node->index, &e);
	int n = 0;

	if (err)
		return err;
	for (int i = 0; i < 16; i += 2)
		n += put(text + n, "%s%02x%02x", i ? ":" : "", e.raw[i], e.raw[i + 1]);
	return n + put(text + n, "\n");
}

/* The kernel refuses to read the attributes of an entry that is empty. */
int vb_text_gid_type(const struct vb_tree_node *node, const char *path, char *text)
{
	struct vb_gid_entry e;
	int err = vb_device_gid(node->dev, node->port, node->index, &e);

	if (err || !e.used)
		return -EINVAL;
	return put(text, "%s\n", e.type == VB_GID_ROCE_V2 ? "RoCE v2" : "IB/RoCE v1");
}

int vb_text_gid_ndev(const struct vb_tree_node *node, const char *path, char *text)
{
	struct vb_gid_entry e;
	int err = vb_device_gid(node->dev, node->port, node->index, &e);

	if (err || !e.used || !e.ifname[0])
		return -EINVAL;
	return put(text, "%s\n", e.ifname);
}

int vb_text_pkey(const struct vb_tree_node *node, const char *path, char *text)
{
	return put(text, "0x%04x\n", node->index ? 0 : 0xffff);
}

int vb_text_counter(const struct vb_tree_node *node, const char *path, char *text)
{
	return put(text, "%" PRIu64 "\n", vb_counters_read(node->dev, node->counter));
}

/* Milliseconds for which the kernel keeps values before it asks the device again. */
int vb_text_lifespan(const struct vb_tree_node *node, const char *path, char *text)
{
	return put(text, "10\n");
}

int vb_text_vendor(const struct vb_tree_node *node, const char *path, char *text)
{
	return put(text, "0x%04x\n", vb_device_attr(node->dev)->orig_attr.vendor_id & 0xffff);
}

int vb_text_device(const struct vb_tree_node *node, const char *path, char *text)
{
	return put(text, "0x%04x\n", vb_device_attr(node->dev)->orig_attr.vendor_part_id & 0xffff);
}

static int copy_file(const char *name, char *text)
{
	FILE *f = fopen(name, "re");
	size_t n = 0;

	if (!f)
		return -1;
	n = fread(text, 1, VB_TREE_TEXT_MAX - 1, f);
	fclose(f);
	text[n] = 0;
	return n ? (int)n : -1;
}

/* What the machine says about the place of the interface's card, or of the bus above it. */
static int copy_host(const struct vb_tree_node *node, const char *name, char *text)
{
	const char *host = vb_tree_host_path(node->dev);
	char file[PATH_MAX + 64];
	int n;

	if (!host[0])
		return -1;
	snprintf(file, sizeof(file), "%s/%s", host, name);
	n = copy_file(file, text);
	if (n < 0) {
		snprintf(file, sizeof(file), "%s/../%s", host, name);
		n = copy_file(file, text);
	}
	return n;
}

int vb_text_numa_node(const struct vb_tree_node *node, const char *path, char *text)
{
	int n = copy_host(node, "numa_node", text);

	return n > 0 ? n : put(text, "-1\n");
}

int vb_text_local_cpulist(const struct vb_tree_node *node, const char *path, char *text)
{
	int n = copy_host(node, "local_cpulist", text);

	if (n < 0)
		n = copy_file("/sys/devices/system/cpu/online", text);
	return n > 0 ? n : put(text, "0\n");
}

/* A list such as 0-3,8 as the kernel's mask: words of 32 bits, highest first. */
static int mask_of_list(const char *list, char *text)
{
	uint32_t words[128] = {0};
	unsigned int top = 0;
	int n = 0;

	while (*list >= '0' && *list <= '9') {
		unsigned int first = 0, last = 0;
		int used = 0;

		if (sscanf(list, "%u-%u%n", &first, &last, &used) != 2 &&
		    sscanf(list, "%u%n", &first, &used) == 1)
			last = first;
		for (unsigned int cpu = first; cpu <= last && cpu / 32 < COUNT(words); cpu++) {
			words[cpu / 32] |= 1u << cpu % 32;
			top = cpu / 32 > top ? cpu / 32 : top;
		}
		list += used;
		list += *list == ',';
	}
	n = put(text, "%x", words[top]);
	while (top--)
		n += put(text + n, ",%08x", words[top]);
	return n + put(text + n, "\n");
}

int vb_text_local_cpus(const struct vb_tree_node *node, const char *path, char *text)
{
	char list[VB_TREE_TEXT_MAX];
	int n = copy_host(node, "local_cpus", text);

	if (n > 0)
		return n;
	vb_text_local_cpulist(node, path, list);
	return mask_of_list(list, text);
}

int vb_text_parent_uevent(const struct vb_tree_node *node, const char *path, char *text)
{
	return put(text, "DRIVER=verbena\n");
}

int vb_text_verbs_abi(const struct vb_tree_node *node, const char *path, char *text)
{
	return put(text, "6\n");
}

int vb_text_mad_abi(const struct vb_tree_node *node, const char *path, char *text)
{
	return put(text, "5\n");
}

int vb_text_cm_abi(const struct vb_tree_node *node, const char *path, char *text)
{
	return put(text, "4\n");
}

int vb_text_driver_abi(const struct vb_tree_node *node, const char *path, char *text)
{
	return put(text, "1\n");
}

int vb_text_ibdev(const struct vb_tree_node *node, const char *path, char *text)
{
	return put(text, "%s\n", node->dev->ibv.name);
}

int vb_text_verbs_dev(const struct vb_tree_node *node, const char *path, char *text)
{
	return put(text, "%u:%u\n", VB_TREE_VERBS_MAJOR, VB_TREE_VERBS_MINOR + node->dev->index);
}

int vb_text_cm_dev(const struct vb_tree_node *node, const char *path, char *text)
{
	return put(text, "%u:%u\n", VB_TREE_CM_MAJOR, VB_TREE_CM_MINOR);
}

int vb_text_verbs_uevent(const struct vb_tree_node *node, const char *path, char *text)
{
	return put(text, "MAJOR=%u\nMINOR=%u\nDEVNAME=infiniband/uverbs%u\nDEVMODE=0666\n",
		   VB_TREE_VERBS_MAJOR, VB_TREE_VERBS_MINOR + node->dev->index, node->dev->index);
}

int vb_text_cm_uevent(const struct vb_tree_node *node, const char *path, char *text)
{
	return put(text, "MAJOR=%u\nMINOR=%u\nDEVNAME=infiniband/rdma_cm\nDEVMODE=0666\n",
		   VB_TREE_CM_MAJOR, VB_TREE_CM_MINOR);
}

int vb_link_ib_class(const struct vb_tree_node *node, const char *path, char *text)
{
	const char *name = node->dev->ibv.name;

	return put(text, "../../devices/virtual/verbena/%s/infiniband/%s", name, name);
}

int vb_link_verbs_class(const struct vb_tree_node *node, const char *path, char *text)
{
	return put(text, "../../devices/virtual/verbena/%s/infiniband_verbs/uverbs%u",
		   node->dev->ibv.name, node->dev->index);
}

int vb_link_ib_subsystem(const struct vb_tree_node *node, const char *path, char *text)
{
	return put(text, "../../../../../../class/infiniband");
}

int vb_link_verbs_subsystem(const struct vb_tree_node *node, const char *path, char *text)
{
	return put(text, "../../../../../../class/infiniband_verbs");
}

int vb_link_device(const struct vb_tree_node *node, const char *path, char *text)
{
	return put(text, "../../../%s", node->dev->ibv.name);
}

int vb_link_net(const struct vb_tree_node *node, const char *path, char *text)
{
	return put(text, "../../../../../class/net/%s", node->dev->ifname);
}

/* From some depth below /sys back to it. */
static int climb(const char *path, char *text)
{
	int n = 0;

	for (path += strlen("/sys/"); (path = strchr(path, '/')); path++)
		n += put(text + n, "../");
	return n;
}

int vb_link_host_ib(const struct vb_tree_node *node, const char *path, char *text)
{
	const char *name = node->dev->ibv.name;
	int n = climb(path, text);

	return n + put(text + n, "devices/virtual/verbena/%s/infiniband/%s", name, name);
}

int vb_link_host_verbs(const struct vb_tree_node *node, const char *path, char *text)
{
	int n = climb(path, text);

	return n + put(text + n, "devices/virtual/verbena/%s/infiniband_verbs/uverbs%u",
		       node->dev->ibv.name, node->dev->index);
}

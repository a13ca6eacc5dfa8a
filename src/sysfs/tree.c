/* SPDX-License-Identifier: BSD-2-Clause */
#include "sysfs/tree.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "host/counters.h"
#include "host/discover.h"
#include "object/device.h"
#include "sysfs/text.h"

/*
 * In patterns, a component that starts with '%' stands for:
 *
 *   %d  the device's name        %u  its uverbsN         %i  its interface
 *   %p  a port                   %g  a GID's index       %k  a P_Key's index
 *   %c  a name of hw_counters    %C  a name of counters
 *   %H  the folder of the machine's device its interface belongs to; only at the front
 */
struct vb_tree_row {
	const char *pattern;
	enum vb_tree_kind kind;
	vb_text_fn *text;
	bool (*present)(const struct vb_device *dev); /* NULL: always */
};

static bool has_board_id(const struct vb_device *dev)
{
	return dev->board_id[0];
}

static bool has_hca_type(const struct vb_device *dev)
{
	return dev->hca_type[0];
}

#define NAME  VB_TREE_ROOT "/%d"
#define IB    NAME "/infiniband/%d"
#define PORT  IB "/ports/%p"
#define VERBS NAME "/infiniband_verbs/%u"

static const struct vb_tree_row rows[] = {
	{"/sys/class", VB_TREE_MERGED, NULL, NULL},
	{"/sys/class/infiniband", VB_TREE_DIR, NULL, NULL},
	{"/sys/class/infiniband/%d", VB_TREE_LINK, vb_link_ib_class, NULL},
	{"/sys/class/infiniband_verbs", VB_TREE_DIR, NULL, NULL},
	{"/sys/class/infiniband_verbs/abi_version", VB_TREE_FILE, vb_text_verbs_abi, NULL},
	{"/sys/class/infiniband_verbs/%u", VB_TREE_LINK, vb_link_verbs_class, NULL},
	{"/sys/class/infiniband_mad", VB_TREE_DIR, NULL, NULL},
	{"/sys/class/infiniband_mad/abi_version", VB_TREE_FILE, vb_text_mad_abi, NULL},
	{"/sys/class/misc", VB_TREE_MERGED, NULL, NULL},
	{"/sys/class/misc/rdma_cm", VB_TREE_DIR, NULL, NULL},
	{"/sys/class/misc/rdma_cm/abi_version", VB_TREE_FILE, vb_text_cm_abi, NULL},
	{"/sys/class/misc/rdma_cm/dev", VB_TREE_FILE, vb_text_cm_dev, NULL},
	{"/sys/class/misc/rdma_cm/uevent", VB_TREE_FILE, vb_text_cm_uevent, NULL},
	{"/sys/devices/virtual", VB_TREE_MERGED, NULL, NULL},
	{VB_TREE_ROOT, VB_TREE_DIR, NULL, NULL},

	{NAME, VB_TREE_DIR, NULL, NULL},
	{NAME "/vendor", VB_TREE_FILE, vb_text_vendor, NULL},
	{NAME "/device", VB_TREE_FILE, vb_text_device, NULL},
	{NAME "/numa_node", VB_TREE_FILE, vb_text_numa_node, NULL},
	{NAME "/local_cpus", VB_TREE_FILE, vb_text_local_cpus, NULL},
	{NAME "/local_cpulist", VB_TREE_FILE, vb_text_local_cpulist, NULL},
	{NAME "/uevent", VB_TREE_FILE, vb_text_parent_uevent, NULL},
	{NAME "/net", VB_TREE_DIR, NULL, NULL},
	{NAME "/net/%i", VB_TREE_LINK, vb_link_net, NULL},
	{NAME "/infiniband", VB_TREE_DIR, NULL, NULL},
	{NAME "/infiniband_verbs", VB_TREE_DIR, NULL, NULL},

	{VERBS, VB_TREE_DIR, NULL, NULL},
	{VERBS "/abi_version", VB_TREE_FILE, vb_text_driver_abi, NULL},
	{VERBS "/dev", VB_TREE_FILE, vb_text_verbs_dev, NULL},
	{VERBS "/device", VB_TREE_LINK, vb_link_device, NULL},
	{VERBS "/ibdev", VB_TREE_FILE, vb_text_ibdev, NULL},
	{VERBS "/subsystem", VB_TREE_LINK, vb_link_verbs_subsystem, NULL},
	{VERBS "/uevent", VB_TREE_FILE, vb_text_verbs_uevent, NULL},

	{IB, VB_TREE_DIR, NULL, NULL},
	{IB "/board_id", VB_TREE_FILE, vb_text_board_id, has_board_id},
	{IB "/device", VB_TREE_LINK, vb_link_device, NULL},
	{IB "/fw_ver", VB_TREE_FILE, vb_text_fw_ver, NULL},
	{IB "/hca_type", VB_TREE_FILE, vb_text_hca_type, has_hca_type},
	{IB "/hw_rev", VB_TREE_FILE, vb_text_hw_rev, has_hca_type},
	{IB "/node_desc", VB_TREE_FILE, vb_text_node_desc, NULL},
	{IB "/node_guid", VB_TREE_FILE, vb_text_node_guid, NULL},
	{IB "/node_type", VB_TREE_FILE, vb_text_node_type, NULL},
	{IB "/parent", VB_TREE_FILE, vb_text_parent, NULL},
	{IB "/ports", VB_TREE_DIR, NULL, NULL},
	{IB "/subsystem", VB_TREE_LINK, vb_link_ib_subsystem, NULL},
	{IB "/sys_image_guid", VB_TREE_FILE, vb_text_sys_image_guid, NULL},
	{IB "/uevent", VB_TREE_FILE, vb_text_ib_uevent, NULL},

	{PORT, VB_TREE_DIR, NULL, NULL},
	{PORT "/cap_mask", VB_TREE_FILE, vb_text_cap_mask, NULL},
	{PORT "/counters", VB_TREE_DIR, NULL, NULL},
	{PORT "/counters/%C", VB_TREE_FILE, vb_text_counter, NULL},
	{PORT "/gid_attrs", VB_TREE_DIR, NULL, NULL},
	{PORT "/gid_attrs/ndevs", VB_TREE_DIR, NULL, NULL},
	{PORT "/gid_attrs/ndevs/%g", VB_TREE_FILE, vb_text_gid_ndev, NULL},
	{PORT "/gid_attrs/types", VB_TREE_DIR, NULL, NULL},
	{PORT "/gid_attrs/types/%g", VB_TREE_FILE, vb_text_gid_type, NULL},
	{PORT "/gids", VB_TREE_DIR, NULL, NULL},
	{PORT "/gids/%g", VB_TREE_FILE, vb_text_gid, NULL},
	{PORT "/hw_counters", VB_TREE_DIR, NULL, NULL},
	{PORT "/hw_counters/%c", VB_TREE_FILE, vb_text_counter, NULL},
	{PORT "/hw_counters/lifespan", VB_TREE_FILE, vb_text_lifespan, NULL},
	{PORT "/lid", VB_TREE_FILE, vb_text_lid, NULL},
	{PORT "/lid_mask_count", VB_TREE_FILE, vb_text_lid_mask_count, NULL},
	{PORT "/link_layer", VB_TREE_FILE, vb_text_link_layer, NULL},
	{PORT "/phys_state", VB_TREE_FILE, vb_text_phys_state, NULL},
	{PORT "/pkeys", VB_TREE_DIR, NULL, NULL},
	{PORT "/pkeys/%k", VB_TREE_FILE, vb_text_pkey, NULL},
	{PORT "/rate", VB_TREE_FILE, vb_text_rate, NULL},
	{PORT "/sm_lid", VB_TREE_FILE, vb_text_sm_lid, NULL},
	{PORT "/sm_sl", VB_TREE_FILE, vb_text_sm_sl, NULL},
	{PORT "/state", VB_TREE_FILE, vb_text_state, NULL},

	{"/dev", VB_TREE_MERGED, NULL, NULL},
	{"/dev/infiniband", VB_TREE_DIR, NULL, NULL},
	{"/dev/infiniband/rdma_cm", VB_TREE_CHAR, NULL, NULL},
	{"/dev/infiniband/%u", VB_TREE_CHAR, NULL, NULL},

	{"%H", VB_TREE_MERGED, NULL, NULL},
	{"%H/infiniband", VB_TREE_DIR, NULL, NULL},
	{"%H/infiniband/%d", VB_TREE_LINK, vb_link_host_ib, NULL},
	{"%H/infiniband_verbs", VB_TREE_DIR, NULL, NULL},
	{"%H/infiniband_verbs/%u", VB_TREE_LINK, vb_link_host_verbs, NULL},
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

static char host_paths[VB_DEVICES_MAX][PATH_MAX];
static pthread_once_t host_paths_once = PTHREAD_ONCE_INIT;

static void find_host_paths(void)
{
	char link[64], target[PATH_MAX];
	size_t count = 0;

	if (vb_devices(&count))
		return;
	for (size_t i = 0; i < count && i < VB_DEVICES_MAX; i++) {
		const struct vb_device *dev = vb_device_at(i);

		if (!dev->ifname[0] || strchr(dev->ifname, '/') || dev->ifname[0] == '.')
			continue;
		snprintf(link, sizeof(link), "/sys/class/net/%s/device", dev->ifname);
		if (realpath(link, target) && strncmp(target, "/sys/", 5) == 0)
			strcpy(host_paths[i], target);
	}
}

const char *vb_tree_host_path(const struct vb_device *dev)
{
	pthread_once(&host_paths_once, find_host_paths);
	return host_paths[dev->index];
}

/* Decimal as it stands in a file name: digits only, no zero in front. */
static bool number_below(const char *s, size_t len, uint32_t first, uint32_t end, uint32_t *n)
{
	uint64_t v = 0;

	if (!len || len > 9 || (s[0] == '0' && len > 1))
		return false;
	for (size_t i = 0; i < len; i++) {
		if (s[i] < '0' || s[i] > '9')
			return false;
		v = v * 10 + (uint64_t)(s[i] - '0');
	}
	*n = (uint32_t)v;
	return v >= first && v < end;
}

static bool same(const char *s, size_t len, const char *text)
{
	return strlen(text) == len && memcmp(s, text, len) == 0;
}

/* The text a placeholder of one value has; NULL for the others. */
static const char *single(char what, const struct vb_device *dev, char *buf, size_t size)
{
	switch (what) {
	case 'd':
		return dev->ibv.name;
	case 'u':
		snprintf(buf, size, "uverbs%u", dev->index);
		return buf;
	case 'i':
		return dev->ifname;
	default:
		return NULL;
	}
}

static uint32_t pkeys(const struct vb_device *dev)
{
	return vb_device_attr(dev)->orig_attr.max_pkeys;
}

static const char *counter_called(enum vb_counter_set set, const char *s, size_t len)
{
	const char *name;

	for (size_t i = 0; (name = vb_counters_name(set, i)); i++)
		if (same(s, len, name))
			return name;
	return NULL;
}

/* Whether a component fits a placeholder; the node remembers for which value. */
static bool fits(char what, const char *s, size_t len, struct vb_tree_node *node)
{
	char buf[32];
	const char *text;

	if (!node->dev)
		return false;
	text = single(what, node->dev, buf, sizeof(buf));
	if (text)
		return same(s, len, text);
	switch (what) {
	case 'p':
		return number_below(s, len, VB_PORT, VB_PORT + 1, &node->port);
	case 'g':
		return number_below(s, len, 0, node->dev->gid_tbl_len, &node->index);
	case 'k':
		return number_below(s, len, 0, pkeys(node->dev), &node->index);
	default:
		node->counter =
			counter_called(what == 'c' ? VB_COUNTERS_HW : VB_COUNTERS_PORT, s, len);
		return node->counter;
	}
}

/* Match a path of a given length against a pattern of a given length. */
static bool match(const char *pattern, size_t plen, const char *path, size_t len,
		  struct vb_tree_node *node)
{
	const char *pend = pattern + plen, *end = path + len;

	if (plen >= 2 && memcmp(pattern, "%H", 2) == 0) {
		const char *host = node->dev ? vb_tree_host_path(node->dev) : "";
		size_t n = strlen(host);

		if (!n || n > len || memcmp(path, host, n) != 0)
			return false;
		pattern += 2;
		path += n;
	}
	while (pattern < pend && path < end) {
		if (*pattern == '%') {
			size_t n = strcspn(path, "/");

			if (path + n > end)
				n = (size_t)(end - path);
			if (!fits(pattern[1], path, n, node))
				return false;
			pattern += 2;
			path += n;
		} else if (*pattern++ != *path++) {
			return false;
		}
	}
	return pattern == pend && path == end;
}

static bool needs_device(const struct vb_tree_row *row)
{
	return strchr(row->pattern, '%');
}

/* Match a row for each device it may be about, and go on from the one given. */
static bool match_row(const struct vb_tree_row *row, size_t plen, const char *path, size_t len,
		      size_t *device, struct vb_tree_node *node)
{
	bool any = !needs_device(row);
	size_t count = 1;

	if (!any && vb_devices(&count))
		return false;
	while (*device < count) {
		struct vb_device *dev = any ? NULL : vb_device_at(*device);

		(*device)++;
		*node = (struct vb_tree_node){.row = row, .kind = row->kind, .dev = dev};
		if (match(row->pattern, plen, path, len, node) &&
		    (!row->present || row->present(dev)))
			return true;
	}
	return false;
}

int vb_tree_lookup(const char *path, struct vb_tree_node *node)
{
	size_t len = strlen(path);

	for (size_t i = 0; i < ROWS; i++) {
		size_t device = 0;

		if (match_row(&rows[i], strlen(rows[i].pattern), path, len, &device, node))
			return 0;
	}
	return -ENOENT;
}

struct listing {
	bool (*visit)(const char *name, const struct vb_tree_node *node, void *arg);
	void *arg;
};

static bool list_counters(const struct listing *list, struct vb_tree_node *node,
			  enum vb_counter_set set)
{
	for (size_t i = 0; (node->counter = vb_counters_name(set, i)); i++)
		if (!list->visit(node->counter, node, list->arg))
			return false;
	return true;
}

static bool list_numbers(const struct listing *list, struct vb_tree_node *node, uint32_t *which,
			 uint32_t first, uint32_t end)
{
	char name[16];

	for (*which = first; *which < end; (*which)++) {
		snprintf(name, sizeof(name), "%u", *which);
		if (!list->visit(name, node, list->arg))
			return false;
	}
	return true;
}

/* Every entry that the last component of a pattern stands for. */
static bool list_last(const struct listing *list, const char *last, struct vb_tree_node *node)
{
	char buf[32];
	const char *text = last;

	if (last[0] == '%' && node->dev)
		text = single(last[1], node->dev, buf, sizeof(buf));
	if (text || !node->dev)
		return list->visit(text, node, list->arg);
	switch (last[1]) {
	case 'p':
		return list_numbers(list, node, &node->port, VB_PORT, VB_PORT + 1);
	case 'g':
		return list_numbers(list, node, &node->index, 0, node->dev->gid_tbl_len);
	case 'k':
		return list_numbers(list, node, &node->index, 0, pkeys(node->dev));
	default:
		return list_counters(list, node,
				     last[1] == 'c' ? VB_COUNTERS_HW : VB_COUNTERS_PORT);
	}
}

void vb_tree_list(const char *path,
		  bool (*visit)(const char *name, const struct vb_tree_node *node, void *arg),
		  void *arg)
{
	const struct listing list = {visit, arg};
	size_t len = strlen(path);

	for (size_t i = 0; i < ROWS; i++) {
		const char *slash = strrchr(rows[i].pattern, '/');
		struct vb_tree_node node;
		size_t device = 0, count = 0;

		if (!slash || slash == rows[i].pattern)
			continue;
		/* An entry with a fixed name in a folder that several devices share
		 * stands there once.
		 */
		while (match_row(&rows[i], (size_t)(slash - rows[i].pattern), path, len, &device,
				 &node)) {
			if (slash[1] != '%' && count++)
				break;
			if (!list_last(&list, slash + 1, &node))
				return;
		}
	}
}

int vb_tree_read(const struct vb_tree_node *node, const char *path, char *text)
{
	return node->row->text ? node->row->text(node, path, text) : -EINVAL;
}

uint64_t vb_tree_number(const char *path)
{
	uint64_t h = 0xcbf29ce484222325ull;

	for (; *path; path++)
		h = (h ^ (unsigned char)*path) * 0x100000001b3ull;
	/* The top bits keep clear of the numbers real file systems give, and of the sign. */
	return (h >> 2) | (1ull << 62);
}

static bool count_dirs(const char *name, const struct vb_tree_node *node, void *arg)
{
	*(nlink_t *)arg += node->kind == VB_TREE_DIR || node->kind == VB_TREE_MERGED;
	return true;
}

void vb_tree_stat(const struct vb_tree_node *node, const char *path, struct stat *st)
{
	memset(st, 0, sizeof(*st));
	st->st_ino = (ino_t)vb_tree_number(path);
	st->st_nlink = 1;
	st->st_blksize = 4096;
	switch (node->kind) {
	case VB_TREE_DIR:
	case VB_TREE_MERGED:
		st->st_mode = S_IFDIR | 0755;
		st->st_nlink = 2;
		vb_tree_list(path, count_dirs, &st->st_nlink);
		break;
	case VB_TREE_FILE:
		st->st_mode = S_IFREG | 0444;
		st->st_size = 4096;
		break;
	case VB_TREE_LINK:
		st->st_mode = S_IFLNK | 0777;
		break;
	case VB_TREE_CHAR:
		st->st_mode = S_IFCHR | 0666;
		st->st_rdev = node->dev ? makedev(VB_TREE_VERBS_MAJOR,
						  VB_TREE_VERBS_MINOR + node->dev->index)
					: makedev(VB_TREE_CM_MAJOR, VB_TREE_CM_MINOR);
		break;
	}
}

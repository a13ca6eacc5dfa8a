/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/query.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/rules.h"
#include "engine/engine.h"
#include "host/discover.h"
#include "object/context.h"
#include "verbs/check.h"
#include "verbs/newer.h"

#undef ibv_query_port

/* Values of enum ibv_gid_type_sysfs, as ibv_query_gid_type() gives them. */
enum { GID_SYSFS_IB_ROCE_V1, GID_SYSFS_ROCE_V2 };

static_assert(sizeof(struct ibv_device_attr) == 232, "what every program has");

static struct vb_device *device_of(struct ibv_context *context)
{
	return vb_context_of(context)->device;
}

/* Fills the caller's struct to its end and no further. */
static void copy_out(void *to, size_t to_size, const void *from, size_t from_size)
{
	size_t n = to_size < from_size ? to_size : from_size;

	memcpy(to, from, n);
	memset((char *)to + n, 0, to_size - n);
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *device_attr)
{
	int err = vb_check_device(vb_context_of(context), "ibv_query_device");

	if (err)
		return err;
	memcpy(device_attr, &device_of(context)->attr.orig_attr, sizeof(*device_attr));
	return 0;
}

int vb_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
		       struct ibv_device_attr_ex *attr, size_t size)
{
	const struct ibv_device_attr_ex *ours = vb_device_attr(device_of(context));

	int err = vb_check_device(vb_context_of(context), "ibv_query_device_ex");

	if (err)
		return err;
	if ((input && input->comp_mask) || size < sizeof(ours->orig_attr))
		return vb_fail(VB_RULE_QUERY_DEVICE_INPUT, "comp_mask=0x%x size=%zu",
			       input ? input->comp_mask : 0, size);
	copy_out(attr, size, ours, sizeof(*ours));
	return 0;
}

static int query_port(struct ibv_context *context, uint32_t port, void *attr, size_t size)
{
	struct vb_device *dev = device_of(context);
	struct vb_port_facts facts;
	struct vb_port_attr full = {0};
	int err = vb_check_device(vb_context_of(context), "ibv_query_port");

	if (err)
		return err;
	if (vb_device_port(dev, port, &facts))
		return vb_fail(VB_RULE_PORT_RANGE, "%s port=%u", dev->ibv.name, port);
	if (atomic_load(&vb_context_of(context)->engine->port_down)) {
		facts.attr.state = IBV_PORT_DOWN;
		facts.attr.phys_state = VB_PHYS_POLLING;
	}
	memcpy(full.base, &facts.attr, sizeof(full.base));
	full.port_cap_flags2 = facts.attr.port_cap_flags2;
	full.active_speed_ex = facts.active_speed_ex;
	copy_out(attr, size, &full, sizeof(full));
	return 0;
}

int vb_query_port_sized(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
			size_t size)
{
	return query_port(context, port, attr, size);
}

int ibv_query_port(struct ibv_context *context, uint8_t port_num,
		   struct _compat_ibv_port_attr *port_attr)
{
	return query_port(context, port_num, port_attr, VB_PORT_ATTR_SIZE_EXPORTED);
}

int ibv_query_port_speed(struct ibv_context *context, uint32_t port_num, uint64_t *port_speed)
{
	struct vb_device *dev = device_of(context);
	struct vb_port_facts facts;

	if (vb_device_port(dev, port_num, &facts))
		return vb_fail(VB_RULE_PORT_RANGE, "%s port=%u", dev->ibv.name, port_num);
	*port_speed = facts.rate_mbps / 100;
	return 0;
}

/* Return: 0 or errno value. */
static int read_gid(struct ibv_context *context, uint32_t port, uint32_t index,
		    struct vb_gid_entry *entry)
{
	struct vb_device *dev = device_of(context);
	int err = vb_check_device(vb_context_of(context), "ibv_query_gid");

	if (err)
		return err;
	if (port != VB_PORT)
		return vb_fail(VB_RULE_PORT_RANGE, "%s port=%u", dev->ibv.name, port);
	if (vb_device_gid(dev, port, index, entry))
		return vb_fail(VB_RULE_GID_INDEX, "%s port=%u index=%u gid_tbl_len=%u",
			       dev->ibv.name, port, index, dev->gid_tbl_len);
	return 0;
}

int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid)
{
	struct vb_gid_entry entry;

	if (read_gid(context, port_num, (uint32_t)index, &entry))
		return -1;
	memcpy(gid->raw, entry.raw, sizeof(gid->raw));
	return 0;
}

int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
		       unsigned int *type)
{
	struct vb_gid_entry entry;

	if (read_gid(context, port_num, index, &entry))
		return -1;
	/* An empty entry is no failure here, and counts as the first type. */
	*type = entry.used && entry.type == VB_GID_ROCE_V2 ? GID_SYSFS_ROCE_V2
							   : GID_SYSFS_IB_ROCE_V1;
	return 0;
}

static void public_entry(const struct vb_gid_entry *ours, uint32_t port, uint32_t index,
			 struct ibv_gid_entry *entry)
{
	memset(entry, 0, sizeof(*entry));
	memcpy(entry->gid.raw, ours->raw, sizeof(entry->gid.raw));
	entry->gid_index = index;
	entry->port_num = port;
	entry->gid_type = ours->type;
	entry->ndev_ifindex = ours->ifindex;
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
	struct ibv_gid_entry full;
	struct vb_gid_entry ours;
	int err;

	if (flags)
		return vb_fail(VB_RULE_GID_FLAGS, "flags=0x%x", flags);
	err = read_gid(context, port_num, gid_index, &ours);
	if (err)
		return err;
	if (!ours.used)
		return vb_fail(VB_RULE_GID_EMPTY, "%s port=%u index=%u",
			       device_of(context)->ibv.name, port_num, gid_index);
	public_entry(&ours, port_num, gid_index, &full);
	copy_out(entry, entry_size, &full, sizeof(full));
	return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
			     size_t max_entries, uint32_t flags, size_t entry_size)
{
	struct vb_gid_entry ours[VB_GIDS_MAX];
	struct ibv_gid_entry full;
	size_t used = 0;
	int len;

	if (flags)
		return -vb_fail(VB_RULE_GID_FLAGS, "flags=0x%x", flags);
	len = -vb_check_device(vb_context_of(context), "ibv_query_gid_table");
	if (len)
		return len;
	len = vb_device_gids(device_of(context), VB_PORT, ours, VB_GIDS_MAX);
	for (int i = 0; i < len; i++)
		used += ours[i].used;
	if (used > max_entries || !entry_size)
		return -vb_fail(VB_RULE_GID_TABLE_SMALL, "max_entries=%zu used=%zu entry_size=%zu",
				max_entries, used, entry_size);
	for (int i = 0, at = 0; i < len; i++) {
		if (!ours[i].used)
			continue;
		public_entry(&ours[i], VB_PORT, (uint32_t)i, &full);
		copy_out((char *)entries + (size_t)at++ * entry_size, entry_size, &full,
			 sizeof(full));
	}
	return (ssize_t)used;
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey)
{
	if (vb_check_device(vb_context_of(context), "ibv_query_pkey"))
		return -1;
	if (port_num != VB_PORT)
		return vb_fail_minus1(VB_RULE_PORT_RANGE, "%s port=%u",
				      device_of(context)->ibv.name, (unsigned int)port_num);
	if (index)
		return vb_fail_minus1(VB_RULE_PKEY_INDEX, "index=%d pkey_tbl_len=1", index);
	*pkey = 0xffff;
	return 0;
}

int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey)
{
	__be16 ours;

	if (ibv_query_pkey(context, port_num, 0, &ours))
		return -1;
	if (ours != pkey)
		return vb_fail_minus1(VB_RULE_PKEY_UNKNOWN, "pkey=0x%04x",
				      (unsigned int)be16toh(pkey));
	return 0;
}

int vb_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
	struct timespec now;

	if (values->comp_mask & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK)
		return vb_fail(VB_RULE_COMP_MASK, "ibv_query_rt_values_ex comp_mask=0x%x",
			       values->comp_mask);
	if (values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		values->raw_clock.tv_sec = 0;
		values->raw_clock.tv_nsec = now.tv_sec * 1000000000L + now.tv_nsec;
	}
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "object/gid.h"

#include <string.h>

static const uint8_t v4_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

static const uint8_t loopback_v4[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};

bool vb_gid_is_v4(const uint8_t raw[16])
{
	return !memcmp(raw, v4_prefix, sizeof(v4_prefix));
}

bool vb_gid_is_link_local(const uint8_t raw[16])
{
	return raw[0] == 0xfe && (raw[1] & 0xc0) == 0x80;
}

bool vb_gid_is_multicast(const uint8_t raw[16])
{
	return raw[0] == 0xff || (vb_gid_is_v4(raw) && raw[12] >> 4 == 0xe);
}

void vb_gid_from_mac(const uint8_t mac[6], uint8_t raw[16])
{
	memset(raw, 0, 16);
	raw[0] = 0xfe;
	raw[1] = 0x80;
	memcpy(raw + 8, mac, 3);
	raw[8] ^= 2;
	raw[11] = 0xff;
	raw[12] = 0xfe;
	memcpy(raw + 13, mac + 3, 3);
}

void vb_gid_table_init(struct vb_gid_table *table, uint32_t len, enum vb_gid_order order)
{
	uint32_t least = order == VB_GID_ORDER_MLX5 ? 2 : 1;

	memset(table, 0, sizeof(*table));
	table->len = len > VB_GIDS_MAX ? VB_GIDS_MAX : len < least ? least : len;
	table->order = order;
}

/* Entries an address takes, side by side. */
static uint32_t width_of(const struct vb_gid_table *table)
{
	return table->order == VB_GID_ORDER_MLX5 ? 2 : 1;
}

static void put(struct vb_gid_table *table, uint32_t at, const uint8_t raw[16])
{
	uint32_t width = width_of(table);

	for (uint32_t i = 0; i < width; i++) {
		memcpy(table->entry[at + i].raw, raw, 16);
		table->entry[at + i].used = true;
		table->entry[at + i].type = i + 1 < width ? VB_GID_ROCE_V1 : VB_GID_ROCE_V2;
	}
}

static void drop(struct vb_gid_table *table, uint32_t at)
{
	memset(&table->entry[at], 0, width_of(table) * sizeof(table->entry[at]));
}

/* The GID of index 0. */
static void front_gid(const struct vb_link *link, uint8_t raw[16])
{
	for (uint32_t i = 0; i < link->n_addrs; i++) {
		if (vb_gid_is_link_local(link->addrs[i])) {
			memcpy(raw, link->addrs[i], 16);
			return;
		}
	}
	vb_gid_from_mac(link->mac, raw);
}

static bool link_has(const struct vb_link *link, const uint8_t raw[16])
{
	if (link->loopback && !memcmp(raw, loopback_v4, 16))
		return true;
	for (uint32_t i = 0; i < link->n_addrs; i++)
		if (!memcmp(link->addrs[i], raw, 16))
			return true;
	return false;
}

static bool table_has(const struct vb_gid_table *table, const uint8_t raw[16])
{
	for (uint32_t i = 0; i < table->len; i++)
		if (table->entry[i].used && !memcmp(table->entry[i].raw, raw, 16))
			return true;
	return false;
}

static bool add(struct vb_gid_table *table, const uint8_t raw[16])
{
	uint32_t width = width_of(table);

	if (table_has(table, raw))
		return false;
	for (uint32_t at = 0; at + width <= table->len; at += width) {
		if (!table->entry[at].used) {
			put(table, at, raw);
			return true;
		}
	}
	return false;
}

static bool drop_gone(struct vb_gid_table *table, const struct vb_link *link)
{
	uint32_t width = width_of(table);
	bool changed = false;

	for (uint32_t at = width; at + width <= table->len; at += width) {
		if (table->entry[at].used &&
		    (!link_has(link, table->entry[at].raw) ||
		     !memcmp(table->entry[at].raw, table->entry[0].raw, 16))) {
			drop(table, at);
			changed = true;
		}
	}
	return changed;
}

bool vb_gid_table_update(struct vb_gid_table *table, const struct vb_link *link)
{
	uint8_t front[16];
	bool changed = false;

	/* An interface that is gone keeps its place at the front, as its MAC is unknown. */
	if (link->ifindex || !table->entry[0].used) {
		front_gid(link, front);
		/* A link-local address in use stays, though another came before it. */
		if (!table->entry[0].used || (memcmp(table->entry[0].raw, front, 16) &&
					      !link_has(link, table->entry[0].raw))) {
			put(table, 0, front);
			changed = true;
		}
	}
	changed |= drop_gone(table, link);
	/* A message to oneself needs no address of the kernel's: ::ffff:127.0.0.1 is always there.
	 */
	if (link->loopback)
		changed |= add(table, loopback_v4);
	for (int v4 = 1; v4 >= 0; v4--)
		for (uint32_t i = 0; i < link->n_addrs; i++)
			if (vb_gid_is_v4(link->addrs[i]) == (v4 == 1))
				changed |= add(table, link->addrs[i]);
	return changed;
}

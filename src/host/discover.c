/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/discover.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/forkguard.h"
#include "base/settings.h"
#include "host/netdev.h"
#include "host/netwatch.h"

#define DEFAULT_NAME "verbena0"
#define PROBLEMS_MAX 16

/*
 * What is known of a port between two looks. Two copies, and a word that says which
 * is whole: a child made by fork in the middle of an update finds the other one.
 */
struct port {
	struct vb_link link;
	struct vb_gid_table gids;
};

static struct {
	_Atomic bool found;
	size_t count;
	struct vb_device device[VB_DEVICES_MAX];
	struct port port[VB_DEVICES_MAX][2];
	_Atomic uint8_t whole[VB_DEVICES_MAX];
	struct vb_netnews news;
	bool holds[VB_DEVICES_MAX]; /* what is known, unless there is news */
	uint64_t n_news;
	char problem[PROBLEMS_MAX][160];
	size_t n_problems;
} all;

/* One device as the settings want it. */
struct wish {
	char name[IBV_SYSFS_NAME_MAX];
	char netdev[IF_NAMESIZE];
};

__attribute__((format(printf, 1, 2))) static void add_problem(const char *fmt, ...)
{
	va_list ap;

	if (all.n_problems == PROBLEMS_MAX)
		return;
	va_start(ap, fmt);
	vsnprintf(all.problem[all.n_problems++], sizeof(all.problem[0]), fmt, ap);
	va_end(ap);
}

static bool is_wished(const struct wish *wishes, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(wishes[i].name, name))
			return true;
	return false;
}

/* Takes one "NAME[:INTERFACE]" of @len bytes; what cannot be a device is left out. */
static bool parse_wish(const char *text, size_t len, struct wish *wish)
{
	const char *colon = memchr(text, ':', len);
	size_t name_len = colon ? (size_t)(colon - text) : len;
	size_t dev_len = colon ? len - name_len - 1 : 0;

	memset(wish, 0, sizeof(*wish));
	if (name_len >= sizeof(wish->name) || dev_len >= sizeof(wish->netdev))
		return false;
	memcpy(wish->name, text, name_len);
	if (dev_len)
		memcpy(wish->netdev, colon + 1, dev_len);
	return vb_device_name_valid(wish->name);
}

static size_t wishes_of_list(const char *list, struct wish *wishes)
{
	size_t n = 0;

	while (n < VB_DEVICES_MAX) {
		list += strspn(list, ", \t");
		if (!*list)
			break;
		size_t len = strcspn(list, ", \t");

		if (!parse_wish(list, len, &wishes[n]))
			add_problem("DEVICES: \"%.*s\" cannot be a device", (int)len, list);
		else if (is_wished(wishes, n, wishes[n].name))
			add_problem("DEVICES: %s is there twice", wishes[n].name);
		else
			n++;
		list += len;
	}
	return n;
}

static size_t wishes_of_sections(struct wish *wishes)
{
	const char *name;
	size_t n = 0;

	for (size_t i = 0; n < VB_DEVICES_MAX && (name = vb_setting_section(i)); i++)
		if (parse_wish(name, strlen(name), &wishes[n]) && !strchr(name, ':'))
			n++;
		else
			add_problem("section [%s]: cannot be a device", name);
	return n;
}

static size_t read_wishes(struct wish *wishes)
{
	const char *list = vb_setting("DEVICES");
	size_t n = 0;

	if (list && !strcmp(list, "none"))
		return 0;
	if (list)
		n = wishes_of_list(list, wishes);
	if (!n)
		n = wishes_of_sections(wishes);
	if (!n) {
		parse_wish(DEFAULT_NAME, strlen(DEFAULT_NAME), &wishes[0]);
		n = 1;
	}
	return n;
}

/* A shortage passes, and must not turn a device into another for good. */
static bool is_shortage(int err)
{
	return err == -EMFILE || err == -ENFILE || err == -ENOMEM || err == -ENOBUFS;
}

static int choose_link(const struct wish *wish, struct vb_link *link)
{
	const char *name = wish->netdev[0] ? wish->netdev : vb_setting_text(wish->name, "NETDEV");
	uint32_t ifindex = *name ? vb_netdev_find(name) : 0;
	int err = 0;

	if (!ifindex)
		err = vb_netdev_default(&ifindex);
	if (!err)
		err = vb_netdev_read(ifindex, link);
	if (is_shortage(err))
		return err;
	if (err) {
		add_problem("%s: the interfaces cannot be read (%s), loopback only", wish->name,
			    strerror(-err));
		vb_netdev_fallback(link);
	}
	/* An interface that is not there is like none named. */
	if (*name && strcmp(name, link->name))
		add_problem("%s: there is no interface %s, using %s", wish->name, name, link->name);
	return 0;
}

static int find_devices(void)
{
	struct wish wishes[VB_DEVICES_MAX];
	size_t n;

	all.n_problems = 0;
	n = read_wishes(wishes);

	for (size_t i = 0; i < n; i++) {
		struct vb_device *dev = &all.device[i];
		struct port *port = &all.port[i][0];
		int err = choose_link(&wishes[i], &port->link);

		if (err)
			return err;
		memset(dev, 0, sizeof(*dev));
		vb_device_setup(dev, (uint32_t)i, wishes[i].name, wishes[i].name, &port->link);
		vb_gid_table_init(&port->gids, dev->gid_tbl_len, dev->gid_order);
		vb_gid_table_update(&port->gids, &port->link);
		atomic_store(&all.whole[i], 0);
	}
	all.count = n;
	return 0;
}

int vb_devices(size_t *count)
{
	int err = 0;

	*count = 0;
	if (!atomic_load_explicit(&all.found, memory_order_acquire)) {
		pthread_mutex_t *lock = vb_fork_lock(VB_FORK_LOCK_DEVICES);

		pthread_mutex_lock(lock);
		if (!atomic_load_explicit(&all.found, memory_order_relaxed)) {
			err = find_devices();
			if (!err)
				atomic_store_explicit(&all.found, true, memory_order_release);
		}
		pthread_mutex_unlock(lock);
	}
	if (!err)
		*count = all.count;
	return err;
}

struct vb_device *vb_device_at(size_t index)
{
	return index < all.count ? &all.device[index] : NULL;
}

struct vb_device *vb_device_find(const char *name)
{
	size_t count;

	if (vb_devices(&count))
		return NULL;
	for (size_t i = 0; i < count; i++)
		if (!strcmp(all.device[i].ibv.name, name))
			return &all.device[i];
	return NULL;
}

const char *vb_devices_problem(size_t index)
{
	return index < all.n_problems ? all.problem[index] : NULL;
}

bool vb_device_is(const struct ibv_device *ibv)
{
	for (size_t i = 0; i < all.count; i++)
		if (&all.device[i].ibv == ibv)
			return true;
	return false;
}

void vb_devices_attend(void)
{
	pthread_mutex_t *lock = vb_fork_lock(VB_FORK_LOCK_DEVICES);

	pthread_mutex_lock(lock);
	vb_netnews_begin(&all.news);
	memset(all.holds, 0, sizeof(all.holds));
	pthread_mutex_unlock(lock);
}

void vb_devices_leave(void)
{
	pthread_mutex_t *lock = vb_fork_lock(VB_FORK_LOCK_DEVICES);

	pthread_mutex_lock(lock);
	vb_netnews_end(&all.news);
	pthread_mutex_unlock(lock);
}

/* With the devices' lock held. */
static void hear(void)
{
	if (vb_netnews_none(&all.news))
		return;
	memset(all.holds, 0, sizeof(all.holds));
	all.n_news++;
}

uint64_t vb_devices_news(void)
{
	pthread_mutex_t *lock = vb_fork_lock(VB_FORK_LOCK_DEVICES);
	uint64_t n;

	pthread_mutex_lock(lock);
	hear();
	n = all.n_news;
	pthread_mutex_unlock(lock);
	return n;
}

/* The port now, with the devices' lock held. Where the kernel cannot be asked, what
 * was known last holds. */
static const struct port *look(const struct vb_device *dev)
{
	uint8_t whole = atomic_load(&all.whole[dev->index]) & 1;
	struct port *now = &all.port[dev->index][whole];
	struct port *next = &all.port[dev->index][!whole];
	int err;

	hear();
	if (all.holds[dev->index])
		return now;
	err = vb_netdev_read(dev->ifindex, &next->link);
	if (err && err != -ENODEV)
		return now;
	all.holds[dev->index] = true;
	memcpy(&next->gids, &now->gids, sizeof(next->gids));
	vb_gid_table_update(&next->gids, &next->link);
	atomic_store(&all.whole[dev->index], !whole);
	return next;
}

static void fill_entry(const struct port *port, uint32_t index, struct vb_gid_entry *entry)
{
	memset(entry, 0, sizeof(*entry));
	entry->used = port->gids.entry[index].used;
	if (!entry->used)
		return;
	memcpy(entry->raw, port->gids.entry[index].raw, sizeof(entry->raw));
	entry->type = port->gids.entry[index].type;
	entry->ifindex = port->link.ifindex;
	memcpy(entry->ifname, port->link.name, sizeof(entry->ifname));
}

int vb_device_port(struct vb_device *dev, uint32_t port, struct vb_port_facts *facts)
{
	pthread_mutex_t *lock = vb_fork_lock(VB_FORK_LOCK_DEVICES);

	if (port != VB_PORT)
		return -EINVAL;
	pthread_mutex_lock(lock);
	vb_port_facts_fill(dev, &look(dev)->link, facts);
	pthread_mutex_unlock(lock);
	return 0;
}

int vb_device_gid(struct vb_device *dev, uint32_t port, uint32_t index, struct vb_gid_entry *entry)
{
	pthread_mutex_t *lock = vb_fork_lock(VB_FORK_LOCK_DEVICES);

	if (port != VB_PORT || index >= dev->gid_tbl_len)
		return -EINVAL;
	pthread_mutex_lock(lock);
	fill_entry(look(dev), index, entry);
	pthread_mutex_unlock(lock);
	return 0;
}

int vb_device_gids(struct vb_device *dev, uint32_t port, struct vb_gid_entry *entries, size_t max)
{
	pthread_mutex_t *lock = vb_fork_lock(VB_FORK_LOCK_DEVICES);
	const struct port *now;

	if (port != VB_PORT)
		return -EINVAL;
	pthread_mutex_lock(lock);
	now = look(dev);
	for (uint32_t i = 0; i < dev->gid_tbl_len && i < max; i++)
		fill_entry(now, i, &entries[i]);
	pthread_mutex_unlock(lock);
	return (int)dev->gid_tbl_len;
}

int vb_device_gid_find(struct vb_device *dev, uint32_t port, const uint8_t raw[16], uint32_t type)
{
	pthread_mutex_t *lock = vb_fork_lock(VB_FORK_LOCK_DEVICES);
	const struct port *now;
	int found = -ENOENT;

	if (port != VB_PORT)
		return -ENOENT;
	pthread_mutex_lock(lock);
	now = look(dev);
	for (uint32_t i = 0; i < dev->gid_tbl_len && found < 0; i++)
		if (now->gids.entry[i].used && now->gids.entry[i].type == type &&
		    !memcmp(now->gids.entry[i].raw, raw, 16))
			found = (int)i;
	pthread_mutex_unlock(lock);
	return found;
}

bool vb_device_gid_known(const struct vb_device *dev, const uint8_t raw[16])
{
	pthread_mutex_t *lock = vb_fork_lock(VB_FORK_LOCK_DEVICES);
	const struct vb_gid_table *gids;
	bool found = false;

	pthread_mutex_lock(lock);
	gids = &all.port[dev->index][atomic_load(&all.whole[dev->index]) & 1].gids;
	for (uint32_t i = 0; i < dev->gid_tbl_len && !found; i++)
		found = gids->entry[i].used && gids->entry[i].type == VB_GID_ROCE_V2 &&
			!memcmp(gids->entry[i].raw, raw, 16);
	pthread_mutex_unlock(lock);
	return found;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* The devices of the library: opened once, shared by all ids. */
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "rdmacm/cm.h"

#define PORT 1

static struct cm_device devices[CM_DEVICES_MAX];
static int n_devices, n_listed;
static const uint8_t *guard; /* reads 0 where they are a parent's */

static bool open_one(struct ibv_device *from, struct cm_device *device)
{
	memset(device, 0, sizeof(*device));
	device->verbs = ibv_open_device(from);
	if (!device->verbs)
		return false;
	return !ibv_query_device(device->verbs, &device->attr);
}

static void open_all(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	n_devices = n_listed = 0;
	while (list && list[n_listed])
		n_listed++;
	for (int i = 0; i < n_listed && n_devices < CM_DEVICES_MAX; i++)
		if (open_one(list[i], &devices[n_devices]))
			n_devices++;
	ibv_free_device_list(list);
	guard = vb_fork_guard();
}

int cm_devices(struct cm_device **out)
{
	pthread_mutex_t *lock = vb_fork_lock(VB_FORK_LOCK_CM_DEVICES);
	int n;

	pthread_mutex_lock(lock);
	/* One may come later: no device is looked for again. */
	if (!guard || !*guard || !n_devices)
		open_all();
	n = n_devices;
	pthread_mutex_unlock(lock);
	*out = devices;
	if (!n)
		vb_fail(VB_RULE_CM_NO_DEVICE,
			n_listed ? "%d in the list, none of which could be opened"
				 : "%d in the list of ibv_get_device_list",
			n_listed);
	return n;
}

static bool has_gid(struct cm_device *device, const uint8_t *gid)
{
	return vb_agent_gid_index(device->verbs, gid) >= 0;
}

struct cm_device *cm_device_of_gid(const uint8_t *gid)
{
	struct cm_device *all;
	int n = cm_devices(&all);

	for (int i = 0; i < n; i++)
		if (has_gid(&all[i], gid))
			return &all[i];
	return NULL;
}

bool cm_device_usable_gid(struct cm_device *device, bool v6, uint8_t *gid)
{
	struct ibv_port_attr port;
	bool found = false;

	if (ibv_query_port(device->verbs, PORT, &port))
		return false;
	for (int i = 0; i < port.gid_tbl_len; i++) {
		static const uint8_t none[16], mapped[12] = {[10] = 0xff, [11] = 0xff};
		union ibv_gid one;
		bool is_v4;

		if (ibv_query_gid(device->verbs, PORT, i, &one) || !memcmp(one.raw, none, 16))
			continue;
		is_v4 = !memcmp(one.raw, mapped, sizeof(mapped));
		if (!found || is_v4 == !v6)
			memcpy(gid, one.raw, 16);
		found = true;
		if (is_v4 == !v6)
			break;
	}
	return found;
}

struct ibv_pd *cm_device_pd(struct cm_device *device)
{
	pthread_mutex_t *lock = vb_fork_lock(VB_FORK_LOCK_CM_DEVICES);

	pthread_mutex_lock(lock);
	if (!device->pd)
		device->pd = ibv_alloc_pd(device->verbs);
	pthread_mutex_unlock(lock);
	return device->pd;
}

struct ibv_context **rdma_get_devices(int *num_devices)
{
	struct cm_device *all;
	struct ibv_context **list;
	int n = cm_devices(&all);

	if (num_devices)
		*num_devices = n;
	if (!n)
		return NULL;
	list = calloc((size_t)n + 1, sizeof(struct ibv_context *));
	if (!list)
		return vb_fail_null(VB_RULE_CM_MEMORY, "a list of %d devices", n);
	for (int i = 0; i < n; i++)
		list[i] = all[i].verbs;
	return list;
}

void rdma_free_devices(struct ibv_context **list)
{
	free((void *)list);
}

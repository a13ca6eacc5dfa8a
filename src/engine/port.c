/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/port.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/agent.h"
#include "host/async.h"
#include "host/discover.h"
#include "host/netwatch.h"
#include "object/device.h"

/* What a port looks like. */
struct look {
	bool active;
	uint32_t ifindex; /* 0: the interface is gone */
	uint8_t mac[6];
	int n_gids;
	struct vb_gid_entry gids[VB_GIDS_MAX];
};

struct vb_port_watch {
	int fd;
	struct vb_device *dev;
	struct look last, now;
};

static void look(struct vb_device *dev, struct look *look)
{
	struct vb_port_facts facts;

	memset(look, 0, sizeof(*look));
	if (!vb_device_port(dev, VB_PORT, &facts)) {
		look->active = facts.attr.state == IBV_PORT_ACTIVE;
		look->ifindex = facts.ifindex;
		memcpy(look->mac, facts.mac, sizeof(look->mac));
	}
	look->n_gids = vb_device_gids(dev, VB_PORT, look->gids, VB_GIDS_MAX);
	if (look->n_gids < 0)
		look->n_gids = 0;
}

static bool same_gids(const struct look *a, const struct look *b)
{
	if (a->n_gids != b->n_gids)
		return false;
	for (int i = 0; i < a->n_gids; i++)
		if (a->gids[i].used != b->gids[i].used ||
		    (a->gids[i].used && (a->gids[i].type != b->gids[i].type ||
					 memcmp(a->gids[i].raw, b->gids[i].raw, 16))))
			return false;
	return true;
}

void vb_port_watch_open(struct vb_engine *engine)
{
	struct vb_port_watch *watch;
	struct vb_device *dev = vb_device_find(engine->adapter->device);

	if (engine->port || !dev)
		return;
	watch = calloc(1, sizeof(*watch));
	if (!watch)
		return;
	watch->dev = dev;
	watch->fd = vb_netwatch_open(false);
	if (watch->fd < 0) {
		free(watch);
		return;
	}
	vb_devices_attend();
	look(dev, &watch->last);
	engine->port = watch;
}

void vb_port_watch_close(struct vb_engine *engine)
{
	if (!engine->port)
		return;
	vb_devices_leave();
	close(engine->port->fd);
	free(engine->port);
	engine->port = NULL;
}

int vb_port_watch_fd(const struct vb_engine *engine)
{
	return engine->port ? engine->port->fd : -1;
}

struct news {
	const struct vb_engine *engine;
	enum ibv_event_type type;
};

static int tell_one(struct vb_context *ctx, void *arg)
{
	const struct news *news = arg;

	if (ctx->engine == news->engine)
		vb_async_post(ctx, news->type, VB_PORT);
	return 0;
}

static void tell(const struct vb_engine *engine, enum ibv_event_type type)
{
	struct news news = {engine, type};

	vb_engine_each_context(tell_one, &news);
}

void vb_port_watch_run(struct vb_engine *engine)
{
	struct vb_port_watch *watch = engine->port;

	if (!watch || !vb_netwatch_changed(watch->fd, watch->last.ifindex, watch->dev->ifname))
		return;
	look(watch->dev, &watch->now);
	/* While it is down on demand, it is down. */
	if (watch->last.active != watch->now.active && !atomic_load(&engine->port_down))
		tell(engine, watch->now.active ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
	if (!same_gids(&watch->last, &watch->now))
		tell(engine, IBV_EVENT_GID_CHANGE);
	if (watch->last.ifindex && !watch->now.ifindex)
		vb_agent_device_news(engine, VB_AGENT_REMOVED);
	else if (watch->now.ifindex &&
		 memcmp(watch->last.mac, watch->now.mac, sizeof(watch->now.mac)))
		vb_agent_device_news(engine, VB_AGENT_ADDR_CHANGED);
	watch->last = watch->now;
}

void vb_port_fault(struct vb_engine *engine, bool down)
{
	struct vb_device *dev = vb_device_find(engine->adapter->device);
	struct vb_port_facts facts;

	if (atomic_exchange(&engine->port_down, down) == down)
		return;
	if (dev && !vb_device_port(dev, VB_PORT, &facts) && facts.attr.state == IBV_PORT_ACTIVE)
		tell(engine, down ? IBV_EVENT_PORT_ERR : IBV_EVENT_PORT_ACTIVE);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Ports of this process's ids. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "engine/agent_impl.h"

static bool same(const struct vb_cmport *a, const struct vb_cmport *b)
{
	return a->space == b->space && a->port == b->port && a->any == b->any && a->v6 == b->v6 &&
	       a->only6 == b->only6 && !memcmp(a->addr, b->addr, sizeof(a->addr));
}

static struct vb_agent_port *find(struct vb_agent *agent, const struct vb_cmport *at)
{
	struct vb_agent_port *p;

	for (p = agent->ports; p; p = p->next)
		if (same(&p->at, at))
			return p;
	return NULL;
}

static bool listened(struct vb_agent *agent, const struct vb_agent_port *port)
{
	for (struct vb_agent_id *id = agent->listeners; id; id = id->next_listener)
		if (id->port == port)
			return true;
	return false;
}

static int open_port(struct vb_agent *agent, const struct vb_cmport *at, struct vb_agent_port **out)
{
	struct epoll_event event = {.events = EPOLLIN};
	struct vb_agent_port *port = calloc(1, sizeof(*port));
	int err;

	if (!port)
		return -ENOMEM;
	err = vb_cmport_claim(agent->engine->adapter->device, at, &port->fd);
	if (err) {
		free(port);
		return err;
	}
	event.data.fd = port->fd;
	if (epoll_ctl(agent->poll_fd, EPOLL_CTL_ADD, port->fd, &event)) {
		err = -errno;
		close(port->fd);
		free(port);
		return err;
	}
	port->at = *at;
	port->users = 1;
	port->next = agent->ports;
	agent->ports = port;
	*out = port;
	return 0;
}

void vb_agent_release_port(struct vb_agent *agent, struct vb_agent_port *port)
{
	if (--port->users)
		return;
	for (struct vb_agent_port **at = &agent->ports; *at; at = &(*at)->next)
		if (*at == port) {
			*at = port->next;
			break;
		}
	vb_agent_close_fd(agent, port->fd);
	free(port);
}

struct vb_agent_port *vb_agent_hold_port(struct vb_agent *agent, int fd, bool *ours)
{
	struct vb_agent_port *port;

	for (port = agent->ports; port && port->fd != fd; port = port->next)
		;
	*ours = port != NULL;
	if (port)
		port->users++;
	/* These stay. */
	for (struct vb_agent_chosen *c = agent->chosen; c && !*ours; c = c->next)
		*ours = c->fd == fd;
	return port;
}

/* ---- Chosen ones ---- */

/* Who connects may have the number of somebody's listener: connections are told apart by their
 * ids. Who may listen claims it. */
static int choose_in(struct vb_agent_chosen *c, uint16_t *number)
{
	for (uint32_t i = 0; i < VB_CMPORT_BLOCK; i++) {
		if (c->used & 1ull << i)
			continue;
		c->used |= 1ull << i;
		*number = (uint16_t)(c->base + i);
		return 0;
	}
	return -EADDRINUSE;
}

/* Requests may come before an id listens on a port that was chosen for it. */
static int open_chosen(struct vb_agent *agent, struct vb_agent_chosen *c, uint32_t first)
{
	struct epoll_event event = {.events = EPOLLIN};
	int err = vb_cmport_claim_block(agent->engine->adapter->device, c->space, first & 0xffffff,
					&c->base, &c->fd);

	if (err)
		return err;
	event.data.fd = c->fd;
	if (epoll_ctl(agent->poll_fd, EPOLL_CTL_ADD, c->fd, &event)) {
		err = -errno;
		close(c->fd);
	}
	return err;
}

static int choose(struct vb_agent *agent, uint16_t space, struct vb_agent_chosen **out,
		  uint16_t *number)
{
	struct vb_agent_chosen *c;
	uint32_t first;
	int err;

	for (c = agent->chosen; c; c = c->next)
		if (c->space == space && c->used != UINT64_MAX && !choose_in(c, number)) {
			*out = c;
			return 0;
		}
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	/* At random, so that a process that follows does not get the same ports. */
	memcpy(&first, agent->engine->adapter->id, sizeof(first));
	c->space = space;
	err = open_chosen(agent, c, first);
	if (err) {
		free(c);
		return err;
	}
	c->next = agent->chosen;
	agent->chosen = c;
	*out = c;
	return choose_in(c, number);
}

/* ---- Ids ---- */

static int excludes(void *object, void *arg)
{
	const struct vb_agent_id *id = object;
	const struct vb_cmport *at = arg;

	return id->chosen && !id->port && id->at.space == at->space && id->at.port == at->port &&
	       vb_cmport_conflict(&id->at, at);
}

/* By a connection of this process, whose number has no socket. */
static bool chosen(struct vb_agent *agent, struct vb_cmport *at)
{
	for (struct vb_agent_chosen *c = agent->chosen; c; c = c->next)
		if (c->space == at->space && at->port >= c->base &&
		    at->port < c->base + VB_CMPORT_BLOCK && c->used & 1ull << (at->port - c->base))
			return vb_idtable_each(&agent->ids, excludes, at) != 0;
	return false;
}

static int bind_number(struct vb_agent_id *id, struct vb_cmport *at, bool reuse)
{
	struct vb_agent_port *port = find(id->agent, at);
	int err;

	if (port) {
		if (!reuse || !port->reuse || listened(id->agent, port))
			return -EADDRINUSE;
		port->users++;
		id->port = port;
		return 0;
	}
	if (chosen(id->agent, at))
		return -EADDRINUSE;
	err = open_port(id->agent, at, &id->port);
	if (!err)
		id->port->reuse = reuse;
	return err;
}

/* What another has bound at this address stays marked, and is not tried again. */
static int bind_chosen(struct vb_agent_id *id, struct vb_cmport *at, bool claim)
{
	struct vb_agent_chosen *from;
	int err;

	do {
		err = choose(id->agent, at->space, &from, &at->port);
		if (err)
			return err;
		if (claim)
			err = open_port(id->agent, at, &id->port);
	} while (err == -EADDRINUSE);
	if (err)
		from->used &= ~(1ull << (at->port - from->base));
	else
		id->chosen = from;
	return err;
}

int vb_agent_bind(struct vb_agent_id *id, struct vb_agent_bind *bind)
{
	struct vb_cmport at = {.space = bind->space,
			       .port = bind->port,
			       .any = bind->any,
			       .v6 = bind->v6,
			       .only6 = bind->only6};
	int err = 0;

	if (!at.any)
		memcpy(at.addr, bind->addr, sizeof(at.addr));
	pthread_mutex_lock(&id->agent->lock);
	if (id->bound)
		err = -EINVAL;
	else if (at.port)
		err = bind_number(id, &at, bind->reuse);
	else
		err = bind_chosen(id, &at, bind->claim);
	if (!err) {
		id->bound = true;
		id->bound_ns = vb_now_ns();
		id->at = at;
		bind->port = at.port;
	}
	pthread_mutex_unlock(&id->agent->lock);
	return err;
}

void vb_agent_unbind(struct vb_agent_id *id)
{
	if (id->port)
		vb_agent_release_port(id->agent, id->port);
	if (id->chosen)
		id->chosen->used &= ~(1ull << (id->at.port - id->chosen->base));
	id->port = NULL;
	id->chosen = NULL;
	id->bound = false;
}

int vb_agent_listen(struct vb_agent_id *id)
{
	struct vb_agent *agent = id->agent;
	int err = 0;

	pthread_mutex_lock(&agent->lock);
	if (!id->bound || id->conn.state != VB_CM_IDLE)
		err = -EINVAL;
	else if (!id->port)
		err = open_port(agent, &id->at, &id->port);
	else if (!id->listening && listened(agent, id->port))
		err = -EADDRINUSE;
	if (!err && !id->listening) {
		id->listening = true;
		id->next_listener = agent->listeners;
		agent->listeners = id;
	}
	pthread_mutex_unlock(&agent->lock);
	return err;
}

void vb_agent_close_ports(struct vb_agent *agent)
{
	struct vb_agent_port *port;
	struct vb_agent_chosen *c;

	while ((port = agent->ports)) {
		agent->ports = port->next;
		close(port->fd);
		free(port);
	}
	while ((c = agent->chosen)) {
		agent->chosen = c->next;
		close(c->fd);
		free(c);
	}
}

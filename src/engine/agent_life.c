/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who dies says nothing any more, so the processes of a host that are connected notice it: each
 * holds a stream to a socket that stands for the other one's life, which the kernel ends with it.
 * The other end accepts and keeps. The name of who comes tells it which process begins a
 * connection: it maps that one's memory while it waits for the answer, and needs no stream of its
 * own to it.
 *
 * Who has no descriptor left tries again by the timer, for both. What waits to be accepted shows
 * the end too.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "engine/agent_impl.h"
#include "engine/reach.h"
#include "engine/wire.h"

#define BACKLOG 4096
/* Messages in the queue of a socket, at most, as systems are set up. */
#define LAST_WORDS 1024

/* A name that begins with the one of a block. */
static socklen_t name_below(uint32_t block, const char *rest, struct sockaddr_un *address)
{
	socklen_t len = vb_block_address(block, address);
	size_t at = len - offsetof(struct sockaddr_un, sun_path);

	return len + (socklen_t)snprintf(address->sun_path + at, sizeof(address->sun_path) - at,
					 "/%s", rest);
}

static socklen_t life_address(uint32_t block, struct sockaddr_un *address)
{
	return name_below(block, "life", address);
}

/* Of the end that watches a life: whose it is and whom it watches. */
static socklen_t watcher_address(uint32_t own, uint32_t block, struct sockaddr_un *address)
{
	char rest[24];

	snprintf(rest, sizeof(rest), "watches/%u", block);
	return name_below(own, rest, address);
}

static int new_socket(void)
{
	return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static bool listen_on(struct vb_agent *agent, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
	struct sockaddr_un address;
	socklen_t len = life_address(agent->engine->adapter->block[0], &address);

	return !bind(fd, (struct sockaddr *)&address, len) && !listen(fd, BACKLOG) &&
	       !epoll_ctl(agent->poll_fd, EPOLL_CTL_ADD, fd, &event);
}

bool vb_agent_life_open(struct vb_agent *agent)
{
	agent->life_fd = new_socket();
	return agent->life_fd >= 0 && listen_on(agent, agent->life_fd);
}

static bool keep(struct vb_agent *agent, int fd, uint32_t block, bool accepted)
{
	struct epoll_event event = {.events = EPOLLRDHUP, .data.fd = fd};
	struct vb_agent_life *life = calloc(1, sizeof(*life));

	if (!life || epoll_ctl(agent->poll_fd, EPOLL_CTL_ADD, fd, &event)) {
		free(life);
		close(fd);
		return false;
	}
	life->fd = fd;
	life->block = block;
	life->accepted = accepted;
	life->next = agent->lives;
	agent->lives = life;
	return true;
}

static void watch_later(struct vb_agent *agent)
{
	agent->unwatched = true;
	vb_agent_look_later(agent);
}

bool vb_agent_life_watch(struct vb_agent *agent, uint32_t block)
{
	struct sockaddr_un address;
	socklen_t len;
	bool there;
	int fd;

	if (!block || block == agent->engine->adapter->block[0])
		return true;
	for (struct vb_agent_life *life = agent->lives; life; life = life->next)
		if (life->block == block)
			return true;
	fd = new_socket();
	if (fd < 0) {
		watch_later(agent);
		return true;
	}
	/* Where the name is taken the other one sees to us by itself. */
	len = watcher_address(agent->engine->adapter->block[0], block, &address);
	(void)bind(fd, (struct sockaddr *)&address, len);
	len = life_address(block, &address);
	if (!connect(fd, (struct sockaddr *)&address, len)) {
		if (!keep(agent, fd, block, false))
			watch_later(agent);
		return true;
	}
	there = errno != ECONNREFUSED;
	close(fd);
	return there;
}

bool vb_agent_life_watch_peer(struct vb_agent_id *id)
{
	return !id->conn.remote_id || id->conn.state == VB_CM_SIDR_RCVD || !id->inside ||
	       vb_agent_life_watch(id->agent, id->conn.remote_id >> VB_AGENT_BLOCK_SHIFT);
}

/* Anybody may take a name: the registry says which process it is. */
static bool is_process_of(const struct vb_agent *agent, int fd, uint32_t block)
{
	const struct vb_adapter *adapter = agent->engine->adapter;
	struct vb_registry_entry entry;
	struct ucred peer;
	socklen_t len = sizeof(peer);
	uint32_t slot, ordinal;

	return block && !adapter->alone_reason &&
	       !vb_registry_block(&adapter->registry, block, &slot, &ordinal) &&
	       !vb_registry_read(&adapter->registry, slot, &entry) &&
	       !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) && peer.pid == entry.pid;
}

/* Returns 0, or why nobody was accepted. */
static int accept_one(struct vb_agent *agent)
{
	struct sockaddr_un from;
	socklen_t len = sizeof(from);
	uint32_t block;
	int fd = accept4(agent->life_fd, (struct sockaddr *)&from, &len,
			 SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return errno;
	block = vb_block_of_address(&from, len);
	if (!is_process_of(agent, fd, block))
		block = 0;
	keep(agent, fd, block, true);
	if (block)
		vb_reach_prepare(agent->engine, block);
	return 0;
}

static void heed(struct vb_agent *agent, bool yes)
{
	struct epoll_event event = {.events = yes ? EPOLLIN : 0, .data.fd = agent->life_fd};

	epoll_ctl(agent->poll_fd, EPOLL_CTL_MOD, agent->life_fd, &event);
}

static void accept_some(struct vb_agent *agent)
{
	switch (accept_one(agent)) {
	case 0:
	case EAGAIN:
	case EINTR:
	case ECONNABORTED:
		break;
	default:
		/* It stays readable, and would wake the thread again at once. */
		heed(agent, false);
		vb_agent_look_later(agent);
	}
}

static bool has_died(struct vb_agent_id *id, void *arg)
{
	return !vb_agent_life_watch_peer(id);
}

void vb_agent_life_again(struct vb_agent *agent)
{
	heed(agent, true);
	accept_some(agent);
	if (!agent->unwatched)
		return;
	agent->unwatched = false;
	vb_agent_die_each(agent, has_died, NULL);
}

/* Who has connected may only have had no memory to keep the stream: the socket of its life tells.
 */
static bool has_ended(struct vb_agent *agent, uint32_t block, bool accepted)
{
	return !accepted || !vb_agent_life_watch(agent, block);
}

bool vb_agent_life_event(struct vb_agent *agent, const struct epoll_event *event, uint32_t *dead)
{
	int fd = event->data.fd;

	*dead = 0;
	if (fd == agent->life_fd) {
		accept_some(agent);
		return true;
	}
	for (struct vb_agent_life **at = &agent->lives; *at; at = &(*at)->next) {
		struct vb_agent_life *life = *at, ended;

		if (life->fd != fd)
			continue;
		if (!(event->events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)))
			return true;
		ended = *life;
		*at = life->next;
		vb_agent_close_fd(agent, fd);
		free(life);
		*dead = has_ended(agent, ended.block, ended.accepted) ? ended.block : 0;
		return true;
	}
	return false;
}

void vb_agent_life_close(struct vb_agent *agent)
{
	struct vb_agent_life *life;

	if (agent->life_fd >= 0)
		close(agent->life_fd);
	while ((life = agent->lives)) {
		agent->lives = life->next;
		close(life->fd);
		free(life);
	}
}

/* ---- Those who have lost somebody ---- */

/* Those to be told, by number: the table must not be changed while it is walked, and they may have
 * gone by then. */
struct bereaved {
	vb_agent_dies *dies;
	void *arg;
	uint32_t n, *number;
};

static int collect(void *object, void *arg)
{
	struct vb_agent_id *id = object;
	struct bereaved *b = arg;

	if (b->dies(id, b->arg))
		b->number[b->n++] = id->conn.local_id;
	return 0;
}

static bool find_bereaved(struct vb_agent *agent, struct bereaved *b)
{
	b->number = calloc(vb_idtable_count(&agent->ids) + 1, sizeof(*b->number));
	if (!b->number)
		return false;
	vb_idtable_each(&agent->ids, collect, b);
	return true;
}

static void tell_bereaved(struct vb_agent *agent, struct bereaved *b)
{
	for (uint32_t i = 0; i < b->n; i++) {
		struct vb_agent_id *id = vb_agent_id_of(agent, b->number[i]);

		if (id)
			vb_agent_die(id);
	}
	free(b->number);
}

void vb_agent_die_each(struct vb_agent *agent, vb_agent_dies *dies, void *arg)
{
	struct bereaved b = {.dies = dies, .arg = arg};

	if (find_bereaved(agent, &b))
		tell_bereaved(agent, &b);
}

static bool is_of_block(struct vb_agent_id *id, void *block)
{
	return id->inside && id->conn.remote_id >> VB_AGENT_BLOCK_SHIFT == *(uint32_t *)block;
}

/* What a process said before it ended may wait in our sockets still. Not under the lock: messages
 * are taken with the wire's, and handled with this one. */
static void hear_last_words(struct vb_engine *engine)
{
	uint32_t n = atomic_load(&engine->adapter->n_blocks);

	for (uint32_t i = 0; i < n; i++) {
		int fd = vb_adapter_block_socket(engine->adapter, i);

		for (int words = 0; words < LAST_WORDS && vb_wire_handed(engine, fd); words++)
			;
	}
}

/* Those who are connected to it by now: the next process may have the block at once. */
void vb_agent_mourn(struct vb_agent *agent, uint32_t block)
{
	struct bereaved b = {.dies = is_of_block, .arg = &block};

	if (!find_bereaved(agent, &b))
		return;
	pthread_mutex_unlock(&agent->lock);
	if (b.n)
		hear_last_words(agent->engine);
	pthread_mutex_lock(&agent->lock);
	tell_bereaved(agent, &b);
}

/* ---- News for all ---- */

static int tell_id(void *object, void *arg)
{
	struct vb_agent_id *id = object;
	struct vb_agent_event event = {.what = *(const enum vb_agent_what *)arg, .id = id};

	if (!id->orphan)
		id->handler(id->owner, &event);
	return 0;
}

void vb_agent_device_news(struct vb_engine *engine, enum vb_agent_what what)
{
	struct vb_agent *agent = atomic_load(&engine->agent);

	if (!agent)
		return;
	pthread_mutex_lock(&agent->lock);
	vb_idtable_each(&agent->ids, tell_id, &what);
	pthread_mutex_unlock(&agent->lock);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/wire_hand.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host/registry.h"

/* Destinations with a socket of their own, by block; two that fall together take turns. */
#define WAYS 64u
/* Messages without one: of a process with which one connects only, few come. */
#define FEW 8u
/* Who takes nothing for so long is stopped. */
#define STOPPED_NS UINT64_C(1000000000)
/* When requests that are held back ask again. */
#define AGAIN_NS 50000u
/* Between two looks of pollers. */
#define LOOK_NS 10000u
/* Messages that may wait for one destination; more are lost. */
#define WAITING_MAX 16u

/* A message that waits, to which more is added until it is full. */
struct waiting {
	struct waiting *next;
	uint32_t packets;
	size_t used;
	uint8_t bytes[VB_HAND_BYTES];
};

struct way {
	pthread_mutex_t lock;
	uint32_t block; /* 0: nobody's yet */
	int fd;		/* -1: none */
	uint32_t sent;	/* without one */
	struct sockaddr_un to;
	socklen_t to_len;
	struct waiting *first, *last;
	uint32_t n;	    /* messages that wait */
	_Atomic bool waits; /* n != 0 */
	uint64_t since_ns;  /* when a message was taken, or the first one began to wait */
	bool stopped;
};

struct vb_hand {
	struct vb_engine *engine;
	_Atomic uint32_t waits; /* ways on which something does */
	_Atomic uint64_t looked_ns;
	struct way ways[WAYS];
};

struct vb_hand *vb_hand_open(struct vb_engine *engine)
{
	struct vb_hand *hand = calloc(1, sizeof(*hand));

	if (!hand)
		return NULL;
	hand->engine = engine;
	for (uint32_t i = 0; i < WAYS; i++) {
		pthread_mutex_init(&hand->ways[i].lock, NULL);
		hand->ways[i].fd = -1;
	}
	return hand;
}

static void set_waits(struct vb_hand *hand, struct way *way)
{
	bool waits = way->first != NULL;

	if (atomic_exchange(&way->waits, waits) != waits)
		atomic_fetch_add(&hand->waits, waits ? 1u : -1u);
}

static void drop_first(struct way *way)
{
	struct waiting *w = way->first;

	way->first = w->next;
	if (!way->first)
		way->last = NULL;
	way->n--;
	free(w);
}

static void drop_all(struct vb_hand *hand, struct way *way)
{
	while (way->first)
		drop_first(way);
	set_waits(hand, way);
}

static void close_way(struct way *way)
{
	if (way->fd >= 0)
		close(way->fd);
	way->fd = -1;
}

void vb_hand_close(struct vb_hand *hand)
{
	for (uint32_t i = 0; hand && i < WAYS; i++) {
		drop_all(hand, &hand->ways[i]);
		close_way(&hand->ways[i]);
		pthread_mutex_destroy(&hand->ways[i].lock);
	}
	free(hand);
}

void vb_hand_forked(struct vb_hand *hand)
{
	for (uint32_t i = 0; i < WAYS; i++)
		close_way(&hand->ways[i]);
}

static int shared_socket(const struct vb_hand *hand)
{
	return vb_adapter_block_socket(hand->engine->adapter, 0);
}

static enum vb_wire_handed send_to(int fd, const struct msghdr *msg)
{
	if (sendmsg(fd, msg, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return VB_WIRE_DELIVERED;
	if (errno == EAGAIN || errno == ENOBUFS)
		return VB_WIRE_FULL;
	return errno == ECONNREFUSED || errno == ENOTCONN ? VB_WIRE_REFUSED : VB_WIRE_DELIVERED;
}

/* Its own socket, for which one can wait; where there is none, by the one that all share. */
static void open_way(struct way *way)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd >= 0 && !connect(fd, (struct sockaddr *)&way->to, way->to_len)) {
		way->fd = fd;
		return;
	}
	if (fd >= 0)
		close(fd);
}

static enum vb_wire_handed try_once(struct vb_hand *hand, struct way *way, const struct msghdr *msg)
{
	struct msghdr addressed = *msg;

	if (way->fd >= 0)
		return send_to(way->fd, msg);
	addressed.msg_name = &way->to;
	addressed.msg_namelen = way->to_len;
	return send_to(shared_socket(hand), &addressed);
}

/* The process of a block may have left it to another one since. */
static enum vb_wire_handed try_again(struct vb_hand *hand, struct way *way,
				     const struct msghdr *msg)
{
	enum vb_wire_handed how = VB_WIRE_REFUSED;
	bool few = way->fd < 0 && way->sent < FEW;

	if (way->fd >= 0 || few)
		how = try_once(hand, way, msg);
	way->sent += few;
	if (how == VB_WIRE_REFUSED || (few && how == VB_WIRE_FULL)) {
		close_way(way);
		open_way(way);
		how = try_once(hand, way, msg);
	}
	if (how == VB_WIRE_DELIVERED) {
		way->stopped = false;
		way->since_ns = vb_now_ns();
	}
	return how;
}

/* Tell the engine's thread when there is room; once. */
static void arm(struct vb_hand *hand, struct way *way)
{
	struct epoll_event event = {.events = EPOLLOUT | EPOLLONESHOT, .data.fd = way->fd};

	if (way->fd < 0 || !atomic_load(&hand->engine->thread_runs))
		return;
	if (epoll_ctl(hand->engine->epoll_fd, EPOLL_CTL_MOD, way->fd, &event) && errno == ENOENT)
		epoll_ctl(hand->engine->epoll_fd, EPOLL_CTL_ADD, way->fd, &event);
}

/* Under the way's lock. */
static void send_waiting(struct vb_hand *hand, struct way *way)
{
	while (way->first) {
		struct iovec iov = {way->first->bytes, way->first->used};
		struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
		enum vb_wire_handed how = try_again(hand, way, &msg);

		if (how == VB_WIRE_FULL)
			break;
		drop_first(way);
	}
	if (way->first && vb_now_ns() - way->since_ns > STOPPED_NS) {
		way->stopped = true;
		drop_all(hand, way);
	}
	set_waits(hand, way);
}

/* The last message that waits, with room for so much. */
static struct waiting *room(struct way *way, uint32_t packets, size_t size)
{
	struct waiting *w = way->last;

	if (w && w->packets + packets <= VB_HAND_PACKETS && w->used + size <= sizeof(w->bytes))
		return w;
	w = way->n < WAITING_MAX ? malloc(sizeof(*w)) : NULL;
	if (!w)
		return NULL;
	w->next = NULL;
	w->packets = 0;
	w->used = 0;
	if (way->last)
		way->last->next = w;
	else
		way->first = w;
	way->last = w;
	way->n++;
	return w;
}

/* False: there is no room here either. */
static bool wait_here(struct vb_hand *hand, struct way *way, const struct msghdr *msg, size_t size)
{
	bool begins = !way->first;
	struct waiting *w = room(way, (uint32_t)msg->msg_iovlen / 2, size);

	if (!w)
		return false;
	for (size_t i = 0; i < msg->msg_iovlen; i++) {
		memcpy(w->bytes + w->used, msg->msg_iov[i].iov_base, msg->msg_iov[i].iov_len);
		w->used += msg->msg_iov[i].iov_len;
	}
	w->packets += (uint32_t)msg->msg_iovlen / 2;
	if (begins) {
		way->since_ns = vb_now_ns();
		set_waits(hand, way);
		arm(hand, way);
	}
	return true;
}

static void aim(struct way *way, uint32_t block)
{
	way->block = block;
	way->to_len = vb_block_address(block, &way->to);
}

/* False: somebody else's packets wait there. */
static bool take_way(struct way *way, uint32_t block)
{
	if (way->block == block)
		return true;
	if (way->first)
		return false;
	close_way(way);
	aim(way, block);
	way->sent = 0;
	way->stopped = false;
	return true;
}

/* Under the way's lock. */
static enum vb_wire_handed send_message(struct vb_hand *hand, uint32_t block,
					const struct msghdr *msg, size_t size)
{
	struct way *way = &hand->ways[block % WAYS];
	struct way other = {.fd = -1};
	enum vb_wire_handed how;

	if (!take_way(way, block)) {
		aim(&other, block);
		return try_once(hand, &other, msg);
	}
	if (way->first)
		send_waiting(hand, way);
	how = way->first ? VB_WIRE_FULL : try_again(hand, way, msg);
	if (how == VB_WIRE_FULL && !way->stopped && wait_here(hand, way, msg, size))
		return VB_WIRE_DELIVERED;
	return how;
}

enum vb_wire_handed vb_hand_over(struct vb_hand *hand, uint32_t block, struct vb_udp_datagram *d,
				 uint32_t n, uint32_t *used)
{
	struct iovec iov[2 * VB_HAND_PACKETS];
	struct msghdr msg = {.msg_iov = iov};
	struct way *way = &hand->ways[block % WAYS];
	enum vb_wire_handed how;
	size_t size = 0;
	uint32_t i = 0;

	for (; i < n && i < VB_HAND_PACKETS && size + vb_handed_size(&d[i]) <= VB_HAND_BYTES; i++)
		size += vb_handed_pack(&d[i], &iov[2 * i]);
	*used = i;
	if (!i)
		return VB_WIRE_DELIVERED;
	msg.msg_iovlen = 2 * (size_t)i;
	pthread_mutex_lock(&way->lock);
	how = send_message(hand, block, &msg, size);
	pthread_mutex_unlock(&way->lock);
	return how;
}

enum vb_wire_handed vb_hand_to(struct vb_hand *hand, struct vb_udp_datagram *d,
			       const struct sockaddr_un *to, socklen_t len)
{
	struct iovec iov[2];
	struct msghdr msg = {.msg_name = (void *)(uintptr_t)to,
			     .msg_namelen = len,
			     .msg_iov = iov,
			     .msg_iovlen = 2};

	vb_handed_pack(d, iov);
	return send_to(shared_socket(hand), &msg);
}

/* Is it time for a poller? */
static bool look(struct vb_hand *hand)
{
	uint64_t now = vb_now_ns();

	if (now - atomic_load_explicit(&hand->looked_ns, memory_order_relaxed) < LOOK_NS)
		return false;
	atomic_store_explicit(&hand->looked_ns, now, memory_order_relaxed);
	return true;
}

bool vb_hand_due(struct vb_hand *hand, bool thread)
{
	if (!atomic_load_explicit(&hand->waits, memory_order_relaxed))
		return false;
	if (!thread && !look(hand))
		return true;
	for (uint32_t i = 0; i < WAYS; i++) {
		struct way *way = &hand->ways[i];

		if (!atomic_load_explicit(&way->waits, memory_order_relaxed))
			continue;
		pthread_mutex_lock(&way->lock);
		send_waiting(hand, way);
		if (thread && way->first)
			arm(hand, way);
		pthread_mutex_unlock(&way->lock);
	}
	return atomic_load(&hand->waits) != 0;
}

uint64_t vb_hand_again_ns(struct vb_hand *hand, uint32_t block)
{
	struct way *way = &hand->ways[block % WAYS];
	bool waits;

	if (!atomic_load_explicit(&hand->waits, memory_order_relaxed))
		return 0;
	if (!block)
		return vb_hand_due(hand, false) ? vb_now_ns() + AGAIN_NS : 0;
	pthread_mutex_lock(&way->lock);
	if (way->first)
		send_waiting(hand, way);
	waits = way->first && way->block == block;
	pthread_mutex_unlock(&way->lock);
	return waits ? vb_now_ns() + AGAIN_NS : 0;
}

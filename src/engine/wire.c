/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/wire.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/requester.h"
#include "host/registry.h"

/* Datagrams looked at in one go, and goes in one call. */
#define BATCH 16
#define GOES  8
/* How long pollers look for more after a packet; then the engine's thread wakes for the next. A
 * program that gets none pays no system call a poll. */
#define LIVELY_NS 1000000u
/* Yields to a process whose queue is full. */
#define PATIENCE 200

struct vb_wire {
	struct vb_udp udp;
	pthread_mutex_t send_lock; /* the sockets that are opened when first needed */
	pthread_mutex_t receive_lock;
	uint32_t watched;	  /* blocks whose sockets the thread looks at */
	_Atomic uint64_t last_ns; /* when a packet came, the last time */
	struct vb_udp_datagram batch[BATCH];
	uint8_t handed[BATCH * sizeof(struct vb_udp_datagram)];
};

/* What another process hands over: a datagram up to its last byte. */
#define HANDED_HEAD offsetof(struct vb_udp_datagram, bytes)

static int watch(struct vb_engine *engine, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	if (fd < 0 || !atomic_load(&engine->thread_runs))
		return 0;
	return epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

/* Under thread_lock. */
static int open_wire(struct vb_engine *engine)
{
	struct vb_wire *wire = calloc(1, sizeof(*wire));
	int err;

	if (!wire)
		return -ENOMEM;
	err = vb_udp_open(&wire->udp);
	if (err) {
		free(wire);
		return err;
	}
	pthread_mutex_init(&wire->send_lock, NULL);
	pthread_mutex_init(&wire->receive_lock, NULL);
	watch(engine, wire->udp.in[0]);
	watch(engine, wire->udp.in[1]);
	atomic_store(&engine->wire, wire);
	return 0;
}

int vb_wire_start(struct vb_engine *engine)
{
	struct vb_wire *wire;
	int err = 0;

	vb_engine_start(engine);
	pthread_mutex_lock(&engine->thread_lock);
	if (!atomic_load(&engine->wire))
		err = open_wire(engine);
	wire = atomic_load(&engine->wire);
	while (!err && wire->watched < atomic_load(&engine->adapter->n_blocks))
		watch(engine, vb_adapter_block_socket(engine->adapter, wire->watched++));
	pthread_mutex_unlock(&engine->thread_lock);
	return err;
}

void vb_wire_close(struct vb_engine *engine)
{
	struct vb_wire *wire = atomic_exchange(&engine->wire, NULL);

	if (!wire)
		return;
	vb_udp_close(&wire->udp);
	pthread_mutex_destroy(&wire->send_lock);
	pthread_mutex_destroy(&wire->receive_lock);
	free(wire);
}

void vb_wire_forked(struct vb_engine *engine)
{
	struct vb_wire *wire = atomic_load(&engine->wire);

	if (wire)
		vb_udp_close(&wire->udp);
}

int vb_wire_send(struct vb_engine *engine, const struct vb_udp_path *path,
		 const struct vb_packet *hdr, const void *payload)
{
	struct vb_wire *wire = atomic_load(&engine->wire);
	int err;

	if (!wire)
		return -ENOTCONN;
	pthread_mutex_lock(&wire->send_lock);
	err = vb_udp_send(&wire->udp, path, hdr, payload);
	pthread_mutex_unlock(&wire->send_lock);
	return err;
}

/* Some datagrams that came, and whose they are. */
struct found {
	struct vb_qp *qp;     /* NULL: not for a QP of ours */
	uint32_t other_block; /* another process's, 0: nobody's */
	struct vb_packet pkt;
};

static void find(struct vb_engine *engine, const struct vb_udp_datagram *d, struct found *found)
{
	uint32_t index;

	found->qp = NULL;
	found->other_block = 0;
	if (!vb_udp_parse(d, &found->pkt))
		return;
	if (vb_adapter_index(engine->adapter, found->pkt.dest_qpn, &index))
		found->qp = vb_sparse_get(&engine->qps, index);
	else
		found->other_block = found->pkt.dest_qpn >> VB_BLOCK_BITS;
}

/* All for one block in one message: a socket of this kind queues few of them. */
static void hand_over(struct vb_engine *engine, const struct vb_udp_datagram *d,
		      struct found *found, int n)
{
	uint32_t block = found[0].other_block;
	struct sockaddr_un to;
	struct iovec iov[BATCH];
	struct msghdr msg = {.msg_name = &to, .msg_iov = iov};

	msg.msg_namelen = vb_block_address(engine->adapter->device, block, &to);
	for (int i = 0; i < n; i++) {
		if (found[i].other_block != block)
			continue;
		found[i].other_block = 0;
		iov[msg.msg_iovlen++] =
			(struct iovec){(void *)(uintptr_t)&d[i], HANDED_HEAD + d[i].len};
	}
	/* Its queue is short; what follows waits in our socket, which is long. */
	for (int i = 0; i < PATIENCE; i++) {
		if (sendmsg(vb_adapter_block_socket(engine->adapter, 0), &msg,
			    MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 ||
		    (errno != EAGAIN && errno != ENOBUFS))
			return; /* gone, or lost as on a link */
		sched_yield();
	}
}

/* Inside a grace section: the QPs stay. */
static void dispatch(struct vb_engine *engine, const struct vb_udp_datagram *d, int n,
		     bool may_hand_over)
{
	struct found found[BATCH];

	for (int i = 0; i < n; i++)
		find(engine, &d[i], &found[i]);
	for (int i = 0; i < n; i++) {
		bool more = i + 1 < n && found[i + 1].qp == found[i].qp;

		if (may_hand_over && found[i].other_block)
			hand_over(engine, &d[i], &found[i], n - i);
		if (!found[i].qp)
			continue;
		vb_requester_hold(found[i].qp);
		vb_wire_packet(engine, found[i].qp, &found[i].pkt, &d[i], more);
		vb_requester_release(engine, found[i].qp);
	}
}

/* A message of another process: datagrams, one behind the other. */
static int unpack(struct vb_wire *wire, size_t size)
{
	size_t at = 0;
	int n = 0;

	while (n < BATCH && size - at >= HANDED_HEAD) {
		struct vb_udp_datagram *d = &wire->batch[n];

		memcpy(d, wire->handed + at, HANDED_HEAD);
		if (d->len > sizeof(d->bytes) || d->len > size - at - HANDED_HEAD)
			break;
		memcpy(d->bytes, wire->handed + at + HANDED_HEAD, d->len);
		at += HANDED_HEAD + d->len;
		n++;
	}
	return n;
}

/* What comes by the block sockets was received by another process. One message. */
static int receive_handed(struct vb_engine *engine, struct vb_wire *wire)
{
	for (uint32_t i = 0; i < wire->watched; i++) {
		int fd = vb_adapter_block_socket(engine->adapter, i);
		ssize_t size = recv(fd, wire->handed, sizeof(wire->handed), MSG_DONTWAIT);

		if (size > 0)
			return unpack(wire, (size_t)size);
	}
	return 0;
}

static bool my_turn(const struct vb_engine *engine, struct vb_wire *wire, bool patient)
{
	if (!patient && atomic_load(&engine->thread_runs) &&
	    vb_now_ns() - atomic_load(&wire->last_ns) > LIVELY_NS)
		return false;
	return patient ? !pthread_mutex_lock(&wire->receive_lock)
		       : !pthread_mutex_trylock(&wire->receive_lock);
}

void vb_wire_receive(struct vb_engine *engine, bool patient)
{
	struct vb_wire *wire = atomic_load(&engine->wire);
	bool more = true;

	if (!wire || !my_turn(engine, wire, patient))
		return;
	for (int i = 0; i < GOES && more; i++) {
		more = false;
		for (int from = 0; from < 3; from++) {
			uint32_t token = vb_grace_enter(&engine->grace);
			int n = from < 2 ? vb_udp_receive(&wire->udp, from, wire->batch, BATCH)
					 : receive_handed(engine, wire);

			dispatch(engine, wire->batch, n, from < 2);
			vb_grace_leave(&engine->grace, token);
			if (n)
				atomic_store(&wire->last_ns, vb_now_ns());
			more = more || n == BATCH || (from == 2 && n);
		}
	}
	pthread_mutex_unlock(&wire->receive_lock);
}

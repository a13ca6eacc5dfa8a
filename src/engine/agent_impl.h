/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_ENGINE_AGENT_IMPL_H
#define VB_ENGINE_AGENT_IMPL_H

#include <pthread.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/idtable.h"
#include "engine/agent.h"
#include "engine/engine.h"
#include "engine/agent_wire.h"
#include "host/cmports.h"

/* What the files of the agent share. */

/* Comm ids: a block of ours, whose numbers say whose an answer is; how often the circle of indices
 * has been gone round, which keeps a late message for an earlier id of this index from reaching it;
 * an index. A host remembers the ids of connections that have ended for some seconds, and drops a
 * request that comes with one of them: 16 turns of 1024 take longer. */
#define VB_AGENT_INDEX_BITS  16u
#define VB_AGENT_IDS	     (1u << VB_AGENT_INDEX_BITS)
#define VB_AGENT_BLOCK_SHIFT 20u

#define VB_AGENT_BUCKETS 1024u

/* Between two tries of a message that found no room within the host. */
#define VB_AGENT_FULL_NS 1000000u

/* A port of ours that has a socket. */
struct vb_agent_port {
	struct vb_agent_port *next;
	struct vb_cmport at;
	int fd;
	uint32_t users;
	bool reuse; /* by all of them */
};

/* Ports that may be chosen, of one space. */
struct vb_agent_chosen {
	struct vb_agent_chosen *next;
	uint16_t space, base;
	uint64_t used; /* bits */
	int fd;
};

/* A stream to another process of this host, or from one. */
struct vb_agent_life {
	struct vb_agent_life *next;
	uint32_t block; /* whose end it shows; 0: it watches us */
	bool accepted;	/* the other end began it */
	int fd;
};

/* A port whose listener has gone. Programs that take one connection at a time listen anew. */
struct vb_agent_left {
	struct vb_cmport at;
	uint64_t until_ns;
};

#define VB_AGENT_LEFT 8u
/* perftest's server listens anew for its second connection, whose request may come before: it
 * sleeps for a second first, and more passes where the machine is busy. */
#define VB_AGENT_LEFT_NS UINT64_C(3000000000)

struct vb_agent {
	struct vb_engine *engine;
	struct vb_device *device;
	pthread_mutex_t lock; /* of all that follows */
	int poll_fd, timer_fd;
	struct vb_idtable ids; /* index -> id */
	uint32_t last_index, turns;
	struct vb_agent_id *spare; /* memory of ids, by next_listener */
	uint32_t n_spare;
	struct vb_agent_port *ports;
	struct vb_agent_chosen *chosen;
	int life_fd; /* others connect to it; -1 none */
	struct vb_agent_life *lives;
	struct vb_agent_id *listeners;
	struct vb_agent_left left[VB_AGENT_LEFT]; /* the latest */
	uint32_t n_left;			  /* so far */
	_Atomic uint64_t taken[VB_AGENT_LEFT]; /* ports of others that took a request, and when */
	struct vb_agent_id *timed;	       /* those that are due sometime */
	uint64_t next_ns;
	uint64_t ask_ns;  /* when peers on other hosts are to be asked whether they live */
	uint64_t look_ns; /* when what had no descriptor is tried again */
	bool unwatched;	  /* some connected process is not watched for want of one */
	int told_fd[2];	  /* the watched sockets of the wire that tell; -1 not opened yet */
	struct vb_agent_id *by_qpn[VB_AGENT_BUCKETS]; /* passive sides, by the peer's QP number */
};

struct vb_agent_id {
	struct vb_agent *agent;
	vb_agent_handler *handler;
	void *owner;
	uint32_t index;
	struct vb_agent_path path;
	bool inside; /* its peer is of this host */
	struct vb_cm_conn conn;
	bool unsent;		/* the last message found no room */
	uint64_t unsent_due_ns; /* what conn.due_ns is to be once it has left */
	uint64_t unsent_end_ns; /* where that is never: when it is given up */
	bool asked, refused; /* something was said to another host; its kernel refused the last */
	uint64_t doubted_ns; /* since when it does, 0 not */
	bool orphan;	     /* its owner has gone; it ends with its connection */
	bool bound, listening, timed, hashed;
	uint64_t bound_ns; /* when */
	struct vb_cmport at;
	struct vb_agent_port *port;	/* with a socket, or */
	struct vb_agent_chosen *chosen; /* one of these */
	struct vb_agent_id *next_listener, *next_timed, *next_hashed;
};

/** vb_agent_ids_init() - Make the table of ids
 * Return:  0, -ENOMEM
 */
int vb_agent_ids_init(struct vb_agent *agent);

/** vb_agent_ids_fini() - None is left */
void vb_agent_ids_fini(struct vb_agent *agent);

/** vb_agent_id_new() - An id with a number of its own; under the lock
 * Return:  0, -ENOMEM, -ENOSPC
 */
int vb_agent_id_new(struct vb_agent *agent, struct vb_agent_id **out);

/** vb_agent_id_free() - Nothing refers to it any more; under the lock */
void vb_agent_id_free(struct vb_agent_id *id);

/** vb_agent_id_of() - The id of a comm id, NULL none; under the lock */
struct vb_agent_id *vb_agent_id_of(struct vb_agent *agent, uint32_t number);

/** vb_agent_transmit() - Send a MAD
 * @plain:  Not by way of faults
 * Context: may be under the agent's lock
 * Return:  false: within the host, and its receiver's queue is full
 */
bool vb_agent_transmit(struct vb_engine *engine, const struct vb_agent_path *path, bool inside,
		       const uint8_t *mad, bool plain);

/** vb_agent_send_out() - Send what a step of the id's machine asks for, or keep it for later */
void vb_agent_send_out(struct vb_agent_id *id, const struct vb_cm_out *out);

/** vb_agent_tell() - Tell the owner; an orphan ends where there is nothing left to repeat
 * @what:   enum vb_cm_what, 0: nothing to tell
 */
void vb_agent_tell(struct vb_agent_id *id, int what, const struct vb_cm_msg *msg);

/** vb_agent_die() - The peer's process is gone: what it would have said is said for it
 * The id may be gone after that.
 */
void vb_agent_die(struct vb_agent_id *id);

/** vb_agent_die_each() - Likewise for all ids of which @dies says so */
typedef bool vb_agent_dies(struct vb_agent_id *id, void *arg);
void vb_agent_die_each(struct vb_agent *agent, vb_agent_dies *dies, void *arg);

/* ---- Whether peers on other hosts live: agent_hosts.c; under the lock ---- */

/** vb_agent_hosts_watch() - After a step of the id's machine: its peer may have to be asked
 * Return:  agent->ask_ns has become earlier
 */
bool vb_agent_hosts_watch(struct vb_agent_id *id);

/** vb_agent_hosts_fresh() - What is sent from now on is to be refused anew */
void vb_agent_hosts_fresh(struct vb_agent *agent);

/** vb_agent_hosts_begin() - The id says something new, which may be refused */
void vb_agent_hosts_begin(struct vb_agent_id *id);

/** vb_agent_hosts_again() - It says so again, a while later */
void vb_agent_hosts_again(struct vb_agent_id *id);

/** vb_agent_hosts_ask() - Ask all that are connected, if it is time */
void vb_agent_hosts_ask(struct vb_agent *agent, uint64_t now_ns);

/** vb_agent_hosts_ask_next() - A connection to a process was forgotten there: ask about another one
 * @gid:    The process's host
 * @remote_id: Its id of the one that was forgotten
 */
void vb_agent_hosts_ask_next(struct vb_agent *agent, const uint8_t *gid, uint32_t remote_id);

/** vb_agent_hosts_event() - Something happened at a descriptor
 * Return:  false: it is none of these
 */
bool vb_agent_hosts_event(struct vb_agent *agent, int fd);

/* ---- When ids are due: agent_time.c; under the lock ---- */

/** vb_agent_arm() - After a step of the id's machine: it may be due at another time */
void vb_agent_arm(struct vb_agent_id *id);

/** vb_agent_look_later() - Have vb_agent_life_again() called after a while */
void vb_agent_look_later(struct vb_agent *agent);

/** vb_agent_disarm() - Never due any more */
void vb_agent_disarm(struct vb_agent_id *id);

/** vb_agent_expire() - Run all that are due by now */
void vb_agent_expire(struct vb_agent *agent);

/** vb_agent_close_fd() - Close what the thread is woken for
 *
 * Taken out first: a child between fork and its handler, or exec, holds the file too, and what
 * happened to it would be reported by a number that is another file's here.
 */
static inline void vb_agent_close_fd(struct vb_agent *agent, int fd)
{
	epoll_ctl(agent->poll_fd, EPOLL_CTL_DEL, fd, NULL);
	close(fd);
}

/** vb_agent_inside() - Whether a GID is reached within the host */
bool vb_agent_inside(struct vb_agent *agent, const uint8_t *gid);

/** vb_agent_unbind() - Give the id's port back; under the lock */
void vb_agent_unbind(struct vb_agent_id *id);

/** vb_agent_hold_port() - A port keeps its descriptor while it is read from; under the lock
 * @ours:   Receives whether the descriptor is a port's, or of ports to choose from, at all: it may
 *          have been closed, and the number be another file's by now
 * Return:  what vb_agent_release_port() is to be called with, NULL nothing
 */
struct vb_agent_port *vb_agent_hold_port(struct vb_agent *agent, int fd, bool *ours);

/** vb_agent_release_port() - The last use closes it; under the lock */
void vb_agent_release_port(struct vb_agent *agent, struct vb_agent_port *port);

/** vb_agent_close_ports() - All of them */
void vb_agent_close_ports(struct vb_agent *agent);

/* ---- Who is alive: agent_life.c; under the lock ---- */

/** vb_agent_life_open() - Let others see our end; false where a system call fails */
bool vb_agent_life_open(struct vb_agent *agent);

/** vb_agent_life_watch() - See the end of the process of a block
 * Return:  false: it has ended already
 */
bool vb_agent_life_watch(struct vb_agent *agent, uint32_t block);

/** vb_agent_life_watch_peer() - From now on its peer is known: within the host its end will be seen
 * Return:  false: it has been
 */
bool vb_agent_life_watch_peer(struct vb_agent_id *id);

/** vb_agent_life_again() - There may be descriptors again
 * Connections whose peer has ended meanwhile end.
 */
void vb_agent_life_again(struct vb_agent *agent);

/** vb_agent_life_event() - Something happened at a descriptor
 * @event:  As epoll_wait() gave it: the number may be another descriptor's by now
 * @dead:   Receives the block of a process that has ended, 0 none
 * Return:  false: it is none of these
 */
bool vb_agent_life_event(struct vb_agent *agent, const struct epoll_event *event, uint32_t *dead);

/** vb_agent_mourn() - The process of a block has ended: what it said last is heard, then it is said
 * for it that it has
 * Context: engine's thread; under the lock, which is let go of meanwhile
 */
void vb_agent_mourn(struct vb_agent *agent, uint32_t block);

/** vb_agent_life_close() - Close all */
void vb_agent_life_close(struct vb_agent *agent);

/** vb_agent_service_port() - The port that a request asks for
 * Return:  false: it is not by IP address
 */
bool vb_agent_service_port(const struct vb_cm_msg *msg, struct vb_cm_ip *ip, struct vb_cmport *at);

#endif

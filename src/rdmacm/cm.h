/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_RDMACM_CM_H
#define VB_RDMACM_CM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include "base/forkguard.h"
#include "base/rules.h"
#include "engine/agent.h"
#include "rdmacm/newer.h"

/*
 * Theory of operation
 *
 * An id is a struct rdma_cm_id with its private part behind it, and stands on an id of the
 * engine's agent (engine/agent.h), which speaks the protocol. What happens there arrives
 * as an event in the queue of the id's channel; the channel's descriptor is readable
 * exactly while the queue is not empty. What the library does itself on the way (the QP's
 * transitions on a reply, say) it does in rdma_get_cm_event(), in the program's own thread.
 *
 * One lock guards channels, queues and what is counted of events. Nothing is called with it held:
 * the agent's handlers take it under the agent's own lock.
 *
 * Devices are opened at the first call that needs one and stay open; a child made by
 * fork opens its own.
 */

#define CM_DEVICES_MAX 8

struct cm_device {
	struct ibv_context *verbs;
	struct ibv_pd *pd; /* for ids without one of their own; NULL until needed */
	struct ibv_device_attr attr;
};

enum cm_state {
	CM_IDLE,
	CM_BOUND,
	CM_ADDR_RESOLVED,
	CM_ROUTE_RESOLVED,
	CM_CONNECT, /* from the REQ, sent or received, on */
	CM_DISCONNECTED,
	CM_LISTEN,
};

struct cm_channel {
	struct rdma_event_channel channel;
	const uint8_t *alive; /* reads 0 in a child made by fork */
	struct cm_event *first, **last;
	struct cm_channel *next; /* of those that are there */
	unsigned int inside;	 /* calls of rdma_get_cm_event */
	bool gone;		 /* who leaves last frees it */
	bool given;		 /* events, the last one to: */
	pthread_t to;
};

/* What the other side has said, and what is agreed. */
struct cm_peer {
	uint32_t qpn, psn;
	uint8_t responder_resources, initiator_depth; /* as seen from here */
	uint8_t retry_count, rnr_retry_count;
	uint8_t mtu, ack_timeout;
	struct ibv_ece ece;
};

struct cm_id {
	struct rdma_cm_id id;
	enum cm_state state;
	struct vb_agent_id *agent;		  /* of the device, NULL until bound to one */
	struct vb_agent_id *each[CM_DEVICES_MAX]; /* wildcard: one for each device */
	struct cm_device *device;
	const uint8_t *alive; /* reads 0 in a child made by fork */
	bool sync;	      /* its channel is its own */
	bool passive;	      /* came from a listener */
	bool disconnect_told, removal_told;
	struct cm_id *listener;		     /* passive; NULL once that is gone */
	struct cm_id *children, *next_child; /* of a listener */
	int backlog, waiting;		     /* listener: requests not yet given out */
	bool counted;			     /* among the listener's waiting ones */
	uint32_t given_out;		     /* events not acknowledged */
	bool awaited;			     /* somebody waits until there are none */
	struct cm_event *out;		     /* they */
	uint32_t psn;			     /* the first that the peer is to send */
	uint8_t tos, ack_timeout;
	bool ack_timeout_set, reuse, only6;
	uint8_t responder_resources, initiator_depth;
	uint8_t retry_count, rnr_retry_count;
	struct cm_peer peer;
	struct vb_agent_path path;
	struct ibv_ece ece; /* ours, to be sent */
	bool have_qp_attr;  /* rdma_create_ep: for requests */
	struct ibv_qp_init_attr qp_attr;
	struct ibv_pd *qp_pd;
	struct cm_group *groups;
	struct rdma_addrinfo *info;
};

struct cm_event {
	struct rdma_cm_event event;
	struct cm_event *next;
	struct cm_event *next_out, **at_out; /* while it is given out */
	struct cm_id *id;		     /* whose it is */
	struct cm_id *counts; /* at whom it is counted: the listener's for requests */
	uint8_t private_data[VB_CM_PRIV_MAX];
};

static inline struct cm_id *cm_id_of(struct rdma_cm_id *id)
{
	return (struct cm_id *)(void *)id;
}

/** cm_lock() - Take the one lock, which is free in a child made by fork */
static inline void cm_lock(void)
{
	pthread_mutex_lock(vb_fork_lock(VB_FORK_LOCK_CM));
}

static inline void cm_unlock(void)
{
	pthread_mutex_unlock(vb_fork_lock(VB_FORK_LOCK_CM));
}

/** cm_alive() - Whether what carries a guard is of this process, not of its parent */
static inline bool cm_alive(const uint8_t *guard)
{
	return !guard || *guard;
}

/* ---- Devices: device.c ---- */

/** cm_devices() - Open the devices, once
 * Return: how many, or 0 by rule
 */
int cm_devices(struct cm_device **devices);

/** cm_device_of_gid() - The device that has an address
 * Return: NULL where none has
 */
struct cm_device *cm_device_of_gid(const uint8_t *gid);

/** cm_device_usable_gid() - An address of a device for what comes and goes by loopback
 * @v6:     Of that family if it has one
 */
bool cm_device_usable_gid(struct cm_device *device, bool v6, uint8_t *gid);

/** cm_device_pd() - Its PD, by rule NULL */
struct ibv_pd *cm_device_pd(struct cm_device *device);

/* ---- The memory of events: event.c; not under cm_lock ---- */

/** cm_event_spare() - Have some of it before the first event waits for it */
void cm_event_spare(void);

/** cm_event_new() - An event of an id
 * Return: NULL for want of memory, by rule
 */
struct cm_event *cm_event_new(struct cm_id *id, int type, int status);

/** cm_event_free() - Give one back, or NULL */
void cm_event_free(struct cm_event *event);

/* ---- Channels and events: channel.c ---- */

/** cm_event_post() - Queue it
 * Context: not under cm_lock
 */
void cm_event_post(struct cm_event *event);

/** cm_event_report() - A new one, queued; 0 or -1 by rule */
int cm_event_report(struct cm_id *id, int type, int status);

/** cm_channel_forget() - Take an id's queued events out; requests in them are given back, linked */
struct cm_event *cm_channel_forget(struct cm_id *id);

/** cm_move_request() - A request's id gets a channel of its own, its event counts there */
void cm_move_request(struct cm_id *id, struct rdma_event_channel *channel,
		     struct rdma_cm_event *request);

/** cm_wait_acked() - Until the events given out are acknowledged */
void cm_wait_acked(struct cm_id *id, const char *call);

/** cm_channel_usable() - A channel of this process; false by rule */
bool cm_channel_usable(const struct rdma_event_channel *channel, const char *call);

/* ---- Why: explain.c ---- */

/** cm_explain_unacked() - Which events a call waits for; under cm_lock */
void cm_explain_unacked(const struct cm_id *id, const char *call);

/** cm_explain_padded() - That private data is longer than what was sent */
void cm_explain_padded(const struct cm_event *event);

/** cm_text_address() - An address to be read; without its port */
const char *cm_text_address(const struct sockaddr *addr, char *bytes, size_t size);

/** cm_text_devices() - The devices and their addresses, where somebody asked */
const char *cm_text_devices(char *bytes, size_t size);

/* ---- Ids: id.c ---- */

/** cm_usable() - An id of this process; false by rule */
bool cm_usable(const struct rdma_cm_id *id, const char *call);

/** cm_id_new() - Allocate one */
struct cm_id *cm_id_new(struct rdma_event_channel *channel, void *context, enum rdma_port_space ps,
			enum ibv_qp_type type);

/** cm_id_free() - Everything is over */
void cm_id_free(struct cm_id *id);

/** cm_id_attach() - Bind it to a device; 0 or -1 by rule */
int cm_id_attach(struct cm_id *id, struct cm_device *device);

/** cm_id_adopt() - Bind one to the device and connection of a request */
int cm_id_adopt(struct cm_id *id, struct cm_device *device, struct vb_agent_id *agent);

/** cm_bind_at() - Claim its port
 * @device: Where; NULL for all
 * Return:  0, or -1 by rule: nothing has changed
 */
int cm_bind_at(struct cm_id *id, struct cm_device *device, const struct sockaddr *addr);

/** cm_uncount() - It does not wait in its listener's backlog any more; under cm_lock */
void cm_uncount(struct cm_id *id);

/** cm_sync() - On a synchronous id: wait for the event of a call; 0, or -1 by rule */
int cm_sync(struct cm_id *id);

/* ---- Handler: request.c ---- */

vb_agent_handler cm_happened;

/** cm_fill_ud() - How a UD peer is reached */
void cm_fill_ah(const struct cm_id *id, struct ibv_ah_attr *attr);

/* ---- Addresses: addr.c ---- */

/** cm_addr_gid() - The GID of an address; false for another family */
bool cm_addr_gid(const struct sockaddr *addr, uint8_t *gid);
bool cm_addr_any(const struct sockaddr *addr);
bool cm_addr_loopback(const struct sockaddr *addr);
uint16_t cm_addr_port(const struct sockaddr *addr);
void cm_addr_set_port(struct sockaddr *addr, uint16_t port);
socklen_t cm_addr_len(const struct sockaddr *addr);

/** cm_device_of_address() - The device of an address of this host
 * Loopback has none of its own: the id's serves, or the first.
 * Return: NULL by rule
 */
struct cm_device *cm_device_of_address(const struct cm_id *id, const struct sockaddr *addr);

/** cm_source() - The address that the kernel would send from, with port 0, and its device
 * Return: NULL by rule
 */
struct cm_device *cm_source(const struct cm_id *id, const struct sockaddr *dst,
			    struct sockaddr_storage *from);

/** cm_addr_from_ip() - An address as a REQ carries it */
void cm_addr_from_ip(bool v6, const uint8_t *bytes, uint16_t port, struct sockaddr_storage *addr);

/** cm_bind() - Bind an id that is not; 0 or -1 by rule */
int cm_bind(struct cm_id *id, const struct sockaddr *addr);

/** cm_route_fill() - The path record, without a subnet manager; 0 or -1 by rule */
int cm_route_fill(struct cm_id *id);

/* ---- QPs: qp.c ---- */

/** cm_gid_index() - The index of our end's GID; 0 where it is gone */
int cm_gid_index(const struct cm_id *id);

/** cm_qp_connect() - To RTR and RTS; 0 or -1 */
int cm_qp_connect(struct cm_id *id);

/** cm_qp_error() - To ERR, where there is one */
void cm_qp_error(struct cm_id *id);

/* ---- Connections: connect.c ---- */

/** cm_reply_arrived() - The peer accepted: move the QP, say ready; the event becomes ESTABLISHED */
void cm_reply_arrived(struct cm_event *event);

/* ---- Multicast: multicast.c ---- */

/** cm_groups_leave() - All groups of an id */
void cm_groups_leave(struct cm_id *id);

/** cm_joined() - The event of a join is given out: attach the QP */
void cm_joined(struct cm_event *event);

#endif

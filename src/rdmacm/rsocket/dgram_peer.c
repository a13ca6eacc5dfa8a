/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rdmacm/rsocket/dgram.h"
#include "rdmacm/rsocket/service.h"

#define UDP_MOST	65536
#define READS_AT_ONCE	32
#define RESOLVE_TIMEOUT 2000

static unsigned int bucket_of(const union vb_rs_addr *addr)
{
	uint32_t sum = addr->sin.sin_port;

	if (addr->sa.sa_family == AF_INET6)
		for (int i = 0; i < 4; i++)
			sum = sum * 31 + addr->sin6.sin6_addr.s6_addr32[i];
	else
		sum = sum * 31 + addr->sin.sin_addr.s_addr;
	return (sum ^ sum >> 16) % VB_DGRAM_BUCKETS;
}

bool vb_dgram_same_addr(const union vb_rs_addr *a, const union vb_rs_addr *b)
{
	if (a->sa.sa_family != b->sa.sa_family || a->sin.sin_port != b->sin.sin_port)
		return false;
	if (a->sa.sa_family == AF_INET)
		return a->sin.sin_addr.s_addr == b->sin.sin_addr.s_addr;
	return !memcmp(&a->sin6.sin6_addr, &b->sin6.sin6_addr, 16) &&
	       a->sin6.sin6_scope_id == b->sin6.sin6_scope_id;
}

static bool is_wildcard(const union vb_rs_addr *addr)
{
	if (addr->sa.sa_family == AF_INET)
		return addr->sin.sin_addr.s_addr == htonl(INADDR_ANY);
	return IN6_IS_ADDR_UNSPECIFIED(&addr->sin6.sin6_addr);
}

/* The address datagrams to a peer come from: the bound one, or what the routes say. */
static int local_for(struct vb_dgram *dg, const union vb_rs_addr *to, union vb_rs_addr *local)
{
	socklen_t len = sizeof(*local);
	in_port_t port;
	int fd, ret;

	memset(local, 0, sizeof(*local));
	if (getsockname(dg->udp_fd, &local->sa, &len))
		return -1;
	/* The first send would give it a port, too late for what is said of it here. */
	if (!local->sin.sin_port &&
	    (bind(dg->udp_fd, &local->sa, len) || getsockname(dg->udp_fd, &local->sa, &len)))
		return -1;
	if (!is_wildcard(local))
		return 0;
	port = local->sin.sin_port;
	fd = socket(dg->rs.domain, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	memset(local, 0, sizeof(*local));
	len = sizeof(*local);
	ret = connect(fd, &to->sa, vb_rs_addr_bytes(&to->sa)) || getsockname(fd, &local->sa, &len);
	local->sin.sin_port = port;
	close(fd);
	return ret ? -1 : 0;
}

static void free_peer(struct vb_dgram *dg, struct vb_dgram_peer **at)
{
	struct vb_dgram_peer *peer = *at;

	*at = peer->next;
	if (peer->ah)
		ibv_destroy_ah(peer->ah);
	free(peer);
	dg->n_peers--;
}

/* Anybody can make a peer by sending one packet: the oldest in the bucket makes room. */
static bool make_room(struct vb_dgram *dg, unsigned int bucket)
{
	struct vb_dgram_peer **oldest = NULL;

	if (dg->n_peers < VB_DGRAM_MAX_PEERS)
		return true;
	for (struct vb_dgram_peer **at = &dg->peers[bucket]; *at; at = &(*at)->next)
		if (!(*at)->finding && (!oldest || (*at)->used < (*oldest)->used))
			oldest = at;
	if (!oldest)
		return false;
	free_peer(dg, oldest);
	return true;
}

struct vb_dgram_peer *vb_dgram_peer_get(struct vb_dgram *dg, const union vb_rs_addr *addr)
{
	unsigned int bucket = bucket_of(addr);
	struct vb_dgram_peer *peer;
	union vb_rs_addr local;

	for (peer = dg->peers[bucket]; peer; peer = peer->next)
		if (vb_dgram_same_addr(&peer->addr, addr)) {
			peer->used = ++dg->clock;
			return peer;
		}
	if (!make_room(dg, bucket)) {
		errno = ENOBUFS;
		return NULL;
	}
	peer = calloc(1, sizeof(*peer));
	if (!peer)
		return NULL;
	peer->addr = *addr;
	peer->used = ++dg->clock;
	/* Without a queue pair datagrams still go: by UDP. */
	if (!local_for(dg, addr, &local))
		peer->qp = vb_dgram_qp_get(dg, &local);
	peer->next = dg->peers[bucket];
	dg->peers[bucket] = peer;
	dg->n_peers++;
	return peer;
}

void vb_dgram_peers_free(struct vb_dgram *dg)
{
	for (int bucket = 0; bucket < VB_DGRAM_BUCKETS; bucket++)
		while (dg->peers[bucket]) {
			if (dg->peers[bucket]->finding)
				rdma_destroy_id(dg->peers[bucket]->finding);
			free_peer(dg, &dg->peers[bucket]);
		}
}

ssize_t vb_dgram_udp_send(struct vb_dgram *dg, struct vb_dgram_peer *peer,
			  struct vb_rs_cursor *from, size_t bytes, bool data)
{
	struct vb_ds_udp hdr = {.v6 = dg->rs.domain == AF_INET6, .data = data};
	uint8_t header[VB_DS_UDP_HDR_MAX];
	struct iovec iov[2] = {{.iov_base = header}, {.iov_len = bytes}};
	struct msghdr msg = {.msg_name = &peer->addr.sa,
			     .msg_namelen = vb_rs_addr_bytes(&peer->addr.sa),
			     .msg_iov = iov,
			     .msg_iovlen = 2};
	uint8_t *copy = malloc(bytes ? bytes : 1);
	ssize_t ret;

	if (!copy)
		return -1;
	if (peer->qp) {
		const union vb_rs_addr *local = &peer->qp->local;

		hdr.qpn = peer->qp->id->qp->qp_num;
		memcpy(hdr.addr,
		       hdr.v6 ? (const void *)&local->sin6.sin6_addr
			      : (const void *)&local->sin.sin_addr,
		       hdr.v6 ? 16 : 4);
	}
	iov[0].iov_len = vb_ds_udp_pack(&hdr, header);
	iov[1].iov_base = copy;
	if (bytes)
		vb_rs_gather(from, copy, bytes);
	do
		ret = sendmsg(dg->udp_fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (ret < 0 && errno == EINTR);
	free(copy);
	return ret < 0 ? -1 : (ssize_t)bytes;
}

static void find_way(struct vb_dgram *dg, struct vb_dgram_peer *peer)
{
	union vb_rs_addr local = peer->qp->local;

	if (peer->finding)
		return;
	if (rdma_create_id(vb_rs_service_channel(&dg->rs), &peer->finding, &dg->rs, RDMA_PS_UDP)) {
		peer->finding = NULL;
		return;
	}
	local.sin.sin_port = 0;
	if (rdma_resolve_addr(peer->finding, &local.sa, &peer->addr.sa, RESOLVE_TIMEOUT)) {
		/* No event of it can be under way. */
		rdma_destroy_id(peer->finding);
		peer->finding = NULL;
	}
}

static uint8_t sgid_index(struct rdma_cm_id *id, const union ibv_gid *sgid)
{
	struct ibv_port_attr port;
	union ibv_gid gid;

	if (ibv_query_port(id->verbs, id->port_num, &port))
		return 0;
	for (int i = 0; i < port.gid_tbl_len && i < 256; i++)
		if (!ibv_query_gid(id->verbs, id->port_num, i, &gid) &&
		    !memcmp(&gid, sgid, sizeof(gid)))
			return (uint8_t)i;
	return 0;
}

static void make_ah(struct vb_dgram_peer *peer)
{
	struct rdma_cm_id *id = peer->finding;
	const struct ibv_sa_path_rec *path = id->route.path_rec;
	struct ibv_ah_attr attr = {.port_num = id->port_num, .is_global = 1};

	if (!path || !id->route.num_paths || id->verbs != peer->qp->id->verbs)
		return;
	attr.grh.dgid = path->dgid;
	attr.grh.flow_label = ntohl(path->flow_label);
	attr.grh.sgid_index = sgid_index(id, &path->sgid);
	attr.grh.hop_limit = path->hop_limit;
	attr.grh.traffic_class = path->traffic_class;
	attr.sl = path->sl;
	attr.static_rate = path->rate;
	attr.dlid = ntohs(path->dlid);
	peer->ah = ibv_create_ah(peer->qp->id->pd, &attr);
}

static struct vb_dgram_peer *finder_of(struct vb_dgram *dg, const struct rdma_cm_id *id)
{
	for (int bucket = 0; bucket < VB_DGRAM_BUCKETS; bucket++)
		for (struct vb_dgram_peer *peer = dg->peers[bucket]; peer; peer = peer->next)
			if (peer->finding == id)
				return peer;
	return NULL;
}

struct rdma_cm_id *vb_dgram_cm_event(struct vb_dgram *dg, struct rdma_cm_event *event)
{
	struct rdma_cm_id *done = NULL;
	struct vb_dgram_peer *peer;

	pthread_mutex_lock(&dg->rs.lock);
	peer = finder_of(dg, event->id);
	if (!peer)
		goto out;
	if (event->event == RDMA_CM_EVENT_ADDR_RESOLVED &&
	    !rdma_resolve_route(event->id, RESOLVE_TIMEOUT))
		goto out;
	if (event->event == RDMA_CM_EVENT_ROUTE_RESOLVED)
		make_ah(peer);
	done = peer->finding;
	peer->finding = NULL;
out:
	pthread_mutex_unlock(&dg->rs.lock);
	return done;
}

static void take_packet(struct vb_dgram *dg, const union vb_rs_addr *from, const uint8_t *packet,
			size_t bytes)
{
	struct vb_dgram_peer *peer;
	struct vb_ds_udp hdr;
	size_t header = vb_ds_udp_unpack(packet, bytes, &hdr);

	if (!header || hdr.v6 != (from->sa.sa_family == AF_INET6))
		return;
	peer = vb_dgram_peer_get(dg, from);
	if (!peer)
		return;
	if (hdr.data)
		vb_dgram_udp_send(dg, peer, NULL, 0, false);
	if (peer->qp && hdr.qpn && (!peer->ah || peer->qpn != hdr.qpn)) {
		if (peer->ah && !ibv_destroy_ah(peer->ah))
			peer->ah = NULL;
		peer->qpn = hdr.qpn;
		find_way(dg, peer);
	}
	if (hdr.data && dg->rd_open)
		vb_dgram_queue(dg, from, packet + header, bytes - header);
}

uint64_t vb_dgram_serve(struct vb_dgram *dg, uint64_t now_ns)
{
	uint8_t *packet = malloc(UDP_MOST);

	if (!packet)
		return VB_RS_NEVER;
	pthread_mutex_lock(&dg->rs.lock);
	for (int i = 0; i < READS_AT_ONCE && !dg->rs.closed; i++) {
		union vb_rs_addr from = {0};
		socklen_t len = sizeof(from);
		ssize_t got = recvfrom(dg->udp_fd, packet, UDP_MOST, MSG_DONTWAIT, &from.sa, &len);

		if (got >= 0)
			take_packet(dg, &from, packet, (size_t)got);
		else if (errno == EAGAIN || errno == EBADF)
			break;
		else if (dg->connected)
			dg->rs.error = errno; /* nobody is there, says the peer's host */
	}
	vb_dgram_changed(dg);
	pthread_mutex_unlock(&dg->rs.lock);
	free(packet);
	return VB_RS_NEVER;
}

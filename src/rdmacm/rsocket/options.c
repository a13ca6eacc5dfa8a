/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include <infiniband/sa.h>
#include <rdma/rsocket.h>

#include "base/rules.h"
#include "rdmacm/rsocket/dgram.h"
#include "rdmacm/rsocket/stream.h"

#define NS_PER_S    1000000000ull
#define TIMEO_MAX_S 1000000000

/* An option as set: its value where it is an int, and all of it. */
struct value {
	int level, name;
	int number;
	const void *at;
	socklen_t bytes;
};

#define UNKNOWN 1 /* no option of ours */

static int refuse_value(const struct vb_rs *rs, const struct value *value)
{
	return vb_fail_minus1(VB_RULE_RSOCKET_VALUE,
			      "rsetsockopt fd=%d level=%d option=%d: %u bytes, value %d", rs->fd,
			      value->level, value->name, value->bytes, value->number);
}

static void set_flag(struct vb_rs *rs, enum vb_rs_flag flag, bool on)
{
	if (on)
		rs->options |= 1ull << flag;
	else
		rs->options &= ~(1ull << flag);
}

static bool has_buffers(struct vb_rs *rs)
{
	return rs->kind == VB_RS_STREAM ? vb_stream_of(rs)->cq != NULL
					: vb_dgram_of(rs)->qps != NULL;
}

/* As the system does: twice what is asked for; too late is no error. */
static void set_buffer(struct vb_rs *rs, uint32_t *bytes, int wanted)
{
	if (!has_buffers(rs))
		*bytes = vb_rs_buffer_bytes(wanted > 0 ? (uint64_t)wanted * 2 : 0);
}

static int set_timeout(struct vb_rs *rs, uint64_t *ns, const struct value *value)
{
	struct timeval limit;

	if (value->bytes < sizeof(limit))
		return refuse_value(rs, value);
	memcpy(&limit, value->at, sizeof(limit));
	if (limit.tv_usec < 0 || limit.tv_usec >= 1000000) {
		errno = EDOM;
		return -1;
	}
	if (limit.tv_sec < 0 || limit.tv_sec > TIMEO_MAX_S)
		*ns = 0;
	else
		*ns = (uint64_t)limit.tv_sec * NS_PER_S + (uint64_t)limit.tv_usec * 1000;
	return 0;
}

/* An id that is bound already takes no REUSEADDR; a socket that asks for it is content. */
static int set_reuse(struct vb_rs *rs, int on)
{
	set_flag(rs, VB_RS_REUSEADDR, on);
	if (rs->kind == VB_RS_STREAM && vb_stream_of(rs)->state == VB_STREAM_INIT)
		rdma_set_option(vb_stream_of(rs)->id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on,
				sizeof(on));
	return 0;
}

static int set_socket(struct vb_rs *rs, const struct value *value)
{
	switch (value->name) {
	case SO_REUSEADDR:
		return set_reuse(rs, value->number != 0);
	case SO_RCVBUF:
		set_buffer(rs, &rs->conf.rbuf_bytes, value->number);
		return 0;
	case SO_SNDBUF:
		set_buffer(rs, &rs->conf.sbuf_bytes, value->number);
		return 0;
	case SO_LINGER:
		if (value->bytes < sizeof(struct linger))
			return refuse_value(rs, value);
		memcpy(&rs->linger, value->at, sizeof(rs->linger));
		set_flag(rs, VB_RS_LINGER_SET, true);
		return 0;
	case SO_KEEPALIVE:
		set_flag(rs, VB_RS_KEEPALIVE, value->number);
		if (rs->kind == VB_RS_STREAM)
			return vb_stream_set_keepalive(vb_stream_of(rs), value->number);
		return 0;
	case SO_OOBINLINE:
		set_flag(rs, VB_RS_OOBINLINE, value->number);
		return 0;
	case SO_RCVTIMEO:
		return set_timeout(rs, &rs->recv_wait_ns, value);
	case SO_SNDTIMEO:
		return set_timeout(rs, &rs->send_wait_ns, value);
	default:
		return UNKNOWN;
	}
}

static int set_tcp(struct vb_rs *rs, const struct value *value)
{
	switch (value->name) {
	case TCP_NODELAY:
		set_flag(rs, VB_RS_NODELAY, value->number);
		return 0;
	case TCP_MAXSEG:
	case TCP_KEEPCNT:
	case TCP_KEEPINTVL:
		/* The transport's own retries decide. */
		return 0;
	case TCP_KEEPIDLE:
		if (value->number <= 0)
			return refuse_value(rs, value);
		rs->keepalive_s = value->number;
		if (rs->kind == VB_RS_STREAM && vb_rs_flag(rs, VB_RS_KEEPALIVE))
			return vb_stream_set_keepalive(vb_stream_of(rs), true);
		return 0;
	default:
		return UNKNOWN;
	}
}

static int set_ipv6(struct vb_rs *rs, const struct value *value)
{
	int on = value->number != 0;

	if (value->name != IPV6_V6ONLY)
		return UNKNOWN;
	if (rs->kind == VB_RS_STREAM && rdma_set_option(vb_stream_of(rs)->id, RDMA_OPTION_ID,
							RDMA_OPTION_ID_AFONLY, &on, sizeof(on)))
		return -1;
	set_flag(rs, VB_RS_V6ONLY, on);
	return 0;
}

static int set_route(struct vb_rs *rs, const struct value *value)
{
	struct vb_stream *st = vb_stream_of(rs);
	void *copy;

	if (rs->kind != VB_RS_STREAM || !value->bytes ||
	    value->bytes % sizeof(struct ibv_path_data) || value->bytes > UINT16_MAX)
		return refuse_value(rs, value);
	copy = malloc(value->bytes);
	if (!copy)
		return -1;
	memcpy(copy, value->at, value->bytes);
	free(st->route);
	st->route = copy;
	st->route_bytes = value->bytes;
	return 0;
}

static int set_rdma(struct vb_rs *rs, const struct value *value)
{
	if (rs->kind == VB_RS_STREAM && vb_stream_of(rs)->state > VB_STREAM_LISTENING)
		return vb_fail_minus1(VB_RULE_RSOCKET_LATE, "rsetsockopt fd=%d option=%d", rs->fd,
				      value->name);
	if (value->name != RDMA_ROUTE && value->number < 0)
		return refuse_value(rs, value);
	switch (value->name) {
	case RDMA_SQSIZE:
		rs->conf.sq_size = vb_rs_queue_size((uint64_t)value->number);
		return 0;
	case RDMA_RQSIZE:
		rs->conf.rq_size = vb_rs_queue_size((uint64_t)value->number);
		return 0;
	case RDMA_INLINE:
		rs->conf.inline_bytes =
			(uint16_t)(value->number < VB_RS_MAX_QUEUE ? value->number
								   : VB_RS_MAX_QUEUE);
		return 0;
	case RDMA_IOMAPSIZE:
		rs->conf.iomap_entries = vb_rs_iomap_round((uint32_t)value->number);
		return 0;
	case RDMA_ROUTE:
		return set_route(rs, value);
	default:
		return UNKNOWN;
	}
}

static int set_option(struct vb_rs *rs, const struct value *value)
{
	switch (value->level) {
	case SOL_SOCKET:
		return set_socket(rs, value);
	case IPPROTO_TCP:
		return rs->kind == VB_RS_STREAM ? set_tcp(rs, value) : UNKNOWN;
	case IPPROTO_IPV6:
		return set_ipv6(rs, value);
	case SOL_RDMA:
		return set_rdma(rs, value);
	default:
		return UNKNOWN;
	}
}

static bool takes_int(const struct value *value)
{
	if (value->level == SOL_SOCKET)
		return value->name != SO_LINGER && value->name != SO_RCVTIMEO &&
		       value->name != SO_SNDTIMEO;
	return value->level != SOL_RDMA || value->name != RDMA_ROUTE;
}

int rsetsockopt(int socket, int level, int optname, const void *optval, socklen_t optlen)
{
	struct vb_rs *rs = vb_rs_lookup(socket, "rsetsockopt");
	struct value value = {.level = level, .name = optname, .at = optval, .bytes = optlen};
	int kernel = UNKNOWN, ret;

	if (!rs)
		return -1;
	pthread_mutex_lock(&rs->lock);
	if (!optval || (takes_int(&value) && optlen < sizeof(int))) {
		ret = refuse_value(rs, &value);
		goto out;
	}
	if (takes_int(&value))
		memcpy(&value.number, optval, sizeof(int));
	/* The UDP socket has options of its own, and must agree on the common ones. */
	if (rs->kind == VB_RS_DGRAM && level != SOL_RDMA)
		kernel = setsockopt(vb_dgram_of(rs)->udp_fd, level, optname, optval, optlen);
	ret = kernel < 0 ? -1 : set_option(rs, &value);
	if (ret == UNKNOWN && !kernel)
		ret = 0;
	if (ret == UNKNOWN)
		ret = vb_fail_minus1(VB_RULE_RSOCKET_OPTION, "rsetsockopt fd=%d level=%d option=%d",
				     socket, level, optname);
out:
	pthread_mutex_unlock(&rs->lock);
	vb_rs_put(rs);
	return ret;
}

/* An option as asked for: filled with at most 16 bytes, or bytes that lie elsewhere. */
struct answer {
	union {
		int number;
		struct linger linger;
		struct timeval time;
	};
	const void *at;
	socklen_t bytes;
};

static int answer_int(struct answer *answer, int number)
{
	answer->number = number;
	answer->bytes = sizeof(int);
	return 0;
}

static int answer_time(struct answer *answer, uint64_t ns)
{
	answer->time.tv_sec = (time_t)(ns / NS_PER_S);
	answer->time.tv_usec = (suseconds_t)(ns % NS_PER_S / 1000);
	answer->bytes = sizeof(answer->time);
	return 0;
}

static int take_error(struct vb_rs *rs)
{
	int err = rs->error;

	/* Completions that nobody looked at yet may hold one. */
	if (!err)
		vb_rs_progress(rs);
	err = rs->error;
	rs->error = 0;
	return err;
}

static int get_socket(struct vb_rs *rs, int name, struct answer *answer)
{
	bool stream = rs->kind == VB_RS_STREAM;

	switch (name) {
	case SO_ERROR:
		return answer_int(answer, take_error(rs));
	case SO_REUSEADDR:
		return answer_int(answer, vb_rs_flag(rs, VB_RS_REUSEADDR));
	case SO_KEEPALIVE:
		return answer_int(answer, vb_rs_flag(rs, VB_RS_KEEPALIVE));
	case SO_OOBINLINE:
		return answer_int(answer, vb_rs_flag(rs, VB_RS_OOBINLINE));
	case SO_RCVBUF:
		return answer_int(answer, (int)rs->conf.rbuf_bytes);
	case SO_SNDBUF:
		return answer_int(answer, (int)rs->conf.sbuf_bytes);
	case SO_LINGER:
		answer->linger = rs->linger;
		answer->bytes = sizeof(rs->linger);
		return 0;
	case SO_RCVTIMEO:
		return answer_time(answer, rs->recv_wait_ns);
	case SO_SNDTIMEO:
		return answer_time(answer, rs->send_wait_ns);
	case SO_TYPE:
		return answer_int(answer, stream ? SOCK_STREAM : SOCK_DGRAM);
	case SO_DOMAIN:
		return answer_int(answer, rs->domain);
	case SO_PROTOCOL:
		return answer_int(answer, stream ? IPPROTO_TCP : IPPROTO_UDP);
	case SO_ACCEPTCONN:
		return answer_int(answer, stream && vb_stream_of(rs)->state == VB_STREAM_LISTENING);
	default:
		return UNKNOWN;
	}
}

static int max_segment(struct vb_rs *rs)
{
	const struct rdma_route *route;

	if (rs->kind != VB_RS_STREAM)
		return VB_RS_SEND_LOWEST;
	route = &vb_stream_of(rs)->id->route;
	return route->num_paths && route->path_rec ? 128 << route->path_rec->mtu
						   : VB_RS_SEND_LOWEST;
}

static int get_tcp(struct vb_rs *rs, int name, struct answer *answer)
{
	switch (name) {
	case TCP_NODELAY:
		return answer_int(answer, vb_rs_flag(rs, VB_RS_NODELAY));
	case TCP_MAXSEG:
		return answer_int(answer, max_segment(rs));
	case TCP_KEEPCNT:
	case TCP_KEEPINTVL:
		return answer_int(answer, 1);
	case TCP_KEEPIDLE:
		return answer_int(answer, rs->keepalive_s ? rs->keepalive_s : 7200);
	default:
		return UNKNOWN;
	}
}

static int get_rdma(struct vb_rs *rs, int name, struct answer *answer)
{
	switch (name) {
	case RDMA_SQSIZE:
		return answer_int(answer, rs->conf.sq_size);
	case RDMA_RQSIZE:
		return answer_int(answer, rs->conf.rq_size);
	case RDMA_INLINE:
		return answer_int(answer, rs->conf.inline_bytes);
	case RDMA_IOMAPSIZE:
		return answer_int(answer, rs->conf.iomap_entries);
	default:
		return UNKNOWN;
	}
}

static struct ibv_path_data path_data_of(const struct ibv_sa_path_rec *rec)
{
	return (struct ibv_path_data){
		.flags = rec->preference,
		.path = {.dgid = rec->dgid,
			 .sgid = rec->sgid,
			 .dlid = rec->dlid,
			 .slid = rec->slid,
			 .flowlabel_hoplimit = htonl(ntohl(rec->flow_label) << 8 | rec->hop_limit),
			 .tclass = rec->traffic_class,
			 .reversible_numpath = (uint8_t)((rec->reversible ? 1 : 0) << 7 | 1),
			 .pkey = rec->pkey,
			 .qosclass_sl = htons(rec->sl & 0xf),
			 /* Selector "exactly". */
			 .mtu = (uint8_t)(rec->mtu | 2 << 6),
			 .rate = (uint8_t)(rec->rate | 2 << 6),
			 .packetlifetime = (uint8_t)(rec->packet_life_time | 2 << 6)},
	};
}

/* As many path records as there are and fit; what the program gave comes back as it is. */
static int get_route(struct vb_rs *rs, void *optval, socklen_t *optlen)
{
	struct vb_stream *st = vb_stream_of(rs);
	const struct rdma_route *route = &st->id->route;
	struct ibv_path_data data;
	socklen_t bytes = 0;

	if (st->route) {
		if (*optlen < st->route_bytes)
			return UNKNOWN;
		memcpy(optval, st->route, st->route_bytes);
		*optlen = (socklen_t)st->route_bytes;
		return 0;
	}
	for (int i = 0; i < route->num_paths && *optlen - bytes >= sizeof(data); i++) {
		data = path_data_of(&route->path_rec[i]);
		memcpy((char *)optval + bytes, &data, sizeof(data));
		bytes += sizeof(data);
	}
	*optlen = bytes;
	return 0;
}

static int get_option(struct vb_rs *rs, int level, int name, struct answer *answer)
{
	switch (level) {
	case SOL_SOCKET:
		return get_socket(rs, name, answer);
	case IPPROTO_TCP:
		return rs->kind == VB_RS_STREAM ? get_tcp(rs, name, answer) : UNKNOWN;
	case IPPROTO_IPV6:
		return name == IPV6_V6ONLY ? answer_int(answer, vb_rs_flag(rs, VB_RS_V6ONLY))
					   : UNKNOWN;
	case SOL_RDMA:
		return get_rdma(rs, name, answer);
	default:
		return UNKNOWN;
	}
}

int rgetsockopt(int socket, int level, int optname, void *optval, socklen_t *optlen)
{
	struct vb_rs *rs = vb_rs_lookup(socket, "rgetsockopt");
	struct answer answer = {0};
	int ret;

	if (!rs)
		return -1;
	pthread_mutex_lock(&rs->lock);
	if (!optval || !optlen) {
		ret = vb_fail_minus1(VB_RULE_RSOCKET_VALUE, "rgetsockopt fd=%d: no place for it",
				     socket);
		goto out;
	}
	if (level == SOL_RDMA && optname == RDMA_ROUTE && rs->kind == VB_RS_STREAM) {
		ret = get_route(rs, optval, optlen);
		goto check;
	}
	ret = get_option(rs, level, optname, &answer);
	if (!ret) {
		if (*optlen > answer.bytes)
			*optlen = answer.bytes;
		memcpy(optval, &answer, *optlen);
	} else if (rs->kind == VB_RS_DGRAM && level != SOL_RDMA) {
		ret = getsockopt(vb_dgram_of(rs)->udp_fd, level, optname, optval, optlen);
	}
check:
	if (ret == UNKNOWN)
		ret = vb_fail_minus1(VB_RULE_RSOCKET_OPTION, "rgetsockopt fd=%d level=%d option=%d",
				     socket, level, optname);
out:
	pthread_mutex_unlock(&rs->lock);
	vb_rs_put(rs);
	return ret;
}

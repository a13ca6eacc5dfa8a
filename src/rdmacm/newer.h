/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_RDMACM_NEWER_H
#define VB_RDMACM_NEWER_H

#include <stdint.h>
#include <sys/epoll.h>

#include <rdma/rdma_cma.h>

/*
 * What releases of librdmacm after 44 add. Functions are declared as the newest header
 * does, so that a later installed header only repeats them.
 */

enum {
	VB_CM_EVENT_ADDRINFO_RESOLVED = 16,
	VB_CM_EVENT_ADDRINFO_ERROR = 17,
	VB_CM_EVENT_USER = 18,
};

/* RDMACM_1.4 */
int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info);
int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
			  const struct rdma_addrinfo *hints);
int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
			uint64_t arg);

/* RDMACM_1.5 */
int repoll_create(int size);
int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event);
int repoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout);

#endif

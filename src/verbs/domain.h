/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_VERBS_DOMAIN_H
#define VB_VERBS_DOMAIN_H

#include <infiniband/verbs.h>

/* The verbs ibv_alloc_td, ibv_dealloc_td and ibv_alloc_parent_domain. */
struct ibv_td *vb_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr);
int vb_dealloc_td(struct ibv_td *td);
struct ibv_pd *vb_alloc_parent_domain(struct ibv_context *context,
				      struct ibv_parent_domain_init_attr *attr);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_VERBS_CQ_H
#define VB_VERBS_CQ_H

#include <infiniband/verbs.h>

/* Op slots; the contracts are the man pages' of the same names with ibv_. */
struct ibv_cq_ex *vb_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
int vb_req_notify_cq(struct ibv_cq *cq, int solicited_only);

#endif

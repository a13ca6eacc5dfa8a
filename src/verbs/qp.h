/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_VERBS_QP_H
#define VB_VERBS_QP_H

#include "object/qp.h"

/* Op slot behind ibv_create_qp_ex. */
struct ibv_qp *vb_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);

/* Op slots behind ibv_post_send and ibv_post_recv. */
int vb_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
int vb_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

int vb_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

/* Op slots behind ibv_create_srq_ex and ibv_get_srq_num. */
struct ibv_srq *vb_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr);
int vb_get_srq_num(struct ibv_srq *srq, uint32_t *num);

/** vb_wr_ops_fill() - Set the builder functions of an extended QP */
void vb_wr_ops_fill(struct vb_qp *qp);

#endif

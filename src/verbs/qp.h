/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_VERBS_QP_H
#define VB_VERBS_QP_H

#include "object/qp.h"

/* Op slot behind ibv_create_qp_ex. */
struct ibv_qp *vb_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);

/* Op slots behind ibv_post_send and ibv_post_recv. */
int vb_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
int vb_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

/** vb_wr_ops_fill() - Set the builder functions of an extended QP */
void vb_wr_ops_fill(struct vb_qp *qp);

/* Operations that ibv_create_qp_ex may ask for. */
#define VB_SEND_OPS                                                                                \
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |    \
	 IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |                                 \
	 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)

#endif

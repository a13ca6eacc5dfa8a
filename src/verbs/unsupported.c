/* SPDX-License-Identifier: BSD-2-Clause */
#include <sys/types.h>

#include <infiniband/verbs.h>

#include "base/rules.h"
#include "verbs/newer.h"

/*
 * Theory of operation
 *
 * The exported verbs that are not implemented: each refuses as its man page says for a
 * device without it. A verb leaves this list when it gets a file of its own.
 *
 * What a refusal looks like differs by verb (NULL, errno value, -1, negative errno).
 */

#define REFUSE(type, fail, name, ...)                                                              \
	type name(__VA_ARGS__)                                                                     \
	{                                                                                          \
		return fail(VB_RULE_NOT_SUPPORTED, #name);                                         \
	}
#define vb_fail_negative(...) -vb_fail(__VA_ARGS__)
#define PTR(type, name, ...)  REFUSE(type *, vb_fail_null, name, __VA_ARGS__)
#define ERR(name, ...)	      REFUSE(int, vb_fail, name, __VA_ARGS__)

/* clang-format off */

/* Memory */
PTR(struct ibv_dmah, ibv_alloc_dmah, struct ibv_context *context, struct ibv_dmah_init_attr *attr)
ERR(ibv_dealloc_dmah, struct ibv_dmah *dmah)

/* Queue pairs, shared receive queues */
/* A bit mask of what is promised: nothing is. */
int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	return 0;
}

ERR(ibv_set_ece, struct ibv_qp *qp, struct ibv_ece *ece)
ERR(ibv_query_ece, struct ibv_qp *qp, struct ibv_ece *ece)

/* Addresses */
REFUSE(int, vb_fail_negative, ibv_resolve_eth_l2_from_gid, struct ibv_context *context,
       struct ibv_ah_attr *attr, uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid)

/* Completion counters */
ERR(_ibv_query_comp_cntr_caps, struct ibv_context *context, struct ibv_comp_cntr_caps *caps,
    size_t caps_size)
PTR(struct ibv_comp_cntr, ibv_create_comp_cntr, struct ibv_context *context,
    struct ibv_comp_cntr_init_attr *cc_attr)
ERR(ibv_destroy_comp_cntr, struct ibv_comp_cntr *comp_cntr)
ERR(ibv_set_comp_cntr, struct ibv_comp_cntr *comp_cntr, uint64_t value)
ERR(ibv_set_err_comp_cntr, struct ibv_comp_cntr *comp_cntr, uint64_t value)
ERR(ibv_inc_comp_cntr, struct ibv_comp_cntr *comp_cntr, uint64_t amount)
ERR(ibv_inc_err_comp_cntr, struct ibv_comp_cntr *comp_cntr, uint64_t amount)
ERR(ibv_read_comp_cntr, struct ibv_comp_cntr *comp_cntr, uint64_t *value)
ERR(ibv_read_err_comp_cntr, struct ibv_comp_cntr *comp_cntr, uint64_t *value)
ERR(ibv_qp_attach_comp_cntr, struct ibv_qp *qp, struct ibv_comp_cntr *comp_cntr,
    struct ibv_qp_attach_comp_cntr_attr *attr)

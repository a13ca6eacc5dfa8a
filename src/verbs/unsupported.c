/* SPDX-License-Identifier: BSD-2-Clause */
#include <sys/types.h>

#include <infiniband/verbs.h>

#include "base/rules.h"
#include "verbs/newer.h"

/*
 * Theory of operation
 *
 * Every exported verb that depends on an object has a default here that refuses as its
 * man page says for a device without it. The defaults are weak: a definition of the
 * same name in any other file of this folder replaces it, and then its line here is to
 * be deleted. What remains is the list of verbs not implemented.
 *
 * What a refusal looks like differs by verb (NULL, errno value, -1, negative errno).
 */

/* The header hides the functions behind macros of the same names. */
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define REFUSE(type, fail, name, ...)                                                              \
	__attribute__((weak)) type name(__VA_ARGS__)                                               \
	{                                                                                          \
		return fail(VB_RULE_NOT_SUPPORTED, #name);                                         \
	}
#define vb_fail_negative(...) -vb_fail(__VA_ARGS__)
#define PTR(type, name, ...)  REFUSE(type *, vb_fail_null, name, __VA_ARGS__)
#define ERR(name, ...)	      REFUSE(int, vb_fail, name, __VA_ARGS__)
#define MINUS1(name, ...)     REFUSE(int, vb_fail_minus1, name, __VA_ARGS__)
#define NONE(name, ...)                                                                            \
	__attribute__((weak)) void name(__VA_ARGS__)                                               \
	{                                                                                          \
	}

/* clang-format off */

/* Devices */
__attribute__((weak)) struct ibv_device **ibv_get_device_list(int *num_devices)
{
	if (num_devices)
		*num_devices = 0;
	return vb_fail_null(VB_RULE_NOT_SUPPORTED, "ibv_get_device_list");
}
NONE(ibv_free_device_list, struct ibv_device **list)
PTR(const char, ibv_get_device_name, struct ibv_device *device)
MINUS1(ibv_get_device_index, struct ibv_device *device)
__attribute__((weak)) __be64 ibv_get_device_guid(struct ibv_device *device)
{
	return 0;
}
PTR(struct ibv_context, ibv_open_device, struct ibv_device *device)
ERR(ibv_close_device, struct ibv_context *context)
MINUS1(ibv_get_async_event, struct ibv_context *context, struct ibv_async_event *event)
NONE(ibv_ack_async_event, struct ibv_async_event *event)
__attribute__((weak)) const char *ibv_get_sysfs_path(void)
{
	return "/sys";
}
MINUS1(ibv_read_sysfs_file, const char *dir, const char *file, char *buf, size_t size)

/* Queries */
ERR(ibv_query_device, struct ibv_context *context, struct ibv_device_attr *device_attr)
ERR(ibv_query_port, struct ibv_context *context, uint8_t port_num,
    struct _compat_ibv_port_attr *port_attr)
ERR(ibv_query_port_speed, struct ibv_context *context, uint32_t port_num, uint64_t *port_speed)
MINUS1(ibv_query_gid, struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid)
MINUS1(ibv_query_gid_type, struct ibv_context *context, uint8_t port_num, unsigned int index,
       unsigned int *type)
ERR(_ibv_query_gid_ex, struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
    struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
REFUSE(ssize_t, vb_fail_negative, _ibv_query_gid_table, struct ibv_context *context,
       struct ibv_gid_entry *entries, size_t max_entries, uint32_t flags, size_t entry_size)
MINUS1(ibv_query_pkey, struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey)
MINUS1(ibv_get_pkey_index, struct ibv_context *context, uint8_t port_num, __be16 pkey)

/* Memory */
PTR(struct ibv_dmah, ibv_alloc_dmah, struct ibv_context *context, struct ibv_dmah_init_attr *attr)
ERR(ibv_dealloc_dmah, struct ibv_dmah *dmah)

/* Completion */
PTR(struct ibv_comp_channel, ibv_create_comp_channel, struct ibv_context *context)
ERR(ibv_destroy_comp_channel, struct ibv_comp_channel *channel)
PTR(struct ibv_cq, ibv_create_cq, struct ibv_context *context, int cqe, void *cq_context,
    struct ibv_comp_channel *channel, int comp_vector)
ERR(ibv_resize_cq, struct ibv_cq *cq, int cqe)
ERR(ibv_destroy_cq, struct ibv_cq *cq)
MINUS1(ibv_get_cq_event, struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
NONE(ibv_ack_cq_events, struct ibv_cq *cq, unsigned int nevents)

/* Queue pairs, shared receive queues */
PTR(struct ibv_srq, ibv_create_srq, struct ibv_pd *pd, struct ibv_srq_init_attr *srq_init_attr)
ERR(ibv_modify_srq, struct ibv_srq *srq, struct ibv_srq_attr *srq_attr, int srq_attr_mask)
ERR(ibv_query_srq, struct ibv_srq *srq, struct ibv_srq_attr *srq_attr)
ERR(ibv_destroy_srq, struct ibv_srq *srq)
PTR(struct ibv_qp, ibv_create_qp, struct ibv_pd *pd, struct ibv_qp_init_attr *qp_init_attr)
ERR(ibv_modify_qp, struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
ERR(ibv_query_qp, struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
    struct ibv_qp_init_attr *init_attr)
ERR(ibv_destroy_qp, struct ibv_qp *qp)
/* A bit mask of what is promised: nothing is. */
__attribute__((weak)) int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op,
						     uint32_t flags)
{
	return 0;
}
/* NULL says that the QP was made without send operations; it is no failure. */
__attribute__((weak)) struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	return NULL;
}
ERR(ibv_set_ece, struct ibv_qp *qp, struct ibv_ece *ece)
ERR(ibv_query_ece, struct ibv_qp *qp, struct ibv_ece *ece)

/* Addresses */
PTR(struct ibv_ah, ibv_create_ah, struct ibv_pd *pd, struct ibv_ah_attr *attr)
ERR(ibv_destroy_ah, struct ibv_ah *ah)
ERR(ibv_attach_mcast, struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
ERR(ibv_detach_mcast, struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
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

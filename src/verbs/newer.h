/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_VERBS_NEWER_H
#define VB_VERBS_NEWER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <infiniband/verbs.h>

/*
 * What releases of rdma-core after 44 add to the public header, and the private names
 * that programs use all the same.
 *
 * The installed header may be 44 or any later one. Functions are declared as the newest
 * header does, over structs that are only named here: a repeated declaration, or the
 * struct's own definition in the installed header, then does no harm. Our code reads
 * and writes these structs through the vb_ forms below, which have the same layout
 * (compared with the lists by tests/abi).
 */

struct ibv_buf;
struct ibv_comp_cntr;
struct ibv_comp_cntr_caps;
struct ibv_comp_cntr_init_attr;
struct ibv_dmah;
struct ibv_dmah_init_attr;
struct ibv_mr_init_attr;
struct ibv_qp_attach_comp_cntr_attr;

/* Sizes a caller's struct ibv_port_attr can have: the exported ibv_query_port fills the
 * first, the op slot gets the caller's own size. */
enum {
	VB_PORT_ATTR_SIZE_EXPORTED = 48,
	VB_PORT_ATTR_SIZE_V22 = 52,
	VB_PORT_ATTR_SIZE_V49 = 56,
};

/** struct vb_port_attr - struct ibv_port_attr as of release 49
 * @base:            The 48 bytes every release has
 * @port_cap_flags2: Since 22
 * @reserved:        Padding, zero
 * @active_speed_ex: Since 49: active_speed for speeds that do not fit 8 bits, 0 if unused
 */
struct vb_port_attr {
	uint8_t base[VB_PORT_ATTR_SIZE_EXPORTED];
	uint16_t port_cap_flags2;
	uint16_t reserved;
	uint32_t active_speed_ex;
};

/* struct ibv_qp_ex of the newest release, and the slot that header 44 does not know. */
enum {
	VB_QP_EX_SIZE = 360,
	VB_QP_EX_WR_FLUSH = 352,
};

/** union vb_qp_ex_newest - Room for the newest struct ibv_qp_ex, whatever header is installed */
union vb_qp_ex_newest {
	struct ibv_qp_ex ex;
	struct ibv_qp qp;
	uint8_t bytes[VB_QP_EX_SIZE];
};

/* enum ibv_wr_opcode and enum ibv_event_type beyond header 44. */
enum {
	VB_WR_FLUSH = 14,
	VB_WR_ATOMIC_WRITE = 15,
	VB_EVENT_DEVICE_SPEED_CHANGE = 20,
};

/* Slots of struct verbs_context beyond header 44, in bytes before the ibv_context, for
 * VB_CTX_SLOT(). */
enum {
	VB_SLOT_ALLOC_DMAH = 328,
	VB_SLOT_DEALLOC_DMAH = 336,
	VB_SLOT_REG_MR_EX = 344,
	VB_SLOT_DM_EXPORT_DMABUF_FD = 352,
	VB_SLOT_ALLOC_BUF = 360,
	VB_SLOT_FREE_BUF = 368,
};

enum vb_reg_mr_mask {
	VB_REG_MR_MASK_IOVA = 1 << 0,
	VB_REG_MR_MASK_ADDR = 1 << 1,
	VB_REG_MR_MASK_FD = 1 << 2,
	VB_REG_MR_MASK_FD_OFFSET = 1 << 3,
	VB_REG_MR_MASK_DMAH = 1 << 4,
	VB_REG_MR_MASK_BUF = 1 << 5,
};

struct vb_mr_init_attr {
	size_t length;
	int access;
	uint64_t comp_mask; /* enum vb_reg_mr_mask: which of the following may be read */
	uint64_t iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	struct ibv_dmah *dmah;
	struct ibv_buf *buf;
};

struct vb_dmah {
	struct ibv_context *context;
};

struct vb_dmah_init_attr {
	uint32_t comp_mask;
	uint32_t cpu_id;
	uint8_t ph;
	uint8_t tph_mem_type;
};

struct vb_comp_cntr_caps {
	uint64_t max_value;
	uint32_t max_counters;
	uint32_t supported_qp_attach_ops;
};

struct vb_comp_cntr {
	struct ibv_context *context;
	uint32_t handle;
};

struct vb_comp_cntr_init_attr {
	uint32_t comp_mask;
	uint32_t type;
	uint32_t flags;
};

struct vb_qp_attach_comp_cntr_attr {
	uint32_t comp_mask;
	uint32_t op_mask;
};

/* IBVERBS_1.15 */
struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *context, struct ibv_dmah_init_attr *attr);
int ibv_dealloc_dmah(struct ibv_dmah *dmah);
struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *mr_init_attr);

/* IBVERBS_1.16 */
int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm);
int ibv_query_port_speed(struct ibv_context *context, uint32_t port_num, uint64_t *port_speed);

/* IBVERBS_1.17 */
void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);
void ibv_free_buf(struct ibv_buf *buf);
struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
			      int access);

/* IBVERBS_1.18 */
int _ibv_query_comp_cntr_caps(struct ibv_context *context, struct ibv_comp_cntr_caps *caps,
			      size_t caps_size);
struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *context,
					   struct ibv_comp_cntr_init_attr *cc_attr);
int ibv_destroy_comp_cntr(struct ibv_comp_cntr *comp_cntr);
int ibv_set_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t value);
int ibv_set_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t value);
int ibv_inc_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t amount);
int ibv_inc_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t amount);
int ibv_read_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t *value);
int ibv_read_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t *value);
int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *comp_cntr,
			    struct ibv_qp_attach_comp_cntr_attr *attr);
int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf);

/* In the private nodes. */
const char *ibv_wr_opcode_str(enum ibv_wr_opcode opcode);

/** ibv_query_gid_type() - RoCE version of a GID table entry, for ibv_devinfo and pyverbs
 * @type:   Receives 0 (InfiniBand or RoCE v1) or 1 (RoCE v2)
 * Return:  0, or -1 with errno
 */
int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
		       unsigned int *type);

/* In no header: kept for drivers of other times. */
const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

#endif

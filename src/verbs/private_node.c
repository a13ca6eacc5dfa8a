/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include <infiniband/verbs.h>

#include "base/rules.h"
#include "base/symver.h"
#include "verbs/newer.h"

/*
 * Theory of operation
 *
 * rdma-core keeps what its provider libraries need in a node of its own, renumbered
 * whenever a structure behind it changes: IBVERBS_PRIVATE_34, 57, 59, 64, 65. Programs
 * of a distribution ask for the number of that distribution, so all are offered.
 * Three names are of use to programs (ibv_query_gid_type, ibv_wr_opcode_str and
 * verbs_allow_disassociate_destroy's address); everything else is for providers,
 * which may load and register here and are never called.
 *
 * The plain name is the version of the newest node (libibverbs.map); the lines here
 * add the older nodes. .symver needs the definition in the same file, hence the
 * wrappers around the two functions defined elsewhere.
 */

#define AT_59(fn, name)                                                                            \
	VB_SYMVER(fn, name, "IBVERBS_PRIVATE_59");                                                 \
	VB_SYMVER(fn, name, "IBVERBS_PRIVATE_64")
#define AT_34(fn, name)                                                                            \
	VB_SYMVER(fn, name, "IBVERBS_PRIVATE_34");                                                 \
	VB_SYMVER(fn, name, "IBVERBS_PRIVATE_57");                                                 \
	AT_59(fn, name)

/* The arguments are never looked at, so none are declared. */
#define COMMAND(name)                                                                              \
	VB_EXPORT int name(void);                                                                  \
	VB_EXPORT int name(void)                                                                   \
	{                                                                                          \
		return vb_fail(VB_RULE_NOT_SUPPORTED, #name ": there is no kernel device");        \
	}
#define VB_PRIVATE_34(name) COMMAND(name) AT_34(name, #name);
#define VB_PRIVATE_59(name) COMMAND(name) AT_59(name, #name);
#define VB_PRIVATE_65(name) COMMAND(name)
#include "verbs/private_node.def"
/* Gone in 57, so the map has it in node 34. */
COMMAND(ibv_cmd_query_device)

/* Providers print through this; nothing is printed here. */
VB_EXPORT void __verbs_log(void *context, int level, const char *fmt, ...);
VB_EXPORT void __verbs_log(void *context, int level, const char *fmt, ...)
{
}
AT_34(__verbs_log, "__verbs_log");

VB_EXPORT unsigned int __ioctl_final_num_attrs(unsigned int num_attrs, void *link);
VB_EXPORT unsigned int __ioctl_final_num_attrs(unsigned int num_attrs, void *link)
{
	return num_attrs;
}
AT_34(__ioctl_final_num_attrs, "__ioctl_final_num_attrs");

#define NOTHING(name)                                                                              \
	VB_EXPORT void name(void);                                                                 \
	VB_EXPORT void name(void)                                                                  \
	{                                                                                          \
	}
#define NO_POINTER(name)                                                                           \
	VB_EXPORT void *name(void);                                                                \
	VB_EXPORT void *name(void)                                                                 \
	{                                                                                          \
		return vb_fail_null(VB_RULE_NOT_SUPPORTED, #name ": providers are not used");      \
	}

NO_POINTER(_verbs_init_and_alloc_context)
AT_34(_verbs_init_and_alloc_context, "_verbs_init_and_alloc_context");
NO_POINTER(verbs_open_device)
AT_34(verbs_open_device, "verbs_open_device");
NOTHING(verbs_set_ops)
AT_34(verbs_set_ops, "verbs_set_ops");
NOTHING(verbs_uninit_context)
AT_34(verbs_uninit_context, "verbs_uninit_context");
NOTHING(verbs_init_cq)
AT_34(verbs_init_cq, "verbs_init_cq");

NO_POINTER(ibv_dmabuf_heap_alloc)
VB_SYMVER(ibv_dmabuf_heap_alloc, "ibv_dmabuf_heap_alloc", "IBVERBS_PRIVATE_64");
NO_POINTER(ibv_dmabuf_heap_cc_shared_init)
VB_SYMVER(ibv_dmabuf_heap_cc_shared_init, "ibv_dmabuf_heap_cc_shared_init", "IBVERBS_PRIVATE_64");
NOTHING(ibv_dmabuf_heap_destroy)
VB_SYMVER(ibv_dmabuf_heap_destroy, "ibv_dmabuf_heap_destroy", "IBVERBS_PRIVATE_64");
NOTHING(ibv_dmabuf_heap_free)
VB_SYMVER(ibv_dmabuf_heap_free, "ibv_dmabuf_heap_free", "IBVERBS_PRIVATE_64");

/* Providers' constructors call these while they are loaded: accepted and ignored. */
NOTHING(verbs_register_driver_34)
NOTHING(verbs_register_driver_57)
NOTHING(verbs_register_driver_59)
NOTHING(verbs_register_driver_64)
NOTHING(verbs_register_driver_65)

/* What drivers of 2005 registered with; hidden, as in rdma-core. */
NOTHING(vb_register_driver)
VB_SYMVER(vb_register_driver, "ibv_register_driver", "IBVERBS_1.1");

extern bool verbs_allow_disassociate_destroy;
VB_EXPORT bool verbs_allow_disassociate_destroy;
AT_34(verbs_allow_disassociate_destroy, "verbs_allow_disassociate_destroy");

VB_EXPORT int ibv_read_ibdev_sysfs_file(void);
VB_EXPORT int ibv_read_ibdev_sysfs_file(void)
{
	return vb_fail_minus1(VB_RULE_NOT_SUPPORTED, "ibv_read_ibdev_sysfs_file");
}
AT_34(ibv_read_ibdev_sysfs_file, "ibv_read_ibdev_sysfs_file");

VB_EXPORT int vb_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
				unsigned int *type);
VB_EXPORT int vb_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
				unsigned int *type)
{
	return ibv_query_gid_type(context, port_num, index, type);
}
AT_34(vb_query_gid_type, "ibv_query_gid_type");

VB_EXPORT const char *vb_wr_opcode_str(enum ibv_wr_opcode opcode);
VB_EXPORT const char *vb_wr_opcode_str(enum ibv_wr_opcode opcode)
{
	return ibv_wr_opcode_str(opcode);
}
AT_34(vb_wr_opcode_str, "ibv_wr_opcode_str");

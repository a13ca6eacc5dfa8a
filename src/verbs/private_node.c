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
 * A name's default version is the one of the newest node that has it. .symver needs the
 * definition in the same file, hence the wrappers around the two functions defined
 * elsewhere.
 */

/* The nodes that have a name, the newest as the default. */
#define FROM_65(fn, name) VB_SYMVER_DEFAULT(fn, name, "IBVERBS_PRIVATE_65")
#define FROM_64(fn, name)                                                                          \
	VB_SYMVER(fn, name, "IBVERBS_PRIVATE_64");                                                 \
	FROM_65(fn, name)
#define FROM_59(fn, name)                                                                          \
	VB_SYMVER(fn, name, "IBVERBS_PRIVATE_59");                                                 \
	FROM_64(fn, name)
#define FROM_34(fn, name)                                                                          \
	VB_SYMVER(fn, name, "IBVERBS_PRIVATE_34");                                                 \
	VB_SYMVER(fn, name, "IBVERBS_PRIVATE_57");                                                 \
	FROM_59(fn, name)
/* The same for names whose default is a plain function elsewhere, placed by the map. */
#define IN_OLDER(fn, name)                                                                         \
	VB_SYMVER(fn, name, "IBVERBS_PRIVATE_34");                                                 \
	VB_SYMVER(fn, name, "IBVERBS_PRIVATE_57");                                                 \
	VB_SYMVER(fn, name, "IBVERBS_PRIVATE_59");                                                 \
	VB_SYMVER(fn, name, "IBVERBS_PRIVATE_64")

/* The arguments are never looked at, so none are declared. */
#define COMMAND(fn, name)                                                                          \
	VB_EXPORT int fn(void);                                                                    \
	VB_EXPORT int fn(void)                                                                     \
	{                                                                                          \
		return vb_fail(VB_RULE_NOT_SUPPORTED, "%s: there is no kernel device", name);      \
	}
#define VB_PRIVATE_34(name) COMMAND(vb_private_##name, #name) FROM_34(vb_private_##name, #name);
#define VB_PRIVATE_59(name) COMMAND(vb_private_##name, #name) FROM_59(vb_private_##name, #name);
#define VB_PRIVATE_65(name) COMMAND(vb_private_##name, #name) FROM_65(vb_private_##name, #name);
#include "verbs/private_node.def"
/* Gone in 57, so the map has it in node 34. */
COMMAND(ibv_cmd_query_device, "ibv_cmd_query_device")

/* Providers print through this; nothing is printed here. */
VB_EXPORT void vb_private_log(void *context, int level, const char *fmt, ...);
VB_EXPORT void vb_private_log(void *context, int level, const char *fmt, ...)
{
}
FROM_34(vb_private_log, "__verbs_log");

VB_EXPORT unsigned int vb_private_num_attrs(unsigned int num_attrs, void *link);
VB_EXPORT unsigned int vb_private_num_attrs(unsigned int num_attrs, void *link)
{
	return num_attrs;
}
FROM_34(vb_private_num_attrs, "__ioctl_final_num_attrs");

#define NOTHING(fn)                                                                                \
	VB_EXPORT void fn(void);                                                                   \
	VB_EXPORT void fn(void)                                                                    \
	{                                                                                          \
	}
#define NO_POINTER(fn, name)                                                                       \
	VB_EXPORT void *fn(void);                                                                  \
	VB_EXPORT void *fn(void)                                                                   \
	{                                                                                          \
		return vb_fail_null(VB_RULE_NOT_SUPPORTED, "%s: providers are not used", name);    \
	}

NO_POINTER(vb_private_init_context, "_verbs_init_and_alloc_context")
FROM_34(vb_private_init_context, "_verbs_init_and_alloc_context");
NO_POINTER(vb_private_open_device, "verbs_open_device")
FROM_34(vb_private_open_device, "verbs_open_device");
NOTHING(vb_private_set_ops)
FROM_34(vb_private_set_ops, "verbs_set_ops");
NOTHING(vb_private_uninit_context)
FROM_34(vb_private_uninit_context, "verbs_uninit_context");
NOTHING(vb_private_init_cq)
FROM_34(vb_private_init_cq, "verbs_init_cq");

NO_POINTER(vb_private_heap_alloc, "ibv_dmabuf_heap_alloc")
FROM_64(vb_private_heap_alloc, "ibv_dmabuf_heap_alloc");
NO_POINTER(vb_private_heap_init, "ibv_dmabuf_heap_cc_shared_init")
FROM_64(vb_private_heap_init, "ibv_dmabuf_heap_cc_shared_init");
NOTHING(vb_private_heap_destroy)
FROM_64(vb_private_heap_destroy, "ibv_dmabuf_heap_destroy");
NOTHING(vb_private_heap_free)
FROM_64(vb_private_heap_free, "ibv_dmabuf_heap_free");

/* Providers' constructors call these while they are loaded: accepted and ignored. */
NOTHING(verbs_register_driver_34)
NOTHING(verbs_register_driver_57)
NOTHING(verbs_register_driver_59)
NOTHING(verbs_register_driver_64)
NOTHING(verbs_register_driver_65)

/* What drivers of 2005 registered with; hidden, as in rdma-core. */
NOTHING(vb_register_driver)
VB_SYMVER(vb_register_driver, "ibv_register_driver", "IBVERBS_1.1");

extern bool vb_allow_disassociate_destroy;
VB_EXPORT bool vb_allow_disassociate_destroy;
FROM_34(vb_allow_disassociate_destroy, "verbs_allow_disassociate_destroy");

VB_EXPORT int vb_private_read_sysfs(void);
VB_EXPORT int vb_private_read_sysfs(void)
{
	return vb_fail_minus1(VB_RULE_NOT_SUPPORTED, "ibv_read_ibdev_sysfs_file");
}
FROM_34(vb_private_read_sysfs, "ibv_read_ibdev_sysfs_file");

VB_EXPORT int vb_private_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
				  unsigned int *type);
VB_EXPORT int vb_private_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
				  unsigned int *type)
{
	return ibv_query_gid_type(context, port_num, index, type);
}
IN_OLDER(vb_private_gid_type, "ibv_query_gid_type");

VB_EXPORT const char *vb_private_opcode_str(enum ibv_wr_opcode opcode);
VB_EXPORT const char *vb_private_opcode_str(enum ibv_wr_opcode opcode)
{
	return ibv_wr_opcode_str(opcode);
}
IN_OLDER(vb_private_opcode_str, "ibv_wr_opcode_str");

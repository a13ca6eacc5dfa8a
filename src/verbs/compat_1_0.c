/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdint.h>

#include "base/rules.h"
#include "base/symver.h"

/*
 * Theory of operation
 *
 * IBVERBS_1.0 is the binary interface of 2006: other structs behind the same names. No
 * program built since uses it, but objects without version information bind to the
 * oldest version of a name, and a list with holes would make the loader refuse. So the
 * 33 twins exist, touch nothing they are given, and fail.
 */

#define TWIN(type, name, result)                                                                   \
	VB_EXPORT type vb_compat_##name(void);                                                     \
	VB_EXPORT type vb_compat_##name(void)                                                      \
	{                                                                                          \
		vb_fail(VB_RULE_OLD_ABI, "%s@IBVERBS_1.0", "ibv_" #name);                          \
		return result;                                                                     \
	}                                                                                          \
	VB_SYMVER(vb_compat_##name, "ibv_" #name, "IBVERBS_1.0")

TWIN(void *, alloc_pd, 0);
TWIN(void *, create_ah, 0);
TWIN(void *, create_cq, 0);
TWIN(void *, create_qp, 0);
TWIN(void *, create_srq, 0);
TWIN(void *, get_device_list, 0);
TWIN(void *, get_device_name, 0);
TWIN(void *, open_device, 0);
TWIN(void *, reg_mr, 0);

TWIN(int, attach_mcast, -1);
TWIN(int, close_device, -1);
TWIN(int, dealloc_pd, -1);
TWIN(int, dereg_mr, -1);
TWIN(int, destroy_ah, -1);
TWIN(int, destroy_cq, -1);
TWIN(int, destroy_qp, -1);
TWIN(int, destroy_srq, -1);
TWIN(int, detach_mcast, -1);
TWIN(int, get_async_event, -1);
TWIN(int, get_cq_event, -1);
TWIN(int, modify_qp, -1);
TWIN(int, modify_srq, -1);
TWIN(int, query_device, -1);
TWIN(int, query_gid, -1);
TWIN(int, query_pkey, -1);
TWIN(int, query_port, -1);
TWIN(int, query_qp, -1);
TWIN(int, query_srq, -1);
TWIN(int, resize_cq, -1);

/* A GUID of zero is "none"; the caller cannot be told otherwise. */
TWIN(uint64_t, get_device_guid, 0);

/* These have no result to fail with. */
TWIN(void, ack_async_event, );
TWIN(void, ack_cq_events, );
TWIN(void, free_device_list, );

/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "vendor/foreign.h"

/*
 * Theory of operation
 *
 * libibumad lists adapters and sends management datagrams. This adapter is of RoCE and
 * offers no such traffic, so no adapter is listed and no port opens. What only edits a
 * datagram in the caller's memory works, since programs do it before they open anything.
 * The names of classes, methods and attributes are texts for logs of such traffic:
 * without it every one is "<unknown>".
 */

/* Layout of the kernel's user_mad header; the datagram follows it. */
struct mad_addr {
	uint32_t qpn; /* network byte order, as qkey, lid and flow_label */
	uint32_t qkey;
	uint16_t lid;
	uint8_t sl;
	uint8_t path_bits;
	uint8_t grh_present;
	uint8_t gid_index;
	uint8_t hop_limit;
	uint8_t traffic_class;
	uint8_t gid[16];
	uint32_t flow_label;
	uint16_t pkey_index;
	uint8_t reserved[6];
};

struct mad {
	uint32_t agent_id;
	uint32_t status;
	uint32_t timeout_ms;
	uint32_t retries;
	uint32_t length;
	struct mad_addr addr;
	uint8_t data[];
};

_Static_assert(sizeof(struct mad) == 64, "the header is 64 bytes");

/* Nothing to prepare, nothing to clean up, no adapter. */
#define ZERO(name)                                                                                 \
	int name(void);                                                                            \
	int name(void)                                                                             \
	{                                                                                          \
		return 0;                                                                          \
	}
ZERO(umad_init)
ZERO(umad_done)
ZERO(umad_debug)
ZERO(umad_get_cas_names)
ZERO(umad_get_ca_portguids)
ZERO(umad_release_ca)
ZERO(umad_release_port)
ZERO(umad_sort_ca_device_list)
ZERO(umad_get_smi_gsi_pairs)

/* Calls that name an adapter or a port: there is none of that name. */
#define NO_DEVICE(name)                                                                            \
	int name(void);                                                                            \
	int name(void)                                                                             \
	{                                                                                          \
		errno = ENODEV;                                                                    \
		return -ENODEV;                                                                    \
	}
NO_DEVICE(umad_get_ca)
NO_DEVICE(umad_get_port)
NO_DEVICE(umad_get_issm_path)
NO_DEVICE(umad_get_smi_gsi_pair_by_ca_name)
NO_DEVICE(umad_open_port)
NO_DEVICE(umad_open_smi_port)

/* Calls on an open port: none was opened. */
#define NO_PORT(name)                                                                              \
	int name(void);                                                                            \
	int name(void)                                                                             \
	{                                                                                          \
		errno = EINVAL;                                                                    \
		return -EINVAL;                                                                    \
	}
NO_PORT(umad_close_port)
NO_PORT(umad_get_fd)
NO_PORT(umad_send)
NO_PORT(umad_recv)
NO_PORT(umad_poll)
NO_PORT(umad_register)
NO_PORT(umad_register2)
NO_PORT(umad_register_oui)
NO_PORT(umad_unregister)

/* An empty list is NULL with errno 0. */
void *umad_get_ca_device_list(void);
void *umad_get_ca_device_list(void)
{
	errno = 0;
	return NULL;
}
NOTHING(umad_free_ca_device_list)

/* These print in rdma-core; a library of ours does not. */
NOTHING(umad_addr_dump)
NOTHING(umad_dump)

void *umad_get_mad(struct mad *mad);
void *umad_get_mad(struct mad *mad)
{
	return mad->data;
}

struct mad_addr *umad_get_mad_addr(struct mad *mad);
struct mad_addr *umad_get_mad_addr(struct mad *mad)
{
	return &mad->addr;
}

size_t umad_size(void);
size_t umad_size(void)
{
	return sizeof(struct mad);
}

int umad_status(struct mad *mad);
int umad_status(struct mad *mad)
{
	return (int)mad->status;
}

int umad_set_grh(struct mad *mad, const struct mad_addr *from);
int umad_set_grh(struct mad *mad, const struct mad_addr *from)
{
	mad->addr.grh_present = from != NULL;
	if (!from)
		return 0;
	memcpy(mad->addr.gid, from->gid, sizeof(mad->addr.gid));
	mad->addr.flow_label = htonl(from->flow_label);
	mad->addr.hop_limit = from->hop_limit;
	mad->addr.traffic_class = from->traffic_class;
	mad->addr.gid_index = from->gid_index;
	return 0;
}

int umad_set_addr_net(struct mad *mad, uint16_t dlid, uint32_t dqp, int sl, uint32_t qkey);
int umad_set_addr_net(struct mad *mad, uint16_t dlid, uint32_t dqp, int sl, uint32_t qkey)
{
	mad->addr.qpn = dqp;
	mad->addr.lid = dlid;
	mad->addr.qkey = qkey;
	mad->addr.sl = (uint8_t)sl;
	return 0;
}

int umad_set_addr(struct mad *mad, int dlid, int dqp, int sl, int qkey);
int umad_set_addr(struct mad *mad, int dlid, int dqp, int sl, int qkey)
{
	return umad_set_addr_net(mad, htons((uint16_t)dlid), htonl((uint32_t)dqp), sl,
				 htonl((uint32_t)qkey));
}

int umad_set_pkey(struct mad *mad, int pkey_index);
int umad_set_pkey(struct mad *mad, int pkey_index)
{
	mad->addr.pkey_index = (uint16_t)pkey_index;
	return 0;
}

int umad_get_pkey(struct mad *mad);
int umad_get_pkey(struct mad *mad)
{
	return mad->addr.pkey_index;
}

#define NO_TEXT(name)                                                                              \
	const char *name(void);                                                                    \
	const char *name(void)                                                                     \
	{                                                                                          \
		return "<unknown>";                                                                \
	}
NO_TEXT(umad_class_str)
NO_TEXT(umad_method_str)
NO_TEXT(umad_attribute_str)
NO_TEXT(umad_common_mad_status_str)
NO_TEXT(umad_sa_mad_status_str)

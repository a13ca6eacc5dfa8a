/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/counters.h"

#include <string.h>

#include "host/registry.h"
#include "object/device.h"

/* What a name stands for: a counter, or something that does not happen here. */
#define NEVER	 -1
#define QUARTERS 0x100 /* counted in bytes, shown in units of four */

struct name {
	const char *name;
	int stat;
};

static const struct name hw[] = {
	/* Linux rxe */
	{"ack_deferred", NEVER},
	{"completer_retry_err", VB_STAT_TIMEOUTS},
	{"duplicate_request", VB_STAT_DUPLICATES},
	{"link_downed", NEVER},
	{"out_of_seq_request", VB_STAT_OUT_OF_SEQ},
	{"rcvd_pkts", VB_STAT_LOCAL_PKTS},
	{"rcvd_rnr_err", VB_STAT_RNR_SENT},
	{"rcvd_seq_err", VB_STAT_OUT_OF_SEQ},
	{"rdma_recvs", VB_STAT_RECVS},
	{"rdma_sends", VB_STAT_SENDS},
	{"retry_exceeded_err", VB_STAT_RETRY_EXCEEDED},
	{"retry_rnr_exceeded_err", VB_STAT_RNR_EXCEEDED},
	{"send_err", NEVER},
	{"send_rnr_err", VB_STAT_RNR_SENT},
	{"sent_pkts", VB_STAT_LOCAL_PKTS},
	/* mlx5 */
	{"implied_nak_seq_err", NEVER},
	{"local_ack_timeout_err", VB_STAT_TIMEOUTS},
	{"out_of_buffer", VB_STAT_RNR_SENT},
	{"out_of_sequence", VB_STAT_OUT_OF_SEQ},
	{"packet_seq_err", VB_STAT_OUT_OF_SEQ},
	{"req_cqe_error", VB_STAT_REQ_ERROR},
	{"req_cqe_flush_error", VB_STAT_REQ_FLUSHED},
	{"req_remote_access_errors", VB_STAT_REM_ACCESS},
	{"req_remote_invalid_request", VB_STAT_REM_INVALID},
	{"resp_cqe_error", VB_STAT_RESP_ERROR},
	{"resp_cqe_flush_error", VB_STAT_RESP_FLUSHED},
	{"resp_local_length_error", VB_STAT_RESP_LENGTH},
	{"resp_remote_access_errors", VB_STAT_RESP_ACCESS},
	{"rnr_nak_retry_err", VB_STAT_RNR_EXCEEDED},
	{"rx_atomic_requests", VB_STAT_ATOMICS},
	{"rx_icrc_encapsulated", NEVER},
	{"rx_read_requests", VB_STAT_READS},
	{"rx_write_requests", VB_STAT_WRITES},
};

static const struct name port[] = {
	{"VL15_dropped", NEVER},
	{"excessive_buffer_overrun_errors", NEVER},
	{"link_downed", NEVER},
	{"link_error_recovery", NEVER},
	{"local_link_integrity_errors", NEVER},
	{"multicast_rcv_packets", NEVER},
	{"multicast_xmit_packets", NEVER},
	{"port_rcv_constraint_errors", NEVER},
	{"port_rcv_data", VB_STAT_LOCAL_BYTES | QUARTERS},
	{"port_rcv_errors", NEVER},
	{"port_rcv_packets", VB_STAT_LOCAL_PKTS},
	{"port_rcv_remote_physical_errors", NEVER},
	{"port_rcv_switch_relay_errors", NEVER},
	{"port_xmit_constraint_errors", NEVER},
	{"port_xmit_data", VB_STAT_LOCAL_BYTES | QUARTERS},
	{"port_xmit_discards", VB_STAT_DROPPED},
	{"port_xmit_packets", VB_STAT_LOCAL_PKTS},
	{"port_xmit_wait", NEVER},
	{"symbol_error", NEVER},
	{"unicast_rcv_packets", VB_STAT_LOCAL_PKTS},
	{"unicast_xmit_packets", VB_STAT_LOCAL_PKTS},
};

#define COUNT(table) (sizeof(table) / sizeof(table[0]))

const char *vb_counters_name(enum vb_counter_set set, size_t index)
{
	if (set == VB_COUNTERS_HW)
		return index < COUNT(hw) ? hw[index].name : NULL;
	return index < COUNT(port) ? port[index].name : NULL;
}

static int stat_of(const char *name)
{
	for (size_t i = 0; i < COUNT(hw); i++)
		if (!strcmp(hw[i].name, name))
			return hw[i].stat;
	for (size_t i = 0; i < COUNT(port); i++)
		if (!strcmp(port[i].name, name))
			return port[i].stat;
	return NEVER;
}

uint64_t vb_counters_read(const struct vb_device *dev, const char *name)
{
	uint64_t sum[VB_COUNTERS];
	int stat = stat_of(name);

	static_assert((unsigned)VB_STATS <= VB_COUNTERS, "a registry line holds them");
	if (stat == NEVER || vb_registry_sum_counters(dev->ibv.name, sum))
		return 0;
	return stat & QUARTERS ? sum[stat & ~QUARTERS] / 4 : sum[stat];
}

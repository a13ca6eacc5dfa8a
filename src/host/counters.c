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
	int packets; /* another counter to be added; 0: none */
};

static const struct name hw[] = {
	/* Linux rxe */
	{"ack_deferred", NEVER, 0},
	{"completer_retry_err", VB_STAT_TIMEOUTS, 0},
	{"duplicate_request", VB_STAT_DUPLICATES, 0},
	{"link_downed", NEVER, 0},
	{"out_of_seq_request", VB_STAT_OUT_OF_SEQ, 0},
	{"rcvd_pkts", VB_STAT_LOCAL_PKTS, VB_STAT_RCVD_PKTS},
	{"rcvd_rnr_err", VB_STAT_RNR_RCVD, 0},
	{"rcvd_seq_err", VB_STAT_SEQ_NAKS_RCVD, 0},
	{"rdma_recvs", VB_STAT_RECVS, 0},
	{"rdma_sends", VB_STAT_SENDS, 0},
	{"retry_exceeded_err", VB_STAT_RETRY_EXCEEDED, 0},
	{"retry_rnr_exceeded_err", VB_STAT_RNR_EXCEEDED, 0},
	{"send_err", NEVER, 0},
	{"send_rnr_err", VB_STAT_RNR_SENT, 0},
	{"sent_pkts", VB_STAT_LOCAL_PKTS, VB_STAT_SENT_PKTS},
	/* mlx5 */
	{"implied_nak_seq_err", NEVER, 0},
	{"local_ack_timeout_err", VB_STAT_TIMEOUTS, 0},
	{"np_cnp_sent", VB_STAT_CNP_SENT, 0},
	{"np_ecn_marked_roce_packets", VB_STAT_MARKED, 0},
	{"out_of_buffer", VB_STAT_RNR_SENT, 0},
	{"out_of_sequence", VB_STAT_OUT_OF_SEQ, 0},
	{"packet_seq_err", VB_STAT_SEQ_NAKS_RCVD, 0},
	{"req_cqe_error", VB_STAT_REQ_ERROR, 0},
	{"req_cqe_flush_error", VB_STAT_REQ_FLUSHED, 0},
	{"req_remote_access_errors", VB_STAT_REM_ACCESS, 0},
	{"req_remote_invalid_request", VB_STAT_REM_INVALID, 0},
	{"resp_cqe_error", VB_STAT_RESP_ERROR, 0},
	{"resp_cqe_flush_error", VB_STAT_RESP_FLUSHED, 0},
	{"resp_local_length_error", VB_STAT_RESP_LENGTH, 0},
	{"resp_remote_access_errors", VB_STAT_RESP_ACCESS, 0},
	{"rnr_nak_retry_err", VB_STAT_RNR_RCVD, 0},
	{"rp_cnp_handled", VB_STAT_CNP_HANDLED, 0},
	{"rp_cnp_ignored", VB_STAT_CNP_IGNORED, 0},
	{"rx_atomic_requests", VB_STAT_ATOMICS, 0},
	{"rx_icrc_encapsulated", VB_STAT_ICRC_ERRORS, 0},
	{"rx_icrc_solved", VB_STAT_ICRC_SOLVED, 0}, /* ours (wire/icrc.h) */
	{"rx_read_requests", VB_STAT_READS, 0},
	{"rx_write_requests", VB_STAT_WRITES, 0},
};

static const struct name port[] = {
	{"VL15_dropped", NEVER, 0},
	{"excessive_buffer_overrun_errors", NEVER, 0},
	{"link_downed", NEVER, 0},
	{"link_error_recovery", NEVER, 0},
	{"local_link_integrity_errors", NEVER, 0},
	{"multicast_rcv_packets", NEVER, 0},
	{"multicast_xmit_packets", NEVER, 0},
	{"port_rcv_constraint_errors", NEVER, 0},
	{"port_rcv_data", VB_STAT_LOCAL_BYTES | QUARTERS, VB_STAT_RCVD_BYTES},
	{"port_rcv_errors", VB_STAT_ICRC_ERRORS, VB_STAT_MALFORMED},
	{"port_rcv_packets", VB_STAT_LOCAL_PKTS, VB_STAT_RCVD_PKTS},
	{"port_rcv_remote_physical_errors", NEVER, 0},
	{"port_rcv_switch_relay_errors", NEVER, 0},
	{"port_xmit_constraint_errors", NEVER, 0},
	{"port_xmit_data", VB_STAT_LOCAL_BYTES | QUARTERS, VB_STAT_SENT_BYTES},
	{"port_xmit_discards", VB_STAT_DROPPED, 0},
	{"port_xmit_packets", VB_STAT_LOCAL_PKTS, VB_STAT_SENT_PKTS},
	{"port_xmit_wait", NEVER, 0},
	{"symbol_error", NEVER, 0},
	{"unicast_rcv_packets", VB_STAT_LOCAL_PKTS, VB_STAT_RCVD_PKTS},
	{"unicast_xmit_packets", VB_STAT_LOCAL_PKTS, VB_STAT_SENT_PKTS},
};

#define COUNT(table) (sizeof(table) / sizeof(table[0]))

const char *vb_counters_name(enum vb_counter_set set, size_t index)
{
	if (set == VB_COUNTERS_HW)
		return index < COUNT(hw) ? hw[index].name : NULL;
	return index < COUNT(port) ? port[index].name : NULL;
}

static const struct name *find(const char *name)
{
	for (size_t i = 0; i < COUNT(hw); i++)
		if (!strcmp(hw[i].name, name))
			return &hw[i];
	for (size_t i = 0; i < COUNT(port); i++)
		if (!strcmp(port[i].name, name))
			return &port[i];
	return NULL;
}

uint64_t vb_counters_read(const struct vb_device *dev, const char *name)
{
	const struct name *row = find(name);
	uint64_t sum[VB_COUNTERS], value;

	static_assert((unsigned)VB_STATS <= VB_COUNTERS, "a registry line holds them");
	if (!row || row->stat == NEVER || vb_registry_sum_counters(dev->ibv.name, sum))
		return 0;
	value = sum[row->stat & ~QUARTERS] + (row->packets ? sum[row->packets] : 0);
	return row->stat & QUARTERS ? value / 4 : value;
}

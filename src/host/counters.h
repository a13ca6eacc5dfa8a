/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_HOST_COUNTERS_H
#define VB_HOST_COUNTERS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "host/adapter.h"

struct vb_device;

/*
 * Counters of a port are those of all processes since the adapter came to life. They
 * stand in two folders of the port: hw_counters holds the names of Linux rxe, then those
 * of mlx5 that mean something here; counters holds the names every InfiniBand port has,
 * where port_xmit_data and port_rcv_data count units of four bytes.
 */

/* What is counted; the place in the registry's line. New ones go to the end. */
enum vb_stat {
	/* What passes within a host is sent and received at once. */
	VB_STAT_LOCAL_PKTS,
	VB_STAT_LOCAL_BYTES,
	VB_STAT_SENDS,		/* SEND messages completed by requesters */
	VB_STAT_RECVS,		/* receives completed by arrivals */
	VB_STAT_WRITES,		/* WRITE requests taken by responders */
	VB_STAT_READS,		/* READ requests taken by responders */
	VB_STAT_ATOMICS,	/* atomic requests taken by responders */
	VB_STAT_DUPLICATES,	/* requests seen before */
	VB_STAT_OUT_OF_SEQ,	/* requests ahead of the expected PSN */
	VB_STAT_RNR_SENT,	/* receiver-not-ready answers */
	VB_STAT_RNR_EXCEEDED,	/* requests that failed for them */
	VB_STAT_TIMEOUTS,	/* ack timeouts */
	VB_STAT_RETRY_EXCEEDED, /* requests that failed for them */
	VB_STAT_REM_ACCESS,	/* remote access errors seen by requesters */
	VB_STAT_REM_INVALID,	/* invalid request errors seen by requesters */
	VB_STAT_REQ_ERROR,	/* requests completed in error, flushes not counted */
	VB_STAT_REQ_FLUSHED,
	VB_STAT_MALFORMED,    /* packets with a right ICRC that are none of the protocol */
	VB_STAT_RESP_ERROR,   /* responders that failed */
	VB_STAT_RESP_FLUSHED, /* receives flushed */
	VB_STAT_RESP_LENGTH,  /* receives too short */
	VB_STAT_RESP_ACCESS,  /* remote access errors found by responders */
	VB_STAT_DROPPED,      /* UC and UD messages that the receiver could not use */
	/* Packets, and the bytes of data in them */
	VB_STAT_SENT_PKTS,
	VB_STAT_SENT_BYTES,
	VB_STAT_RCVD_PKTS,
	VB_STAT_RCVD_BYTES,
	VB_STAT_ICRC_ERRORS,   /* packets that were damaged on the way */
	VB_STAT_ICRC_SOLVED,   /* packets of an unknown identification (wire/icrc.h) */
	VB_STAT_RNR_RCVD,      /* receiver-not-ready answers heard */
	VB_STAT_SEQ_NAKS_RCVD, /* sequence errors heard */
	VB_STAT_MARKED,	       /* packets of RC QPs that came with a mark of congestion */
	VB_STAT_CNP_SENT,
	VB_STAT_CNP_HANDLED,
	VB_STAT_CNP_IGNORED, /* not from a sending RC QP's peer */
	VB_STATS
};

/** vb_stat_add() - Count something
 * Context: any thread. The line is this process's own, so the addition is cheap: its cache
 *          line never leaves the processor unless another thread counts too
 */
static inline void vb_stat_add(struct vb_adapter *a, enum vb_stat stat, uint64_t n)
{
	atomic_fetch_add_explicit(&vb_adapter_counters(a)[stat], n, memory_order_relaxed);
}

enum vb_counter_set { VB_COUNTERS_HW, VB_COUNTERS_PORT };

/** vb_counters_name() - A counter's name by its position
 * @set:    The folder
 * @index:  From 0
 * Return:  the name, static storage; NULL past the last
 */
const char *vb_counters_name(enum vb_counter_set set, size_t index);

/** vb_counters_read() - The value of a counter now
 * @dev:    The device
 * @name:   A name of vb_counters_name()
 * Context: any thread; does not open the device
 * Return:  the value; 0 for a name that does not exist
 */
uint64_t vb_counters_read(const struct vb_device *dev, const char *name);

#endif

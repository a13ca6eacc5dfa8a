/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_CARRIER_PCAP_H
#define VB_CARRIER_PCAP_H

#include <pthread.h>
#include <stdbool.h>

#include "carrier/udp.h"

/*
 * Theory of operation
 *
 * Packets as a pcapng file, each with the IP and UDP headers it has on the wire. Several
 * processes write into one file: a packet is one write at its end, and under the file's lock
 * (flock(2)) its time is read and it is written, so that times never go back. A process that
 * is stopped meanwhile holds the others up for a moment only.
 */

struct vb_pcap {
	_Atomic int fd; /* -1: nothing is captured */
	pthread_mutex_t lock;
};

/** vb_pcap_open() - Begin a file, or go on with one that others write
 * @path:   Regular file, made where there is none
 * @name:   What the interface is called in it
 * Return:  0; -EEXIST (holds something else), or another negative errno
 */
int vb_pcap_open(struct vb_pcap *p, const char *path, const char *name);

/** vb_pcap_close() - Also right where vb_pcap_open() failed */
void vb_pcap_close(struct vb_pcap *p);

static inline bool vb_pcap_on(const struct vb_pcap *p)
{
	return p->fd >= 0;
}

/** vb_pcap_packet() - Write one packet
 * @d:      The packet; flow.ip_id is what the IPv4 header shows
 * @out:    Sent, not received
 * Context: any thread. Where the file cannot grow, capturing ends
 */
void vb_pcap_packet(struct vb_pcap *p, const struct vb_udp_datagram *d, bool out);

#endif

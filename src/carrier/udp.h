/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_CARRIER_UDP_H
#define VB_CARRIER_UDP_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/icrc.h"
#include "wire/packet.h"

/*
 * Theory of operation
 *
 * RoCEv2 on sockets: a packet is the payload of a UDP datagram to port 4791. Every process binds
 * the port for itself (SO_REUSEPORT), one socket for IPv4 and one for IPv6; the kernel chooses
 * one of them for a datagram by its addresses, so whoever receives looks at the QP number
 * and passes on what is another process's (engine/wire).
 *
 * What is sent goes out of other sockets, whose ports tell flows apart on the way
 * (RoCEv2 sends from 0xc000 on). They are not connected and send with DF, so that the
 * kernel writes identification 0, which the ICRC covers. A flow label that a program asks for
 * gives the port, as RoCEv2 adapters do, and stands in the IPv6 header.
 *
 * Packets of one path that are made together leave together (struct vb_udp_burst): those of one
 * size, with a shorter one at the end, as one buffer that the kernel or the interface cuts
 * (UDP_SEGMENT). Such segments have the identifications 0, 1, 2 ..., or all 0 where they are
 * never cut because the receiver takes the buffer whole (UDP_GRO); what other
 * machines write is unknown, and solved for. What an interface of ours writes that cuts by itself
 * is unknown too: transport/cut.h finds out.
 */

#define VB_UDP_PORTS 8
#define VB_UDP_JOINS 8 /* further sockets that join multicast groups */
/* Ports by flow label, at most; with more, some share the others. */
#define VB_UDP_LABELS 32
/* Source ports of RoCEv2 begin here; the hop limit where none is asked for. */
#define VB_UDP_FIRST_SPORT 0xc000u
#define VB_UDP_HOPS	   64
/* The longest packet: BTH to ICRC with the largest path MTU. */
#define VB_UDP_BYTES (VB_HDR_MAX + 4096 + VB_ICRC_LEN)
/* The longest buffer of several, and how many the kernel puts in one at most. */
#define VB_UDP_BUFFER	65536u
#define VB_UDP_SEGMENTS 64u

struct vb_udp {
	_Atomic int in[2];	  /* bound to port 4791: IPv4, IPv6; -1 not there */
	int out[2][VB_UDP_PORTS]; /* -1 not opened */
	uint16_t sport[2][VB_UDP_PORTS];
	int labelled[2][VB_UDP_LABELS]; /* in the order of their opening */
	uint16_t label_sport[2][VB_UDP_LABELS];
	_Atomic int told[2]; /* what asks for vb_udp_refused() leaves by it; -1 not opened */
	uint16_t told_sport[2];
	int join[2][VB_UDP_JOINS]; /* -1 not opened; carrier/udp_mcast.c */
	_Atomic bool one_by_one;   /* the kernel does not cut for us */
	bool loop; /* what is sent to a multicast group comes to this host too; set before it is */
};

/* Which processes of this host packets to a multicast group are handed to. */
enum vb_udp_hand {
	VB_HAND_NONE,	/* not to a group, or the kernel does it */
	VB_HAND_ALL,	/* to each that takes part */
	VB_HAND_CLOSED, /* to those whose memory cannot be reached */
};

/* From here to there. */
struct vb_udp_path {
	uint8_t own_gid[16], dest_gid[16];
	uint32_t ifindex; /* for link-local addresses */
	uint8_t traffic_class, hop_limit;
	uint32_t flow;	       /* any number: packets of one keep to one source port */
	uint32_t flow_label;   /* 20 bits, 0: none is asked for, and the flow decides */
	bool inside;	       /* to a process of this host: no socket of these is used */
	bool singly;	       /* no packet shares a buffer with another */
	bool told;	       /* vb_udp_refused() is to say where nobody has the port there */
	enum vb_udp_hand hand; /* to a group: beside what leaves by the socket */
};

/** vb_udp_open() - Bind port 4791
 * @u:      Filled, also in part: where one protocol cannot be had the other serves, and where none
 *          can packets still leave
 * Return:  0, or the negative errno of the socket that mattered: -EADDRINUSE (another user's or
 *          the kernel's), -EMFILE ...
 */
int vb_udp_open(struct vb_udp *u);

/** vb_udp_bind() - Bind what vb_udp_open() could not
 * Context: one thread at a time; others may send and receive meanwhile
 * Return:  as vb_udp_open()
 */
int vb_udp_bind(struct vb_udp *u);

/** vb_udp_close_in() - Close one of the sockets that receive
 * @which: 0 IPv4, 1 IPv6
 */
void vb_udp_close_in(struct vb_udp *u, int which);

/** vb_udp_close() - Close what is open */
void vb_udp_close(struct vb_udp *u);

/** vb_udp_label_port() - The source port that belongs to a flow label
 * @label:  20 bits
 * Spec:    IBA1 A17; ibv_flow_label_to_udp_sport() of rdma-core
 */
static inline uint16_t vb_udp_label_port(uint32_t label)
{
	return (uint16_t)(VB_UDP_FIRST_SPORT | ((label ^ label >> 14) & 0x3fff));
}

/** vb_udp_out() - The socket that packets of a flow leave by
 * @label:  A flow label that decides instead, 0: none
 * @sport:  Receives its port, host order; another one than the label's where somebody else has
 *          that or there are too many
 * Context: one thread at a time
 * Return:  the socket, or a negative errno
 */
int vb_udp_out(struct vb_udp *u, bool v6, uint32_t flow, uint32_t label, uint16_t *sport);

/** vb_udp_told() - Likewise for packets of which vb_udp_refused() is to tell */
int vb_udp_told(struct vb_udp *u, bool v6, uint16_t *sport);

/* ---- Multicast: carrier/udp_mcast.c ---- */

/** vb_udp_join() - Receive what comes for a multicast group by an interface
 * @gid:    The group
 * @ifindex: The interface, 0: the kernel's choice
 * Context: one thread at a time; others may send and receive meanwhile
 * Return:  0, also where it was joined; -ENOTCONN port 4791 is not bound; -ENODEV ...
 */
int vb_udp_join(struct vb_udp *u, const uint8_t *gid, uint32_t ifindex);

/** vb_udp_leave() - The opposite; otherwise as vb_udp_join() */
void vb_udp_leave(struct vb_udp *u, const uint8_t *gid, uint32_t ifindex);

/* What a new socket is told: whether it receives for groups that it did not join; whether what it
 * sends to a group comes to this host too. */
void vb_udp_mcast_only_joined(int fd, bool v6, bool only);
void vb_udp_mcast_loop(int fd, bool v6, bool loop);

/** vb_udp_flow() - What the headers of packets between two GIDs say
 * @sport:  Source port, host order
 */
void vb_udp_flow(struct vb_flow *flow, const uint8_t *src_gid, const uint8_t *dest_gid,
		 uint16_t sport);

/* A packet as it came. */
struct vb_udp_datagram {
	struct vb_flow flow; /* addresses and ports; identification and DF as we send them */
	uint8_t src_gid[16], dest_gid[16];
	uint8_t traffic_class, hop_limit;
	uint16_t index;	     /* in the buffer it came in */
	uint32_t flow_label; /* IPv6 */
	uint32_t len;
	bool intact;	      /* the ICRC is right, says vb_udp_parse() */
	const uint8_t *bytes; /* BTH to ICRC */
};

/* ---- Sending: carrier/udp_send.c ---- */

/* Packets that leave together. */
struct vb_udp_burst {
	struct vb_udp_burst *next; /* for the caller's use */
	struct vb_udp_path path;
	struct vb_flow flow;
	bool full; /* for the caller: something found no room where it was to be handed over */
	int fd;
	bool asked;		   /* the kernel, for the flow label */
	uint32_t used;		   /* bytes */
	uint32_t packets, payload; /* how many, and the bytes of data in them */
	uint32_t nruns;
	struct vb_udp_run {
		uint32_t at, len; /* in bytes[] */
		uint32_t segment; /* bytes of each packet but the last */
		uint32_t count;
		bool closed; /* the last one is shorter */
	} runs[VB_UDP_SEGMENTS];
	uint8_t bytes[VB_UDP_BUFFER];
};

/** vb_udp_burst_new() - Room for one; free() ends it
 * The pages of a first packet are there.
 */
struct vb_udp_burst *vb_udp_burst_new(void);

/** vb_udp_burst_begin() - An empty one
 * Context: as vb_udp_out()
 * Return:  0, or a negative errno
 */
int vb_udp_burst_begin(struct vb_udp *u, struct vb_udp_burst *b, const struct vb_udp_path *path);

/** vb_udp_burst_fits() - Whether a packet fits in; where not, what is there is to be sent first */
bool vb_udp_burst_fits(const struct vb_udp *u, const struct vb_udp_burst *b,
		       const struct vb_packet *hdr);

/** vb_udp_burst_room() - Room for the payload of the next packet, which fits
 * @hdr:    Its headers, written in front
 * Return:  where hdr->payload_len bytes are to be put before vb_udp_burst_add(); NULL where @hdr is
 *          no packet
 */
uint8_t *vb_udp_burst_room(struct vb_udp_burst *b, const struct vb_packet *hdr);

/** vb_udp_burst_add() - The payload is there: padding, ICRC, and it belongs to the burst */
void vb_udp_burst_add(struct vb_udp *u, struct vb_udp_burst *b, const struct vb_packet *hdr);

/** vb_udp_burst_index() - The place of the packet added last in its buffer, 0 the first */
uint32_t vb_udp_burst_index(const struct vb_udp_burst *b);

/** vb_udp_burst_raw() - Add bytes that are sent as they are
 * Return:  false where there is no room
 */
bool vb_udp_burst_raw(struct vb_udp_burst *b, const uint8_t *bytes, uint32_t len);

/** vb_udp_burst_send() - Send all; the burst is empty afterwards
 * Context: any thread; waits for room in the socket a few milliseconds at most. What cannot be
 *          sent is lost as on a link
 */
void vb_udp_burst_send(struct vb_udp *u, struct vb_udp_burst *b);

/** vb_udp_burst_packet() - The next packet of a burst, as the receiver finds it
 * @at:     0 first; moved on
 * @d:      Filled; its bytes are the burst's
 * Return:  false where there are no more
 */
bool vb_udp_burst_packet(const struct vb_udp_burst *b, uint32_t *at, struct vb_udp_datagram *d);

/** vb_udp_burst_empty() - Forget what is in it */
void vb_udp_burst_empty(struct vb_udp_burst *b);

/* ---- Receiving: carrier/udp_receive.c ---- */

#define VB_UDP_BUFFERS 4

/* What is received in one go. */
struct vb_udp_inbox {
	uint8_t bytes[VB_UDP_BUFFERS][VB_UDP_BUFFER];
	struct vb_udp_datagram datagrams[VB_UDP_BUFFERS * VB_UDP_SEGMENTS];
};

/** vb_udp_receive() - Take packets off a socket
 * @which:   0 IPv4, 1 IPv6
 * @inbox:   Filled from its beginning
 * @more:    Receives whether there may be more
 * Context: never waits. What is too long or cut is left out
 * Return:   how many datagrams
 */
uint32_t vb_udp_receive(struct vb_udp *u, int which, struct vb_udp_inbox *inbox, bool *more);

/* A packet that was sent with `told`, and came back. */
struct vb_udp_refused {
	uint8_t dest_gid[16];
	uint32_t len;
	uint8_t bytes[512]; /* BTH to ICRC, as far as they are quoted; anybody can say so */
};

/** vb_udp_refused() - What a host says where nobody has port 4791, by its kernel (ICMP)
 * @which:  0 IPv4, 1 IPv6
 * Context: never waits. The socket shows EPOLLERR while there is one
 * Return:  false: there are no more
 */
bool vb_udp_refused(struct vb_udp *u, int which, struct vb_udp_refused *refused);

/** vb_udp_split() - Take a buffer apart into the packets that the kernel put in it
 * @like:    What all of them have in common
 * @segment: Bytes of each but the last, at least 1
 * @to:      Room for VB_UDP_SEGMENTS; what is beyond them is left out
 * Return:   how many
 */
uint32_t vb_udp_split(const struct vb_udp_datagram *like, const uint8_t *bytes, uint32_t len,
		      uint32_t segment, struct vb_udp_datagram *to);

/** vb_udp_parse() - Check the ICRC and decode
 * @d:      flow.ip_id becomes the identification that the ICRC covers; intact is set
 * @pkt:    Filled where good; its payload points into the datagram's bytes
 * Return:  false: wrong ICRC or not a packet of ours; to be dropped
 */
bool vb_udp_parse(struct vb_udp_datagram *d, struct vb_packet *pkt);

#endif

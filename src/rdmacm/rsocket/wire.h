/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_RDMACM_RSOCKET_WIRE_H
#define VB_RDMACM_RSOCKET_WIRE_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Theory of operation
 *
 * What two rsockets say to each other, as rdma-core does, so that either end may be
 * rdma-core's. A stream sends everything as RDMA WRITE with immediate: the payload goes
 * straight into the peer's receive buffer, and the immediate says what it was. The upper
 * three bits are the operation, the lower 29 its value.
 *
 * A receive buffer is lent in halves. The owner writes (address, key, length) of a free
 * half into the sender's target list, one entry after the other; the sender uses an
 * entry up before the next. Beside room a sender needs a credit: one per message that
 * carries data, counted in 16 bits. Messages of the protocol itself need none; at most
 * VB_RS_CTRL_SLOTS of them are under way.
 */

enum vb_rs_op {
	VB_RS_OP_DATA = 0,  /* value: bytes that came */
	VB_RS_OP_WRITE = 2, /* never sent: a write into a mapped buffer */
	VB_RS_OP_SGL = 4,   /* value: credits, up to which message the peer may send */
	VB_RS_OP_IOMAP = 6, /* value: index of the mapping that was written */
	VB_RS_OP_CTRL = 7,  /* value: enum vb_rs_ctrl */
};

enum vb_rs_ctrl {
	VB_RS_CTRL_DISCONNECT = 0, /* neither sends nor receives any more */
	VB_RS_CTRL_KEEPALIVE = 1,
	VB_RS_CTRL_SHUTDOWN = 2, /* sends no more */
};

#define VB_RS_VALUE_MASK  0x1fffffffu
#define VB_RS_CTRL_SLOTS  4
#define VB_RS_TARGETS	  2 /* entries of our target list */
#define VB_RS_CONN_BYTES  40
#define VB_RS_SEND_LOWEST 2048 /* room that makes a stream writable; the datagrams' slot */
#define VB_RS_MIN_QUEUE	  16
#define VB_RS_MAX_QUEUE	  0xfffe

static inline uint32_t vb_rs_msg(enum vb_rs_op op, uint32_t value)
{
	return (uint32_t)op << 29 | (value & VB_RS_VALUE_MASK);
}

static inline enum vb_rs_op vb_rs_msg_op(uint32_t msg)
{
	return (enum vb_rs_op)(msg >> 29);
}

static inline uint32_t vb_rs_msg_value(uint32_t msg)
{
	return msg & VB_RS_VALUE_MASK;
}

/* An entry of a target list as it lies in memory, in the order of the side that reads it. */
struct vb_rs_sge {
	uint64_t addr;
	uint32_t key;
	uint32_t length;
};

/* An entry of the table of mapped buffers; it lies behind the target list. */
struct vb_rs_iomap {
	uint64_t offset;
	struct vb_rs_sge sge;
};

_Static_assert(sizeof(struct vb_rs_sge) == 16, "as on the wire");
_Static_assert(sizeof(struct vb_rs_iomap) == 24, "as on the wire");

/* What each side says of itself in the private data of the connection. */
struct vb_rs_conn {
	bool big_endian;	 /* reads entries most significant byte first */
	bool has_iomap;		 /* iomap_entries and what lies behind the target list count */
	uint16_t credits;	 /* receives posted */
	uint16_t iomap_entries;	 /* mappings it can be told of */
	struct vb_rs_sge target; /* its target list; length is a number of entries */
	struct vb_rs_sge buffer; /* the first half of its receive buffer */
};

/** vb_rs_conn_pack() - Write connection data as it travels
 * @conn:   What this side says; iomap_entries must be a value of vb_rs_iomap_round()
 * @out:    VB_RS_CONN_BYTES
 */
void vb_rs_conn_pack(const struct vb_rs_conn *conn, uint8_t *out);

/** vb_rs_conn_unpack() - Read and check the peer's connection data
 * @in:     Private data of a request or reply, perhaps padded
 * @bytes:  Its length
 * @conn:   Filled on success
 * Return:  false where it is too short, of another version, or offers no credit, no target
 *          entry or no buffer, so that nothing could ever be sent
 */
bool vb_rs_conn_unpack(const void *in, size_t bytes, struct vb_rs_conn *conn);

/** vb_rs_iomap_round() - The number of mappings that can be told to the peer
 * @wanted: What the program asked for
 * Return:  @wanted or the next number below that eight bits express: up to 128 as it is,
 *          else (value & 0x7f) * 256
 */
uint16_t vb_rs_iomap_round(uint32_t wanted);

/* Both directions of an entry between hosts of different byte order. */
static inline struct vb_rs_sge vb_rs_sge_swap(struct vb_rs_sge sge, bool swap)
{
	if (swap) {
		sge.addr = __builtin_bswap64(sge.addr);
		sge.key = __builtin_bswap32(sge.key);
		sge.length = __builtin_bswap32(sge.length);
	}
	return sge;
}

/* Before each datagram on a UD queue pair: who sent it. */
#define VB_DS_HDR_V4  8
#define VB_DS_HDR_V6  24
#define VB_DS_HDR_MAX VB_DS_HDR_V6
/* Before what goes through the UDP socket while the peer's queue pair is unknown. */
#define VB_DS_UDP_TAG	  0x55555555u
#define VB_DS_UDP_ADDR_AT 12
#define VB_DS_UDP_LEN_V4  16
#define VB_DS_UDP_LEN_V6  28
#define VB_DS_UDP_HDR_MAX VB_DS_UDP_LEN_V6

/* The header of a datagram through the UDP socket, unpacked. */
struct vb_ds_udp {
	bool v6;
	bool data;	  /* carries a datagram; else it only tells the queue pair */
	uint32_t qpn;	  /* 0: the sender has none */
	uint8_t addr[16]; /* the sender's address, IPv4 in the first four bytes */
};

/** vb_ds_udp_pack() - Write such a header
 * @out:    At least VB_DS_UDP_HDR_MAX
 * Return:  its length
 */
size_t vb_ds_udp_pack(const struct vb_ds_udp *hdr, uint8_t *out);

/** vb_ds_udp_unpack() - Read and check such a header
 * Return:  its length, 0 where it is none
 */
size_t vb_ds_udp_unpack(const uint8_t *in, size_t bytes, struct vb_ds_udp *hdr);

/* The header on a UD queue pair, unpacked; port and addr in network order. */
struct vb_ds_hdr {
	bool v6;
	uint16_t port_be;
	uint32_t flowinfo_be;
	uint8_t addr[16];
};

/** vb_ds_hdr_pack() - Write it; @out has VB_DS_HDR_MAX. Return: its length */
size_t vb_ds_hdr_pack(const struct vb_ds_hdr *hdr, uint8_t *out);

/** vb_ds_hdr_unpack() - Read and check it. Return: its length, 0 where it is none */
size_t vb_ds_hdr_unpack(const uint8_t *in, size_t bytes, struct vb_ds_hdr *hdr);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_HOST_LAYOUT_H
#define VB_HOST_LAYOUT_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "object/mcast.h"

/*
 * Theory of operation
 *
 * What the processes of one host share. Every process that opened the device owns
 * a segment of two memfds:
 *
 *   published  only the owner writes; peers map it read-only
 *   mailbox    peers write too
 *
 * Nothing in a segment is a pointer: places are byte offsets from the start of the
 * part. Whatever stands in a segment may be garbage (a peer can scribble over the
 * mailbox, and a broken owner over both), so whoever reads it copies once, checks,
 * then uses; and the owner never relies on what it published: it keeps its own
 * private copy. The words and who may change them are on one page:
 * docs/shared-words.md.
 *
 * Names. An adapter-wide number (QP number, key index, PD number, CQ number) is
 *
 *      block << VB_BLOCK_BITS | low
 *
 * where a block belongs to one process, claimed by binding an abstract socket. A
 * process may own several blocks; the ordinal of the block within its owner and
 * `low` make the index into the owner's tables: ordinal << VB_BLOCK_BITS | low.
 */

#define VB_BLOCK_BITS 12u
#define VB_BLOCK_IDS  (1u << VB_BLOCK_BITS)
#define VB_BLOCKS     4096u /* of an adapter; block 0 is never given out */
#define VB_OWN_BLOCKS 32u   /* most a process may own */
#define VB_INDEXES    (VB_OWN_BLOCKS * VB_BLOCK_IDS)
#define VB_CHUNK_IDS  256u /* table entries that are allocated together */
#define VB_CHUNKS     (VB_INDEXES / VB_CHUNK_IDS)
#define VB_SLOTS      1024u /* processes of an adapter */
#define VB_ACCESSES   64u   /* accesses a process may have under way at once */

#define VB_PUB_MAGIC 0x6275702d61627276ull /* "vrba-pub" */
#define VB_MBX_MAGIC 0x78626d2d61627276ull /* "vrba-mbx" */

/* A set of up to 4096 bits whose members are found without a scan. Producers set
 * the leaf bit, then the top bit; the consumer clears the top bit, then takes the
 * leaf. Two objects may share a bit: a bit says "look", never "there is". */
struct vb_ready {
	_Atomic uint64_t top;
	uint64_t pad[7];
	_Atomic uint64_t leaf[64];
};

/* An access under way: told to the owner of the memory before it is touched. */
struct vb_pub_access {
	_Atomic uint64_t target; /* 0 none; (slot + 1) << 32 | target QP number, 0 without one */
	_Atomic uint64_t key;	 /* key the access goes through; 0: receive buffers of the QP */
};

struct vb_pub_header {
	uint64_t magic;
	uint64_t layout;	   /* vb_layout_hash(): the same layout or no sharing */
	uint8_t id[16];		   /* random, the segment's true name */
	_Atomic uint64_t size;	   /* bytes of this part that are backed */
	_Atomic uint64_t mbx_size; /* bytes of the mailbox that are backed */
	uint32_t slot;		   /* in the registry */
	int32_t doorbell_fd;	   /* owner's number of the pipe that wakes its engine, or -1 */
	_Atomic uint64_t doorbell_turn; /* how often the engine drained the pipe */
	_Atomic uint32_t n_blocks;
	_Atomic uint32_t blocks[VB_OWN_BLOCKS];
	/* Offsets of tables of VB_CHUNK_IDS entries, 0 where not allocated. */
	_Atomic uint64_t qp_chunk[VB_CHUNKS];  /* struct vb_pub_qp, published part */
	_Atomic uint64_t key_chunk[VB_CHUNKS]; /* struct vb_pub_key, published part */
	_Atomic uint64_t cq_chunk[VB_CHUNKS];  /* struct vb_pub_cq, published part */
	_Atomic uint64_t mqp_chunk[VB_CHUNKS]; /* struct vb_mbx_qp, mailbox */
	_Atomic uint64_t mcq_chunk[VB_CHUNKS]; /* struct vb_mbx_cq, mailbox */
	struct vb_pub_access access[VB_ACCESSES];
	_Atomic uint64_t groups;   /* offset of VB_MCAST_GROUPS rows, 0: none yet */
	_Atomic uint64_t n_groups; /* rows that were ever in use: the first ones */
};

/* A multicast group that QPs of the process are attached to. */
struct vb_pub_group {
	_Atomic uint64_t word;		    /* counts up; odd: the row names a group */
	uint64_t gid[2];		    /* network order; changed only while the word is even */
	_Atomic uint32_t qpn[VB_MCAST_QPS]; /* attached, 0 none */
	uint64_t pad[5];
};
static_assert(sizeof(struct vb_pub_group) == 320, "five cache lines");

/* How peers reach the memory behind a key. */
enum vb_key_memory {
	VB_KEY_PRIVATE = 0, /* by cross-process copy only */
	VB_KEY_SHARED = 1,  /* a shared mapping of a file that peers can open */
};

/* One key. The word is even while the row is being changed or names nothing. */
struct vb_pub_key {
	_Atomic uint64_t word; /* generation << 1 | live */
	uint32_t lkey, rkey;   /* whole keys, tag included */
	uint32_t pd;	       /* adapter-wide number of the PD */
	uint32_t access;       /* IBV_ACCESS_* */
	uint64_t iova;	       /* address that peers use for the first byte */
	uint64_t length;       /* bytes */
	uint64_t addr;	       /* owner's virtual address of the first byte */
	uint32_t memory;       /* enum vb_key_memory */
	int32_t file_fd;       /* owner's number of a descriptor of the file, -1: use the path */
	uint64_t file_path;    /* offset of a NUL-terminated path in the published part, 0 none */
	uint64_t file_dev, file_ino;
	uint64_t file_offset; /* of addr within the file */
	uint64_t pad[5];
};
static_assert(sizeof(struct vb_pub_key) == 128, "two cache lines");

struct vb_pub_sge {
	uint64_t addr; /* owner's virtual address */
	uint32_t length;
	uint32_t lkey;
};

/* A receive WQE as posted: header, then the SGEs. Stride: vb_pub_qp.rq_stride. */
struct vb_pub_wqe {
	uint32_t num_sge;
	uint32_t length; /* sum of the SGEs */
	uint64_t pad;
	struct vb_pub_sge sge[];
};

/* The counters of a receive queue, of a QP or an SRQ; written by the owner. */
struct vb_pub_rq {
	_Atomic uint64_t posted; /* receives posted since creation; never goes back */
	uint64_t pad0[7];
	_Atomic uint64_t polled; /* one initiator: all receives below were consumed */
	_Atomic uint64_t limit;	 /* tell the owner when fewer than this are left, 0 never */
	uint64_t pad1[6];
};
static_assert(sizeof(struct vb_pub_rq) == 128, "two cache lines");

/* What a peer must know of a QP. Changed only while the QP's word says LOCKED. */
struct vb_pub_qp {
	uint32_t qpn;
	uint32_t type;	 /* IBV_QPT_* */
	uint32_t pd;	 /* adapter-wide number */
	uint32_t access; /* IBV_ACCESS_REMOTE_* the QP allows */
	uint32_t dest_qpn;
	uint32_t qkey;
	uint8_t path_mtu; /* enum ibv_mtu */
	uint8_t min_rnr_timer;
	uint8_t max_dest_rd_atomic;
	uint8_t pad0[5];
	uint8_t own_gid[16];
	uint8_t dest_gid[16];
	uint32_t recv_cq;  /* index of the CQ in the owner's table */
	uint32_t recv_bit; /* the QP's bit in that CQ's ready set */
	/* The receive queue: the QP's own, or its SRQ's. */
	uint32_t rq_size;   /* WQEs, a power of two; 0 without a receive queue */
	uint32_t rq_stride; /* bytes of one vb_pub_wqe with its SGEs */
	uint32_t rq_max_sge;
	uint32_t rq_pd;	       /* the PD its SGEs are checked in */
	uint32_t rq_shared;    /* 1: several initiators take from it */
	uint32_t bounce_slots; /* a power of two, 0 none */
	uint64_t rq_counters;  /* offset, published part: struct vb_pub_rq */
	uint64_t rq_head;      /* offset, mailbox: next receive to take */
	uint64_t rq_wqes;      /* offset, published part: rq_size * rq_stride bytes */
	uint64_t rq_arrivals;  /* offset, mailbox: rq_size * sizeof(struct vb_mbx_arrival) */
	uint64_t bounce;       /* offset, mailbox: bounce_slots * VB_BOUNCE_BYTES */
	uint64_t bounce_words; /* offset, mailbox: who has each, where several take; else 0 */
	uint64_t pad1[6];
};
static_assert(sizeof(struct vb_pub_qp) == 192, "three cache lines");

struct vb_pub_cq {
	_Atomic uint64_t word; /* generation << 1 | live */
	int32_t channel_fd;    /* owner's number of the write end of the channel's pipe, -1 none */
	uint32_t timestamps;   /* 1: completions are to be stamped */
	_Atomic uint64_t cqe;  /* entries; 0: overrun is ignored */
	_Atomic uint64_t removed; /* completions ever polled or dropped */
	uint64_t pad[4];
};
static_assert(sizeof(struct vb_pub_cq) == 64, "one cache line");

#define VB_BOUNCE_BYTES 1024u
#define VB_LINE_BYTES	32u

/* What became of a receive: one record per slot of the receive queue. */
struct vb_mbx_arrival {
	_Atomic uint64_t word; /* docs/shared-words.md: index, taker, QP, state */
	uint64_t time_ns;      /* CLOCK_MONOTONIC at the sender */
	uint32_t byte_len;
	uint32_t imm; /* network order */
	uint32_t src_qpn;
	uint8_t opcode; /* enum ibv_wc_opcode - IBV_WC_RECV: 0 or 1 */
	uint8_t status; /* enum ibv_wc_status */
	uint8_t flags;	/* enum ibv_wc_flags */
	uint8_t place;	/* enum vb_arrival_place, or VB_PLACE_BOUNCE + bounce slot */
	uint8_t line[VB_LINE_BYTES];
};
static_assert(sizeof(struct vb_mbx_arrival) == 64, "one cache line");

/* Where the payload of an arrival is. */
enum vb_arrival_place {
	VB_PLACE_DIRECT = 0, /* already in the receive buffers, or there is none */
	VB_PLACE_LINE = 1,   /* in the record itself */
	VB_PLACE_BOUNCE = 2, /* in bounce slot 0; the next number in slot 1, ... */
};

struct vb_mbx_qp {
	_Atomic uint64_t word; /* docs/shared-words.md: epoch, sequence, cause, state */
	_Atomic uint64_t psn;  /* epoch << 40 | expected PSN */
	uint64_t pad[6];
};
static_assert(sizeof(struct vb_mbx_qp) == 64, "one cache line");

struct vb_mbx_cq {
	_Atomic uint64_t arm;	  /* sequence << 8 | enum vb_arm */
	_Atomic uint64_t added;	  /* completions ever added by anyone */
	_Atomic uint64_t overrun; /* not 0: one more was added than there are entries */
	uint64_t pad[5];
	struct vb_ready ready;
};

struct vb_mbx_header {
	uint64_t magic;
	uint64_t layout;
	uint8_t id[16];
	/* Thread id of the owner's engine; the kernel adds FUTEX_OWNER_DIED at its
	 * death. 0 while there is no engine. */
	_Atomic uint32_t alive;
	uint32_t pad0;
	/* The process inside an atomic: first 32 bits of its id << 32 | slot + 1, 0 free. */
	_Atomic uint64_t atomics;
	_Atomic uint64_t rung; /* doorbell_turn in which a peer has rung */
	uint64_t pad1;
	_Atomic uint64_t visitors[VB_SLOTS / 64]; /* processes that ever mapped this segment */
	struct vb_ready attention; /* QPs (bit: index % 4096) the owner should look at */
};

/* Any change of size or version makes segments strangers to each other. */
static inline uint64_t vb_layout_hash(void)
{
	const uint64_t facts[] = {
		5, /* version: raise on a change of meaning */
		sizeof(struct vb_pub_header),
		sizeof(struct vb_pub_key),
		sizeof(struct vb_pub_qp),
		sizeof(struct vb_pub_cq),
		sizeof(struct vb_pub_wqe),
		sizeof(struct vb_mbx_header),
		sizeof(struct vb_mbx_qp),
		sizeof(struct vb_mbx_cq),
		sizeof(struct vb_mbx_arrival),
		sizeof(struct vb_pub_rq),
		sizeof(struct vb_pub_group),
		VB_BLOCK_BITS,
		VB_OWN_BLOCKS,
		VB_CHUNK_IDS,
		VB_BOUNCE_BYTES,
	};
	uint64_t hash = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++)
		hash = (hash ^ facts[i]) * 0x100000001b3ull;
	return hash;
}

#endif

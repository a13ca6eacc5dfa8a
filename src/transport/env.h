/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_TRANSPORT_ENV_H
#define VB_TRANSPORT_ENV_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/types.h"

/*
 * Theory of operation
 *
 * A responder touches memory, keys, receives and completion queues only through
 * struct vb_resp_env. The environment fetches facts and moves bytes; it decides
 * nothing: whether a key's PD, rights and range are right, whether a receive is
 * long enough, is for the checks of rc_check.h, which see the facts. So one set
 * of checks serves packets from the wire and messages of this host.
 */

/* The facts of a key, as its owner published them. */
struct vb_key {
	uint32_t rkey;
	uint32_t pd;
	uint32_t access;    /* enum vb_access */
	uint32_t qpn;	    /* QP a type 2 window is bound to, 0: any QP of the PD */
	bool invalidatable; /* a remote invalidate may name it */
	uint64_t start;	    /* first remote address */
	uint64_t length;    /* bytes */
	uint64_t token[2];  /* the environment's own; the machines only carry them */
};

/* A piece of remote memory that passed the checks. */
struct vb_target {
	struct vb_key key;
	uint64_t addr; /* remote address of the first byte */
};

/* A receive that was taken. */
struct vb_recv {
	uint64_t wr_id;
	uint64_t length;   /* sum of its scatter elements in bytes */
	bool sges_ok;	   /* each element's key, PD, range and LOCAL_WRITE hold */
	uint64_t token[2]; /* the environment's own */
};

enum vb_take {
	VB_TAKE_OK,
	VB_TAKE_NONE,	     /* nothing posted: not ready */
	VB_TAKE_SRQ,	     /* the SRQ is in error */
	VB_TAKE_GONE,	     /* QP or process left meanwhile */
	VB_TAKE_UNREACHABLE, /* no step of the ladder reaches its buffers; none was taken */
};

enum vb_copy {
	VB_COPY_OK,
	VB_COPY_FAULT_LOCAL,  /* the initiator's payload cannot be touched */
	VB_COPY_FAULT_REMOTE, /* the responder's side cannot be, or its key has gone */
	VB_COPY_GONE,	      /* QP or process left meanwhile */
	VB_COPY_UNREACHABLE,  /* no step of the ladder reaches the memory; nothing was copied */
};

/* Where a copy lands or starts: exactly one is set. */
struct vb_place {
	const struct vb_target *target;
	const struct vb_recv *recv;
};

enum vb_atomic {
	VB_ATOMIC_CMP_SWP,
	VB_ATOMIC_FETCH_ADD,
};

/* The completion of a receive. */
struct vb_recv_completion {
	enum vb_wc_status status;
	enum vb_wc_opcode opcode; /* VB_WC_OP_RECV, VB_WC_OP_RECV_RDMA_WITH_IMM */
	uint32_t flags;		  /* enum vb_wc_flags */
	uint32_t byte_len;
	uint32_t imm_or_key; /* immediate as on the wire (network order) or invalidated key */
	uint32_t qpn;	     /* the responder's QP */
	uint32_t src_qpn;
	bool solicited; /* raise an event on a CQ armed for solicited ones; errors always are */
};

struct vb_resp_env {
	/* The facts of @rkey. False: no such key (unknown, deregistered, invalidated). */
	bool (*lookup_key)(void *ctx, uint32_t rkey, struct vb_key *out);
	/* Take the next receive of the QP or its SRQ. It belongs to this message until
	 * complete(); one that is not completed by the end of the message stays with its
	 * owner, for the next one. */
	enum vb_take (*take_recv)(void *ctx, struct vb_recv *out);
	/* Move @length bytes of @payload to @offset of the place. Message form: the whole
	 * message at once, the environment checks liveness between chunks. Packet form:
	 * @payload is the packet's payload in memory. */
	enum vb_copy (*copy_in)(void *ctx, const struct vb_place *to, uint64_t offset,
				const void *payload, uint64_t length);
	/* Move @length bytes from @offset of the target to @payload. */
	enum vb_copy (*copy_out)(void *ctx, const struct vb_target *from, uint64_t offset,
				 const void *payload, uint64_t length);
	/* 64-bit atomic on host-order values at target->addr; @old gets what was there.
	 * @compare_add is the comparand, or the addend; @swap counts for CMP_SWP only. */
	enum vb_copy (*atomic)(void *ctx, const struct vb_target *target, enum vb_atomic kind,
			       uint64_t compare_add, uint64_t swap, uint64_t *old);
	/* Make a key useless. Called only for a key that passed the checks. */
	enum vb_copy (*invalidate)(void *ctx, const struct vb_key *key);
	/* Publish a receive's completion. Everything copied before is visible first.
	 * False: QP or CQ left meanwhile. */
	bool (*complete)(void *ctx, const struct vb_recv *recv,
			 const struct vb_recv_completion *completion);
};

#endif

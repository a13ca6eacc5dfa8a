/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_BASE_FAULTS_H
#define VB_BASE_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Faults on demand, as text:
 *
 *	RULE[;RULE]...		e.g.  drop=1%;delay=5%,ms=10;corrupt=#3,opcode=write;seed=7
 *
 *	RULE is ACTION=WHEN[,CONDITION]... or seed=NUMBER
 *	ACTION: drop, duplicate, reorder, delay, corrupt (behind the ICRC's back: the receiver sees
 *		it), mangle (before the ICRC is written: the receiver cannot), truncate, rnr
 *		(the receiver is not ready), down (the link: nothing leaves or comes for a while),
 *up (what would leave while it is down ends that), reset (of a connected QP: its peer is heard of
 *no more, as if its process had died), fatal (the device is lost) WHEN: P% of those that match, #N
 *the N-th of them only, /N every N-th CONDITION: opcode=send|write|read|atomic|response|ack or a
 *number, qp=NUMBER (destination), ms=NUMBER (of delay and down; 1 without it)
 */

enum vb_fault_action {
	VB_FAULT_DROP,
	VB_FAULT_DUPLICATE,
	VB_FAULT_REORDER,
	VB_FAULT_DELAY,
	VB_FAULT_CORRUPT,
	VB_FAULT_MANGLE,
	VB_FAULT_TRUNCATE,
	VB_FAULT_RNR,
	VB_FAULT_DOWN,
	VB_FAULT_UP,
	VB_FAULT_RESET,
	VB_FAULT_FATAL,
	VB_FAULT_ACTIONS
};

/* Packets that a rule looks at. Numbers are opcodes. */
enum vb_fault_kind {
	VB_FAULT_ANY = 256,
	VB_FAULT_SEND,
	VB_FAULT_WRITE,
	VB_FAULT_READ,
	VB_FAULT_ATOMIC,
	VB_FAULT_RESPONSE,
	VB_FAULT_ACK,
	VB_FAULT_CNP,
};

#define VB_FAULT_RULES 16
#define VB_FAULT_WHOLE 100000u /* 100% */

struct vb_fault_rule {
	enum vb_fault_action action;
	uint32_t share; /* of VB_FAULT_WHOLE; 0: by number */
	uint64_t nth, every;
	uint32_t kind; /* enum vb_fault_kind, or an opcode */
	uint32_t qpn;  /* 0: any */
	uint32_t ms;
	uint64_t matched; /* so far */
};

struct vb_faults {
	uint32_t n;
	uint64_t seed; /* state of the random numbers */
	struct vb_fault_rule rule[VB_FAULT_RULES];
};

/** vb_faults_parse() - Read a specification
 * @spec:   Any text; empty: no faults
 * @wrong:  Receives where it is wrong, in @spec; may be NULL
 * Return:  0, or -EINVAL and @f without rules
 * Test:    faults_test.c, tests/fuzz/faults_fuzz.c
 */
int vb_faults_parse(struct vb_faults *f, const char *spec, const char **wrong);

#endif

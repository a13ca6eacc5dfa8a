/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The whole path of a message: two QPs of one CQ, an initiator each; arrival, ready
 * set, arm word, record, event, poll. The owner sleeps only with nothing left by an
 * initiator that went on.
 */
#include "common.pml"

#define SIZE  1
#define OWNER 2

#define ARR(i, s) ((i) * 4 + (s))
#define EMPTY 0
#define FULL  1

#define ARM(seq, s) ((seq) * 4 + (s))
#define SEQ(w)	    ((w) / 4)
#define ASTATE(w)   ((w) % 4)
#define NONE   0
#define ANY    2
#define FIRING 3

byte head[2], posted[2];
byte arr[2 * SIZE];
byte payload[2 * SIZE];
byte top, leaf;
byte arm = ARM(0, NONE);
chan pipe = [8] of { byte };

/* Ghosts. */
byte sent[2]; /* messages whose initiator went on */

#define RECORD(s) d_step { assert(nfull(pipe)); pipe!s }
#define VB_ARM_FIRED(w)                                                      \
	d_step {                                                             \
		if                                                           \
		:: arm == ARM(SEQ(w), FIRING) -> arm = ARM(SEQ(w), NONE)     \
		:: else                                                      \
		fi                                                           \
	}

proctype initiator(byte me, msgs)
{
	byte i, n = 0, w;

	BODY
	do
	:: n < msgs ->
		i = head[me];
		atomic {
			if
			:: i >= posted[me] -> goto next /* receiver not ready */
			:: else
			fi
		}
		payload[me * SIZE + i % SIZE] = n + 1; /*copy*/
		/* vb_arrival_publish: nobody takes the receive back here */
		d_step {
			assert(arr[me * SIZE + i % SIZE] == ARR(i, EMPTY));
			arr[me * SIZE + i % SIZE] = ARR(i, FULL)
		} /*publish*/
		head[me] = i + 1; /* vb_head_advance */
		/* vb_ready_set */
		if :: leaf & (1 << me) -> skip :: else -> leaf = leaf | (1 << me) fi; /*leaf*/
		if :: top -> skip :: else -> top = 1 fi; /*top*/
		/* vb_arm_fire */
		w = arm; /*arm*/
		do
		:: ASTATE(w) == NONE -> break
		:: ASTATE(w) == ANY ->
			atomic {
				if
				:: arm == w -> arm = ARM(SEQ(w), FIRING)
				:: else -> w = arm; goto again
				fi
			}
			RECORD(SEQ(w));
			VB_ARM_FIRED(w);
			break;
again:			skip
		:: ASTATE(w) == FIRING -> /*firing*/
			atomic {
				if
				:: arm != w -> w = arm; goto ended
				:: else
				fi
			}
			RECORD(SEQ(w));
			VB_ARM_FIRED(w);
			break;
ended:			skip
		od;
		n++;
		d_step { sent[me] = n; w = 0; i = 0 }
	:: else -> break
	od;
next:	skip
	} unless {
		atomic { halt[me] -> n = 0; w = 0; i = 0 }
	}
}

inline look(q)
{
	do
	:: arr[q * SIZE + polled[q] % SIZE] == ARR(polled[q], FULL) -> /*full*/
		d_step {
			/* In order, none doubled, none lost; the payload is there. */
			assert(payload[q * SIZE + polled[q] % SIZE] == polled[q] + 1);
			payload[q * SIZE + polled[q] % SIZE] = 0;
			polled[q]++
		}
		if
		:: posted[q] < 2 -> /* vb_arrival_post */
			arr[q * SIZE + posted[q] % SIZE] = ARR(posted[q], EMPTY);
			posted[q] = posted[q] + 1
		:: else
		fi
	:: else -> break
	od
}

inline poll()
{
	if
	:: top ->
		top = 0;
		d_step { bits = leaf; leaf = 0 }
		if
		:: bits & 1 -> look(0)
		:: else
		fi;
		if
		:: bits & 2 -> look(1)
		:: else
		fi;
		bits = 0
	:: else
	fi
}

active proctype owner()
{
	byte polled[2], bits, last, armed, r, w;

	d_step { arr[0] = ARR(0, EMPTY); arr[SIZE] = ARR(0, EMPTY); posted[0] = 1; posted[1] = 1 }
	run initiator(0, BIG(2, 1));
	run initiator(1, BIG(2, 1));
	BODY
	do
	:: /* vb_arm_set */
		w = arm;
		do
		:: ASTATE(w) == ANY -> break
		:: else ->
			atomic {
				if
				:: arm == w -> arm = ARM(SEQ(w) + 1, ANY); armed = SEQ(w) + 1; break
				:: else -> w = arm
				fi
			}
		od;
		w = 0;
		poll(); /*poll*/
		/* ibv_get_cq_event */
endwait:	do
		:: pipe?r ->
			atomic {
				if
				:: r > last && r <= armed -> last = r; r = 0; break /*filter*/
				:: else -> r = 0
				fi
			}
#ifndef FATE
		:: d_step {
				empty(pipe);
				assert(polled[0] >= sent[0] && polled[1] >= sent[1])
			}
#endif
		od
	od
	UNLESS_HALTED(OWNER)
}

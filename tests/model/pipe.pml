/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A channel whose pipe is full: two CQs of one channel with a producer each, a pipe of one
 * record. A producer that cannot write says so in the channel's overflow word, tries once
 * more and leaves the arm word FIRING; the reader, having made room, looks for those.
 */
#include "common.pml"

#define OWNER 2

#define ARM(seq, s) ((seq) * 4 + (s))
#define SEQ(w)	    ((w) / 4)
#define ASTATE(w)   ((w) % 4)
#define NONE   0
#define ANY    2
#define FIRING 3

byte arm[2];
chan pipe = [1] of { byte, byte };
bool overflow;
byte added[2];

/* Ghosts. */
byte went[2];

#define FIRED(q)                                                           \
	d_step {                                                           \
		if                                                         \
		:: arm[q] == ARM(SEQ(w), FIRING) -> arm[q] = ARM(SEQ(w), NONE) \
		:: else                                                    \
		fi                                                         \
	}

proctype producer(byte me)
{
	byte n = 0, w;

	BODY
	do
	:: n < BIG(2, 1) ->
		n++;
		added[me] = n;
		w = arm[me];
		do
		:: ASTATE(w) == NONE -> break
		:: ASTATE(w) == ANY ->
			atomic {
				if
				:: arm[me] == w -> arm[me] = ARM(SEQ(w), FIRING); w = ARM(SEQ(w), FIRING)
				:: else -> w = arm[me]
				fi
			}
		:: ASTATE(w) == FIRING ->
			atomic { if :: nfull(pipe) -> pipe!me, SEQ(w); goto written :: full(pipe) fi }
			overflow = 1; /*overflow*/
			atomic { if :: nfull(pipe) -> pipe!me, SEQ(w); goto written :: full(pipe) fi } /*retry*/
			break; /*leave*/
written:		skip;
			FIRED(me);
			break
		od;
		atomic { went[me] = n; w = 0 }
	:: else -> break
	od
	UNLESS_HALTED(me)
}

inline rearm(q)
{
	w = arm[q];
	do
	:: ASTATE(w) == ANY -> break
	:: else ->
		atomic {
			if
			:: arm[q] == w -> arm[q] = ARM(SEQ(w) + 1, ANY); armed[q] = SEQ(w) + 1; break
			:: else -> w = arm[q]
			fi
		}
	od;
	w = 0;
	seen[q] = added[q]
}

/* An event the pipe had no room for. */
inline left(q)
{
	w = arm[q];
	if
	:: ASTATE(w) == FIRING && SEQ(w) > last[q] -> last[q] = SEQ(w); rearm(q)
	:: else
	fi;
	w = 0
}

active proctype owner()
{
	byte w, q, r, last[2], armed[2], seen[2];

	run producer(0);
	run producer(1);
	BODY
	rearm(0);
	rearm(1);
endwait:
	do
	:: pipe?q, r ->
		if
		:: q == 0 && r > last[0] -> last[0] = r; rearm(0)
		:: q == 1 && r > last[1] -> last[1] = r; rearm(1)
		:: else
		fi;
		if
		:: overflow -> /*check*/
			overflow = 0; /*reset*/
			left(0);
			left(1) /*left*/
		:: else
		fi;
		d_step { q = 0; r = 0 }
#ifndef FATE
	:: d_step { empty(pipe); assert(seen[0] >= went[0] && seen[1] >= went[1]) }
#endif
	od
	UNLESS_HALTED(OWNER)
}

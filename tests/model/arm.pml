/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Arm word: two producers of one CQ, and its owner, who arms, polls, waits in the
 * channel's pipe, destroys the CQ and makes a new one in the same row.
 */
#include "common.pml"

#define ARMS   BIG(3, 2) /* armings of the owner, at most */
#define OWNER  2

#define ARM(seq, s) ((seq) * 4 + (s))
#define SEQ(w)	    ((w) / 4)
#define ASTATE(w)   ((w) % 4)
#define NONE	  0
#define SOLICITED 1
#define ANY	  2
#define FIRING	  3

byte arm = ARM(0, NONE);
chan pipe = [8] of { byte };

/* Completions of each producer: all, and the last solicited one. */
byte added[2], solicited[2];

/* Ghosts: of them, by a producer that went on. */
byte went[2], done_solicited[2];
byte events[ARMS + 2];
bool fired[ARMS + 2];

/* Writes the record; pipes of the model are long enough (see pipe.pml). */
#define RECORD(s) d_step { assert(nfull(pipe)); pipe!s }

#define VB_ARM_FIRED(w)                                        \
	d_step {                                               \
		if                                             \
		:: arm == ARM(SEQ(w), FIRING) -> /*compare*/   \
			arm = ARM(SEQ(w), NONE)                \
		:: else                                        \
		fi                                             \
	}

inline fire()
{
	w = arm; /*first-look*/
	do
	:: ASTATE(w) == NONE -> break
	:: ASTATE(w) == SOLICITED && !sol -> break
	:: ASTATE(w) == ANY || (ASTATE(w) == SOLICITED && sol) ->
		atomic { /* vb_arm_fire */
			if
			:: arm == w ->
				arm = ARM(SEQ(w), FIRING);
				assert(!fired[SEQ(w)]);
				fired[SEQ(w)] = 1
			:: else -> w = arm; goto again /*lost-race*/
			fi
		}
		RECORD(SEQ(w)); /*record*/
		VB_ARM_FIRED(w); /*fired*/
		break;
again:		skip
	:: ASTATE(w) == FIRING -> /*firing*/
		/* Wait a bounded moment, then do the other's step. */
		atomic {
			if
			:: arm != w -> w = arm; goto ended
			:: else /*wait-over*/
			fi
		}
		RECORD(SEQ(w)); /*help*/
		VB_ARM_FIRED(w);
		break;
ended:		skip
	od;
	w = 0
}

proctype producer(byte me, rounds)
{
	byte n = 0, w;
	bool sol;

	BODY
	do
	:: n < rounds ->
		n++;
		if
		:: sol = 0
		:: sol = 1
		fi;
		atomic { /*publish*/
			added[me] = n;
			if
			:: sol -> solicited[me] = n
			:: else
			fi
		}
		fire(); /*fire*/
		d_step {
			went[me] = n;
			if
			:: sol -> done_solicited[me] = n
			:: else
			fi;
			sol = 0
		}
	:: else -> break
	od
	} unless {
		atomic { halt[me] -> w = 0; n = 0; sol = 0 }
	}
}

/* vb_arm_set; the caller polls afterwards. */
inline arm_set(want)
{
	w = arm;
	do
	:: ASTATE(w) == ANY || (ASTATE(w) == SOLICITED && want == SOLICITED) -> break
	:: else ->
		if
		:: ASTATE(w) == SOLICITED -> new = ARM(SEQ(w), ANY)
		:: else -> new = ARM(SEQ(w) + 1, want) /*arm-next*/
		fi;
		d_step {
			if
			:: arm == w -> arm = new; ok = 1
			:: else -> w = arm; ok = 0
			fi
		}
		if
		:: ok -> break
		:: else
		fi
	od;
	atomic {
		any = (want == ANY || ASTATE(w) == ANY);
		armed = SEQ(arm); w = 0; new = 0; ok = 0
	}
}

inline poll()
{
	seen[0] = added[0]; /*poll0*/
	seen[1] = added[1] /*poll1*/
}

/* The reader's filter: only sequences that count up, of this CQ. */
inline deliver()
{
	d_step {
		if
		:: r > last && r <= armed -> /*filter*/
			last = r;
			events[r]++;
			assert(events[r] == 1); /* once per arming */
			assert(fired[r] && r >= first); /* and not another CQ's */
			event = 1
		:: else -> event = 0
		fi;
		r = 0
	}
}

active proctype owner()
{
	byte w, new, seen[2], r, last, armed, first, n = 0;
	bool ok, event, any;

	run producer(0, 1);
	run producer(1, 1);
	BODY
	do
	:: n < ARMS ->
		n++;
		if
		:: arm_set(SOLICITED)
		:: arm_set(ANY)
		fi;
		poll(); /*poll*/
		if
		:: skip /* ibv_get_cq_event */
		:: n < ARMS -> goto next /* arms again without an event */
		fi;
		/* Asleep in the pipe: whoever went on has left nothing. */
endwait:	do
		:: pipe?r ->
			deliver();
			if
			:: event -> event = 0; break
			:: else
			fi
#ifndef FATE
		:: d_step {
				empty(pipe);
				assert(!any || (seen[0] >= went[0] && seen[1] >= went[1]));
				assert(seen[0] >= done_solicited[0] && seen[1] >= done_solicited[1])
			}
#endif
		od;
next:		any = 0
	:: n == 1 -> /* the CQ is destroyed, and another made in its row */
		n++;
		d_step { /*recreate*/
			armed = SEQ(arm) + 1;
			arm = ARM(armed, NONE);
			first = armed
		}
		last = armed /*recreate-last*/
	:: else -> break
	od
	UNLESS_HALTED(OWNER)
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A receive queue that several initiators take from (UD, SRQ): taking, publishing, giving up,
 * the owner's sorting, a taker that died or stopped, a QP that leaves.
 * Initiator i sends to QP i of the owner; both QPs receive from this queue.
 */
#include "common.pml"

/* The small form comes around to a slot, the large one has two receives at a time. */
#define SIZE	BIG(3, 2) /* slots; one is a spare for a receive whose slot is held */
#define RECVS	BIG(2, 1) /* receives of the program */
#define LAST	6 /* indexes there are */
#define MSGS	(1 + me) /* messages of one initiator */
#define TURNS	BIG(2, 1)
#define OWNER	2
#define NONE	255

#define ARR(i, who, s) ((i) * 16 + (who) * 8 + (s))
#define EMPTY	0
#define FULL	1
#define FLUSHED 2
#define TAKEN	3
#define VOID	4
#define STATE(w) ((w) % 8)
#define WHO(w)	 (((w) / 8) % 2)
#define INDEX(w) ((w) / 16)

bool ready[2] = 1; /* QP words */
byte head, posted;
byte wqe[SIZE];		/* published: the program's receive in this slot */
byte arr[SIZE] = 255, rec[SIZE];
byte buffer[RECVS];	/* the program's, one per receive */
bool announced[2];

/* Ghosts. */
bool back[RECVS];	/* the buffer is the program's again */
byte put[LAST];		/* message that was published in this receive */
bool published[5];
bool sent[5];		/* initiator saw its send accepted */
bool got[5];		/* message was completed to the program */
bool excused[2];	/* the owner waited its bounded time for this access, and went on */
bool over[2];		/* initiator came to its end */
byte lost;		/* receives for which no index was left: the bounds of the model */

#define MSG (me * 2 + k + 1)

/* A store into the program's buffer: nobody else's, unless the owner waited its time. */
#define COPY(b)                                    \
	d_step {                                   \
		assert(!back[b] || excused[me]);   \
		buffer[b] = MSG                    \
	}

proctype initiator(byte me)
{
	byte k = 0, tries = 0, looks = 0, i, n, a, buf;

	BODY
	skip;
	do
	:: k < MSGS && tries < MSGS ->
		tries++;
		d_step { announced[me] = 1; excused[me] = 0 } /*announce*/
		if
		:: !ready[me] -> goto silent /*state*/
		:: else
		fi;
		looks = 0;
		do
		:: looks < 3 ->
			looks++;
			i = head;
			atomic {
				n = posted;
				if
				:: i >= n -> n = 0; goto silent
				:: else -> n = 0
				fi
			}
			atomic { /* vb_arrival_take */
				a = arr[i % SIZE];
				if
				:: a == ARR(i, 0, EMPTY) -> /*take*/
					arr[i % SIZE] = ARR(i, me, TAKEN);
					a = 1
				:: else -> a = 0
				fi
			}
			atomic { /* vb_head_advance, also past what is somebody else's */
				if
				:: head == i -> head = i + 1 /*advance*/
				:: else
				fi;
				if
				:: a -> break
				:: else
				fi
			}
		:: else -> goto silent
		od;
		buf = wqe[i % SIZE];
		if
		:: !ready[me] -> goto give_up /*recheck*/
		:: else
		fi;
		COPY(buf); /*copy*/
		rec[i % SIZE] = MSG; /*record*/
		if
		:: !ready[me] -> goto give_up
		:: else
		fi;
		atomic { /* vb_arrival_publish */
			if
			:: arr[i % SIZE] == ARR(i, me, TAKEN) -> /*publish*/
				arr[i % SIZE] = ARR(i, me, FULL);
				assert(put[i] == 0); /* no receive is taken twice */
				put[i] = MSG;
				published[MSG] = 1
			:: else -> goto silent /* taken back: the QP left, or we are dead */
			fi
		}
		d_step {
			announced[me] = 0; /*clear*/
			if
			:: ready[me] -> sent[MSG] = 1
			:: else
			fi;
			k++; i = 0; a = 0; buf = 0; looks = 0
		}
		goto next;
give_up:	atomic { /* vb_arrival_void */
			if
			:: arr[i % SIZE] == ARR(i, me, TAKEN) ->
				arr[i % SIZE] = ARR(i, me, VOID) /*void*/
			:: else
			fi
		}
silent:		skip;
		d_step { announced[me] = 0; i = 0; a = 0; buf = 0; looks = 0 }
next:		skip
	:: else -> break
	od;
	skip;
	d_step { over[me] = 1; k = 0; tries = 0; i = 0; looks = 0 }
	} unless {
		atomic { halt[me] -> k = 0; tries = 0; looks = 0; i = 0; n = 0; a = 0; buf = 0 }
	}
}

/* next_slot: where the slot's turn comes while it is held, its index names nothing. */
inline post(r)
{
	do
	:: posted < LAST && note[posted % SIZE] != NONE -> posted = posted + 1 /*pass-over*/
	:: posted >= LAST -> lost++; break
	:: else ->
		d_step { note[posted % SIZE] = posted; wqe[posted % SIZE] = r } /*wqe*/
		d_step {
			arr[posted % SIZE] = ARR(posted, 0, EMPTY); /*empty*/
			back[r] = 0;
			holds[r] = posted
		};
		posted = posted + 1; /*post*/
		break
	od
}

/* offer_again: the program's receive of index x under a new index. */
inline offer(x, keep)
{
	d_step {
		b = wqe[x % SIZE];
		assert(holds[b] == x);
		if
		:: keep
		:: else -> note[x % SIZE] = NONE
		fi
	};
	post(b)
}

/* settle() of engine/sort.c. Leaves `done` 1 where index x is settled. */
inline settle(x)
{
	d_step { w = arr[x % SIZE]; done = 1 };
	if
	:: STATE(w) == TAKEN && INDEX(w) == x ->
		if
		/* Not looked for each time; in the end it is. */
		:: halt[WHO(w)] -> /*dead*/
			atomic {
				if
				:: arr[x % SIZE] == w -> arr[x % SIZE] = ARR(x, WHO(w), VOID)
				:: else -> done = 0
				fi
			}
		:: !last || !halt[WHO(w)] -> done = 0
		fi;
		w = arr[x % SIZE]
	:: else
	fi;
	if
	:: !done
	:: done && STATE(w) == FULL && INDEX(w) == x ->
		if
		:: alive[WHO(w)] -> inbox[WHO(w)] ! x
		:: else ->
			arr[x % SIZE] = ARR(x, WHO(w), VOID);
			offer(x, 0)
		fi
	:: else ->
		atomic { /* vb_arrival_flush */
			assert(arr[x % SIZE] != ARR(x, WHO(w), FULL)); /*flush*/
			arr[x % SIZE] = ARR(x, 0, FLUSHED)
		};
		offer(x, 0)
	fi
}

/* sort(): what is pending is looked at again, then what is new. `head` is read first: what was
 * taken behind it by now was published before the second of a sender was taken. */
inline sort()
{
	h = head; /*head-first*/
	n = len(pending);
	do
	:: n > 0 ->
		atomic { n--; pending ? x };
		settle(x);
		if
		:: !done -> pending ! x /*keep*/
		:: else
		fi
	:: else -> break
	od;
	do
	:: sorted < h && sorted < posted ->
		d_step { x = sorted; sorted++ };
		if
		:: note[x % SIZE] != x /*names-nothing*/
		:: else ->
			settle(x);
			if
			:: !done -> pending ! x /*pend*/
			:: else
			fi
		fi
	:: else -> break
	od;
	skip;
	d_step { h = 0; n = 0; x = 0; w = 0; b = 0; done = 0 }
}

inline poll(q)
{
	inbox[q] ? x;
	d_step {
		b = wqe[x % SIZE];
		assert(alive[q]);
		w = rec[x % SIZE];
		assert(w == put[x]);		    /* the record is the publisher's */
		assert(buffer[b] == w || late);	    /* and so is the payload */
		assert((w - 1) / 2 == q);
		assert(!got[w]);		    /* not doubled */
		assert((w - 1) % 2 == 0 || got[w - 1]); /* in order */
		got[w] = 1;
		assert(holds[b] == x);
		holds[b] = NONE;
		back[b] = 1;
		note[x % SIZE] = NONE; /*free*/
		w = 0; x = 0
	};
	if
	:: again > 0 && !last -> again--; post(b) /* the program uses it again */
	:: else
	fi;
	b = 0
}

inline look(p)
{
	if
	:: announced[p] && halt[p] -> skip /* seen to be dead */
	:: announced[p] ->
		d_step { /* a bounded wait: it ends in the meantime, or the owner goes on */
			if
			:: announced[p] -> excused[p] = 1; late = 1
			:: else
			fi
		}
	:: else
	fi
}

/* vb_sort_leave for QP 0, which goes away. */
inline leave()
{
	ready[0] = 0; /*down*/
	look(0); /*look*/
	sort();
	/* leave_unfinished() */
	n = len(pending);
	do
	:: n > 0 ->
		atomic { n--; pending ? x };
		w = arr[x % SIZE];
		done = 0;
		if
		:: STATE(w) == TAKEN && WHO(w) == 0 ->
			atomic {
				if
				:: arr[x % SIZE] == w ->
					arr[x % SIZE] = ARR(x, 0, VOID);
					done = 1
				:: else
				fi
			};
			if
			:: done && halt[0] -> offer(x, 0)
			:: done -> offer(x, 1) /*keep-slot*/
			:: else -> pending ! x
			fi
		:: else -> pending ! x
		fi
	:: else -> break
	od;
	sort();
	alive[0] = 0;
	do
	:: inbox[0] ? x ->
		atomic { arr[x % SIZE] = ARR(x, 0, VOID); done = 0 };
		offer(x, 0)
	:: empty(inbox[0]) -> break
	od
}

active proctype owner()
{
	byte sorted = 0, h, n, x, w, b, turns = 0, again = BIG(2, 1);
	byte note[SIZE] = NONE, holds[RECVS] = NONE;
	bool done, late, last, alive[2] = 1;
	chan pending = [SIZE] of { byte };
	chan inbox[2] = [SIZE] of { byte };

	run initiator(0);
	run initiator(1);
	BODY
	skip;
	post(0);
	if
	:: RECVS > 1 -> post(RECVS - 1)
	:: else
	fi;
	do
	:: turns < TURNS && nempty(inbox[0]) -> poll(0)
	:: turns < TURNS && nempty(inbox[1]) -> poll(1)
	:: turns < TURNS ->
		turns++;
		sort()
	:: turns < TURNS && alive[0] -> leave()
	:: break
	od;
	/* At last, when everybody has come to an end or been halted, all that arrived is told. */
	((over[0] || halt[0]) && (over[1] || halt[1]));
	last = 1;
	sort();
	do
	:: inbox[0] ? [x] -> poll(0)
	:: inbox[1] ? [x] -> poll(1)
	:: empty(inbox[0]) && empty(inbox[1]) -> break
	od;
	skip;
	d_step {
		/* Nobody is left who could hold a receive up: each was told or is offered, and
		 * every message that was accepted was told. */
		assert(empty(pending));
		n = 1;
		do
		:: n <= 4 ->
			assert(!sent[n] || got[n] || (n <= 2 && !alive[0]));
			n++
		:: else -> break
		od;
		n = 0;
		do
		:: n < RECVS ->
			x = holds[n];
			w = arr[x % SIZE];
			/* Or a dead taker has it, which the next one finds out, and says. */
			assert(x == NONE || lost || (note[x % SIZE] == x && x >= head &&
				(w == ARR(x, 0, EMPTY) ||
				 (INDEX(w) == x && STATE(w) == TAKEN && halt[WHO(w)]))));
			n++
		:: else -> break
		od
	}
	UNLESS_HALTED(OWNER)
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receive queue: posting, arrival, polling, flush at ERR, RESET and a new connection.
 * Initiator 0 is connected in epoch 0, initiator 1 in epoch 1; either may be late.
 */
#include "common.pml"

#define SIZE	1 /* slots of a ring */
#define POSTS	3 /* receives posted per epoch */
#define ALL	6
#define EPOCHS	2
#define MSGS	2 /* messages of one initiator */
#define OWNER	2

#define WORD(e, s) ((e) * 8 + (s))
#define QSTATE(w)  ((w) % 8)
#define DOWN	0
#define LOCKED	1
#define READY	2
#define ERROR	4

#define ARR(i, s) ((i) * 4 + (s))
#define EMPTY	0
#define FULL	1
#define FLUSHED 2
#define SLOT(r, i) ((r) * SIZE + (i) % SIZE)

byte word = WORD(0, DOWN);
byte head, posted;
byte row_peer, row_ring;
byte wqe[SIZE];		  /* published: the buffer of the receive in this slot */
byte arr[EPOCHS * SIZE] = 255; /* rings in the mailbox: arrival word, record */
byte rec[EPOCHS * SIZE];
byte buffer[ALL];	  /* the program's, one per receive */
bool announced[2];	  /* vb_pub_access of each initiator */

/* Ghosts. */
byte put[ALL];		/* message that was published in this receive */
bool back[ALL];		/* the buffer is the program's again */
bool got[5];		/* message was completed to the program */
bool published[5];
bool sent[5];		/* initiator saw its send complete */
bool excused[2];	/* the owner waited its bounded time for this access, and went on */
byte settled;		/* epochs below this one are over */
byte ended[ALL];	/* 1 completed, 2 flushed, 3 dropped at RESET */

/* A store into the program's buffer: the program has not got it back, unless the owner
 * waited its time for this very access. */
#define COPY(b, m)                                 \
	d_step {                                   \
		assert(!back[b] || excused[me]);   \
		buffer[b] = m                      \
	}

proctype initiator(byte me, msgs)
{
	byte k = 0, tries = 0, w, i, n, peer, ring, buf;

	BODY
	skip;
end:	settled >= me; /* made, and connected, once the epoch has begun */
	do
	:: k < msgs && tries < BIG(msgs + 1 - me, 1) ->
		tries++;
		d_step { announced[me] = 1; excused[me] = 0 } /*announce*/
		atomic {
			w = word;
			if
			:: QSTATE(w) != READY -> goto silent
			:: else
			fi
		}
		atomic {
			peer = row_peer;
			ring = row_ring;
			if
			:: peer != me -> goto silent /*peer*/
			:: else
			fi
		}
		i = head; /*head-read*/
		n = posted; /*posted*/
		buf = wqe[i % SIZE]; /*wqe*/
		atomic {
			if
			:: word != w || peer != me || i >= n -> goto silent /*recheck*/
			:: else
			fi;
			w = 0; n = 0; peer = 0
		}
		/* Copy payload and record, then publish. */
		COPY(buf, me * MSGS + k + 1); /*copy*/
		rec[SLOT(ring, i)] = me * MSGS + k + 1; /*record*/
		atomic { /* vb_arrival_publish */
			if
			:: arr[SLOT(ring, i)] == ARR(i, EMPTY) -> /*publish*/
				arr[SLOT(ring, i)] = ARR(i, FULL);
				assert(settled <= me);	/* a stale epoch changes nothing */
				assert(put[i] == 0);	/* no receive is taken twice */
				put[i] = me * MSGS + k + 1;
				published[me * MSGS + k + 1] = 1
			:: else -> /* taken back: the owner is silent, on purpose */
				assert(word != WORD(me, READY));
				goto refused
			fi
		}
		atomic { announced[me] = 0; ring = 0; buf = 0 } /*clear*/
		atomic { /* vb_head_advance */
			if
			:: head == i -> head = i + 1; assert(settled <= me) /*advance*/
			:: else
			fi;
			k++;
			if
			:: settled <= me -> sent[me * MSGS + k] = 1
			:: else
			fi
		}
		goto next;
silent:		announced[me] = 0; /* receiver not ready, or silent: the timers run */
next:		atomic { w = 0; i = 0; n = 0; peer = 0; ring = 0; buf = 0; }
	:: else -> break
	od;
refused:
	announced[me] = 0;
	d_step { w = 0; i = 0; n = 0; peer = 0; ring = 0; buf = 0; k = 0; tries = 0 }
	} unless {
		atomic {
			halt[me] -> w = 0; i = 0; n = 0; peer = 0; ring = 0; buf = 0; k = 0;
			tries = 0
		}
	}
}

/* Looks at one announcement after the word has changed; waits a bounded time. */
inline look(p)
{
	if
	:: announced[p] && halt[p] -> skip /* seen to be dead: skipped */
	:: announced[p] -> /*bounded*/
		/* Bounded wait: it ends in the meantime, or the owner goes on. */
		d_step {
			if
			:: announced[p] -> excused[p] = 1; late = 1
			:: else
			fi
		}
	:: else
	fi
}

inline consume()
{
	/* vb_arrival_full was true */
	got_rec = rec[SLOT(row_ring, polled)];
	got_pay = buffer[wqe[polled % SIZE]];
	d_step {
		assert(got_rec == put[polled]); /* the record is the publisher's */
		assert(got_pay == put[polled]); /* and the payload precedes it */
		assert((got_rec - 1) / MSGS == epoch);
		assert(!got[got_rec]);		/* not doubled */
		assert((got_rec - 1) % MSGS == 0 || got[got_rec - 1]); /* in order */
		got[got_rec] = 1;
		assert(ended[polled] == 0);
		ended[polled] = 1;
		back[polled] = 1;
		/* Not read again before it is written: fewer states. */
		rec[SLOT(row_ring, polled)] = 0;
		buffer[wqe[polled % SIZE]] = 0;
		got_rec = 0; got_pay = 0
	}
	polled++
}

/* vb_arrival_flush */
inline flush(how)
{
	atomic {
		if
		:: arr[SLOT(row_ring, polled)] != ARR(polled, FULL) -> /*flush*/
			arr[SLOT(row_ring, polled)] = ARR(polled, FLUSHED);
			assert(ended[polled] == 0);
			ended[polled] = how;
			back[polled] = 1;
			polled++;
			goto flushed
		:: else
		fi
	}
}

active proctype owner()
{
	byte epoch = 0, polled = 0, at = 0, n, got_rec, got_pay;
	bool late;

	run initiator(0, BIG(2, 1));
	run initiator(1, 1);
	BODY
	skip;
again:
	/* RTR: vb_qpw_lock, row, vb_qpw_unlock. Receives may be posted before (INIT). */
	n = 0;
	word = WORD(epoch, LOCKED);
	row_peer = epoch;
	word = WORD(epoch, READY);
	do
	:: n < BIG(POSTS - epoch, 1) && at - polled < SIZE -> /* vb_arrival_post */
		wqe[at % SIZE] = at; /*wqe-post*/
		arr[SLOT(row_ring, at)] = ARR(at, EMPTY); /*empty*/
		posted = at + 1; /*post*/
		atomic { back[at] = 0; at++; n++ }
	:: polled < at && arr[SLOT(row_ring, polled)] == ARR(polled, FULL) ->
		consume()
	:: goto err
	:: goto reset
	od;
err:	skip; /* ERR: the word, then the accesses under way, then the receives */
	word = WORD(epoch, ERROR); /*err-word*/
	late = 0;
	look(0); /*look-err*/
	look(1);
	do
	:: polled < at ->
		flush(2);
		consume();
flushed:	skip
	:: else -> break
	od;
	/*told*/
	atomic { /* every message published in this epoch was told */
		n = epoch * MSGS + 1;
		assert(published[n] == got[n]);
		assert(published[n + 1] == got[n + 1]);
		assert(!sent[n] || got[n]);
		assert(!sent[n + 1] || got[n + 1]);
		n = 0
	}
reset:	word = WORD(epoch + 1, LOCKED); /*lock-reset*/
	late = 0;
	look(0); /*look-reset*/
	look(1);
	do
	:: polled < at ->
		atomic { /* vb_arrival_flush; RESET drops what has arrived, too */
			assert(ended[polled] == 0); /*drop*/
			if
			:: arr[SLOT(row_ring, polled)] != ARR(polled, FULL) ->
				arr[SLOT(row_ring, polled)] = ARR(polled, FLUSHED)
			:: else -> got[put[polled]] = 1
			fi;
			ended[polled] = 3;
			back[polled] = 1;
			polled++
		}
	:: else -> break
	od;
	head = at; /*head*/
	if
	:: late && epoch + 1 < EPOCHS -> row_ring = row_ring + 1; /*retire*/
	:: else
	fi;
	d_step {
		word = WORD(epoch + 1, DOWN); /*down*/
		settled = epoch + 1;
		/* What concerned the old epoch is not looked at again: fewer states. */
		n = 0;
		do
		:: n < at -> put[n] = 0; ended[n] = 0; n++
		:: else -> break
		od;
		n = epoch * MSGS + 1;
		published[n] = 0; published[n + 1] = 0;
		sent[n] = 0; sent[n + 1] = 0;
		got[n] = 0; got[n + 1] = 0;
		epoch++; n = 0; late = 0; /*settled*/
	}
	if
	:: epoch < EPOCHS -> goto again
	:: else
	fi
	UNLESS_HALTED(OWNER)
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QP word and PSN word: the owner changes the row, fails, resets; an initiator reads
 * the row, fails the QP, advances the PSN. Initiator 0 belongs to epoch 0, 1 to epoch 1.
 */
#include "common.pml"

#define EPOCHS	2
#define CHANGES BIG(2, 1) /* of the row, in an epoch */
#define OWNER	2

/* epoch:24 | sequence:24 | cause:8 | state:8 */
#define WORD(e, q, s) ((e) * 256 + (q) * 8 + (s))
#define EPOCH(w)      ((w) / 256)
#define QSTATE(w)     ((w) % 8)
#define DOWN   0
#define LOCKED 1
#define READY  2
#define FAILED 3
#define ERROR  4

#define PSNW(e, p) ((e) * 8 + (p))

short word = WORD(0, 0, DOWN);
short psn;
byte row_a, row_b, row_peer; /* a and b are equal in a row that is whole */
bool attention;

/* Ghosts. */
bool failed[EPOCHS];	/* an initiator's FAILED took effect */
bool rang[EPOCHS];	/* and that initiator went on */
byte errors[EPOCHS];	/* asynchronous events */
byte advanced[EPOCHS];	/* messages executed */
byte epoch_now;

proctype initiator(byte me, reads)
{
	byte n = 0, a, b, peer;
	short w, p;

	BODY
	skip;
end:	epoch_now >= me; /* connected once the epoch has begun */
	do
	:: n < reads ->
		n++;
		atomic {
			w = word;
			if
			:: QSTATE(w) != READY -> goto silent
			:: else
			fi
		}
		a = row_a;
		peer = row_peer;
		b = row_b;
		p = psn; /*psn*/
		atomic {
			if
			:: word != w || peer != me -> goto silent /*recheck*/
			:: else
			fi;
			assert(a == b);		/* the row is one row */
			assert(EPOCH(w) == me); /* and of this connection */
			a = 0; b = 0; peer = 0
		}
		/*choose*/
		if
		:: d_step { /* the message is executed: vb_psnw_advance */
			if
			:: psn == p ->
				psn = p + 1;
				/* Until the owner sets it, at RTR, it is nobody's. */
				assert(epoch_now == me || row_peer == me || QSTATE(word) != READY);
				advanced[me]++
			:: else
			fi
		   }
		:: atomic { /* it breaks a rule: vb_qpw_fail */
			if
			:: word == w -> /*fail*/
				word = w + FAILED - READY; /*failed*/
				assert(EPOCH(word) == me && epoch_now == me);
				failed[me] = 1
			:: else -> goto silent
			fi
		   }
		   attention = 1; /*attention*/
		   d_step { rang[me] = 1 }
		   break
		fi;
silent:		atomic { w = 0; p = 0; a = 0; b = 0; peer = 0 }
	:: else -> break
	od
	} unless {
		atomic { halt[me] -> w = 0; p = 0; a = 0; b = 0; peer = 0; n = 0 }
	}
}

/* vb_qpw_lock: replaces the word, whatever an initiator made of it. */
inline lock()
{
	d_step { old = word; seq++; word = WORD(epoch, seq, LOCKED) } /*seq*/
}

inline unlock(state)
{
	atomic { seq++; word = WORD(epoch, seq, state); old = 0 } /*seq*/
}

/* The owner looks at its QP: FAILED becomes ERR, with one event. */
inline look()
{
	attention = 0; /*look*/
	if
	:: QSTATE(word) == FAILED ->
		lock();
		d_step { errors[epoch]++; assert(errors[epoch] == 1) }
		unlock(ERROR)
	:: else
	fi /*looked*/
}

active proctype owner()
{
	byte epoch = 0, seq = 0, changes;
	short old;

	run initiator(0, BIG(2, 1));
	run initiator(1, 1);
	BODY
	do
	:: epoch < EPOCHS ->
		lock(); /* RTR */
		row_a = epoch * 4 + 1;
		row_peer = epoch;
		row_b = epoch * 4 + 1;
		psn = PSNW(epoch, 0); /*rtr-psn*/
		unlock(READY);
		changes = 0;
		do
		:: changes < CHANGES && QSTATE(word) != ERROR -> /* modify within the connection */
			changes++;
			lock();
			if
			:: QSTATE(old) == FAILED -> /*lost*/
				d_step { errors[epoch]++; assert(errors[epoch] == 1) }
				unlock(ERROR)
			:: else -> /*kept*/
				row_a = row_a + 1;
				row_b = row_b + 1;
				unlock(READY)
			fi
		:: attention -> look()
		:: break
		od;
		/* RESET. A FAILED that was rung before this is looked at before it. */
		if
		:: attention -> look()
		:: else
		fi;
		d_step { old = rang[epoch] && !errors[epoch]; changes = attention }
		assert(!old || changes);
		lock();
		epoch++; /*epoch*/
		unlock(DOWN);
		d_step { epoch_now = epoch; changes = 0 }
	:: else -> break
	od
	UNLESS_HALTED(OWNER)
}

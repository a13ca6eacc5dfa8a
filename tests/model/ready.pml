/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ready set: two producers of one leaf, each with an object of its own, one consumer. Whatever a producer that went on has published is found by the next look.
 */
#include "common.pml"

#define PASSES	 2
#define CONSUMER 2

/* Two objects may share a bit. */
#define BIT(p) (shared -> 1 : 1 << p)

bool shared;
byte top, leaf;
byte object[2]; /* completions published, of each object */

/* Ghosts. */
byte went[2]; /* of them by a producer that went on */

proctype producer(byte me, rounds)
{
	byte n = 0;

	BODY
	do
	:: n < rounds ->
		object[me] = n + 1; /*publish*/
		/* vb_ready_set */
		if :: leaf & BIT(me) -> skip :: else -> leaf = leaf | BIT(me) fi; /*leaf*/
		if :: top & 1 -> skip :: else -> top = top | 1 fi; /*top*/
		n++;
		went[me] = n
	:: else -> break
	od
	} unless {
		atomic { halt[me] -> n = 0 }
	}
}

/* vb_ready_take, and a look at every object of every bit. */
inline pass()
{
	d_step { due[0] = went[0]; due[1] = went[1] }
	if
	:: top & 1 ->
		top = 0; /*clear-top*/
		d_step { bits = leaf; leaf = 0 } /*exchange*/
		if
		:: bits & BIT(0) -> seen[0] = object[0] /*look*/
		:: else
		fi;
		if
		:: bits & BIT(1) -> seen[1] = object[1]
		:: else
		fi /*looked*/
	:: else
	fi;
	d_step {
		assert(seen[0] >= due[0] && seen[1] >= due[1]); /* none is lost */
		due[0] = 0; due[1] = 0; bits = 0
	}
}

active proctype consumer()
{
	byte n = 0, bits, seen[2], due[2];

	if
	:: shared = 0
	:: shared = 1
	fi;
	run producer(0, BIG(2, 1));
	run producer(1, 1);
	BODY
	do
	:: n < PASSES -> pass(); n++
	:: else -> break
	od;
	timeout -> pass()
	UNLESS_HALTED(CONSUMER)
}

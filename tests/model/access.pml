/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Access announcements against deregistration. Initiators 0 and 1 use the same registry
 * slot one after the other: 1 takes it when 0 is dead. Two keys of one owner, of
 * which the owner deregisters 0 (and registers other memory under it), then 1.
 */
#include "common.pml"

#define KEYS   2
#define CHUNKS 2
#define FREE   255
#define OWNER  2

byte key_word[KEYS] = 1; /* generation << 1 | live */
byte key_addr[KEYS];	 /* the row: which memory */
bool visitor;		 /* the slot's bit in the owner's vb_mbx_header.visitors */
byte slot = FREE;	 /* who holds the slot in the registry */
bool dead[2];
bool target[2];		 /* vb_pub_access.target: this owner, or nobody */
byte ann_key[2];	 /* vb_pub_access.key */

/* Ghosts. */
bool freed[4];	 /* memory that is the program's again */
bool excused[2]; /* the owner did not wait longer for this access */
byte late[2];	 /* chunks written after that */

proctype initiator(byte me)
{
	byte k, w, addr, chunk;

	BODY
	skip;
end:	atomic { slot == FREE && (me == 0 || dead[0]) -> slot = me }
	visitor = 1; /*visit*/
	k = 0;
	do
	:: k < KEYS ->
		ann_key[me] = k; /*ann-key*/
		d_step { target[me] = 1; excused[me] = 0; late[me] = 0 } /*ann-target*/
		atomic {
			w = key_word[k]; /*validate*/
			if
			:: w % 2 == 0 -> goto out
			:: else
			fi
		}
		addr = key_addr[k]; /*addr*/
		chunk = 0;
		do
		:: chunk < CHUNKS ->
			atomic {
				if
				:: key_word[k] != w -> goto out /*between*/
				:: else
				fi
			}
			d_step { /*copy*/
				assert(!freed[addr] || excused[me]);
				if
				:: freed[addr] -> late[me]++; assert(late[me] <= 1)
				:: else
				fi
			}
			chunk++
		:: else -> break
		od;
out:		target[me] = 0; /*clear*/
		atomic { k++; w = 0; addr = 0; chunk = 0 }
	:: k < KEYS -> break /* dies, or ends */
	:: else -> break
	od;
	goto over
	} unless {
		atomic { halt[me] -> k = 0; w = 0; addr = 0; chunk = 0 }
	}
over:	atomic {
		k = 0;
		dead[me] = 1;
		if
		:: slot == me -> slot = FREE
		:: else
		fi
	}
}

/* The announcement of the slot's holder, with a bounded wait. */
inline look(k)
{
	p = slot;
	if
	:: p != FREE ->
		if
		:: target[p] -> /*look-target*/
			if
			:: ann_key[p] == k -> /*look-key*/
				d_step {
					if
					:: target[p] && ann_key[p] == k && !dead[p] -> excused[p] = 1
					:: else
					fi
				}
			:: else
			fi
		:: else
		fi
	:: else
	fi
}

inline deregister(k)
{
	key_word[k] = key_word[k] + 1; /*even*/
	if
	:: visitor ->
		p = slot;
		if
		:: p == FREE -> /* dead: forget it, unless the slot is another's by now */
			visitor = 0; /*forget*/
			if
			:: slot != FREE -> visitor = 1; look(k) /*again*/
			:: else
			fi
		:: else -> look(k)
		fi
	:: else
	fi;
	d_step { freed[key_addr[k]] = 1; p = 0 } /*freed*/
}

active proctype owner()
{
	byte p;

	key_addr[1] = 1;
	run initiator(0);
	run initiator(1);
	BODY
	deregister(0);
	key_addr[0] = 2; /* other memory in the same row */
	key_word[0] = key_word[0] + 1; /*generation*/
	deregister(1);
	deregister(0)
	UNLESS_HALTED(OWNER)
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the models share.
 *
 * One statement is one access to a shared word; what stands in a d_step or atomic is
 * one compare-and-swap (or exchange) with the ghost variables that watch it, or one
 * access with the local steps behind it.
 *
 * A process that is stopped, for a while or for ever, needs no modelling where an
 * assertion speaks about every state: it is any schedule in which it does not move. So
 * "dead at any step" is checked in every run. What the others do then is checked by a
 * second run with -DFATE and smaller bounds: fate() halts one process at any step, and
 * as every loop is bounded, a process that does not come to its end waits for somebody:
 * spin reports that as an invalid end state.
 */
#ifdef FATE
#define BIG(large, small) (small)
#else
#define BIG(large, small) (large)
#endif

bool halt[3]; /* takes no further step; others may see it as dead, or not */

#ifdef FATE
active proctype fate()
{
	if
	:: halt[0] = 1
	:: halt[1] = 1
	:: halt[2] = 1
	fi
}
#endif

/* Around the body of every process: looked at before each of its statements. */
#define BODY		 {
#define UNLESS_HALTED(p) } unless { halt[p] }

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_BASE_STEP_H
#define VB_BASE_STEP_H

enum vb_step {
#define VB_STEP_ROW(name) VB_STEP_##name,
#include "base/steps.def"
#undef VB_STEP_ROW
	VB_STEP_COUNT
};

#ifdef VB_HOOKS
extern int vb_step_armed; /* the step the process ends or stops at, -1 none */
void vb_step_reached(enum vb_step step);
/* A test hook between two changes of shared words; one load where none is armed. */
#define VB_STEP(name)                                                                              \
	do {                                                                                       \
		if (__builtin_expect(vb_step_armed == VB_STEP_##name, 0))                          \
			vb_step_reached(VB_STEP_##name);                                           \
	} while (0)
#else
#define VB_STEP(name)                                                                              \
	do {                                                                                       \
	} while (0)
#endif

#endif

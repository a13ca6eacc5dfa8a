/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/step.h"

#ifdef VB_HOOKS
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const names[] = {
#define VB_STEP_ROW(name) #name,
#include "base/steps.def"
#undef VB_STEP_ROW
};

int vb_step_armed = -1;
static int signal_at_step;
static _Atomic int countdown;

/* Before main, so that no step is missed and no later look at the environment is needed.
 * Settings are read once, at the first question: not this early, before a program sets some. */
__attribute__((constructor)) static void arm(void)
{
	const char *text = secure_getenv("VERBENA_TEST_STEP");
	const char *colon = text ? strchr(text, ':') : NULL;
	const char *count;

	if (!colon)
		return;
	count = strchr(colon + 1, ':');
	countdown = count ? atoi(count + 1) : 1;
	signal_at_step = !strncmp(colon + 1, "stop", 4) ? SIGSTOP : SIGKILL;
	for (int i = 0; i < VB_STEP_COUNT; i++)
		if (strlen(names[i]) == (size_t)(colon - text) &&
		    !strncmp(names[i], text, (size_t)(colon - text)))
			vb_step_armed = i;
}

void vb_step_reached(enum vb_step step)
{
	if (atomic_fetch_sub(&countdown, 1) == 1)
		kill(getpid(), signal_at_step);
}
#endif

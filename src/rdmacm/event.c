/* SPDX-License-Identifier: BSD-2-Clause */
/* The memory of events. Some stays: the first thing that a thread frees costs it an arena of its
 * own, while the next event waits for it. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/cm.h"

/* A sanitizer is to see what uses an event that was acknowledged. */
#ifdef VB_SANITIZED
#define SPARE_MOST 0
#else
#define SPARE_MOST 64
#endif

static struct cm_event *spare; /* under the lock, as the number */
static int n_spare;

static struct cm_event *take_spare(void)
{
	struct cm_event *event;

	cm_lock();
	event = spare;
	if (event) {
		spare = event->next;
		n_spare--;
	}
	cm_unlock();
	if (event)
		memset(event, 0, sizeof(*event));
	return event;
}

void cm_event_spare(void)
{
	static atomic_flag done = ATOMIC_FLAG_INIT;
	struct cm_event *event;

	if (atomic_flag_test_and_set(&done))
		return;
	for (int i = 0; i < SPARE_MOST && (event = calloc(1, sizeof(*event))); i++)
		cm_event_free(event);
}

struct cm_event *cm_event_new(struct cm_id *id, int type, int status)
{
	struct cm_event *event = take_spare();

	if (!event)
		event = calloc(1, sizeof(*event));
	if (!event)
		return vb_fail_null(VB_RULE_CM_MEMORY, "an event");
	event->id = id;
	event->counts = id;
	event->event.id = &id->id;
	event->event.event = (enum rdma_cm_event_type)type;
	event->event.status = status;
	return event;
}

void cm_event_free(struct cm_event *event)
{
	cm_lock();
	if (event)
		event->counts = NULL;
	if (event && n_spare < SPARE_MOST) {
		event->next = spare;
		spare = event;
		n_spare++;
		event = NULL;
	}
	cm_unlock();
	free(event);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/notify.h"

#include <sched.h>

#include "base/spin.h"
#include "host/eventpipe.h"
#include "host/words.h"

/* How long another producer may be between its two steps before we take its
 * event over: looks, then yields. */
#define HELP_LOOKS  200
#define HELP_YIELDS 50

static void write_record(struct vb_peer *p, uint32_t cq, uint64_t seen)
{
	const struct vb_pub_cq *pub = vb_peer_pub_cq(p, cq);
	uint64_t record = vb_event_record(cq, seen >> 8);

	if (pub && pub->channel_fd >= 0)
		vb_peer_event_write(p, pub->channel_fd, &record, sizeof(record));
}

/* Another producer is about to write the record. It may have stopped or died there:
 * then this completion would wait for it for ever. */
static void help(struct vb_peer *p, uint32_t cq, _Atomic uint64_t *arm, uint64_t seen)
{
	for (int i = 0; i < HELP_LOOKS + HELP_YIELDS; i++) {
		if (atomic_load(arm) != seen)
			return;
		if (i < HELP_LOOKS)
			vb_pause();
		else
			sched_yield();
	}
	write_record(p, cq, seen);
	vb_arm_fired(arm, seen);
}

void vb_notify(struct vb_peer *p, uint32_t cq, bool solicited)
{
	struct vb_mbx_cq *mbx = vb_peer_mbx_cq(p, cq);
	uint64_t seen;

	if (!mbx)
		return;
	if (vb_arm_fire(&mbx->arm, solicited, &seen)) {
		write_record(p, cq, seen);
		vb_arm_fired(&mbx->arm, seen);
		return;
	}
	seen = atomic_load(&mbx->arm);
	if (vb_arm_state(seen) == VB_ARM_FIRING)
		help(p, cq, &mbx->arm, seen);
}

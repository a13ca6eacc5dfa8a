/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "transport/rc_window.h"

/* After a loss: the next one shall leave a gap that the peer sees, and not silence. */
#define LEAST 2
/* After silence. */
#define ANEW 4

void vb_rc_window_init(struct vb_rc_window *w, uint32_t max)
{
	memset(w, 0, sizeof(*w));
	w->max = w->size = w->threshold = max ? max : 1;
}

void vb_rc_window_acked(struct vb_rc_window *w, uint32_t packets, struct vb_psn una)
{
	if (w->held && !vb_psn_before(una, w->until))
		w->held = false;
	if (w->size < w->threshold) {
		uint32_t grow = w->threshold - w->size;

		grow = packets < grow ? packets : grow;
		w->size += grow;
		packets -= grow;
	}
	if (w->size >= w->max)
		return;
	w->acked += packets;
	while (w->acked >= w->size && w->size < w->max) {
		w->acked -= w->size;
		w->size++;
	}
}

/* What a round trip of @size packets showed to be too much. */
static void reduce(struct vb_rc_window *w, uint32_t size, struct vb_psn sent)
{
	w->size = size;
	w->acked = 0;
	w->held = true;
	w->until = sent;
}

static uint32_t half(const struct vb_rc_window *w)
{
	return w->size / 2 < LEAST ? LEAST : w->size / 2;
}

void vb_rc_window_lost(struct vb_rc_window *w, struct vb_psn sent)
{
	uint32_t size = half(w);

	reduce(w, size < w->size ? size : w->size, sent);
	w->threshold = size < w->max ? size : w->max;
}

void vb_rc_window_silent(struct vb_rc_window *w, struct vb_psn sent)
{
	uint32_t threshold = half(w);

	/* Silence after silence says nothing about half of what was too much. */
	if (w->size > ANEW)
		w->threshold = threshold;
	reduce(w, w->size < ANEW ? w->size : ANEW, sent);
}

bool vb_rc_window_marked(struct vb_rc_window *w, struct vb_psn sent)
{
	uint32_t cut = (w->size + 4) / 5;

	if (w->held)
		return false;
	reduce(w, w->size > cut ? w->size - cut : 1, sent);
	w->threshold = w->size;
	return true;
}

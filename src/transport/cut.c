/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/cut.h"

/* With one packet of ten lost by chance, once in ten thousand. */
#define LOST_MOST 4

/* What comes before the packet at which sending begins anew has come through. */
static void begins_again(struct vb_cut *c, struct vb_psn psn)
{
	if (c->pending && vb_psn_eq(psn, c->second))
		c->lost++;
	else if (c->pending && vb_psn_before(c->second, psn))
		c->lost = 0;
	c->pending = false;
}

void vb_cut_leaves(struct vb_cut *c, struct vb_psn psn, uint32_t index)
{
	if (vb_cut_singly(c))
		return;
	if (c->left && vb_psn_before(psn, c->next))
		begins_again(c, psn);
	c->left = true;
	c->next = vb_psn_add(psn, 1);
	if (index == 1 && !c->pending) {
		c->pending = true;
		c->second = psn;
	}
}

void vb_cut_refused(struct vb_cut *c)
{
	c->pending = false;
}

bool vb_cut_singly(const struct vb_cut *c)
{
	return c->lost >= LOST_MOST;
}

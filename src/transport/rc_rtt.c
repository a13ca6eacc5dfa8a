/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/rc_rtt.h"
#include "transport/timers.h"

/* The shortest patience: a sixteenth of the ack timer. Not less than any round trip between
 * processes takes, and not more than a peer's processor may be away for. */
#define PART	       16
#define AT_LEAST_NS    UINT64_C(50000)
#define AT_MOST_NS     UINT64_C(4000000)
#define MOST_DOUBLINGS 16
/* What is left of them when something came. */
#define KEPT 3

void vb_rc_rtt_sent(struct vb_rc_rtt *r, struct vb_psn end, uint64_t now_ns)
{
	if (r->timing)
		return;
	r->timing = true;
	r->end = end;
	r->from_ns = now_ns;
}

void vb_rc_rtt_acked(struct vb_rc_rtt *r, struct vb_psn una, uint64_t now_ns)
{
	uint64_t took, off;

	if (r->doublings > KEPT)
		r->doublings = KEPT;
	if (!r->timing || vb_psn_before(una, r->end))
		return;
	r->timing = false;
	r->doublings = 0;
	took = now_ns > r->from_ns ? now_ns - r->from_ns : 1;
	if (!r->mean_ns) {
		r->mean_ns = took;
		r->varies_ns = took / 2;
		return;
	}
	/* RFC 6298 2.3 */
	off = took > r->mean_ns ? took - r->mean_ns : r->mean_ns - took;
	r->varies_ns = r->varies_ns - r->varies_ns / 4 + off / 4;
	r->mean_ns = r->mean_ns - r->mean_ns / 8 + took / 8;
}

void vb_rc_rtt_forget(struct vb_rc_rtt *r)
{
	r->timing = false;
}

void vb_rc_rtt_probed(struct vb_rc_rtt *r)
{
	if (r->doublings < MOST_DOUBLINGS)
		r->doublings++;
}

uint64_t vb_rc_rtt_patience(const struct vb_rc_rtt *r, uint64_t ack_ns)
{
	uint64_t least = ack_ns / PART < AT_MOST_NS ? ack_ns / PART : AT_MOST_NS;
	uint64_t ns = 2 * r->mean_ns + 4 * r->varies_ns;

	if (ack_ns == VB_NEVER)
		return VB_NEVER;
	if (least < AT_LEAST_NS)
		least = AT_LEAST_NS;
	if (ns < least)
		ns = least;
	/* Each ack timer has its probe. */
	if (ns >= ack_ns / 2 || ns << r->doublings >= ack_ns / 2)
		return ack_ns / 2;
	return ns << r->doublings;
}

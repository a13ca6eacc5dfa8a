/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/ident.h"

/* Of identifications at random, three may be 0 once in 10^14 packets. */
#define FIRSTS 3
/* With three packets of ten damaged, once in fifteen thousand. */
#define REFUSED_MOST 8

bool vb_ident_take(struct vb_ident *i, uint16_t id, uint32_t places)
{
	if (i->refused == REFUSED_MOST)
		return true;
	if (id < places) {
		i->refused = 0;
		i->firsts = (uint8_t)(i->firsts + (id == 0 && i->firsts < FIRSTS));
		return true;
	}
	if (i->firsts == FIRSTS)
		return ++i->refused == REFUSED_MOST;
	i->firsts = 0;
	return true;
}

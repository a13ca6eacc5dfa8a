/* SPDX-License-Identifier: BSD-2-Clause */
/* Comm ids: see VB_AGENT_INDEX_BITS. */
#include <string.h>

#include "engine/agent_impl.h"

/* Indices before the first one comes again. */
#define CIRCLE 1024u

int vb_agent_number_init(struct vb_agent *agent)
{
	uint32_t begin;

	/* At random: the next process of this block would begin with the ids of this one. */
	memcpy(&begin, agent->engine->adapter->id, sizeof(begin));
	agent->turns = begin / CIRCLE;
	vb_idtable_init(&agent->ids, 1, VB_AGENT_IDS - 1);
	return vb_idtable_reserve(&agent->ids, CIRCLE, begin);
}

uint32_t vb_agent_number(struct vb_agent *agent, uint32_t index)
{
	uint32_t turn;

	/* The table hands indices out in a circle. */
	if (index <= agent->last_index)
		agent->turns++;
	agent->last_index = index;
	turn = agent->turns << VB_AGENT_INDEX_BITS & ((1u << VB_AGENT_BLOCK_SHIFT) - 1);
	return agent->engine->adapter->block[0] << VB_AGENT_BLOCK_SHIFT | turn | index;
}

struct vb_agent_id *vb_agent_id_of(struct vb_agent *agent, uint32_t number)
{
	struct vb_agent_id *id = vb_idtable_lookup(&agent->ids, number & (VB_AGENT_IDS - 1));

	return id && id->conn.local_id == number ? id : NULL;
}

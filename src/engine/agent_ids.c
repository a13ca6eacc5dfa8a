/* SPDX-License-Identifier: BSD-2-Clause */
/* Ids and their numbers: see VB_AGENT_INDEX_BITS. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/agent_impl.h"

/* Indices before the first one comes again. */
#define CIRCLE 1024u

/* Memory that stays, and is there before the first connection waits for it. A sanitizer is to see
 * what uses an id that has ended. */
#ifdef VB_SANITIZED
#define SPARE_MOST 0u
#else
#define SPARE_MOST 64u
#endif

static void keep_or_free(struct vb_agent *agent, struct vb_agent_id *id)
{
	if (agent->n_spare == SPARE_MOST) {
		free(id);
		return;
	}
	id->next_listener = agent->spare;
	agent->spare = id;
	agent->n_spare++;
}

static struct vb_agent_id *blank(struct vb_agent *agent)
{
	struct vb_agent_id *id = agent->spare;

	if (!id)
		return calloc(1, sizeof(*id));
	agent->spare = id->next_listener;
	agent->n_spare--;
	memset(id, 0, sizeof(*id));
	return id;
}

int vb_agent_ids_init(struct vb_agent *agent)
{
	struct vb_agent_id *id;
	uint32_t begin;

	/* At random: the next process of this block would begin with the ids of this one. */
	memcpy(&begin, agent->engine->adapter->id, sizeof(begin));
	agent->turns = begin / CIRCLE;
	vb_idtable_init(&agent->ids, 1, VB_AGENT_IDS - 1);
	while (agent->n_spare != SPARE_MOST && (id = calloc(1, sizeof(*id))))
		keep_or_free(agent, id);
	return vb_idtable_reserve(&agent->ids, CIRCLE, begin);
}

void vb_agent_ids_fini(struct vb_agent *agent)
{
	struct vb_agent_id *id;

	while ((id = agent->spare)) {
		agent->spare = id->next_listener;
		free(id);
	}
	agent->n_spare = 0;
	vb_idtable_fini(&agent->ids);
}

static uint32_t number(struct vb_agent *agent, uint32_t index)
{
	uint32_t turn;

	/* The table hands indices out in a circle. */
	if (index <= agent->last_index)
		agent->turns++;
	agent->last_index = index;
	turn = agent->turns << VB_AGENT_INDEX_BITS & ((1u << VB_AGENT_BLOCK_SHIFT) - 1);
	return agent->engine->adapter->block[0] << VB_AGENT_BLOCK_SHIFT | turn | index;
}

int vb_agent_id_new(struct vb_agent *agent, struct vb_agent_id **out)
{
	struct vb_agent_id *id = blank(agent);
	int err;

	if (!id)
		return -ENOMEM;
	err = vb_idtable_add(&agent->ids, id, &id->index);
	if (err) {
		keep_or_free(agent, id);
		return err;
	}
	id->agent = agent;
	id->conn.local_id = number(agent, id->index);
	*out = id;
	return 0;
}

void vb_agent_id_free(struct vb_agent_id *id)
{
	vb_idtable_remove(&id->agent->ids, id->index);
	keep_or_free(id->agent, id);
}

struct vb_agent_id *vb_agent_id_of(struct vb_agent *agent, uint32_t number)
{
	struct vb_agent_id *id = vb_idtable_lookup(&agent->ids, number & (VB_AGENT_IDS - 1));

	return id && id->conn.local_id == number ? id : NULL;
}

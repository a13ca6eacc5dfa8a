/* SPDX-License-Identifier: BSD-2-Clause */
/* When ids are due: repetitions, ends of waiting, and messages that found no room. */
#include "engine/agent_impl.h"
#include "engine/thread.h"

/* Between two tries for want of a descriptor. */
#define LOOK_AGAIN_NS 100000000u

static void set_timer(struct vb_agent *agent, uint64_t at)
{
	agent->next_ns = at;
	vb_thread_set_timer(agent->timer_fd, at);
}

void vb_agent_look_later(struct vb_agent *agent)
{
	if (agent->look_ns != VB_NEVER)
		return;
	agent->look_ns = vb_now_ns() + LOOK_AGAIN_NS;
	if (agent->look_ns < agent->next_ns)
		set_timer(agent, agent->look_ns);
}

void vb_agent_arm(struct vb_agent_id *id)
{
	struct vb_agent *agent = id->agent;

	if (vb_agent_hosts_watch(id) && agent->ask_ns < agent->next_ns)
		set_timer(agent, agent->ask_ns);
	if (!id->conn.due_ns)
		return;
	if (!id->timed) {
		id->timed = true;
		id->next_timed = agent->timed;
		agent->timed = id;
	}
	if (id->conn.due_ns < agent->next_ns)
		set_timer(agent, id->conn.due_ns);
}

void vb_agent_disarm(struct vb_agent_id *id)
{
	if (!id->timed)
		return;
	for (struct vb_agent_id **at = &id->agent->timed; *at; at = &(*at)->next_timed)
		if (*at == id) {
			*at = id->next_timed;
			break;
		}
	id->timed = false;
}

/* True: there is no room yet. */
static bool send_unsent(struct vb_agent_id *id)
{
	struct vb_cm_out out = {.send = true};

	memcpy(out.bytes, id->conn.last, sizeof(out.bytes));
	id->conn.due_ns = id->unsent_due_ns;
	vb_agent_send_out(id, &out);
	vb_agent_arm(id);
	return id->unsent;
}

/* What is to be repeated by now counts as sent, and an answer that nobody will wait for any more:
 * its receiver may be stopped for good. */
static bool too_late(const struct vb_agent_id *id, uint64_t now)
{
	return id->unsent_due_ns ? id->unsent_due_ns <= now : id->unsent_end_ns <= now;
}

static void wait_again(struct vb_agent_id *id)
{
	id->conn.due_ns = vb_now_ns() + VB_AGENT_FULL_NS;
	vb_agent_arm(id);
}

void vb_agent_expire(struct vb_agent *agent)
{
	uint64_t now = vb_now_ns(), next = VB_NEVER;
	bool full = false;
	struct vb_agent_id *id, *due = NULL;
	struct vb_agent_id **at = &agent->timed;

	if (agent->look_ns <= now) {
		agent->look_ns = VB_NEVER;
		vb_agent_life_again(agent);
	}
	while ((id = *at)) {
		if (id->conn.due_ns && id->conn.due_ns > now) {
			if (id->conn.due_ns < next)
				next = id->conn.due_ns;
			at = &id->next_timed;
			continue;
		}
		*at = id->next_timed;
		id->timed = false;
		if (id->conn.due_ns) {
			id->next_timed = due;
			due = id;
		}
	}
	vb_agent_hosts_fresh(agent);
	vb_agent_hosts_ask(agent, now);
	if (agent->ask_ns < next)
		next = agent->ask_ns;
	set_timer(agent, agent->look_ns < next ? agent->look_ns : next);
	while ((id = due)) {
		struct vb_cm_out out;

		due = id->next_timed;
		if (id->unsent && too_late(id, now)) {
			id->conn.due_ns = id->unsent_due_ns;
			id->unsent = false;
		}
		if (id->unsent) {
			/* Where one finds no room the others need not try: who does not run
			 * would be asked hundreds of times. */
			full = full || send_unsent(id);
			if (full && !id->timed)
				wait_again(id);
			continue;
		}
		vb_cm_expire(&id->conn, now, &out);
		vb_agent_hosts_again(id);
		vb_agent_send_out(id, &out);
		vb_agent_arm(id);
		vb_agent_tell(id, (int)out.what, NULL);
	}
}

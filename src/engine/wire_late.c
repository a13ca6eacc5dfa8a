/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/wire_late.h"

#include <stdlib.h>
#include <string.h>

#include "base/sparse.h"
#include "carrier/target.h"
#include "engine/requester.h"
#include "host/adapter.h"
#include "host/words.h"

/* Bytes of a QP that may wait, and for how long. */
#define BYTES	(256u << 10)
#define LATE_NS 1000000000u

struct vb_late_packet {
	struct vb_late_packet *next;
	uint64_t until_ns;
	struct vb_udp_datagram d;
	uint8_t bytes[];
};

static void take_first(struct vb_late_queue *q)
{
	struct vb_late_packet *w = q->first;

	q->first = w->next;
	q->bytes -= w->d.len;
	free(w);
}

void vb_late_close(struct vb_late *late)
{
	for (uint32_t i = 0; i < late->n; i++)
		while (late->queues[i].first)
			take_first(&late->queues[i]);
}

bool vb_late_any(const struct vb_late *late)
{
	return atomic_load_explicit(&late->n, memory_order_relaxed) != 0;
}

/* Whether it is the one of its message that takes a receive. */
static bool takes_receive(const struct vb_op_row *op)
{
	if (op->kind == VB_OP_SEND)
		return vb_op_is_first(op);
	return op->kind == VB_OP_WRITE && op->extra == VB_EXTRA_IMM && vb_op_is_last(op);
}

/* The receives are used up of a queue that has taken messages. */
static bool not_ready(struct vb_engine *engine, const struct vb_qp *qp)
{
	struct vb_target_call call = {.peer = engine->adapter->self};

	return vb_target_read(&call, qp->ibv.qp_num) && vb_qpw_state(call.word) == VB_QPW_READY &&
	       vb_target_used_up(&call);
}

static struct vb_late_queue *queue_of(struct vb_late *late, const struct vb_qp *qp)
{
	for (uint32_t i = 0; i < late->n; i++)
		if (late->queues[i].qpn == qp->ibv.qp_num && late->queues[i].epoch == qp->epoch)
			return &late->queues[i];
	return NULL;
}

static void append(struct vb_late_queue *q, const struct vb_udp_datagram *d)
{
	struct vb_late_packet *w = q->bytes + d->len <= BYTES ? malloc(sizeof(*w) + d->len) : NULL;

	if (!w)
		return;
	*w = (struct vb_late_packet){.until_ns = vb_now_ns() + LATE_NS, .d = *d};
	memcpy(w->bytes, d->bytes, d->len);
	w->d.bytes = w->bytes;
	if (q->first)
		q->last->next = w;
	else
		q->first = w;
	q->last = w;
	q->bytes += d->len;
}

bool vb_late_keep(struct vb_late *late, struct vb_engine *engine, struct vb_qp *qp,
		  const struct vb_packet *pkt, const struct vb_udp_datagram *d)
{
	const struct vb_op_row *op = vb_op_row(pkt->opcode);
	struct vb_late_queue *q;

	if ((qp->ibv.qp_type != IBV_QPT_UC && qp->ibv.qp_type != IBV_QPT_UD) || !op)
		return false;
	q = queue_of(late, qp);
	if (q) {
		append(q, d);
		return true;
	}
	if (!takes_receive(op) || late->n == VB_LATE_QUEUES || !not_ready(engine, qp))
		return false;
	q = &late->queues[late->n];
	*q = (struct vb_late_queue){.qpn = qp->ibv.qp_num, .epoch = qp->epoch};
	append(q, d);
	if (!q->first)
		return false;
	atomic_fetch_add(&late->n, 1);
	/* The thread looks after it where nobody polls. */
	vb_engine_wake_at(engine, qp, 0);
	return true;
}

/* The first of a queue, if it need not wait. */
static bool run_first(struct vb_engine *engine, struct vb_late_queue *q, vb_late_run *run)
{
	struct vb_late_packet *w = q->first;
	struct vb_packet pkt;
	struct vb_qp *qp = NULL;
	uint32_t index;

	if (vb_adapter_index(engine->adapter, q->qpn, &index))
		qp = vb_sparse_get(&engine->qps, index);
	if (qp && qp->epoch == q->epoch &&
	    vb_packet_parse(w->d.bytes, w->d.len, &pkt) == VB_PARSE_OK) {
		if (takes_receive(vb_op_row(pkt.opcode)) && vb_now_ns() < w->until_ns &&
		    not_ready(engine, qp))
			return false;
		run(engine, qp, &pkt, &w->d, false);
	}
	take_first(q);
	return true;
}

void vb_late_due(struct vb_late *late, struct vb_engine *engine, vb_late_run *run)
{
	for (uint32_t i = 0; i < late->n;) {
		struct vb_late_queue *q = &late->queues[i];

		while (q->first && run_first(engine, q, run))
			;
		if (q->first) {
			i++;
			continue;
		}
		*q = late->queues[late->n - 1];
		atomic_fetch_sub(&late->n, 1);
	}
}

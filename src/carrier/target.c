/* SPDX-License-Identifier: BSD-2-Clause */
#include "carrier/target.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/spin.h"
#include "host/memory.h"
#include "host/notify.h"
#include "host/words.h"
#include "object/keys.h"

/* Looks at a row its owner is changing before the QP counts as silent. */
#define LOCKED_LOOKS 2000

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The QP is still the one whose row was read. */
static bool still_there(void *arg)
{
	const struct vb_target_call *c = arg;

	return atomic_load(&c->mbx->word) == c->word;
}

static bool read_key(struct vb_target_call *c, uint32_t number)
{
	if (vb_memory_key(c->peer, number, &c->key))
		return false;
	c->key.still = still_there;
	c->key.still_arg = c;
	return true;
}

static bool env_lookup_key(void *ctx, uint32_t rkey, struct vb_key *out)
{
	struct vb_target_call *c = ctx;

	if (!read_key(c, rkey >> 8) || c->key.rkey != rkey)
		return false;
	*out = (struct vb_key){
		.rkey = rkey,
		.pd = c->key.pd,
		.access = c->key.access,
		.start = c->key.iova,
		.length = c->key.length,
	};
	return true;
}

/* Does one scatter element of the target's receive stand? Leaves its key in c->key. */
static bool sge_ok(struct vb_target_call *c, const struct vb_pub_sge *sge)
{
	if (!read_key(c, sge->lkey >> 8) || c->key.lkey != sge->lkey)
		return false;
	if (c->key.pd != c->row.rq_pd || !(c->key.access & VB_ACCESS_LOCAL_WRITE))
		return false;
	return sge->addr >= c->key.iova && sge->length <= c->key.length &&
	       sge->addr - c->key.iova <= c->key.length - sge->length;
}

/* Copy the WQE of c->index out of the published part, with its length. */
static bool read_wqe(struct vb_target_call *c, struct vb_recv *out)
{
	uint64_t at = (c->index & (c->row.rq_size - 1)) * c->row.rq_stride;
	const struct vb_pub_wqe *wqe =
		vb_peer_pub_at(c->peer, c->row.rq_wqes + at, c->row.rq_stride);
	struct vb_pub_wqe head;

	if (!wqe)
		return false;
	vb_row_read(&head, wqe, sizeof(head));
	c->num_sge = head.num_sge;
	if (c->num_sge > VB_TARGET_SGE || c->num_sge > c->row.rq_max_sge)
		return false;
	vb_row_read(c->sge, wqe->sge, c->num_sge * sizeof(c->sge[0]));
	out->length = 0;
	out->sges_ok = true;
	c->on_demand = false;
	for (uint32_t i = 0; i < c->num_sge; i++) {
		out->length += c->sge[i].length;
		if (!c->sge[i].length)
			continue;
		if (!sge_ok(c, &c->sge[i]))
			out->sges_ok = false;
		else if (c->key.access & IBV_ACCESS_ON_DEMAND)
			c->on_demand = true;
	}
	return true;
}

static bool row_has_queue(const struct vb_pub_qp *row)
{
	return row->rq_size && !(row->rq_size & (row->rq_size - 1)) &&
	       row->rq_max_sge <= VB_TARGET_SGE &&
	       row->rq_stride >=
		       sizeof(struct vb_pub_wqe) + row->rq_max_sge * sizeof(struct vb_pub_sge);
}

/* The record of receive c->index. */
static bool find_arrival(struct vb_target_call *c)
{
	uint64_t at = (c->index & (c->row.rq_size - 1)) * sizeof(*c->arrival);

	c->arrival = vb_peer_mbx_at(c->peer, c->row.rq_arrivals + at, sizeof(*c->arrival));
	return c->arrival;
}

/* Receive c->index is somebody else's, or names nothing: may the next one be looked at? */
static bool pass_over(struct vb_target_call *c, uint64_t word)
{
	/* A single initiator finds only what it published before it ended. */
	if (!c->row.rq_shared &&
	    (!vb_arrival_is(word, c->index) || vb_arrival_state(word) != VB_ARRIVAL_FULL))
		return false;
	vb_head_advance(c->head, c->index);
	return true;
}

/* The owner is to look at its QP. */
static void ask_attention(struct vb_target_call *c)
{
	vb_ready_set(&c->peer->mbx->attention, c->qp_index % 4096);
	VB_STEP(ATTENTION_SET);
	vb_peer_ring(c->peer);
}

/* None is left: where the latest taken one is unfinished its taker may be dead, and the
 * owner, who hears of finished ones only, does not know that it can offer it again. */
static void tell_unfinished(struct vb_target_call *c)
{
	uint64_t last = c->index - 1;
	uint64_t at = (last & (c->row.rq_size - 1)) * sizeof(*c->arrival);
	struct vb_mbx_arrival *arrival =
		vb_peer_mbx_at(c->peer, c->row.rq_arrivals + at, sizeof(*c->arrival));

	if (arrival && vb_arrival_state(atomic_load(&arrival->word)) == VB_ARRIVAL_TAKEN)
		ask_attention(c);
}

/* The next receive nobody has: looked at where only we can come, taken where others
 * can. */
static enum vb_take next_receive(struct vb_target_call *c)
{
	/* Indexes may be passed over, but not without end. */
	for (uint64_t looks = 0; looks < 4ull * c->row.rq_size; looks++) {
		uint64_t posted, word;

		c->index = atomic_load(c->head);
		posted = atomic_load_explicit(&c->rq->posted, memory_order_acquire);
		if (c->index >= posted) {
			if (c->row.rq_shared)
				tell_unfinished(c);
			return VB_TAKE_NONE;
		}
		if (!find_arrival(c))
			return VB_TAKE_GONE;
		word = atomic_load(&c->arrival->word);
		if (word != vb_arrival_make(c->index, VB_ARRIVAL_EMPTY)) {
			if (!pass_over(c, word))
				return VB_TAKE_GONE;
			continue;
		}
		c->taken = word;
		if (!c->row.rq_shared)
			return VB_TAKE_OK;
		c->taken = vb_arrival_take(&c->arrival->word, c->index, c->peer->adapter->slot,
					   c->qp_index);
		vb_head_advance(c->head, c->index);
		if (c->taken)
			return VB_TAKE_OK;
	}
	return VB_TAKE_GONE;
}

/* The owner of the queue wants to know when few receives are left. */
static void watch_limit(struct vb_target_call *c)
{
	uint64_t limit = atomic_load(&c->rq->limit);
	uint64_t left = atomic_load(&c->rq->posted) - (c->index + 1);

	if (limit && left < limit)
		ask_attention(c);
}

static bool find_queue(struct vb_target_call *c)
{
	if (!row_has_queue(&c->row))
		return false;
	c->rq = vb_peer_pub_at(c->peer, c->row.rq_counters, sizeof(*c->rq));
	c->head = vb_peer_mbx_at(c->peer, c->row.rq_head, sizeof(*c->head));
	return c->rq && c->head;
}

bool vb_target_used_up(struct vb_target_call *c)
{
	uint64_t head;

	if (!c->row.rq_size || !find_queue(c))
		return false;
	head = atomic_load(c->head);
	return head && head >= atomic_load_explicit(&c->rq->posted, memory_order_acquire);
}

static enum vb_take env_take_recv(void *ctx, struct vb_recv *out)
{
	struct vb_target_call *c = ctx;
	enum vb_take take;

	if (!c->row.rq_size)
		return VB_TAKE_NONE;
	if (!find_queue(c))
		return VB_TAKE_GONE;
	take = next_receive(c);
	if (take)
		return take;
	c->place = VB_PLACE_DIRECT;
	out->token[0] = c->index;
	out->token[1] = c->taken;
	if (c->row.rq_shared)
		watch_limit(c);
	/* The word once more: head, receive and WQE may belong to what the QP became since
	 * it was read. */
	return read_wqe(c, out) && still_there(c) ? VB_TAKE_OK : VB_TAKE_GONE;
}

bool vb_target_resume(struct vb_target_call *c, const struct vb_recv *recv)
{
	struct vb_recv again;

	if (!find_queue(c))
		return false;
	c->index = recv->token[0];
	c->taken = recv->token[1];
	c->place = VB_PLACE_DIRECT;
	return find_arrival(c) && read_wqe(c, &again);
}

static enum vb_copy copy_result(const struct vb_target_call *c, int err)
{
	switch (err) {
	case 0:
		return VB_COPY_OK;
	case -EFAULT:
		return VB_COPY_FAULT_LOCAL;
	case -EPERM:
		return VB_COPY_UNREACHABLE;
	case -ECANCELED:
		/* The QP left, or only the key did. */
		return still_there((void *)(uintptr_t)c) ? VB_COPY_FAULT_REMOTE : VB_COPY_GONE;
	case -ESRCH:
	case -EAGAIN:
		return VB_COPY_GONE;
	default:
		return VB_COPY_FAULT_REMOTE;
	}
}

/* A bounce slot: by turns where only we come, claimed where others do. -1: none free. */
static int bounce_slot(struct vb_target_call *c)
{
	uint32_t slots = c->row.bounce_slots;
	uint32_t first = (uint32_t)c->index & (slots - 1);
	_Atomic uint64_t *words;

	if (!slots || slots & (slots - 1) || slots > 64)
		return -1;
	if (!c->row.rq_shared) {
		uint64_t polled = atomic_load_explicit(&c->rq->polled, memory_order_acquire);

		return c->index - polled < slots ? (int)first : -1;
	}
	words = vb_peer_mbx_at(c->peer, c->row.bounce_words, slots * sizeof(*words));
	for (uint32_t i = 0; words && i < slots; i++) {
		uint32_t slot = (first + i) & (slots - 1);
		uint64_t nobody = 0;

		if (atomic_compare_exchange_strong(&words[slot], &nobody, c->index + 1))
			return (int)slot;
	}
	return -1;
}

/* A place in the mailbox from which the owner's poll copies, NULL where none fits. */
static uint8_t *scatter_place(struct vb_target_call *c, uint64_t length)
{
	int slot;

	/* Whether on-demand memory is there is found out now, not when it is polled. */
	if (c->peer->self || c->on_demand || !vb_memory_allowed(VB_MEM_SCATTER))
		return NULL;
	if (length <= VB_LINE_BYTES) {
		c->place = VB_PLACE_LINE;
		return c->arrival->line;
	}
	slot = length <= VB_BOUNCE_BYTES ? bounce_slot(c) : -1;
	if (slot < 0)
		return NULL;
	c->place = (uint8_t)(VB_PLACE_BOUNCE + slot);
	return vb_peer_mbx_at(c->peer, c->row.bounce + (uint64_t)slot * VB_BOUNCE_BYTES,
			      VB_BOUNCE_BYTES);
}

static enum vb_copy spread(struct vb_target_call *c, const struct vb_payload *payload,
			   uint64_t offset, uint64_t length)
{
	struct iovec copy[VB_TARGET_SGE];
	struct iovec *iov = copy;
	int n = payload->n;
	/* What comes in parts goes where it belongs at once. */
	uint8_t *place = offset ? NULL : scatter_place(c, length);

	if (place) {
		vb_memory_gather(place, payload->iov, payload->n, length, false);
		VB_STEP(SEND_COPIED);
		return VB_COPY_OK;
	}
	c->place = VB_PLACE_DIRECT;
	memcpy(copy, payload->iov, (size_t)n * sizeof(copy[0]));
	for (uint32_t i = 0; i < c->num_sge && length; i++) {
		uint64_t skip = c->sge[i].length < offset ? c->sge[i].length : offset;
		uint64_t left = c->sge[i].length - skip;
		uint64_t part = left < length ? left : length;
		int err;

		offset -= skip;
		if (!part)
			continue;
		if (!sge_ok(c, &c->sge[i]))
			return VB_COPY_FAULT_REMOTE;
		c->key.careful = payload->careful;
		err = vb_memory_copy_in(c->peer, &c->key,
					vb_key_addr(&c->key, c->sge[i].addr) + skip, iov, n, part);
		if (err)
			return copy_result(c, err);
		vb_memory_advance(&iov, &n, part);
		length -= part;
	}
	VB_STEP(SEND_COPIED);
	return VB_COPY_OK;
}

static enum vb_copy copy_to_receive(struct vb_target_call *c, const struct vb_payload *payload,
				    uint64_t offset, uint64_t length)
{
	uint8_t here[VB_BOUNCE_BYTES];
	struct iovec iov = {here, length};
	const struct vb_payload fetched = {.iov = &iov, .n = 1};

	/* Whether on-demand memory can be read is known before a place in the mailbox is
	 * taken, which nobody would give back. */
	if (!payload->careful || length > sizeof(here))
		return spread(c, payload, offset, length);
	if (vb_memory_gather(here, payload->iov, payload->n, length, true))
		return VB_COPY_FAULT_LOCAL;
	return spread(c, &fetched, offset, length);
}

static enum vb_copy env_copy_in(void *ctx, const struct vb_place *to, uint64_t offset,
				const void *payload, uint64_t length)
{
	const struct vb_payload *from = payload;
	struct vb_target_call *c = ctx;

	if (from->fault)
		return VB_COPY_FAULT_LOCAL;
	if (to->recv)
		return copy_to_receive(c, from, offset, length);
	c->key.careful = from->careful;
	return copy_result(c, vb_memory_copy_in(c->peer, &c->key,
						vb_key_addr(&c->key, to->target->addr) + offset,
						from->iov, from->n, length));
}

static enum vb_copy env_copy_out(void *ctx, const struct vb_target *from, uint64_t offset,
				 const void *payload, uint64_t length)
{
	const struct vb_payload *to = payload;
	struct vb_target_call *c = ctx;

	if (to->fault)
		return VB_COPY_FAULT_LOCAL;
	c->key.careful = to->careful;
	return copy_result(c, vb_memory_copy_out(c->peer, &c->key,
						 vb_key_addr(&c->key, from->addr) + offset, to->iov,
						 to->n, length));
}

static enum vb_copy env_atomic(void *ctx, const struct vb_target *target, enum vb_atomic kind,
			       uint64_t compare_add, uint64_t swap, uint64_t *old)
{
	struct vb_target_call *c = ctx;
	const struct vb_payload *to = c->payload;

	if (to->fault)
		return VB_COPY_FAULT_LOCAL;
	return copy_result(
		c, vb_memory_atomic(c->peer, &c->key, vb_key_addr(&c->key, target->addr),
				    kind == VB_ATOMIC_CMP_SWP ? VB_MEM_CMP_SWP : VB_MEM_FETCH_ADD,
				    compare_add, swap, old));
}

static enum vb_copy env_invalidate(void *ctx, const struct vb_key *key)
{
	return VB_COPY_FAULT_REMOTE; /* no key is invalidatable: the check comes first */
}

static bool env_complete(void *ctx, const struct vb_recv *recv,
			 const struct vb_recv_completion *completion)
{
	struct vb_target_call *c = ctx;
	struct vb_mbx_arrival *arrival = c->arrival;
	const struct vb_pub_cq *pub = vb_peer_pub_cq(c->peer, c->row.recv_cq);
	struct vb_mbx_cq *cq;

	arrival->time_ns = pub && pub->timestamps ? now_ns() : 0;
	arrival->byte_len = completion->byte_len;
	arrival->imm = completion->imm_or_key;
	arrival->src_qpn = completion->src_qpn;
	arrival->opcode = (uint8_t)(completion->opcode - VB_WC_OP_RECV);
	arrival->status = (uint8_t)completion->status;
	arrival->flags = (uint8_t)completion->flags;
	arrival->place = completion->status ? VB_PLACE_DIRECT : c->place;
	if (!still_there(c) || !vb_arrival_publish(&arrival->word, c->taken))
		return false;
	c->taken = 0;
	if (!c->row.rq_shared)
		vb_head_advance(c->head, c->index);
	if (c->arrived && !completion->status)
		c->arrived(c->arrived_arg);
	cq = vb_peer_mbx_cq(c->peer, c->row.recv_cq);
	if (cq && pub) {
		if (vb_cq_count(cq, pub))
			ask_attention(c);
		vb_ready_set(&cq->ready, c->row.recv_bit);
		vb_notify(c->peer, c->row.recv_cq, completion->solicited || completion->status);
	}
	return true;
}

const struct vb_resp_env vb_target_env = {
	.lookup_key = env_lookup_key,
	.take_recv = env_take_recv,
	.copy_in = env_copy_in,
	.copy_out = env_copy_out,
	.atomic = env_atomic,
	.invalidate = env_invalidate,
	.complete = env_complete,
};

/* Read the target's row so that it belongs to one word; LOCKED is waited out shortly. */
bool vb_target_read(struct vb_target_call *c, uint32_t qpn)
{
	c->pub = vb_peer_pub_qp(c->peer, qpn);
	c->mbx = vb_peer_mbx_qp(c->peer, qpn);
	if (!c->pub || !c->mbx || !vb_peer_index(c->peer, qpn, &c->qp_index))
		return false;
	for (int i = 0; i < LOCKED_LOOKS; i++) {
		c->word = atomic_load(&c->mbx->word);
		if (vb_qpw_state(c->word) != VB_QPW_LOCKED) {
			vb_row_read(&c->row, c->pub, sizeof(c->row));
			atomic_thread_fence(memory_order_acquire);
			if (atomic_load(&c->mbx->word) == c->word)
				return true;
		}
		vb_pause();
	}
	return false;
}

void vb_target_describe(const struct vb_target_call *c, uint32_t qpn, struct vb_resp_qp *qp)
{
	int64_t psn = vb_psnw_get(&c->mbx->psn, vb_qpw_epoch(c->word));
	uint32_t mtu = c->row.path_mtu >= 1 && c->row.path_mtu <= 5 ? c->row.path_mtu : 1;

	*qp = (struct vb_resp_qp){
		.state = vb_qpw_state(c->word) == VB_QPW_READY ? VB_QPS_RTS : VB_QPS_ERR,
		.type = (enum vb_qp_type)c->row.type,
		.qpn = qpn,
		.pd = c->row.pd,
		.access = c->row.access,
		.path_mtu = 128u << mtu,
		.dest_qpn = c->row.dest_qpn,
		.max_dest_rd_atomic = c->row.max_dest_rd_atomic,
		.min_rnr_timer = c->row.min_rnr_timer & 31,
		.other_generation = c->row.qpn != qpn || (psn < 0 && c->row.type == VB_QPT_RC),
		.epsn = vb_psn(psn < 0 ? 0 : (uint32_t)psn),
	};
	memcpy(qp->dest_gid, c->row.dest_gid, sizeof(qp->dest_gid));
}

/* The message broke a rule: the owner is to move its QP to ERR. */
void vb_target_fail(struct vb_target_call *c, enum vb_verdict verdict)
{
	struct vb_mbx_cq *cq;

	if (!vb_qpw_fail(&c->mbx->word, c->word, (uint8_t)verdict))
		return;
	cq = vb_peer_mbx_cq(c->peer, c->row.recv_cq);
	if (cq)
		vb_ready_set(&cq->ready, c->row.recv_bit);
	ask_attention(c);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef VB_HOST_WORDS_H
#define VB_HOST_WORDS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/step.h"
#include "host/layout.h"

/*
 * The only code that changes a word two processes share; the rules are in
 * docs/shared-words.md, the model that checks them in tests/model/. Everything is
 * sequentially consistent unless a comment says why it need not be. None of these
 * functions waits.
 */

/* ---- Rows: read and written while the other side may do so ---- */

/* Copy a row word by word, so that a copy that overlaps a change is merely wrong (the
 * word that guards the row tells) and not undefined. Sizes are multiples of 8. */
static inline void vb_row_read(void *to, const void *from, size_t bytes)
{
	for (size_t i = 0; i < bytes / 8; i++)
		((uint64_t *)to)[i] =
			__atomic_load_n(&((const uint64_t *)from)[i], __ATOMIC_RELAXED);
}

static inline void vb_row_write(void *to, const void *from, size_t bytes)
{
	for (size_t i = 0; i < bytes / 8; i++)
		__atomic_store_n(&((uint64_t *)to)[i], ((const uint64_t *)from)[i],
				 __ATOMIC_RELAXED);
}

/* ---- QP word: epoch:24 | sequence:24 | cause:8 | state:8 ---- */

enum vb_qpw_state {
	VB_QPW_DOWN = 0,   /* RESET, INIT, or no QP: silent */
	VB_QPW_LOCKED = 1, /* the owner is changing the row */
	VB_QPW_READY = 2,  /* RTR, RTS, SQD, SQE: accepts messages */
	VB_QPW_FAILED = 3, /* an initiator's message broke a rule */
	VB_QPW_ERROR = 4,  /* the owner moved the QP to ERR: silent */
};

static inline enum vb_qpw_state vb_qpw_state(uint64_t word)
{
	return (enum vb_qpw_state)(word & 0xff);
}

static inline uint8_t vb_qpw_cause(uint64_t word)
{
	return (uint8_t)(word >> 8);
}

static inline uint32_t vb_qpw_epoch(uint64_t word)
{
	return (uint32_t)(word >> 40);
}

static inline uint64_t vb_qpw_make(uint32_t epoch, uint32_t seq, uint8_t cause,
				   enum vb_qpw_state state)
{
	return (uint64_t)(epoch & 0xffffff) << 40 | (uint64_t)(seq & 0xffffff) << 16 |
	       (uint64_t)cause << 8 | (uint64_t)state;
}

/** vb_qpw_lock() - The owner begins to change a QP's row
 * @word:   The QP word
 * @epoch:  The owner's private copy of the epoch
 * @seq:    The owner's private sequence, counted up
 * Context: owner, under the QP's private lock. Never waits: it simply replaces the word.
 *          An initiator's FAILED that comes before it is returned, one that comes
 *          after it fails its CAS
 * Return:  the word that was replaced
 */
static inline uint64_t vb_qpw_lock(_Atomic uint64_t *word, uint32_t epoch, uint32_t *seq)
{
	uint64_t old = atomic_exchange(word, vb_qpw_make(epoch, ++*seq, 0, VB_QPW_LOCKED));

	VB_STEP(QP_LOCKED);
	return old;
}

/** vb_qpw_unlock() - The owner ends the change with a new state */
static inline void vb_qpw_unlock(_Atomic uint64_t *word, uint32_t epoch, uint32_t *seq,
				 enum vb_qpw_state state)
{
	VB_STEP(QP_ROW_WRITTEN);
	atomic_store(word, vb_qpw_make(epoch, ++*seq, 0, state));
	VB_STEP(QP_UNLOCKED);
}

/** vb_qpw_fail() - An initiator's message broke a rule: the QP is to be failed
 * @seen:   The word as the initiator read it, READY
 * @cause:  Transport verdict, for the owner to tell
 * Return:  false when the word had changed: then nothing was done
 */
static inline bool vb_qpw_fail(_Atomic uint64_t *word, uint64_t seen, uint8_t cause)
{
	bool done = atomic_compare_exchange_strong(
		word, &seen, (seen & ~0xffffull) | (uint64_t)cause << 8 | VB_QPW_FAILED);

	VB_STEP(QP_FAILED);
	return done;
}

/* ---- Expected PSN: epoch:24 | 0:16 | psn:24 ---- */

static inline void vb_psnw_set(_Atomic uint64_t *word, uint32_t epoch, uint32_t psn)
{
	atomic_store(word, (uint64_t)(epoch & 0xffffff) << 40 | (psn & 0xffffff));
}

/* The expected PSN, or -1 when the word belongs to another epoch. */
static inline int64_t vb_psnw_get(_Atomic uint64_t *word, uint32_t epoch)
{
	uint64_t value = atomic_load(word);

	return value >> 40 == (epoch & 0xffffff) ? (int64_t)(value & 0xffffff) : -1;
}

static inline bool vb_psnw_advance(_Atomic uint64_t *word, uint32_t epoch, uint32_t from,
				   uint32_t to)
{
	uint64_t old = (uint64_t)(epoch & 0xffffff) << 40 | (from & 0xffffff);
	bool done = atomic_compare_exchange_strong(
		word, &old, (uint64_t)(epoch & 0xffffff) << 40 | (to & 0xffffff));

	VB_STEP(PSN_ADVANCED);
	return done;
}

/* ---- Arrival word: index:29 | slot:10 | qp:17 | state:8 ----
 *
 * slot and qp say who took the receive (registry slot of the initiator's process) and
 * for which QP of the owner; both are 0 where only one initiator can come. */

enum vb_arrival {
	VB_ARRIVAL_EMPTY = 0,	/* posted, nothing arrived */
	VB_ARRIVAL_FULL = 1,	/* record and payload are complete */
	VB_ARRIVAL_FLUSHED = 2, /* taken back by the owner */
	VB_ARRIVAL_TAKEN = 3,	/* an initiator is filling it (several may come) */
	VB_ARRIVAL_VOID = 4,	/* its taker gave it up: to be offered anew */
};

#define VB_ARRIVAL_INDEX_SHIFT 35

static inline uint64_t vb_arrival_make(uint64_t index, enum vb_arrival state)
{
	return index << VB_ARRIVAL_INDEX_SHIFT | (uint64_t)state;
}

static inline enum vb_arrival vb_arrival_state(uint64_t word)
{
	return (enum vb_arrival)(word & 0xff);
}

static inline uint32_t vb_arrival_slot(uint64_t word)
{
	return (uint32_t)(word >> 25) & 0x3ff;
}

static inline uint32_t vb_arrival_qp(uint64_t word)
{
	return (uint32_t)(word >> 8) & 0x1ffff;
}

/* Is this the word of receive @index? */
static inline bool vb_arrival_is(uint64_t word, uint64_t index)
{
	return word >> VB_ARRIVAL_INDEX_SHIFT ==
	       (index & ((UINT64_C(1) << (64 - VB_ARRIVAL_INDEX_SHIFT)) - 1));
}

/* Owner: offer receive @index; the WQE was written before. */
static inline void vb_arrival_post(_Atomic uint64_t *word, _Atomic uint64_t *posted, uint64_t index)
{
	VB_STEP(RECV_WQE_WRITTEN);
	/* Relaxed: the release of `posted` orders both the WQE and this word. */
	atomic_store_explicit(word, vb_arrival_make(index, VB_ARRIVAL_EMPTY), memory_order_relaxed);
	VB_STEP(RECV_SLOT_EMPTY);
	atomic_store_explicit(posted, index + 1, memory_order_release);
	VB_STEP(RECV_POSTED);
}

/* Initiator, of several: take receive @index for QP @qp. Returns the new word, 0 when
 * somebody was first. */
static inline uint64_t vb_arrival_take(_Atomic uint64_t *word, uint64_t index, uint32_t slot,
				       uint32_t qp)
{
	uint64_t empty = vb_arrival_make(index, VB_ARRIVAL_EMPTY);
	uint64_t taken = vb_arrival_make(index, VB_ARRIVAL_TAKEN) | (uint64_t)(slot & 0x3ff) << 25 |
			 (uint64_t)(qp & 0x1ffff) << 8;
	bool done = atomic_compare_exchange_strong(word, &empty, taken);

	VB_STEP(ARRIVAL_TAKEN);
	return done ? taken : 0;
}

/* Initiator: the record and the payload are in place. @seen is the word from
 * vb_arrival_take(), or EMPTY where only one can come. False: the owner took it back. */
static inline bool vb_arrival_publish(_Atomic uint64_t *word, uint64_t seen)
{
	bool done;

	VB_STEP(ARRIVAL_FILLED);
	done = atomic_compare_exchange_strong(word, &seen, (seen & ~0xffull) | VB_ARRIVAL_FULL);
	VB_STEP(ARRIVAL_PUBLISHED);
	return done;
}

/* Give up a receive that was taken: its taker, or the owner when the taker died or its
 * QP left. False: it was published, or given up already. */
static inline bool vb_arrival_void(_Atomic uint64_t *word, uint64_t taken)
{
	bool done =
		atomic_compare_exchange_strong(word, &taken, (taken & ~0xffull) | VB_ARRIVAL_VOID);

	VB_STEP(ARRIVAL_VOID);
	return done;
}

/* Owner: has receive @index arrived? */
static inline bool vb_arrival_full(const _Atomic uint64_t *word, uint64_t index)
{
	uint64_t value = atomic_load_explicit(word, memory_order_acquire);

	return vb_arrival_state(value) == VB_ARRIVAL_FULL && vb_arrival_is(value, index);
}

/* Owner: take receive @index back. False: it has arrived and must be completed as such.
 * Whatever else stands in the word (taken, scribbled) is taken back too. */
static inline bool vb_arrival_flush(_Atomic uint64_t *word, uint64_t index)
{
	uint64_t old = atomic_load(word);
	bool full;

	for (;;) {
		full = vb_arrival_state(old) == VB_ARRIVAL_FULL && vb_arrival_is(old, index);
		if (full || atomic_compare_exchange_weak(
				    word, &old, vb_arrival_make(index, VB_ARRIVAL_FLUSHED)))
			break;
	}
	VB_STEP(RECV_FLUSHED);
	return !full;
}

/* Initiator: receive @index is taken; the next message looks at the one behind it. */
static inline void vb_head_advance(_Atomic uint64_t *head, uint64_t index)
{
	atomic_compare_exchange_strong(head, &index, index + 1);
	VB_STEP(HEAD_ADVANCED);
}

/* ---- Ready set ---- */

/* Producer, after publishing. A bit is skipped only when seen set: whoever clears it
 * will look after that, and so see what was published before. */
static inline void vb_ready_set(struct vb_ready *set, uint32_t bit)
{
	uint32_t leaf = bit / 64 % 64;
	uint64_t leaf_mask = 1ull << (bit % 64);
	uint64_t top_mask = 1ull << leaf;

	if (!(atomic_load(&set->leaf[leaf]) & leaf_mask))
		atomic_fetch_or(&set->leaf[leaf], leaf_mask);
	VB_STEP(READY_LEAF);
	if (!(atomic_load(&set->top) & top_mask))
		atomic_fetch_or(&set->top, top_mask);
	VB_STEP(READY_TOP);
}

static inline bool vb_ready_any(const struct vb_ready *set)
{
	/* Not relaxed: after arming, this look decides whether to sleep. */
	return atomic_load(&set->top) != 0;
}

/* Consumer: take the bits of one leaf, the first that has any from leaf @from on, so that
 * a busy one does not hide the others.
 * Return: the bits, with *@first the number of bit 0; 0 when no leaf has any. */
static inline uint64_t vb_ready_take(struct vb_ready *set, uint32_t from, uint32_t *first)
{
	uint64_t top = atomic_load(&set->top);

	for (uint32_t i = 0; top && i < 64; i++) {
		uint32_t leaf = (from + i) % 64;
		uint64_t bits;

		if (!(top & 1ull << leaf))
			continue;
		atomic_fetch_and(&set->top, ~(1ull << leaf));
		bits = atomic_exchange(&set->leaf[leaf], 0);
		VB_STEP(READY_TAKEN);
		if (bits) {
			*first = leaf * 64;
			return bits;
		}
	}
	return 0;
}

/* ---- Count of a CQ ---- */

/* Producer, after its completion became visible. True: that was one more than the CQ has
 * entries. A producer that ends before this leaves the count one short, which harms
 * nobody. */
static inline bool vb_cq_count(struct vb_mbx_cq *mbx, const struct vb_pub_cq *pub)
{
	uint64_t added = atomic_fetch_add(&mbx->added, 1) + 1;
	uint64_t cqe = atomic_load_explicit(&pub->cqe, memory_order_relaxed);

	if (!cqe || (int64_t)(added - atomic_load(&pub->removed)) <= (int64_t)cqe)
		return false;
	atomic_store(&mbx->overrun, 1);
	return true;
}

/* Owner: some completions were polled or dropped. */
static inline void vb_cq_uncount(struct vb_pub_cq *pub, uint64_t n)
{
	/* Relaxed: only the owner writes it, under the CQ's lock. */
	uint64_t removed = atomic_load_explicit(&pub->removed, memory_order_relaxed);

	atomic_store_explicit(&pub->removed, removed + n, memory_order_release);
}

/* ---- Arm word: sequence:56 | state:8 ---- */

enum vb_arm {
	VB_ARM_NONE = 0,
	VB_ARM_SOLICITED = 1, /* an event for solicited completions and errors */
	VB_ARM_ANY = 2,	      /* an event for the next completion */
	VB_ARM_FIRING = 3,    /* somebody is about to write the record */
};

static inline enum vb_arm vb_arm_state(uint64_t word)
{
	return (enum vb_arm)(word & 0xff);
}

/** vb_arm_set() - The owner arms its CQ
 * @seq:    The owner's private sequence; counted up when the arming is a new one
 * @want:   VB_ARM_SOLICITED or VB_ARM_ANY
 * Context: owner, under the CQ's private lock. The caller polls again afterwards
 */
static inline void vb_arm_set(_Atomic uint64_t *word, uint64_t *seq, enum vb_arm want)
{
	uint64_t old = atomic_load(word);

	for (;;) {
		enum vb_arm state = vb_arm_state(old);
		uint64_t value;

		if (old >> 8 == *seq && (state == VB_ARM_ANY || state == want))
			return; /* never downwards */
		if (old >> 8 == *seq && state == VB_ARM_SOLICITED)
			value = *seq << 8 | VB_ARM_ANY;
		else
			value = (*seq + 1) << 8 | want;
		if (atomic_compare_exchange_weak(word, &old, value)) {
			*seq = value >> 8;
			break;
		}
	}
	VB_STEP(ARM_SET);
}

/* Producer, after its completion became visible: must a record be written for *@seen? */
static inline bool vb_arm_fire(_Atomic uint64_t *word, bool solicited, uint64_t *seen)
{
	uint64_t old = atomic_load(word);

	for (;;) {
		enum vb_arm state = vb_arm_state(old);

		if (state != VB_ARM_ANY && !(state == VB_ARM_SOLICITED && solicited))
			return false;
		if (atomic_compare_exchange_weak(word, &old, (old & ~0xffull) | VB_ARM_FIRING)) {
			*seen = (old & ~0xffull) | VB_ARM_FIRING;
			VB_STEP(ARM_FIRING);
			return true;
		}
	}
}

/* Producer, after the record was written. */
static inline void vb_arm_fired(_Atomic uint64_t *word, uint64_t seen)
{
	VB_STEP(ARM_RECORD);
	atomic_compare_exchange_strong(word, &seen, (seen & ~0xffull) | VB_ARM_NONE);
	VB_STEP(ARM_FIRED);
}

/* ---- Multicast group: a count, odd while the row names a group ---- */

/** vb_group_open() - The owner begins to be in a group; nobody is attached yet */
static inline void vb_group_open(struct vb_pub_group *g, const uint8_t *gid)
{
	uint64_t words[2];

	memcpy(words, gid, sizeof(words));
	vb_row_write(g->gid, words, sizeof(words));
	atomic_fetch_add(&g->word, 1);
}

/** vb_group_close() - The owner leaves it; nobody is attached any more */
static inline void vb_group_close(struct vb_pub_group *g)
{
	atomic_fetch_add(&g->word, 1);
}

/** vb_group_read() - The members of a row, where it names the group
 * @qpns:   Receives the QP numbers, in no order
 * Return:  how many; 0 too where the row changed meanwhile: the group was left
 */
static inline uint32_t vb_group_read(const struct vb_pub_group *g, const uint8_t *gid,
				     uint32_t qpns[VB_MCAST_QPS])
{
	uint64_t word = atomic_load(&g->word), words[2];
	uint32_t n = 0;

	if (!(word & 1))
		return 0;
	vb_row_read(words, g->gid, sizeof(words));
	if (memcmp(words, gid, sizeof(words)))
		return 0;
	for (uint32_t i = 0; i < VB_MCAST_QPS; i++) {
		uint32_t qpn = atomic_load_explicit(&g->qpn[i], memory_order_relaxed);

		if (qpn)
			qpns[n++] = qpn;
	}
	atomic_thread_fence(memory_order_acquire);
	return atomic_load(&g->word) == word ? n : 0;
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "lib/fake_env.h"

void fake_init(struct fake_env *env, uint8_t *mem, uint64_t base, size_t size)
{
	memset(env, 0, sizeof(*env));
	env->mem = mem;
	env->base = base;
	env->size = size;
}

struct vb_key *fake_key(struct fake_env *env, uint32_t rkey, uint32_t pd, uint32_t access,
			uint64_t start, uint64_t length)
{
	for (int i = 0; i < FAKE_KEYS; i++) {
		struct vb_key *key = &env->keys[i];

		if (key->rkey)
			continue;
		*key = (struct vb_key){
			.rkey = rkey, .pd = pd, .access = access, .start = start, .length = length};
		return key;
	}
	fail_msg("no room for a key");
	return NULL;
}

void fake_post_recv(struct fake_env *env, uint64_t wr_id, uint8_t *buf, uint64_t length)
{
	assert_true(env->recv_tail - env->recv_head < FAKE_RECVS);
	env->recvs[env->recv_tail++ % FAKE_RECVS] = (struct fake_recv){wr_id, buf, length, true};
}

static bool lookup_key(void *ctx, uint32_t rkey, struct vb_key *out)
{
	struct fake_env *env = ctx;

	env->lookups++;
	for (int i = 0; rkey && i < FAKE_KEYS; i++) {
		if (env->keys[i].rkey == rkey) {
			*out = env->keys[i];
			return true;
		}
	}
	/* Facts of a key that is not there must not count, however good they look. */
	*out = env->keys[0];
	out->invalidatable = true;
	out->access = 0xffffffff;
	return false;
}

static enum vb_take take_recv(void *ctx, struct vb_recv *out)
{
	struct fake_env *env = ctx;
	struct fake_recv *r = &env->recvs[env->recv_head % FAKE_RECVS];

	if (env->take != VB_TAKE_OK)
		return env->take;
	if (env->recv_head == env->recv_tail)
		return VB_TAKE_NONE;
	*out = (struct vb_recv){r->wr_id, r->length, r->sges_ok, {env->recv_head, 0}};
	if (!env->peeks)
		env->recv_head++;
	env->takes++;
	return VB_TAKE_OK;
}

/* The bytes behind a place; a machine that goes outside fails the test. */
static uint8_t *place(struct fake_env *env, const struct vb_target *target,
		      const struct vb_recv *recv, uint64_t offset, uint64_t length)
{
	uint64_t at;

	if (recv) {
		struct fake_recv *r = &env->recvs[recv->token[0] % FAKE_RECVS];

		assert_true(offset <= r->length && length <= r->length - offset);
		return r->buf + offset;
	}
	at = target->addr + offset - env->base;
	assert_true(at <= env->size && length <= env->size - at);
	assert_true(target->addr + offset >= target->key.start);
	assert_true(target->addr + offset + length <= target->key.start + target->key.length);
	return env->mem + at;
}

static enum vb_copy copy_in(void *ctx, const struct vb_place *to, uint64_t offset,
			    const void *payload, uint64_t length)
{
	struct fake_env *env = ctx;

	assert_true(!to->target != !to->recv);
	if (env->copy != VB_COPY_OK)
		return env->copy;
	env->copies_in++;
	memcpy(place(env, to->target, to->recv, offset, length), payload, length);
	return VB_COPY_OK;
}

static enum vb_copy copy_out(void *ctx, const struct vb_target *from, uint64_t offset,
			     const void *payload, uint64_t length)
{
	struct fake_env *env = ctx;

	if (env->copy != VB_COPY_OK)
		return env->copy;
	env->copies_out++;
	memcpy((void *)(uintptr_t)payload, place(env, from, NULL, offset, length), length);
	return VB_COPY_OK;
}

static enum vb_copy atomic(void *ctx, const struct vb_target *target, enum vb_atomic kind,
			   uint64_t compare_add, uint64_t swap, uint64_t *old)
{
	struct fake_env *env = ctx;
	uint64_t value;
	uint8_t *at;

	if (env->copy != VB_COPY_OK)
		return env->copy;
	env->atomics++;
	at = place(env, target, NULL, 0, 8);
	memcpy(old, at, 8);
	if (kind == VB_ATOMIC_FETCH_ADD)
		value = *old + compare_add;
	else
		value = *old == compare_add ? swap : *old;
	memcpy(at, &value, 8);
	return VB_COPY_OK;
}

static enum vb_copy invalidate(void *ctx, const struct vb_key *key)
{
	struct fake_env *env = ctx;

	if (env->copy != VB_COPY_OK)
		return env->copy;
	env->invalidates++;
	for (int i = 0; i < FAKE_KEYS; i++)
		if (env->keys[i].rkey == key->rkey)
			env->keys[i].rkey = 0;
	return VB_COPY_OK;
}

static bool complete(void *ctx, const struct vb_recv *recv,
		     const struct vb_recv_completion *completion)
{
	struct fake_env *env = ctx;

	if (env->complete_fails)
		return false;
	if (env->peeks)
		env->recv_head = (uint32_t)recv->token[0] + 1;
	assert_true(env->ndone < FAKE_RECVS);
	env->done_id[env->ndone] = recv->wr_id;
	env->done[env->ndone++] = *completion;
	return true;
}

static bool check_local(void *ctx, uint32_t wqe)
{
	return !((struct fake_env *)ctx)->local_bad[wqe];
}

static enum vb_copy scatter(void *ctx, uint32_t wqe, uint64_t offset, const void *bytes,
			    uint64_t length)
{
	struct fake_env *env = ctx;

	if (env->scatter != VB_COPY_OK)
		return env->scatter;
	env->scatters++;
	assert_true(wqe < FAKE_WQES && offset <= env->local_len[wqe] &&
		    length <= env->local_len[wqe] - offset);
	memcpy(env->local[wqe] + offset, bytes, length);
	return VB_COPY_OK;
}

const struct vb_resp_env fake_resp_env = {
	.lookup_key = lookup_key,
	.take_recv = take_recv,
	.copy_in = copy_in,
	.copy_out = copy_out,
	.atomic = atomic,
	.invalidate = invalidate,
	.complete = complete,
};

const struct vb_req_env fake_req_env = {
	.check_local = check_local,
	.scatter = scatter,
};

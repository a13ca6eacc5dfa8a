/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/agent.h"
#include "engine/thread.h"
#include "engine/wire.h"

/* One opens or closes at a time: what a process has of the adapter outlives its engine while others
 * hold it, and a new engine's thread would say that it lives while the old one's says that it does
 * not. Taken before the list's; never by an engine's thread, whose end is waited for under it. */
static pthread_mutex_t turn_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct vb_engine *list;

uint64_t vb_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* In a child made by fork the list names the parent's engines, and the lock may be held
 * by a thread that is not there. */
static void fresh_after_fork(void)
{
	for (struct vb_engine *engine = list; engine; engine = engine->next) {
		vb_wire_forked(engine);
		vb_agent_forked(engine);
		vb_members_forked(&engine->members);
	}
	list = NULL;
	pthread_mutex_init(&turn_lock, NULL);
	pthread_mutex_init(&list_lock, NULL);
}

__attribute__((constructor)) static void watch_fork(void)
{
	pthread_atfork(NULL, NULL, fresh_after_fork);
}

static int create(const char *device, struct vb_engine **out)
{
	struct vb_engine *engine = calloc(1, sizeof(*engine));
	int err;

	if (!engine)
		return -ENOMEM;
	err = vb_adapter_open(device, &engine->adapter);
	if (err) {
		free(engine);
		return err;
	}
	pthread_mutex_init(&engine->timer_lock, NULL);
	pthread_mutex_init(&engine->thread_lock, NULL);
	vb_members_init(&engine->members, engine->adapter);
	atomic_store(&engine->next_ns, VB_NEVER);
	engine->epoll_fd = engine->timer_fd = engine->wake_fd = -1;
	*out = engine;
	return 0;
}

int vb_engine_open(const char *device, struct vb_engine **out)
{
	struct vb_engine *engine;
	int err = 0;

	pthread_mutex_lock(&turn_lock);
	pthread_mutex_lock(&list_lock);
	for (engine = list; engine; engine = engine->next)
		if (!strcmp(engine->adapter->device, device))
			break;
	if (!engine) {
		err = create(device, &engine);
		if (!err) {
			engine->next = list;
			list = engine;
		}
	}
	if (!err)
		engine->users++;
	pthread_mutex_unlock(&list_lock);
	pthread_mutex_unlock(&turn_lock);
	*out = err ? NULL : engine;
	return err;
}

static void destroy(struct vb_engine *engine)
{
	vb_thread_stop(engine);
	vb_agent_close(engine);
	vb_wire_close(engine);
	vb_members_fini(&engine->members);
	vb_adapter_close(engine->adapter);
	vb_keys_free(&engine->keys);
	vb_sparse_fini(&engine->qps);
	vb_sparse_fini(&engine->cqs);
	pthread_mutex_destroy(&engine->timer_lock);
	pthread_mutex_destroy(&engine->thread_lock);
	free(engine);
}

void vb_engine_close(struct vb_engine *engine)
{
	struct vb_engine **at;
	bool last;

	pthread_mutex_lock(&turn_lock);
	pthread_mutex_lock(&list_lock);
	last = --engine->users == 0;
	for (at = &list; last && *at; at = &(*at)->next)
		if (*at == engine) {
			*at = engine->next;
			break;
		}
	pthread_mutex_unlock(&list_lock);
	if (last)
		destroy(engine);
	pthread_mutex_unlock(&turn_lock);
}

void vb_engine_join(struct vb_engine *engine, struct vb_context *ctx)
{
	pthread_mutex_lock(&list_lock);
	ctx->next = engine->contexts;
	engine->contexts = ctx;
	pthread_mutex_unlock(&list_lock);
}

void vb_engine_leave(struct vb_engine *engine, struct vb_context *ctx)
{
	pthread_mutex_lock(&list_lock);
	for (struct vb_context **at = &engine->contexts; *at; at = &(*at)->next)
		if (*at == ctx) {
			*at = ctx->next;
			break;
		}
	pthread_mutex_unlock(&list_lock);
}

int vb_engine_each_context(int (*visit)(struct vb_context *ctx, void *arg), void *arg)
{
	int found = 0;

	pthread_mutex_lock(&list_lock);
	for (struct vb_engine *engine = list; engine && !found; engine = engine->next)
		for (struct vb_context *ctx = engine->contexts; ctx && !found; ctx = ctx->next)
			found = visit(ctx, arg);
	pthread_mutex_unlock(&list_lock);
	return found;
}

/* The process ends, whatever its threads hold. A child of a fork has none of these engines. */
__attribute__((destructor)) static void at_exit(void)
{
	if (pthread_mutex_trylock(&list_lock))
		return;
	for (struct vb_engine *engine = list; engine; engine = engine->next) {
		if (!vb_adapter_alive(engine->adapter))
			continue;
		vb_agent_farewell(engine);
		vb_wire_linger(engine);
	}
	pthread_mutex_unlock(&list_lock);
}

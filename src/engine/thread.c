/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/thread.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/touch.h"
#include "engine/agent.h"
#include "engine/port.h"
#include "engine/wire.h"
#include "host/liveness.h"

/* Between two looks whether a receive was posted that a packet waits for. */
#define LATE_MS 1
/* Of the stack, for what a message takes at most. */
#define STACK_BYTES 24576

void vb_thread_set_timer(int fd, uint64_t at)
{
	struct itimerspec spec = {0};

	/* All zero disarms; a deadline of 0 means at once. */
	if (at != VB_NEVER) {
		spec.it_value.tv_sec = (time_t)(at / 1000000000u);
		spec.it_value.tv_nsec = (long)(at % 1000000000u);
		if (!at)
			spec.it_value.tv_nsec = 1;
	}
	timerfd_settime(fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

/* Whoever changes the earliest deadline sets the timer to it; two that do so at once set
 * it until what is set is what stands there. */
static void arm_timer(struct vb_engine *engine)
{
	uint64_t at;

	do {
		at = atomic_load(&engine->next_ns);
		vb_thread_set_timer(engine->timer_fd, at);
	} while (at != atomic_load(&engine->next_ns));
}

static void drain(int fd)
{
	uint64_t count;

	if (read(fd, &count, sizeof(count)) < 0)
		return;
}

/* What woke it and nothing else is read: a call for each thing that might have takes longer than
 * the packets that mostly did. */
static void awake(struct vb_engine *engine, const struct epoll_event *events, int n)
{
	bool rang = false;

	for (int i = 0; i < n; i++) {
		int fd = events[i].data.fd;

		if (fd == engine->timer_fd || fd == engine->wake_fd)
			drain(fd);
		else if (fd == engine->adapter->doorbell_fd)
			rang = true;
		else if (fd == vb_port_watch_fd(engine))
			vb_port_watch_run(engine);
		else if (fd == vb_agent_fd(engine))
			vb_agent_run(engine);
		else
			vb_wire_readable(engine, fd);
	}
	vb_adapter_drain_doorbell(engine->adapter, rang);
}

/* What the first message would wait for: the thread's heap, and the pages of its stack. */
static __attribute__((noinline)) void get_ready(void)
{
	uint8_t stack[STACK_BYTES];
	void *volatile heap = malloc(1);

	free(heap);
	vb_touch(memset(stack, 0, sizeof(stack)), sizeof(stack));
}

static void *thread_main(void *arg)
{
	struct vb_engine *engine = arg;
	struct epoll_event events[8];
	int n;

	vb_liveness_engine_start(engine->adapter);
	get_ready();
	while (!atomic_load(&engine->stop)) {
		arm_timer(engine);
		n = epoll_wait(engine->epoll_fd, events, sizeof(events) / sizeof(events[0]),
			       vb_wire_waits(engine) ? LATE_MS : -1);
		if (n < 0)
			continue;
		awake(engine, events, n);
		vb_wire_receive(engine, true);
		vb_engine_attention(engine);
		vb_engine_due(engine);
	}
	vb_liveness_engine_stop(engine->adapter);
	return NULL;
}

static int watch(struct vb_engine *engine, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	return fd < 0 ? 0 : epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static void close_fds(struct vb_engine *engine)
{
	int *fds[] = {&engine->epoll_fd, &engine->timer_fd, &engine->wake_fd};

	for (int i = 0; i < 3; i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
	vb_port_watch_close(engine);
}

static int open_fds(struct vb_engine *engine)
{
	engine->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	engine->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	engine->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (engine->epoll_fd < 0 || engine->timer_fd < 0 || engine->wake_fd < 0)
		return -1;
	vb_port_watch_open(engine);
	if (watch(engine, vb_port_watch_fd(engine)) || watch(engine, engine->timer_fd) ||
	    watch(engine, engine->wake_fd))
		return -1;
	return watch(engine, engine->adapter->doorbell_fd);
}

/* The thread inherits the mask, so that no signal of the program is ever its own. */
static int create_blocked(struct vb_engine *engine)
{
	sigset_t all, old;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&engine->thread, NULL, thread_main, engine);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!err)
		pthread_setname_np(engine->thread, "verbena");
	return err;
}

void vb_engine_start(struct vb_engine *engine)
{
	pthread_mutex_lock(&engine->thread_lock);
	if (!engine->thread_runs) {
		if (!open_fds(engine) && !create_blocked(engine))
			engine->thread_runs = true;
		else
			close_fds(engine);
	}
	pthread_mutex_unlock(&engine->thread_lock);
}

void vb_thread_wake(struct vb_engine *engine)
{
	/* The timer, not the thread: pollers may be there before it. */
	if (atomic_load(&engine->thread_runs))
		arm_timer(engine);
}

static void wake_now(struct vb_engine *engine)
{
	uint64_t one = 1;

	if (write(engine->wake_fd, &one, sizeof(one)) < 0)
		return;
}

void vb_thread_stop(struct vb_engine *engine)
{
	pthread_mutex_lock(&engine->thread_lock);
	if (engine->thread_runs) {
		atomic_store(&engine->stop, true);
		wake_now(engine);
		pthread_join(engine->thread, NULL);
		engine->thread_runs = false;
		close_fds(engine);
	}
	pthread_mutex_unlock(&engine->thread_lock);
}

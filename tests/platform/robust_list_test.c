/* SPDX-License-Identifier: BSD-2-Clause */

/* A thread's own robust list, head and node in private memory and the futex word in
 * shared memory: the kernel marks the word when the process is killed, also when it
 * is stopped, and when it executes another program. */

#include "platform/platform.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>

static struct robust_list_head head;
static struct robust_list node;

static void *engine(void *arg)
{
	_Atomic uint32_t *word = arg;

	head.list.next = &node;
	node.next = &head.list;
	head.futex_offset = (long)((intptr_t)word - (intptr_t)&node);
	EXPECT(!syscall(SYS_set_robust_list, &head, sizeof(head)));
	atomic_store(word, (uint32_t)syscall(SYS_gettid));
	for (;;)
		pause();
}

static void start_engine(void *arg)
{
	_Atomic uint32_t *word = arg;
	pthread_t thread;

	atomic_store(word, 0);
	EXPECT(!pthread_create(&thread, NULL, engine, arg));
	while (!atomic_load(word))
		sched_yield();
}

static void exec_soon(void *arg)
{
	start_engine(arg);
	execl("/bin/sleep", "sleep", "1000", (char *)NULL);
	EXPECT(!"exec");
}

int main(void)
{
	_Atomic uint32_t *word = shared_page();
	pid_t pid = start_child(start_engine, (void *)word, 1);

	EXPECT(*word && !(*word & FUTEX_OWNER_DIED));
	end_child(pid);
	EXPECT(*word & FUTEX_OWNER_DIED);

	pid = start_child(start_engine, (void *)word, 0);
	EXPECT(!(*word & FUTEX_OWNER_DIED));
	end_child(pid);
	EXPECT(*word & FUTEX_OWNER_DIED);

	*word = 0;
	pid = fork();
	if (!pid)
		exec_soon((void *)word);
	while (!(atomic_load(word) & FUTEX_OWNER_DIED))
		sched_yield();
	EXPECT(!kill(pid, 0));
	end_child(pid);
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* What the machine can do: memcpy, a flag passed between two processes, process_vm_writev,
 * faulting pages in. Every figure of the adapter is a ratio against one of these. */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "measure.h"

static const size_t sizes[] = {8, 64, 1024, 4096, 65536, 1048576};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static void *shared(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		exit(1);
	memset(p, 1, bytes);
	return p;
}

static void bench_memcpy(void)
{
	char *from = shared(1 << 20), *to = shared(1 << 20);

	for (size_t i = 0; i < SIZES; i++) {
		long rounds = rounds_for(sizes[i]);
		double start = seconds();

		for (long r = 0; r < rounds; r++) {
			memcpy(to, from, sizes[i]);
			__asm__ volatile("" ::"r"(to) : "memory");
		}
		report("memcpy", sizes[i],
		       (double)sizes[i] * (double)rounds / (seconds() - start) / 1e9, "GB/s");
	}
}

struct flags {
	_Atomic uint64_t ping;
	char pad[120];
	_Atomic uint64_t pong;
};

static void bench_flag(void)
{
	struct flags *f = shared(sizeof(*f));
	const uint64_t rounds = 200000;
	double start;
	pid_t child;

	f->ping = f->pong = 0;
	child = fork();
	if (!child) {
		for (uint64_t i = 1; i <= rounds; i++) {
			while (atomic_load(&f->ping) != i)
				;
			atomic_store(&f->pong, i);
		}
		_exit(0);
	}
	start = seconds();
	for (uint64_t i = 1; i <= rounds; i++) {
		atomic_store(&f->ping, i);
		while (atomic_load(&f->pong) != i)
			;
	}
	report("flag", 8, (seconds() - start) / (double)rounds / 2 * 1e6, "us");
	waitpid(child, NULL, 0);
}

static void bench_process_vm(void)
{
	char *from = shared(1 << 20);
	char *to = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pid_t child;

	memset(to, 1, 1 << 20);
	child = fork();
	if (!child) {
		memset(to, 2, 1 << 20);
		pause();
		_exit(0);
	}
	usleep(50000);
	for (size_t i = 0; i < SIZES; i++) {
		struct iovec local = {from, sizes[i]}, remote = {to, sizes[i]};
		long rounds = rounds_for(sizes[i]);
		double start = seconds();

		for (long r = 0; r < rounds; r++)
			if (process_vm_writev(child, &local, 1, &remote, 1, 0) < 0)
				break;
		report("process_vm", sizes[i],
		       (double)sizes[i] * (double)rounds / (seconds() - start) / 1e9, "GB/s");
	}
	kill(child, 9);
	waitpid(child, NULL, 0);
}

static void bench_populate(void)
{
	static const size_t ranges[] = {4096, 65536, 1048576, (size_t)1 << 30};

	for (size_t i = 0; i < 4; i++) {
		int rounds = ranges[i] > 1048576 ? 2 : 200;
		double total = 0;

		for (int r = 0; r < rounds; r++) {
			void *p = mmap(NULL, ranges[i], PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			double start = seconds();

			madvise(p, ranges[i], 23 /* MADV_POPULATE_WRITE */);
			total += seconds() - start;
			munmap(p, ranges[i]);
		}
		report("populate", ranges[i], total / rounds * 1e6, "us");
	}
}

int main(void)
{
	bench_memcpy();
	bench_flag();
	bench_process_vm();
	bench_populate();
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "host/memory.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "unit/host/owner.h"

/* What a process with certain settings finds when it goes for the owner's keys. */
struct found {
	int peer; /* what vb_peer_get() said */
	int step[OWNER_KEYS];
	int in[OWNER_KEYS], out[OWNER_KEYS], same[OWNER_KEYS];
	int add[OWNER_KEYS], swap[OWNER_KEYS];
	uint64_t old[OWNER_KEYS];
	int local_bad_in, local_bad_out, range, self_in, self_atomic;
	int self_step;
};

static const char *runtime;
static uint8_t data[OWNER_BYTES], back[OWNER_BYTES];

static void go_for_key(struct vb_peer *p, const struct owner_info *info, int k, struct found *f)
{
	/* Uneven pieces, more than one chunk of them. */
	struct iovec from[3] = {{data, 1001}, {data + 1001, 0}, {data + 1001, OWNER_BYTES - 1001}};
	struct iovec to[2] = {{back, 500000}, {back + 500000, OWNER_BYTES - 500000}};
	uint64_t at = info->addr[k] + OWNER_BYTES - 8;
	struct vb_key_facts key;
	uint64_t old;

	if (vb_memory_key(p, info->key[k], &key))
		_exit(20);
	f->step[k] = vb_memory_step(p, &key, NULL);
	f->in[k] = vb_memory_copy_in(p, &key, info->addr[k], from, 3, OWNER_BYTES);
	f->out[k] = vb_memory_copy_out(p, &key, info->addr[k], to, 2, OWNER_BYTES);
	f->same[k] = !memcmp(data, back, OWNER_BYTES);
	f->add[k] = vb_memory_atomic(p, &key, at, VB_MEM_FETCH_ADD, 5, 0, &f->old[k]);
	f->swap[k] = vb_memory_atomic(p, &key, at, VB_MEM_CMP_SWP, f->old[k] + 5, 77, &old);
	if (!f->swap[k] && old != f->old[k] + 5)
		f->swap[k] = -1000;
	if (!f->swap[k] && (vb_memory_atomic(p, &key, at, VB_MEM_CMP_SWP, 1, 2, &old) || old != 77))
		f->swap[k] = -1001;
}

static void go_for_limits(struct vb_peer *p, const struct owner_info *info, struct found *f)
{
	uint8_t *hole =
		mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct iovec bad = {hole, 8192}, good = {data, 8};
	struct vb_key_facts key;
	uint64_t old;

	munmap(hole + 4096, 4096);
	vb_memory_key(p, info->key[KEY_PRIVATE], &key);
	f->local_bad_in = vb_memory_copy_in(p, &key, key.addr, &bad, 1, 8192);
	f->local_bad_out = vb_memory_copy_out(p, &key, key.addr, &bad, 1, 8192);
	f->range =
		vb_memory_copy_in(p, &key, key.addr + OWNER_BYTES - 7, &good, 1, 8) == -ERANGE &&
		vb_memory_copy_in(p, &key, key.addr - 1, &good, 1, 8) == -ERANGE &&
		vb_memory_copy_in(p, &key, key.addr, &good, 1, SIZE_MAX) == -ERANGE &&
		vb_memory_copy_in(p, &key, UINT64_MAX, &good, 1, 8) == -ERANGE &&
		vb_memory_copy_in(p, &key, key.addr + OWNER_BYTES, &good, 1, 0) == 0 &&
		vb_memory_copy_in(p, &key, key.addr, &good, 1, 9) < 0 &&
		vb_memory_atomic(p, &key, key.addr + 4, VB_MEM_FETCH_ADD, 1, 0, &old) == -EINVAL &&
		vb_memory_atomic(p, &key, key.addr + OWNER_BYTES, VB_MEM_FETCH_ADD, 1, 0, &old) ==
			-ERANGE;
}

static void go_for_self(struct vb_adapter *a, struct found *f)
{
	static _Atomic uint64_t target[1024];
	struct iovec from = {data, sizeof(target)};
	struct vb_key_facts key = {.addr = (uintptr_t)target, .length = sizeof(target)};
	uint64_t old, first;

	memcpy(&first, data, 8);
	f->self_step = vb_memory_step(a->self, &key, NULL);
	f->self_in = vb_memory_copy_in(a->self, &key, key.addr, &from, 1, sizeof(target));
	if (!f->self_in && memcmp(data, target, sizeof(target)))
		f->self_in = -1000;
	f->self_atomic = vb_memory_atomic(a->self, &key, key.addr, VB_MEM_FETCH_ADD, 3, 0, &old);
	if (!f->self_atomic && (old != first || target[0] != first + 3))
		f->self_atomic = -1000;
}

static int role_copier(void)
{
	struct vb_adapter *a;
	struct owner_info info;
	struct found f = {0};
	struct vb_peer *p;

	for (unsigned int i = 0; i < OWNER_BYTES; i++)
		data[i] = (uint8_t)(i * 7 + i / 251);
	if (read(0, &info, sizeof(info)) != sizeof(info) || vb_adapter_open(OWNER_DEVICE, &a))
		return 1;
	f.peer = vb_peer_get(a, info.qpn >> VB_BLOCK_BITS, &p);
	if (!f.peer) {
		for (int k = 0; k < OWNER_KEYS; k++)
			go_for_key(p, &info, k, &f);
		go_for_limits(p, &info, &f);
		vb_peer_put(p);
	}
	go_for_self(a, &f);
	say(&f, sizeof(f));
	vb_adapter_close(a);
	return 0;
}

static int role_filtered_copier(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {sizeof(filter) / sizeof(filter[0]), filter};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog))
		return 77;
	return role_copier();
}

const struct role roles[] = {
	{"owner", role_owner},
	{"copier", role_copier},
	{"filtered copier", role_filtered_copier},
	{NULL, NULL},
};

static struct found run(const char *role, const char *setting)
{
	const char *env[] = {setting, NULL};
	struct owner_info info;
	struct other owner = owner_start(&info), copier;
	struct found f;
	uint8_t *mem = malloc(2 * OWNER_BYTES);
	uint64_t value;

	memset(&f, 0xee, sizeof(f));
	kill(owner.pid, SIGSTOP); /* nothing here needs the owner to run */
	assert_true(other_stopped(&owner));
	copier = other_start(role, env);
	other_tell(&copier, &info, sizeof(info));
	assert_true(other_hear(&copier, &f, sizeof(f)));
	assert_int_equal(other_end(&copier, 0), 0);
	kill(owner.pid, SIGCONT);
	/* The owner sees with its own eyes what was reported. */
	other_tell(&owner, "s", 1);
	assert_true(other_hear(&owner, mem, 2 * OWNER_BYTES));
	memcpy(&value, mem + OWNER_BYTES - 8, 8);
	assert_int_equal(value == 77, f.swap[KEY_PRIVATE] == 0);
	memcpy(&value, mem + 2 * OWNER_BYTES - 8, 8);
	assert_int_equal(value == 77, f.swap[KEY_SEALED] == 0);
	free(mem);
	other_end(&owner, 0);
	return f;
}

static void expect_copied(const struct found *f, int key)
{
	assert_int_equal(f->in[key], 0);
	assert_int_equal(f->out[key], 0);
	assert_true(f->same[key]);
}

static void expect_cross(const struct found *f, int step)
{
	assert_int_equal(f->peer, 0);
	assert_int_equal(f->step[KEY_PRIVATE], step);
	expect_copied(f, KEY_PRIVATE);
	assert_int_equal(f->add[KEY_PRIVATE], 0);
	assert_int_equal(f->swap[KEY_PRIVATE], 0);
	/* A file that can shrink is not mapped: copied, but no atomics on it. */
	assert_int_equal(f->step[KEY_UNSEALED], step);
	expect_copied(f, KEY_UNSEALED);
	assert_int_equal(f->add[KEY_UNSEALED], -EPERM);
	assert_int_equal(f->in[KEY_UNMAPPED], -EREMOTEIO);
	assert_int_equal(f->out[KEY_UNMAPPED], -EREMOTEIO);
	assert_int_equal(f->add[KEY_UNMAPPED], -EREMOTEIO);
	assert_int_equal(f->step[KEY_UNMAPPED], VB_MEM_NONE);
	assert_int_equal(f->out[KEY_READONLY], 0);
	assert_int_equal(f->local_bad_in, -EFAULT);
	assert_int_equal(f->local_bad_out, -EFAULT);
	assert_true(f->range);
}

static void all_steps(void **state)
{
	struct found f = run("copier", NULL);

	expect_cross(&f, VB_MEM_CROSS);
	assert_int_equal(f.in[KEY_READONLY], -EREMOTEIO);
	assert_int_equal(f.add[KEY_READONLY], -EREMOTEIO);
	assert_int_equal(f.step[KEY_SEALED], VB_MEM_MAPPED);
	expect_copied(&f, KEY_SEALED);
	assert_int_equal(f.add[KEY_SEALED], 0);
	assert_int_equal(f.swap[KEY_SEALED], 0);
	assert_int_equal(f.self_step, VB_MEM_OWN);
	assert_int_equal(f.self_in, 0);
	assert_int_equal(f.self_atomic, 0);
}

static void cross_alone(void **state)
{
	struct found f = run("copier", "VERBENA_MEMORY=cross");

	expect_cross(&f, VB_MEM_CROSS);
	assert_int_equal(f.step[KEY_SEALED], VB_MEM_CROSS);
	expect_copied(&f, KEY_SEALED);
	assert_int_equal(f.add[KEY_SEALED], -EPERM);
	assert_int_equal(f.self_step, VB_MEM_CROSS);
	assert_int_equal(f.self_in, 0);
	assert_int_equal(f.self_atomic, 0);
}

static void proc_mem_alone(void **state)
{
	struct found f = run("copier", "VERBENA_MEMORY=procmem");

	expect_cross(&f, VB_MEM_CROSS_PROC_MEM);
	expect_copied(&f, KEY_SEALED);
	assert_int_equal(f.self_step, VB_MEM_CROSS_PROC_MEM);
	assert_int_equal(f.self_in, 0);
	assert_int_equal(f.self_atomic, 0);
}

/* A system call filter as in containers: the next step is taken by itself. */
static void filtered(void **state)
{
	struct found f = run("filtered copier", NULL);

	expect_cross(&f, VB_MEM_CROSS_PROC_MEM);
	assert_int_equal(f.step[KEY_SEALED], VB_MEM_MAPPED);
}

static void mapped_alone(void **state)
{
	struct found f = run("copier", "VERBENA_MEMORY=own,mapped");

	expect_copied(&f, KEY_SEALED);
	assert_int_equal(f.swap[KEY_SEALED], 0);
	assert_int_equal(f.in[KEY_PRIVATE], -EPERM);
	assert_int_equal(f.add[KEY_PRIVATE], -EPERM);
	assert_int_equal(f.step[KEY_PRIVATE], VB_MEM_NONE);
	assert_int_equal(f.in[KEY_UNSEALED], -EPERM);
	assert_int_equal(f.self_in, 0);
}

static void nothing_allowed(void **state)
{
	struct found f = run("copier", "VERBENA_MEMORY=scatter");

	for (int k = 0; k < OWNER_KEYS; k++)
		assert_int_equal(f.in[k], -EPERM);
	assert_int_equal(f.self_in, -EPERM);
}

static void names_of_steps(void **state)
{
	assert_string_equal(vb_memory_step_name(VB_MEM_CROSS_PROC_MEM), "procmem");
	assert_string_equal(vb_memory_step_name(VB_MEM_NONE), "wire");
	assert_string_equal(vb_memory_step_name((enum vb_mem_step)99), "?");
	for (int step = 0; step < VB_MEM_STEPS; step++)
		assert_true(vb_memory_allowed((enum vb_mem_step)step));
	assert_false(vb_memory_allowed(VB_MEM_NONE));
}

/* A key that dies stops the copy at the next chunk; so does the caller's condition. */
static int chunks;
static bool two_chunks(void *arg)
{
	return chunks++ < 2;
}

static void a_copy_stops_between_chunks(void **state)
{
	struct vb_adapter *a;
	struct owner_info info;
	struct other owner = owner_start(&info);
	struct iovec from = {data, OWNER_BYTES};
	struct vb_key_facts key;
	struct vb_peer *p;

	assert_int_equal(vb_adapter_open(OWNER_DEVICE, &a), 0);
	assert_int_equal(vb_peer_get(a, info.qpn >> VB_BLOCK_BITS, &p), 0);
	assert_int_equal(vb_memory_key(p, info.key[0], &key), 0);
	assert_int_equal(vb_key_addr(&key, key.iova + 5), info.addr[0] + 5);
	key.still = two_chunks;
	memset(data, 9, sizeof(data));
	assert_int_equal(vb_memory_copy_in(p, &key, key.addr, &from, 1, OWNER_BYTES), -ECANCELED);
	assert_int_equal(chunks, 3);
	key.still = NULL;
	from.iov_base = back;
	assert_int_equal(vb_memory_copy_out(p, &key, key.addr, &from, 1, OWNER_BYTES), 0);
	assert_int_equal(back[2 * VB_MEMORY_CHUNK - 1], 9);
	assert_int_equal(back[2 * VB_MEMORY_CHUNK], 1);
	key.word += 2;
	assert_int_equal(vb_memory_copy_out(p, &key, key.addr, &from, 1, 8), -ECANCELED);
	assert_int_equal(vb_memory_key(p, info.key[0] + 1000, &key), -ENOENT);
	assert_int_equal(vb_memory_key(p, 5, &key), -ENOENT);
	other_tell(&owner, "d", 1);
	assert_true(other_hear(&owner, data, sizeof(bool)));
	assert_int_equal(vb_memory_key(p, info.key[0], &key), -ENOENT);
	assert_int_equal(vb_memory_key(p, info.key[1], &key), 0);
	other_end(&owner, SIGKILL);
	assert_int_equal(vb_memory_copy_out(p, &key, key.addr, &from, 1, 8), -ESRCH);
	vb_peer_put(p);
	vb_adapter_close(a);
}

/* Two processes and two threads add to one word that is not shared-mapped. */
static void *adder(void *arg)
{
	struct vb_peer *p = arg;
	struct vb_key_facts key;
	uint64_t old;
	int err;

	if (vb_memory_key(p, vb_peer_pub_qp(p, 0) ? 0 : *(uint32_t *)data, &key))
		abort();
	for (int i = 0; i < 2000; i++) {
		do {
			err = vb_memory_atomic(p, &key, key.addr, VB_MEM_FETCH_ADD, 1, 0, &old);
		} while (err == -EAGAIN);
		if (err)
			abort();
	}
	return NULL;
}

static void no_addition_is_lost(void **state)
{
	struct vb_adapter *a;
	struct owner_info info;
	struct other owner = owner_start(&info);
	struct iovec zero = {back, 8};
	struct vb_key_facts key;
	pthread_t thread[2];
	struct vb_peer *p;
	uint64_t sum = 0;
	int status;
	pid_t pid;

	memcpy(data, &info.key[KEY_PRIVATE], 4);
	memset(back, 0, 8);
	assert_int_equal(vb_adapter_open(OWNER_DEVICE, &a), 0);
	assert_int_equal(vb_peer_get(a, info.qpn >> VB_BLOCK_BITS, &p), 0);
	assert_int_equal(vb_memory_key(p, info.key[KEY_PRIVATE], &key), 0);
	assert_int_equal(vb_memory_copy_in(p, &key, key.addr, &zero, 1, 8), 0);
	pid = fork();
	if (!pid) { /* a third party, with an adapter of its own */
		if (vb_adapter_open(OWNER_DEVICE, &a) ||
		    vb_peer_get(a, info.qpn >> VB_BLOCK_BITS, &p))
			_exit(1);
		adder(p);
		vb_peer_put(p);
		vb_adapter_close(a);
		_exit(0);
	}
	for (int i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, adder, p);
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	zero.iov_base = &sum;
	assert_int_equal(vb_memory_copy_out(p, &key, key.addr, &zero, 1, 8), 0);
	assert_int_equal(sum, 6000);
	assert_int_equal(p->mbx->atomics, 0);
	/* Garbage in the word is nobody's hold. */
	atomic_store(&p->mbx->atomics, 0xdeadbeefdeadbeef);
	assert_int_equal(vb_memory_atomic(p, &key, key.addr, VB_MEM_FETCH_ADD, 1, 0, &sum), 0);
	assert_int_equal(sum, 6000);
	/* The owner itself, alive, holds it: later. */
	memcpy(&sum, info.id, 4);
	sum = sum << 32 | (info.slot + 1);
	atomic_store(&p->mbx->atomics, sum);
	assert_int_equal(vb_memory_atomic(p, &key, key.addr, VB_MEM_FETCH_ADD, 1, 0, &sum),
			 -EAGAIN);
	vb_peer_put(p);
	vb_adapter_close(a);
	other_end(&owner, 0);
}

/* Threads copy through keys that share a place in the table of mappings and die under
 * them. */
static _Atomic int done_copying;
static struct vb_peer *shared_peer;
static struct owner_info shared_info;

static void *mapped_copier(void *arg)
{
	static uint8_t sink[4][4096];
	struct iovec to = {sink[(uintptr_t)arg], 4096};
	struct vb_key_facts key;
	int err;

	if (vb_memory_key(shared_peer, shared_info.key[KEY_SEALED], &key))
		abort();
	key.row_word = NULL; /* generations as the test likes */
	for (uint64_t i = 0; i < 3000; i++) {
		key.word = 3 + (i / 7 + (uintptr_t)arg) % 3 * 2;
		key.number = shared_info.key[KEY_SEALED] + (uint32_t)(i / 50 % 2) * 64;
		err = vb_memory_copy_out(shared_peer, &key, key.addr, &to, 1, 4096);
		if (err)
			abort();
	}
	atomic_fetch_add(&done_copying, 1);
	return NULL;
}

static void mappings_come_and_go_under_threads(void **state)
{
	struct vb_adapter *a;
	struct other owner = owner_start(&shared_info);
	pthread_t thread[4];

	assert_int_equal(vb_adapter_open(OWNER_DEVICE, &a), 0);
	assert_int_equal(vb_peer_get(a, shared_info.qpn >> VB_BLOCK_BITS, &shared_peer), 0);
	for (uintptr_t i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, mapped_copier, (void *)i);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(done_copying, 4);
	vb_peer_put(shared_peer);
	vb_adapter_close(a);
	other_end(&owner, 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_of_steps),
		cmocka_unit_test(all_steps),
		cmocka_unit_test(cross_alone),
		cmocka_unit_test(proc_mem_alone),
		cmocka_unit_test(filtered),
		cmocka_unit_test(mapped_alone),
		cmocka_unit_test(nothing_allowed),
		cmocka_unit_test(a_copy_stops_between_chunks),
		cmocka_unit_test(no_addition_is_lost),
		cmocka_unit_test(mappings_come_and_go_under_threads),
	};
	int failed;

	other_main(argc, argv);
	runtime = private_runtime(argv);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(runtime);
	return failed;
}

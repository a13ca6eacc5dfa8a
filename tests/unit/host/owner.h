/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef OWNER_H
#define OWNER_H

/* A process that owns things others reach: keys of several kinds of memory, rows, a pipe. */

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>

#include "host/access.h"
#include "host/adapter.h"
#include "host/eventpipe.h"
#include "host/liveness.h"
#include "host/memory.h"
#include "unit/host/other.h"

#define OWNER_DEVICE "hosttest0"
#define OWNER_BYTES  (1u << 20)

enum owner_key {
	KEY_PRIVATE,  /* ordinary memory */
	KEY_SEALED,   /* memory file, sealed against shrinking */
	KEY_UNSEALED, /* published as shared, but its file can shrink */
	KEY_READONLY, /* memory without write permission */
	KEY_UNMAPPED, /* memory the process has unmapped since */
	OWNER_KEYS
};

struct owner_info {
	int err;
	pid_t pid;
	uint32_t slot, qpn, qp_index, cq;
	uint32_t key[OWNER_KEYS]; /* numbers */
	uint64_t addr[OWNER_KEYS];
	int pipe_fd;
	uint8_t id[16];
};

struct owner {
	struct vb_adapter *a;
	struct owner_info info;
	struct vb_pub_key *row[OWNER_KEYS];
	int pipe[2];
	pthread_t engine;
	int stop[2];
};

static inline void *owner_engine(void *arg)
{
	struct owner *o = arg;
	char byte;

	if (vb_liveness_engine_start(o->a))
		_exit(5);
	say(&o->info, sizeof(o->info));
	if (read(o->stop[0], &byte, 1) < 0)
		_exit(5);
	vb_liveness_engine_stop(o->a);
	return NULL;
}

static inline void *owner_file(int seals, int *fd)
{
	void *mem;

	*fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (*fd < 0 || ftruncate(*fd, OWNER_BYTES) || (seals && fcntl(*fd, F_ADD_SEALS, seals)))
		_exit(6);
	mem = mmap(NULL, OWNER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	return mem;
}

static inline void owner_publish(struct owner *o, enum owner_key which, void *mem, int fd)
{
	struct vb_pub_key *row;
	struct stat st;
	uint32_t index;

	if (vb_adapter_new_index(o->a, VB_NUMBER_KEY, &index, &o->info.key[which]))
		_exit(7);
	row = o->row[which] = vb_adapter_pub_key(o->a, index);
	row->addr = row->iova = (uintptr_t)mem;
	row->length = OWNER_BYTES;
	row->rkey = o->info.key[which] << 8 | 0x80;
	row->lkey = o->info.key[which] << 8;
	row->file_fd = fd;
	if (fd >= 0) {
		if (fstat(fd, &st))
			_exit(7);
		row->memory = VB_KEY_SHARED;
		row->file_dev = st.st_dev;
		row->file_ino = st.st_ino;
	}
	o->info.addr[which] = (uintptr_t)mem;
	atomic_store(&row->word, atomic_load(&row->word) + 3);
}

static inline void *owner_memory(void)
{
	void *mem =
		mmap(NULL, OWNER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memset(mem, 1, OWNER_BYTES);
	return mem;
}

static inline int owner_make(struct owner *o)
{
	void *mem;
	int fd, err = vb_adapter_open(OWNER_DEVICE, &o->a);

	if (err || o->a->alone_reason)
		return err ? err : -EXDEV;
	owner_publish(o, KEY_PRIVATE, owner_memory(), -1);
	mem = owner_file(F_SEAL_SHRINK, &fd);
	owner_publish(o, KEY_SEALED, mem, fd);
	mem = owner_file(0, &fd);
	owner_publish(o, KEY_UNSEALED, mem, fd);
	mem = owner_memory();
	mprotect(mem, OWNER_BYTES, PROT_READ);
	owner_publish(o, KEY_READONLY, mem, -1);
	/* Far from where the next mapping would fill the hole. */
	mem = mmap((void *)0x7e9000000000, OWNER_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		   0);
	owner_publish(o, KEY_UNMAPPED, mem, -1);
	munmap(mem, OWNER_BYTES);

	err = vb_adapter_new_index(o->a, VB_NUMBER_QP, &o->info.qp_index, &o->info.qpn);
	if (err)
		return err;
	vb_adapter_pub_qp(o->a, o->info.qp_index)->qpn = o->info.qpn;
	atomic_store(&vb_adapter_mbx_qp(o->a, o->info.qp_index)->word, 0x1234);
	o->info.cq = 17;
	atomic_store(&vb_adapter_pub_cq(o->a, 17)->word, 3);
	atomic_store(&vb_adapter_mbx_cq(o->a, 17)->arm, 5);
	err = vb_eventpipe_create(o->pipe);
	o->info.pipe_fd = o->pipe[1];
	o->info.pid = getpid();
	o->info.slot = o->a->slot;
	memcpy(o->info.id, o->a->id, 16);
	return err;
}

/* Frees KEY_PRIVATE and says whether nobody touched it any more. */
static inline void owner_deregister(struct owner *o)
{
	struct vb_pub_key *row = o->row[KEY_PRIVATE];
	bool clear;

	atomic_store(&row->word, atomic_load(&row->word) & ~1ull);
	clear = vb_access_wait(o->a, 0, row->rkey, VB_ACCESS_BOUND_NS);
	say(&clear, sizeof(clear));
}

static inline void owner_command(struct owner *o, char command)
{
	struct pollfd bell = {.fd = o->a->doorbell_fd, .events = POLLIN};
	char buf[64] = "";
	uint64_t offset;

	switch (command) {
	case 'r': /* grow a little: there is room for it behind what a peer has mapped */
		offset = vb_adapter_alloc_pub(o->a, 300u << 10, 64);
		*(uint64_t *)vb_adapter_pub_at(o->a, offset) = 0x600d;
		say(&offset, sizeof(offset));
		break;
	case 'g': /* grow: more than any reservation that was made for what there is */
		offset = vb_adapter_alloc_pub(o->a, 100u << 20, 64);
		*(uint64_t *)vb_adapter_pub_at(o->a, offset) = 0x600d;
		say(&offset, sizeof(offset));
		offset = vb_adapter_alloc_mbx(o->a, 5u << 20, 64);
		*(uint64_t *)vb_adapter_mbx_at(o->a, offset) = 0x600d;
		say(&offset, sizeof(offset));
		break;
	case 'b': /* was the bell rung? */
		poll(&bell, 1, -1);
		vb_adapter_drain_doorbell(o->a, true);
		say("b", 1);
		break;
	case 'e': /* read an event */
		if (read(o->pipe[0], buf, 8) != 8)
			_exit(8);
		say(buf, 8);
		break;
	case 'n': /* another pipe under the same number */
		close(o->pipe[0]);
		close(o->pipe[1]);
		if (vb_eventpipe_create(o->pipe))
			_exit(9);
		if (o->pipe[1] != o->info.pipe_fd)
			o->pipe[1] = dup3(o->pipe[1], o->info.pipe_fd, O_CLOEXEC);
		say("n", 1);
		break;
	case 's': /* say what the memory of the first two keys holds */
		say((void *)(uintptr_t)o->info.addr[KEY_PRIVATE], OWNER_BYTES);
		say((void *)(uintptr_t)o->info.addr[KEY_SEALED], OWNER_BYTES);
		break;
	case 'd':
		owner_deregister(o);
		break;
	}
}

static inline int role_owner(void)
{
	static struct owner o;
	char command;

	o.info.err = owner_make(&o);
	if (o.info.err || pipe2(o.stop, O_CLOEXEC)) {
		say(&o.info, sizeof(o.info));
		return 1;
	}
	pthread_create(&o.engine, NULL, owner_engine, &o);
	while ((command = listen_for_command()))
		owner_command(&o, command);
	close(o.stop[1]);
	pthread_join(o.engine, NULL);
	vb_adapter_close(o.a);
	return 0;
}

static inline struct other owner_start(struct owner_info *info)
{
	struct other other = other_start("owner", NULL);

	memset(info, 0xff, sizeof(*info));
	assert_true(other_hear(&other, info, sizeof(*info)));
	assert_int_equal(info->err, 0);
	return other;
}

#endif

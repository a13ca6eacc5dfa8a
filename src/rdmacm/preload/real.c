/* SPDX-License-Identifier: BSD-2-Clause */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <infiniband/verbs.h>
#include <rdma/rsocket.h>

#include "rdmacm/preload/preload.h"

#define CONFIG	"/etc/rdma/rsocket/preload_config"
#define LIB_MAX 2

/* Where a library's code lies. */
struct range {
	uintptr_t begin, end;
};

static struct vb_real real;
static struct range ours[LIB_MAX];

static void look_up(void *pointer, const char *name)
{
	void *found = dlsym(RTLD_NEXT, name);

	memcpy(pointer, &found, sizeof(found));
}

#define LOOK_UP(name) look_up(&real.name, #name)

static void look_up_all(void)
{
	LOOK_UP(socket);
	LOOK_UP(bind);
	LOOK_UP(listen);
	LOOK_UP(accept);
	LOOK_UP(accept4);
	LOOK_UP(connect);
	LOOK_UP(shutdown);
	LOOK_UP(close);
	LOOK_UP(dup);
	LOOK_UP(dup2);
	LOOK_UP(dup3);
	LOOK_UP(fcntl);
	LOOK_UP(ioctl);
	LOOK_UP(getpeername);
	LOOK_UP(getsockname);
	LOOK_UP(getsockopt);
	LOOK_UP(setsockopt);
	LOOK_UP(read);
	LOOK_UP(readv);
	LOOK_UP(recv);
	LOOK_UP(recvfrom);
	LOOK_UP(recvmsg);
	LOOK_UP(recvmmsg);
	LOOK_UP(write);
	LOOK_UP(writev);
	LOOK_UP(send);
	LOOK_UP(sendto);
	LOOK_UP(sendmsg);
	LOOK_UP(sendmmsg);
	LOOK_UP(sendfile);
	LOOK_UP(poll);
	LOOK_UP(ppoll);
	LOOK_UP(select);
	LOOK_UP(pselect);
	LOOK_UP(epoll_create1);
	LOOK_UP(epoll_ctl);
	LOOK_UP(epoll_wait);
	LOOK_UP(epoll_pwait);
}

const struct vb_real *vb_real(void)
{
	static _Atomic bool done;

	/* Twice gives the same; a lock could be wanted by a signal handler. */
	if (!atomic_load_explicit(&done, memory_order_acquire)) {
		look_up_all();
		atomic_store_explicit(&done, true, memory_order_release);
	}
	return &real;
}

/* The executable segment that an address lies in. */
static int find_range(struct dl_phdr_info *info, size_t size, void *data)
{
	struct range *range = data;

	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uintptr_t begin = info->dlpi_addr + segment->p_vaddr;

		if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X) ||
		    range->begin < begin || range->begin >= begin + segment->p_memsz)
			continue;
		*range = (struct range){.begin = begin, .end = begin + segment->p_memsz};
		return 1;
	}
	return 0;
}

static void find_ours(void)
{
	ours[0].begin = (uintptr_t)dlsym(RTLD_DEFAULT, "rsocket");
	ours[1].begin = (uintptr_t)dlsym(RTLD_DEFAULT, "ibv_get_device_list");
	for (int i = 0; i < LIB_MAX; i++)
		if (!dl_iterate_phdr(find_range, &ours[i]))
			ours[i] = (struct range){0};
}

bool vb_called_by_us(const void *address)
{
	static _Atomic bool done;
	uintptr_t at = (uintptr_t)address;

	if (!atomic_load_explicit(&done, memory_order_acquire)) {
		find_ours();
		atomic_store_explicit(&done, true, memory_order_release);
	}
	for (int i = 0; i < LIB_MAX; i++)
		if (at >= ours[i].begin && at < ours[i].end)
			return true;
	return false;
}

/* A word of the file: "*" or a name, with the prefix that headers put before it or without. */
static bool matches(const char *word, const char *const names[])
{
	if (!strcmp(word, "*"))
		return true;
	for (int i = 0; names[i]; i++)
		if (!strcasecmp(word, names[i]))
			return true;
	return false;
}

static bool line_matches(const char *line, int domain, int type, int protocol)
{
	static const char *const inet[] = {"INET", "AF_INET", "PF_INET", NULL};
	static const char *const inet6[] = {"INET6", "AF_INET6", "PF_INET6", NULL};
	static const char *const stream[] = {"STREAM", "SOCK_STREAM", NULL};
	static const char *const dgram[] = {"DGRAM", "SOCK_DGRAM", NULL};
	static const char *const tcp[] = {"TCP", "IPPROTO_TCP", NULL};
	static const char *const udp[] = {"UDP", "IPPROTO_UDP", NULL};
	char program[64], words[3][16];
	const char *self = program_invocation_short_name;

	if (line[0] == '#' ||
	    sscanf(line, "%63s%15s%15s%15s", program, words[0], words[1], words[2]) != 4)
		return false;
	if (strcmp(program, "*") && strncasecmp(program, self, strlen(program)))
		return false;
	return matches(words[0], domain == AF_INET ? inet : inet6) &&
	       matches(words[1], type == SOCK_STREAM ? stream : dgram) &&
	       matches(words[2], protocol == IPPROTO_TCP ? tcp : udp);
}

bool vb_wanted(int domain, int type, int protocol)
{
	char line[128];
	bool wanted = false, any = false;
	FILE *file;

	type &= ~(SOCK_NONBLOCK | SOCK_CLOEXEC);
	if ((domain != AF_INET && domain != AF_INET6) ||
	    (type != SOCK_STREAM && type != SOCK_DGRAM))
		return false;
	if (!protocol)
		protocol = type == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP;
	if (protocol != (type == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP))
		return false;
	file = fopen(CONFIG, "re");
	if (!file)
		return true;
	while (!wanted && fgets(line, sizeof(line), file)) {
		any = any || (line[0] != '#' && line[0] != '\n');
		wanted = line_matches(line, domain, type, protocol);
	}
	fclose(file);
	return wanted || !any;
}

static void set_from(int rs, const char *variable, int option)
{
	const char *text = getenv(variable);
	int value = text ? atoi(text) : 0;

	if (value > 0)
		rsetsockopt(rs, SOL_RDMA, option, &value, sizeof(value));
}

void vb_preload_setup(int rs)
{
	set_from(rs, "RS_SQ_SIZE", RDMA_SQSIZE);
	set_from(rs, "RS_RQ_SIZE", RDMA_RQSIZE);
	set_from(rs, "RS_INLINE", RDMA_INLINE);
}

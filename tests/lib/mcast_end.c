/* SPDX-License-Identifier: BSD-2-Clause */
#include "lib/mcast_end.h"

#include <arpa/inet.h>
#include <grp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define QPS   8
#define SLOTS 256u /* receives of each QP */
#define SIZE  4200u

static struct {
	struct verbs_end end;
	struct slots slots, out;
	struct ibv_qp *qp[QPS];
	struct tally tally[QPS];
	int n;
	union ibv_gid group;
} my;

union ibv_gid mcast_group(const char *text)
{
	union ibv_gid gid = {.raw = {[10] = 0xff, [11] = 0xff}};

	if (inet_pton(AF_INET, text, gid.raw + 12) != 1)
		CHECK(inet_pton(AF_INET6, text, gid.raw) == 1);
	return gid;
}

static bool is_v4(const union ibv_gid *gid)
{
	static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

	return !memcmp(gid->raw, prefix, sizeof(prefix));
}

int mcast_source(struct ibv_context *context, const union ibv_gid *group)
{
	union ibv_gid gid;

	for (int i = 0; ibv_query_gid(context, 1, i, &gid) == 0; i++)
		if ((gid.global.subnet_prefix || gid.global.interface_id) &&
		    is_v4(&gid) == is_v4(group))
			return i;
	CHECK(!"an address of the group's protocol");
	return -1;
}

static void post(int which, uint64_t slot)
{
	struct ibv_sge sge = slots_sge(&my.slots, (uint64_t)which * SLOTS + slot);
	struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1}, *bad;

	CHECK(ibv_post_recv(my.qp[which], &wr, &bad) == 0);
}

static void open_all(int n)
{
	struct pair_opts opts = pair_defaults;

	CHECK(n > 0 && n <= QPS);
	opts.recvs = SLOTS;
	opts.cqe = 4096;
	many_open(&my.end, IBV_QPT_UD, &opts);
	slots_new(&my.slots, my.end.pd, SIZE, SLOTS * QPS);
	slots_new(&my.out, my.end.pd, SIZE, 1);
	for (my.n = 0; my.n < n; my.n++) {
		struct ibv_qp *first = my.end.qp;

		my.qp[my.n] = my.n ? many_qp(&my.end, IBV_QPT_UD, NULL) : first;
		my.end.qp = my.qp[my.n];
		many_up(&my.end, 0, NULL, 0);
		my.end.qp = first;
		for (uint64_t slot = 0; slot < SLOTS; slot++)
			post(my.n, slot);
	}
}

static void close_all(void)
{
	for (int i = 1; i < my.n; i++)
		CHECK(ibv_destroy_qp(my.qp[i]) == 0);
	slots_free(&my.slots);
	slots_free(&my.out);
	end_close(&my.end);
}

static void send_all(const char *text, uint32_t sender, uint32_t first, uint32_t count,
		     uint32_t size)
{
	union ibv_gid gid = mcast_group(text);
	struct ibv_ah *ah = many_ah(my.end.pd, mcast_source(my.end.context, &gid), &gid);
	struct ibv_sge sge = slots_sge(&my.out, 0);
	struct ibv_wc wc;

	sge.length = size;
	for (uint32_t i = first; i < first + count; i++) {
		message_make(my.out.bytes, sender, i, size);
		CHECK(post_ud(&my.end, IBV_WR_SEND, i, &sge, 1, ah, 0xffffff, MANY_QKEY,
			      IBV_SEND_SIGNALED) == 0);
		wait_wc(my.end.send_cq, &wc);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == i);
	}
	CHECK(ibv_destroy_ah(ah) == 0);
}

/* What stands before the data: to the group. */
static void check_header(const uint8_t *grh)
{
	const uint8_t *group = my.group.raw;

	if (grh[0] >> 4 == 6)
		CHECK(!memcmp(grh + 24, group, 16));
	else
		CHECK(grh[20] == 0x45 && !memcmp(grh + 36, group + 12, 4));
}

static void take_one(void)
{
	struct ibv_wc wc;
	int which = 0;
	const uint8_t *bytes;

	wait_wc(my.end.recv_cq, &wc);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.wc_flags & IBV_WC_GRH && wc.src_qp > 1);
	while (which < my.n && my.qp[which]->qp_num != wc.qp_num)
		which++;
	CHECK(which < my.n);
	bytes = my.slots.bytes + ((uint64_t)which * SLOTS + wc.wr_id) * SIZE;
	check_header(bytes);
	message_count(&my.tally[which], bytes + MANY_GRH, wc.byte_len - MANY_GRH);
	post(which, wc.wr_id);
}

static void wait_all(uint32_t sender, uint32_t below, bool whole)
{
	for (int i = 0; i < my.n; i++) {
		while (my.tally[i].next[sender] < below)
			take_one();
		CHECK(my.tally[i].next[sender] == below);
		CHECK(!whole || !my.tally[i].gaps);
	}
}

static void each_qp(int (*verb)(struct ibv_qp *, const union ibv_gid *, uint16_t), const char *text)
{
	my.group = mcast_group(text);
	for (int i = 0; i < my.n; i++)
		CHECK(verb(my.qp[i], &my.group, 0) == 0);
}

/* Whether there is more to do. */
static bool obey(const char *line)
{
	uint32_t sender, first, count, size;
	char word[16] = "", text[64] = "";
	int n;

	CHECK(sscanf(line, "%15s %63s", word, text) >= 1);
	if (!strcmp(word, "open") && sscanf(line, "%*s %d", &n) == 1)
		open_all(n);
	else if (!strcmp(word, "attach"))
		each_qp(ibv_attach_mcast, text);
	else if (!strcmp(word, "detach"))
		each_qp(ibv_detach_mcast, text);
	else if (!strcmp(word, "send") &&
		 sscanf(line, "%*s %*s %u %u %u %u", &sender, &first, &count, &size) == 4)
		send_all(text, sender, first, count, size);
	else if ((!strcmp(word, "wait") || !strcmp(word, "got")) &&
		 sscanf(line, "%*s %u %u", &sender, &count) == 2 && sender < 64)
		wait_all(sender, count, word[0] == 'w');
	else
		CHECK(!strcmp(word, "close"));
	if (strcmp(word, "close"))
		return true;
	close_all();
	return false;
}

void mcast_main(int argc, char **argv)
{
	char line[256];
	bool more = true;

	if (argc < 2 || strcmp(argv[1], "--end"))
		return;
	if (argc == 4 && !strcmp(argv[2], "--uid")) {
		uid_t uid = (uid_t)atoi(argv[3]);

		CHECK(setgroups(0, NULL) == 0 && setgid((gid_t)uid) == 0 && setuid(uid) == 0);
	}
	while (more && fgets(line, sizeof(line), stdin)) {
		more = obey(line);
		printf("ok\n");
		fflush(stdout);
	}
	exit(more);
}

void mcast_start(struct mcast_end *e, int qps)
{
	int fds[2];

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
	e->pid = fork();
	CHECK(e->pid >= 0);
	if (!e->pid) {
		char *args[] = {"end", "--end", NULL};

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(fds[1], 0);
		dup2(fds[1], 1);
		execv("/proc/self/exe", args);
		_exit(127);
	}
	close(fds[1]);
	e->fd = fds[0];
	mcast_tell(e, "open %d", qps);
}

void mcast_tell(struct mcast_end *e, const char *fmt, ...)
{
	char line[256], answer[4] = "";
	va_list ap;
	int len;

	va_start(ap, fmt);
	len = vsnprintf(line, sizeof(line) - 1, fmt, ap);
	va_end(ap);
	line[len++] = '\n';
	CHECK(send(e->fd, line, (size_t)len, MSG_NOSIGNAL) == len);
	CHECK(recv(e->fd, answer, 3, MSG_WAITALL) == 3);
	CHECK(!strcmp(answer, "ok\n"));
}

void mcast_stop(struct mcast_end *e)
{
	int status;

	mcast_tell(e, "close");
	CHECK(waitpid(e->pid, &status, 0) == e->pid && status == 0);
	close(e->fd);
}

void mcast_kill(struct mcast_end *e)
{
	kill(e->pid, SIGKILL);
	CHECK(waitpid(e->pid, NULL, 0) == e->pid);
	close(e->fd);
}
